"""Definitions of PaddleJob and sample manifests: what people have is accepted, and the schema is one that API servers take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given

from tests.support.paths import ROOT
from tests.unit.paddlejob.test_paddlejob_reading import NEAR, job
from umiak.paddlejob import crd, job_fields, kubeflow_fields, reading
from umiak.paddlejob.fields import FieldKind, described
from umiak.paddlejob.resource import JobMode, PodRole

SAMPLES = sorted((ROOT / "deploy" / "samples").glob("*.yaml"))

DOCUMENTED = """
apiVersion: batch.paddlepaddle.org/v1
kind: PaddleJob
metadata:
  name: wide-ande-deep
spec:
  withGloo: 1
  intranet: PodIP
  cleanPodPolicy: OnCompletion
  worker:
    replicas: 2
    template:
      spec:
        containers:
          - name: paddle
            image: registry.baidubce.com/paddle-operator/demo-wide-and-deep:v1
  ps:
    replicas: 2
    template:
      spec:
        containers:
          - name: paddle
            image: registry.baidubce.com/paddle-operator/demo-wide-and-deep:v1
---
apiVersion: batch.paddlepaddle.org/v1
kind: PaddleJob
metadata:
  name: resnet
spec:
  cleanPodPolicy: Never
  worker:
    replicas: 2
    template:
      spec:
        containers:
          - name: paddle
            image: registry.baidubce.com/paddle-operator/demo-resnet:v1
            command:
            - python
            args:
            - "-m"
            - "paddle.distributed.launch"
            - "train_fleet.py"
            volumeMounts:
            - mountPath: /dev/shm
              name: dshm
            resources:
              limits:
                nvidia.com/gpu: 1
        volumes:
        - name: dshm
          emptyDir:
            medium: Memory
"""
"""The two manifests of Paddle's documentation on Kubernetes, as they are written there."""


