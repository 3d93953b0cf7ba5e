"""Names of variables as `fluid.unique_name` gives them: ``fc_0.w_0``. Keeps the counters of this process, and decides nothing else. A program."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class UniqueNameGenerator:
    """Counts how often each key was asked for."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.counts: dict[str, int] = {}

    def __call__(self, key: str) -> str:
        number = self.counts.get(key, 0)
        self.counts[key] = number + 1
        return f"{self.prefix}{key}_{number}"


_current = [UniqueNameGenerator()]


def generate(key: str) -> str:
    """A name that nobody had since the last `guard`."""
    return _current[-1](key)


def switch(new_generator: UniqueNameGenerator | None = None) -> UniqueNameGenerator:
    """Counts from zero, or goes on with another generator; returns the one before."""
    before = _current[-1]
    _current[-1] = new_generator or UniqueNameGenerator()
    return before


@contextmanager
def guard(new_generator: str | bytes | UniqueNameGenerator | None = None) -> Iterator[None]:
    """Names of the block are counted from zero, with a prefix if one is given."""
    if isinstance(new_generator, bytes):
        new_generator = new_generator.decode()
    if not isinstance(new_generator, UniqueNameGenerator):
        new_generator = UniqueNameGenerator(new_generator or "")
    _current.append(new_generator)
    try:
        yield
    finally:
        _current.pop()
