"""What stands between the marks of pages: tables of commands, flags, keys and fields as Markdown. A program, part of `generate`.

A mark names a function of BLOCKS, and what it is about: `<!-- begin: generated flags submit -->`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from docs import fluid_page, protocol_tables, worker_environment, zoo_1_8_page, zoo_page
from umiak import platforms
from umiak.cli.texts.command_page import CommandPage
from umiak.cli.texts.help_text import default, page_of, spelling
from umiak.core.value import fields
from umiak.doctor.checks import CHECKS
from umiak.fluid.surface import without_effect
from umiak.operator.controller import metrics
from umiak.paddlejob import job_fields, kubeflow_fields, status_fields
from umiak.paddlejob.fields import FieldKind, ResourceField, described
from umiak.schema import kinds
from umiak.schema.features.section import STEPS
from umiak.schema.flags import Flag, FlagOrigin
from umiak.schema.keys import Key, known
from umiak.schema.settings import table as settings_table
from umiak.submit.states import STATES
from umiak.testing import environments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


# ---- commands


def command(name: str) -> str:
    """All that `umiak NAME --help` says."""
    page = page_of(name)
    return "\n\n".join([usage(name), page.about, examples(name), _flag_table(page.flags), page.ending])


def usage(name: str) -> str:
    """The command line."""
    return _fenced("", page_of(name).usage)


def examples(name: str) -> str:
    """Commands with what they do."""
    return _fenced("sh", page_of(name).example_lines)


def flags(name: str) -> str:
    """All flags that are obeyed; with the word of an origin behind the name those of it."""
    return _flag_table(_obeyed(name)[1])


def grouped_flags(name: str) -> str:
    """The same with a heading for each group."""
    page, chosen = _obeyed(name)
    groups = {group: [flag for flag in chosen if flag.group == group] for group in page.groups}
    return "\n\n".join(f"### {group}\n\n{_flag_table(members)}" for group, members in groups.items() if members)


def old_flags(name: str) -> str:
    """Old names of flags."""
    rows = [[f"`--{old}`", f"`--{flag.name}`"] for flag in page_of(name).flags for old in flag.old]
    return table(("old name", "is now"), rows)


def refused_flags(name: str) -> str:
    """Flags that are errors."""
    rows = [
        [code(f"--{flag.name}"), _codes(flag.env), cell(flag.refused)] for flag in page_of(name).flags if flag.refused
    ]
    return table(("flag", "environment", "why"), rows)


def _obeyed(name: str) -> tuple[CommandPage, list[Flag]]:
    name, _, origin = name.partition(" ")
    page = page_of(name)
    wanted = (FlagOrigin(origin),) if origin else tuple(FlagOrigin)
    return page, [flag for flag in page.flags if not flag.refused and flag.origin in wanted]


def _flag_table(chosen: Iterable[Flag]) -> str:
    rows = [[code(spelling(flag)), code(default(flag)), _codes(flag.env), cell(flag.help)] for flag in chosen]
    if not any(row[2] for row in rows):
        return table(("flag", "default", "meaning"), [[row[0], row[1], row[3]] for row in rows])
    return table(("flag", "default", "environment", "meaning"), rows)


# ---- keys of files


def keys(places: str) -> str:
    """The keys of tables and of classes with settings, as `module:NAME`; without those that are only known so that they can be warned of."""
    rows = [[code(key.name), _kind(key), _default(key), _meaning(key)] for key in _keys(places) if known(key)]
    return table(("key", "value", "default", "meaning"), rows)


def reasons(words: str) -> str:
    """Keys that are `refused`, `ignored` or `settled`, the first word, with the reason."""
    which, _, places = words.partition(" ")
    rows = [[code(key.name), cell(_sentence(getattr(key, which)))] for key in _keys(places) if getattr(key, which)]
    return table(("key", "why"), rows)


def _keys(places: str) -> list[Key]:
    rows: list[Key] = []
    for place in places.split():
        module, _, name = place.partition(":")
        declared = getattr(importlib.import_module(module), name, None)
        if declared is None:
            raise SystemExit(
                f"docs/generate.py: expected a table of keys or a class with settings, got nothing: {place}"
            )
        rows += [
            key for key in (settings_table(declared) if isinstance(declared, type) else declared) if key not in rows
        ]
    return rows


def _kind(key: Key) -> str:
    value = _codes(key.choices) if key.kind is kinds.CHOICE else cell(key.kind.phrase)
    least = f", {key.least} or more" if key.least is not None else ""
    return value + least + "".join(f", or {number}" for number in key.also)


def _default(key: Key) -> str:
    if key.required:
        return "required"
    if key.default_said or key.default is None:
        return cell(key.default_said)
    return code(str(key.default).lower() if isinstance(key.default, bool) else str(key.default))


def _meaning(key: Key) -> str:
    return cell(key.meaning) + (f" *({key.origin.value})*" if key.origin else "")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].removesuffix('.')}."


def feature_steps(_: str) -> str:
    """What can be done to numbers of features."""
    return table(("transform", "what it does"), [[code(name), cell(meaning)] for name, meaning in STEPS.items()])


# ---- PaddleJob


def paddlejob_fields(which: str) -> str:
    """The fields of `spec`, of `status`, or those of Kubeflow's `spec`."""
    if which == "status":
        rows = [
            [code(path.removeprefix("status.")), _field_value(field), _field_meaning(field)]
            for path, field in described(status_fields.FIELDS, "status")
        ]
        return table(("field", "value", "meaning"), rows)
    is_foreign = which == "kubeflow"
    rows = []
    for path, field in described(kubeflow_fields.FIELDS if is_foreign else job_fields.FIELDS, "spec"):
        meaning = field.meaning if is_foreign and not field.unused else _field_meaning(field)
        preset = "required" if field.required else field.default or ""
        rows.append([code(path.removeprefix("spec.")), _field_value(field), preset, meaning])
    return table(("field", "value", "default", "meaning"), rows)


