"""The pictures of the dashboard in the docs: runs that were never trained, and what a real Chromium shows of them.

    python -m tests.support.dashboard_pictures      takes them again, into docs/pictures

Their pixels are of the fonts of one machine, so nobody compares them. Beside them lies what they were made from, as a hash: of the page's own files and of
the runs that are shown.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testbed import browser
from tests.integration.test_dashboard_pages import served
from tests.support.run_directories import (
    WALL,
    exited,
    failure,
    journal,
    launch_directory,
    locked,
    message,
    progress,
    train_directory,
    with_config,
)
from umiak.dashboard.http import statics
from umiak.dashboard.index import id_of
from umiak.dashboard.rows import SubmissionSight

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
MADE_FROM = PICTURES / "dashboard.json"
WIDTH = 1100
HEIGHTS = 470, 850, 560
LARGEST_BYTES = 150_000
NAMES = ("dashboard-runs.png", "dashboard-run.png", "dashboard-logs.png")
"""The list of runs, one that goes on, and in the dark the log of one that failed."""
_TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 41, in <module>
    loss = step(batch)
  File "train.py", line 28, in step
    return model(batch["slots"])
ValueError: expected 26 slots, got 25"""


def fingerprint() -> str:
    """Another one if the page or what it shows has changed."""
    digest = hashlib.sha256()
    for name, file in sorted(statics.load().items()):
        digest.update(f"{name} {len(file.body)}\n".encode() + file.body)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        with going_on(root, WALL):
            for path in sorted(each for each in root.rglob("*") if each.is_file()):
                content = path.read_bytes().replace(str(root).encode(), b"")
                digest.update(f"{path.relative_to(root)} {len(content)}\n".encode() + content)
    digest.update(repr((WIDTH, HEIGHTS, NAMES, submitted(WALL))).encode())
    return digest.hexdigest()


@contextlib.contextmanager
def going_on(root: Path, now_s: float) -> Iterator[None]:
    """Runs below a directory, of which one is being trained as long as this lasts."""
    for name, age_s, rate, points in (
        ("base", 90_000.0, 0.05, 60),
        ("wide", 40_000.0, 0.1, 60),
        ("now", 620.0, 0.02, 38),
    ):
        directory = train_directory(root / "ctr" / "run" / name, *_reports(now_s - age_s, rate, points))
        with_config(directory, "ctr/config.yaml", hyper_parameters__optimizer__learning_rate=rate)
        if name != "now":
            (directory / "outcome.json").write_text('{"stopped": false}')
    stop = {"why": "trainer 1 failed, restart 1 of 3", "generation": 1}
    again: dict[str, object] = {
        "formation": "2 n0",
        "cluster": {"generation": 2, "size": 1, "nodes": {"trainers": [2]}},
    }
    begun_s = now_s - 620.0
    story = journal(
        exited(1, 290.0, failure(1, at=begun_s + 240, exit_code=None, signal=9, traceback="")),
        message(290.5, "Stop", **stop),
        again,
        message(300.0, "Form", cluster={"formation": "2 n0"}),
    )
    log = launch_directory(root / "ctr" / "run" / "now" / "log", _at(story, begun_s), state="running", restarts=1)
    failed = _at(
        journal(exited(1, 62.0, failure(1, at=now_s - 7200, traceback=_TRACEBACK)), job_id="two-towers"), now_s - 7212
    )
    broken = launch_directory(
        root / "match" / "log", failed, state="failed", reason="trainer 1 failed", exit_code=1, changed_s=now_s - 7200
    )
    for number in range(2):
        steps = [f"step {step:>4}  loss {0.7 - step / 900:.4f}  samples/s 10240" for step in range(0, 200, 20)]
        (broken / f"workerlog.{number}").write_text("\n".join([*steps, "WARNING: the queue of batches is empty", ""]))
    with (broken / "workerlog.1").open("a") as file:
        file.write(f"{_TRACEBACK}\n")
    lost = launch_directory(root / "sweep" / "log", _at(journal(job_id="sweep-7"), now_s - 260_000), state="running")
    for directory, ended_s in ((broken, now_s - 7200), (lost, now_s - 250_000)):
        for path in directory.iterdir():
            os.utime(path, (ended_s, ended_s))
    with locked(root / "ctr" / "run" / "now" / "metrics.jsonl"), locked(log / "events.jsonl"):
        yield


