"""`fluid.DatasetFactory` and its datasets: what they are told, and the samples of those in memory. A program.

Files are read, parsed and cut into batches by `umiak.fleet.datasets`, which does the same for Paddle's own datasets.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from umiak.core.problem import Problem
from umiak.core.value import replace
from umiak.fleet.datasets import exchange, pipes, reading
from umiak.fleet.datasets.reading import SampleMemory
from umiak.fleet.datasets.settings import DatasetSettings, SlotSetting
from umiak.fluid.data.hadoop import HadoopCommand
from umiak.fluid.record.problems import FluidError, bad
from umiak.fluid.record.remarks import left_out
from umiak.fluid.record.sites import user_line
from umiak.ps import sessions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from umiak_native import MultiSlotSamples

    from umiak.fluid.arguments import Inputs, Value
    from umiak.ps.sessions import Session

TYPES = {"float32": True, "int64": False}
"""Of variables that a dataset can fill, and whether their values have fractions."""
SIZES = "fluid.sizes"
HADOOP_SETTINGS = {"dfs.client.block.write.retries": "15", "dfs.rpc.timeout": "300000"}


def say(text: str) -> None:
    """Something that a person should know of the files."""
    warnings.warn(text, stacklevel=2)


class FluidDataset:
    """Files, the variables that their lines fill, and the program that prints these lines."""

    feed: ClassVar[str] = "MultiSlotDataFeed"
    is_in_memory: ClassVar[bool] = False

    def __init__(self) -> None:
        self._settings = DatasetSettings(is_in_memory=self.is_in_memory, drops_zeros=self.is_in_memory)
        self._hadoop: HadoopCommand | None = None
        self.thread_num = 1
        self.filelist: list[str] = []

    # ---- what it is told

    def set_use_var(self, var_list: Inputs) -> None:
        """The variables, in the order of a line's slots."""
        wrong = [f"{each.name} is {each.dtype}" for each in var_list if each.dtype not in TYPES]
        if wrong:
            what = f"set_use_var: a dataset has float32 and int64, {', '.join(wrong)}"
            raise bad("UM-FLUID-021", what, "read it as one of these, and use layers.cast", where=user_line())
        slots = [*self._settings.slots, *map(_slot, var_list)]
        names = [slot.name for slot in slots]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            what = f"set_use_var: a dataset has these slots twice: {', '.join(twice)}"
            raise bad("UM-FLUID-021", what, "call set_use_var once", where=user_line())
        self._settings = replace(self._settings, slots=tuple(slots))

    def set_pipe_command(self, pipe_command: str) -> None:
        """A shell command that reads a file on its standard input, and prints lines of slots."""
        self._settings = replace(self._settings, command=pipe_command)

    def set_filelist(self, filelist: Sequence[str]) -> None:
        """The files, some of Hadoop among them: ``hdfs:``, ``afs:``."""
        self.filelist = list(map(str, filelist))

    def set_thread(self, thread_num: int) -> None:
        """So many files are read at a time."""
        self.thread_num = int(thread_num)

    def set_batch_size(self, batch_size: int) -> None:
        """Samples of a batch."""
        self._settings = replace(self._settings, batch_size=max(int(batch_size), 1))

    def set_hdfs_config(self, fs_name: str, fs_ugi: str) -> None:
        """The cluster of files of Hadoop, and a user with a password."""
        self._hadoop = HadoopCommand(None, {"fs.default.name": fs_name, "hadoop.job.ugi": fs_ugi, **HADOOP_SETTINGS})

    def set_rank_offset(self, rank_offset: str) -> None:
        """Refused: page views."""
        refused("set_rank_offset", "page views are not merged")

    def set_pv_batch_size(self, pv_batch_size: int) -> None:
        """Refused: page views."""
        refused("set_pv_batch_size", "page views are not merged")

    def set_fea_eval(self, record_candidate_size: int, fea_eval: bool = True) -> None:
        """Refused but for datasets in memory."""
        refused("set_fea_eval", "the samples of this dataset are not in memory", "InMemoryDataset")

    def slots_shuffle(self, slots: Sequence[str]) -> None:
        """Refused but for datasets in memory."""
        refused("slots_shuffle", "the samples of this dataset are not in memory", "InMemoryDataset")

    def local_shuffle(self) -> None:
        """Refused but for datasets in memory."""
        name = type(self).__name__
        raise NotImplementedError(f"{name} does not support local shuffle, use InMemoryDataset")

    def global_shuffle(self, fleet: object = None) -> None:
        """Refused but for datasets in memory."""
        name = type(self).__name__
        raise NotImplementedError(f"{name} does not support global shuffle, use InMemoryDataset")

    # ---- what comes of it

    def settings(self, threads: int = 0) -> DatasetSettings:
        """All of it, checked. ``threads``: instead of those that were set."""
        problems = []
        where = user_line()
        if not self._settings.slots:
            hint = "dataset.set_use_var([label, ids]) with variables of fluid.data"
            problems.append(Problem(code="UM-FLUID-021", what="a dataset without variables", hint=hint, where=where))
        if not self.filelist:
            hint = 'dataset.set_filelist(["part-0"])'
            problems.append(Problem(code="UM-FLUID-021", what="a dataset without files", hint=hint, where=where))
        if problems:
            raise FluidError(*problems)
        remote: tuple[str, ...] = ()
        if any(map(pipes.is_remote, self.filelist)):
            self._hadoop = self._hadoop or HadoopCommand(None, {})
            remote = tuple(self._hadoop.words)
        return replace(
            self._settings, files=tuple(self.filelist), threads=max(threads or self.thread_num, 1), remote=remote
        )

    def batches(self, settings: DatasetSettings) -> Iterable[MultiSlotSamples]:
        """The samples of one pass."""
        return reading.FileBatches(settings, say)

    def desc(self) -> str:
        """The settings as text, in the form of 1.8."""
        from paddle.base.proto.data_feed_pb2 import DataFeedDesc

        message = DataFeedDesc()
        message.name, message.pipe_command = self.feed, self._settings.command
        message.batch_size = self._settings.batch_size
        for slot in self._settings.slots:
            added = message.multi_slot_desc.slots.add()
            added.name, added.is_used, added.is_dense = slot.name, True, slot.is_dense
            added.type = "float" if slot.is_float else "uint64"
            added.shape.extend(slot.shape if slot.is_dense else ())
        return str(message)


