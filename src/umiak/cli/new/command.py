"""`umiak new`: looks at tables and writes a config for them. A program."""

from __future__ import annotations

import json
import shlex

from umiak.cli.new.flags import FLAGS
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.shown import inert, one_line
from umiak.schema import command_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer
    from umiak.train.drafting.program import NewConfig

EXAMPLE = "`umiak new ctr --data 'logs/*.parquet' --label click`"


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak new`. The result is the exit status."""
    parsed = command_line.parse(FLAGS, argv, environ, command="umiak new", starts_program=False, arguments=1)
    if parsed.wants_help:
        return printer.page("new")
    problems = list(parsed.problems)
    if not parsed.arguments:
        problems.append(Problem(code="UM-CLI-005", what="umiak new: no directory is named", hint=EXAMPLE))
    if not parsed.said("data"):
        problems.append(Problem(code="UM-CLI-005", what="umiak new: --data is missing", hint=EXAMPLE))
    if problems:
        raise UmiakError(*problems)
    from umiak.cli.train import check_installed

    check_installed(("yaml", "numpy", "umiak_native"))
    from umiak.train.drafting.program import NewRequest, new

    names = parsed.text("names")
    made = new(
        NewRequest(
            directory=parsed.arguments[0].rstrip("/"),
            data=parsed.text("data"),
            label=parsed.text("label") if parsed.said("label") else None,
            command=one_line(shlex.join(["umiak", "new", *argv])),
            column_names=tuple(names.split(",")) if names else (),
        )
    )
    for warning in made.draft.warnings:
        printer.problems([Problem(code="UM-NEW-006", what=warning)], "warning")
    if parsed.truth("json"):
        printer.data(json.dumps(_told(made), ensure_ascii=False))
        return Exit.DONE
    draft = made.draft
    kinds = [each.kind for each in draft.features]
    counts = [(kind, kinds.count(kind)) for kind in ("id", "number", "sequence", "vector") if kind in kinds]
    words = ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in counts)
    printer.talk(inert(f"{made.path}: label {draft.label}, {words}; {len(draft.left_out)} columns are left out"))
    printer.talk(inert(f"train with `umiak train -m {shlex.quote(parsed.arguments[0].rstrip('/'))}`"))
    return Exit.DONE


def _told(made: NewConfig) -> dict[str, object]:
    draft = made.draft
    return {
        "config": made.path,
        "label": draft.label,
        "time": draft.time,
        "group": draft.group,
        "rows_looked_at": made.seen.rows,
        "features": [{"name": each.name, "kind": each.kind, "why": each.why} for each in draft.features],
        "left_out": [{"name": each.name, "why": each.why} for each in draft.left_out],
    }
