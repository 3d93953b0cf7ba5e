"""The driver of an elastic run: as many nodes as it needs begin together,
more join when there is room, lost ones are replaced. An adapter.

As many bundles as the job needs at least are one placement group. Every other node has one of its own, which Ray fills
when it can; bundles of a lost Ray node are placed again by Ray. Launchers find the job at the address of any launcher
that is there: it knows who leads. The run has succeeded when a launcher ends with 0, and is over when none is left.
"""

from __future__ import annotations

import os
import signal
import time

from umiak.contracts.start import TOKEN
from umiak.core.cluster import Placement, join_host_port
from umiak.core.problem import Exit
from umiak.platforms import native
from umiak.submit.backends.ray import plan as plans
from umiak.submit.backends.ray import run_driver as driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from umiak.submit.backends.ray.plan import RayRun

AGAIN_S = 2.0
"""Before a node is asked for again that could not be started."""


class ElasticDriver(driver.RunDriver):
    """One elastic run."""

    def __init__(self, ray: Any, run: RayRun) -> None:
        super().__init__(ray, run)
        self._token = os.urandom(16).hex()
        self._master: tuple[int, str] | None = None
        """The node that began, and where it can be met."""
        self._hosts: dict[int, str] = {}
        self._asked: dict[Any, tuple[int, str]] = {}
        """Answers that are waited for: of which node, and to what."""
        self._present: dict[int, Any] = {}
        """Actors whose launchers run."""
        self._joining: dict[int, Any] = {}
        self._again: dict[int, float] = {}
        """When a node is started again."""
        self._has_begun = self._is_done = False
        self._groups: list[tuple[Any, int]] = []

    def main(self) -> int:
        try:
            self._groups = self._reserve_all()
        except driver.StoppedEarly:
            driver.say("stopped before it began")
            return 128 + signal.SIGTERM
        began = time.monotonic()
        for rank in range(len(self._run.nodes)):
            self._begin(rank)
        while not self._is_over():
            ready, _ = self._ray.wait([*self._asked], timeout=driver.LOOK_S)
            for each in ready:
                self._answered(*self._asked.pop(each), each)
            self._keep_times(began)
            for rank in [rank for rank, when in self._again.items() if time.monotonic() >= when]:
                del self._again[rank]
                self._begin(rank)
        for actor in self._joining.values():
            self._ray.kill(actor)
        if self._is_done:
            return Exit.DONE
        first = next((code for code in self._codes.values() if code), 0)
        return first or (128 + signal.SIGTERM if self._stop else Exit.JOB_FAILED)

    def _is_over(self) -> bool:
        if self._present:
            return False
        return self._has_begun or self._stop is not None

    # ---- nodes that come

    def _reserve_all(self) -> list[tuple[Any, int]]:
        from ray.util.placement_group import placement_group

        run = self._run
        first = self._reserve(run.nodes[: run.least])
        reserved = [(first, index) for index in range(run.least)]
        for node in run.nodes[run.least :]:
            group = placement_group([dict(node.bundle)], strategy="PACK", name=f"{run.run_id}/{node.name}")
            reserved.append((group, 0))
        return reserved

    def _begin(self, rank: int) -> None:
        """Ask for an actor; it answers when there is room for it."""
        try:
            actor = self._actor(rank, *self._groups[rank])
        except ValueError:  # Ray has not yet forgotten the one before, which had the same name
            self._again[rank] = time.monotonic() + AGAIN_S
            return
        self._joining[rank] = actor
        self._asked[actor.where.remote()] = rank, "where"

    def _answered(self, rank: int, question: str, answer: Any) -> None:
        try:
            reply = self._ray.get(answer)
        except self._ray.exceptions.RayError as error:
            self._lost(rank, error)
            return
        if question == "where":
            self._start_node(rank, *reply)
        elif question == "start":
            self._started(rank, reply)
        else:
            self._read(rank, *reply)

    def _start_node(self, rank: int, host: str, port: int, ray_node: str) -> None:
        actor = self._joining[rank]
        if self._stop or self._is_done:
            return
        master = self._master_address()
        if master is None:
            master = join_host_port(host, port)
            self._master = rank, master
        self._hosts[rank] = host
        placement = Placement(platform=plans.PLATFORM, reason="", master=master, host=host)
        driver.say(f"{self._run.nodes[rank].name} is on {host}")
        self._reports.placed(rank, ray_node)
        order = self._order(rank, {**native.environment_of(placement), TOKEN: self._token})
        self._asked[actor.start.remote(order)] = rank, "start"

    def _master_address(self) -> str | None:
        """Where a new launcher finds the job: at the first one, while that is there, or at any other."""
        if self._master and (self._master[0] in self._present or self._master[0] in self._joining):
            return self._master[1]
        addresses = [self._reports.known[rank].address for rank in self._present if rank in self._reports.known]
        return next((each for each in addresses if each), None)

    def _started(self, rank: int, why: str) -> None:
        actor = self._joining.pop(rank)
        name = self._run.nodes[rank].name
        if why:
            driver.say(f"error: {name} can't be started: {why} [UM-SUBMIT-321]")
            self._codes[rank] = Exit.REFUSED
            self._has_begun = True
            self._ray.kill(actor)
            return
        self._has_begun = True
        self._present[rank] = actor
        self._codes.pop(rank, None)
        self._asked[actor.read.remote()] = rank, "read"
        if self._stop and self._is_asked:
            actor.signal.remote(int(signal.SIGTERM))

    # ---- nodes that are there, and go

    def _read(self, rank: int, lines: list[str], code: int | None, report: str) -> None:
        self._reports.heard(rank, report)
        driver.show(lines, self._run.nodes[rank].name)
        actor = self._present[rank]
        if code is None:
            self._asked[actor.read.remote()] = rank, "read"
            return
        del self._present[rank]
        self._codes[rank] = code
        if not self._run.keep_directories:
            self._ray.wait([actor.clean.remote()], timeout=driver.GRACE_S)
        self._ray.kill(actor)
        if code == 0:
            self._is_done = True
        elif not self._stop:
            # If the job has failed, the others end as well; if they go on without this node, it may come back.
            self._again[rank] = time.monotonic() + driver.PEERS_S

    def _lost(self, rank: int, error: Exception) -> None:
        name = self._run.nodes[rank].name
        why = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        driver.say(f"{name} was lost: {why} [UM-SUBMIT-322]")
        self._reports.lost(rank, f"{name} was lost: {why}")
        self._present.pop(rank, None)
        self._joining.pop(rank, None)
        if not (self._stop or self._is_done):
            self._again[rank] = time.monotonic() + AGAIN_S

    def _tell(self, method: str, *words: object) -> None:
        for actor in self._present.values():
            getattr(actor, method).remote(*words)
