"""The table of names of `paddle.fluid`: works or refused with the reason. A part of `generate`; it needs no Paddle."""

from __future__ import annotations

from pathlib import Path

from umiak.fluid.modules import MODULES, works
from umiak.fluid.surface.names import METHODS
from umiak.fluid.surface.names import NAMES as WORKING
from umiak.fluid.surface.refusals import reason

NAMES = Path(__file__).resolve().with_name("fluid-names.tsv")
"""The names that public files use, and how many files use each."""
PUBLIC = NAMES.with_name("fluid-public-names.txt")
"""The names that 1.8.5 itself lists as public."""
ELSEWHERE = {
    "PS": "incubate.fleet.parameter_server.distribute_transpiler",
    "COLL": "incubate.fleet.collective",
    "role_maker": "incubate.fleet.base.role_maker",
}
PADDLE = {
    "paddle.batch": ("works", "Paddle's own"),
    "paddle.reader.": ("works", "Paddle's own"),
    "paddle.dataset.": ("works", "Paddle's own, from local files"),
}
"""Names outside of fluid, which stay Paddle's: the first that fits counts."""


def used() -> list[tuple[str, int]]:
    """All names with their counts."""
    lines = NAMES.read_text(encoding="utf-8").splitlines()[1:]
    return [(name, int(count)) for name, count in (line.split("\t") for line in lines)]


def own_name(name: str) -> str:
    """A name as the tables have it."""
    head, _, rest = name.partition(".")
    return f"{ELSEWHERE[head]}.{rest}" if head in ELSEWHERE else name.removeprefix("fluid.")


def verdict(name: str) -> tuple[str, str]:
    """Whether a name works or is refused, and the remark about it."""
    for head, row in PADDLE.items():
        if name.startswith(head):
            return row
    own = own_name(name)
    holder, _, method = own.rpartition(".")
    if works(own) or method in METHODS.get(holder, ()):
        return "works", ""
    if own in MODULES and any(each.startswith(f"{own}.") for each in WORKING):
        return "works", "a module"
    why, instead = reason(own)
    return "refused", f"{why}; instead: {instead}"


def rows() -> list[list[str]]:
    """The table."""
    return [[f"`{name}`", str(count), *verdict(name)] for name, count in used()]


def others() -> list[str]:
    """Public names of 1.8 that nobody was seen to use."""
    counted = {name for name, _ in used()}
    return [name for name in PUBLIC.read_text(encoding="utf-8").splitlines() if name not in counted]


def public_rows() -> list[list[str]]:
    """The table of them."""
    return [[f"`{name}`", *verdict(name)] for name in others()]


def public_summary() -> str:
    """How many of all public names work."""
    names = PUBLIC.read_text(encoding="utf-8").splitlines()
    working = sum(verdict(name)[0] == "works" for name in names)
    layers = [name for name in names if name.startswith("fluid.layers.")]
    of_layers = sum(verdict(name)[0] == "works" for name in layers)
    return f"{working} of {len(names)} public names work, {of_layers} of {len(layers)} in `fluid.layers`."


def summary() -> str:
    """How many work."""
    verdicts = [verdict(name)[0] for name, _ in used()]
    first = [f"{verdicts[:count].count('works')} of the first {count}" for count in (100, 250)]
    return f"{verdicts.count('works')} of {len(verdicts)} names work, {' and '.join(first)}; {verdicts.count('refused')} are refused."
