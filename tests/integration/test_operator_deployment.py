"""Two operators on a real cluster, as `umiak deploy --replicas 2` prints them: on two nodes, one at a time evicted, their metrics behind a Service."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from testbed.kubernetes.cluster import Cluster
from umiak.cli.deploy import objects

pytestmark = [pytest.mark.kubernetes, pytest.mark.xdist_group("kubernetes")]

ASKED = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=200).read().decode())"


@pytest.fixture
def home(kube_cluster: Cluster) -> Iterator[str]:
    """The operators' own namespace, so that those of other tests are left alone."""
    name = kube_cluster.namespace(f"operators-{secrets.token_hex(4)}")
    yield name
    kube_cluster.request("DELETE", f"/api/v1/namespaces/{name}")


def test_two_replicas(kube_cluster: Cluster, cluster_namespace: str, home: str) -> None:
    cluster = kube_cluster
    cluster.deploy_operator("--replicas", "2", "--watch", cluster_namespace, namespace=home)

    def pods() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = cluster.request("GET", f"/api/v1/namespaces/{home}/pods")["items"]
        return found

    assert {each["spec"]["nodeName"] for each in pods()} == set(cluster.nodes), "each on a node of its own"
    path = f"/apis/policy/v1/namespaces/{home}/poddisruptionbudgets/{objects.DEPLOYMENT}"
    cluster.until(
        lambda: cluster.request("GET", path).get("status", {}).get("disruptionsAllowed") == 1, "one may be evicted"
    )

    slices = f"/apis/discovery.k8s.io/v1/namespaces/{home}/endpointslices"

    def ready() -> list[str]:
        """The addresses behind the Service that answer."""
        found = cluster.request("GET", f"{slices}?labelSelector=kubernetes.io/service-name={objects.METRICS}")
        ends = [end for each in found["items"] for end in each.get("endpoints") or ()]
        return [address for end in ends if end["conditions"].get("ready") for address in end["addresses"]]

    cluster.until(lambda: len(ready()) == 2, "the Service has both operators")
    asker = pods()[0]["metadata"]["name"]

    def page(url: str) -> str:
        """Empty: nobody answers. Rules of a new Service take a moment."""
        words = ["exec", asker, "--namespace", home, "--", "python", "-c", ASKED, url]
        return cluster.kubectl(*words, check=False).stdout

    def leading() -> list[str]:
        lines = [line for each in ready() for line in page(f"http://{each}:8080/metrics").splitlines()]
        return sorted(line for line in lines if line.startswith("umiak_operator_is_leader"))

    cluster.until(
        lambda: leading() == ["umiak_operator_is_leader 0", "umiak_operator_is_leader 1"], "one of them leads", 100
    )
    service = f"http://{objects.METRICS}.{home}.svc.cluster.local"
    cluster.until(
        lambda: "umiak_operator_is_leader" in page(f"{service}:8080/metrics"), "the Service has its metrics", 100
    )
    cluster.until(lambda: page(f"{service}:8081/healthz").strip() == "ok", "the Service says that it is well", 100)

    def evict(name: str) -> int:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": home}}
        return cluster.ask("POST", f"/api/v1/namespaces/{home}/pods/{name}/eviction", body)[0]

    first, second = (each["metadata"]["name"] for each in pods())
    assert evict(first) == 201
    assert evict(second) == 429, "the other one stays until there is a new one"
