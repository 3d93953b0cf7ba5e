"""How long a restart waits after a failure: a pure decider.

    backoff = Backoff("ctr")
    backoff.began(0.0)
    backoff.pause_s(now=1.0, restart=1)      # 0.0: the first restart is immediate
    backoff.pause_s(now=1.0, restart=2)      # about 1, then 2, 4, ... up to 30 seconds

What ran for a while before it failed begins with an immediate restart again. The jitter, which keeps the jobs of a
cluster from coming back all at once, follows from the job's name and the restart's number: a journal can be replayed.
"""

from __future__ import annotations

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
JITTER = 0.2
"""A pause is up to this part shorter or longer."""
RAN_WELL_S = 60.0
"""After so long without a failure, the pauses begin at the first one again."""


class Backoff:
    """The failures in a row of one thing that is restarted: a whole job, or one worker."""

    def __init__(self, name: str, began: float = 0.0) -> None:
        self._name = name
        self.since = began
        self._failures = 0

    def began(self, now: float) -> None:
        """It was started, for the first time or again."""
        self.since = now

    def pause_s(self, now: float, restart: int) -> float:
        """It has failed: how long its next restart waits. Say `began` when that happens."""
        if now - self.since >= RAN_WELL_S:
            self._failures = 0
        self._failures += 1
        if self._failures == 1:
            return 0.0
        pause_s = min(FIRST_PAUSE_S * float(1 << min(self._failures - 2, 16)), LONGEST_PAUSE_S)
        return pause_s * (1 + JITTER * _spread(f"{self._name} {restart}"))


def _spread(text: str) -> float:
    """A number from -1 to 1 that looks random and is always the same for a text."""
    from zlib import crc32

    return crc32(text.encode()) / 0x7FFFFFFF - 1
