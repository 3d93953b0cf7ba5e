"""How long N agents need to find one another, all of them processes of this machine. An adapter and a program of its own.

    PYTHONPATH=. python benchmarks/programs/rendezvous.py umiak 1024        prints one line of JSON

The agents are forked after everything was imported, wait at a common barrier, and are released together. The time ends when
the last of them has the complete list of peers. Four designs can be compared:

    umiak     the launcher's own agent, links, coordinator, journal and token; only the workers and their ports are made up
    floor     a bare asyncio server that pushes the list when it is complete: no token, no heartbeat, no rounds, no journal
    paddle    Paddle's own HTTP master: its key-value server and client
    c10d      torch's dynamic rendezvous over its TCP store

`--profile DIRECTORY` writes cProfile files of the first agent, which leads, and of the second; `--journals DIRECTORY`
keeps what umiak's agents have written down.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import importlib
import json
import os
import random
import resource
import select
import signal
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import NoReturn

from benchmarks.measure import free_port

WORKERS = 8
"""On every node, each with an endpoint in the list."""
RESULT = struct.Struct("idd")
PRCTL = ctypes.CDLL(None).prctl
PR_SET_PDEATHSIG = 1

Done = Callable[[], None]
Agent = Callable[[Done], None]
"""Finds the others, then calls ``done`` once. It may go on afterwards: the stage ends it."""


def main() -> int:
    """Run one rendezvous and print what it took."""
    parser = argparse.ArgumentParser(prog="rendezvous.py")
    parser.add_argument("design", choices=sorted(DESIGNS))
    parser.add_argument("count", type=int)
    parser.add_argument("--timeout", type=float, default=120.0)
    parser.add_argument("--profile", default="")
    parser.add_argument("--journals", default="")
    asked = parser.parse_args()
    raise_open_files(4 * asked.count + 256)
    with tempfile.TemporaryDirectory(prefix="umiak-bench-") as directory:
        prepare = DESIGNS[asked.design](asked.count, asked.journals or directory)
        print(json.dumps(run(asked.count, prepare, timeout_s=asked.timeout, profile=asked.profile)))
    return 0


def run(count: int, prepare: Callable[[int], Agent], *, timeout_s: float, profile: str = "") -> dict[str, float]:
    """Fork the agents, release them together, wait for the last one; seconds of wall time and of CPU."""
    stage = Stage()
    # What was imported stays shared by all agents: a collection in each of them would copy it, which no real agent pays for.
    gc.collect()
    gc.freeze()
    try:
        for number in range(count):
            stage.fork(number, prepare, profile if number < 2 else "")
        stage.await_ready(count)
        released = time.monotonic()
        stage.release()
        results = stage.results(count, released + timeout_s)
    finally:
        stage.end(gently=2 if profile else 0)
    cpu = sorted(seconds for number, (_, seconds) in results.items() if number)
    return {
        "agents": count,
        "complete": len(results),
        "seconds": max(when for when, _ in results.values()) - released if len(results) == count else -1.0,
        "first_s": min((when for when, _ in results.values()), default=released) - released,
        "cpu_s": sum(seconds for _, seconds in results.values()),
        "cpu_leader_s": results[0][1] if 0 in results else -1.0,
        "cpu_agent_s": cpu[len(cpu) // 2] if cpu else -1.0,
    }


class Stage:
    """The processes of one run, and the pipes by which they are held back and report."""

    def __init__(self) -> None:
        self._ready, self._say_ready = os.pipe()
        self._wait, self._release = os.pipe()
        self._results, self._say_result = os.pipe()
        self._pids: list[int] = []

    def fork(self, number: int, prepare: Callable[[int], Agent], profile: str) -> None:
        pid = os.fork()
        if pid:
            self._pids.append(pid)
            return
        status = 1
        try:
            os.close(self._release)
            PRCTL(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            random.seed()  # agents that draw the same numbers would always step back, and collide, together
            self._play(number, prepare(number), profile)
            status = 0
        except BaseException as error:  # noqa: BLE001 - a child must not fall through into its parent's code
            if number < 2:
                print(f"agent {number}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(status)

    def _play(self, number: int, agent: Agent, profile: str) -> None:
        os.write(self._say_ready, b".")
        os.read(self._wait, 1)  # nothing ever comes: the end of the pipe is the signal
        cpu = time.process_time()

        def done() -> None:
            os.write(self._say_result, RESULT.pack(number, time.monotonic(), time.process_time() - cpu))

        with _profiled(f"{profile}/agent-{number}.prof" if profile else ""):
            agent(done)
            signal.pause()

    def await_ready(self, count: int) -> None:
        while count:
            count -= len(os.read(self._ready, count))

    def release(self) -> None:
        os.close(self._release)

    def results(self, count: int, until: float) -> dict[int, tuple[float, float]]:
        """By agent: when it was complete, and how much CPU it had used since it was released."""
        found: dict[int, tuple[float, float]] = {}
        poll = select.poll()
        poll.register(self._results, select.POLLIN)
        while len(found) < count and poll.poll(max(0.0, until - time.monotonic()) * 1000):
            for number, when, cpu in RESULT.iter_unpack(os.read(self._results, RESULT.size * 64)):
                found[number] = (when, cpu)
        return found

    def end(self, gently: int) -> None:
        """End every agent; the first few may write their profiles before."""
        for pid in self._pids[:gently]:
            os.kill(pid, signal.SIGTERM)
        for pid in self._pids[:gently]:
            os.waitpid(pid, 0)
        for pid in self._pids[gently:]:
            os.kill(pid, signal.SIGKILL)
        for pid in self._pids[gently:]:
            os.waitpid(pid, 0)


@contextlib.contextmanager
def _profiled(path: str) -> Iterator[None]:
    if not path:
        yield
        return
    import cProfile

    def finish(_number: int, _frame: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, finish)
    profile = cProfile.Profile(time.process_time)
    profile.enable()
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        profile.disable()
        profile.dump_stats(path)


def raise_open_files(count: int) -> None:
    """Let this process and its children have so many descriptors, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


