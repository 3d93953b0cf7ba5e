"""The calls of Paddle's datasets, and training from them, in a job with servers. An adapter, for Paddle.

`install` puts them in place of Paddle's own, which still count where there is no such job: there Paddle's datasets
and its ``train_from_dataset`` work as they are. Settings (``init``, ``set_filelist``, ...) stay Paddle's in both cases.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import paddle
from paddle.base import dataset as base_datasets
from paddle.base.executor import Executor
from paddle.distributed.fleet.dataset import dataset as fleet_datasets

from umiak.core.value import replace
from umiak.fleet import job as jobs
from umiak.fleet.datasets import exchange, reading, settings, training
from umiak.fleet.datasets.reading import SampleMemory
from umiak.fleet.job import say
from umiak.ps.errors import bad
from umiak.ps.strategies import Sync

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from umiak_native import MultiSlotSamples

    from umiak.core.json_types import JsonObject
    from umiak.fleet.datasets.settings import DatasetSettings, Feed
    from umiak.fleet.job import FleetJob
    from umiak.ps.paddle_types import Call, Dataset, Fetched, Program, Scope, Variable, Variables

_MEMORY = "_umiak_memory"
_STEPS = "fleet.steps"
_SIZES = "fleet.sizes"


# ---- a dataset in memory


def memory_of(dataset: Dataset) -> SampleMemory:
    """What a dataset holds here; its own object holds nothing."""
    found: SampleMemory = dataset.__dict__.setdefault(_MEMORY, SampleMemory())
    return found


def load_into_memory(_job: FleetJob, dataset: Dataset, is_shuffle: bool = False) -> None:
    """Read all files of this trainer."""
    memory_of(dataset).load(settings.of(dataset), say)
    if is_shuffle:
        memory_of(dataset).shuffle()


def preload_into_memory(_job: FleetJob, dataset: Dataset, thread_num: int | None = None) -> None:
    """The same while the program goes on."""
    asked = settings.of(dataset)
    memory_of(dataset).start_loading(replace(asked, threads=thread_num or asked.threads), say)


def wait_preload_done(_job: FleetJob, dataset: Dataset) -> None:
    """Until `preload_into_memory` is done."""
    memory_of(dataset).wait()


def local_shuffle(_job: FleetJob, dataset: Dataset) -> None:
    """Put this trainer's samples into a random order."""
    memory_of(dataset).shuffle()


def global_shuffle(job: FleetJob, dataset: Dataset, fleet: object = None, thread_num: int = 12) -> None:
    """Without ``fleet`` it is a shuffle of this trainer's samples, as in Paddle."""
    memory = memory_of(dataset)
    if fleet is None or job.session.world == 1:
        memory.shuffle()
    else:
        memory.replace(exchange.shuffled(job.session, memory.samples))


def release_memory(_job: FleetJob, dataset: Dataset) -> None:
    """Forget all samples."""
    memory_of(dataset).release()


def get_memory_data_size(job: FleetJob, dataset: Dataset, fleet: object = None) -> int:
    """How many samples this trainer holds; with ``fleet`` all of them."""
    return _everybodys(job, len(memory_of(dataset)), fleet)


def get_shuffle_data_size(job: FleetJob, dataset: Dataset, fleet: object = None) -> int:
    """The same of samples that were shuffled."""
    memory = memory_of(dataset)
    return _everybodys(job, len(memory) if memory.is_shuffled else 0, fleet)


def slots_shuffle(_job: FleetJob, dataset: Dataset, slots: Sequence[str]) -> None:
    """Of these slots, give each sample another one's values. Nothing happens without ``fea_eval``, as in Paddle."""
    if not getattr(dataset, "fea_eval", False):
        return
    names = [slot.name for slot in settings.of(dataset).slots]
    unknown = [slot for slot in slots if slot not in names]
    if unknown:
        raise bad(
            "UM-FLEET-049", f"slots_shuffle: no such slots: {', '.join(unknown)}", f"there are {', '.join(names)}"
        )
    memory_of(dataset).shuffle_slots([names.index(slot) for slot in slots])


def _everybodys(job: FleetJob, own: int, fleet: object) -> int:
    if fleet is None:
        return own
    return sum(int(each) for each in job.session.gather(str(own).encode(), _SIZES) if each)


_OF_MEMORY = (
    *(load_into_memory, preload_into_memory, wait_preload_done, local_shuffle, global_shuffle, release_memory),
    *(get_memory_data_size, get_shuffle_data_size, slots_shuffle),
)


