"""What trainers tell one another: through the servers, through a group, or nobody at all. An adapter.

    everybody = peers.tell({"sizes": [512, 512]})        one answer per trainer, in order of rank; waits for all
    total = peers.add(metrics.state())                   the sum of everybody's vectors
    latest = peers.latest({...})                         what everybody said last; waits for nobody

Messages are JSON, and vectors are plain numbers: nothing that is received is code.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from umiak.ps.sessions import Session
from umiak.train.run.stopwatch import Stopwatch

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject

MOST_NUMBERS = 100_000
"""Of a vector that trainers exchange at a time: a message has at most 1 MiB."""


class Peers:
    """The trainers of a job, as one of them sees the others."""

    def __init__(self, job: Session, watch: Stopwatch, *, waits_for_nobody: bool = False) -> None:
        self.rank = job.rank
        self.world = job.world
        self.is_free = waits_for_nobody
        """Whether trainers go on without one another: async, half_async, geo."""
        self._job = job
        self._watch = watch

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def tell(self, message: JsonObject, name: str = "tell") -> list[JsonObject]:
        """Everybody's messages, in order of rank."""
        if self.world == 1:
            return [message]
        return [json.loads(each) for each in self._gather(json.dumps(message).encode(), name)]

    def add(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum of everybody's vectors."""
        if self.world == 1:
            return vector
        # Everybody has as many numbers, and so as many parts.
        parts = [self._added(vector[at : at + MOST_NUMBERS]) for at in range(0, vector.size or 1, MOST_NUMBERS)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def all_of(self, payload: bytes) -> list[bytes]:
        """Everybody's bytes, in order of rank; at most 1 MiB of each."""
        return [payload] if self.world == 1 else self._gather(payload, "all_of")

    def agree_on(self, text: str, name: str = "agree") -> list[str]:
        """Everybody's texts."""
        return [each["text"] for each in self.tell({"text": text}, name)]

    def latest(self, message: bytes) -> list[bytes]:
        """What everybody said last; nothing of those who have not said anything yet."""
        if self.world == 1:
            return [message]
        with self._watch.measuring("barrier"):
            return self._job.client.post("latest", message)

    def take(self, name: str) -> int:
        """The next number: each is given to one trainer."""
        with self._watch.measuring("barrier"):
            return self._job.client.take(name)

    def meet(self) -> None:
        """Wait for everybody, with everything that was pushed."""
        with self._watch.measuring("barrier"):
            self._job.meet("meet")

    def _added(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        total: NDArray[np.float64] = np.add.reduce(
            [np.frombuffer(each, np.float64) for each in self._gather(vector.tobytes(), "add")]
        )
        return total

    def _gather(self, payload: bytes, name: str) -> list[bytes]:
        with self._watch.measuring("barrier"):
            return self._job.client.gather(name, payload)
