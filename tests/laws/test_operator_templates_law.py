"""Whatever stands in a template, the operator decides: it starts the job, or says what is wrong. It never fails at it.

The API server takes templates as they are, and so anything may come.
"""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from tests.operator_cluster import OperatorCluster, manifest
from umiak.operator.policies.gangs import DRIVERS
from umiak.operator.values import ClusterFacts

JUNK: tuple[Any, ...] = (
    *(None, [], {}, "", 0, -1, True, 1.5, "x", "a" * 70),
    *([1], {"a": 1}, [[]], [None], {"name": ["a"]}, [{"name": ["a"]}], [{"name": {"b": 1}}]),
)
CONTAINER = {
    "name": "a",
    "image": "x",
    "env": [{"name": "A", "value": "b"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
    "envFrom": [{"configMapRef": {"name": "q"}}],
    "ports": [{"name": "master", "containerPort": 1, "hostPort": 2, "protocol": "TCP"}],
    "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": 1}},
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
}
TEMPLATE = {
    "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["x/y"]},
    "spec": {
        "restartPolicy": "Never",
        "nodeSelector": {"x": "y"},
        "initContainers": [{"name": "i", "image": "x", "env": [{"name": "A", "value": "b"}]}],
        "containers": [CONTAINER, {"name": "paddle", "image": "y", "ports": [{"containerPort": 5}]}],
    },
}


def job(draw: random.Random) -> dict[str, Any]:
    if draw.random() < 0.4:
        roles = {"Worker": {"replicas": 2, "template": copy.deepcopy(TEMPLATE)}}
        spec = {"paddleReplicaSpecs": roles, "runPolicy": {"schedulingPolicy": {"queue": "q"}}}
        return {**manifest(), "apiVersion": "kubeflow.org/v1", "spec": spec}
    policy = {"queue": "q", "minAvailable": 1, "minResources": {"cpu": "1"}}
    intranet = draw.choice(["PodIP", "Service", "Host"])
    body = manifest(ps=draw.choice([None, 1]), worker=2, schedulingPolicy=policy, intranet=intranet)
    for role in {"ps", "worker"} & set(body["spec"]):
        body["spec"][role]["template"] = copy.deepcopy(TEMPLATE)
    return body


def paths(found: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    rows = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    return [path, *(each for key, one in rows for each in paths(one, (*path, key)))]


def spoil(spec: dict[str, Any], draw: random.Random) -> tuple[Any, ...]:
    path = draw.choice([each for each in paths(spec) if each])
    found: Any = spec
    for key in path[:-1]:
        found = found[key]
    found[path[-1]] = copy.deepcopy(draw.choice(JUNK))
    return path


@pytest.mark.parametrize("block", range(4))
def test_any_template_is_started_or_refused_with_a_reason(block: int) -> None:
    for seed in range(150):
        draw = random.Random(block * 100_000 + seed)
        body = job(draw)
        spoilt = [spoil(body["spec"], draw) for _ in range(draw.choice([1, 1, 2]))]
        kinds = frozenset([DRIVERS["volcano"].kind]) if draw.random() < 0.5 else frozenset()
        cluster = OperatorCluster(body, facts=ClusterFacts(gang="volcano" if kinds else "", kinds=kinds))
        for _ in range(6):
            cluster.operate(is_due=True)
            cluster.kubelets()
        said = [each.message for each in cluster.report.conditions if each.type == "Accepted" and not each.is_true]
        made = [name for _, name in cluster.objects]
        assert said or made, (seed, spoilt)
        assert all("[UM-PDJ-" in each for each in said), (seed, spoilt, said)
