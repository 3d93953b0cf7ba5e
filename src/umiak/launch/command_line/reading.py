"""What is asked of the launcher: a command line, or flags as values, to `LaunchOptions`. A decider.

request = read(["--nproc_per_node", "2", "train.py"], os.environ)
request.options, request.notes
"""

from __future__ import annotations

from umiak.core.problem import Exit, UmiakError
from umiak.core.value import value
from umiak.launch.command_line import paddle, torchrun
from umiak.launch.command_line.own import FLAGS, with_own
from umiak.launch.options import LaunchOptions
from umiak.schema import command_line
from umiak.schema.flags import FlagFindings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.schema.flags import Parsed


@value
class Request:
    """What a person asks `umiak launch` for."""

    options: LaunchOptions
    notes: tuple[str, ...] = ()
    """One line each: what was said twice and how it was decided."""


def read(argv: Sequence[str], environ: Mapping[str, str]) -> Request:
    """What a command line asks for. UmiakError carries every problem of it at once."""
    return request(*parsed(argv, environ))


def of_values(
    values: Mapping[str, object], environ: Mapping[str, str], program: Sequence[str], *, is_module: bool = False
) -> Request:
    """What flags ask for that are said by a program: ``{"nproc_per_node": 2}``. UmiakError as above."""
    environ, notes = paddle.inherited(environ)
    return request(command_line.of_values(FLAGS, values, environ, program=program, is_module=is_module), notes)


def parsed(argv: Sequence[str], environ: Mapping[str, str]) -> tuple[Parsed, tuple[str, ...]]:
    """Every flag with its value, and notes on the environment."""
    environ, notes = paddle.inherited(environ)
    return command_line.parse(FLAGS, argv, environ, command="umiak launch"), notes


def request(flags: Parsed, notes: tuple[str, ...]) -> Request:
    """What flags mean together."""
    findings = FlagFindings(flags)
    in_our_words = torchrun.translated(flags, findings)
    options = with_own(paddle.options(in_our_words, findings), in_our_words, findings)
    options = torchrun.with_torchrun(options, flags, findings)
    if findings.problems:
        raise UmiakError(*findings.problems, exit_status=Exit.BAD_REQUEST)
    return Request(options=options, notes=(*notes, *findings.notes))