# ---- umiak


def umiak(count: int, directory: str) -> Callable[[int], Agent]:
    """The real agent, with workers that are never started and ports that are never bound."""
    import hmac  # noqa: F401 - with a token every launcher needs it; here it is paid once, as all imports are

    from umiak.adapters import frames
    from umiak.adapters.loop import Loop
    from umiak.adapters.ports import HeldPorts
    from umiak.core.cluster import Cluster, Mode, Seat
    from umiak.launch.agent import Agent as RealAgent
    from umiak.launch.events import Discovery, NodeSetting
    from umiak.launch.journal import Journal
    from umiak.launch.links import handshake, link
    from umiak.launch.plan import LaunchPlan
    from umiak.launch.protocol import Offer, Terms
    from umiak.launch.report_writer import ReportWriter
    from umiak.launch.reports import logs
    from umiak.launch.reports.logfiles import PRIVATE
    from umiak.launch.reports.output import LauncherOutput
    from umiak.launch.supervisor import Supervisor

    token = b"a secret of the benchmark"
    master = frames.listen("127.0.0.1", 0)
    port: int = master.getsockname()[1]
    # A machine that plays a thousand nodes leaves some of them without a turn for seconds; that is not what is measured here.
    terms = Terms(job_id="bench", mode=Mode.COLLECTIVE, least=count, most=count, heartbeat_timeout_s=60.0)

    class NoPorts(HeldPorts):
        """Made-up numbers: eight times a thousand ports are more than one machine can spare."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self._first = 20000 + number * (WORKERS + 1) % 12000

        @property
        def numbers(self) -> tuple[int, ...]:
            return tuple(range(self._first, self._first + WORKERS + 1))

    class NoWorkers(Supervisor):
        """Starts nothing, and notes that it was asked to: by then the agent has the list of peers."""

        def __init__(self, done: Done) -> None:
            self._done: Done | None = done
            self._workers = {}
            self.wall_offset_s = 0.0

        def start(self, cluster: Cluster, seat: Seat, restarts: int) -> None:  # noqa: ARG002
            assert len(cluster.nodes) == count
            if self._done:
                self._done()
                self._done = None

    def prepare(number: int) -> Agent:
        loop = Loop()
        heartbeats = link.Heartbeats(loop, terms.heartbeat_timeout_s)
        sock = master if number == 0 else frames.listen("127.0.0.1", 0)
        if number:
            master.close()
        held = NoPorts(number)
        offer = Offer(
            name=f"node{number:05d}",
            host=f"10.0.{number // 250}.{number % 250 + 1}",
            ports=held.numbers,
            trainers=WORKERS,
            link_port=sock.getsockname()[1],
        )
        setting = NodeSetting(
            terms=terms,
            offer=offer,
            discovery=Discovery.ADDRESS,
            leads=number == 0,
            master_host="127.0.0.1",
            master_port=port,
        )
        journal = Journal(os.path.join(directory, f"events.{number}.jsonl"))
        journal.begin(offer.name, time.time(), setting)
        listener = handshake.Listener(loop, heartbeats, sock, job_id=terms.job_id, token=token)
        silent = os.open(os.devnull, os.O_WRONLY)
        output = LauncherOutput(logs.Console(silent, {}, loop.on_writable))

        def agent(done: Done) -> None:
            RealAgent(
                loop,
                plan=LaunchPlan(terms=terms, discovery=Discovery.ADDRESS, master_host="127.0.0.1", master_port=port),
                setting=setting,
                supervisor=NoWorkers(done),
                held=held,
                journal=journal,
                reports=ReportWriter(directory, PRIVATE, setting),
                output=output,
                heartbeats=heartbeats,
                listener=listener,
                election=None,
                token=token,
            ).run()

        return agent

    return prepare


# ---- a floor


def floor(count: int, directory: str) -> Callable[[int], Agent]:  # noqa: ARG001
    """One connection per agent, one line each way, nothing else. The first agent's process is the server as well."""
    import asyncio

    sock = socket.create_server(("127.0.0.1", 0), backlog=4096)
    where = sock.getsockname()

    async def serve(done: Done) -> None:
        peers = [_offer(0)]
        writers: list[asyncio.StreamWriter] = []
        complete = asyncio.Event()

        async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peers.append(json.loads(await reader.readline()))
            writers.append(writer)
            if len(peers) == count:
                complete.set()

        server = await asyncio.start_server(greet, sock=sock)
        await complete.wait()
        line = json.dumps(peers).encode() + b"\n"
        for writer in writers:
            writer.write(line)
        done()
        for writer in writers:
            await writer.drain()
        await server.serve_forever()

    def prepare(number: int) -> Agent:
        def lead(done: Done) -> None:
            asyncio.run(serve(done))

        def follow(done: Done) -> None:
            with socket.socket() as link, link.makefile("rwb") as lines:
                link.connect(where)
                lines.write(json.dumps(_offer(number)).encode() + b"\n")
                lines.flush()
                assert len(json.loads(lines.readline())) == count
                done()
                signal.pause()

        return follow if number else lead

    return prepare


