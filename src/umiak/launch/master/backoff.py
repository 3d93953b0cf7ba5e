"""How long a restart waits after a failure: a pure decider.

    backoff = Backoff("ctr")
    backoff.began(0.0)
    backoff.pause_s(now=1.0, restart=1)      # 0.0: the first restart is immediate
    backoff.pause_s(now=1.0, restart=2)      # about 1, then 2, 4, ... up to 30 seconds

What ran for a while before it failed begins with an immediate restart again. The jitter, which keeps the jobs of a
cluster from coming back all at once, follows from the job's name and the restart's number: a journal can be replayed.
"""

from __future__ import annotations

from umiak.core.backoff import RetryPolicy

POLICY = RetryPolicy(first_s=1.0, attempts=None)
RAN_WELL_S = 60.0
"""After so long without a failure, the pauses begin at the first one again."""


class Backoff:
    """The failures in a row of one thing that is restarted: a whole job, or one worker."""

    def __init__(self, name: str, began: float = 0.0) -> None:
        self.name = name
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
        return POLICY.wait_s(self._failures - 1, _chance(f"{self.name} {restart}")) or 0.0


def _chance(text: str) -> float:
    """A number from 0 to 1 that looks random and is always the same for a text."""
    from zlib import crc32

    return crc32(text.encode()) / 0xFFFFFFFF
