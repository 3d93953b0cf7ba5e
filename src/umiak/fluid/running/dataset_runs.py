"""`Executor.train_from_dataset` and `infer_from_dataset`: a program is run with every batch of a dataset. A program.

Batches are made ready by a thread while others are learned; what is fetched is printed as 1.8 prints it.
"""

from __future__ import annotations

import functools
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from umiak.fleet.datasets import training
from umiak.fleet.datasets.settings import feed_of
from umiak.fluid.data.datasets import FluidDataset
from umiak.fluid.record.problems import bad
from umiak.fluid.record.program import FORWARD, RecordedProgram
from umiak.fluid.record.sites import user_line
from umiak.fluid.running import measuring
from umiak.fluid.running.scope import LoDTensor, global_scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from umiak.fluid.arguments import AnyProgram, Feed, Inputs, Outputs


class ReplaySteps:
    """Runs a program with one batch after another."""

    def __init__(self, executor: Any, program: AnyProgram, scope: Any) -> None:
        self._executor, self._program, self._scope = executor, program, scope

    @property
    def _runner(self) -> Any:
        """What runs the program in a job with servers."""
        runner = getattr(self._executor._program(self._program), "runner", None)  # noqa: SLF001 - the executor's own half
        return runner if hasattr(runner, "skip") else None

    @property
    def gather(self) -> Any:
        """How trainers that take their steps together tell each other the sizes of their batches; None where they do not."""
        return None if self._runner is None else self._runner.gather

    @property
    def rank(self) -> int:
        """This trainer's number."""
        return 0 if self._runner is None else self._runner.rank

    def step(self, feed: Feed, fetch: Sequence[Any], share: float | None, following: Feed | None) -> Outputs:
        """What is fetched."""
        del following  # the replay asks for rows where an operation needs them
        if self._runner is not None:
            scope = self._scope or global_scope()
            shared: Outputs = self._runner.run(self._executor, fed(feed), list(fetch), scope=scope, return_numpy=False, share=share)  # fmt: skip
            return shared
        found: Outputs = self._executor.run(
            self._program, feed=fed(feed), fetch_list=list(fetch), scope=self._scope, return_numpy=False
        )
        return found

    def skip(self) -> None:
        """A step of the others, for which this process has no batch."""
        if self._runner is not None:
            self._runner.skip()


def fed(feed: Feed) -> Feed:
    """A batch as a program of fluid is fed: slots of sequences with their offsets."""
    return {
        name: LoDTensor(values[0], [values[1]]) if isinstance(values, tuple) else values
        for name, values in feed.items()
    }


def run(
    executor: Any,
    name: str,
    program: AnyProgram,
    dataset: Any,
    scope: Any,
    thread: int,
    debug: bool,
    fetch: training.FetchPlan,
) -> None:
    """Run the program with every batch of the dataset once. ``debug``: print how long its operations took."""
    settings = _checked(dataset, name).settings(max(int(thread or 0), 0))
    with measuring.profiler("CPU", "total", None) if debug else nullcontext():
        taker = ReplaySteps(executor, program, scope)
        training.run(
            dataset.batches(settings),
            settings,
            taker,
            fetch,
            gather=taker.gather,
            rank=taker.rank,
            write=functools.partial(print, flush=True),
        )


def feeds(dataset: Any, *, drop_last: bool) -> Iterator[Feed]:
    """The batches of a dataset as they are fed."""
    settings = _checked(dataset, "DataLoader.from_dataset").settings()
    for samples in dataset.batches(settings):
        if len(samples) == settings.batch_size or not drop_last:
            yield fed(feed_of(samples, settings))


def _checked(dataset: Any, name: str) -> FluidDataset:
    if not isinstance(dataset, FluidDataset):
        what = f"{name}: expected a dataset of fluid.DatasetFactory, got {dataset!r}"
        raise bad("UM-FLUID-021", what, "fluid.DatasetFactory().create_dataset()", where=user_line())
    return dataset


def plan_of(
    fetch_list: Inputs, fetch_info: Sequence[str] | None, print_period: int, fetch_handler: Any
) -> training.FetchPlan:
    """What is fetched, and how it is printed."""
    variables = tuple(fetch_list or ())
    names = tuple(fetch_info or (getattr(each, "name", each) for each in variables))
    if len(names) != len(variables):
        what = f"fetch_list has {len(variables)} variables and fetch_info {len(names)} names"
        raise bad("UM-FLUID-021", what, "give as many names as variables", where=user_line())
    return training.FetchPlan(variables=variables, names=names, period=max(int(print_period), 1), handler=fetch_handler)


def warn_of_learning(program: RecordedProgram) -> None:
    """Said, since 1.8 as well updates parameters there: operations of an optimizer are operations of the program."""
    learning = [each for each in program.global_block().ops if each.role != FORWARD]
    if learning:
        warnings.warn(
            "infer_from_dataset: this program learns, and goes on learning here; give it program.clone(for_test=True) made before minimize",
            stacklevel=4,
        )
