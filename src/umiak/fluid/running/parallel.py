"""`fluid.ParallelExecutor`: the same program on one device. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from umiak.fluid.record.current import default_main_program
from umiak.fluid.record.problems import bad
from umiak.fluid.record.sites import user_line
from umiak.fluid.running.executor import ReplayExecutor
from umiak.fluid.running.places import CpuPlace, CudaPlace

if TYPE_CHECKING:
    from umiak.fluid.arguments import AnyProgram, Feeds, Inputs, Settings


class ParallelExecutor:
    """An executor that knows its program."""

    device_count = 1

    def __init__(
        self,
        use_cuda: bool,
        loss_name: str | None = None,
        main_program: AnyProgram = None,
        share_vars_from: object = None,
        exec_strategy: Settings = None,
        build_strategy: Settings = None,
        num_trainers: int = 1,
        trainer_id: int = 0,
        scope: Any = None,
    ) -> None:
        if num_trainers > 1:
            what = f"ParallelExecutor(num_trainers={num_trainers}, trainer_id={trainer_id}) does not work: it knows one process"
            raise bad("UM-FLUID-003", what, "use instead: incubate.fleet.collective", where=user_line())
        self._executor = ReplayExecutor(CudaPlace(0) if use_cuda else CpuPlace())
        self._program, self._scope = main_program, scope

    def run(self, fetch_list: Inputs, feed: Feeds = None, feed_dict: Feeds = None, return_numpy: bool = True) -> Any:
        """One pass."""
        given = feed if feed is not None else feed_dict
        program = self._program or default_main_program()
        return self._executor.run(program, given, fetch_list, scope=self._scope, return_numpy=return_numpy)

    def drop_local_exe_scopes(self) -> None:
        """There are none."""
