"""Paddle 2.6.2 and its own parameter server: the environment that has it, and a run of it that surely ends. An adapter.

python -m benchmarks.ps_peer        makes .venv-paddle262 (500 MB); `benchmarks.ps --peer paddle` does so too
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks import clicks, measure

DIRECTORY = measure.ROOT / ".venv-paddle262"
PYTHON = DIRECTORY / "bin" / "python"
PACKAGES = ("paddlepaddle==2.6.2", "protobuf<6", "numpy<2", "setuptools<80")
PROGRAM = Path(__file__).with_name("programs") / "ps_fleet.py"
SERVERS = TRAINERS = 2


def install() -> str:
    """Make the environment; an empty text, or why it could not be made."""
    asked = [str(PYTHON), "-c", "import paddle"]
    if PYTHON.exists() and subprocess.run(asked, check=False, capture_output=True).returncode == 0:
        return ""
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if os.access(beside, os.X_OK) else shutil.which("uv")
    if uv is None:
        return "uv is not installed: pip install uv"
    for step in (
        [uv, "venv", "--allow-existing", "--python", sys.executable, str(DIRECTORY)],
        [uv, "pip", "install", "--python", str(PYTHON), *PACKAGES],
    ):
        done = subprocess.run(step, check=False, capture_output=True, text=True)
        if done.returncode:
            return f"{' '.join(step[1:3])} failed: {done.stderr.strip()[-300:]}"
    return ""


@dataclass(frozen=True)
class Outcome:
    """What a run came to, after the warm-up; nothing but a note if it failed."""

    samples_per_s: float | None
    """Of all trainers together."""
    note: str
    trainer_ms: float = float("nan")
    """CPU time of a trainer and its reader for a batch."""
    server_ms: float = float("nan")
    """CPU time of all servers for a batch of one trainer."""

    @property
    def cpu_ms(self) -> float:
        """Of everybody, for a batch."""
        return self.trainer_ms + self.server_ms


def outcome(told: Path, batch: int, files_per_trainer: int) -> Outcome:
    """What the trainers of `ps_fleet` have said. The first file of each is the warm-up."""
    lines = [json.loads(line) for line in told.read_text().splitlines()]
    timed = [line for line in lines if line.get("part") == 1]
    begun, ended = ([line for line in timed if line["event"] == event] for event in ("begin", "end"))
    samples = TRAINERS * (files_per_trainer - 1) * clicks.LINES_PER_FILE
    wall_s = max(line["at"] for line in ended) - min(line["at"] for line in begun)
    trained_s = sum(line["cpu_s"] for line in ended) - sum(line["cpu_s"] for line in begun)
    served_s = max(line["served_cpu_s"] for line in ended) - min(line["served_cpu_s"] for line in begun)
    batches = samples / batch
    return Outcome(samples / wall_s, "", 1e3 * trained_s / batches, 1e3 * served_s / batches)


def run(reader: str, batch: int, files_per_trainer: int, limit_s: float) -> Outcome:
    """Two servers and two trainers on this machine, asynchronous; the first file of every trainer is the warm-up."""
    paths = clicks.files(TRAINERS * files_per_trainer, plain=reader == "plain")
    with measure.bench() as bench:
        told = bench.directory / "told"
        servers, trainers = ([measure.free_port() for _ in range(count)] for count in (SERVERS, TRAINERS))
        common = {
            "BENCH_TOLD": str(told),
            "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(f"127.0.0.1:{port}" for port in servers),
            "PADDLE_TRAINER_ENDPOINTS": ",".join(f"127.0.0.1:{port}" for port in trainers),
            "PADDLE_TRAINERS_NUM": str(TRAINERS),
            "POD_IP": "127.0.0.1",
            # Without gloo, its barrier does nothing and a trainer may begin before the first one has sent its weights.
            "PADDLE_WITH_GLOO": "1",
            "PADDLE_GLOO_RENDEZVOUS": "2",
            "PADDLE_GLOO_FS_PATH": str(bench.directory / "gloo"),
        }
        argv = [str(PYTHON), str(PROGRAM), reader, str(batch)]
        for port in servers:
            bench.start(argv, {**common, "TRAINING_ROLE": "PSERVER", "PADDLE_PORT": str(port)})
        own = [
            bench.start(
                [*argv, *map(str, paths)],
                {**common, "TRAINING_ROLE": "TRAINER", "PADDLE_PORT": str(port), "PADDLE_TRAINER_ID": str(rank)},
            )
            for rank, port in enumerate(trainers)
        ]
        for program in own:
            ended = program.wait(max(1.0, limit_s - (time.monotonic() - own[0].began)))
            if ended is None:
                return Outcome(None, f"not ended within {limit_s:g} s")
            if ended.status:
                return Outcome(None, f"failed with {ended.status}: {bench.last_words()[:160]}")
        return outcome(told, batch, files_per_trainer)


if __name__ == "__main__":
    sys.exit(install() or 0)
