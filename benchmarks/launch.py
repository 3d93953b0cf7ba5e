"""umiak beside other launchers, in one run: how soon workers start, what launchers cost, how they recover, how they scale.

    python -m benchmarks.launch                   everything; minutes, most of them spent waiting for the peers
    python -m benchmarks.launch --quick           few repetitions, below two minutes
    python -m benchmarks.launch --only start --only rendezvous --json figures.json

The peers are `paddle.distributed.launch`, from the development environment, and torchrun, from `.venv-peers`
(`python -m benchmarks.peers` makes it). One that is not there is named and left out. Whatever is started here is ended here.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks import measure, sections
from benchmarks.measure import ROOT, Bench, Figure, Program
from benchmarks.peers import Asked, Launcher, PaddleWithEtcd, Plain, Torchrun, everyone

PATIENCE_S = 60.0
"""For anything that has to come."""
SETTLE_S = 0.5
"""After the last worker's first line: by then every launcher watches its workers."""
LONG_S = 10.0
HEARTBEAT_S = 5.0
"""umiak's default --heartbeat_timeout."""


@dataclass(frozen=True)
class Run:
    """What was asked for."""

    quick: bool
    launchers: Sequence[Launcher]

    def in_turn(self, figure: Figure, *others: Figure, rounds: int) -> Iterator[Launcher]:
        """Every launcher once a round. In a quick run the peers only take part in the first one.

        What a peer did not do in the first round, or took long for, is not waited for again.
        """
        for launcher in self.launchers:
            for each in (figure, *others):
                each.row(launcher.name).note = launcher.missing
        for number in range(min(rounds, 3) if self.quick else rounds):
            with measure.other_work(figure):
                for launcher in self.launchers:
                    is_peer = launcher is not self.launchers[0]
                    once = self.quick or max(figure.row(launcher.name).values, default=LONG_S) >= LONG_S
                    if not launcher.missing and not (is_peer and number and once):
                        yield launcher

    def with_etcd(self) -> Run:
        """With one more peer, for what Paddle does only with etcd; it is too slow for a quick run."""
        return (
            replace(self, launchers=[*self.launchers, PaddleWithEtcd()]) if self.with_peers and not self.quick else self
        )

    @property
    def with_peers(self) -> bool:
        return len(self.launchers) > 1

    @property
    def unlimited_s(self) -> float:
        """How long to wait for a peer that may never do it."""
        return 4.0 if self.quick else PATIENCE_S


def main() -> int:
    """Measure and print: `sections.run`."""
    parser = sections.parser("benchmarks.launch", __doc__, SECTIONS)
    parser.add_argument("--alone", action="store_true", help="without the peers")
    asked = parser.parse_args()
    return sections.run(SECTIONS, Run(asked.quick, everyone(with_peers=not asked.alone)), asked, warm_up)


def warm_up(run: Run) -> None:
    """Name who is missing, and start the others once: what a first run compiles and reads from disk is not compared."""
    for launcher in run.launchers:
        if launcher.missing:
            print(f"{launcher.name}: {launcher.missing}", flush=True)
    for launcher in run.launchers:
        if not launcher.missing:
            _start_once(launcher)


# ---- start


def start(run: Run) -> Iterator[Figure]:
    """One node, one worker, a script that ends at once."""
    first = Figure(
        "start",
        "Command to the first line of the user's script, 1 node, 1 worker",
        "the clock before exec against the clock that the script reads in its first line; CPU s of the whole tree by wait4",
        goal=0.10,
    )
    whole = Figure(
        "end", "The whole command, script that ends at once", "from exec until the launcher has ended; same runs"
    )
    for launcher in run.in_turn(first, whole, rounds=10):
        _start_once(launcher, first, whole)
        if launcher is run.launchers[0]:
            _start_once(Plain(), first, whole)
    yield first
    yield whole


def _start_once(launcher: Launcher, *figures: Figure) -> None:
    with measure.bench() as bench:
        program = bench.start(launcher.command(Asked()))
        reports = bench.reports(1, PATIENCE_S)
        ended = program.wait(PATIENCE_S)
        if not figures:
            return
        first, whole = figures
        if reports and ended:
            first.add(launcher.name, reports[0].at - program.began, ended.cpu_s)
            whole.add(launcher.name, ended.wall_s, ended.cpu_s)
        else:
            _failed(first, launcher, bench)


