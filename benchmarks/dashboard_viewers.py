"""What open pages cost the dashboard and the job that they show, and what a crowd of connections does. Sections of `benchmarks.dashboard`.

A page is what the browser's is: a stream of events, and after each of them the run asked for again, over a connection that stays.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import measure
from benchmarks.dashboard_client import OURS, TOKEN, Client, complete, started, train_directory
from benchmarks.dashboard_peers import line
from benchmarks.measure import Bench, Figure, Program

STEPS = Path(__file__).with_name("programs") / "steps.py"
DEBOUNCE_S = 0.15
"""So long a page waits after an event before it asks."""
PATIENCE_S = 60.0
CROWD = 10_000
CROWD_FROM = "127.0.0.77"
"""Another address of this machine, so that its ports are no one else's."""


class Pages(threading.Thread):
    """Open pages of one run."""

    def __init__(self, port: int, run_id: str, count: int) -> None:
        super().__init__(daemon=True)
        self._port, self._run_id, self._count = port, run_id, count
        self._loop = asyncio.new_event_loop()
        self._streams = 0
        self.answers = 0
        self.are_open = threading.Event()

    def run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._all())

    def close(self) -> None:
        """All at once."""
        self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(self._loop)])
        self.join()

    async def _all(self) -> None:
        if not self._count:
            self.are_open.set()
        await asyncio.gather(*(self._page() for _ in range(self._count)))

    async def _page(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        topics = f"run:{self._run_id},curves:{self._run_id}"
        writer.write(_request(f"/events?topics={topics}"))
        asks = await asyncio.open_connection("127.0.0.1", self._port)
        wakes = asyncio.Event()
        asking = asyncio.ensure_future(self._ask(*asks, wakes))
        try:
            async for text in reader:
                if text.startswith(b"data:"):
                    wakes.set()
                    if b"hello" in text:
                        self._streams += 1
                        if self._streams == self._count:
                            self.are_open.set()
        finally:
            asking.cancel()
            writer.close()
            asks[1].close()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wakes: asyncio.Event) -> None:
        while await wakes.wait():
            await asyncio.sleep(DEBOUNCE_S)
            wakes.clear()
            writer.write(_request(f"/runs/{self._run_id}.json"))
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r\n")[0]))
            self.answers += 1


def _request(path: str) -> bytes:
    head = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\nAccept-Encoding: gzip\r\n"
    return f"GET {path} HTTP/1.1\r\n{head}\r\n".encode()


@contextlib.contextmanager
def open_pages(port: int, run_id: str, count: int) -> Iterator[Pages]:
    """Until all are there; and closed in the end."""
    pages = Pages(port, run_id, count)
    pages.start()
    try:
        assert pages.are_open.wait(PATIENCE_S)
        yield pages
    finally:
        pages.close()


def viewers(quick: bool) -> Iterator[Figure]:
    """CPU with 100 pages open, and with none."""
    seconds = 5.0 if quick else 20.0
    how = f"CPU of the server over {seconds:g} s; a run writes a report a second, and each page asks for it after each event"
    busy = Figure("viewers", "100 open pages", how, unit="% of a core", goal=5.0)
    idle = Figure("idle", "No page", "the same run, nobody looks", unit="% of a core", goal=0.5)
    with measure.bench() as place:
        for number in range(100):
            train_directory(place.directory / "runs" / f"over-{number}", 100)
        directory = train_directory(place.directory / "runs" / "a", 100, is_over=False)
        program, client = started(place, place.directory / "runs")
        complete(client)
        run_id = _run_called(client, "/a")
        with (directory / "metrics.jsonl").open("a") as file:
            for figure, count in ((idle, 0), (busy, 100)):
                with open_pages(client.port, run_id, count) as pages:
                    answers = 0
                    for repeat in range(2 if quick else 3):
                        with measure.other_work(figure):
                            before, began = measure.cpu_s(program.tree()), time.monotonic()
                            for second in range(int(seconds)):
                                file.write(line(1000 * repeat + 100 + second))
                                file.flush()
                                time.sleep(1.0)
                            used, took_s = measure.cpu_s(program.tree()) - before, time.monotonic() - began
                        answers, before_it = pages.answers, answers
                        figure.add(OURS, 100 * used / took_s)
                        figure.note(OURS, f"{(answers - before_it) / took_s:.0f} answers a second")
    yield busy
    yield idle


