"""Status: what is written is read back, under the names that the old operator gave it."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.paddlejob.test_paddlejob_reading import JSON, NEAR
from umiak.core.value import fields, replace
from umiak.paddlejob import crd
from umiak.paddlejob.report import report_of, settled, status_of
from umiak.paddlejob.resource import (
    Condition,
    JobApi,
    JobMode,
    JobPhase,
    JobReport,
    JobSpec,
    PaddleJob,
    PodRole,
    RoleCounts,
)
from umiak.paddlejob.status_fields import FIELDS

JOB = PaddleJob(name="wide", namespace="team", uid="u", spec=JobSpec(roles=()), created_s=5.0)
NAMES = st.text(alphabet="abcz-019", min_size=1, max_size=6)
NUMBERS = st.integers(0, 10**6)
TIMES = st.floats(0, 4e9)


def pairs(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(NAMES, values, max_size=4).map(lambda found: tuple(found.items()))


COUNTS = st.builds(
    RoleCounts,
    role=st.sampled_from(PodRole),
    wanted=NUMBERS,
    pending=NUMBERS,
    starting=NUMBERS,
    running=NUMBERS,
    failed=NUMBERS,
    succeeded=NUMBERS,
    unknown=NUMBERS,
    refs=pairs(NAMES),
)
CONDITIONS = st.builds(
    Condition, type=NAMES, is_true=st.booleans(), reason=NAMES | st.just(""), message=st.text(max_size=9), since_s=TIMES
)
REPORTS = st.builds(
    JobReport,
    phase=st.none() | st.sampled_from(JobPhase),
    mode=st.none() | st.sampled_from(JobMode),
    counts=st.lists(COUNTS, unique_by=lambda each: each.role).map(tuple),
    conditions=st.lists(CONDITIONS, unique_by=lambda each: each.type).map(tuple),
    observed_generation=NUMBERS,
    attempt=NUMBERS,
    restarts=NUMBERS,
    pod_restarts=pairs(NUMBERS),
    port=st.integers(0, 65535),
    node_ports=pairs(NUMBERS),
    start_s=st.none() | TIMES,
    completion_s=st.none() | TIMES,
    progress=pairs(st.text(max_size=5)),
    last_logs=pairs(st.text(max_size=20)),
    selector=NAMES | st.just(""),
)


@given(report=REPORTS, api=st.sampled_from(JobApi))
def test_what_is_written_is_read_back(report: JobReport, api: JobApi) -> None:
    status = status_of(report, replace(JOB, api=api))
    stored = json.loads(json.dumps(status, sort_keys=True))  # an API server keeps objects in an order of its own
    assert report_of(stored, api) == settled(report)
    assert status_of(report_of(stored, api), replace(JOB, api=api)) == status


@given(report=REPORTS)
def test_what_is_settled_stays(report: JobReport) -> None:
    assert settled(settled(report)) == settled(report)


@given(report=REPORTS, api=st.sampled_from(JobApi))
def test_the_schema_knows_all_that_is_written(report: JobReport, api: JobApi) -> None:
    """What a schema does not know, an API server drops: it would be forgotten."""
    status = status_of(report, replace(JOB, api=api))
    assert list(CLOSED[api].iter_errors(status)) == []


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """With every field that is not in it forbidden."""
    made = dict(schema)
    if "properties" in made:
        made["properties"] = {name: _closed(each) for name, each in made["properties"].items()}
        made["additionalProperties"] = False
    if "items" in made:
        made["items"] = _closed(made["items"])
    return made


def _validator(made: dict[str, Any]) -> jsonschema.Draft7Validator:
    schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    return jsonschema.Draft7Validator(_closed(schema))


CLOSED = {JobApi.BATCH: _validator(crd.resource()), JobApi.KUBEFLOW: _validator(crd.kubeflow_resource())}


@given(JSON | NEAR)
def test_no_status_is_too_strange(status: Any) -> None:
    for api in JobApi:
        assert settled(report_of(status, api)) == report_of(status, api)


def test_the_names_of_the_old_operator() -> None:
    report = JobReport(
        phase=JobPhase.RUNNING,
        mode=JobMode.PS,
        counts=(
            RoleCounts(role=PodRole.WORKER, wanted=2, running=1, pending=1, refs=(("wide-worker-0", "u-0"),)),
            RoleCounts(role=PodRole.PS, wanted=1, running=1),
        ),
        conditions=(
            Condition(
                type="Ready", is_true=False, reason="Waiting", message="1 worker is pending", since_s=1769860800.7
            ),
        ),
        observed_generation=3,
        restarts=2,
        start_s=1769860800.2,
        progress=(("percent", "40"),),
        selector="paddle-res-type=worker",
    )
    assert status_of(report, JOB) == {
        "phase": "Running",
        "mode": "PS",
        "ps": {"running": 1, "desired": 1},
        "worker": {
            "pending": 1,
            "running": 1,
            "desired": 2,
            "refs": [{"apiVersion": "v1", "kind": "Pod", "name": "wide-worker-0", "namespace": "team", "uid": "u-0"}],
        },
        "startTime": "2026-01-31T12:00:00Z",
        "conditions": [
            {
                "type": "Ready",
                "status": "False",
                "lastTransitionTime": "2026-01-31T12:00:00Z",
                "reason": "Waiting",
                "message": "1 worker is pending",
            }
        ],
        "observedGeneration": 3,
        "restarts": 2,
        "progress": {"percent": "40"},
        "message": "1 worker is pending",
        "workers": "1/2",
        "replicas": 2,
        "selector": "paddle-res-type=worker",
    }


def test_a_status_of_the_old_operator_is_understood() -> None:
    status = {
        "phase": "Running",
        "mode": "PS",
        "ps": {"running": 2, "refs": [{"kind": "Pod", "name": "a-ps-0", "uid": "1"}]},
        "worker": {"running": 1, "pending": 1},
        "startTime": "2021-02-08T07:43:24Z",
    }
    report = report_of(status)
    assert (report.phase, report.mode, report.start_s) == (JobPhase.RUNNING, JobMode.PS, 1612770204.0)
    assert [(each.role, each.running, each.pending) for each in report.counts] == [
        (PodRole.PS, 2, 0),
        (PodRole.WORKER, 1, 1),
    ]
    assert report_of({"phase": "Succeed"}).phase is JobPhase.COMPLETED
    assert report_of({"phase": "Aborting"}).phase is None


def test_kubeflow_sees_its_own_words() -> None:
    report = JobReport(
        phase=JobPhase.COMPLETED,
        counts=(RoleCounts(role=PodRole.PS, failed=1), RoleCounts(role=PodRole.WORKER, succeeded=2, running=1)),
        conditions=(Condition(type="Started", is_true=True, reason="PodsRun"),),
        completion_s=1769860800.0,
    )
    job = replace(JOB, api=JobApi.KUBEFLOW)
    status = status_of(report, job)
    assert status["replicaStatuses"] == {
        "Master": {"active": 0, "succeeded": 0, "failed": 1},
        "Worker": {"active": 1, "succeeded": 2, "failed": 0},
    }
    assert [(each["type"], each["status"]) for each in status["conditions"]] == [
        ("Created", "True"),  # `is_job_created` of its SDK, for ever
        ("Started", "True"),
        ("Succeeded", "True"),
    ]
    assert status["conditions"][-1]["lastTransitionTime"] == "2026-01-31T12:00:00Z"


def test_many_pods_leave_room_in_the_object() -> None:
    refs = tuple((f"wide-worker-{number}", "u") for number in range(5000))
    status = status_of(JobReport(counts=(RoleCounts(role=PodRole.WORKER, refs=refs),)), JOB)
    assert len(status["worker"]["refs"]) == 100


OF_ITS_OWN_FORM = {"phase", "mode", "counts", "conditions", "start_s", "completion_s", "selector"}
"""What of a report is written otherwise than as a number or pairs."""


def test_a_row_of_the_table_is_all_that_a_remembered_field_needs() -> None:
    remembered = {field.remembered: field.name for field in FIELDS if field.remembered}
    assert remembered.keys() == set(fields(JobReport)) - OF_ITS_OWN_FORM
    for name in remembered:
        value = 7 if isinstance(getattr(JobReport(), name), int) else (("a", "1"),)
        status = status_of(replace(JobReport(), **{name: value}), JOB)
        assert json.loads(json.dumps(status))[remembered[name]] in (7, {"a": "1"})
