"""SIGTERM and SIGINT while training: the step is finished, a checkpoint is saved, then the run ends. An adapter.

    with StopSignal() as stopping:
        while not stopping.is_asked:
            ...
    status = 128 + stopping.asked_by

A second signal does not wait; one that comes again at once is the same (`core.runtime.repeated_signal`).
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from umiak.core.runtime.repeated_signal import is_same

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignal:
    """Whether somebody has asked this process to stop."""

    def __init__(self) -> None:
        self.asked_by: int | None = None
        """The signal that asked; SIGPIPE where the reader of the output has gone."""
        self._asked_at = float("-inf")
        self._before: dict[int, Any] = {}

    @property
    def is_asked(self) -> bool:
        return self.asked_by is not None

    def ask(self, number: int) -> None:
        """As if this signal had come."""
        if self.asked_by is None:
            self.asked_by = number

    def __enter__(self) -> StopSignal:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._heed)
        return self

    @contextmanager
    def held(self) -> Iterator[None]:
        """Signals wait until this is over, no matter who installs handlers meanwhile: Paddle does when it is imported."""
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            yield
        finally:
            for number in self._before:
                signal.signal(number, self._heed)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()

    def _heed(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if is_same(number, now, self.asked_by, self._asked_at):
            return
        if self.asked_by in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.asked_by, self._asked_at = number, now