def paddlejob_rules(_: str) -> str:
    """What API servers refuse."""
    rules = [*job_fields.RULES, *job_fields.name_rules()]
    rules += [rule for _, field in described(job_fields.FIELDS, "spec") for rule in field.rules]
    return "\n".join(dict.fromkeys(f"- {rule.message}" for rule in rules))


def _field_value(field: ResourceField) -> str:
    if field.words:
        return _codes(field.words)
    if field.kind is FieldKind.INTEGER and field.least is not None and field.most is not None:
        return f"integer, {field.least} to {field.most:,}"
    return {
        FieldKind.INTEGER: "integer" if field.least is None else f"integer, {field.least} or more",
        FieldKind.BOOLEAN: "boolean",
        FieldKind.TIME: "time",
        FieldKind.TEMPLATE: "pod template",
    }.get(field.kind, field.kind.value.removeprefix("an ").removeprefix("a "))


def _field_meaning(field: ResourceField) -> str:
    new = "" if field.is_old else "*New.* "
    return f"{new}{field.meaning}{f' No effect: {field.unused}.' if field.unused else ''}"


# ---- programs


def checks(_: str) -> str:
    """What `umiak doctor` looks at."""
    rows = [[code(check.name), check.group, check.about, f"{check.limit_s:g} s"] for check in CHECKS]
    return table(("check", "group", "what it looks at", "limit"), rows)


def operator_metrics(_: str) -> str:
    """The metrics of the operator."""
    return table(("metric", "meaning"), [[code(name), meaning] for name, meaning in metrics.names().items()])


def states(_: str) -> str:
    """What places call the states of a job."""
    rows = [[name, code(word), state.value] for name, words in STATES.items() for word, state in words.items()]
    return table(("backend", "word", "state"), rows)


