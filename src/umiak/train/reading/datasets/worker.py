"""A reader process: runs a reader class that opens files itself, and sends batches. A program, started by `processes`.

    python -m umiak.train.reading.datasets.worker PARENT READ WRITE     (a process id, two file descriptors)

It is told what to read, and sends batches until there are no more; the pipe holds it back when nobody takes them. What the class draws at random begins with the
same numbers in every trainer and after a restart, so that all of them see the same samples in the same order.
"""

from __future__ import annotations

import gc
import io
import itertools
import os
import random
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import umiak_native

from umiak.train.reading import exchange, hash_calls
from umiak.train.reading.datasets import light_paddle, stacking
from umiak.train.reading.worker import UserCodeFailed, making, said_by, serve, trace_of, user_class

if TYPE_CHECKING:
    from collections.abc import Callable

    from umiak.core.json_types import JsonObject


class BatchMaker(Protocol):
    """A class of the user's that gives batches."""

    def batches(self, told: JsonObject, /) -> Iterator[tuple[Any, int]]:
        """Each batch that is this process's, and its size."""


def main(argv: list[str]) -> int:
    """Answer messages until there are no more."""
    return serve_batches(argv, _DatasetRun)


def serve_batches(argv: list[str], opened: Callable[[str, str, JsonObject], BatchMaker]) -> int:
    """Answer messages until there are no more; ``opened`` gets the file, the name and the config of a class."""
    return serve(argv, lambda questions, answers: _answer(questions, answers, opened))


def _answer(questions: io.FileIO, answers: io.FileIO, opened: Callable[[str, str, JsonObject], BatchMaker]) -> None:
    run: BatchMaker | None = None
    while True:
        head, _ = exchange.receive(questions)
        try:
            if head["do"] == "open":
                run = opened(head["file"], head["class"], head["config"])
                # A batch is thousands of small objects, none of them in a circle: look for circles less often.
                gc.freeze()
                gc.set_threshold(100_000, 20, 20)
                exchange.send(answers, {})
            else:
                assert run is not None
                for batch, size in run.batches(head):
                    tree, blocks = stacking.packed(batch)
                    exchange.send(answers, {"size": size, "tree": tree, **hash_calls.told()}, blocks)
                exchange.send(answers, {"end": True, **hash_calls.told()})
        except UserCodeFailed as failed:
            exchange.send(answers, {"failed": failed.told})


