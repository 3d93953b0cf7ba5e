"""The page of a cluster beside a real API server, whose rights decide what each viewer sees; the page's own account has none."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from typing import Any

import pytest

from testbed.kubernetes.control_plane import ControlPlane
from tests.integration.test_dashboard_cluster_page import served
from tests.support import eventually
from tests.support.operator_process import JOBS, install, job
from umiak.cli.deploy import objects
from umiak.core.shown import Secrets
from umiak.kube.kubeconfig import KubeAccess

pytestmark = [pytest.mark.kubernetes]

RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Page:
    """A client of the page with a token of its own."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._headers = port, {"Authorization": f"Bearer {token}"}

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
        link = HTTPConnection("127.0.0.1", self._port, timeout=120)
        try:
            named = {name.replace("_", "-"): text for name, text in headers.items()}
            link.request(method, path, headers={"Host": f"localhost:{self._port}", **self._headers, **named})
            answer = link.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            link.close()

    def data(self, path: str) -> dict[str, Any]:
        status, _, body = self.ask(path)
        assert status == 200, body
        found: dict[str, Any] = json.loads(body)
        return found

    def runs(self) -> list[str]:
        return sorted(row["id"] for row in self.data("/runs.json?limit=500")["runs"])

    def entered(self, namespaces: str) -> Page:
        """As a browser: the token is exchanged for a cookie, with the namespaces to look into."""
        token = self._headers["Authorization"].removeprefix("Bearer ")
        origin = f"http://localhost:{self._port}"
        named = {"Origin": origin, "X_Umiak_Dashboard_Token": token, "X_Umiak_Dashboard_Namespaces": namespaces}
        status, headers, body = self.ask("/session", "POST", **named)
        assert status == 204, body
        page = Page(self._port, "")
        page._headers = {"Cookie": headers["Set-Cookie"].partition(";")[0]}
        return page


@pytest.fixture
def other(control_plane: ControlPlane) -> Iterator[str]:
    """A second namespace."""
    name = control_plane.namespace(f"other-{secrets.token_hex(4)}")
    yield name
    control_plane.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def account(control_plane: ControlPlane, kube_namespace: str) -> Callable[[str], str]:
    """Makes an account that may do nothing, and gives its token."""

    def made(name: str) -> str:
        control_plane.request(
            "POST", f"/api/v1/namespaces/{kube_namespace}/serviceaccounts", {"metadata": {"name": name}}
        )
        return control_plane.account_token(kube_namespace, name)

    return made


def binding(home: str, account: str, role: str, kind: str) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{account}-{role}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": home}],
    }


def put_job(plane: ControlPlane, namespace: str, name: str) -> None:
    """With a pod that no node takes, and a status as an operator writes it."""
    jobs = JOBS.format(namespace)
    plane.request("POST", jobs, job(name, namespace))
    plane.request(
        "PATCH", f"{jobs}/{name}/status", {"status": {"phase": "Running", "worker": {"desired": 2, "running": 1}}}
    )
    labels = {"batch.paddlepaddle.org/job-name": name, "paddle-res-type": "worker"}
    metadata = {"name": f"{name}-worker-0", "labels": labels, "annotations": {"batch.paddlepaddle.org/index": "0"}}
    spec = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "train:1"}]}
    plane.request("POST", f"/api/v1/namespaces/{namespace}/pods", {"metadata": metadata, "spec": spec})