# ---- several nodes


def nodes(run: Run) -> Iterator[Figure]:
    """Two launchers on loopback."""
    for workers in (1,) if run.quick else (1, 2):
        figure = Figure(
            f"nodes-2x{workers}",
            f"2 nodes x {workers}: every worker has begun",
            "two launchers on loopback, started one after the other; from the first exec to the last worker's first line",
            goal=0.3,
        )
        for launcher in run.in_turn(figure, rounds=4):
            with measure.bench() as bench:
                first, _ = _two_nodes(bench, launcher, Asked(nodes="2", workers=workers))
                reports = bench.reports(2 * workers, PATIENCE_S)
                if len(reports) == 2 * workers:
                    figure.add(launcher.name, max(report.at for report in reports) - first.began)
                else:
                    _failed(figure, launcher, bench)
        yield figure


def _two_nodes(
    bench: Bench, launcher: Launcher, asked: Asked, *words: str, in_order: bool = False
) -> tuple[Program, Program]:
    """Start two launchers that meet on a port of their own; in order: the first one surely is the master."""
    port = _port_for(bench, launcher)
    first, second = (launcher.command(replace(asked, port=port, number=number), *words) for number in range(2))
    started = bench.start(first, launcher.environ)
    if in_order:
        measure.await_listening(port, PATIENCE_S)
    return started, bench.start(second, launcher.environ)


def _port_for(bench: Bench, launcher: Launcher) -> int:
    """A free port, or the port of what this launcher needs beside it."""
    port = measure.free_port()
    beside = launcher.beside(port)
    if beside:
        bench.start_beside(beside)
        measure.await_listening(port, PATIENCE_S)
    return port


# ---- quiet launchers: memory and CPU


def quiet(run: Run) -> Iterator[Figure]:
    """What a launcher costs while it has nothing to do."""
    seconds = 2.0 if run.quick else 5.0
    memory = Figure(
        "memory",
        "Memory of a launcher with one quiet worker: its largest process",
        "VmHWM of every process of the launcher, the largest one; the worker itself is not counted (nor is, as in wait4's "
        "maximum, the program that started the launcher)",
        unit="MB",
        goal=30.0,
    )
    together = Figure("memory-sum", "The same, all processes of the launcher together", "sum of PSS", unit="MB")
    running = Figure(
        "idle-running",
        f"CPU of a launcher while its worker sleeps, over {seconds:g} s",
        "scheduler's run time of all its threads, as a share of one core",
        unit="% of a core",
        goal=0.5,
    )
    waiting = Figure(
        "idle-waiting",
        f"CPU of a launcher that waits for a second node, over {seconds:g} s",
        running.how,
        running.unit,
        0.5,
    )
    for launcher in run.in_turn(running, memory, together, waiting, rounds=1 if run.quick else 3):
        _watch_running(launcher, seconds, memory, together, running)
        _watch_waiting(launcher, seconds, waiting)
    yield from (memory, together, running, waiting)


def _watch_running(launcher: Launcher, seconds: float, memory: Figure, together: Figure, running: Figure) -> None:
    with measure.bench() as bench:
        program = bench.start(launcher.command(Asked(), "stay"))
        reports = bench.reports(1, PATIENCE_S)
        if not reports:
            _failed(memory, launcher, bench)
            return
        time.sleep(SETTLE_S)
        own = [pid for pid in program.tree() if pid != reports[0].pid]
        running.add(launcher.name, _share_of_a_core(own, seconds))
        memory.add(launcher.name, max(measure.peak_mb(pid) for pid in own))
        together.add(launcher.name, measure.proportional_mb(own))
        memory.note(launcher.name, f"{len(own)} process{'es' if len(own) > 1 else ''}")


