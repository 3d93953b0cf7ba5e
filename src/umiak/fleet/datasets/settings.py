"""What a dataset of Paddle's was told: files, slots, the program that prints samples;
and its samples as a program's feed. Values, and a decider.

    of(paddle.distributed.QueueDataset())      whatever was set on it, by `init` or by a setter

Paddle's object keeps it: so both of its families (``paddle.distributed`` and ``paddle.base``) are read in one way,
and a dataset that was made before ``fleet.init`` counts as well.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from umiak.core.problem import Problem
from umiak.core.value import value
from umiak.ps.errors import BadRequest, bad

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from umiak_native import MultiSlotSamples

    from umiak.data.array_types import AnyArray
    from umiak.ps.paddle_types import Dataset

    Feed = dict[str, AnyArray | tuple[AnyArray, NDArray[np.int64]]]

_NOT_SUPPORTED = {
    "parse_logkey": "log keys",
    "enable_pv_merge": "merging of page views",
    "merge_by_lineid": "merging by line id",
    "gen_uni_feasigns": "unique ids of a pass",
}


@value
class SlotSetting:
    """One of ``use_var``."""

    name: str
    is_float: bool
    """float32; else int64."""
    is_dense: bool
    """A tensor of a fixed shape (``lod_level=0``); else any number of values in each sample."""
    shape: tuple[int, ...] = ()
    """With -1 for the number of samples."""

    @property
    def width(self) -> int:
        """How many values the dimensions have that are known."""
        return math.prod(max(size, 1) for size in self.shape)

    @property
    def multiple(self) -> int:
        """A sample's number of values is a multiple of it; 0: any number."""
        return self.width if self.is_dense and -1 in self.shape else 0


@value
class DatasetSettings:
    """A dataset, as far as reading it needs to know."""

    files: tuple[str, ...] = ()
    slots: tuple[SlotSetting, ...] = ()
    batch_size: int = 1
    threads: int = 1
    """So many files are read at a time."""
    command: str = "cat"
    is_batch_per_line: bool = False
    """A line is a batch and not a sample (``input_type=1``)."""
    texts: int = 0
    """Fields of one text each before the slots: an id (``parse_ins_id``), a content (``parse_content``)."""
    is_in_memory: bool = False
    drops_zeros: bool = False
    """Paddle's datasets in memory leave zeros out of slots that are not dense."""
    remote: tuple[str, ...] = ()
    """The command before ``-cat FILE`` that prints a file of Hadoop; () if there are none."""

    @property
    def forms(self) -> list[tuple[bool, int, bool]]:
        """The slots, as the native parser takes them."""
        return [(slot.is_float, slot.multiple, self.drops_zeros and not slot.is_dense) for slot in self.slots]


def of(dataset: Dataset) -> DatasetSettings:
    """What a dataset was told. `BadRequest` with everything that can't be done."""
    settings = dataset.proto_desc
    wrong = [words for name, words in _NOT_SUPPORTED.items() if getattr(dataset, name, False)]
    problems = [
        Problem(code="UM-FLEET-040", what=f"a dataset with {words}", hint="do it in the program of pipe_command")
        for words in wrong
    ]
    slots = tuple(
        SlotSetting(name=slot.name, is_float=slot.type == "float", is_dense=slot.is_dense, shape=tuple(slot.shape))
        for slot in settings.multi_slot_desc.slots
        if slot.is_used
    )
    if not slots:
        hint = "dataset.init(use_var=[label, ids], ...) with the variables of paddle.static.data"
        problems.append(Problem(code="UM-FLEET-041", what="a dataset without use_var", hint=hint))
    files = tuple(map(str, dataset.filelist or ()))
    if not files:
        hint = 'dataset.set_filelist(["part-0"])'
        problems.append(Problem(code="UM-FLEET-042", what="a dataset without files", hint=hint))
    BadRequest.raise_any(problems)
    return DatasetSettings(
        files=files,
        slots=slots,
        batch_size=max(int(settings.batch_size), 1),
        threads=max(int(dataset.thread_num), 1),
        command=settings.pipe_command or "cat",
        is_batch_per_line=int(settings.input_type) == 1,
        texts=sum(bool(getattr(dataset, name, False)) for name in ("parse_ins_id", "parse_content")),
        is_in_memory="InMemory" in settings.name,
        drops_zeros=settings.name == "MultiSlotInMemoryDataFeed",
    )


def feed_of(samples: MultiSlotSamples, settings: DatasetSettings) -> Feed:
    """A batch as a program is fed with it.

    A dense slot is an array of its variable's shape, any other one a pair:
    its values, one row each, and where each sample's begin.
    """
    feed: Feed = {}
    for slot, (values, offsets) in zip(settings.slots, samples.arrays(), strict=True):
        if slot.is_dense:
            counts = np.diff(offsets)
            is_even = not settings.is_batch_per_line and len(counts) and (counts == counts[0]).all()
            feed[slot.name] = _dense(slot, values, len(counts) if is_even else 0)
            continue
        begins = np.arange(len(values) + 1, dtype=np.int64) if settings.is_batch_per_line else offsets
        feed[slot.name] = (values.reshape(-1, 1), begins)
    return feed


def _dense(slot: SlotSetting, values: AnyArray, samples: int) -> AnyArray:
    """``samples``: how many there are, if each has as many values; else 0."""
    shape = list(slot.shape) or [-1]
    unknown = [at for at, size in enumerate(shape) if size < 0]
    for at in unknown[:-1]:
        # Of several unknown ones the first is the number of samples, if all have as many values.
        shape[at] = samples if at == 0 and samples else 1
    if unknown:
        shape[unknown[-1]] = len(values) // (slot.width * math.prod(shape[at] for at in unknown[:-1]))
    elif len(values) != slot.width:
        what = f"slot {slot.name}: {len(values)} values in a batch, and its variable has the shape {slot.shape}"
        raise bad("UM-FLEET-043", what, "begin its shape with None, the number of samples")
    return values.reshape(shape)
