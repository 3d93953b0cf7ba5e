"""The samples of a dataset in memory: loaded, shuffled here or among all trainers, cut into batches. An adapter.

    memory = SampleMemory()
    memory.load(settings, say)
    memory.shuffle()                       this trainer's samples, in another order
    memory.replace(exchanged)              what came of a shuffle among all trainers

Whatever is random is drawn from numpy's global generator: ``numpy.random.seed`` makes it the same in every run.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from umiak.fleet.datasets import reading
from umiak.ps.errors import bad

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from umiak_native import MultiSlotSamples

    from umiak.fleet.datasets.settings import DatasetSettings

_LOAD_FIRST = "dataset.load_into_memory() first"


class SampleMemory:
    """What one dataset holds. Its order is kept apart, so that a shuffle moves no samples."""

    def __init__(self) -> None:
        self._samples: MultiSlotSamples | None = None
        self._order: NDArray[np.int64] | None = None
        self._loading: threading.Thread | None = None
        self._failed: BaseException | None = None
        self.is_shuffled = False

    def __len__(self) -> int:
        return 0 if self._samples is None else len(self._samples)

    @property
    def is_loaded(self) -> bool:
        return self._samples is not None

    @property
    def samples(self) -> MultiSlotSamples:
        """As they were loaded, whatever their order."""
        if self._samples is None:
            raise bad(
                "UM-FLEET-048", "the dataset holds no samples: nothing was loaded, or it was released", _LOAD_FIRST
            )
        return self._samples

    def load(self, settings: DatasetSettings, say: Callable[[str], None]) -> None:
        """Read all files. What was there before is forgotten."""
        self.release()
        self._samples = reading.everything(settings, say)

    def start_loading(self, settings: DatasetSettings, say: Callable[[str], None]) -> None:
        """The same while this thread goes on; `wait` tells its end."""
        self.wait()

        def read() -> None:
            try:
                self.load(settings, say)
            except BaseException as error:  # noqa: BLE001 - `wait` raises it
                self._failed = error

        self._failed = None
        self._loading = threading.Thread(target=read, name="dataset preload", daemon=True)
        self._loading.start()

    def wait(self) -> None:
        """Until `start_loading` is done. Raises what it failed of."""
        if self._loading is None:
            return
        self._loading.join()
        self._loading, failed, self._failed = None, self._failed, None
        if failed is not None:
            raise failed

    def shuffle(self) -> None:
        self._order = np.random.permutation(len(self.samples)).astype(np.int64)
        self.is_shuffled = True

    def shuffle_slots(self, slots: Sequence[int]) -> None:
        """Give these slots to other samples: how much worse a model gets shows what a slot is worth."""
        samples = self.samples
        for slot in slots:
            picked = np.random.permutation(len(samples)).astype(np.int64)
            samples = samples.with_slots_of([slot], picked)
        self._samples = samples

    def replace(self, samples: MultiSlotSamples) -> None:
        """Hold other samples, in a random order."""
        self._samples = samples
        self.shuffle()

    def release(self) -> None:
        self._samples = self._order = None
        self.is_shuffled = False

    def batches(self, batch_size: int) -> Iterator[MultiSlotSamples]:
        samples, order = self.samples, self._order
        for start in range(0, len(samples), batch_size):
            end = min(start + batch_size, len(samples))
            yield samples.cut(start, end) if order is None else samples.take(order[start:end])