def _watch_waiting(launcher: Launcher, seconds: float, waiting: Figure) -> None:
    with measure.bench() as bench:
        port = measure.free_port()
        program = bench.start(launcher.command(Asked(nodes="2", port=port)))
        if not measure.await_listening(port, PATIENCE_S):
            _failed(waiting, launcher, bench)
            return
        time.sleep(1.0)  # a peer that has just begun to listen is still on its way to waiting
        waiting.add(launcher.name, _share_of_a_core(program.tree(), seconds))


def _share_of_a_core(pids: Sequence[int], seconds: float) -> float:
    before, began = measure.cpu_s(pids), time.monotonic()
    time.sleep(seconds)
    return 100 * (measure.cpu_s(pids) - before) / (time.monotonic() - began)


# ---- recovery


def restart(run: Run) -> Iterator[Figure]:
    """A worker is killed; the group runs again."""
    cases = (("restart-1x2", "1 node x 2 workers", 1, 0.15), ("restart-2x1", "2 nodes x 1 worker", 2, 0.3))
    for name, title, count, goal in cases:
        figure = Figure(
            name,
            f"A worker killed with SIGKILL, every worker of the group running again, {title}",
            "from the kill to the last new worker's first line; up to 3 restarts allowed. Paddle's HTTP master never restarts; "
            "its etcd client can't be imported beside the protobuf that Paddle 3.3.1 installs, and is run with "
            "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python",
            goal=goal,
        )
        for launcher in run.with_etcd().in_turn(figure, rounds=4):
            _restart_once(launcher, figure, count, min(20.0, run.unlimited_s))
        yield figure


def _restart_once(launcher: Launcher, figure: Figure, nodes: int, limit_s: float) -> None:
    with measure.bench() as bench:
        if nodes == 1:
            port = _port_for(bench, launcher) if launcher.beside(0) else 0
            bench.start(launcher.command(Asked(workers=2, restarts=3, port=port), "stay"), launcher.environ)
        else:
            _two_nodes(bench, launcher, Asked(nodes="2", restarts=3), "stay")
        reports = bench.reports(2, PATIENCE_S)
        if len(reports) < 2:
            _failed(figure, launcher, bench)
            return
        _wait_a_while()
        victim = max(reports, key=lambda report: report.rank)
        killed = time.monotonic()
        os.kill(victim.pid, signal.SIGKILL)
        again = bench.reports(2, limit_s)
        if len(again) == 2:
            figure.add(launcher.name, max(report.at for report in again) - killed)
        else:
            figure.note(launcher.name, _never(bench, limit_s))


def lost(run: Run) -> Iterator[Figure]:
    """A whole node goes, with its launcher; the other one goes on alone."""
    cases = (
        ("node-killed", "SIGKILL to everything on it", signal.SIGKILL, 5),
        (
            "node-frozen",
            "SIGSTOP to everything on it, so that connections stay open",
            signal.SIGSTOP,
            1 if run.quick else 3,
        ),
    )
    for name, title, number, rounds in cases:
        figure = Figure(
            name,
            f"One of two nodes (--nnodes 1:2) is lost: {title}; the other's worker runs again, alone",
            f"not the master's node; from the signal to the new worker's first line, world of 1; every launcher with its "
            f"default patience (umiak: --heartbeat_timeout {HEARTBEAT_S:g}); Paddle's HTTP master knows no range of nodes and "
            "runs with --nnodes 2",
            goal=HEARTBEAT_S + 1,
        )
        for launcher in run.with_etcd().in_turn(figure, rounds=rounds):
            is_peer = launcher is not run.launchers[0]
            if is_peer and run.quick and number == signal.SIGSTOP:
                figure.note(launcher.name, "not waited for in a quick run")
            else:
                _lose_once(launcher, figure, number, run.unlimited_s if is_peer else PATIENCE_S)
        yield figure


def _lose_once(launcher: Launcher, figure: Figure, number: int, limit_s: float) -> None:
    with measure.bench() as bench:
        _, second = _two_nodes(bench, launcher, Asked(nodes="1:2", restarts=3), "stay", in_order=True)
        if not _both_together(bench):
            _failed(figure, launcher, bench)
            return
        _wait_a_while()
        gone = time.monotonic()
        second.signal_tree(number)
        again = bench.reports(1, limit_s)
        if again and again[-1].world == 1:
            figure.add(launcher.name, again[-1].at - gone)
        else:
            figure.note(launcher.name, _never(bench, limit_s))


