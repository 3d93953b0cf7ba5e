"""What the dashboard costs, and how fast it shows things, beside TensorBoard and MLflow.

python -m benchmarks.dashboard                  everything; makes an environment for the others once, 700 MB
python -m benchmarks.dashboard --only start     from the command to the first byte
python -m benchmarks.dashboard --only list      10,000 runs: the first page, a filter
python -m benchmarks.dashboard --only log       the end of a log of a gigabyte
python -m benchmarks.dashboard --only live      from a line of metrics to the client, and to the screen
python -m benchmarks.dashboard --only viewers   CPU with 100 pages open, and with none
python -m benchmarks.dashboard --only beside    a job's steps beside 20 open pages
python -m benchmarks.dashboard --only crowd     10,000 connections: the list, memory
python -m benchmarks.dashboard --only peers     100 runs: the first curve, memory
"""

from __future__ import annotations

import http.client
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks import dashboard_peers, dashboard_viewers, measure, sections
from benchmarks.dashboard_client import OURS, TOKEN, Client, complete, started, train_directory
from benchmarks.dashboard_peers import POINTS, RUNS, line
from benchmarks.measure import Bench, Figure, Program

# ---- sections


def start(quick: bool) -> Iterator[Figure]:
    """From the command to the first byte."""
    how = "from `exec` of `umiak dashboard` to the page; CPU of the process until then"
    figure = Figure("start", "Start to the first byte", how, goal=0.5)
    for _ in range(3 if quick else 15):
        with measure.other_work(figure), measure.bench() as place:
            (place.directory / "runs").mkdir()
            program, _ = started(place, place.directory / "runs")
            figure.add(OURS, time.monotonic() - program.began, measure.cpu_s([program.pid]))
    yield figure


def runs(quick: bool) -> Iterator[Figure]:
    """Many runs: the first page, a filter."""
    count = 1000 if quick else 10_000
    how = f"{count:,} run directories of ten reports each, all read; one client, one connection; CPU of the server"
    first = Figure("list", "First page of the list, 100 rows", how, goal=0.2)
    filtered = Figure("filter", "Filter over all runs", how, goal=0.1)
    with measure.bench() as place:
        directory = place.directory / "runs"
        for number in range(count):
            train_directory(directory / f"job-{number:05}", 10)
        began = time.monotonic()
        program, client = started(place, directory)
        complete(client)
        first.note(OURS, f"all were read {time.monotonic() - began:.1f} s after the start")
        for number in range(10 if quick else 50):
            for figure, path in (
                (first, "/runs?limit=100"),
                (filtered, f"/runs?limit=100&q=job-{number:03}+state:succeeded"),
            ):
                before = measure.cpu_s(program.tree())
                with measure.other_work(figure):
                    took_s = client.timed(path)
                figure.add(OURS, took_s, measure.cpu_s(program.tree()) - before)
    yield first
    yield filtered


def log(quick: bool) -> Iterator[Figure]:
    """The end of a log of a gigabyte."""
    size = (64 << 20) if quick else (1 << 30)
    how = f"a log of {size >> 20:,} MiB in one file; its last 64 KiB as lines; CPU of the server"
    tail = Figure("tail", "End of a large log", how, goal=0.2)
    find = Figure("find", "The last lines with a word that is in the last MiB", how.replace("its last 64 KiB", "some"))
    with measure.bench() as place:
        directory = train_directory(place.directory / "runs" / "a", 10)
        logs = directory / "log"
        logs.mkdir()
        (logs / "events.jsonl").write_text('{"run": "x", "wall": 1.0, "setting": {"terms": {"least": 1}}}\n')
        piece = b"".join(b"step %07d loss 0.123456 auc 0.789012 samples/s 123456\n" % each for each in range(20_000))
        with (logs / "workerlog.0").open("wb") as file:
            while file.tell() < size:
                file.write(piece)
            file.write(b"a needle\n")
            file.write(piece[: 1 << 19])
        program, client = started(place, place.directory / "runs")
        run_id = client.json("/runs")["runs"][0]["id"]
        (key,) = [each["key"] for each in client.json(f"/runs/{run_id}")["files"] if each["kind"] == "log"]
        for _ in range(5 if quick else 30):
            for figure, more in ((tail, ""), (find, "&find=needle")):
                before = measure.cpu_s(program.tree())
                figure.add(
                    OURS,
                    client.timed(f"/runs/{run_id}/log?file={key}{more}"),
                    measure.cpu_s(program.tree()) - before,
                )
    yield tail
    yield find


