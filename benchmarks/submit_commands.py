"""How long a person waits for the commands about submitted jobs: help, a dry run, a list of 10,000 runs. An adapter.

Beside them a Python that does nothing, which is the limit, and TorchX's dry run of the same job, if its environment is there:

    python -m benchmarks.submit_commands          makes .venv-torchx
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import measure
from benchmarks.measure import Bench, Figure
from umiak.core.status import JobStatus, State
from umiak.submit.run_record import RunRecord, to_plain

START_GOAL_S = 0.080
LIST_GOAL_S = 0.5
RUNS = 10_000
PATIENCE_S = 60.0
TORCHX = measure.ROOT / ".venv-torchx"
UMIAK = str(Path(sys.executable).with_name("umiak"))


def start(quick: bool) -> Iterator[Figure]:
    """Commands that do next to nothing."""
    how = "from the command to its end, its output thrown away; in turn"
    figure = Figure("start", "`umiak submit --dry-run` and `umiak --help`", how, goal=START_GOAL_S)
    torchx = TORCHX / "bin" / "torchx"
    with measure.bench() as place:
        (place.directory / "train.py").write_text("print('trained')\n")
        commands = {
            "umiak submit --dry-run": [UMIAK, "submit", "--dry-run", "--", "train.py", "--lr", "0.1"],
            "umiak --help": [UMIAK, "--help"],
            "umiak list, no runs": [UMIAK, "list"],
            "python -c pass": [sys.executable, "-c", "pass"],
        }
        if torchx.exists():
            words = ["run", "--dryrun", "-s", "local_cwd", "utils.python", "--script", "train.py"]
            commands["torchx run --dryrun"] = [str(torchx), *words]
        else:
            figure.note("torchx run --dryrun", "skipped: python -m benchmarks.submit_commands installs it")
        for _ in range(5 if quick else 25):
            with measure.other_work(figure):
                for subject, command in commands.items():
                    _once(place, figure, subject, command)
    yield figure


def runs(quick: bool) -> Iterator[Figure]:
    """Lists of many runs, all of them over: their places are not asked."""
    how = f"`umiak list --all` and `--json` with {RUNS:,} records of ended runs"
    figure = Figure("list", f"{RUNS:,} listed runs", how, goal=LIST_GOAL_S)
    with measure.bench() as place:
        records = place.directory / "umiak" / "runs"
        records.mkdir(parents=True, mode=0o700)
        for number in range(RUNS):
            (records / f"ctr-{number:08x}.json").write_text(json.dumps(to_plain(_record(number))))
        for _ in range(3 if quick else 10):
            with measure.other_work(figure):
                for words in (["--all"], ["--all", "--json"], []):
                    subject = " ".join(["umiak list", *words])
                    _once(place, figure, subject, [UMIAK, "list", *words], XDG_STATE_HOME=str(place.directory))
    yield figure


def _record(number: int) -> RunRecord:
    ended = JobStatus(state=State.SUCCEEDED, exit_code=0, started_s=1.79e9 + number, ended_s=1.79e9 + number + 60)
    run_id = f"ctr-{number:08x}"
    return RunRecord(
        run_id=run_id,
        name="ctr",
        place="local",
        backend="local",
        directory="/home/me/ctr",
        digest=f"{number:024x}",
        submitted_s=1.79e9 + number,
        handle=f"local://local/{run_id}",
        status=ended,
    )


def _once(place: Bench, figure: Figure, subject: str, command: list[str], **environ: str) -> None:
    began = time.perf_counter()
    kept = {name: text for name, text in os.environ.items() if not name.startswith(measure.FOREIGN)}
    done = subprocess.run(
        command,
        check=False,
        cwd=place.directory,
        env={**kept, "XDG_STATE_HOME": str(place.directory / "state"), **environ},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=PATIENCE_S,
        text=True,
    )
    took = time.perf_counter() - began
    if done.returncode:
        figure.note(subject, done.stderr.strip()[-80:])
    else:
        figure.add(subject, took)


def main() -> int:
    """Make the peer's environment."""
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(TORCHX)], check=True)
    install = [uv, "pip", "install", "--quiet", "--python", str(TORCHX / "bin" / "python"), "torchx", "setuptools<81"]
    subprocess.run(install, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
