"""What only the start of a worker knows, beside its contract: the job's token, and the network interface. A decider.

Also the names by which a launcher is told its token.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

TOKEN, TOKEN_FILE, REQUIRE_TOKEN = "UMIAK_TOKEN", "UMIAK_TOKEN_FILE", "UMIAK_REQUIRE_TOKEN"
GRACE = "UMIAK_GRACE"
"""How long a launcher lets its workers end."""
JOIN_TIMEOUT, LOST_AT_START = "UMIAK_JOIN_TIMEOUT", "UMIAK_LOST_AT_START"
"""What a launcher does about nodes that don't come, or don't stay until the job has started."""
INTERFACE = "GLOO_SOCKET_IFNAME"

NAMES = frozenset([TOKEN, INTERFACE])
"""Every name that is set here."""


def with_start(environ: Mapping[str, str], *, interface: str | None, token: str | None) -> dict[str, str]:
    """A worker's environment with both; an interface that a person has named stays."""
    variables = dict(environ)
    if interface:
        # Left alone, gloo (in Paddle and in PyTorch) looks up this machine's own name and, on Debian, finds 127.0.1.1.
        variables.setdefault(INTERFACE, interface)
    if token is not None:
        variables[TOKEN] = token
    return variables
