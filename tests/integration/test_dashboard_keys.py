"""The dashboard by keys alone, without findings of axe, and what becomes of a job, told as it happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import axe, browser
from tests.integration.test_dashboard_pages import FITS, says, served, shows
from tests.support import PATIENCE_S
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
from umiak.dashboard.index import id_of
from umiak.dashboard.outside.given import KnownPlace, PlaceCommands

pytestmark = [
    pytest.mark.skipif(bool(browser.missing()) and "CI" not in os.environ, reason=f"without {browser.missing()}"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def window() -> Iterator[browser.BrowserPage]:
    with browser.chromium() as opened:
        yield opened


@pytest.fixture
def page(window: browser.BrowserPage) -> browser.BrowserPage:
    window.open("about:blank")
    window.resize(1300, 900)
    window.prefer("light")
    window.complaints()
    return window


def runs(path: Path) -> tuple[str, str]:
    """Two runs of one config; the later one has a launcher, of which a worker failed."""
    for number, name in enumerate(("before", "now")):
        points = [
            progress(100 * step, 0.9 / step + 0.05 * number, WALL + 1000 * number + step, samples_per_s=900.0 + step)
            for step in range(1, 40)
        ]
        epoch = {"time": WALL + 50, "event": "epoch", "epoch": 0, "samples": 4000, "seconds": 4.0}
        epoch |= {"trained": {"loss": 0.1}, "evaluated": {"loss": 0.2}}
        saved = {"time": WALL + 60, "event": "saved", "path": "checkpoints/0"}
        directory = train_directory(path / "run" / name, *points, epoch, saved, outcome={"stopped": False})
        with_config(directory, "/home/ada/ctr.yaml", hyper_parameters__optimizer__learning_rate=0.1 / (number + 1))
    failed = journal(exited(1, 60.0, failure(1)))
    failed = failed.replace(f'"wall":{WALL}', f'"wall":{WALL + 1000}')
    log = launch_directory(path / "run" / "now" / "log", failed, state="failed", reason="trainer 1 failed", exit_code=1)
    (log / "workerlog.1").write_text("step 1\nWARNING: slow\nTraceback (most recent call last):\nValueError: broken\n")
    before, now = (id_of(str(path / "run" / name)) for name in ("before", "now"))
    return before, now


def test_axe_finds_nothing(tmp_path: Path, page: browser.BrowserPage) -> None:
    """In the light on a wide screen, and in the dark on one of 360 px, where nothing may need a wider one."""
    if missing := axe.missing():
        pytest.skip(missing)
    before, now = runs(tmp_path)
    tabs = ("logs", f"config&with={before}", "ranks&worker=trainer.1", "files")
    paths = ["/runs", "/runs?q=nothing", "/runs/nothing", f"/runs/{now}", "/compare", f"/compare?runs={now},{before}"]
    paths += ["/places", *(f"/runs/{now}?tab={tab}" for tab in tabs)]
    findings = {}
    with served(tmp_path, places=places()) as dashboard:
        page.open(dashboard.address)
        page.wait_for("return document.querySelector('tr[data-run]')")
        for scheme, width in (("light", 1300), ("dark", 360)):
            page.resize(width, 800)
            page.prefer(scheme)
            for path in paths:
                page.open(f"{dashboard.origin}{path}")
                page.wait_for("return document.querySelector('h1') && !document.querySelector('.wait')")
                page.wait_for(FITS)
                findings[scheme, path] = axe.findings(page)
            page.press("?")
            page.wait_for("return document.querySelector('dialog[open]')")
            findings[scheme, "keys"] = axe.findings(page)
        page.open("about:blank")
    assert {path: each for path, each in findings.items() if each} == {}


def places() -> PlaceCommands:
    """One that answers with a warning and a queue, and one that can't be asked."""
    finding = {"verdict": "warning", "code": "UM-X-001", "reason": "old python", "hint": "update it"}
    answers = {
        "doctor": says({"checks": [{"findings": [finding]}]}),
        "queue": says([{"run": "ctr-3f", "name": "ctr", "state": "queued", "handle": "slurm://lab/7"}]),
    }
    known = [KnownPlace(name=name, backend="slurm", source="umiak.toml") for name in ("lab", "far")]
    return PlaceCommands(
        known=lambda: (known, ["umiak.toml:3: unknown key"]),
        questions={key: lambda name, key=key: answers[key] if name == "lab" else ["false"] for key in answers},  # type: ignore[misc]
    )


