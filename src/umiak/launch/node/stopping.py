"""How the workers of a node are ended: a signal, time to obey, then SIGKILL. A small pure decider inside `machine`."""

from __future__ import annotations

from enum import Enum


class StopStep(str, Enum):
    """What is due."""

    SIGNAL = "signal"
    KILL = "kill"
    KILL_LATE = "kill-late"
    """Somebody has not ended within the grace."""


SIGTERM = 15


class Stopping:
    """When the workers get their signal, and when they are killed; nothing is due before `begin`."""

    def __init__(self) -> None:
        self.signal = SIGTERM
        self.grace_s = 0.0
        self._signal_at: float | None = None
        self._kill_at: float | None = None

    @property
    def next_deadline(self) -> float | None:
        return min((time for time in (self._signal_at, self._kill_at) if time is not None), default=None)

    def begin(self, now: float, *, grace_s: float, after_s: float, signal: int) -> None:
        self.signal, self.grace_s = signal, grace_s
        self._signal_at = now + after_s

    def hurry(self, now: float, grace_s: float) -> None:
        """If the time to obey is running, so much of it is left at the most."""
        if self._kill_at is not None:
            self._kill_at = min(self._kill_at, now + grace_s)

    def killed(self) -> None:
        """They were killed already."""
        self._kill_at = None

    def over(self) -> None:
        """Nobody is left, or nobody cares."""
        self._signal_at = self._kill_at = None

    def due(self, now: float) -> tuple[StopStep, ...]:
        steps = []
        if self._signal_at is not None and now >= self._signal_at:
            self._signal_at = None
            if self.grace_s > 0:
                steps.append(StopStep.SIGNAL)
                self._kill_at = now + self.grace_s
            else:
                steps.append(StopStep.KILL)
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            steps.append(StopStep.KILL_LATE)
        return tuple(steps)