class QueueDataset(FluidDataset):
    """Reads its files while a program learns from them."""


class FileInstantDataset(FluidDataset):
    """The same, by another name."""

    feed = "MultiSlotFileInstantDataFeed"


class InMemoryDataset(FluidDataset):
    """Holds all samples, so that they can be shuffled."""

    feed = "MultiSlotInMemoryDataFeed"
    is_in_memory = True

    def __init__(self) -> None:
        super().__init__()
        self._memory = SampleMemory()
        self._texts = {"id": False, "content": False}
        self._evaluates_slots = False

    # ---- what it is told

    def set_parse_ins_id(self, parse_ins_id: bool) -> None:
        """Whether a line begins with an id, which is passed over."""
        self._set_texts(id=parse_ins_id)

    def set_parse_content(self, parse_content: bool) -> None:
        """Whether a content stands before the slots, which is passed over."""
        self._set_texts(content=parse_content)

    def _set_texts(self, **given: bool) -> None:
        self._texts.update(given)
        self._settings = replace(self._settings, texts=sum(map(bool, self._texts.values())))

    def set_queue_num(self, queue_num: int) -> None:
        """No effect, which is said: there are no channels inside of it."""
        left_out("dataset.set_queue_num", queue_num=queue_num)

    def set_fleet_send_batch_size(self, fleet_send_batch_size: int = 1024) -> None:
        """No effect, which is said."""
        left_out("dataset.set_fleet_send_batch_size", fleet_send_batch_size=fleet_send_batch_size)

    def set_fleet_send_sleep_seconds(self, fleet_send_sleep_seconds: int = 0) -> None:
        """No effect, which is said."""
        left_out("dataset.set_fleet_send_sleep_seconds", fleet_send_sleep_seconds=fleet_send_sleep_seconds)

    def set_merge_by_sid(self, merge_by_sid: bool) -> None:
        """Refused, if it is wanted."""
        _unless_off("set_merge_by_sid", merge_by_sid, "page views are not merged")

    def set_enable_pv_merge(self, enable_pv_merge: bool) -> None:
        """Refused, if it is wanted."""
        _unless_off("set_enable_pv_merge", enable_pv_merge, "page views are not merged")

    def set_parse_logkey(self, parse_logkey: bool) -> None:
        """Refused, if it is wanted."""
        _unless_off("set_parse_logkey", parse_logkey, "log keys are not read")

    def set_merge_by_lineid(self, merge_size: int = 2) -> None:
        """Refused."""
        refused("set_merge_by_lineid", "samples are not merged")

    def set_generate_unique_feasigns(self, generate_uni_feasigns: bool, shard_num: int) -> None:
        """Refused, if it is wanted."""
        _unless_off("set_generate_unique_feasigns", generate_uni_feasigns, "servers find new ids themselves")

    def set_current_phase(self, current_phase: int) -> None:
        """Refused."""
        refused("set_current_phase", "page views are not merged")

    def preprocess_instance(self) -> None:
        """Refused."""
        refused("preprocess_instance", "page views are not merged")

    postprocess_instance = preprocess_instance

    # ---- samples

    def load_into_memory(self) -> None:
        """Read all files."""
        self._memory.load(self.settings(), say)

    def preload_into_memory(self, thread_num: int | None = None) -> None:
        """The same while the program goes on."""
        self._memory.start_loading(self.settings(thread_num or 0), say)

    def wait_preload_done(self) -> None:
        """Until `preload_into_memory` is done."""
        self._memory.wait()

    def local_shuffle(self) -> None:
        """Put the samples into a random order, drawn with numpy.random."""
        self._memory.shuffle()

    def global_shuffle(self, fleet: Any = None, thread_num: int = 12) -> None:
        """With ``fleet`` all trainers shuffle together: each of them has to call it. Without, it is `local_shuffle`."""
        if fleet is None or fleet.worker_num() == 1:
            self._memory.shuffle()
            return
        session = _session(fleet, "global_shuffle")
        self._memory.replace(exchange.shuffled(session, self._memory.samples))

    def set_fea_eval(self, record_candidate_size: int, fea_eval: bool = True) -> None:
        """Whether `slots_shuffle` does anything."""
        left_out("dataset.set_fea_eval", record_candidate_size=record_candidate_size)
        self._evaluates_slots = fea_eval

    def slots_shuffle(self, slots: Sequence[str]) -> None:
        """Of these slots, give each sample another one's values; nothing without `set_fea_eval`, as in 1.8."""
        if not self._evaluates_slots:
            without_effect("slots_shuffle", "set_fea_eval was not called")
            return
        names = [slot.name for slot in self._settings.slots]
        unknown = [slot for slot in slots if slot not in names]
        if unknown:
            what = f"slots_shuffle: no such slots: {', '.join(unknown)}"
            raise bad("UM-FLUID-021", what, f"there are {', '.join(names)}", where=user_line())
        self._memory.shuffle_slots([names.index(slot) for slot in slots])

    def release_memory(self) -> None:
        """Forget all samples."""
        self._memory.release()

    def get_memory_data_size(self, fleet: Any = None) -> int:
        """How many samples it holds; with ``fleet`` all trainers, each of which has to ask."""
        return _everybodys(len(self._memory), fleet, "get_memory_data_size")

    def get_shuffle_data_size(self, fleet: Any = None) -> int:
        """How many of them were shuffled."""
        return _everybodys(len(self._memory) if self._memory.is_shuffled else 0, fleet, "get_shuffle_data_size")

    def batches(self, settings: DatasetSettings) -> Iterable[MultiSlotSamples]:
        self._memory.wait()
        return self._memory.batches(settings.batch_size)


