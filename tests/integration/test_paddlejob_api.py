"""PaddleJob's definitions, samples and the operator's manifests at a real API server: accepted, refused where they must be, useful."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
from typing import Any

import pytest
import yaml

from tests.support import PATIENCE_S
from tests.support.paths import ROOT
from tests.unit.paddlejob.test_paddlejob_crd import DOCUMENTED, SAMPLES
from tests.unit.paddlejob.test_paddlejob_reading import BAD, job, kubeflow_job, template
from umiak.cli.deploy import objects
from umiak.core.value import replace
from umiak.paddlejob import crd, reading
from umiak.paddlejob.report import report_of, settled, status_of
from umiak.paddlejob.resource import Condition, JobPhase, JobReport, PodRole, RoleCounts

pytestmark = pytest.mark.kubernetes

WORKER = {"replicas": 2, "template": template()}


@pytest.fixture(scope="module")
def plane(control_plane):
    """With the definitions, as `kubectl apply` puts them there."""
    for name in ("crd.yaml", "crd-kubeflow.yaml"):
        control_plane.kubectl("apply", "-f", ROOT / "deploy" / name)
    for name in (crd.NAME, crd.KUBEFLOW_NAME):
        control_plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", f"crd/{name}")
    return control_plane


def create(plane, namespace: str, body: dict[str, Any], *flags: str):
    body = {**body, "metadata": {**body["metadata"], "namespace": namespace}}
    for key in ("uid", "resourceVersion", "generation"):
        body["metadata"].pop(key, None)
    text = json.dumps(body)
    return plane.kubectl("create", "--namespace", namespace, "-f", "-", *flags, input=text, check=False)


def test_definitions_are_structural_and_say_nothing_wrong(plane):
    """Warnings of an API server, such as fields that it drops, would be conditions or differences."""
    for name, made in ((crd.NAME, crd.resource()), (crd.KUBEFLOW_NAME, crd.kubeflow_resource())):
        found = plane.get("crd", name)
        conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
        assert conditions["Established"] == "True"
        assert conditions.get("NonStructuralSchema", "False") == "False"
        assert found["spec"]["versions"] == made["spec"]["versions"]
    again = plane.kubectl("apply", "-f", ROOT / "deploy" / "crd.yaml")
    assert "unchanged" in again.stdout


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_samples_are_accepted_without_a_warning(plane, kube_namespace, path):
    done = plane.kubectl("create", "--namespace", kube_namespace, "--validate=strict", "-f", path)
    assert done.stderr == ""
    body = yaml.safe_load(path.read_text())
    kind = f"paddlejobs.{body['apiVersion'].split('/')[0]}"
    stored = plane.get(kind, body["metadata"]["name"], namespace=kube_namespace)
    assert stored["spec"] == body["spec"]
    assert reading.read(stored).problems == ()


def test_the_manifests_of_the_documentation_are_accepted(plane, kube_namespace):
    done = plane.kubectl("create", "--namespace", kube_namespace, "--validate=strict", "-f", "-", input=DOCUMENTED)
    assert done.stderr == ""
    shown = plane.kubectl("get", "pdj", "--namespace", kube_namespace).stdout
    assert shown.split("\n")[0].split() == ["NAME", "STATUS", "MODE", "AGE"]


def test_fields_of_pods_that_nobody_knows_are_kept(plane, kube_namespace):
    body = job("future", worker={"replicas": 1, "template": template(fieldOfTomorrow={"a": [1]})})
    assert create(plane, kube_namespace, body).returncode == 0
    stored = plane.get("pdj", "future", namespace=kube_namespace)
    assert stored["spec"]["worker"]["template"]["spec"]["fieldOfTomorrow"] == {"a": [1]}


def test_misspelt_fields_are_told_when_they_are_written(plane, kube_namespace, tmp_path):
    """By kubectl, and to clients that ask for no validation; nothing that the old operator took is refused."""
    said = {"warnings": True, "watchNamespaces": [kube_namespace]}
    made = objects.objects(objects.DeployOptions(namespace=kube_namespace, values=said, has_crd=False))
    plane.apply(*[each for each in made if each["kind"].startswith("ValidatingAdmissionPolicy")])
    body = job("slips", worker={"replicas": 1, "template": template(hostNetwrk=True)}, cleanPolicy="Never")
    container = body["spec"]["worker"]["template"]["spec"]["containers"][0]
    container |= {"imagePullPolcy": "Always", "resources": {"limit": {}}, "env": [{"name": "A", "valu": "1"}]}
    named = ["hostNetwrk", "imagePullPolcy", "resources.limit", "env[].valu", "cleanPodPolicy"]

    def told() -> str:
        """What a dry run says: a policy counts a moment after it was written."""
        done = create(plane, kube_namespace, body, "--dry-run=server")
        assert done.returncode == 0, done.stderr
        return done.stderr if all(name in done.stderr for name in named) else ""

    plane.until(told, "kubectl create tells every slip")
    assert create(plane, kube_namespace, body, "--validate=false").returncode == 0
    path = f"/apis/batch.paddlepaddle.org/v1/namespaces/{kube_namespace}/paddlejobs"
    body["metadata"] = {"name": "direct"}
    body["spec"]["repliccas"] = 2
    warnings = warnings_of(plane, path, body)
    assert [name for name in [*named, "spec.repliccas"] if name not in warnings] == []
    plain = job("plain", worker=WORKER)
    plain["metadata"] = {"name": "plain"}
    assert warnings_of(plane, path, plain) == ""
    other = kubeflow_job()
    other["metadata"] = {"name": "other"}
    other["spec"]["paddleReplicaSpecs"]["Worker"]["template"]["spec"]["contaners"] = []
    path = f"/apis/kubeflow.org/v1/namespaces/{kube_namespace}/paddlejobs"
    assert "Worker.template.spec.contaners" in warnings_of(plane, path, other)


def warnings_of(plane, path: str, body: dict[str, Any]) -> str:
    """The Warning headers of a POST that says nothing about the validation of fields."""
    context = ssl.create_default_context(cafile=str(plane.ca))
    connection = http.client.HTTPSConnection("127.0.0.1", plane.port, timeout=PATIENCE_S, context=context)
    headers = {"Authorization": f"Bearer {plane.admin_token}", "Content-Type": "application/json"}
    with contextlib.closing(connection):
        connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 201
        return " ".join(answer.headers.get_all("Warning") or [])


REFUSED = [
    (job(worker={**WORKER, "replicas": -3}), "replicas must not be negative"),
    (job(worker={**WORKER, "requests": 3, "limits": 2}), "must not be more than limits"),
    (job(withGloo=0), "no role"),
    (job(elastic=1, ps=WORKER), "an elastic job needs worker"),
    (job(ps=WORKER), "a job with ps needs worker"),
    (job("a.b", worker=WORKER), "must not have a dot"),
    (job("a" * 55, worker=WORKER), "the name is too long"),
    (job("a" * 53, worker={**WORKER, "replicas": 101}), "the name is too long"),
    (job(worker=WORKER, runPolicy={"restartScope": "Everything"}), "Unsupported value"),
    (job(worker=WORKER, runPolicy={"backoffLimit": -1}), "should be greater than or equal to 0"),
    (job(worker={"template": template()}), "Required value"),
    (kubeflow_job(paddleReplicaSpecs={}), "no role"),
    (
        kubeflow_job(paddleReplicaSpecs={"Worker": {"replicas": -1, "template": template()}}),
        "replicas must not be negative",
    ),
]


@pytest.mark.parametrize(("body", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_what_can_never_run_is_refused(plane, kube_namespace, body, reason):
    done = create(plane, kube_namespace, body)
    assert done.returncode != 0
    assert reason in done.stderr
    assert reading.read(body).problems


def test_the_longest_name_is_accepted(plane, kube_namespace):
    assert create(plane, kube_namespace, job("a" * 54, worker=WORKER)).returncode == 0
    assert create(plane, kube_namespace, job("b" * 52, worker={**WORKER, "replicas": 101})).returncode == 0


def test_whatever_is_accepted_has_right_types(plane, kube_namespace):
    """What is wrong in the eyes of the reader is refused, or is of those things that only the reader sees."""
    only_here = {"UM-PDJ-003", "UM-PDJ-004", "UM-PDJ-005", "UM-PDJ-006", "UM-PDJ-007", "UM-PDJ-008", "UM-PDJ-009"}
    for number, (body, (code, where)) in enumerate(BAD):
        if "name" in str(where) or where in ("apiVersion", "kind"):
            continue
        renamed = {**body, "metadata": {**body["metadata"], "name": f"bad-{number}"}}
        if create(plane, kube_namespace, renamed).returncode == 0:
            stored = plane.get("pdj", f"bad-{number}", namespace=kube_namespace)
            assert reading.read(stored).problems, stored
            assert code in only_here or ".template" in where, (code, where)


def test_scale_changes_the_workers(plane, kube_namespace):
    create(plane, kube_namespace, job("elastic", worker={**WORKER, "requests": 1, "limits": 4}, elastic=1))
    plane.kubectl("scale", "pdj", "elastic", "--replicas", "3", "--namespace", kube_namespace)
    stored = plane.get("pdj", "elastic", namespace=kube_namespace)
    assert stored["spec"]["worker"]["replicas"] == 3
    assert stored["metadata"]["generation"] == 2
    kubeflow = kubeflow_job()
    create(plane, kube_namespace, kubeflow)
    plane.kubectl("scale", crd.KUBEFLOW_NAME, "wide", "--replicas", "5", "--namespace", kube_namespace)
    stored = plane.get(crd.KUBEFLOW_NAME, "wide", namespace=kube_namespace)
    assert stored["spec"]["paddleReplicaSpecs"]["Worker"]["replicas"] == 5


def test_the_manager_of_a_job_can_not_be_changed(plane, kube_namespace):
    create(plane, kube_namespace, job("managed", worker=WORKER, runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}))
    patch = json.dumps({"spec": {"runPolicy": {"managedBy": "me"}}})
    words = ["patch", "pdj", "managed", "--namespace", kube_namespace, "--type=merge", "-p"]
    assert "managedBy can't be changed" in plane.kubectl(*words, patch, check=False).stderr
    plane.kubectl(*words, json.dumps({"spec": {"runPolicy": {"suspend": True}}}))


REPORT = JobReport(
    phase=JobPhase.RUNNING,
    counts=(
        RoleCounts(role=PodRole.PS, wanted=1, running=1),
        RoleCounts(role=PodRole.WORKER, wanted=2, running=1, pending=1, refs=(("wide-worker-0", "u"),)),
    ),
    conditions=(
        Condition(type="Ready", is_true=False, reason="Waiting", message="1 worker is pending", since_s=1.7e9),
    ),
    observed_generation=1,
    attempt=1,
    restarts=2,
    pod_restarts=(("wide-worker-0", 1),),
    port=36000,
    node_ports=(("wide-worker-0", 36000),),
    start_s=1.7e9,
    completion_s=1.8e9,
    progress=(("percent", "40"), ("loss", "0.7")),
    last_logs=(("wide-worker-1", "Traceback\nKeyError: 'x'\n"),),
    selector="paddle-res-type=worker",
)


@pytest.mark.parametrize("body", [job(worker=WORKER), kubeflow_job()], ids=["batch", "kubeflow"])
def test_a_status_is_kept_whole(plane, kube_namespace, body):
    """Nothing of the operator's memory is dropped by the schema."""
    create(plane, kube_namespace, body)
    group, version = body["apiVersion"].split("/")
    path = f"/apis/{group}/{version}/namespaces/{kube_namespace}/paddlejobs/wide"
    found = reading.read(plane.request("GET", path)).job
    plane.request("PATCH", f"{path}/status", {"status": status_of(REPORT, found)})
    stored = plane.request("GET", path)
    assert stored["status"] == status_of(REPORT, found)
    assert reading.read(stored).job.report == settled(REPORT)
    assert report_of(stored["status"], found.api) == settled(REPORT)
    assert stored["metadata"]["generation"] == 1
    scale = plane.request("GET", f"{path}/scale")
    assert scale["spec"]["replicas"] == 2
    assert scale["status"] == {"replicas": 2, "selector": "paddle-res-type=worker"}