# ---- training


class RunnerSteps:
    """Steps of a program in a job: learned, or only run."""

    def __init__(self, job: FleetJob, executor: Executor, program: Program, scope: Scope, *, learns: bool) -> None:
        self._executor = executor
        self._program = program
        self._scope = scope
        self._runner = job.runner_of(program)
        self.learns = learns and self._runner is not None
        """On the servers."""
        self._reader = self._runner or job.reader_of(program, scope)

    def step(
        self, feed: Feed, fetch: Sequence[Variable | str], share: float | None, following: Feed | None
    ) -> list[Fetched]:
        how: JsonObject = {"executor": self._executor, "scope": self._scope, "return_numpy": False}
        if self.learns and self._runner is not None:
            return self._runner.step(feed, fetch, share=share, in_order=True, following=following, **how)
        if self._reader is not None:
            return self._reader.read(feed, fetch, **how)
        from umiak.fleet.programs.feeding import fed

        found = self._executor.run(
            self._program, feed=fed(feed), fetch_list=[*fetch], scope=self._scope, return_numpy=False
        )
        return list(found or [])

    def skip(self) -> None:
        if self._runner is not None:
            self._runner.skip()


def train_from_dataset(job: FleetJob, executor: Executor, *given: Any, **named: Any) -> None:
    """Learn every batch of a dataset once."""
    _run(job, executor, True, *given, **named)


def infer_from_dataset(job: FleetJob, executor: Executor, *given: Any, **named: Any) -> None:
    """Run the program with every batch of a dataset; nothing is learned."""
    _run(job, executor, False, *given, **named)


def _run(
    job: FleetJob,
    executor: Executor,
    learns: bool,
    program: Program = None,
    dataset: Dataset = None,
    scope: Scope = None,
    thread: int = 0,
    debug: bool = False,
    fetch_list: Variables = None,
    fetch_info: Sequence[str] | None = None,
    print_period: int = 100,
    fetch_handler: training.FetchHandler | None = None,
) -> None:
    del debug  # Paddle's own prints how long each operation takes
    if dataset is None:
        raise bad("UM-FLEET-049", "train_from_dataset without a dataset", "train_from_dataset(program, dataset, ...)")
    program = paddle.static.default_main_program() if program is None else program
    asked = settings.of(dataset)
    if thread > 0:
        asked = replace(asked, threads=thread)
    steps = RunnerSteps(job, executor, program, scope, learns=learns)
    session = job.session
    if not steps.learns and session.optimizers:
        session.catch_up()
    together = steps.learns and session.world > 1 and isinstance(session.strategy, Sync)
    training.run(
        _batches(dataset, asked),
        asked,
        steps,
        _fetched(fetch_list, fetch_info, print_period, fetch_handler),
        gather=functools.partial(session.gather, name=_STEPS) if together else None,
        rank=session.rank,
        write=functools.partial(print, flush=True),
    )
    if steps.learns:
        session.flush()


def _batches(dataset: Dataset, asked: DatasetSettings) -> Iterable[MultiSlotSamples]:
    if not asked.is_in_memory:
        return reading.FileBatches(asked, say)
    memory = memory_of(dataset)
    memory.wait()
    return memory.batches(asked.batch_size)


def _fetched(
    variables: Variables, names: Sequence[str] | None, period: int, handler: training.FetchHandler | None
) -> training.FetchPlan:
    found = tuple(variables or ())
    words = tuple(names or (getattr(each, "name", each) for each in found))
    if len(words) != len(found):
        what = f"fetch_list has {len(found)} variables and fetch_info {len(words)} names"
        raise bad("UM-FLEET-049", what, "give as many names as variables")
    return training.FetchPlan(variables=found, names=words, period=max(int(period), 1), handler=handler)


# ---- in place of Paddle's


def install() -> None:
    """Replace Paddle's calls by ours. Twice is fine."""
    for kind in (fleet_datasets.InMemoryDataset, base_datasets.InMemoryDataset):
        for ours in _OF_MEMORY:
            _replace(kind, ours.__name__, ours)
    _replace(Executor, "train_from_dataset", train_from_dataset)
    _replace(Executor, "infer_from_dataset", infer_from_dataset)


def _replace(kind: type, name: str, ours: Call) -> None:
    theirs = getattr(kind, name)
    if not hasattr(theirs, jobs.MARK):
        setattr(kind, name, jobs.in_a_job(theirs, ours, lambda job, _own: not job.is_server))