def schema(made: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def parts(made: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema in a schema."""
    yield path, made
    for name, each in made.get("properties", {}).items():
        yield from parts(each, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(made.get(key), dict):
            yield from parts(made[key], f"{path}[]")


# ---- manifests that people have


def test_the_manifests_of_the_documentation_are_read_without_a_word() -> None:
    wide, resnet = (reading.read(each) for each in yaml.safe_load_all(DOCUMENTED))
    for found in (wide, resnet):
        assert found.problems == found.warnings == ()
    assert (wide.job.spec.mode, resnet.job.spec.mode) == (JobMode.PS, JobMode.COLLECTIVE)
    assert wide.job.spec.with_gloo == 1
    worker = resnet.job.spec.role(PodRole.WORKER)
    assert worker is not None
    assert worker.template["spec"]["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": 1}}


@pytest.mark.parametrize("body", list(yaml.safe_load_all(DOCUMENTED)), ids=lambda body: body["metadata"]["name"])
def test_the_schema_takes_the_manifests_of_the_documentation(body: dict[str, Any]) -> None:
    jsonschema.validate(body, schema(crd.resource()))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_samples_are_read_without_problems(path: Path) -> None:
    body = yaml.safe_load(path.read_text(encoding="utf-8"))
    found = reading.read(body)
    assert found.problems == ()
    expected = [("UM-PDJ-009", "spec.cleanPodPolicy")] if path.stem == "deepfm" else []
    assert [(each.code, each.where) for each in found.warnings] == expected
    made = crd.kubeflow_resource() if body["apiVersion"].startswith("kubeflow") else crd.resource()
    jsonschema.validate(body, schema(made))


def test_there_are_samples_of_every_kind() -> None:
    names = {path.stem for path in SAMPLES}
    wide = {f"wide_and_deep{kind}" for kind in ("", "_podip", "_service", "_host", "_volcano")}
    assert names >= {"simple", "resnet", "resnet_elastic", "deepfm", *wide}


# ---- the schema


@pytest.mark.parametrize("made", [crd.resource(), crd.kubeflow_resource()], ids=["batch", "kubeflow"])
def test_old_fields_have_neither_words_nor_limits(made: dict[str, Any]) -> None:
    """No manifest that the old operator took is refused for a word or a number, except by a rule that says why."""
    tables = {"batch.paddlepaddle.org": job_fields.FIELDS, "kubeflow.org": kubeflow_fields.FIELDS}
    old = {path for path, field in described(tables[made["spec"]["group"]], "") if field.is_old}
    limits = {"enum", "minimum", "maximum", "pattern", "maxLength", "minLength"}
    found = {path: set(each) & limits for path, each in parts(schema(made)["properties"]["spec"])}
    assert {path: each for path, each in found.items() if each and path in old} == {}
    assert old <= set(found)


@pytest.mark.parametrize("made", [crd.resource(), crd.kubeflow_resource()], ids=["batch", "kubeflow"])
def test_schemas_are_structural(made: dict[str, Any]) -> None:
    """What API servers demand of definitions: a type everywhere, a description for `kubectl explain`, no fields beside preserved ones."""
    for path, each in parts(schema(made)):
        assert "type" in each or each.get("x-kubernetes-int-or-string"), path
        if path.count(".") >= 2 and "[]" not in path:
            assert each.get("description"), path
        if each.get("x-kubernetes-preserve-unknown-fields"):
            assert "properties" not in each


def test_templates_keep_what_we_do_not_know() -> None:
    spec = schema(crd.resource())["properties"]["spec"]["properties"]
    for role in PodRole:
        assert spec[role.value]["properties"]["template"]["x-kubernetes-preserve-unknown-fields"] is True
        assert spec[role.value]["required"] == ["replicas"]


def test_names_columns_and_subresources_are_those_of_the_old_operator_and_more() -> None:
    made = crd.resource()
    assert made["metadata"]["name"] == "paddlejobs.batch.paddlepaddle.org"
    assert made["spec"]["names"] == {
        "kind": "PaddleJob",
        "listKind": "PaddleJobList",
        "plural": "paddlejobs",
        "singular": "paddlejob",
        "shortNames": ["pdj"],
    }
    (version,) = made["spec"]["versions"]
    columns = [
        (each["name"], each["jsonPath"]) for each in version["additionalPrinterColumns"] if "priority" not in each
    ]
    assert columns == [("Status", ".status.phase"), ("Mode", ".status.mode"), ("Age", ".metadata.creationTimestamp")]
    assert version["subresources"]["scale"]["specReplicasPath"] == ".spec.worker.replicas"


def test_columns_and_subresources_point_at_fields() -> None:
    for made in (crd.resource(), crd.kubeflow_resource()):
        (version,) = made["spec"]["versions"]
        known = {path for path, _ in parts(schema(made))} | {".metadata.creationTimestamp", ".status.progress.percent"}
        known.add(".status.conditions[-1:].type")
        paths = [each["jsonPath"] for each in version["additionalPrinterColumns"]]
        paths += version["subresources"]["scale"].values()
        assert [path for path in paths if path not in known] == []


def test_old_clusters_get_the_same_without_what_they_do_not_know() -> None:
    made = crd.old_resource()
    assert made["apiVersion"] == "apiextensions.k8s.io/v1beta1"
    assert "x-kubernetes" not in str(made)
    assert [each["JSONPath"] for each in made["spec"]["additionalPrinterColumns"]][:2] == [
        ".status.phase",
        ".status.mode",
    ]
    for path in SAMPLES:
        if path.stem != "kubeflow":
            jsonschema.validate(yaml.safe_load(path.read_text()), made["spec"]["validation"]["openAPIV3Schema"])


def test_a_definition_fits_into_the_annotation_of_kubectl_apply() -> None:
    """Client-side apply keeps a copy of the object in an annotation, and all annotations have 256 KiB together."""
    import json

    assert max(len(json.dumps(each())) for each in (crd.resource, crd.old_resource, crd.kubeflow_resource)) < 100_000


@given(NEAR)
def test_what_the_schema_takes_has_no_wrong_types_outside_templates(spec: Any) -> None:
    """The reader and the schema come from one table: where the API server sees no wrong type, neither does the reader."""
    body = {**job(), "spec": spec}
    if not jsonschema.Draft7Validator(schema(crd.resource())).is_valid(body):
        return
    found = [problem for problem in reading.read(body).problems if problem.code in ("UM-PDJ-001", "UM-PDJ-002")]
    assert [problem for problem in found if ".template" not in str(problem.where)] == []


def test_every_kind_of_field_is_in_some_table() -> None:
    from umiak.paddlejob import status_fields

    tables = (job_fields.FIELDS, kubeflow_fields.FIELDS, status_fields.KUBEFLOW_FIELDS)
    assert {field.kind for table in tables for _, field in described(table, "")} == set(FieldKind)