def test_wide_columns_say_what_it_waits_for(plane, kube_namespace):
    create(plane, kube_namespace, job(worker=WORKER))
    found = reading.read(plane.get("pdj", "wide", namespace=kube_namespace)).job
    path = f"/apis/batch.paddlepaddle.org/v1/namespaces/{kube_namespace}/paddlejobs/wide/status"
    plane.request("PATCH", path, {"status": status_of(replace(REPORT, mode=found.spec.mode), found)})
    head, row = plane.kubectl("get", "pdj", "-o", "wide", "--namespace", kube_namespace).stdout.strip().split("\n")
    assert head.split() == ["NAME", "STATUS", "MODE", "AGE", "WORKERS", "RESTARTS", "PROGRESS", "MESSAGE"]
    words = row.split()
    assert words[:3] == ["wide", "Running", "Collective"]
    assert words[4:] == ["1/2", "2", "40", "1", "worker", "is", "pending"]


def test_explain_has_the_table_of_fields(plane):
    text = plane.kubectl("explain", "pdj.spec.runPolicy").stdout
    assert "restartScope" in text
    assert "What is restarted when a pod fails" in text


# ---- the operator's objects


@pytest.mark.parametrize(
    "options",
    [
        objects.DeployOptions(),
        objects.DeployOptions(
            values={
                "kubeflow": True,
                "scheduling": "volcano",
                "replicas": 2,
                "imagePullSecrets": [{"name": "s"}],
                "nodeSelector": {"pool": "system"},
                "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
                "extraLabels": {"example.com/team": "ml"},
            }
        ),
    ],
    ids=["plain", "everything"],
)
def test_the_operators_objects_are_accepted(plane, options):
    made = objects.objects(options)
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": made})
    plane.kubectl("apply", "-f", "-", input=json.dumps(next(each for each in made if each["kind"] == "Namespace")))
    done = plane.kubectl("apply", "--validate=strict", "--dry-run=server", "-f", "-", input=text)
    assert done.stderr == ""
    assert len(done.stdout.strip().split("\n")) == len(made)


