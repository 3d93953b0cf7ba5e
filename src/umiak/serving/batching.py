"""Requests that wait together are answered together: one run of the model for all of them. A program.

    batcher = Batcher(most_rows=1024, most_waiting=10_000)
    outputs = await batcher.ask(model, asked)        HttpRefusal 429 where too many wait

Nobody waits for company: while the model runs, requests gather, and the next run takes all that are there, up to so many rows. A run that fails is repeated request by request,
so that nobody gets another's error.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from umiak.core.value import value
from umiak.web.messages import HttpRefusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from umiak.serving.models import ServedModel
    from umiak.serving.protocol import InferenceRequest


@value
class _Waiting:
    model: ServedModel
    asked: InferenceRequest
    answer: asyncio.Future[dict[str, Any]]


class Batcher:
    """A queue before one thread that computes."""

    def __init__(
        self, *, most_rows: int, most_waiting: int, on_batch: Callable[[int, int], None] = lambda _rows, _requests: None
    ) -> None:
        self._most_rows, self._most_waiting, self._on_batch = most_rows, most_waiting, on_batch
        self._queue: deque[_Waiting] = deque()
        self._wake = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "umiak-model")
        self._task: asyncio.Task[None] | None = None
        self.waiting = 0
        """Rows that nobody has begun with."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._work())

    async def close(self) -> None:
        """What waits is not answered any more: close what asks first."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown(wait=True)

    async def ask(self, model: ServedModel, asked: InferenceRequest) -> dict[str, Any]:
        """What the model answers."""
        if asked.rows > self._most_rows:
            raise HttpRefusal(413, f"{asked.rows} rows in one request: at most {self._most_rows} are taken")
        if self.waiting + asked.rows > self._most_waiting:
            raise HttpRefusal(429, "too many requests are waiting", {"Retry-After": "1"})
        waiting = _Waiting(model=model, asked=asked, answer=asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        self.waiting += asked.rows
        self._wake.set()
        return await waiting.answer

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._queue:
                self._wake.clear()
                await self._wake.wait()
            taken = self._taken()
            self._on_batch(sum(each.asked.rows for each in taken), len(taken))
            answers = await loop.run_in_executor(self._thread, answered, [(each.model, each.asked) for each in taken])
            for each, outputs in zip(taken, answers, strict=True):
                if each.answer.done():  # who asked has gone
                    continue
                if isinstance(outputs, Exception):
                    each.answer.set_exception(outputs)
                else:
                    each.answer.set_result(outputs)

    def _taken(self) -> list[_Waiting]:
        """The first that wait, of one model, that can be one batch."""
        first = self._queue.popleft()
        taken, rows = [first], first.asked.rows
        while self._queue and can_join(first.model, first.asked, self._queue[0].asked):
            following = self._queue[0]
            if following.model is not first.model or rows + following.asked.rows > self._most_rows:
                break
            taken.append(self._queue.popleft())
            rows += following.asked.rows
        self.waiting -= rows
        return taken


def can_join(model: ServedModel, one: InferenceRequest, other: InferenceRequest) -> bool:
    """Whether their tensors can stand one below the other."""
    for of in model.signature.inputs:
        if of.shape[0] is not None:
            return False
        a, b = one.arrays[of.name].shape[1:], other.arrays[of.name].shape[1:]
        if a != b and not (of.padding is not None and len(a) == 1):
            return False
    return True


def answered(taken: Sequence[tuple[ServedModel, InferenceRequest]]) -> list[dict[str, Any] | Exception]:
    """One run for all; where that fails, one for each."""
    model = taken[0][0]
    try:
        outputs = model.run(joined(model, [asked for _, asked in taken]))
        total = sum(asked.rows for _, asked in taken)
        if len(taken) == 1:
            return [outputs]
        if all(array.ndim and array.shape[0] == total for array in outputs.values()):
            return _divided(outputs, [asked.rows for _, asked in taken])
    except Exception as error:  # noqa: BLE001 - whatever a model raises is the answer to its request
        if len(taken) == 1:
            return [error]
    return [found for each in taken for found in answered([each])]


def joined(model: ServedModel, asked: Sequence[InferenceRequest]) -> Mapping[str, Any]:
    """Tensors of all requests one below the other; ids are filled up to the widest."""
    if len(asked) == 1:
        return asked[0].arrays
    joined = {}
    for of in model.signature.inputs:
        arrays = [each.arrays[of.name] for each in asked]
        if of.padding is not None and arrays[0].ndim == 2:
            width = max(array.shape[1] for array in arrays)
            arrays = [_wide(array, width, of.padding) for array in arrays]
        joined[of.name] = np.concatenate(arrays)
    return joined


def _wide(array: Any, width: int, padding: int) -> Any:
    if array.shape[1] == width:
        return array
    return np.pad(array, ((0, 0), (0, width - array.shape[1])), constant_values=padding)


def _divided(outputs: Mapping[str, Any], sizes: Sequence[int]) -> list[dict[str, Any] | Exception]:
    divided: list[dict[str, Any] | Exception] = []
    at = 0
    for size in sizes:
        divided.append({name: array[at : at + size] for name, array in outputs.items()})
        at += size
    return divided