class Watcher(threading.Thread):
    """A client of server-sent events; it counts, and remembers when the last came."""

    def __init__(self, port: int, topics: str, counted: bytes = b"") -> None:
        super().__init__(daemon=True)
        self._counted = counted
        self._port, self._topics = port, topics
        self.came: list[float] = []
        self.is_there = threading.Event()
        self.news = threading.Condition()

    def run(self) -> None:
        link = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        link.request("GET", f"/events?topics={self._topics}", headers={"Authorization": f"Bearer {TOKEN}"})
        answer = link.getresponse()
        try:
            for text in answer:
                if text.startswith(b"data:") and self._counted in text:
                    with self.news:
                        self.came.append(time.perf_counter())
                        self.news.notify_all()
                self.is_there.set()
        except (OSError, http.client.HTTPException):
            pass  # the server has ended

    def await_more(self, count: int) -> float:
        with self.news:
            if not self.news.wait_for(lambda: len(self.came) > count, 60):
                raise AssertionError("no event came")
            return self.came[-1]


def live(quick: bool) -> Iterator[Figure]:
    """From a line of metrics to the screen."""
    how = "from the line in metrics.jsonl to the event at a client; to a point on the canvas of Chromium, looked for every 50 ms"
    figure = Figure("live", "A metric on the screen after it was written", how, goal=1.0)
    with measure.bench() as place:
        directory = train_directory(place.directory / "runs" / "a", 10, is_over=False)
        _, client = started(place, place.directory / "runs")
        run_id = client.json("/runs")["runs"][0]["id"]
        client.get(f"/runs/{run_id}/curves")
        watcher = Watcher(client.port, f"run:{run_id},curves:{run_id}", b"curves:")
        watcher.start()
        watcher.is_there.wait(60)
        with (directory / "metrics.jsonl").open("a") as file:
            number = 10
            for name, shown in _screens(client, run_id, watcher):
                for _ in range(5 if quick else 30):
                    time.sleep(0.37)  # not in step with the server's own looks
                    file.write(line(number))
                    number += 1
                    with measure.other_work(figure):
                        began = time.perf_counter()
                        file.flush()
                        shown(number)
                        figure.add(name, time.perf_counter() - began)
    yield figure


def _screens(client: Client, run_id: str, watcher: Watcher) -> Iterator[tuple[str, Callable[[int], object]]]:
    from testbed import browser

    yield OURS, lambda _: watcher.await_more(len(watcher.came))
    if browser.missing():
        return
    with browser.chromium() as page:
        page.open(f"http://127.0.0.1:{client.port}/runs/{run_id}#t={TOKEN}")
        page.wait_for("return document.querySelector('.chart canvas')")
        has = "return [...document.querySelectorAll('.chart')].some((each) => each.dataset.points >= arguments[0])"
        yield "umiak, in Chromium", lambda number: page.wait_for(has, number)


def peers(quick: bool) -> Iterator[Figure]:
    """The first curve, beside others."""
    how = f"{RUNS} runs of {POINTS:,} points; from the start of each server to all points of one run; CPU until then"
    curve = Figure("curve", "Time to the first curve", how)
    memory = Figure("memory", "Memory after that", "PSS of all its processes", unit="MB")
    python, why = dashboard_peers.environment()
    with measure.bench() as place:
        for number in range(RUNS):
            train_directory(place.directory / "runs" / f"run-{number:03}", POINTS)
        others = dashboard_peers.data(place, python) if python else {}
        for name in ("tensorboard", "mlflow"):
            curve.note(name, why)
            memory.note(name, why)
        for number in range(2 if quick else 5):
            for name in (OURS, *others):
                with measure.other_work(curve), measure.bench() as own:
                    if name == OURS:
                        program, _ = _first_curve(own, place.directory / "runs", number)
                    else:
                        program = others[name](own, number)
                    tree = program.tree()
                    curve.add(name, time.monotonic() - program.began, measure.whole_cpu_s(tree, and_collected=True))
                    memory.add(name, measure.proportional_mb(tree))
    yield curve
    yield memory


def _first_curve(place: Bench, directory: Path, number: int) -> tuple[Program, Any]:
    program, client = started(place, directory)
    rows: list[Any] = []
    while not rows:
        rows = client.json(f"/runs?q=run-{number:03}")["runs"]
    found = client.json(f"/runs/{rows[0]['id']}/curves")["curves"]["train/loss"]["y"]
    assert len(found) == POINTS
    return program, found


SECTIONS: Mapping[str, Callable[[bool], Iterator[Figure]]] = {
    "start": start,
    "list": runs,
    "log": log,
    "live": live,
    "viewers": dashboard_viewers.viewers,
    "beside": dashboard_viewers.beside,
    "crowd": dashboard_viewers.crowd,
    "peers": peers,
}


def main() -> int:
    """The command."""
    asked = sections.parser("benchmarks.dashboard", __doc__ or "", SECTIONS).parse_args()
    os.umask(0o077)
    return sections.run(SECTIONS, asked.quick, asked)


if __name__ == "__main__":
    sys.exit(main())