def test_the_operators_pod_is_restricted_enough(plane):
    """The strictest profile of pod security takes it."""
    name = plane.namespace("restricted")
    plane.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
    made = objects.deployment(objects.DeployOptions())["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "operator", "namespace": name}, "spec": made["spec"]}
    pod["spec"] = {**pod["spec"], "serviceAccountName": "default"}
    plane.kubectl("create", "--dry-run=server", "-f", "-", input=json.dumps(pod))


MAY = [
    ("list", "paddlejobs.batch.paddlepaddle.org", True),
    ("patch", "paddlejobs.batch.paddlepaddle.org/status", True),
    ("create", "pods", True),
    ("delete", "pods", True),
    ("get", "pods/log", True),
    ("update", "configmaps", True),
    ("list", "nodes", True),
    ("create", "pods/exec", False),
    ("get", "secrets", False),
    ("create", "paddlejobs.batch.paddlepaddle.org", False),
    ("delete", "nodes", False),
    ("list", "paddlejobs.kubeflow.org", False),
]


def test_the_account_may_what_it_must_and_no_more(plane, kube_namespace):
    for each in objects.objects(objects.DeployOptions(has_crd=False)):
        if each["kind"] != "Deployment":
            plane.kubectl("apply", "-f", "-", input=json.dumps(each))
    account = plane.account_kubeconfig(objects.NAMESPACE, objects.ACCOUNT)

    def may(verb: str, what: str, *flags: str) -> bool:
        kind, _, part = what.partition("/")  # for kubectl, what follows a slash is a name
        words = ["auth", "can-i", verb, kind, f"--subresource={part}", *flags]
        return plane.kubectl(*words, kubeconfig=account, check=False).stdout.strip() == "yes"

    found = [(verb, what, may(verb, what, "--namespace", kube_namespace)) for verb, what, _ in MAY]
    assert found == MAY

    def may_write(lease: str, namespace: str) -> bool:
        words = ["auth", "can-i", "update", f"leases.coordination.k8s.io/{lease}", "--namespace", namespace]
        return plane.kubectl(*words, kubeconfig=account, check=False).stdout.strip() == "yes"

    assert may_write(objects.LEASE, objects.NAMESPACE)
    assert not may_write("other", objects.NAMESPACE)
    assert not may_write(objects.LEASE, kube_namespace)


def test_people_who_may_edit_a_namespace_may_edit_its_jobs(plane, kube_namespace):
    roles = [
        each
        for each in objects.rights(objects.DeployOptions())
        if each["metadata"]["name"] in (objects.EDITOR, objects.VIEWER)
    ]
    assert len(roles) == 2
    for each in roles:
        plane.kubectl("apply", "-f", "-", input=json.dumps(each))
    for role, may_create in (("edit", "yes"), ("view", "no")):
        plane.kubectl(
            "create",
            "rolebinding",
            f"ada-{role}",
            f"--clusterrole={role}",
            f"--user=ada-{role}",
            "--namespace",
            kube_namespace,
        )

        def ask(verb: str, part: str = "", user: str = f"ada-{role}") -> str:
            words = [
                "auth",
                "can-i",
                verb,
                crd.NAME,
                f"--subresource={part}",
                "--as",
                user,
                "--namespace",
                kube_namespace,
            ]
            return plane.kubectl(*words, check=False).stdout.strip()

        plane.until(lambda ask=ask: ask("get") == "yes", "the roles of people are aggregated", 60)
        assert ask("create") == may_create
        assert ask("patch", "scale") == may_create