def submitted(now_s: float) -> list[SubmissionSight]:
    """Runs on other places."""
    return [
        SubmissionSight(run_id="dlrm-7c1e", name="dlrm", place="lab", submitted_s=now_s - 95, state="queued"),
        SubmissionSight(
            run_id="bert-02f4",
            name="bert-large",
            place="gpu",
            submitted_s=now_s - 15_400,
            started_s=now_s - 15_300,
            state="running",
            epoch=2,
            step=48_200,
            samples_per_s=5312.0,
            metric="train/loss",
            metric_value=1.482,
            nodes_up=3,
            nodes_expected=4,
        ),
    ]


def _at(story: str, begun_s: float) -> str:
    return story.replace(f'"wall":{WALL}', f'"wall":{begun_s}')


def _reports(begun_s: float, rate: float, count: int) -> Iterator[dict[str, Any]]:
    """Losses that fall and an AUC that rises, with a little noise that is always the same."""
    for number in range(count):
        loss = 0.44 + 0.26 * math.exp(-number * rate * 2) + 0.006 * math.sin(number * 2.3) + 0.2 * (rate - 0.05) ** 2
        metrics = {"loss": loss, "auc": 0.5 + (0.7 - loss) * 1.2}
        speed = 11_800 + 400 * math.sin(number / 3)
        shares = {"compute": 0.71, "pull": 0.12, "push": 0.09, "read": 0.08}
        epoch, samples, at = number // 20, 51_200 * (number % 20 + 1), begun_s + 16.0 * number
        numbers = {"metrics": metrics, "recent": metrics, "samples_per_s": speed, "shares": shares, "left_s": 230.0}
        yield progress(samples, loss, at, epoch, **numbers)
        if number % 20 == 19:
            evaluated = {"loss": loss + 0.012, "auc": metrics["auc"] - 0.01}
            yield {
                "time": at,
                "event": "epoch",
                "epoch": epoch,
                "samples": samples,
                "seconds": 320.0,
                "trained": metrics,
                "evaluated": evaluated,
            }


def take(directory: Path) -> list[Path]:
    """The pictures, in this directory."""
    with tempfile.TemporaryDirectory() as base, browser.chromium() as page:
        root, now_s = Path(base) / "jobs", time.time()
        ids = {name: id_of(str(root / path)) for name, path in (("now", "ctr/run/now"), ("broken", "match/log"))}
        with going_on(root, now_s), served(root, lambda: submitted(now_s)) as dashboard:
            page.open(dashboard.address)
            shots = (
                ("/runs", "light", "return document.querySelectorAll('tr[data-run]').length == 7"),
                (
                    f"/runs/{ids['now']}",
                    "light",
                    "return document.querySelectorAll('.chart canvas').length > 3 && document.querySelector('.earlier')",
                ),
                (f"/runs/{ids['broken']}?tab=logs", "dark", "return document.querySelector('.log li.error')"),
            )
            for name, height, (path, scheme, is_there) in zip(NAMES, HEIGHTS, shots, strict=True):
                page.resize(WIDTH, height)
                page.prefer(scheme)
                page.open(f"{dashboard.origin}{path}")
                page.wait_for(is_there)
                page.wait_for("return document.querySelector('.connection').textContent == 'live'")
                page.screenshot(directory / name)
            page.prefer("light")
            page.open("about:blank")
    return [directory / name for name in NAMES]


def main() -> None:
    """The command."""
    take(PICTURES)
    MADE_FROM.write_text(json.dumps({"made_from": fingerprint()}) + "\n")


if __name__ == "__main__":
    main()
