"""One run as its driver sees it: reserves a placement group,
starts a launcher in each bundle, prints their lines, ends as they do. An adapter.

Every line of a worker is printed as ``[trainer.0] text``, one of a launcher as ``[launcher.trainer.0] text``, and the
driver's own as ``[driver] text``: the client takes these apart. ``[time] SECONDS`` says when the lines behind it were
printed. The token of the run is made here and given to the nodes in memory.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time

from umiak.contracts.start import TOKEN
from umiak.core.cluster import join_host_port
from umiak.core.problem import Exit
from umiak.core.value import value
from umiak.submit.backends.ray import node as node_module
from umiak.submit.backends.ray import plan as plans
from umiak.submit.backends.ray.status_file import StatusFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from umiak.core.json_types import JsonObject
    from umiak.submit.backends.ray.plan import RayNode, RayRun

GRACE_S = 30.0
"""For launchers to end after a signal, where nobody says how long."""
PEERS_S = 10.0
"""How long launchers may go on after one of them has failed: they tell each other, so this is long."""
LOOK_S = 0.2
TELL_S = (5.0, 60.0)
"""When it is told that resources are missing, and then again and again."""
TAG = re.compile(r"\[(server|trainer|heter) (\d+)\] ")
"""Of a launcher that shows the lines of all its workers."""


def say(text: str) -> None:
    """One line of the driver's own."""
    _print(f"[driver] {text}\n")


class _Output:
    """Whole lines on standard output; with the time before them,
    which `umiak logs` shows to nobody, if it was not said for a second.
    """

    def __init__(self) -> None:
        self._marked_at = 0.0

    def write(self, text: str) -> None:
        now = time.time()
        if abs(now - self._marked_at) >= 1.0:
            self._marked_at = now
            text = f"[time] {now:.3f}\n{text}"
        sys.stdout.write(text)
        sys.stdout.flush()


_print = _Output().write


class StoppedEarly(Exception):
    """Somebody stopped the run before it had begun."""


@value
class _Stop:
    """Why a run is ended, and when."""

    why: str
    term_at: float
    kill_at: float