class DatasetFactory:
    """`fluid.DatasetFactory`."""

    kinds: ClassVar[dict[str, type[FluidDataset]]] = {
        kind.__name__: kind for kind in (QueueDataset, InMemoryDataset, FileInstantDataset)
    }

    def create_dataset(self, datafeed_class: str = "QueueDataset") -> FluidDataset:
        """A dataset by the name of its kind."""
        if datafeed_class not in self.kinds:
            if datafeed_class == "BoxPSDataset":
                refused("BoxPSDataset", "its servers on GPUs are gone", "InMemoryDataset")
            what = f"create_dataset: expected {', '.join(self.kinds)}, got {datafeed_class!r}"
            raise bad("UM-FLUID-001", what, where=user_line())
        return self.kinds[datafeed_class]()


def _slot(variable: Value) -> SlotSetting:
    is_dense = variable.lod_level == 0
    return SlotSetting(
        name=variable.name,
        is_float=TYPES[variable.dtype],
        is_dense=is_dense,
        shape=tuple(variable.shape) if is_dense else (),
    )


def _session(fleet: Any, name: str) -> Session:
    """How trainers of this job reach each other: through its servers."""
    session = sessions.session()
    if session.world != fleet.worker_num():
        refused(f"{name} among several trainers", "they exchange samples in jobs with parameter servers only", "local_shuffle")  # fmt: skip
    return session


def _everybodys(own: int, fleet: Any, name: str) -> int:
    if fleet is None or fleet.worker_num() == 1:
        return own
    return sum(int(each) for each in _session(fleet, name).gather(str(own).encode(), SIZES) if each)


def refused(name: str, why: str, instead: str = "do it in the program of set_pipe_command") -> NoReturn:
    """An error: this does not work."""
    raise bad("UM-FLUID-003", f"{name} does not work", f"use instead: {instead}", why=why, where=user_line())


def _unless_off(name: str, wanted: object, why: str) -> None:
    if wanted:
        refused(name, why)


def without_effect(name: str, why: str) -> None:
    """A warning: this is accepted and changes nothing."""
    warnings.warn(f"dataset.{name} has no effect: {why}", stacklevel=3)