def _both_together(bench: Bench) -> bool:
    """Whether both workers of a world of two have begun; a node that began alone is given the time to grow."""
    until = time.monotonic() + PATIENCE_S
    together = 0
    while together < 2:
        found = bench.reports(1, until - time.monotonic())
        if not found:
            return False
        together += sum(report.world == 2 for report in found)
    return True


def _never(bench: Bench, limit_s: float) -> str:
    ended = [program.ended for program in bench.programs if program.wait(0)]
    statuses = ", ".join(f"exit {end.status}" for end in ended if end)
    if len(ended) == len(bench.programs):
        return f"never: the launcher gave up ({statuses})"
    return f"not within {limit_s:g} s" + (f"; one launcher ended ({statuses})" if ended else "")


# ---- growth


def rendezvous(run: Run) -> Iterator[Figure]:
    """Many agents on this machine find one another."""
    others = {"paddle": sys.executable, "torchrun": Torchrun().python}
    peers = [launcher for launcher in run.launchers if launcher.name in others]
    goals = {128: 0.6, 1024: 6.0}
    per_agent: dict[int, float] = {}
    for count in (32, 128) if run.quick else (32, 128, 1024):
        figure = Figure(
            f"rendezvous-{count}",
            f"Rendezvous of {count} agents, 8 workers each",
            "forked processes of this machine, imports paid before; from a common barrier until the last has the complete "
            "list. umiak with token, heartbeats and journal; floor: a bare asyncio server that pushes the list, with none of "
            "these; paddle: its key-value master; torchrun: c10d",
            goal=goals.get(count),
        )
        figure.row("umiak")
        for _ in range(2 if run.quick or count >= 1024 else 4):
            with measure.other_work(figure):
                _meet(figure, "umiak", "umiak", sys.executable, count)
                _meet(figure, "floor", "floor", sys.executable, count)
        for launcher in peers:
            if launcher.missing:
                figure.note(launcher.name, launcher.missing)
            elif count > (32 if run.quick else 128):
                figure.note(launcher.name, "not run at this size")
            else:
                design = "paddle" if launcher.name == "paddle" else "c10d"
                _meet(figure, launcher.name, design, others[launcher.name], count, limit_s=20 if run.quick else 40)
        own = figure.row("umiak")
        if own.values:
            per_agent[count] = min(own.values) / count
            least = min(per_agent)
            growth = per_agent[count] / per_agent[least]
            own.note = "" if count == least else f"{growth:.1f} times as long per agent as with {least}"
        yield figure


def _meet(figure: Figure, subject: str, design: str, python: str, count: int, *, limit_s: float = 120) -> None:
    with measure.bench() as bench:
        # As a script, not with -m: torch looks at the call stack for every step, and seconds go into what -m adds to it.
        argv = [
            python,
            str(ROOT / "benchmarks" / "programs" / "rendezvous.py"),
            design,
            str(count),
            "--timeout",
            str(limit_s),
        ]
        program = bench.start(argv, {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"})
        program.wait(limit_s + PATIENCE_S)
        try:
            found = json.loads(bench.last_words())
        except ValueError:
            figure.note(subject, f"failed: {bench.last_words()[:120]}")
            return
        if found["complete"] == count:
            figure.add(subject, found["seconds"], found["cpu_s"])
        else:
            figure.note(subject, f"only {found['complete']} agents were complete within {limit_s} s")


# ---- small parts


def _wait_a_while() -> None:
    """Until the blow: not always the same time, so that it meets beats and polls at any point between two of them."""
    time.sleep(SETTLE_S + random.random())


def _failed(figure: Figure, launcher: Launcher, bench: Bench) -> None:
    figure.note(launcher.name, f"failed: {bench.last_words()[:160]}")


SECTIONS: dict[str, Callable[[Run], Iterator[Figure]]] = {
    "start": start,
    "nodes": nodes,
    "quiet": quiet,
    "restart": restart,
    "lost": lost,
    "rendezvous": rendezvous,
}

if __name__ == "__main__":
    sys.exit(main())
