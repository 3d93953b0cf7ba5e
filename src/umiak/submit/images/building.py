"""Builds and pushes an image with docker or buildah. An adapter."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile

from umiak.core.problem import UmiakError
from umiak.submit.images import dockerfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from umiak.submit.images.dockerfile import ImageRecipe

BUILDERS = ("docker", "buildah")


def find(environ: Mapping[str, str], wanted: str = "") -> str:
    """docker if its daemon answers, otherwise buildah. UmiakError if there is neither."""
    tried = []
    for name in (wanted,) if wanted else BUILDERS:
        program = shutil.which(name, path=environ.get("PATH"))
        if program is None:
            tried.append(f"{name} is not installed")
        elif name == "docker" and (why := _daemon_error(program, environ)):
            tried.append(f"docker: {why}")
        else:
            return name
    hint = "install buildah, which needs no daemon, or start docker; `umiak image --dry_run` prints the Dockerfile"
    raise UmiakError.refused("UM-IMAGE-002", "no program that builds images", why="; ".join(tried), hint=hint)


def build(
    recipe: ImageRecipe,
    tag: str,
    builder: str,
    environ: Mapping[str, str],
    *,
    push: bool,
    on_command: Callable[[tuple[str, ...]], None],
) -> None:
    """Build it in a directory that has nothing but the Dockerfile, so that nothing of this machine gets into it."""
    with tempfile.TemporaryDirectory(prefix="umiak-image-") as directory:
        with open(os.path.join(directory, "Dockerfile"), "w", encoding="utf-8") as file:
            file.write(dockerfile.render(recipe))
        for words in dockerfile.commands(recipe, tag, builder, directory, push=push):
            on_command(words)
            status = subprocess.run(words, env=dict(environ), stdin=subprocess.DEVNULL, check=False).returncode
            if status:
                step = next((each for each in ("build", "run", "push") if each in words[:2]), "build")
                hint = {
                    "build": "the lines above say which step; its last one imports what the image must have",
                    "run": "the image can't import what it must have: the lines above say what",
                    "push": f"log in first: `{builder} login {tag.partition('/')[0]}`",
                }[step]
                what = f"{builder} {step} ended with status {status}: {tag}"
                raise UmiakError.refused("UM-IMAGE-003", what, hint=hint)


def _daemon_error(program: str, environ: Mapping[str, str]) -> str:
    asked = [program, "version", "--format", "{{.Server.Version}}"]
    try:
        done = subprocess.run(asked, env=dict(environ), capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no answer"])[-1]
