"""The dashboard in a real Chromium: its pages while a real launcher runs, with logs of any size and with many runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from testbed import browser
from tests.support import PATIENCE_S
from tests.support.paths import WORKERS
from tests.support.run_directories import WALL, launch_directory, lines, locked, progress, train_directory, with_config
from umiak.cli.dashboard.servers import ServersOfRuns
from umiak.dashboard.index import id_of
from umiak.dashboard.options import DashboardOptions
from umiak.dashboard.outside.given import GivenSources, KnownPlace, PlaceCommands
from umiak.dashboard.program import Dashboard
from umiak.dashboard.rows import SubmissionSight

pytestmark = [
    pytest.mark.skipif(bool(browser.missing()) and "CI" not in os.environ, reason=f"without {browser.missing()}"),
]
WORKER = """
import os, sys, time
print("<b>bold</b> of", os.environ["PADDLE_TRAINER_ID"], flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
if os.environ["PADDLE_TRAINER_ID"] == "1":
    raise ValueError("told to fail")
"""
FITS = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"


@contextlib.contextmanager
def served(
    path: Path, submitted: Callable[[], Sequence[SubmissionSight]] = tuple, allowed: str = "", **more: Any
) -> Iterator[Dashboard]:
    """A dashboard in a thread of this process."""
    started = threading.Event()
    loop = asyncio.new_event_loop()
    given = GivenSources(submitted=submitted, **more)
    options = DashboardOptions(directories=(str(path),), allowed=frozenset({allowed} if allowed else ()))
    dashboard = Dashboard(options, given)

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(dashboard.start())
        started.set()
        loop.run_forever()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert started.wait(PATIENCE_S)
        yield dashboard
    finally:
        asyncio.run_coroutine_threadsafe(dashboard.close(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


@pytest.fixture(scope="module")
def window() -> Iterator[browser.BrowserPage]:
    with browser.chromium() as opened:
        yield opened


@pytest.fixture
def page(window: browser.BrowserPage) -> browser.BrowserPage:
    """An empty page: what an earlier test left open asks a server that has gone."""
    window.open("about:blank")
    window.complaints()
    window.addresses()
    return window


def shows(page: browser.BrowserPage, text: str) -> None:
    page.wait_for("return document.body.innerText.includes(arguments[0])", text)


def check_quiet(page: browser.BrowserPage, dashboard: Dashboard) -> None:
    """No violation of the policy, no failed script or request, and nothing asked of anybody else."""
    assert page.complaints() == []
    own = (f"{dashboard.origin}/", "data:", "chrome:", "about:")
    assert [address for address in page.addresses() if not address.startswith(own)] == []
    page.open("about:blank")


def test_a_job_is_followed_from_its_start_to_its_failure(tmp_path: Path, page: browser.BrowserPage) -> None:
    (tmp_path / "work.py").write_text(WORKER)
    directory = train_directory(tmp_path / "run" / "ctr")
    job = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "umiak.launch",
            "--nproc_per_node",
            "2",
            "--job_id",
            "live",
            "work.py",
            str(tmp_path / "go"),
        ],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with served(tmp_path) as dashboard, locked(directory / "metrics.jsonl") as metrics:
            page.resize(1300, 900)
            page.open(dashboard.address)
            shows(page, "live")
            assert page.run("return location.hash + document.cookie") == ""
            page.wait_for("return document.querySelectorAll('tr[data-run] .state.running').length == 2")

            page.open(f"{dashboard.origin}/runs/{id_of(str(directory))}")
            page.wait_for("return document.querySelector('.chart[data-points=\"2\"] canvas')")
            metrics.write(lines(progress(300, 0.5)))
            metrics.flush()
            page.wait_for("return document.querySelector('.chart[data-points=\"3\"] canvas')")

            run = f"{dashboard.origin}/runs/{id_of(str(tmp_path / 'log'))}"
            page.open(f"{run}?tab=logs")
            shows(page, "<b>bold</b> of 1")
            assert page.run("return document.querySelectorAll('.log b').length") == 0
            page.open(f"{run}?tab=ranks")
            page.wait_for("return document.querySelectorAll('.ranks a.running').length == 2")
            page.run("document.querySelector('.ranks a').click()")
            page.wait_for(
                "return [...document.querySelectorAll('.panel button')].find((each) => each.textContent == 'Stack now')"
            )
            page.run("document.querySelector('.panel button').click()")
            page.wait_for("return document.querySelector('.panel pre, .panel .problem')")
            shows(page, "py-spy is not installed" if shutil.which("py-spy") is None else "Thread")
            (tmp_path / "go").touch()
            page.wait_for(
                "return document.querySelector('.ranks a.failed') && document.querySelector('h1 .state.failed')"
            )
            assert "trainer 1" in page.run("return document.querySelector('.ranks a.failed').innerText")
            page.open(run)
            shows(page, "trainer 1 on node 127.0.0.1 failed with exit code 1: ValueError: told to fail")
            page.run("document.querySelector('.failure a').click()")
            page.wait_for("return document.querySelector('.log li.target')")
            assert job.wait(PATIENCE_S) == 1
            check_quiet(page, dashboard)
    finally:
        job.kill()
        job.wait()


def test_every_page_fits_a_phone_and_the_dark(tmp_path: Path, page: browser.BrowserPage) -> None:
    for name in ("a", "b"):
        train_directory(tmp_path / "run" / name, outcome={"stopped": False})
    launch_directory(tmp_path / "run" / "a" / "log", state="failed", reason=f"trainer 1 failed {'x' * 200}")
    run, other = (id_of(str(tmp_path / "run" / name)) for name in "ab")
    paths = ["/runs", "/runs?q=nothing", f"/compare?runs={run},{other}", "/compare"]
    paths += [
        f"/runs/{run}{tab}"
        for tab in ("", "?tab=ranks", "?tab=logs", "?tab=config", "?tab=files", f"?tab=config&with={other}")
    ]
    with served(tmp_path) as dashboard:
        page.open(dashboard.address)
        page.wait_for("return document.querySelector('h1')")
        page.resize(360, 740)
        page.prefer("dark")
        for path in paths:
            page.open(f"{dashboard.origin}{path}")
            page.wait_for(
                "return document.querySelector('h1') && document.querySelector('.connection').textContent == 'live'"
            )
            page.wait_for(FITS)  # charts follow the width of the page a moment later
            assert page.run("return getComputedStyle(document.body).backgroundColor") == "rgb(17, 22, 28)"
        page.prefer("light")
        page.resize(1300, 900)
        check_quiet(page, dashboard)


def test_the_best_earlier_run_is_behind_the_curves(tmp_path: Path, page: browser.BrowserPage) -> None:
    for number, name in enumerate(("worse", "best", "now")):
        points = [
            progress(100 * step, loss, WALL + 100 * number + step) for step, loss in ((1, 0.9), (2, 0.8 - number / 4))
        ]
        directory = train_directory(tmp_path / "run" / name, *points, outcome={"stopped": False})
        with_config(directory, "/home/ada/ctr.yaml", hyper_parameters__rate=number / 10, only=name)
    run = id_of(str(tmp_path / "run" / "now"))
    with served(tmp_path) as dashboard:
        page.open(dashboard.address)
        page.wait_for("return document.querySelector('tr[data-run]')")
        page.open(f"{dashboard.origin}/runs/{run}")
        shows(page, "the best of 2 earlier runs of this config: loss 0.55")
        shows(page, "hyper_parameters.rate 0.1, now 0.2")
        shows(page, "best earlier: train")
        page.run("document.querySelector('.earlier input').click()")
        page.wait_for("return !document.body.innerText.includes('best earlier: train')")
        page.run("document.querySelector('.earlier a').click()")
        shows(page, "the earlier run of this config: loss 0.8")
        page.open(f"{dashboard.origin}/runs/{run}?tab=config&with={id_of(str(tmp_path / 'run' / 'best'))}")
        page.wait_for("return document.querySelectorAll('tr.differs').length == 2")
        shows(page, "/home/ada/ctr.yaml")
        check_quiet(page, dashboard)


def test_files_show_plots_reports_and_checkpoints(tmp_path: Path, page: browser.BrowserPage) -> None:
    saved = [{"time": WALL, "event": what, "path": f"checkpoints/{what}"} for what in ("saved", "served")]
    directory = train_directory(tmp_path / "run" / "ctr", progress(100, 0.5), *saved, outcome={"stopped": False})
    evil = "<script>fetch('http://192.0.2.1/')</script>"
    (directory / "curve.svg").write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20">{evil}<rect width="40" height="20"/></svg>'
    )
    launch_directory(directory / "log")
    (directory / "log" / "error.trainer.1.1-0.json").write_text('{"message": "<b>it</b>"}')
    run = id_of(str(directory))
    with served(tmp_path) as dashboard:
        page.open(dashboard.address)
        page.wait_for("return document.querySelector('tr[data-run]')")
        page.open(f"{dashboard.origin}/runs/{run}?tab=files")
        page.wait_for("return document.querySelector('.plot img')?.naturalWidth == 40")
        shows(page, "checkpoints/served")
        shows(page, "inference model")
        shows(page, "Reports of failures")
        page.run("[...document.querySelectorAll('a')].find((each) => each.textContent == 'read').click()")
        shows(page, '{"message": "<b>it</b>"}')
        page.open(f"{dashboard.origin}/runs/{run}?tab=config")
        page.wait_for("return document.querySelector('#others')")
        check_quiet(page, dashboard)


def test_ten_thousand_runs_are_filtered_and_walked_with_keys(tmp_path: Path, page: browser.BrowserPage) -> None:
    runs = [
        SubmissionSight(
            run_id=f"job-{number:05}",
            name=f"job-{number:05}",
            place="lab",
            submitted_s=float(number),
            state="succeeded",
        )
        for number in range(10_000)
    ]
    with served(tmp_path, lambda: runs) as dashboard:
        page.open(dashboard.address)
        page.wait_for("return document.querySelector('table[aria-rowcount=\"10001\"]')")
        shows(page, "job-09999")
        assert page.run("return document.querySelectorAll('tr').length") < 120
        page.run("const box = document.querySelector('.runs'); box.scrollTop = box.scrollHeight")
        shows(page, "job-00000")
        page.press("/")
        page.press(*"job-0777")
        shows(page, "10 of 10,000 runs")
        assert page.run("return location.search") == "?q=job-0777"
        page.run("document.activeElement.blur()")
        page.press("j", "j", "Enter")
        page.wait_for("return location.pathname == '/runs/job-07778' && document.querySelector('h1 .state.succeeded')")
        check_quiet(page, dashboard)


def test_a_log_of_a_gigabyte_is_shown_at_its_end(tmp_path: Path, page: browser.BrowserPage) -> None:
    directory = launch_directory(tmp_path / "log")
    with (directory / "workerlog.0").open("wb") as file:
        file.write(b"the beginning\n")
        file.seek(1 << 30)
        file.write(b"\n<img src=x onerror=alert(1)>\nthe end \xff\n")
    with served(tmp_path) as dashboard:
        page.open(f"{dashboard.address.replace('/#', f'/runs/{id_of(str(directory))}?tab=logs#')}")
        shows(page, "the end \ufffd")
        shows(page, "<img src=x onerror=alert(1)>")
        assert page.run("return document.querySelectorAll('.log img').length") == 0
        check_quiet(page, dashboard)


def test_servers_of_a_job_are_shown_while_it_trains(tmp_path: Path, page: browser.BrowserPage) -> None:
    """Two servers and two trainers, of which one waits for the other."""
    words = ["--server_num", "2", "--trainer_num", "2", str(WORKERS / "waiting.py"), str(tmp_path)]
    job = subprocess.Popen(
        [sys.executable, "-m", "umiak.launch", *words],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={name: text for name, text in os.environ.items() if not name.startswith(("UMIAK_", "PADDLE_"))},
    )
    try:
        with served(tmp_path, servers=ServersOfRuns()) as dashboard:
            page.open(dashboard.address)
            page.wait_for("return document.querySelector('tr[data-run] .state.running')")
            run = f"{dashboard.origin}/runs/{id_of(str(tmp_path / 'log'))}"
            page.open(f"{run}?tab=servers")
            shows(page, "2 of 2 servers answer")
            shows(page, "rows pushed, per second")
            assert page.wait_for("return document.querySelector('[aria-label=Latencies] tbody')?.innerText").startswith(
                "p"
            )
            shows(page, "ads")
            assert page.run("return document.querySelector('[aria-label=Tables] tbody').innerText").startswith("ads")
            shows(page, 'trainer 0 waits: barrier "barrier" waits for trainer 1')
            page.open(f"{run}?tab=ranks")
            page.wait_for("return document.querySelector('.ranks a.waiting')")
            assert "trainer 0" in page.run("return document.querySelector('.ranks a.waiting').innerText")
            page.resize(360, 740)
            page.open(f"{run}?tab=servers")
            shows(page, "2 of 2 servers answer")
            page.wait_for(FITS)
            page.resize(1300, 900)
            (tmp_path / "enough").touch()
            assert job.wait(PATIENCE_S) == 0
            page.wait_for("return document.querySelector('h1 .state.succeeded')")
            check_quiet(page, dashboard)
    finally:
        (tmp_path / "enough").touch()
        job.terminate()
        job.wait()


def says(what: object) -> list[str]:
    return [sys.executable, "-c", f"print({json.dumps(what)!r})"]


def test_a_place_that_hangs_is_shown_beside_one_that_answers(tmp_path: Path, page: browser.BrowserPage) -> None:
    finding = {"verdict": "warning", "code": "UM-X-001", "reason": "<b>old</b> python", "hint": "update it"}
    answers = {
        "doctor": says({"checks": [{"findings": [finding]}]}),
        "queue": says([{"run": "ctr-3f", "name": "ctr", "state": "queued", "handle": "slurm://lab/7"}]),
    }
    hangs = [sys.executable, "-c", "import time; time.sleep(600)"]
    known = [KnownPlace(name=name, backend="slurm", source="umiak.toml") for name in ("lab", "far")]
    commands = PlaceCommands(
        known=lambda: (known, ["umiak.toml:3: unknown key"]),
        questions={key: lambda name, key=key: answers[key] if name == "lab" else hangs for key in answers},  # type: ignore[misc]
    )
    with served(tmp_path, places=commands) as dashboard:
        page.open(dashboard.address)
        page.wait_for("return document.querySelector('nav a[href=\"/places\"]')")
        page.run("document.querySelector('nav a[href=\"/places\"]').click()")
        page.wait_for(
            "return document.querySelector('[data-place=lab] .state')?.textContent == 'answers, with warnings'"
        )
        lab = page.wait_for(
            "return document.querySelector('[data-place=lab] ul + h3 ~ ul')?.closest('section').innerText"
        )
        assert "<b>old</b> python" in lab
        assert "1 queued" in lab
        page.wait_for("return document.querySelector('[data-place=far]').innerText.includes('asking for')")
        shows(page, "unknown key")
        page.resize(360, 740)
        page.wait_for(FITS)
        page.open(f"{dashboard.origin}/runs")  # it is as quick as ever
        page.wait_for("return document.querySelector('.empty')")
        page.resize(1300, 900)
        check_quiet(page, dashboard)


def test_a_run_is_cancelled_after_asking_once(tmp_path: Path, page: browser.BrowserPage) -> None:
    (tmp_path / "work.py").write_text(WORKER)
    job = subprocess.Popen(
        [sys.executable, "-m", "umiak.launch", "--job_id", "endless", "work.py", str(tmp_path / "never")],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    button = "return document.querySelector('h1 button.danger')"
    try:
        run = f"/runs/{id_of(str(tmp_path / 'log'))}"
        with served(tmp_path) as dashboard:
            page.open(dashboard.address)
            page.wait_for("return document.querySelector('tr[data-run] .state.running')")
            page.open(f"{dashboard.origin}{run}")
            page.wait_for("return document.querySelector('h1 .state.running')")
            assert page.run(f"{button} == null") is True
            assert (
                page.run_async(
                    f"fetch('{run}/cancel', {{method: 'POST'}}).then((answer) => arguments[0](answer.status))"
                )
                == 403
            )
            page.open("about:blank")
            page.complaints()  # of the status that was asked for
            page.addresses()
        with served(tmp_path, allowed="cancel") as dashboard:
            page.open(dashboard.address)
            page.wait_for("return document.querySelector('tr[data-run] .state.running')")
            page.open(f"{dashboard.origin}{run}")
            page.wait_for(button)
            page.run("document.querySelector('h1 button.danger').click()")
            page.wait_for("return document.querySelector('dialog[open]')")
            page.press("Enter")  # on what changes nothing
            page.wait_for("return !document.querySelector('dialog[open]')")
            assert job.poll() is None
            page.run("document.querySelector('h1 button.danger').click()")
            page.run("document.querySelector('dialog[open] button.danger').click()")
            shows(page, "SIGTERM was sent")
            assert job.wait(PATIENCE_S) == 128 + signal.SIGTERM
            page.wait_for("return !document.querySelector('h1 .state.running')")
            check_quiet(page, dashboard)
    finally:
        job.kill()
        job.wait()


def test_without_the_token_nothing_is_shown(tmp_path: Path) -> None:
    launch_directory(tmp_path / "log", state="failed", reason="secret reason")
    with served(tmp_path) as dashboard, browser.chromium() as other:
        other.open(f"{dashboard.origin}/runs")
        shows(other, "does not know you")
        assert "secret" not in other.run("return document.body.innerText")
        other.open(f"{dashboard.origin}/runs#t=wrong")
        other.run("location.reload()")
        shows(other, "wrong token")