def tab_to(page: browser.BrowserPage, text: str) -> None:
    """With the Tab key alone; where it stands is to be seen."""
    for _ in range(80):
        page.press("Tab")
        held = "const held = document.activeElement; return held.matches('a, button') ? held.innerText : ''"
        if text in page.run(held):
            style = "return getComputedStyle(document.activeElement).outlineStyle"
            assert page.run(style) != "none", f"one sees that {text} is chosen"
            return
    raise AssertionError(f"Tab never came to {text}")


def test_everything_is_done_with_keys_alone(tmp_path: Path, page: browser.BrowserPage) -> None:
    runs(tmp_path)
    with served(tmp_path) as dashboard:
        page.open(dashboard.address)
        page.wait_for("return document.querySelectorAll('tr[data-run]').length == 2")
        page.press("Tab", "Enter")
        page.wait_for("return document.activeElement.id == 'main'")
        page.press("?")
        page.wait_for("return document.querySelector('dialog[open]')")
        page.press("Escape")
        page.wait_for("return !document.querySelector('dialog[open]')")
        page.press("j", "x", "j", "x")
        tab_to(page, "Compare 2 runs")
        page.press("Enter")
        page.wait_for("return location.pathname == '/compare' && document.querySelector('.chart canvas')")
        page.press("g")
        page.wait_for("return document.querySelectorAll('tr[data-run]').length == 2")
        tab_to(page, "/now")
        page.press("Enter")
        page.wait_for("return document.querySelector('.tabs')")
        tab_to(page, "Ranks")
        page.press("Enter")
        page.wait_for("return document.querySelector('.ranks a')")
        tab_to(page, "trainer 1")
        page.press("Enter")
        page.wait_for("return document.querySelector('.panel')")
        tab_to(page, "first error")
        page.press("Enter")
        page.wait_for("return document.querySelector('.log li.target')")
        tab_to(page, "Config")
        page.press("Enter")
        shows(page, "hyper_parameters.optimizer.learning_rate")
        page.open("about:blank")


WORKER = """
import os, sys, time
print("start", os.environ.get("UMIAK_GENERATION", ""), flush=True)
if not os.path.exists(sys.argv[1]):
    open(sys.argv[1], "w").close()
    raise ValueError("the first time")
time.sleep(600)
"""


def test_a_restart_and_the_end_of_a_launcher_are_told_as_they_happen(tmp_path: Path, page: browser.BrowserPage) -> None:
    (tmp_path / "work.py").write_text(WORKER)
    words = ["--job_id", "again", "--max_restart", "1", "work.py", str(tmp_path / "failed")]
    job = subprocess.Popen(
        [sys.executable, "-m", "umiak.launch", *words],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={name: text for name, text in os.environ.items() if not name.startswith(("UMIAK_", "PADDLE_"))},
    )
    try:
        with served(tmp_path) as dashboard:
            page.open(dashboard.address)
            page.wait_for("return document.querySelector('tr[data-run]')")
            page.open(f"{dashboard.origin}/runs/{id_of(str(tmp_path / 'log'))}")
            shows(page, "ended because")
            page.wait_for("return document.querySelectorAll('.timeline rect').length == 2")
            page.wait_for("return document.querySelector('h1 .state.running')")
            job.send_signal(signal.SIGKILL)
            job.wait()
            page.wait_for("return document.querySelector('h1 .state.lost')", within_s=60)
            shows(page, "its launcher ended without writing how")
            page.open("about:blank")
    finally:
        job.kill()
        job.wait()