def test_what_a_token_may_see_is_what_is_shown(
    control_plane: ControlPlane, kube_namespace: str, other: str, account: Callable[[str], str]
) -> None:
    plane, lab = control_plane, kube_namespace
    install(plane)
    options = objects.DeployOptions(namespace=lab, values={"dashboard": True})
    manifests = objects.objects(options)
    people = [each for each in manifests if each["metadata"]["name"] in (objects.EDITOR, objects.VIEWER)]
    own = [each for each in manifests if each["metadata"]["name"] in (objects.DASHBOARD, objects.DASHBOARD_ACCOUNT)]
    assert sorted(each["kind"] for each in own) == ["Deployment", "ServiceAccount"], "and no role for it"
    plane.apply(*people, *own)
    for namespace, name in ((lab, "ctr"), (other, "secret-plan")):
        put_job(plane, namespace, name)
    tokens = {name: account(name) for name in ("ada", "bob", "carol", "dan")}
    tokens["page"] = plane.account_token(lab, objects.DASHBOARD_ACCOUNT)
    plane.request("POST", f"{RBAC}/namespaces/{lab}/rolebindings", binding(lab, "ada", "view", "ClusterRole"))
    everywhere = binding(lab, "carol", "view", "ClusterRole")
    everywhere["metadata"]["name"] += f"-{secrets.token_hex(4)}"
    plane.request("POST", f"{RBAC}/clusterrolebindings", everywhere)
    jobs_alone = {
        "metadata": {"name": "jobs-alone"},
        "rules": [{"apiGroups": ["batch.paddlepaddle.org"], "resources": ["paddlejobs"], "verbs": ["get", "list"]}],
    }
    plane.request("POST", f"{RBAC}/namespaces/{lab}/roles", jobs_alone)
    plane.request("POST", f"{RBAC}/namespaces/{lab}/rolebindings", binding(lab, "dan", "jobs-alone", "Role"))
    ctr, secret = f"{lab}.ctr", f"{other}.secret-plan"
    access = KubeAccess(server=plane.server, ca_file=str(plane.ca), secrets=Secrets())
    try:
        with served(access) as dashboard:
            ada, bob, carol, dan, page = (
                Page(dashboard.port, tokens[name]) for name in ("ada", "bob", "carol", "dan", "page")
            )
            # The cluster adds the rules of the manifests to its own role `view` a moment later.
            eventually(lambda: {ctr, secret} <= set(carol.runs()))

            in_lab = ada.entered(lab)
            assert eventually(in_lab.runs) == [ctr]
            seen = in_lab.data(f"/runs/{ctr}.json")
            assert (seen["row"]["state"], seen["row"]["nodes_up"], seen["row"]["nodes_expected"]) == ("running", 1, 2)
            assert [each["key"] for each in seen["workers"][0]["workers"]] == ["trainer.0"]
            assert "can't be seen" not in seen["hint"]
            in_both = ada.entered(f"{lab},{other}")
            assert in_both.runs() == [ctr]
            assert any(other in each and "403" in each for each in in_both.data("/runs.json")["problems"])

            told = dan.entered(lab)
            assert told.runs() == [ctr]
            assert "Its pods can't be seen" in told.data(f"/runs/{ctr}.json")["hint"]

            for nobody in (ada, bob, page):
                assert nobody.runs() == [], "not all namespaces at once"
                problems = " ".join(nobody.data("/runs.json")["problems"])
                assert "403" in problems
                assert "name the namespaces in which you may list PaddleJobs" in problems
            for nobody in (bob.entered(f"{lab},{other}"), page.entered(f"{lab},{other}"), in_lab):
                for part in ("", "/log", "/files"):
                    status, _, body = nobody.ask(f"/runs/{secret}{part}.json")
                    assert (status, b"worker" in body) == (404, False)
            assert Page(dashboard.port, "no-token-of-this-cluster").ask("/runs.json")[0] == 401

            name = f"{RBAC}/namespaces/{lab}/rolebindings/ada-view"
            plane.request("DELETE", name)
            eventually(lambda: any("403" in each for each in in_lab.data("/runs.json")["problems"]))
            assert in_lab.runs() == [], "what may not be seen any more is gone at once"
            assert in_lab.ask(f"/runs/{ctr}.json")[0] == 404
    finally:
        plane.request("DELETE", f"{RBAC}/clusterrolebindings/{everywhere['metadata']['name']}")
