"""`umiak ps`: looks at the parameter servers of a running job. A program.

main(["status", "--watch"], environ, printer)
"""

from __future__ import annotations

import json
import time

from umiak.cli.ps_flags import FLAGS
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.schema import command_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from umiak.cli.output import Printer
    from umiak.core.json_types import JsonMapping
    from umiak.ps.servers.discovery import JobServers
    from umiak.schema.flags import Parsed

CLEAR = "\x1b[H\x1b[2J"
DEFAULT_JOB = "default"
_TLS = {"tls_ca": "ca", "tls_cert": "cert", "tls_key": "key", "tls_name": "name"}


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak ps`. The result is the exit status."""
    if not argv or argv[0] in ("-h", "--help"):
        return printer.page("ps", Exit.DONE if argv else Exit.BAD_REQUEST)
    if argv[0] != "status":
        what = f"umiak ps: unknown command: {argv[0]}"
        raise UmiakError.of("UM-CLI-004", what, hint="`umiak ps status`")
    parsed = command_line.parse(FLAGS, argv[1:], environ, command="umiak ps status", starts_program=False)
    if parsed.wants_help:
        return printer.page("ps")
    UmiakError.raise_any(parsed.problems)
    return _status(parsed, _job(parsed, environ), printer)


def _job(parsed: Parsed, environ: Mapping[str, str]) -> JobServers:
    """Which servers are asked, and with which token."""
    from umiak.launch import job_token
    from umiak.ps import environment
    from umiak.ps.servers import discovery

    secret = job_token.read(environ)
    token = secret.decode(errors="surrogateescape") if secret else None
    here = discovery.jobs(discovery.read_processes())
    name = parsed.text("job") if parsed.said("job") else None
    if parsed.said("servers"):
        servers = environment.addresses(parsed.text("servers"), parsed["servers"].said_as)
        known = [job for job in here if {*servers} & {*job.servers}]
        found = known[0] if known else discovery.JobServers(name=DEFAULT_JOB, servers=servers)
        return discovery.JobServers(name=name or found.name, servers=servers, token=token or found.token)
    found_here = [job for job in here if name in (None, job.name)]
    if not found_here:
        hint = "`umiak ps status --servers HOST:PORT,...`; the launcher's log directory has the addresses in envlog.server.0"
        what = "no parameter servers to ask: none of yours run on this machine" + (f" in a job {name}" if name else "")
        raise UmiakError.refused("UM-PS-172", what, hint=hint)
    if len(found_here) > 1:
        choices = "; ".join(f"--job {job.name} --servers {','.join(job.servers)}" for job in found_here)
        raise UmiakError.of("UM-PS-174", f"{len(found_here)} jobs with parameter servers run here", hint=choices)
    job = found_here[0]
    return discovery.JobServers(name=job.name, servers=job.servers, token=token or job.token)


def _status(parsed: Parsed, job: JobServers, printer: Printer) -> int:
    from umiak.ps.servers import discovery, status

    tls = {theirs: parsed.text(own) for own, theirs in _TLS.items() if parsed.said(own)} or None
    interval_s = parsed.seconds("interval") or 1.0
    watch, as_json = parsed.truth("watch"), parsed.truth("json")
    before, then = discovery.look(job, tls), time.monotonic()
    _check(before)
    if parsed.truth("quiet") and not watch:
        return _verdict(status.report(before, before, interval_s), printer)
    while True:
        time.sleep(interval_s)
        looks, now = discovery.look(job, tls), time.monotonic()
        report = status.report(looks, before, now - then)
        screen = CLEAR if watch and not as_json and printer.out.isatty() else ""
        if not parsed.truth("quiet"):
            printer.data(json.dumps(report) if as_json else screen + status.text(report))
        if not watch:
            return _verdict(report, printer)
        before, then = looks, now


def _check(looks: Sequence[Any]) -> None:
    """Nobody answers: there is nothing to show."""
    if all(look.said is None for look in looks):
        hint = "see whether the job runs, and what serverlog.0 says; the token is read from UMIAK_TOKEN or UMIAK_TOKEN_FILE"
        problems = [_no_answer(look.endpoint, look.why, hint if look is looks[-1] else None) for look in looks]
        raise UmiakError(*problems, exit_status=Exit.REFUSED)


def _verdict(report: JsonMapping, printer: Printer) -> int:
    missing = [server for server in report["servers"] if not server["reachable"]]
    printer.problems([_no_answer(server["endpoint"], server["why"]) for server in missing])
    return Exit.REFUSED if missing else Exit.DONE


def _no_answer(endpoint: str, why: str | None, hint: str | None = None) -> Problem:
    return Problem(code="UM-PS-173", what=f"no answer from the parameter server at {endpoint}", why=why, hint=hint)