def test_a_worker_that_is_started_again_alone_is_a_mark_in_its_generation(
    tmp_path: Path, page: browser.BrowserPage
) -> None:
    """And who has opened the page of a launcher sees the curves as soon as there are some, also where it belongs to a larger run by then."""
    killed = failure(1, at=WALL + 9, exit_code=None, signal=9)
    again = message(60.5, "RestartWorker", key="trainer.1", generation=1, restarts=1)
    text = journal(exited(1, 60.0, killed), again)
    log = launch_directory(tmp_path / "ctr" / "log", text, state="running", restarts=1)
    with served(tmp_path) as dashboard, locked(log / "events.jsonl"):
        page.open(dashboard.address)
        page.wait_for("return document.querySelector('tr[data-run] .state.running')")
        page.open(f"{dashboard.origin}/runs/{id_of(str(log))}?axis=time")
        page.wait_for("return document.querySelectorAll('.timeline rect.mark').length == 1")
        shows(page, "after 8 s trainer 1 on node 10.0.0.1 was killed by SIGKILL (9); it was started again in its place")
        train_directory(tmp_path / "ctr")
        page.wait_for("return document.querySelector('.chart canvas')")
        assert page.run("return location.pathname") == f"/runs/{id_of(str(tmp_path / 'ctr'))}"
        assert page.run("return location.search") == "?axis=time"
        page.open("about:blank")


def test_names_and_numbers_of_others_stay_in_their_places(tmp_path: Path, page: browser.BrowserPage) -> None:
    """A name that turns the direction of writing, numbers near the largest there are, and a speed that is none."""
    losses = (1e308, -1e308, 1e308)
    nan = float("nan")
    points = [progress(100 * at, each, WALL + at, samples_per_s=nan) for at, each in enumerate(losses)]
    directory = train_directory(tmp_path / "\u202e<b>live</b>", *points)
    with served(tmp_path) as dashboard, locked(directory / "metrics.jsonl"):
        page.open(dashboard.address)
        page.wait_for("return document.querySelector('tr[data-run] .state.running')")
        assert "\u202e" not in page.run("return document.body.innerText")
        page.wait_for("return document.querySelector('tr[data-run] svg.spark path')")
        shows(page, "loss 1.00e+308")
        page.open(f"{dashboard.origin}/runs/{id_of(str(directory))}")
        shows(page, "Running for")
        assert "nan" not in page.run("return document.querySelector('.sentence').innerText")
        assert page.complaints() == []
        page.open("about:blank")


def test_a_real_training_draws_itself_and_is_cancelled(tmp_path: Path, page: browser.BrowserPage) -> None:
    words = [sys.executable, "-m", "umiak.models.sample", "rank.dnn", "--out", "data", "--samples", "2000"]
    environ = {name: text for name, text in os.environ.items() if not name.startswith(("UMIAK_", "PADDLE_"))}
    subprocess.run(words, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL, env=environ)
    settings = {
        "dataset.train_data.data_path": "data/train",
        "dataset.test_data.data_path": "data/test",
        "runner.single.epochs": "100000",
        "runner.single.print_interval": "1",
    }
    words = [sys.executable, "-m", "umiak.cli.main", "train", "-m", "umiak.models.rank.dnn"]
    words += [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
    output = (tmp_path / "output").open("wb")
    job = subprocess.Popen(words, cwd=tmp_path, stdout=output, stderr=output, env=environ)
    try:
        with served(tmp_path, allowed="cancel") as dashboard:
            page.open(dashboard.address)
            link = "return document.querySelector('tr[data-run] .state.running') && document.querySelector('tr[data-run] a').href"
            page.open(page.wait_for(link))
            points = (
                "return Math.max(0, ...[...document.querySelectorAll('.chart')].map((each) => +each.dataset.points))"
            )
            first = page.wait_for(points)
            page.wait_for(f"{points} > arguments[0] + 3", first)
            page.run("document.querySelector('h1 button.danger').click()")
            page.run("document.querySelector('dialog[open] button.danger').click()")
            page.wait_for("return document.querySelector('h1 .state.cancelled')")
            assert job.wait(PATIENCE_S) != 0
            assert page.complaints() == []
            page.open("about:blank")
    finally:
        job.kill()
        job.wait()
        output.close()