def _offer(number: int) -> dict[str, object]:
    host = f"10.0.{number // 250}.{number % 250 + 1}"
    endpoints = ",".join(f"{host}:{20000 + worker}" for worker in range(WORKERS))
    return {"name": f"node{number:05d}", "host": host, "endpoints": endpoints}


# ---- the peers


def paddle(count: int, directory: str) -> Callable[[int], Agent]:  # noqa: ARG001
    """Paddle's HTTPMaster, with as much of a launcher's context as it looks at.

    The master's address is one that only the first agent takes for its own, as in a real cluster; that one sleeps for up to
    two seconds before it listens, the others begin to ask at once.
    """
    import logging

    masters = importlib.import_module("paddle.distributed.launch.controllers.master")
    nodes = importlib.import_module("paddle.distributed.launch.context.node")
    address = f"127.0.0.2:{free_port()}"

    def prepare(number: int) -> Agent:
        node = nodes.Node()
        node.ip = "127.0.0.2" if number == 0 else f"10.0.{number // 250}.{number % 250 + 1}"
        context = SimpleNamespace(
            args=SimpleNamespace(master=address, sort_ip=False, rank=-1),
            node=node,
            logger=logging.getLogger("peer"),
            status=SimpleNamespace(is_done=lambda: False),
        )

        def agent(done: Done) -> None:
            master = masters.HTTPMaster(context)
            found, _ = master.sync_peers("/bench/info", f"pod{number:05d}", json.dumps(_offer(number)), count, -1)
            assert len(found) == count
            done()
            signal.pause()  # the server is here as long as this function is

        return agent

    return prepare


def c10d(count: int, directory: str) -> Callable[[int], Agent]:  # noqa: ARG001
    """What `torchrun --rdzv-backend c10d` does before it starts workers; the first agent's process has the store."""
    rendezvous = importlib.import_module("torch.distributed.elastic.rendezvous")
    backends = importlib.import_module("torch.distributed.elastic.rendezvous.c10d_rendezvous_backend")
    dynamic = importlib.import_module("torch.distributed.elastic.rendezvous.dynamic_rendezvous")
    address = f"127.0.0.1:{free_port()}"

    def prepare(number: int) -> Agent:
        def agent(done: Done) -> None:
            parameters = rendezvous.RendezvousParameters(
                backend="c10d",
                endpoint=address,
                run_id="bench",
                min_nodes=count,
                max_nodes=count,
                is_host=str(number == 0).lower(),
            )
            backend, store = backends.create_backend(parameters)
            found = dynamic.create_handler(store, backend, parameters).next_rendezvous()
            assert found.world_size == count
            done()
            signal.pause()  # the store is here as long as this function is

        return agent

    return prepare


DESIGNS: dict[str, Callable[[int, str], Callable[[int], Agent]]] = {
    "umiak": umiak,
    "floor": floor,
    "paddle": paddle,
    "c10d": c10d,
}

if __name__ == "__main__":
    sys.exit(main())
