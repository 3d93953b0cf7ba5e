"""What every form of `umiak dashboard` reads of its command line. A decider."""

from __future__ import annotations

from umiak.core.problem import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.flags import Parsed


def allowed_hosts(parsed: Parsed) -> tuple[str, ...]:
    """Names under which browsers may ask."""
    named = [each.strip() for text in parsed.texts.get("allowed_hosts", ()) for each in text.split(",")]
    return tuple([each for each in named if each])


def host_problems(parsed: Parsed) -> list[Problem]:
    """What keeps it from being served beyond this machine."""
    from umiak.core.names import is_loopback

    problems = []
    host = parsed.text("host")
    if host and not is_loopback(host) and not parsed.said("tls_cert") and not parsed.truth("insecure"):
        problems.append(
            Problem(
                code="UM-DASH-003",
                what=f"--host {host} is reached from other machines, and there is no certificate",
                why="the token and all logs could be read on the way",
                hint="--tls-cert FILE --tls-key FILE; or listen at loopback and use `ssh -L PORT:localhost:PORT`; or say --insecure",
            )
        )
    if parsed.said("tls_key") and not parsed.said("tls_cert"):
        problems.append(Problem(code="UM-DASH-002", what="--tls-key without --tls-cert", hint="--tls-cert FILE"))
    return problems


def namespaces_of(parsed: Parsed) -> tuple[str, ...]:
    """Those that were named."""
    return tuple(dict.fromkeys(each.strip() for each in parsed.text("namespace").split(",") if each.strip()))
