"""`umiak exec`: a command, or a shell, on a node of a running job. A program."""

from __future__ import annotations

import os
import sys
import threading

from umiak.cli.runs import asking
from umiak.cli.runs.flags import EXEC
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.schema import command_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer
    from umiak.schema.flags import Parsed
    from umiak.submit.backend import JobNode, NodeAccess, WebTerminals
    from umiak.submit.known_runs import KnownRun
    from umiak.submit.reach.running import WantedCommand
    from umiak.submit.reach.session import NodeSession

STDIN = 0


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak exec`. The result is the exit status: the command's."""
    parsed = command_line.parse(EXEC, argv, environ, command="umiak exec", starts_program=False, arguments=1)
    if parsed.wants_help:
        from umiak.cli.texts import help_text

        printer.data(help_text.of("exec"))
        return Exit.DONE
    _check(parsed)
    from umiak.submit.reach import nodes as choosing
    from umiak.submit.reach import running

    run = asking.run_of(asking.flow(environ, printer), parsed, printer)
    wanted = running.WantedCommand(
        words=tuple(parsed.program), node=parsed.text("node"), role=parsed.text("role"), rank=parsed.number("rank")
    )
    terminals = choosing.terminals_of(run.backend)
    if terminals is not None and not wanted.words:
        return _link(terminals, run, wanted, printer)
    if parsed.truth("all"):
        backend = choosing.reachable(run.backend, run.handle)
        return _everywhere(backend, backend.nodes(run.handle), wanted, printer)
    session, run_id = running.session_of(run.backend, run.handle, wanted)
    try:
        return _run(session, run_id, wanted, parsed, environ, printer)
    finally:
        session.close()


def _link(terminals: WebTerminals, run: KnownRun, wanted: WantedCommand, printer: Printer) -> int:
    """Of a place that lets nobody start a program, but gives links to terminals: print one."""
    from umiak.submit.reach import nodes as choosing

    status = run.backend.status(run.handle)
    choosing.check_running(run.handle, status)
    node = choosing.chosen_status(status.nodes, wanted.node, wanted.role, wanted.rank)
    link = terminals.terminal(run.handle, node.name)
    printer.data(link.url)
    printer.note(f"{node.name}: {link.about}")
    return Exit.DONE


def _check(parsed: Parsed) -> None:
    problems = list(parsed.problems)
    wrong = [
        (parsed.truth("all") and not parsed.program, "--all needs a command", "write it behind --: `-- nvidia-smi`"),
        (
            parsed.truth("all") and (parsed.said("node") or parsed.said("rank") or parsed.said("role")),
            "--all means every node: --node, --rank and --role choose one",
            "leave one of them out",
        ),
        (
            parsed.truth("all") and parsed.truth("tty"),
            "--tty is for one node: --all runs the command on every node",
            "leave one of them out",
        ),
        (
            parsed.truth("tty") and not os.isatty(STDIN),
            "--tty needs a terminal: standard input is none",
            "leave it out: input and output are passed on as they are",
        ),
    ]
    problems += [Problem(code="UM-SUBMIT-402", what=what, hint=hint) for is_wrong, what, hint in wrong if is_wrong]
    UmiakError.raise_any(problems)


def _run(
    session: NodeSession,
    run_id: str,
    wanted: WantedCommand,
    parsed: Parsed,
    environ: Mapping[str, str],
    printer: Printer,
) -> int:
    from umiak.submit.reach import running
    from umiak.submit.reach.command import NodeCommand, WorkerMissing, own_streams

    has_terminal = parsed.truth("tty") or (not wanted.words and os.isatty(STDIN))
    if has_terminal and not wanted.words:
        printer.note(f"a shell on {session.name}, as a worker sees it; it ends with `exit`, and the job goes on")
    command = NodeCommand(session, own_streams(), source=_own_input(), has_terminal=has_terminal)
    try:
        end = command.run({**wanted.request(run_id), "term": environ.get("TERM", "")})
    except WorkerMissing:
        raise running.missing(session, run_id, wanted) from None
    if end.left:
        printer.note(f"the command left {end.left} processes on {session.name}: they were ended with it")
    return end.code


def _own_input() -> int | None:
    try:
        os.fstat(STDIN)
    except OSError:
        return None  # it was closed
    return STDIN


def _everywhere(backend: NodeAccess, nodes: Sequence[JobNode], wanted: WantedCommand, printer: Printer) -> int:
    """The same command on every node at once, without input: each line with its node.
    The first status that is not 0, by node.
    """
    lock = threading.Lock()
    codes: dict[int, int] = {}
    problems: dict[int, tuple[Problem, ...]] = {}

    def one(number: int, node: JobNode) -> None:
        from umiak.submit.reach import running
        from umiak.submit.reach.command import NodeCommand, WorkerMissing

        lines = _TaggedLines(node.name, lock)
        try:
            with running.opened(backend, node) as session:
                end = NodeCommand(session, lines.take).run(wanted.request(node.run_id))
            lines.end()
            codes[number] = end.code
        except WorkerMissing:
            what = f"{node.name}: the run has no process there"
            problems[number] = (Problem(code="UM-SUBMIT-393", what=what, hint="`umiak status` says how it is"),)
            codes[number] = Exit.REFUSED
        except UmiakError as error:
            problems[number] = error.problems
            codes[number] = error.exit_status

    threads = [threading.Thread(target=one, args=each, daemon=True) for each in enumerate(nodes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in sorted(problems):
        printer.problems(problems[number])
    return next((codes[number] for number in sorted(codes) if codes[number]), Exit.DONE)


class _TaggedLines:
    """Output of one node among that of others: whole lines, with its name."""

    def __init__(self, name: str, lock: threading.Lock) -> None:
        self._tag = f"[{name}] ".encode()
        self._lock = lock
        self._waiting = {False: b"", True: b""}

    def take(self, is_error: bool, data: bytes) -> None:
        *whole, rest = (self._waiting[is_error] + data).split(b"\n")
        self._waiting[is_error] = rest
        self._write(is_error, whole)

    def end(self) -> None:
        for is_error, rest in self._waiting.items():
            self._write(is_error, [rest] if rest else [])

    def _write(self, is_error: bool, lines: Sequence[bytes]) -> None:
        text = b"".join(self._tag + line + b"\n" for line in lines)
        stream = sys.stderr.buffer if is_error else sys.stdout.buffer
        with self._lock:
            stream.write(text)
            stream.flush()
