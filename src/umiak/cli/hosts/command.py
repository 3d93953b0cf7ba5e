"""`umiak hosts`: a command or files on all hosts of a place. A program."""

from __future__ import annotations

import os
import threading

from umiak.cli.hosts.flags import FLAGS
from umiak.cli.runs import asking
from umiak.cli.texts import table_layout
from umiak.core.job import FrameworkName
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.shown import inert
from umiak.schema import command_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer
    from umiak.schema.flags import Parsed
    from umiak.submit.backends.ssh.backend import SshBackend
    from umiak.submit.backends.ssh.remote import HostResult
    from umiak.submit.backends.ssh.settings import SshHost

ARGUMENTS = {"run": 0, "put": 2, "get": 2, "check": 0, "clean": 0}
DAY_S = 86400.0
MIB = 1 << 20


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak hosts`. The result is the exit status."""
    if not argv or argv[0] in ("-h", "--help"):
        return printer.page("hosts", Exit.DONE if argv else Exit.BAD_REQUEST)
    word = argv[0]
    if word not in ARGUMENTS:
        from umiak.schema.findings import choices

        what = f"umiak hosts: unknown command: {word}"
        raise UmiakError.of("UM-CLI-004", what, hint=choices(word, ARGUMENTS))
    parsed = command_line.parse(
        FLAGS, argv[1:], environ, command=f"umiak hosts {word}", starts_program=False, arguments=max(1, ARGUMENTS[word])
    )
    if parsed.wants_help:
        return printer.page("hosts")
    _check_words(word, parsed)
    backend = _backend(parsed, environ)
    try:
        return _COMMANDS[word](backend, _chosen(backend, parsed), parsed, printer)
    finally:
        backend.connections.close()


def _check_words(word: str, parsed: Parsed) -> None:
    problems = list(parsed.problems)
    wanted, given = ARGUMENTS[word], len(parsed.arguments)
    usage = {"put": "umiak hosts put LOCAL REMOTE", "get": "umiak hosts get REMOTE DIRECTORY"}.get(word, "")
    if word == "run" and (parsed.arguments or not parsed.program):
        hint = "put -- before it: `umiak hosts run --on lab -- hostname`"
        problems.append(Problem(code="UM-CLI-005", what="umiak hosts run: the command is missing", hint=hint))
    elif word != "run" and (given != wanted or parsed.program):
        what = f"umiak hosts {word}: expected {wanted} arguments, got {given + len(parsed.program)}"
        problems.append(Problem(code="UM-CLI-005", what=what, hint=f"`{usage}`" if usage else None))
    elif word == "put" and not os.path.exists(parsed.arguments[0]):
        hint = "the first path is of this machine, from the working directory on; the second is of the hosts"
        problems.append(Problem(code="UM-SUBMIT-020", what=f"no such file here: {parsed.arguments[0]}", hint=hint))
    UmiakError.raise_any(problems)


def _backend(parsed: Parsed, environ: Mapping[str, str]) -> SshBackend:
    flow = asking.flow(environ)
    place = flow.place(parsed.text("on") or None)
    if place.backend != "ssh":
        named = [name for name, each in flow.places.places.items() if each.backend == "ssh"]
        hint = (
            f"--on takes {' or '.join(named)}"
            if named
            else 'describe one in umiak.toml: [place.lab], backend = "ssh", hosts = [...]'
        )
        what = f"place {place.name} has no hosts: its backend is {place.backend}"
        raise UmiakError.of("UM-SUBMIT-120", what, hint=hint)
    backend: SshBackend = flow.backend(place)  # type: ignore[assignment]
    UmiakError.raise_any(backend.missing_variables())
    return backend


def _chosen(backend: SshBackend, parsed: Parsed) -> tuple[SshHost, ...]:
    hosts = backend.settings.hosts
    names = parsed.texts.get("host", ())
    unknown = [name for name in names if name not in {each.label for each in hosts}]
    if unknown:
        from umiak.schema.findings import choices

        labels = [each.label for each in hosts]
        raise UmiakError(
            *[
                Problem(
                    code="UM-SUBMIT-120", what=f"expected a host of the place, got {name}", hint=choices(name, labels)
                )
                for name in unknown
            ]
        )
    return tuple(each for each in hosts if not names or each.label in names)


def _run(backend: SshBackend, hosts: Sequence[SshHost], parsed: Parsed, printer: Printer) -> int:
    import shlex

    from umiak.submit.backends.ssh import remote

    lock = threading.Lock()
    width = max(len(each.label) for each in hosts)
    is_json = parsed.truth("json")

    def tell(host: SshHost, line: str, is_error: bool) -> None:
        with lock:
            if is_json:
                stream = "stderr" if is_error else "stdout"
                printer.data(asking.as_json({"host": host.label, "stream": stream, "text": line}))
            else:
                text = inert(line) if printer.out.isatty() else line
                printer.data(f"{f'[{host.label}]':<{width + 2}} {text}")

    words = parsed.program
    command = words[0] if len(words) == 1 else shlex.join(words)
    results = remote.run(backend.connections, hosts, command, tell, parsed.seconds("timeout"))
    return _summary(results, parsed, printer)


def _put(backend: SshBackend, hosts: Sequence[SshHost], parsed: Parsed, printer: Printer) -> int:
    from umiak.submit.backends.ssh import remote

    return _summary(remote.put(backend.connections, hosts, *parsed.arguments), parsed, printer)


def _get(backend: SshBackend, hosts: Sequence[SshHost], parsed: Parsed, printer: Printer) -> int:
    from umiak.submit.backends.ssh import remote

    return _summary(remote.get(backend.connections, hosts, *parsed.arguments), parsed, printer)


def _summary(results: Sequence[HostResult], parsed: Parsed, printer: Printer) -> int:
    if parsed.truth("json"):
        for each in results:
            code = each.problem.code if each.problem else None
            what = each.problem.what if each.problem else None
            printer.data(
                asking.as_json({"host": each.host.label, "exit_code": each.exit_code, "error": code, "what": what})
            )
    bad = [each for each in results if not each.is_good]
    printer.problems([each.problem for each in bad if each.problem])
    if bad:
        codes = ", ".join(f"{each.host.label} {_word(each)}" for each in bad)
        printer.talk(f"{len(bad)} of {len(results)} hosts failed: {codes}")
    else:
        printer.talk(f"{len(results)} hosts: done")
    if any(each.problem for each in bad):
        return Exit.REFUSED
    return bad[0].exit_code or Exit.JOB_FAILED if bad else Exit.DONE


def _word(result: HostResult) -> str:
    from umiak.submit.backends.ssh.remote import SKIPPED

    if result.problem is None:
        return str(result.exit_code)
    return "in part" if result.problem.code == SKIPPED else "not done"


def _check(backend: SshBackend, hosts: Sequence[SshHost], parsed: Parsed, printer: Printer) -> int:
    rows = backend.look_at(hosts, FrameworkName(parsed.text("framework")))
    table = [["HOST", "READY", "PYTHON", "FREE", "CPUS", "MEMORY"]]
    for host, problems, facts in rows:
        if parsed.truth("json"):
            told = [{"code": each.code, "what": each.what, "why": each.why, "hint": each.hint} for each in problems]
            python = facts.python if facts else None
            free = facts.free_bytes if facts else None
            data = {"host": host.label, "ready": not problems, "python": python, "free_bytes": free, "problems": told}
            printer.data(asking.as_json(data))
        elif facts:
            sizes = [f"{facts.free_bytes // MIB} MiB", str(facts.cpus), f"{facts.memory_bytes // MIB} MiB"]
            table.append([host.label, "no" if problems else "yes", facts.python, *sizes])
        else:
            table.append([host.label, "no", "", "", "", ""])
    if not parsed.truth("json"):
        size = asking.terminal_size(printer.out)
        printer.data(
            table_layout.rows(table, size[0] if size else None, leave_out=("MEMORY", "CPUS", "FREE", "PYTHON"))
        )
    bad = [problem for _, problems, _ in rows for problem in problems]
    printer.problems(bad)
    return Exit.REFUSED if bad else Exit.DONE


def _clean(backend: SshBackend, hosts: Sequence[SshHost], parsed: Parsed, printer: Printer) -> int:
    from umiak.submit.backends.ssh.connections import HostFailure

    older_s = parsed.seconds("older_than") if parsed.said("older_than") else backend.settings.keep_days * DAY_S
    answers = backend.connections.ask(hosts, lambda _: {"do": "clean", "older_than_s": older_s})
    problems = []
    for host, answer in zip(hosts, answers, strict=True):
        if isinstance(answer, HostFailure):
            problems.append(answer.problem)
        elif parsed.truth("json"):
            printer.data(asking.as_json({"host": host.label, **answer}))
        else:
            count = len(answer["removed"])
            printer.data(f"{host.label}: {count} removed, {answer['free_bytes'] // MIB} MiB free")
    printer.problems(problems)
    return Exit.REFUSED if problems else Exit.DONE


_COMMANDS = {"run": _run, "put": _put, "get": _get, "check": _check, "clean": _clean}