def platform_rules(_: str) -> str:
    """Every rule of `umiak.platforms` in the order of decision."""
    rows = [
        [
            code(rule.name),
            _purpose(rule.place),
            _codes(rule.markers, " "),
            _codes(rule.variables, " "),
            _filled(rule.name),
        ]
        for rule in platforms.RULES
    ]
    return table(("name", "what it is", "told by one of", "reads as well", "fills in"), rows)


def _purpose(place: str) -> str:
    """The first paragraph of a rule's docstring, on one line."""
    module, _, function = place.partition(":")
    rule = getattr(importlib.import_module(f"umiak.platforms.{module}"), function)
    return " ".join((rule.__doc__ or "").strip().partition("\n\n")[0].split()).replace("`", "")


def _filled(name: str) -> str:
    """What a node learns there: the filled fields of its placement, tried with the simulated platform."""
    if name not in environments.PLATFORMS:
        return "one node"
    environ = environments.environment(name, nodes=2, rank=1)
    placement = platforms.detect(environ, only=name, read=environments.files(name, nodes=2).get)
    assert placement is not None, f"the simulated {name} is not recognised"
    filled = [field for field in fields(placement) if getattr(placement, field) not in (None, ())]
    words = [field.replace("_", " ") for field in filled if field not in ("platform", "reason")]
    if name in environments.WITH_SERVERS:
        words.append("roles")
    return ", ".join(dict.fromkeys(words))


# ---- small parts


def table(titles: tuple[str, ...], rows: Iterable[list[str]]) -> str:
    """A table of Markdown."""
    lines = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def code(text: str) -> str:
    """As code in a cell."""
    return f"`{cell(text)}`" if text else ""


def cell(text: str) -> str:
    """As text in a cell."""
    return text.replace("|", "\\|")


def _codes(words: Iterable[str], between: str = ", ") -> str:
    return between.join(code(word) for word in words)


def _fenced(language: str, lines: Iterable[str]) -> str:
    return "\n".join([f"```{language}", *lines, "```"])


def fluid_names(_all: str) -> str:
    """Every used name of paddle.fluid: works, or refused with the reason."""
    rows = [[name, count, verdict, cell(text)] for name, count, verdict, text in fluid_page.rows()]
    return f"{fluid_page.summary()}\n\n" + table(("name", "files", "", "why, and what works instead"), rows)


def fluid_public_names(_all: str) -> str:
    """Public names of 1.8 that are in no file that was counted."""
    rows = [[name, verdict, cell(text)] for name, verdict, text in fluid_page.public_rows()]
    return f"{fluid_page.public_summary()}\n\n" + table(("name", "", "why, and what works instead"), rows)


def fluid_silent(_all: str) -> str:
    """Arguments of 1.8 without effect."""
    rows = [[_listed(names), _listed(arguments), cell(why)] for names, arguments, why in without_effect.SILENT]
    return table(("of", "arguments", "why they have no effect"), rows)


def fluid_remarked(_all: str) -> str:
    """Those of which a warning says it."""
    rows = [
        [_listed(name), _listed(argument), "any" if usual is ... else f"other than `{usual!r}`", cell(why)]
        for name, argument, usual, why in without_effect.REMARKED
    ]
    return table(("of", "argument", "value", "why it has no effect"), rows)


def zoo_1_8(_all: str) -> str:
    """Runners of PaddleRec 1.8.5."""
    return zoo_1_8_page.runners()


def _listed(words: str) -> str:
    return ", ".join(f"`{word.strip('_')}`" for word in words.split())


BLOCKS: dict[str, Callable[[str], str]] = {
    function.__name__: function
    for function in (
        command,
        feature_steps,
        usage,
        examples,
        flags,
        grouped_flags,
        old_flags,
        refused_flags,
        keys,
        reasons,
        paddlejob_fields,
        paddlejob_rules,
        checks,
        operator_metrics,
        states,
        platform_rules,
        protocol_tables.messages,
        worker_environment.variables,
        fluid_names,
        fluid_public_names,
        fluid_silent,
        fluid_remarked,
        zoo_page.models,
        zoo_1_8,
    )
}
"""By the first word of a mark; each takes the others."""
