"""`umiak dashboard`: reads the flags, starts the server, opens a browser. A program."""

from __future__ import annotations

import atexit
import os

from umiak.cli.dashboard.asked import allowed_hosts, host_problems, namespaces_of
from umiak.cli.dashboard.flags import DASHBOARD_FLAGS
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.schema import command_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from umiak.cli.output import Printer
    from umiak.dashboard.cluster.source import ClusterSource
    from umiak.dashboard.options import DashboardOptions
    from umiak.dashboard.outside.given import GivenSources
    from umiak.dashboard.program import Dashboard
    from umiak.dashboard.rows import SubmissionSight
    from umiak.schema.flags import Parsed

MOST_DIRECTORIES = 1000


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak dashboard`. The result is the exit status."""
    parsed = command_line.parse(
        DASHBOARD_FLAGS, argv, environ, command="umiak dashboard", starts_program=False, arguments=MOST_DIRECTORIES
    )
    if parsed.wants_help:
        return printer.page("dashboard")
    if parsed.truth("cluster"):
        from umiak.cli.dashboard import cluster

        return cluster.main(parsed, environ, printer)
    options = options_of(parsed)
    for line in parsed.notes:
        printer.note(line)
    from umiak.adapters.version import version
    from umiak.core.names import is_loopback
    from umiak.dashboard import program

    def ready(dashboard: Dashboard) -> None:
        printer.data(dashboard.address)
        if options.host and not options.tls_certificate and not is_loopback(options.host):
            printer.problems([_open_to_all(dashboard)], "warning")
        if not parsed.truth("no_browser"):
            _open(dashboard.address, environ)

    program.run(options, given_of(parsed, environ), ready, version=version())
    return Exit.DONE


def options_of(parsed: Parsed) -> DashboardOptions:
    """What was asked for. UmiakError with everything that is wrong."""
    from umiak.dashboard.options import DashboardOptions
    from umiak.web.safety import token_of

    problems = [*parsed.problems, *host_problems(parsed)]
    if parsed.program:
        problems.append(Problem(code="UM-CLI-005", what=f"unexpected argument: {parsed.program[0]}"))
    if parsed.said("health_port"):
        problems.append(Problem(code="UM-DASH-007", what="--health-port without --cluster", hint="add --cluster"))
    is_asked = parsed.said("kubeconfig") or parsed.said("context")
    problems += [
        Problem(
            code="UM-DASH-007",
            what=f"{parsed[name].said_as} without a cluster",
            hint="add --context NAME or --kubeconfig FILE",
        )
        for name in ("namespace", "kubeflow")
        if parsed.said(name) and not is_asked
    ]
    host = parsed.text("host")
    directories = parsed.arguments or (".",)
    problems += [
        Problem(code="UM-DASH-004", what=f"not a directory: {each}", hint="name directories below which there are runs")
        for each in directories
        if not os.path.isdir(each)
    ]
    token = ""
    if parsed.said("token_file"):
        try:
            token = token_of(parsed.text("token_file"))
        except UmiakError as error:
            problems += error.problems
    UmiakError.raise_any(problems)
    return DashboardOptions(
        directories=tuple([os.path.abspath(each) for each in directories]),
        host=host,
        port=parsed.number("port") or 0,
        token=token,
        allowed_hosts=allowed_hosts(parsed),
        tls_certificate=parsed.text("tls_cert"),
        tls_key=parsed.text("tls_key"),
        allowed=frozenset({parsed.text("allow")} if parsed.said("allow") else ()),
    )


def given_of(parsed: Parsed, environ: Mapping[str, str]) -> GivenSources:
    """What other programs know of runs."""
    from umiak.cli.dashboard.servers import ServersOfRuns
    from umiak.dashboard.outside.given import GivenSources

    jobs = cluster_source(parsed, environ)
    if parsed.truth("no_submitted"):
        return GivenSources(servers=ServersOfRuns(), cluster=jobs)
    from umiak.cli.dashboard.places import cancel_command, commands_of, remote_commands

    return GivenSources(
        submitted=submitted_of(parsed, environ),
        servers=ServersOfRuns(),
        places=commands_of(environ),
        cancel=cancel_command,
        remote=remote_commands(),
        cluster=jobs,
    )


def cluster_source(parsed: Parsed, environ: Mapping[str, str]) -> ClusterSource | None:
    """The cluster of a kubeconfig that was named. UmiakError if there is none."""
    if not (parsed.said("kubeconfig") or parsed.said("context")):
        return None
    from umiak.dashboard.cluster.source import ClusterSource
    from umiak.kube import access

    found = access.find(environ, kubeconfig_file=parsed.text("kubeconfig"), context=parsed.text("context"))
    return ClusterSource(found, environ, namespaces=namespaces_of(parsed), with_kubeflow=parsed.truth("kubeflow"))


def submitted_of(parsed: Parsed, environ: Mapping[str, str]) -> Callable[[], Sequence[SubmissionSight]]:
    """The runs of `umiak submit`, if they are wanted."""
    if parsed.truth("no_submitted"):
        return tuple
    from umiak.cli.dashboard.known import SubmittedRuns
    from umiak.submit import configuration

    return SubmittedRuns(configuration.context(environ).state_directory)


def _open_to_all(dashboard: Dashboard) -> Problem:
    return Problem(
        code="UM-DASH-003",
        what=f"the dashboard is served without TLS: {dashboard.origin}",
        why="the token and all logs can be read on the way",
        hint="--tls-cert FILE, or `ssh -L`",
    )


def _open(address: str, environ: Mapping[str, str]) -> None:
    """If there is a screen to open it on: a browser in a terminal would take that away. The browser is given a file of this user that leads to
    the address, since every user of the machine sees the arguments of a process, and the token is in the address."""
    opener = opener_of(environ)
    if opener is None:
        return
    import contextlib
    import html
    import subprocess
    import tempfile

    with contextlib.suppress(OSError):
        fd, path = tempfile.mkstemp(
            prefix="umiak-dashboard-", suffix=".html", dir=environ.get("XDG_RUNTIME_DIR") or None
        )
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(address)}">')
        atexit.register(_remove, path)
        subprocess.Popen(
            [opener, path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def opener_of(environ: Mapping[str, str]) -> str | None:
    """The program that opens a file on this person's screen; None where there is no screen."""
    import shutil

    if not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return None
    return shutil.which("xdg-open", path=environ.get("PATH"))


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
