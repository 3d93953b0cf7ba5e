"""TensorBoard and MLflow with the same runs as the dashboard, in an environment of their own outside the tree. An adapter.

python, why = environment()            makes it once; None and the reason where it can't be had
servers = data(place, python)          {"tensorboard": start(place, number) -> Program, "mlflow": ...}
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

from benchmarks import measure
from benchmarks.measure import Bench, Program

RUNS, POINTS = 100, 1000
PACKAGES = ("tensorboard", "mlflow")
WITHIN_S = 900.0
WRITER = Path(__file__).with_name("programs") / "write_runs.py"
PATIENCE_S = 180.0


def line(number: int) -> str:
    """A report of progress as `umiak train` writes it."""
    loss = loss_at(number)
    report = {
        "time": 1_700_000_000.0 + number,
        "event": "progress",
        "epoch": 0,
        "stage": "train",
        "batch": number,
        "samples": 512 * (number + 1),
        "samples_per_s": 51_200.0,
        "metrics": {"loss": loss},
        "recent": {"loss": loss, "auc": 1 - loss},
        "left_s": 1.0,
        "shares": {"compute": 0.9, "read": 0.1},
    }
    return f"{json.dumps(report)}\n"


def loss_at(number: int) -> float:
    """The same curve for everybody."""
    return 0.2 + 0.5 / (1 + number / 100)


def environment() -> tuple[Path | None, str]:
    """Its Python, or why there is none."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    python = Path(cache) / "umiak-dashboard-peers" / "venv" / "bin" / "python"
    if python.exists() and not _missing(python):
        return python, ""
    uv = str(Path(sys.executable).with_name("uv"))
    try:
        for words in (
            [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(python.parent.parent)],
            [uv, "pip", "install", "--quiet", "--python", str(python), *PACKAGES],
        ):
            subprocess.run(words, check=True, timeout=WITHIN_S, capture_output=True)
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"skipped: its packages can't be had ({type(error).__name__})"
    return python, ""


def data(place: Bench, python: Path) -> dict[str, Callable[[Bench, int], Program]]:
    """Runs written with each one's own library; the functions that start its server and wait for a curve."""
    directory = place.directory / "others"
    directory.mkdir()
    subprocess.run(
        [str(python), str(WRITER), str(directory), str(RUNS), str(POINTS)],
        check=True,
        env={**place.environ(), "HOME": str(directory)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    names = json.loads((directory / "runs.json").read_text())
    return {
        "tensorboard": lambda own, number: _tensorboard(own, python, directory, number),
        "mlflow": lambda own, number: _mlflow(own, python, directory, names[number]),
    }


def _tensorboard(place: Bench, python: Path, directory: Path, number: int) -> Program:
    port = measure.free_port()
    words = ["--logdir", str(directory / "tensorboard"), "--port", str(port), "--host", "127.0.0.1"]
    words += ["--samples_per_plugin", f"scalars={POINTS}"]
    program = place.start([str(python.with_name("tensorboard")), *words])
    query = urllib.parse.urlencode({"tag": "loss", "run": f"run-{number:03}"})
    _await(program, f"http://127.0.0.1:{port}/data/plugin/scalars/scalars?{query}", len)
    return program


def _mlflow(place: Bench, python: Path, directory: Path, run_id: str) -> Program:
    port = measure.free_port()
    store = f"sqlite:///{directory / 'mlflow.db'}"
    words = ["ui", "--backend-store-uri", store, "--port", str(port), "--host", "127.0.0.1", "--workers", "1"]
    program = place.start([str(python.with_name("mlflow")), *words], {"HOME": str(place.directory)})
    query = urllib.parse.urlencode({"run_id": run_id, "metric_key": "loss", "max_results": POINTS})
    url = f"http://127.0.0.1:{port}/ajax-api/2.0/mlflow/metrics/get-history?{query}"
    _await(program, url, lambda found: len(found["metrics"]))
    return program


def _await(program: Program, url: str, count: Callable[..., int]) -> None:
    """Until all points come."""
    until = time.monotonic() + PATIENCE_S
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while True:
        try:
            with opener.open(url, timeout=60) as answer:
                if count(json.loads(answer.read())) == POINTS:
                    return
        except (OSError, ValueError, KeyError):
            pass  # not there yet
        if time.monotonic() > until or program.wait(0) is not None:
            raise AssertionError(f"no curve came: {url}")
        time.sleep(0.01)


def _missing(python: Path) -> bool:
    return any(not python.with_name(name).exists() for name in PACKAGES)
