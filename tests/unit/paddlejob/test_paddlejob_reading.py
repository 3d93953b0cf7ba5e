"""Reading a PaddleJob: what people write becomes a value, what is wrong is told at once, and nothing is raised."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import effort
from umiak.core.value import replace
from umiak.paddlejob import checks, reading
from umiak.paddlejob.field_reader import FieldNotes
from umiak.paddlejob.job_fields import FIELDS, MOST_REPLICAS
from umiak.paddlejob.kubeflow_fields import FIELDS as KUBEFLOW_FIELDS
from umiak.paddlejob.names import pod_name
from umiak.paddlejob.resource import (
    CleanPods,
    Intranet,
    JobApi,
    JobMode,
    PodRole,
    RestartScope,
    SuccessPolicy,
)

CONTAINER = {"name": "paddle", "image": "registry.example/paddle:3"}


def template(**spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [dict(CONTAINER)], **spec}}


def job(name: str = "wide", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": name, "namespace": "team", "uid": "u-1", "generation": 3, "resourceVersion": "77"},
        "spec": spec or {"worker": {"replicas": 2, "template": template()}},
    }


def kubeflow_job(**spec: Any) -> dict[str, Any]:
    roles = {"Worker": {"replicas": 2, "template": template()}}
    return {**job(), "apiVersion": "kubeflow.org/v1", "spec": {"paddleReplicaSpecs": roles, **spec}}


def codes(body: Any) -> list[tuple[str, str | None]]:
    return [(problem.code, problem.where) for problem in reading.read(body).problems]


def warned(body: Any) -> list[tuple[str, str | None]]:
    found = reading.read(body)
    assert found.problems == ()
    return [(problem.code, problem.where) for problem in found.warnings]


# ---- what is read


def test_a_job_with_everything() -> None:
    body = job(
        cleanPodPolicy="OnFailure",
        intranet="Service",
        withGloo=1,
        ps={"replicas": 2, "template": template()},
        worker={"replicas": 3, "requests": 1, "limits": 5, "template": template(schedulingGates=[{"name": "g"}])},
        schedulingPolicy={
            "minAvailable": 4,
            "queue": "q",
            "priorityClass": "high",
            "minResources": {"cpu": 4, "memory": "8Gi"},
        },
        runPolicy={
            "suspend": True,
            "backoffLimit": 7,
            "restartScope": "Role",
            "ttlSecondsAfterFinished": 60,
            "activeDeadlineSeconds": 3600,
            "successPolicy": "AllRoles",
            "managedBy": "kueue.x-k8s.io/multikueue",
        },
    )
    body["metadata"] |= {
        "creationTimestamp": "2026-01-31T12:00:00Z",
        "deletionTimestamp": "2026-01-31T13:00:00Z",
        "labels": {"b": "2", "a": "1"},
        "finalizers": ["finalizers.paddlepaddle.org"],
    }
    found = reading.read(body)
    assert found.problems == ()
    assert found.warnings == ()
    made = found.job
    assert (made.name, made.namespace, made.uid, made.generation, made.resource_version) == (
        "wide",
        "team",
        "u-1",
        3,
        "77",
    )
    assert made.created_s == 1769860800
    assert made.is_deleting
    assert made.labels == (("a", "1"), ("b", "2"))
    assert made.finalizers == ("finalizers.paddlepaddle.org",)
    spec = made.spec
    assert (spec.clean_pods, spec.intranet, spec.with_gloo, spec.mode) == (
        CleanPods.ON_FAILURE,
        Intranet.SERVICE,
        1,
        JobMode.PS,
    )
    assert [(role.role, role.replicas, role.least, role.most) for role in spec.roles] == [
        (PodRole.PS, 2, None, None),
        (PodRole.WORKER, 3, 1, 5),
    ]
    assert spec.roles[1].template["spec"]["schedulingGates"] == [{"name": "g"}]
    assert spec.gang is not None
    assert spec.gang.min_resources == (("cpu", "4"), ("memory", "8Gi"))
    policy = spec.run_policy
    assert (policy.suspend, policy.backoff_limit, policy.restart_scope) == (True, 7, RestartScope.ROLE)
    assert (policy.ttl_s, policy.active_deadline_s, policy.success) == (60, 3600, SuccessPolicy.ALL_ROLES)
    assert policy.managed_by == "kueue.x-k8s.io/multikueue"


def test_a_plain_job_has_defaults() -> None:
    spec = reading.read(job()).job.spec
    assert (spec.intranet, spec.with_gloo, spec.clean_pods, spec.is_elastic) == (Intranet.POD_IP, 0, None, False)
    assert (spec.run_policy.backoff_limit, spec.run_policy.restart_scope) == (3, RestartScope.JOB)
    assert spec.mode is JobMode.COLLECTIVE


@pytest.mark.parametrize(
    ("spec", "scope"),
    [
        ({"worker": {"replicas": 1, "template": template()}}, RestartScope.JOB),
        ({"worker": {"replicas": 2, "template": template()}, "elastic": 0}, RestartScope.POD),
        (
            {"worker": {"replicas": 2, "template": template()}, "ps": {"replicas": 1, "template": template()}},
            RestartScope.POD,
        ),
    ],
)
def test_the_default_scope_of_restarts_depends_on_the_job(spec: dict[str, Any], scope: RestartScope) -> None:
    assert reading.read(job(**spec)).job.spec.run_policy.restart_scope is scope


def test_any_number_makes_a_job_elastic() -> None:
    for number in (0, 1):
        made = reading.read(job(worker={"replicas": 2, "template": template()}, elastic=number)).job.spec
        assert made.is_elastic
        assert made.roles[0].least == 1
    assert not reading.read(job(worker={"replicas": 2, "template": template()}, elastic=None)).job.spec.is_elastic


def test_empty_words_say_nothing() -> None:
    found = reading.read(job(worker={"replicas": 2, "template": template()}, cleanPodPolicy="", intranet=""))
    assert found.problems == found.warnings == ()
    assert found.job.spec.clean_pods is None


# ---- warnings


def test_words_and_fields_of_old_documents_are_warnings() -> None:
    roles = {"worker": {"replicas": 1, "template": template()}}
    assert warned(job(**roles, cleanPodPolicy="OnFailed")) == [("UM-PDJ-009", "spec.cleanPodPolicy")]
    assert warned(job(**roles, intranet="podip")) == [("UM-PDJ-009", "spec.intranet")]
    assert warned(job(**roles, cleanPolicy="Never")) == [("UM-PDJ-010", "spec.cleanPolicy")]
    assert warned(job(**roles, withGloo=1)) == [("UM-PDJ-011", "spec.withGloo")]
    assert warned(job(**roles, sampleSetRef={"name": "x", "mountPath": "/x"})) == [("UM-PDJ-011", "spec.sampleSetRef")]
    assert "`cleanPodPolicy`" in str(reading.read(job(**roles, cleanPolicy="Never")).warnings[0].hint)
    assert "OnFailure" in str(reading.read(job(**roles, cleanPodPolicy="OnFailed")).warnings[0].hint)


# ---- problems

WORKER = {"replicas": 2, "template": template()}
BAD = [
    (job(worker={"template": template()}), ("UM-PDJ-002", "spec.worker.replicas")),
    (job(worker={**WORKER, "replicas": "two"}), ("UM-PDJ-001", "spec.worker.replicas")),
    (job(worker={**WORKER, "replicas": True}), ("UM-PDJ-001", "spec.worker.replicas")),
    (job(worker={**WORKER, "replicas": -3}), ("UM-PDJ-003", "spec.worker.replicas")),
    (job(worker={**WORKER, "replicas": 10**9}), ("UM-PDJ-003", "spec.worker.replicas")),
    (job(worker=WORKER, withGloo=3), ("UM-PDJ-003", "spec.withGloo")),
    (job(worker={**WORKER, "requests": 3, "limits": 2}), ("UM-PDJ-007", "spec.worker.requests")),
    (job(worker={**WORKER, "limits": 1}, elastic=1), ("UM-PDJ-007", "spec.worker.replicas")),
    (job(worker={"replicas": 2}), ("UM-PDJ-005", "spec.worker.template.spec.containers")),
    (
        job(worker={"replicas": 2, "template": {"spec": {"containers": []}}}),
        ("UM-PDJ-005", "spec.worker.template.spec.containers"),
    ),
    (job(worker={"replicas": 2, "template": {"spec": "x"}}), ("UM-PDJ-001", "spec.worker.template.spec")),
    (
        job(worker={"replicas": 2, "template": template(containers=[{"name": "a"}])}),
        ("UM-PDJ-005", "spec.worker.template.spec.containers[0].image"),
    ),
    (
        job(worker={"replicas": 2, "template": template(containers=[CONTAINER, CONTAINER])}),
        ("UM-PDJ-005", "spec.worker.template.spec.containers[1].name"),
    ),
    (
        job(
            worker={
                "replicas": 2,
                "template": template(
                    containers=[
                        {
                            **CONTAINER,
                            "ports": [{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 80}],
                        }
                    ]
                ),
            }
        ),
        ("UM-PDJ-008", "spec.worker.template.spec.containers[0].ports[1]"),
    ),
    (
        job(
            worker={
                "replicas": 2,
                "template": template(
                    containers=[
                        {**CONTAINER, "ports": [{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}]}
                    ]
                ),
            }
        ),
        ("UM-PDJ-008", "spec.worker.template.spec.containers[0].ports[1]"),
    ),
    (
        job(worker={"replicas": 2, "template": template(restartPolicy="Sometimes")}),
        ("UM-PDJ-009", "spec.worker.template.spec.restartPolicy"),
    ),
    *(
        (
            job(worker={"replicas": 2, "template": template(containers=[CONTAINER], **{name: wrong})}),
            ("UM-PDJ-001", f"spec.worker.template.spec.{name}{inside}"),
        )
        for name, wrong, inside in (
            ("schedulerName", ["volcano"], ""),
            ("nodeSelector", "gpu", ""),
            ("overhead", [1], ""),
            ("tolerations", {"key": "gpu"}, ""),
            ("initContainers", [{**CONTAINER, "resources": "4Gi"}], "[0].resources"),
            ("initContainers", [{**CONTAINER, "env": [{"name": ["a"]}]}], "[0].env[0].name"),
        )
    ),
    (job(withGloo=0), ("UM-PDJ-006", "spec")),
    (job(elastic=1), ("UM-PDJ-006", "spec")),
    (job(elastic=1, ps=WORKER), ("UM-PDJ-006", "spec.worker")),
    (job(ps=WORKER), ("UM-PDJ-006", "spec.worker")),
    (job(worker=WORKER, ps=WORKER, elastic=1), ("UM-PDJ-006", "spec.elastic")),
    (job(worker={**WORKER, "replicas": 0}), ("UM-PDJ-006", "spec")),
    (job(worker=WORKER, runPolicy={"restartScope": "Everything"}), ("UM-PDJ-009", "spec.runPolicy.restartScope")),
    (job(worker=WORKER, runPolicy={"backoffLimit": -1}), ("UM-PDJ-003", "spec.runPolicy.backoffLimit")),
    (
        job(worker=WORKER, schedulingPolicy={"minResources": {"cpu": []}}),
        ("UM-PDJ-001", "spec.schedulingPolicy.minResources.cpu"),
    ),
    (job("a" * 55, worker=WORKER), ("UM-PDJ-004", "metadata.name")),
    (job("a.b", worker=WORKER), ("UM-PDJ-004", "metadata.name")),
    (job("2nd", worker=WORKER, intranet="Service"), ("UM-PDJ-004", "metadata.name")),
    ({**job(), "apiVersion": "batch.paddlepaddle.org/v2"}, ("UM-PDJ-001", "apiVersion")),
    ({**job(), "kind": "Job"}, ("UM-PDJ-001", "kind")),
    ({**job(), "spec": None}, ("UM-PDJ-002", "spec")),
    ({**job(), "metadata": {}}, ("UM-PDJ-002", "metadata.name")),
]


@pytest.mark.parametrize(("body", "problem"), BAD, ids=lambda each: each[1] if isinstance(each, tuple) else "")
def test_what_is_wrong_is_told_with_its_path(body: dict[str, Any], problem: tuple[str, str]) -> None:
    assert codes(body) == [problem]


def test_all_problems_are_told_at_once() -> None:
    body = job("x." * 40, worker={"replicas": -1, "template": {}}, withGloo="on", runPolicy={"suspend": "yes"})
    assert {code for code, _ in codes(body)} >= {"UM-PDJ-001", "UM-PDJ-003", "UM-PDJ-004", "UM-PDJ-005"}
    text = checks.message(reading.read(body).problems)
    assert "spec.worker.replicas: must be 0 or more: -1 [UM-PDJ-003]" in text
    assert "\n" not in text


@pytest.mark.parametrize("role", list(PodRole))
@pytest.mark.parametrize("replicas", [1, 10, 11, 100, 101, 1000])
def test_the_longest_host_name_just_fits(role: PodRole, replicas: int) -> None:
    last = pod_name("", role, replicas - 1)
    spec = {
        "worker": {"replicas": 1, "template": template()},
        role.value: {"replicas": replicas, "template": template()},
    }
    if role is PodRole.PS:
        last = max(last, pod_name("", PodRole.WORKER, 0), key=len)
    longest = max(last, pod_name("", PodRole.WORKER, 0), key=len)
    assert codes(job("a" * (63 - len(longest)), **spec)) == []
    assert codes(job("a" * (64 - len(longest)), **spec)) == [("UM-PDJ-004", "metadata.name")]


def test_a_port_that_two_containers_name_is_a_warning() -> None:
    containers = [{"name": name, "image": "x", "ports": [{"containerPort": 80}]} for name in "ab"]
    found = warned(job(worker={"replicas": 1, "template": template(containers=containers)}))
    assert found == [("UM-PDJ-008", "spec.worker.template.spec.containers[1].ports[0]")]


# ---- Kubeflow


def test_a_kubeflow_job_becomes_the_same_values() -> None:
    body = kubeflow_job(
        paddleReplicaSpecs={
            "Master": {"template": template(restartPolicy="Always"), "restartPolicy": "ExitCode"},
            "Worker": {"replicas": 2, "template": template()},
        },
        runPolicy={
            "cleanPodPolicy": "Running",
            "backoffLimit": 5,
            "ttlSecondsAfterFinished": 9,
            "suspend": True,
            "schedulingPolicy": {"minAvailable": 3, "queue": "q"},
        },
    )
    found = reading.read(body)
    assert found.problems == found.warnings == ()
    assert found.job.api is JobApi.KUBEFLOW
    spec = found.job.spec
    assert spec.mode is JobMode.PS
    assert [(role.role, role.replicas, role.restarts_by_exit_code) for role in spec.roles] == [
        (PodRole.PS, 1, True),
        (PodRole.WORKER, 2, False),
    ]
    assert [role.template["spec"]["restartPolicy"] for role in spec.roles] == ["Never", "OnFailure"]
    assert (spec.clean_pods, spec.run_policy.suspend, spec.run_policy.ttl_s) == (CleanPods.RUNNING, True, 9)
    assert spec.gang is not None
    assert (spec.gang.min_available, spec.gang.queue) == (3, "q")


def test_kubeflow_keeps_pods_by_default() -> None:
    assert reading.read(kubeflow_job()).job.spec.clean_pods is CleanPods.NEVER
    assert reading.read(kubeflow_job(runPolicy={"cleanPodPolicy": "Some"})).job.spec.clean_pods is CleanPods.NEVER


@pytest.mark.parametrize(
    ("fields", "is_warned"),
    [
        ({}, True),
        ({"intranet": "PodIP"}, True),
        ({"worker": {"replicas": 1, "template": template(hostNetwork=True)}}, False),
        ({"intranet": "Host"}, False),
        ({"intranet": "Service"}, False),  # each lists its port, so that the scheduler keeps them apart
        ({"elastic": 1}, False),
    ],
)
def test_pods_that_may_share_an_address_and_a_port(fields: dict[str, Any], is_warned: bool) -> None:
    body = job(**{"worker": {"replicas": 2, "template": template(hostNetwork=True)}, **fields})
    found = [(each.code, each.where) for each in reading.read(body).warnings]
    assert found == ([("UM-PDJ-073", "spec.worker.template.spec.hostNetwork")] if is_warned else [])


STOCK = ["python", "-m", "paddle.distributed.launch", "train.py"]


@pytest.mark.parametrize(
    ("command", "spec", "codes"),
    [
        (["python", "train.py"], {"elastic": 1}, ["UM-PDJ-071"]),
        (["/usr/bin/python3.11", "-u", "train.py"], {"elastic": 1}, ["UM-PDJ-071"]),
        (["python", "train.py"], {}, []),
        (["umiak", "launch", "train.py"], {"elastic": 1}, []),
        (["python", "-m", "umiak", "launch", "train.py"], {"elastic": 1}, []),
        (["sh", "-c", "python train.py"], {"elastic": 1}, []),
        (None, {"elastic": 1}, []),
        (STOCK, {"elastic": 1}, []),
        (STOCK, {"intranet": "Service"}, ["UM-PDJ-072"]),
        (STOCK, {}, []),
        (STOCK, {"intranet": "Service", "elastic": 1}, []),
        (STOCK, {"ps": 1}, []),
        (STOCK, {"ps": 1, "intranet": "Service"}, ["UM-PDJ-072"] * 2),
        (["fleetrun", "train.py"], {"ps": 1, "intranet": "Service"}, ["UM-PDJ-072"] * 2),
    ],
)
def test_a_launcher_that_does_not_go_with_the_job(command: Any, spec: dict[str, Any], codes: list[str]) -> None:
    container = {"name": "paddle", "image": "demo", **({"command": command} if command else {})}
    role = {"replicas": 2, "template": {"spec": {"containers": [container]}}}
    fields = {name: role if name == "ps" else text for name, text in spec.items()}
    body = {"apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob", "metadata": {"name": "wide"}}
    found = reading.read({**body, "spec": {**fields, "worker": role}})
    assert [each.code for each in found.warnings] == codes
    assert not found.problems


@pytest.mark.parametrize(
    ("command", "roles", "codes"),
    [
        (["python", "train.py"], {"Worker": 2}, ["UM-PDJ-071"]),
        (["python", "train.py"], {"Worker": 1}, []),
        (STOCK, {"Worker": 2}, []),
        (STOCK, {"Worker": 1, "Master": 1}, ["UM-PDJ-072"] * 2),
    ],
)
def test_a_launcher_that_does_not_go_with_kubeflows_job(
    command: list[str], roles: dict[str, int], codes: list[str]
) -> None:
    template = {"spec": {"containers": [{"name": "paddle", "image": "demo", "command": command}]}}
    specs = {name: {"replicas": count, "template": template} for name, count in roles.items()}
    body = {"apiVersion": "kubeflow.org/v1", "kind": "PaddleJob", "metadata": {"name": "kf"}}
    assert [each.code for each in reading.read({**body, "spec": {"paddleReplicaSpecs": specs}}).warnings] == codes


def test_problems_of_kubeflow_jobs_name_its_fields() -> None:
    roles = {"Master": {"template": {"spec": {}}}}
    assert codes(kubeflow_job(paddleReplicaSpecs=roles)) == [
        ("UM-PDJ-006", "spec.paddleReplicaSpecs.Worker"),
        ("UM-PDJ-005", "spec.paddleReplicaSpecs.Master.template.spec.containers"),
    ]
    assert warned(kubeflow_job(elasticPolicy={"minReplicas": 1})) == [("UM-PDJ-011", "spec.elasticPolicy")]


# ---- laws

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NAMES = sorted(
    {field.name for table in (FIELDS, KUBEFLOW_FIELDS) for each in table for field in (each, *each.fields)}
    | {"containers", "spec", "metadata", "ports", "env", "name", "image", "labels", "hostPort", "restartPolicy"}
)
WORDS = st.sampled_from(["OnFailed", "Always", "Service", "Host", "ExitCode", "", "Role", "None"])
NEAR = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 200) | WORDS | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=25,
)


@given(JSON)
def test_no_json_is_too_strange(body: Any) -> None:
    found = reading.read(body)
    assert found.problems


@given(spec=NEAR, status=NEAR | JSON, metadata=NEAR, api=st.sampled_from([each.value for each in JobApi]))
@effort(3)
def test_nothing_like_a_job_is_too_strange(spec: Any, status: Any, metadata: Any, api: str) -> None:
    body = {"apiVersion": api, "kind": "PaddleJob", "metadata": {"name": "a"}, "spec": spec, "status": status}
    before = copy.deepcopy(body)
    found = reading.read(body)
    assert body == before
    assert all(0 <= role.replicas <= MOST_REPLICAS for role in found.job.spec.roles)
    assert all(problem.code.startswith("UM-PDJ-") and problem.where for problem in (*found.problems, *found.warnings))
    reading.read({**body, "metadata": metadata})


@given(spec=NEAR)
def test_defaults_change_nothing_the_second_time(spec: Any) -> None:
    once = reading.with_defaults(reading.spec_of(spec, FieldNotes()))
    assert reading.with_defaults(once) == once


@given(spec=NEAR)
def test_problems_are_the_same_each_time(spec: Any) -> None:
    body = job(**spec) if isinstance(spec, dict) else {**job(), "spec": spec}
    assert reading.read(body) == reading.read(json.loads(json.dumps(body)))


def test_a_deep_template_is_shown_in_a_line() -> None:
    deep: Any = "x"
    for _ in range(2000):
        deep = [deep]
    found = reading.read(job(worker=deep))
    assert [problem.code for problem in found.problems][:1] == ["UM-PDJ-001"]
    assert replace(found.job, name="b").name == "b"
