"""`umiak image`: a Dockerfile for jobs, printed or built. A program."""

from __future__ import annotations

import json
import shlex

from umiak.cli.image.flags import FLAGS
from umiak.core.problem import Exit, UmiakError
from umiak.schema import command_line
from umiak.schema.flags import FlagFindings
from umiak.submit.images import dockerfile
from umiak.submit.images.dockerfile import ImageDevice, ImagePlatform, ImageRecipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer
    from umiak.schema.flags import Parsed

NONE = "none"


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak image`. The result is the exit status."""
    parsed = command_line.parse(FLAGS, argv, environ, command="umiak image", starts_program=False)
    if parsed.wants_help:
        return printer.page("image")
    recipe = _recipe(parsed)
    tag = parsed.text("tag")
    is_json = parsed.truth("json")
    is_shown = not tag or parsed.truth("dry_run")
    commands = []
    if tag and is_shown:
        builder = parsed.text("builder") or "docker"
        commands = [*dockerfile.commands(recipe, tag, builder, "DIR", push=parsed.truth("push"))]
    if is_shown and not is_json:
        printer.data(dockerfile.render(recipe))
        for words in commands:
            printer.talk(shlex.join(words))
    elif not is_shown:
        from umiak.submit.images import building

        builder = building.find(environ, parsed.text("builder"))
        building.build(
            recipe,
            tag,
            builder,
            environ,
            push=parsed.truth("push"),
            on_command=lambda words: printer.talk(f"$ {shlex.join(words[:3])} ..."),
        )
        if not is_json:
            printer.data(tag)
    if is_json:
        data = {"dockerfile": dockerfile.render(recipe), "tag": tag or None, "commands": [[*each] for each in commands]}
        printer.data(json.dumps(data, ensure_ascii=False))
    return Exit.DONE


def _recipe(parsed: Parsed) -> ImageRecipe:
    findings = FlagFindings(parsed)
    version = parsed.text("paddle")
    recipe = ImageRecipe(
        device=ImageDevice(parsed.text("device")),
        cuda=parsed.text("cuda"),
        paddle="" if version.lower() == NONE else version,
        platform=ImagePlatform(parsed.text("platform")),
        base=parsed.text("base"),
        registry=parsed.text("registry"),
        packages=_words(parsed.text("package")),
        imports=_words(parsed.text("import")),
    )
    for what, hint in dockerfile.problems(recipe):
        findings.problem("UM-IMAGE-001", what, hint=hint)
    if parsed.truth("push") and not parsed.said("tag"):
        findings.problem("UM-IMAGE-001", "--push without --tag", hint="--tag REGISTRY/NAME:VERSION")
    for text in (recipe.base, recipe.registry, recipe.paddle, recipe.cuda, parsed.text("tag")):
        if text.split() not in ([], [text]):
            findings.problem(
                "UM-IMAGE-001", f"not one word: {text!r}", hint="names of images and versions have no spaces"
            )
    for name in recipe.imports:
        if not all(part.isidentifier() for part in name.split(".")):
            findings.problem(
                "UM-IMAGE-001", f"--import: not a module: {name}", hint="--import pandas,sklearn.linear_model"
            )
    UmiakError.raise_any(findings.problems)
    return recipe


def _words(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())
