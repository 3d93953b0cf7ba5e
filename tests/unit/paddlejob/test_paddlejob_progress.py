"""What a job says about itself in its log."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.operator_cluster import OperatorCluster, manifest
from umiak.core.value import replace
from umiak.operator.reconcile import reconcile
from umiak.paddlejob.progress import ASKED_BY, LONGEST_VALUE, MOST_VALUES, is_asked_for, read
from umiak.paddlejob.reading import read as read_job
from umiak.paddlejob.resource import JobPhase
from umiak.train.reports.text import ProgressReport
from umiak.train.reports.text import progress as trainer_line


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("", {}),
        ("hello\nprogress bar\n", {}),
        ('progress {"percent": 42, "etaSeconds": 12.5, "loss": 0.25}', {"percent": "42", "etaSeconds": "12.5", "loss": "0.25"}),
        ('progress {"percent": 1}\nprogress {"percent": 2}\nother\n', {"percent": "2"}),
        ('[trainer 0] progress {"percent": 7}', {"percent": "7"}),
        ('progress {"percent": 7', {}),
        ('progress {"loss": NaN, "a": [1], "b": true, "c": null, "note": "x\\u001b[31m"}', {"loss": "NaN"}),
        ("no_progress {}", {}),
    ],
)  # fmt: skip
def test_the_last_marked_line_counts(log: str, expected: dict[str, str]) -> None:
    found = dict(read(log))
    found.pop("note", None)
    assert found == expected


def test_what_a_job_says_is_bounded() -> None:
    many = ", ".join(f'"key{number:02}": "{"x" * 50}"' for number in range(30))
    found = read(f"progress {{{many}}}")
    assert len(found) == MOST_VALUES
    assert all(len(text) <= LONGEST_VALUE for _, text in found)
    assert read("progress " + "{" * 1900 + "}" * 90) == ()


def test_the_trainers_own_line_is_understood() -> None:
    report = ProgressReport(
        epoch=2,
        epochs=4,
        stage="train",
        batch=12_000,
        samples=1,
        samples_per_s=31_200.4,
        metrics={"loss": 0.4312, "auc": 0.7812},
        recent={},
        left_s=3725.0,
        shares={"compute": 0.7},
    )
    expected = {"epoch": "3/4", "percent": "50", "samplesPerSecond": "31200", "loss": "0.4312", "auc": "0.7812"}
    assert dict(read(f"[trainer 0] {trainer_line(report)}\n")) == {**expected, "etaSeconds": "3720"}
    assert dict(read(trainer_line(replace(report, left_s=192.0))))["etaSeconds"] == "192"
    assert dict(read(trainer_line(replace(report, left_s=4.25))))["etaSeconds"] == "4"
    assert "etaSeconds" not in dict(read(trainer_line(replace(report, left_s=None))))


@pytest.mark.parametrize(
    ("command", "annotation", "expected"),
    [
        (["python", "train.py"], None, False),
        (["python", "train.py"], "log", True),
        (["umiak", "train", "-m", "c.yaml"], None, True),
        (["sh", "-c", "python -m umiak launch train.py"], None, True),
        (["umiak", "train"], "none", False),
        ([3], None, False),
    ],
)
def test_only_jobs_that_ask_for_it_are_read(command: list[Any], annotation: str | None, expected: bool) -> None:
    body = manifest(worker=1)
    body["spec"]["worker"]["template"]["spec"]["containers"][0]["command"] = command
    if annotation is not None:
        body["metadata"]["annotations"] = {ASKED_BY: annotation}
    assert is_asked_for(read_job(body).job) is expected


def test_progress_stays_in_the_status_and_ends_with_the_job() -> None:
    cluster = OperatorCluster(manifest(worker=2))
    cluster.settle()
    cluster.progress = (("loss", "0.5"), ("percent", "40"))
    cluster.settle()
    assert cluster.report.progress == (("loss", "0.5"), ("percent", "40"))
    observed = cluster.observed()
    assert observed
    assert reconcile(replace(observed, progress=(("percent", "41"),)), cluster.now).status_may_wait_s > 0
    cluster.progress = ()
    cluster.fail("wide-worker-0")
    cluster.settle(seconds=30)
    assert cluster.report.progress == ()
    cluster.progress = (("percent", "90"),)
    cluster.settle()
    cluster.finish()
    cluster.settle()
    assert cluster.report.phase is JobPhase.COMPLETED
    assert dict(cluster.report.progress)["percent"] == "100"