def _run_called(client: Client, name: str) -> str:
    found: str = next(row["id"] for row in client.json("/runs?limit=200")["runs"] if row["name"].endswith(name))
    return found


def beside(quick: bool) -> Iterator[Figure]:
    """A job's steps beside 20 open pages, and without: in turn, in one run of the job."""
    seconds, rounds = (3.0, 2) if quick else (8.0, 6)
    how = f"rounds of {seconds:g} s in turn, in one job of `umiak launch` that writes metrics several times a second"
    cpu = Figure("beside-cpu", "Processor time of a step", how, unit="ms")
    rate = Figure("beside-rate", "Time of a step", f"{how}; dashboard and pages have the same two cores", unit="ms")
    with measure.bench() as place:
        directory = place.directory / "runs" / "a"
        directory.mkdir(parents=True)
        counts = place.directory / "counts"
        counts.write_text("")
        job = _job(place, directory, counts)
        program, client = started(place, place.directory / "runs")
        until = time.monotonic() + PATIENCE_S
        while _counted(counts)[0] == 0 or not client.json("/runs")["runs"]:
            if job.wait(0) is not None or time.monotonic() > until:
                raise AssertionError("the job has not begun")
            time.sleep(0.05)
        run_id = _run_called(client, "/a")
        for turn in range(2 * rounds):
            subject, count = ("20 pages", 20) if turn % 2 == 0 else ("no page", 0)
            with open_pages(client.port, run_id, count), measure.other_work(rate):
                time.sleep(0.5)
                before, began = _counted(counts), time.monotonic()
                used = measure.cpu_s(program.tree())
                time.sleep(seconds)
                after, took_s = _counted(counts), time.monotonic() - began
                steps = after[0] - before[0]
                cpu.add(subject, 1000 * (after[1] - before[1]) / steps)
                rate.add(subject, 1000 * took_s / steps)
                rate.note(
                    subject, f"the server took {100 * (measure.cpu_s(program.tree()) - used) / took_s:.1f} % of a core"
                )
        counts.unlink()
        job.wait(PATIENCE_S)
    yield cpu
    yield rate


def _job(place: Bench, directory: Path, counts: Path) -> Program:
    umiak = str(Path(sys.executable).with_name("umiak"))
    words = [
        umiak,
        "launch",
        "--log_dir",
        str(directory / "log"),
        str(STEPS),
        str(directory),
        str(counts),
        line(1).strip(),
    ]
    return place.start(words)


def _counted(counts: Path) -> tuple[int, float]:
    words = counts.read_text().split()
    return (int(words[0]), float(words[1])) if len(words) == 2 else (0, 0.0)


def crowd(quick: bool) -> Iterator[Figure]:
    """Many connections that ask for nothing, and one client with the token."""
    count = 2_500 if quick else CROWD
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 500
    if hard not in (-1, resource.RLIM_INFINITY) and hard < wanted:
        wanted = hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    how = f"{wanted - 500:,} connections without a token, half of them with half a request; a new client asks for the list"
    answer = Figure("crowd", "The list beside a crowd", how)
    memory = Figure("crowd-memory", "Memory of the server beside the crowd", "PSS", unit="MB")
    with measure.bench() as place:
        for number in range(100):
            train_directory(place.directory / "runs" / f"run-{number}", 10)
        program, client = started(place, place.directory / "runs")
        complete(client)
        memory.note(OURS, f"{measure.proportional_mb(program.tree()):.0f} MB before")
        with contextlib.ExitStack() as opened:
            for number in range(wanted - 500):
                one = opened.enter_context(socket.socket())
                one.settimeout(PATIENCE_S)
                one.bind((CROWD_FROM, 0))
                one.connect(("127.0.0.1", client.port))
                with contextlib.suppress(OSError):
                    one.send(b"GET /runs HTTP/1.1\r\nHost:" if number % 2 else b"G")
                if number % 500 == 499:
                    before = measure.cpu_s(program.tree())
                    with measure.other_work(answer):
                        took_s = Client(client.port).timed("/runs?limit=100")
                    answer.add(OURS, took_s, measure.cpu_s(program.tree()) - before)
            memory.add(OURS, measure.proportional_mb(program.tree()))
    yield answer
    yield memory