class RunDriver:
    """One run."""

    def __init__(self, ray: Any, run: RayRun) -> None:
        self._ray = ray
        self._run = run
        self._actors: list[Any] = []
        self._is_signalled = False
        self._codes: dict[int, int] = {}
        """In the order of their ends."""
        self._has_lost = False
        """Whether a node was lost while nobody had asked the run to stop."""
        self._stop: _Stop | None = None
        self._is_asked = self._is_killed = False
        self._reports = StatusFile(run)

    def signalled(self, *_: object) -> None:
        self._is_signalled = True

    def main(self) -> int:
        try:
            group = self._reserve(self._run.nodes)
            self._start(group)
        except StoppedEarly:
            say("stopped before it began")
            return 128 + signal.SIGTERM
        self._follow()
        if not self._run.keep_directories:
            self._clean()
        first = exit_code_of(self._codes.values(), has_lost=self._has_lost)
        return first or (Exit.JOB_FAILED if self._stop else Exit.DONE)

    # ---- beginning

    def _reserve(self, nodes: Sequence[RayNode]) -> Any:
        """Wait for as long as it takes; the reason is told."""
        from ray.util.placement_group import placement_group

        run = self._run
        group = placement_group([dict(each.bundle) for each in nodes], strategy=run.strategy, name=run.run_id)
        began = time.monotonic()
        tell_at = began + TELL_S[0]
        while not group.wait(1):
            if self._is_signalled:
                raise StoppedEarly
            if time.monotonic() >= tell_at:
                say(f"waiting for resources: {self._missing()}")
                tell_at = time.monotonic() + TELL_S[1]
        return group

    def _missing(self) -> str:
        """What is wanted, and what the cluster has and has left."""
        wanted: dict[str, int] = {}
        for each in self._run.nodes:
            text = _resources(each.bundle)
            wanted[text] = wanted.get(text, 0) + 1
        asked = ", ".join(f"{count} x ({text})" for text, count in wanted.items())
        names = {name for each in self._run.nodes for name, _ in each.bundle}

        def of(found: Any) -> str:
            return _resources((name, found.get(name, 0.0)) for name in sorted(names))

        nodes = sum(each["Alive"] for each in self._ray.nodes())
        has, free = of(self._ray.cluster_resources()), of(self._ray.available_resources())
        return f"{asked}, {self._run.strategy}; {nodes} nodes have together {has}, free are {free}"

    def _actor(self, rank: int, group: Any, index: int) -> Any:
        """In its bundle."""
        from ray import cloudpickle
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        cloudpickle.register_pickle_by_value(node_module)
        node = self._run.nodes[rank]
        strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
        kind = self._ray.remote(node_module.RunNode)
        return kind.options(
            name=f"{self._run.run_id}/{node.name}",
            max_concurrency=4,
            scheduling_strategy=strategy,
            **_options(node.bundle),
        ).remote()

    def _order(self, rank: int, environ: Mapping[str, str]) -> JsonObject:
        """What a node is told. By a call: what an actor is created with, the cluster writes down."""
        run, node = self._run, self._run.nodes[rank]
        with open(node.plan, encoding="utf-8") as file:
            plan = file.read()
        return {
            "run_id": run.run_id,
            "name": node.name,
            "plan": plan,
            "env": environ,
            "launcher": plans.LAUNCHER,
            "python": run.job_python,
            "directory": run.directory,
        }

    def _start(self, group: Any) -> None:
        run = self._run
        self._actors = [self._actor(rank, group, rank) for rank in range(len(run.nodes))]
        places = self._all([each.where.remote() for each in self._actors])
        hosts = [address for address, _, _ in places]
        master = join_host_port(*places[0][:2])
        token = os.urandom(16).hex()
        started = []
        for rank, (node, actor) in enumerate(zip(run.nodes, self._actors, strict=True)):
            say(f"{node.name} is on {hosts[rank]}")
            self._reports.placed(rank, places[rank][2])
            order = self._order(rank, {**plans.environment(run, rank, hosts, master), TOKEN: token})
            started.append(actor.start.remote(order))
        for rank, why in enumerate(self._all(started)):
            if why:
                say(f"error: {run.nodes[rank].name} can't be started: {why} [UM-SUBMIT-321]")
                self._codes[rank] = Exit.REFUSED

    def _all(self, asked: list[Any]) -> list[Any]:
        """All answers. `StoppedEarly` if a signal comes first."""
        waiting = asked
        while waiting:
            _, waiting = self._ray.wait(waiting, num_returns=len(waiting), timeout=LOOK_S)
            if self._is_signalled and waiting:
                raise StoppedEarly
        answers: list[Any] = self._ray.get(asked)
        return answers

    # ---- running

    def _follow(self) -> None:
        """Until every launcher has ended."""
        began = time.monotonic()
        reads = {actor.read.remote(): rank for rank, actor in enumerate(self._actors) if rank not in self._codes}
        if self._codes:
            self._end("a node can't be started", GRACE_S)
        while reads:
            ready, _ = self._ray.wait(list(reads), timeout=LOOK_S)
            for each in ready:
                rank = reads.pop(each)
                if not self._took(rank, each):
                    reads[self._actors[rank].read.remote()] = rank
            self._keep_times(began)

    def _took(self, rank: int, answer: Any) -> bool:
        """Print lines; whether they were the last."""
        name = self._run.nodes[rank].name
        try:
            lines, code, report = self._ray.get(answer)
        except self._ray.exceptions.RayError as error:
            why = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
            say(f"error: {name} was lost: {why} [UM-SUBMIT-322]")
            lines, code, report = [], Exit.JOB_FAILED, ""
            self._has_lost = self._has_lost or not self._is_asked
            self._reports.lost(rank, f"{name} was lost: {why}")
            self._end(f"{name} was lost", GRACE_S)
        self._reports.heard(rank, report)
        show(lines, name)
        if code is None:
            return False
        self._codes[rank] = code
        if code and self._stop is None:
            now = time.monotonic()
            self._stop = _Stop(why=f"{name} failed", term_at=now + PEERS_S, kill_at=now + PEERS_S + GRACE_S)
        return True

    def _keep_times(self, began: float) -> None:
        now = time.monotonic()
        limit = self._run.time_limit_s
        if self._is_signalled:
            self._is_signalled = False
            self._end("stopped", self._asked_grace_s())
        if limit and now >= began + limit and not self._stop:
            say(f"the time limit of {limit} s is over")
            self._end("time limit", GRACE_S)
        if self._stop and now >= self._stop.term_at and not self._is_asked:
            self._is_asked = True
            self._tell("signal", int(signal.SIGTERM))
        if self._stop and now >= self._stop.kill_at and not self._is_killed:
            self._is_killed = True
            self._tell("kill")

    def _end(self, why: str, grace_s: float) -> None:
        """Ask all launchers to end now. Asked again, the shorter grace counts."""
        now = time.monotonic()
        kill_at = now + grace_s
        if self._stop:
            kill_at = min(kill_at, self._stop.kill_at)
        self._stop = _Stop(why=why, term_at=now, kill_at=kill_at)

    def _tell(self, method: str, *words: object) -> None:
        for rank, actor in enumerate(self._actors):
            if rank not in self._codes:
                getattr(actor, method).remote(*words)

    def _asked_grace_s(self) -> float:
        """Ray's API can't say how long a job has to end,
        so that the client leaves a word in the cluster before it stops one.
        """
        try:
            from ray.experimental.internal_kv import _internal_kv_get

            seconds = _internal_kv_get(f"gcs://{plans.grace_name(self._run.run_id)}".encode())
            return float(seconds) if seconds else GRACE_S
        except Exception:  # noqa: BLE001 - not a part of Ray that is promised
            return GRACE_S

    def _clean(self) -> None:
        asked = [actor.clean.remote() for actor in self._actors]
        self._ray.wait(asked, num_returns=len(asked), timeout=GRACE_S)


def exit_code_of(codes: Iterable[int], *, has_lost: bool) -> int:
    """The job's, from those of its launchers in the order of their ends.

    When an actor dies, the kernel asks its launcher to stop, which tells the others:
    these may have ended so before Ray says that a node was lost. They are its consequences.
    """
    stopped = 128 + signal.SIGTERM
    return next((code for code in codes if code and not (has_lost and code == stopped)), 0)


def show(lines: Iterable[str], node: str) -> None:
    """Print lines of a node."""
    text = "".join(f"{tagged(line, node)}\n" for line in lines)
    if text:
        _print(text)


def tagged(line: str, node: str) -> str:
    """A line with who has written it; launchers have tagged those of their workers."""
    match = TAG.match(line)
    return f"[{match[1]}.{match[2]}] {line[match.end() :]}" if match else f"[launcher.{node}] {line}"


def _options(bundle: Iterable[tuple[str, float]]) -> JsonObject:
    """A bundle in the words of an actor."""
    words = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
    options: JsonObject = {}
    for name, count in bundle:
        if name in words:
            options[words[name]] = count
        else:
            options.setdefault("resources", {})[name] = count
    return options


def _resources(bundle: Iterable[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {count:g}" for name, count in bundle)
