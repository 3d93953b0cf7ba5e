"""What a person sees of a run: lines, a table, pictures."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from umiak.core.problem import Problem
from umiak.core.value import replace
from umiak.train.checkpoints.progress import EpochRow
from umiak.train.reports import chart
from umiak.train.reports import text as report_text
from umiak.train.reports.chart import Curve
from umiak.train.reports.reporter import Reporter
from umiak.train.reports.rundir import RunDirectory
from umiak.train.reports.text import ProgressReport
from umiak.train.run import trainer


def report(**more: object) -> ProgressReport:
    said = {
        "epoch": 0,
        "epochs": 4,
        "stage": "train",
        "batch": 1200,
        "samples": 614_400,
        "samples_per_s": 31_234.5,
        "metrics": {"loss": 0.43121, "auc": 0.78123, "calibration.predicted": 0.2},
        "recent": {},
        "left_s": 192.0,
        "shares": {"reading": 0.001, "pull": 0.11, "compute": 0.7, "push": 0.189},
    }
    return ProgressReport(**{**said, **more})  # type: ignore[arg-type]


def test_a_line_of_progress() -> None:
    assert report_text.progress(report()) == (
        "epoch 1/4  batch 1,200  31,234 samples/s  loss 0.4312  auc 0.7812  3m 12s left  pull 11%, compute 70%, push 19%"
    )
    assert "left" not in report_text.progress(report(left_s=None))


def test_an_epoch_is_done_or_one_of_its_phases() -> None:
    row = EpochRow(epoch=1, stage="more", samples=1000, seconds=2.0, trained={"auc": 0.5}, evaluated={"auc": 0.75})
    assert report_text.epoch(row, 3) == "epoch 2/3 done  1,000 samples in 2.0s  auc 0.5000  evaluated: auc 0.7500"
    judged = replace(row, trained={}, model="out/0")
    assert report_text.epoch(judged, 3) == "out/0 done  1,000 samples in 2.0s  evaluated: auc 0.7500"
    assert [line.split()[0] for line in report_text.table([judged])] == ["model", "out/0"]
    assert report_text.epoch(row, 3, of_several=True).startswith("epoch 2/3, more, done  ")


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.04, "0.0s"), (9.94, "9.9s"), (59.2, "59s"), (60, "1m 00s"), (3599.6, "1h 00m"), (7384, "2h 03m")],
)
def test_durations(seconds: float, expected: str) -> None:
    assert report_text.duration(seconds) == expected


def test_the_table_of_epochs_has_what_was_seen() -> None:
    rows = [
        EpochRow(epoch=0, stage="a", samples=1000, seconds=2.0, trained={"auc": 0.5}, evaluated={"auc": None}),
        EpochRow(epoch=1, stage="a", samples=1000, seconds=0.5, trained={"auc": 0.625}, evaluated={"auc": 0.75}),
    ]
    assert report_text.table(rows) == [
        "epoch  samples  seconds  samples/s     auc  evaluated auc",
        "    1    1,000      2.0        500  0.5000              -",
        "    2    1,000      0.5      2,000  0.6250         0.7500",
    ]
    other = [*rows, EpochRow(epoch=1, stage="b", samples=1, seconds=0.0)]
    assert report_text.table(other)[0].split()[:2] == ["epoch", "phase"]


@pytest.mark.parametrize("epochs", [1, 2, 7])
def test_the_table_of_epochs_fits_a_narrow_terminal(epochs: int) -> None:
    numbers = {"loss": 0.5, "auc": 0.75}
    rows = [
        EpochRow(epoch=epoch, stage="a", samples=120_000, seconds=7.5, trained=numbers, evaluated=numbers)
        for epoch in range(epochs)
    ]
    lines = report_text.table(rows, 40)
    assert max(map(len, lines)) <= 40
    assert [word for line in lines if line.lstrip().startswith("epoch ") for word in line.split()[1:]] == [
        str(epoch + 1) for epoch in range(epochs)
    ]
    assert report_text.table(rows, 200) == report_text.table(rows)
    assert max(map(len, report_text.table(rows, 10))) < 60, "what fits nowhere is shown all the same"


def test_a_run_ends_within_the_columns_of_its_terminal(tmp_path: Path) -> None:
    err = io.StringIO()
    reporter = Reporter(RunDirectory(str(tmp_path), "r"), err=err, columns=40)
    for samples in (100, 200, 300):
        reporter.report(report(samples=samples, recent={"auc": samples / 1000}))
    reporter.end([EpochRow(epoch=0, stage="a", samples=120_000, seconds=7.5, trained={"loss": 1.0, "auc": 0.5})], "t")
    reporter.close()
    lines = err.getvalue().replace("\r", "\n").split("\n")
    shown = [line for line in lines if line.strip() and not line.startswith(("epoch 1/", "plot: "))]
    assert len(shown) > 10
    assert max(map(len, shown)) <= 40


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 100, [0, 20, 40, 60, 80, 100]),
        (0.41, 0.63, [0.45, 0.5, 0.55, 0.6]),
        (5, 5, [5]),
        (0, 240_000, [0, 50_000, 100_000, 150_000, 200_000]),
    ],
)
def test_ticks_are_round(low: float, high: float, expected: list[float]) -> None:
    assert chart.ticks(low, high) == expected


CURVES = [
    Curve(name="loss <&>", points=tuple((100 * at, 1 / at) for at in range(1, 2000)), marks=((1000, 0.5),)),
    Curve(name="auc", points=((100, 0.5),)),
    Curve(name="nothing", points=()),
]


def test_a_picture_is_well_formed_and_has_every_curve() -> None:
    root = ET.fromstring(chart.svg(CURVES, "a <title>"))
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a <title>", "loss <&>", "auc"} <= set(texts)
    assert "nothing" not in texts
    lines = [each.get("points", "").split() for each in root.iter("{http://www.w3.org/2000/svg}polyline")]
    assert [len(line) for line in lines] == [501, 1], "as many points as can be told apart"
    assert len([*root.iter("{http://www.w3.org/2000/svg}circle")]) == 1


def test_a_drawing_for_terminals() -> None:
    curve = Curve(name="auc", points=((0, 0.5), (50, 0.75), (100, 1.0)), marks=((100, 0.5),))
    assert chart.drawing(curve, width=11, height=3) == [
        "  auc  (o: evaluated)",
        "   1.0000 |          *",
        "   0.7500 |     *",
        "   0.5000 |*         o",
        "          +-----------",
        "           0100 samples",
    ]
    assert chart.drawing(Curve(name="auc", points=())) == []


@pytest.mark.parametrize("is_quiet", [False, True])
def test_quiet_says_notes_and_warnings_and_writes_everything_down(tmp_path: Path, is_quiet: bool) -> None:
    err = io.StringIO()
    reporter = Reporter(RunDirectory(str(tmp_path), "r"), err=err, is_quiet=is_quiet)
    reporter.info("starts from here")
    reporter.report(report())
    reporter.note("passed over")
    reporter.warning(
        Problem(code="UM-DATA-009", what="a slot is never there", why="nobody has written it", hint="leave it out")
    )
    reporter.stopped("stopped, resumable")
    reporter.close()
    said = err.getvalue().splitlines()
    assert said[-5:] == [
        "note: passed over",
        "warning: a slot is never there [UM-DATA-009]",
        "  because: nobody has written it",
        "  hint: leave it out",
        "stopped, resumable",
    ]
    assert (said[:-5] == []) is is_quiet
    written = [json.loads(line)["event"] for line in (tmp_path / "r" / "metrics.jsonl").read_text().splitlines()]
    assert written == ["progress"]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/opt/site-packages/umiak/models/rank/dnn/model.py", "rank/dnn"),
        ("/home/me/ctr/model.py", "ctr"),
        ("/home/me/ctr/dygraph_model.py", "ctr"),
        ("/home/me/ctr/wide_and_deep.py", "wide_and_deep"),
    ],
)
def test_a_plot_is_titled_by_its_model(path: str, name: str) -> None:
    assert trainer._model_name(path) == name
