"""A dashboard that is started for a benchmark, a client of it, and runs for it to show. An adapter.

program, client = started(place, directory)
client.json("/runs"), client.timed("/runs?limit=100")
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.dashboard_peers import line
from benchmarks.measure import Bench, Program

TOKEN = "a-token-of-a-benchmark-and-of-nothing-else"
OURS = "umiak"


class Client:
    """One connection to a dashboard."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def get(self, path: str, accept: str = "application/json") -> bytes:
        self._link.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}", "Accept": accept})
        answer = self._link.getresponse()
        data = answer.read()
        if answer.status != 200:
            raise AssertionError(f"{path}: {answer.status} {data[:200]!r}")
        return data

    def json(self, path: str) -> Any:
        return json.loads(self.get(path))

    def timed(self, path: str) -> float:
        began = time.perf_counter()
        self.get(path)
        return time.perf_counter() - began


def started(place: Bench, directory: Path) -> tuple[Program, Client]:
    """A dashboard of its own that answers."""
    port = measure.free_port()
    token = place.directory / "token"
    token.touch(0o600)
    token.write_text(TOKEN)
    umiak = str(Path(sys.executable).with_name("umiak"))
    words = ["dashboard", "--no_browser", "--no_submitted", "--token_file", str(token), "--port", str(port)]
    program = place.start([umiak, *words, str(directory)])
    until = time.monotonic() + 60
    while True:
        client = Client(port)
        try:
            client.get("/", "text/html")
        except OSError:
            if time.monotonic() > until or program.wait(0) is not None:
                raise
            time.sleep(0.002)
        else:
            return program, client


def complete(client: Client) -> None:
    """All runs were read once."""
    while not client.json("/about")["is_complete"]:
        time.sleep(0.05)


def train_directory(path: Path, points: int, *, is_over: bool = True) -> Path:
    """A run of `umiak train`."""
    path.mkdir(parents=True)
    (path / "metrics.jsonl").write_text("".join(line(number) for number in range(points)))
    if is_over:
        (path / "outcome.json").write_text('{"stopped": false}')
    return path
