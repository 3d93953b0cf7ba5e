"""Colours on terminals: what they mean, and whether somebody wants them. A decider.

Colour only repeats what the words say. Consoles of every program take it from here:
`cli.output`, `launch.reports.output`, `launch.reports.logs`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_RED, _YELLOW, _CYAN, _GREEN = "1;31", "33", "36", "32"
MEANINGS = {
    "error": _RED,
    "critical": _RED,
    "warning": _YELLOW,
    "because": _YELLOW,
    "note": _YELLOW,
    "hint": _CYAN,
}
"""Words that stand before a message or name its level, with their colour."""
STATES = {
    "queued": _YELLOW,
    "starting": _YELLOW,
    "running": _CYAN,
    "restarting": _YELLOW,
    "stopping": _YELLOW,
    "succeeded": _GREEN,
    "failed": _RED,
    "lost": _RED,
}
"""States of runs and nodes, with their colour."""
TAGS = ("36", "33", "32", "35", "34", "31")
"""Colours that tell workers apart, in turn."""


def painted(text: str, colour: str | None) -> str:
    """The text in a colour; none: as it is."""
    return f"\x1b[{colour}m{text}\x1b[0m" if colour else text


def are_wanted(environ: Mapping[str, str]) -> bool:
    """Whether nobody asked for plain text on terminals (https://no-color.org)."""
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