class _DatasetRun:
    """A class of the user's, and the object of it that was made last."""

    def __init__(self, file: str, name: str, config: JsonObject) -> None:
        self.file, self.name, self.config = file, name, config
        words = ""
        if os.path.isfile(file):
            with open(file, encoding="utf-8", errors="replace") as text:
                words = text.read()
        if "DataLoader" not in words:  # which looks at what its datasets are derived from
            light_paddle.install()
        self.kind = user_class(file, name, hint="train_reader_path and infer_reader_path name the module")
        if not (hasattr(self.kind, "__iter__") or hasattr(self.kind, "__getitem__")):
            raise UserCodeFailed(f"class {name} of {file} has neither __iter__ nor __getitem__")
        self.draws = "random" in words or "shuffle" in words
        self.made: Any = None
        self.made_of: Any = None

    def batches(self, told: JsonObject) -> Iterator[tuple[Any, int]]:
        """Each batch that is this process's, and its size."""
        dataset = self._dataset(told["files"], told["seed"])
        size, turns, turn, skip = told["batch"], told["turns"], told["turn"], told["skip"]
        # Whole batches, because a reader may pad the samples of one batch to a shape of its own.
        own = _Own(told["first"], told["step"], 1 if told["ready"] else size)
        is_map = not hasattr(dataset, "__iter__")
        seed_all(f"{told['seed']}/{told['epoch']}")
        window, seed = told["window"], told["window_seed"]
        if is_map:
            samples = self._indexed(dataset, seed if window else None)
        else:
            samples = self._iterated(dataset, own)
            own.is_in_order = not window
            if window:
                samples = shuffled(samples, max(1, window // size) if told["ready"] else window, seed)
        samples = (each for at, each in enumerate(samples) if own.has(at))
        if told["ready"]:
            for at, (number, sample) in enumerate(samples):
                if at % turns == turn and at // turns >= skip:
                    batch = stacking.as_it_is(self._value(number, sample))
                    yield batch, stacking.length(batch)
            return
        waiting: list[tuple[int, object]] = []
        at = 0
        for each in samples:
            waiting.append(each)
            if len(waiting) == size:
                if at % turns == turn and at // turns >= skip:
                    yield self._stacked(waiting, own), size
                at += 1
                waiting = []
        if waiting and not told["drop"] and at % turns == turn and at // turns >= skip:
            yield self._stacked(waiting, own), len(waiting)

    def _dataset(self, files: list[str], seed: int) -> Any:
        """An object of the class. It is used again for the next epoch, unless its code draws at random: then a run that goes on there would see something else."""
        if self.made is None or self.draws or self.made_of != files:
            seed_all(str(seed))
            with making(self.name, self.file):
                self.made = self.kind(list(files), self.config)
            self.made_of = files
        return self.made

    def _iterated(self, dataset: Any, own: _Own) -> Iterator[tuple[int, Any]]:
        """Samples as they come, each with its number."""
        last = -1
        try:
            samples = iter(dataset)
            own.generator = samples
            for number, sample in enumerate(samples):
                last = number
                yield number, sample
        except GeneratorExit:
            raise
        except BaseException as error:
            raise self._failed(error, f"after sample {last + 1}" if last >= 0 else "at its first sample") from error

    def _indexed(self, dataset: Any, seed: int | None) -> Iterator[tuple[int, Any]]:
        """Samples that are asked for by their numbers; with a seed, all of them in another order: only numbers are in memory."""
        try:
            count = len(dataset)
        except BaseException as error:
            raise self._failed(error, "in __len__") from error
        for number in range(count) if seed is None else umiak_native.permutation(seed, 0, count).tolist():
            yield number, _Deferred(dataset, number)

    def _value(self, number: int, sample: Any) -> Any:
        if not isinstance(sample, _Deferred):
            return sample
        try:
            return sample.dataset[sample.at]
        except BaseException as error:
            raise self._failed(error, f"at sample {number + 1}") from error

    def _stacked(self, waiting: list[tuple[int, object]], own: _Own) -> Any:
        values = [self._value(number, each) for number, each in waiting]
        try:
            return stacking.stacked(values)
        except stacking.Unequal as unequal:
            what = f"sample {waiting[unequal.sample][0] + 1} can't be stacked to a batch: {unequal.what}"
            hint = "let the reader pad its samples to one shape; PaddleRec's own DataLoader can't stack these either"
            frame = getattr(own.generator, "gi_frame", None) if own.is_in_order else None
            raise UserCodeFailed(what, hint=hint, place=_open_file(frame)) from unequal
        except Exception as error:
            raise self._failed(error, f"in the batch that ends with sample {waiting[-1][0] + 1}") from error

    def _failed(self, error: BaseException, where: str) -> UserCodeFailed:
        what = f"{self.name} raised {said_by(error)}, {where}"
        return UserCodeFailed(what, trace=trace_of(error, self.file), place=_place(error))


class _Own:
    """Which samples are this process's, and what they come from."""

    def __init__(self, first: int, step: int, block: int) -> None:
        self.first, self.step, self.block = first, step, block
        self.generator: Any = None
        self.is_in_order = True
        """Whether samples are given out as they are read: then its frame says where a sample comes from."""

    def has(self, number: int) -> bool:
        return self.step == 1 or number // self.block % self.step == self.first


class _Deferred:
    """A sample that is asked for by its number, once it is known that its batch is needed."""

    __slots__ = ("at", "dataset")

    def __init__(self, dataset: Any, at: int) -> None:
        self.dataset, self.at = dataset, at


def shuffled(samples: Iterator[Any], window: int, seed: int) -> Iterator[Any]:
    """The same samples, permuted in windows of so many."""
    number = 0
    while held := list(itertools.islice(samples, window)):
        for at in umiak_native.permutation(seed, number, len(held)).tolist():
            yield held[at]
        number += 1


def seed_all(text: str) -> None:
    """Let everything that draws at random begin with the same numbers."""
    drawn = random.Random(text).getrandbits(32)  # noqa: S311 - no secret
    random.seed(drawn)
    np.random.seed(drawn)


def _place(error: BaseException) -> JsonObject | None:
    """The file that was being read when the code raised, and the line, if it can be told."""
    at, found = error.__traceback__, None
    while at is not None:
        found = _open_file(at.tb_frame) or found
        at = at.tb_next
    return found


def _open_file(frame: Any) -> JsonObject | None:
    """A file that a frame has open, and the line of it that the frame has in a variable."""
    if frame is None:
        return None
    local = dict(frame.f_locals)
    files = [each for each in local.values() if isinstance(each, (io.TextIOWrapper, io.BufferedReader))]
    if not files or not isinstance(files[-1].name, str):
        return None
    path = os.path.abspath(files[-1].name)
    texts = {each.rstrip("\r\n") for each in local.values() if isinstance(each, str) and len(each) > 1}
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = [number for number, line in enumerate(file, start=1) if line.rstrip("\r\n") in texts]
    except OSError:
        lines = []
    return {"file": path, "line": lines[0] if len(lines) == 1 else None}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
