"""Whatever stands in a template, the operator decides: it starts the job, or says what is wrong. It never fails at it.

The API server takes templates as they are, and so anything may come, with every scheduler of gangs and in queues.
"""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from tests.support.operator_cluster import OperatorCluster, manifest
from umiak.operator.objects.workloads import found_in, with_conditions
from umiak.operator.policies.gangs import DRIVERS
from umiak.operator.queueing import lookups
from umiak.operator.values import FLAVOR, QUEUE_NAME, WORKLOAD, ClassLookup, ClusterFacts, WorkloadCondition
from umiak.paddlejob.templates.pod_fields import TYPES

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
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "schedulerName": "volcano",
        "priorityClassName": "high",
        "overhead": {"cpu": "1m"},
        "initContainers": [
            {"name": "i", "image": "x", "env": [{"name": "A", "value": "b"}], "resources": {"requests": {"cpu": 1}}}
        ],
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
    ps = draw.choice([None, 1])
    fields = {"elastic": 1} if ps is None and draw.random() < 0.3 else {}
    body = manifest(ps=ps, worker=2, schedulingPolicy=policy, intranet=intranet, **fields)
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


def add(body: dict[str, Any], draw: random.Random) -> tuple[Any, ...]:
    """A field that templates may have, with something strange in it. The simulated nodes believe what they are named by."""
    roles = body["spec"].get("paddleReplicaSpecs") or body["spec"]
    role = draw.choice([name for name in roles if name in ("ps", "worker", "Worker")])
    spec = roles[role]["template"]["spec"]
    kind, holder = draw.choice([("PodSpec", spec), ("Container", spec["containers"][0])])
    name = draw.choice([each for each in TYPES[kind] if each not in ("containers", "nodeName")])
    found = copy.deepcopy(draw.choice(JUNK))
    inside = TYPES[kind][name]
    holder[name] = {draw.choice(list(TYPES[inside])): found} if inside and draw.random() < 0.4 else found
    return role, kind, name, holder[name]


class Anything(OperatorCluster):
    """A cluster in which gangs get their places and queues admit what is in them."""

    def __init__(self, body: dict[str, Any], draw: random.Random) -> None:
        gang, kueue = draw.choice(["", *DRIVERS]), draw.choice(["", "v1beta1", "v1beta2"])
        kinds = frozenset([DRIVERS[gang].kind] if gang else [])
        body["metadata"]["labels"] = {QUEUE_NAME: "team"} if kueue else {}
        super().__init__(body, facts=ClusterFacts(gang=gang, kinds=kinds, kueue=kueue))
        flavor = {"spec": {"nodeLabels": {"gpu": "a"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}}
        self.found = (
            found_in(ClassLookup(kind=FLAVOR, name="a"), flavor),
            found_in(ClassLookup(kind="PriorityClass", name="high"), {"value": 7}),
        )

    def step(self) -> None:
        seen = self.observed()
        assert seen is not None
        lookups(seen)
        self.operate(is_due=True)
        for (kind, name), each in list(self.objects.items()):
            if kind.endswith("/PodGroup"):
                each["status"] = {"phase": "Inqueue"}
            elif kind == WORKLOAD and not each.get("status"):
                rows = [{"name": one["name"], "flavors": {"cpu": "a"}} for one in each["spec"]["podSets"]]
                wanted = [WorkloadCondition(type=one, is_true=True) for one in ("QuotaReserved", "Admitted")]
                status = with_conditions(each, wanted, self.now)
                self.change((kind, name), status={**status, "admission": {"podSetAssignments": rows}})


@pytest.mark.parametrize("block", range(4))
def test_any_template_is_started_or_refused_with_a_reason(block: int) -> None:
    for seed in range(150):
        draw = random.Random(block * 100_000 + seed)
        body = job(draw)
        spoilt = [add(body, draw) for _ in range(draw.choice([0, 1, 2]))]
        spoilt += [spoil(body["spec"], draw) for _ in range(draw.choice([1, 1, 2]))]
        cluster = Anything(body, draw)
        for _ in range(6):
            cluster.step()
            cluster.kubelets()
        said = [each.message for each in cluster.report.conditions if each.type == "Accepted" and not each.is_true]
        made = [name for _, name in cluster.objects]
        assert said or made, (seed, spoilt)
        assert all("[UM-PDJ-" in each for each in said), (seed, spoilt, said)
