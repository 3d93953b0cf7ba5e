"""`fluid.Executor`: runs a program with what it is fed, and returns what is fetched. A program."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle

from umiak.fluid.kernels.registry import Frame
from umiak.fluid.record.current import default_main_program
from umiak.fluid.record.problems import bad
from umiak.fluid.record.program import RecordedProgram, Variable
from umiak.fluid.record.recording import dtype_name
from umiak.fluid.record.sites import user_line
from umiak.fluid.running import jobs, places, pruning
from umiak.fluid.running.compiled import CompiledProgram
from umiak.fluid.running.replay import Prepared, prepared, replay
from umiak.fluid.running.scope import LoDTensor, VariableScope, global_scope
from umiak.fluid.running.slots import SlotIds

if TYPE_CHECKING:
    from collections.abc import Collection

    from umiak.data.array_types import AnyArray
    from umiak.fluid.arguments import AnyProgram, Feed, Feeds, Inputs, Names, Outputs, Place, Value


class ReplayExecutor:
    """Runs programs on one device."""

    def __init__(self, place: Place = None) -> None:
        self.place = place or places.CpuPlace()
        self._prepared: dict[tuple[int, bool], tuple[Any, Prepared]] = {}
        self._pruned = pruning.PrunedPrograms()

    def close(self) -> None:
        """Nothing is open; in a job with servers this trainer takes no more steps."""
        jobs.close()

    def run(
        self,
        program: AnyProgram = None,
        feed: Feeds = None,
        fetch_list: Inputs = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: VariableScope | None = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
        return_merged: bool = True,
        use_prune: bool = False,
    ) -> Any:
        """One pass over the program's operations. ``use_prune``: only those that what is fetched needs. Without ``return_merged`` a program
        `with_data_parallel` gives a list for each value, with what each device has: here is one.
        """
        each_device = not return_merged and isinstance(program, CompiledProgram) and program.is_parallel
        program = self._program(program)
        scope = scope or global_scope()
        places.use(self.place)
        wanted, learning = pruning.split(fetch_list)
        runner = jobs.runner_of(program, scope)
        if runner is not None:
            results = runner.run(self, merged(feed), wanted, scope=scope, return_numpy=return_numpy)
        else:
            if use_prune and (wanted or learning):
                program = self._pruned.of(program, [self._fetched_name(each) for each in wanted], learning)
            frame = self.replayed(program, merged(feed), scope, fetch=wanted)
            results = self.fetched(frame, wanted, return_numpy=return_numpy)
        return [[each] for each in results] if each_device else results

    def replayed(
        self,
        program: RecordedProgram,
        feed: Feed,
        scope: VariableScope,
        *,
        exchange: Any = None,
        fed_by: Any = None,
        fetch: Inputs = None,
    ) -> Frame:
        """All values of one pass. ``exchange``: what operations ask that reach other processes. ``fed_by``: the program whose loaders
        feed this one, where it is a changed copy. ``fetch``: what is asked for afterwards, if it is known: what nobody asks for need not be there.
        """
        if program.random_seed and program.number not in scope.seeded:
            paddle.seed(program.random_seed)
            scope.seeded.add(program.number)
        frame = Frame({})
        frame.exchange = exchange
        wanted = None if fetch is None else {self._fetched_name(each) for each in _as_list(fetch)}
        plan = prepared(program, self._prepared, wanted)
        frame.unread = () if wanted is None else plan.ends - wanted
        for each in [*(loader.next_feed() for loader in (fed_by or program).loaders if loader.started), feed]:
            self._feed(program, each, frame, plan.arrays)
        replay(plan, frame, scope)
        return frame

    def fetched(self, frame: Frame, fetch_list: Inputs, *, return_numpy: bool = True) -> Outputs:
        """What of it is asked for."""
        names = [self._fetched_name(each) for each in _as_list(fetch_list)]
        return [self._fetched(name, frame, return_numpy=return_numpy) for name in names]

    def _program(self, program: AnyProgram) -> RecordedProgram:
        if program is None:
            return default_main_program()
        if isinstance(program, CompiledProgram):
            program = program.program
        if not isinstance(program, RecordedProgram):
            raise bad("UM-FLUID-001", f"Executor.run: expected a Program, got {program!r}", where=user_line())
        return program

    def _feed(self, program: RecordedProgram, feed: Feed, frame: Frame, arrays: Collection[str]) -> None:
        known = program.global_block().vars
        for name, given in feed.items():
            if type(given) is SlotIds:
                if name in arrays:
                    frame.slots[name] = given
                    continue
                given = given.sequences()  # noqa: PLW2901 - as everybody else feeds it
            if isinstance(given, LoDTensor) and given.levels:
                frame.offsets[name] = given.levels
            if name in arrays and not isinstance(given, paddle.Tensor):
                frame.arrays[name] = as_array(name, given, known[name])
            else:
                frame.values[name] = as_tensor(name, given, known.get(name))

    @staticmethod
    def _fetched_name(wanted: Names) -> str:
        if isinstance(wanted, str):
            return wanted
        if isinstance(wanted, Variable):
            return wanted.name
        raise bad("UM-FLUID-001", f"fetch_list: expected variables or their names, got {wanted!r}", where=user_line())

    @staticmethod
    def _fetched(name: str, frame: Frame, *, return_numpy: bool) -> Any:
        if name in frame.slots:
            given = frame.slots[name].sequences()
            return np.array(given) if return_numpy else given
        if name in frame.arrays:
            array = frame.arrays[name]
            return array.copy() if return_numpy else LoDTensor(array.copy(), frame.offsets.get(name, ()))
        if name not in frame.values:
            raise bad(
                "UM-FLUID-005", f"fetch_list: {name} is computed by no operation of this program", where=user_line()
            )
        tensor = frame.values[name]
        if isinstance(tensor, list):
            return [each.numpy() for each in tensor]
        values = tensor.numpy()
        return values if return_numpy else LoDTensor(values, frame.offsets.get(name, ()))

    def train_from_dataset(self, program: AnyProgram = None, dataset: Any = None, scope: VariableScope | None = None, thread: int = 0, debug: bool = False, fetch_list: Inputs = None, fetch_info: Any = None, print_period: int = 100, fetch_handler: Any = None) -> None:  # fmt: skip
        """Run the program with every batch of a dataset once."""
        from umiak.fluid.running import dataset_runs

        dataset_runs.run(
            self, "train_from_dataset", program, dataset, scope, thread, debug,
            dataset_runs.plan_of(fetch_list, fetch_info, print_period, fetch_handler),
        )  # fmt: skip

    def infer_from_dataset(self, program: AnyProgram = None, dataset: Any = None, scope: VariableScope | None = None, thread: int = 0, debug: bool = False, fetch_list: Inputs = None, fetch_info: Any = None, print_period: int = 100, fetch_handler: Any = None) -> None:  # fmt: skip
        """The same with a program that does not learn; a warning if it does."""
        from umiak.fluid.running import dataset_runs

        dataset_runs.warn_of_learning(self._program(program))
        dataset_runs.run(
            self, "infer_from_dataset", program, dataset, scope, thread, debug,
            dataset_runs.plan_of(fetch_list, fetch_info, print_period, fetch_handler),
        )  # fmt: skip


def _as_list(wanted: Names) -> Outputs:
    if wanted is None:
        return []
    if isinstance(wanted, list | tuple):
        return [each for one in wanted for each in (one if isinstance(one, list | tuple) else [one])]
    return [wanted]


def merged(feed: Feeds) -> Feed:
    """One feed; those for several devices together."""
    if feed is None:
        return {}
    if isinstance(feed, dict):
        return feed
    if isinstance(feed, list | tuple) and all(isinstance(each, dict) for each in feed):
        if len(feed) == 1:
            return dict(feed[0])
        if feed:
            return {name: np.concatenate([np.asarray(each[name]) for each in feed]) for name in feed[0]}
        return {}
    raise bad(
        "UM-FLUID-001",
        f"expected feed to be a dictionary of names and arrays, got {type(feed).__name__}",
        where=user_line(),
    )


def as_tensor(name: str, given: Value, variable: Variable | None) -> Any:
    """What is fed, in the type of its variable; an error if its shape can't be."""
    if isinstance(given, paddle.Tensor):
        return given
    if variable is None:
        return paddle.to_tensor(np.asarray(given))
    return paddle.to_tensor(as_array(name, given, variable), stop_gradient=variable.stop_gradient)


def as_array(name: str, given: Value, variable: Variable) -> AnyArray:
    """The same as an array."""
    array = np.asarray(given)
    if array.dtype == object:
        raise bad(
            "UM-FLUID-006",
            f"feed: the rows of {name} differ in length",
            "feed a LoDTensor, made by create_lod_tensor",
            where=user_line(),
        )
    if not is_named(array.dtype, variable.dtype) and variable.dtype != "bfloat16":
        array = array.astype(variable.dtype)
    checked = getattr(variable, "checked", False)
    wrong = len(array.shape) != len(variable.shape) or any(
        size not in (-1, own) for own, size in zip(array.shape, variable.shape, strict=False)
    )
    if checked and wrong and not variable.lod_level:
        what = f"feed: {name} is {variable.dtype}{list(variable.shape)}, got {list(array.shape)}"
        raise bad("UM-FLUID-006", what, "-1 in a shape is any size", where=user_line())
    return array


@lru_cache
def is_named(dtype: Any, name: str) -> bool:
    """Whether a type of numpy is the one that is written so in a program."""
    return dtype_name(dtype) == name
