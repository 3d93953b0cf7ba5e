"""Where a trainer's time goes: reading, pull, compute, push, barrier. An adapter: it looks at the clock.

    with watch.measuring("reading"):
        batch = next(samples)
    watch.lap()  ->  {"reading": 0.02, "pull": 0.11, "compute": 0.7, "push": 0.16, "barrier": 0.01}

What is measured within something else counts once, for what is innermost; what nobody measures is compute. `Timed` is a client whose
calls are measured.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PARTS = ("reading", "pull", "compute", "push", "barrier", "saving")
_CALLS = {
    "pull": "pull",
    "pull_dense": "pull",
    "push": "push",
    "push_dense": "push",
    "learn_dense": "push",
    "prepare": "push",
    "commit": "push",
    "add": "push",
    "changed": "pull",
    "barrier": "barrier",
}


class Stopwatch:
    """Seconds by what they were spent on."""

    def __init__(self) -> None:
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._lap = dict(self._seconds)
        self._now = "compute"
        self._since = time.monotonic()

    @contextmanager
    def measuring(self, part: str) -> Iterator[None]:
        """Meanwhile, time counts for this part."""
        outer = self.turn(part)
        try:
            yield
        finally:
            self.turn(outer)

    def seconds(self) -> dict[str, float]:
        """Of each part, since the beginning."""
        self.turn(self._now)
        return dict(self._seconds)

    def lap(self) -> dict[str, float]:
        """The share of each part, since the last lap."""
        seconds = self.seconds()
        spent = {part: seconds[part] - self._lap[part] for part in PARTS}
        self._lap = seconds
        total = sum(spent.values()) or 1.0
        return {part: each / total for part, each in spent.items()}

    def timed(self, client: Any) -> Any:
        """The client, with its calls measured."""
        return Timed(client, self)

    def turn(self, part: str) -> str:
        now = time.monotonic()
        self._seconds[self._now] += now - self._since
        self._since = now
        before, self._now = self._now, part
        return before


class Timed:
    """A client whose calls are measured; all else is the client's own."""

    def __init__(self, client: Any, watch: Stopwatch) -> None:
        self._client = client
        for name, part in _CALLS.items():
            setattr(self, name, _measured(getattr(client, name), part, watch))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def _measured(call: Any, part: str, watch: Stopwatch) -> Any:
    def measured(*args: Any, **settings: Any) -> Any:
        outer = watch.turn(part)  # once per call of every step, so without a context manager
        try:
            return call(*args, **settings)
        finally:
            watch.turn(outer)

    return measured
