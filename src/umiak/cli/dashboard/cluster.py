"""`umiak dashboard --cluster`: the page of a cluster, where each viewer's own token says what is shown. A program."""

from __future__ import annotations

from umiak.core.problem import Exit, Problem, UmiakError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.cli.output import Printer
    from umiak.dashboard.cluster.program import ClusterDashboard
    from umiak.kube.kubeconfig import KubeAccess
    from umiak.schema.flags import Parsed

NOT_WITH = ("token_file", "allow", "no_submitted", "insecure")
"""Flags of a page about this machine. Tokens of a cluster are worth more than that of a page: they never travel without TLS."""


def main(parsed: Parsed, environ: Mapping[str, str], printer: Printer) -> int:
    """Run it. The result is the exit status."""
    from umiak.adapters.version import version
    from umiak.cli.dashboard.asked import allowed_hosts, host_problems, namespaces_of
    from umiak.dashboard.cluster import program

    problems = [*parsed.problems, *host_problems(parsed)]
    problems += [
        Problem(code="UM-DASH-007", what=f"{parsed[name].said_as} with --cluster", hint="leave it out")
        for name in NOT_WITH
        if parsed.said(name)
    ]
    if parsed.arguments or parsed.program:
        what = f"--cluster and {[*parsed.arguments, *parsed.program][0]}"
        problems.append(Problem(code="UM-DASH-007", what=what, hint="a cluster's page shows no directories"))
    UmiakError.raise_any(problems)
    for line in parsed.notes:
        printer.note(line)
    options = program.ClusterOptions(
        access=access_of(parsed, environ),
        namespaces=namespaces_of(parsed),
        with_kubeflow=parsed.truth("kubeflow"),
        host=parsed.text("host"),
        port=parsed.number("port") or 0,
        health_port=parsed.number("health_port") if parsed.said("health_port") else None,
        allowed_hosts=allowed_hosts(parsed),
        tls_certificate=parsed.text("tls_cert"),
        tls_key=parsed.text("tls_key"),
    )

    def ready(dashboard: ClusterDashboard) -> None:
        printer.data(dashboard.origin)

    program.run(options, environ, ready, version=version())
    return Exit.DONE


def access_of(parsed: Parsed, environ: Mapping[str, str]) -> KubeAccess:
    """Where the cluster's API is: in a pod, that of its cluster, which it finds without any rights of its own."""
    from umiak.kube import access

    if not (parsed.said("kubeconfig") or parsed.said("context")):
        found = access.of_pod(environ)
        if found is not None:
            return found
    return access.find(environ, kubeconfig_file=parsed.text("kubeconfig"), context=parsed.text("context"))
