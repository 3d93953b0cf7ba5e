"""Clusters for the tests of `umiak.contracts`."""

from __future__ import annotations

from typing import Any

from umiak.contracts import WorkerSetting
from umiak.core.cluster import Cluster, Node


def node(name: str, host: str, *, trainers: int = 1, servers: int = 0, heters: int = 0, **more: int) -> Node:
    """A node with ports 7000, 7001, ... for its workers and 7999 for a store."""
    ports = (*range(7000, 7000 + servers + trainers + heters), 7999)
    return Node(
        name=name,
        host=host,
        home=0,
        ports=ports,
        trainers=trainers,
        servers=servers,
        heters=heters,
        link_port=1,
        **more,
    )


def cluster(*nodes: Node, generation: int = 1) -> Cluster:
    return Cluster(job_id="ctr", generation=generation, nodes=nodes, coordinator=nodes[0].name)


def two_by_two() -> Cluster:
    """Two nodes with two trainers each."""
    return cluster(node("alpha", "10.0.0.1", trainers=2), node("beta", "10.0.0.2", trainers=2), generation=3)


def setting(**more: Any) -> WorkerSetting:
    return WorkerSetting(**{"log_dir": "/job/log", **more})
