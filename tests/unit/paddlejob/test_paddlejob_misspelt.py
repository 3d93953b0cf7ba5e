"""Misspelt fields of PaddleJobs and their templates are told, with the right name; whatever is right is not."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.support.operator_cluster import OperatorCluster, manifest
from tests.unit.paddlejob.test_paddlejob_crd import SAMPLES, schema
from tests.unit.paddlejob.test_paddlejob_reading import job, kubeflow_job, warned
from umiak.paddlejob import crd, reading
from umiak.paddlejob.templates import admission
from umiak.paddlejob.templates.pod_fields import MOST, TEMPLATE, TYPES, unknown_in

CONTAINER = {"name": "paddle", "image": "demo:v1"}
PATH = "spec.worker.template"


def with_template(**spec: Any) -> dict[str, Any]:
    return {"worker": {"replicas": 1, "template": {"spec": {"containers": [CONTAINER], **spec}}}}


@pytest.mark.parametrize(
    ("spec", "path", "meant"),
    [
        ({"contaners": []}, "spec.contaners", "containers"),
        (
            {"containers": [{**CONTAINER, "imagePullPolcy": "Always"}]},
            "spec.containers[0].imagePullPolcy",
            "imagePullPolicy",
        ),
        ({"containers": [{**CONTAINER, "resorces": {}}]}, "spec.containers[0].resorces", "resources"),
        (
            {"containers": [{**CONTAINER, "resources": {"limit": {"cpu": 1}}}]},
            "spec.containers[0].resources.limit",
            "limits",
        ),
        (
            {"initContainers": [{**CONTAINER, "env": [{"name": "A", "valu": "1"}]}]},
            "spec.initContainers[0].env[0].valu",
            "value",
        ),
        (
            {
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerm": []}}
                }
            },
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerm",
            "nodeSelectorTerms",
        ),
        ({"fieldOfTomorrow": 1}, "spec.fieldOfTomorrow", ""),
    ],
)
def test_a_misspelt_field_of_a_template_is_told_with_its_right_name(
    spec: dict[str, Any], path: str, meant: str
) -> None:
    body = job(**with_template(**spec))
    assert warned(body) == [("UM-PDJ-031", f"{PATH}.{path}")]
    (found,) = reading.read(body).warnings
    assert found.hint == (f"did you mean `{meant}`?" if meant else None)


def test_names_that_people_choose_are_no_fields() -> None:
    labels = {"labels": {"any": "thing"}, "annotations": {"a/b": "c"}}
    spec = {
        "nodeSelector": {"disk": "ssd"},
        "containers": [{**CONTAINER, "resources": {"limits": {"nvidia.com/gpu": 1}}}],
        "volumes": [{"name": "v", "csi": {"driver": "d", "volumeAttributes": {"any": "thing"}}}],
    }
    assert unknown_in({"metadata": labels, "spec": spec}, PATH) == []
    for path in SAMPLES:
        body = yaml.safe_load(path.read_text())
        assert [each for each in reading.read(body).warnings if each.code == "UM-PDJ-031"] == []


def test_strange_templates_and_many_slips() -> None:
    many = {f"wrong{number}": 1 for number in range(100)}
    assert len(unknown_in({"spec": many}, PATH)) == MOST
    for strange in (None, 1, [1], {"spec": [1]}, {"spec": {"containers": {"a": 1}}}, {"metadata": "x"}):
        unknown_in(strange, PATH)


def test_the_table_is_whole() -> None:
    kinds = {kind for fields in TYPES.values() for kind in fields.values() if kind}
    assert kinds <= TYPES.keys()
    assert {TEMPLATE, "Container", "PodSpec"} <= TYPES.keys()
    assert "containers" in TYPES["PodSpec"]


def test_a_job_without_containers_says_which_field_was_meant() -> None:
    body = manifest(worker=1)
    spec = body["spec"]["worker"]["template"]["spec"]
    spec["contaners"] = spec.pop("containers")
    cluster = OperatorCluster(body)
    cluster.settle()
    said = {each.type: each.message for each in cluster.report.conditions}
    assert "did you mean it by `contaners`?" in said["Accepted"]
    assert "spec.worker.template.spec.contaners" in said["SpecWarnings"]
    assert [each.reason for each in cluster.events if "contaners" in each.message] != []


def test_the_slip_of_the_old_documents_is_kept_so_that_it_can_be_told() -> None:
    body = job(**with_template(), cleanPolicy="Never")
    assert warned(body) == [("UM-PDJ-010", "spec.cleanPolicy")]
    (found,) = reading.read(body).warnings
    assert found.hint == "did you mean `cleanPodPolicy`?"
    assert "cleanPolicy" in schema(crd.resource())["properties"]["spec"]["properties"]
    assert reading.read(body).job.spec.clean_pods is None


def test_kubeflow_templates_are_looked_at_too() -> None:
    body = kubeflow_job()
    body["spec"]["paddleReplicaSpecs"]["Worker"]["template"]["spec"]["hostNetwrk"] = True
    assert warned(body) == [("UM-PDJ-031", "spec.paddleReplicaSpecs.Worker.template.spec.hostNetwrk")]


def test_the_policy_warns_and_never_refuses() -> None:
    policy, binding = admission.objects()
    assert binding["spec"]["validationActions"] == ["Warn"]
    assert policy["spec"]["failurePolicy"] == "Ignore"
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
