"""A reader process for models of PaddleRec 1.8.5 (`ModelBase`): runs a class Reader and sends batches whose fields have places and no names. A program, started by `processes`.

    python -m umiak.train.reading.datasets.place_worker PARENT READ WRITE     (a process id, two file descriptors)

The class makes samples of lines (`generate_sample`), batches of samples (`generate_batch_from_trainfiles`), or batches of arrays out of samples
(`batch_tensor_creator`), as PaddleRec's trainer asks for them. What it draws at random begins with the same numbers in every trainer and after a restart.
"""

from __future__ import annotations

import gzip
import io
import itertools
import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from umiak.train.config.paddlerec.dotted import listed
from umiak.train.reading import base
from umiak.train.reading.datasets import places, stacking
from umiak.train.reading.datasets.worker import seed_all, serve_batches, shuffled
from umiak.train.reading.worker import UserCodeFailed, making, said_by, trace_of, user_class

if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.core.json_types import JsonObject

OF_FILES, OF_SAMPLES = "generate_batch_from_trainfiles", "batch_tensor_creator"


def main(argv: list[str]) -> int:
    """Answer messages until there are no more."""
    return serve_batches(argv, _ReaderRun)


class _ReaderRun:
    """A class of the user's, and the place in the files where it is."""

    def __init__(self, file: str, name: str, config: JsonObject) -> None:
        self.file, self.name, self.config = file, name, config["config"]
        base.provide_old_modules(listed(config["settings"]))
        if _names_fluid(file):
            import umiak.fluid  # its tensors carry batches

            umiak.fluid.install()
        self.kind = user_class(file, name, hint="reader_class_name names it")
        if not any(callable(getattr(self.kind, each, None)) for each in ("generate_sample", OF_FILES)):
            raise UserCodeFailed(f"class {name} of {file} has neither generate_sample nor {OF_FILES}")
        self.at: JsonObject | None = None
        """The file and the line that are being read."""

    def batches(self, told: JsonObject) -> Iterator[tuple[Any, int]]:
        """Each batch that is this process's, and its size."""
        seed_all(f"{told['seed']}/{told['epoch']}")
        with making(self.name, self.file):
            reader = self.kind(self.config)
            if callable(getattr(reader, "init", None)):
                reader.init()
        numbered = enumerate(self._all_batches(reader, told))
        own = (each for number, each in numbered if number % told["step"] == told["first"])
        for at, (batch, is_made) in enumerate(own):
            if at % told["turns"] == told["turn"] and at // told["turns"] >= told["skip"]:
                yield (batch, len(batch[0])) if is_made else (self._stacked(batch), len(batch))

    def _all_batches(self, reader: Any, told: JsonObject) -> Iterator[tuple[Any, bool]]:
        """Lists of samples, or, where the class makes them, arrays; and which of the two."""
        size, window, seed = told["batch"], told["window"], told["window_seed"]
        if hasattr(reader, OF_FILES):
            made = self._guarded(lambda: iter(_called(getattr(reader, OF_FILES)(list(told["files"])))))
            for each in shuffled(made, max(1, window // size), seed) if window else made:
                if rows := [self._fields(sample) for sample in each]:
                    yield rows, False
            return
        samples = self._samples(reader, told["files"])
        if hasattr(reader, OF_SAMPLES):
            made = self._guarded(lambda: iter(_called(getattr(reader, OF_SAMPLES)(lambda: samples))))
            for each in shuffled(made, max(1, window // size), seed) if window else made:
                yield [np.asarray(tensor) for tensor in each], True
            return
        if window:
            samples = shuffled(samples, window, seed)
        while batch := list(itertools.islice(samples, size)):
            if len(batch) == size or not told["drop"]:
                yield batch, False

    def _samples(self, reader: Any, files: list[str]) -> Iterator[list[Any]]:
        """What the class makes of lines."""
        for path in files:
            for number, line in _lines(path):
                self.at = {"file": path, "line": number}
                try:
                    made = reader.generate_sample(line)
                    for sample in _called(made) or ():
                        if sample is not None:
                            yield [_value(pair) for pair in sample]
                except (GeneratorExit, UserCodeFailed):
                    raise
                except BaseException as error:
                    raise self._failed(error) from error
        self.at = None

    def _guarded(self, begin: Any) -> Iterator[Any]:
        try:
            yield from begin()
        except (GeneratorExit, UserCodeFailed):
            raise
        except BaseException as error:
            raise self._failed(error) from error

    def _fields(self, sample: Any) -> list[Any]:
        if not hasattr(sample, "__iter__") or isinstance(sample, (str, dict)):
            raise UserCodeFailed(f"{self.name}.{OF_FILES}: a sample is a list of values, not a {type(sample).__name__}")
        return list(sample)

    def _stacked(self, batch: list[list[Any]]) -> list[Any]:
        try:
            return places.stacked(batch)
        except stacking.Unequal as unequal:
            what = f"sample {unequal.sample + 1} of a batch of {len(batch)} does not fit: {unequal.what}"
            raise UserCodeFailed(f"{self.name}: {what}", place=self.at) from unequal

    def _failed(self, error: BaseException) -> UserCodeFailed:
        return UserCodeFailed(f"{self.name} raised {said_by(error)}", trace=trace_of(error, self.file), place=self.at)


def _names_fluid(file: str) -> bool:
    if not os.path.isfile(file):
        return False
    with open(file, encoding="utf-8", errors="replace") as text:
        return "fluid" in text.read()


def _called(made: Any) -> Any:
    """A generator, or a function that gives one."""
    return made() if callable(made) else made


def _value(pair: Any) -> Any:
    """The values of a pair (name, values): names count for nothing."""
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ValueError(f"a sample has pairs (name, values), not {pair!r:.60}")
    return pair[1]


def _lines(path: str) -> Iterator[tuple[int, str]]:
    with gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb") as raw:
        file = io.TextIOWrapper(raw, encoding="utf-8")
        for number, line in enumerate(file, start=1):
            yield number, line.rstrip("\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
