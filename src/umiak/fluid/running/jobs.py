"""The job of this process as executors see it: who runs a program instead of them. Keeps one object, and decides nothing. A program.

`umiak.fluid.distributed` stands above this package and puts the job here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from typing import Any

    from umiak.fluid.arguments import Feed, Inputs, Outputs
    from umiak.fluid.record.program import RecordedProgram
    from umiak.fluid.running.scope import VariableScope

    class Runner(Protocol):
        """What runs a program in place of an executor, which is given to it."""

        def run(
            self, executor: Any, feed: Feed, fetch: Inputs, *, scope: VariableScope, return_numpy: bool
        ) -> Outputs: ...

    class ProcessJob(Protocol):
        """What a job is asked by executors and by `fluid.io`."""

        def reader_of(self, program: RecordedProgram, scope: VariableScope) -> Runner | None: ...
        def close(self) -> None: ...


class _Process:
    job: ProcessJob | None = None


def use(job: ProcessJob | None) -> None:
    """This process is a part of this job from now on."""
    _Process.job = job


def current() -> ProcessJob | None:
    """The job, if there is one."""
    return _Process.job


def runner_of(program: RecordedProgram, scope: VariableScope) -> Runner | None:
    """Who runs this program instead of the executor; None: nobody."""
    if program.runner is not None:
        runner: Runner = program.runner
        return runner
    return None if _Process.job is None else _Process.job.reader_of(program, scope)


def close() -> None:
    """This process runs nothing any more."""
    if _Process.job is not None:
        _Process.job.close()
