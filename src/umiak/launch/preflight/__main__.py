"""`python -m umiak.launch.preflight ERRAND`: one worker of a check, in the seat of a worker of the job. A program.

It ends with status 0 whatever is found; see the package's docstring. A port that it can't listen on ends it like any
other program, so that the launcher does what it does then: try other ports.
"""

from __future__ import annotations

import json
import os
import sys

from umiak.adapters.loop import Loop
from umiak.core.cluster import Role
from umiak.core.problem import Problem
from umiak.launch.preflight import facts, sockets, table
from umiak.launch.preflight.collector import Collector
from umiak.launch.preflight.member import CheckMember
from umiak.launch.preflight.task import CheckResult, CheckTask, bring, read_task
from umiak.launch.preflight.worker import read_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.adapters.frames import FramedSocket
    from umiak.launch.preflight.examination import Verdict

LOOK_UP_S = 5.0


def main(word: str, environ: Mapping[str, str]) -> None:
    """Take part in a check until it is over."""
    _Worker(read_task(word), environ).run()


class _Worker:
    """One worker of the check: a member of it, and in the first trainer's seat its collector as well."""

    def __init__(self, task: CheckTask, environ: Mapping[str, str]) -> None:
        self._task = task
        self._worker = worker = read_worker(environ)
        self._speaks = worker.seat.key == task.first
        self._loop = loop = Loop()
        self._unfinished = 2 if worker.collects else 1
        self._problem: Problem | None = None
        # Before the limit is raised: what the node allows is one of its facts.
        own_facts = facts.gather(task) if self._speaks else None
        sockets.raise_descriptor_limit()
        for endpoint in worker.doors:
            sockets.PortListener(loop, endpoint, worker.seat.node, _let_stand)
        if worker.collects:
            collector = Collector(
                loop,
                endpoints=worker.endpoints,
                store=worker.store,
                patience_s=task.patience_s,
                on_verdict=self._judged,
                on_over=self._over,
            )
            sockets.PortListener(loop, worker.store, worker.seat.node, collector.welcome)
        addresses = sockets.Addresses()
        addresses.learn(worker.all_doors if self._speaks else (worker.store,), LOOK_UP_S)
        CheckMember(loop, worker, task, own_facts, addresses, on_result=self._bring, on_over=self._over)

    def run(self) -> None:
        self._loop.run()

    def _bring(self, result: CheckResult) -> None:
        """Tell the launcher, if this worker speaks for the node."""
        self._problem = result.problem
        if self._speaks:
            bring(self._task.result_fd, result)

    def _judged(self, verdict: Verdict) -> None:
        """The collector's launcher shows the table."""
        text = json.dumps(table.as_plain(verdict)) + "\n" if self._task.as_json else table.as_text(verdict)
        _write(text)
        problem = None
        if not verdict.ready:
            problem = Problem(code="UM-CHECK-001", what=f"the nodes are {table.in_words(verdict)}")
        bring(self._task.result_fd, CheckResult(final=True, problem=problem, shown=text))

    def _over(self) -> None:
        """A server stays until its launcher ends it: one that ends by itself would count as failed."""
        self._unfinished -= 1
        if self._unfinished:
            return
        if self._problem:
            _write("".join(f"{line}\n" for line in self._problem.lines()))
        if self._worker.seat.role is not Role.SERVER:
            self._loop.stop()


def _let_stand(_guest: FramedSocket) -> None:
    """A caller that comes to see whether this port works goes away by itself."""


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], os.environ)
