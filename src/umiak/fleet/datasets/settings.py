"""What a dataset of Paddle's was told: files, slots, the program that prints samples. Values, and the decider that reads them.

    of(paddle.distributed.QueueDataset())      whatever was set on it, by `init` or by a setter

Paddle's object keeps it: so both of its families (``paddle.distributed`` and ``paddle.base``) are read in one way, and a dataset
that was made before ``fleet.init`` counts as well.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from umiak.core.problem import Problem
from umiak.core.value import value
from umiak.ps.errors import BadRequest

if TYPE_CHECKING:
    from typing import Any

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

    @property
    def forms(self) -> list[tuple[bool, int, bool]]:
        """The slots, as the native parser takes them."""
        return [(slot.is_float, slot.multiple, self.drops_zeros and not slot.is_dense) for slot in self.slots]


def of(dataset: Any) -> DatasetSettings:
    """What a dataset was told. `BadRequest` with everything that can't be done."""
    said = dataset.proto_desc
    wrong = [words for name, words in _NOT_SUPPORTED.items() if getattr(dataset, name, False)]
    problems = [
        Problem(code="UM-FLEET-040", what=f"a dataset with {words}", hint="do it in the program of pipe_command")
        for words in wrong
    ]
    slots = tuple(
        SlotSetting(name=slot.name, is_float=slot.type == "float", is_dense=slot.is_dense, shape=tuple(slot.shape))
        for slot in said.multi_slot_desc.slots
        if slot.is_used
    )
    if not slots:
        hint = "dataset.init(use_var=[label, ids], ...) with the variables of paddle.static.data"
        problems.append(Problem(code="UM-FLEET-041", what="a dataset without use_var", hint=hint))
    files = tuple(map(str, dataset.filelist or ()))
    if not files:
        hint = 'dataset.set_filelist(["part-0"])'
        problems.append(Problem(code="UM-FLEET-042", what="a dataset without files", hint=hint))
    if problems:
        raise BadRequest(*problems)
    return DatasetSettings(
        files=files,
        slots=slots,
        batch_size=max(int(said.batch_size), 1),
        threads=max(int(dataset.thread_num), 1),
        command=said.pipe_command or "cat",
        is_batch_per_line=int(said.input_type) == 1,
        texts=sum(bool(getattr(dataset, name, False)) for name in ("parse_ins_id", "parse_content")),
        is_in_memory="InMemory" in said.name,
        drops_zeros=said.name == "MultiSlotInMemoryDataFeed",
    )
