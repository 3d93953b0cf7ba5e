"""Two operators on a real cluster, as `umiak deploy --replicas 2` prints them: on two nodes, one at a time evicted, their metrics behind a Service."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from testbed.kubernetes.cluster import Cluster
from umiak.cli.deploy import objects

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600), pytest.mark.xdist_group("kubernetes")]

ASKED = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=30).read().decode())"


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
        words = ["exec", asker, "--namespace", home, "--", "python", "-c", ASKED, url]
        return cluster.kubectl(*words).stdout

    told = [page(f"http://{address}:8080/metrics") for address in ready()]
    leading = sorted(line for text in told for line in text.splitlines() if line.startswith("umiak_operator_is_leader"))
    assert leading == ["umiak_operator_is_leader 0", "umiak_operator_is_leader 1"]
    service = f"http://{objects.METRICS}.{home}.svc.cluster.local"
    assert "umiak_operator_is_leader" in page(f"{service}:8080/metrics")
    assert page(f"{service}:8081/healthz").strip() == "ok"

    def evict(name: str) -> int:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": home}}
        return cluster.ask("POST", f"/api/v1/namespaces/{home}/pods/{name}/eviction", body)[0]

    first, second = (each["metadata"]["name"] for each in pods())
    assert evict(first) == 201
    assert evict(second) == 429, "the other one stays until there is a new one"
