"""The page of a cluster as a pod of a real cluster, as `umiak deploy --dashboard` prints it: through `kubectl port-forward`, with a token of one's own."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator

import pytest

from testbed import browser
from testbed.kubernetes import programs
from testbed.kubernetes.cluster import Cluster
from tests.integration.test_dashboard_control_plane import RBAC, Page, binding
from tests.support import eventually
from tests.support.cluster_jobs import ClusterJobs, paddle_job, template
from umiak.cli.deploy import objects

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("kubernetes"),
]
SYSTEM = "paddle-system"
STARTED_WITHIN_S = 240.0
STEPS = "import time; print('<b>step 1</b>', flush=True); time.sleep(3600)"


@pytest.fixture(scope="module")
def port(kube_cluster: Cluster) -> Iterator[int]:
    """Of loopback, which leads to the page's pod."""
    cluster = kube_cluster
    cluster.deploy_operator("--dashboard", namespace=SYSTEM)
    there = f"--namespace={SYSTEM}"
    cluster.kubectl(there, "rollout", "status", f"deployment/{objects.DASHBOARD}", "--timeout=180s", timeout=200)
    with forwarded(cluster) as found:
        yield found
    cluster.kubectl(there, "delete", "deployment", objects.DASHBOARD)
    cluster.kubectl(there, "delete", "serviceaccount", objects.DASHBOARD_ACCOUNT)


@contextlib.contextmanager
def forwarded(cluster: Cluster) -> Iterator[int]:
    words = ["--namespace", SYSTEM, "port-forward", f"deployment/{objects.DASHBOARD}", ":8200"]
    environ = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "HOME": str(cluster.directory)}
    forward = subprocess.Popen(
        [programs.program("kubectl"), *words], env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert forward.stdout is not None
        told = re.match(r"Forwarding from 127\.0\.0\.1:(\d+) ", line := forward.stdout.readline())
        assert told, line
        yield int(told[1])
    finally:
        forward.kill()
        forward.communicate()


@pytest.fixture
def jobs(kube_cluster: Cluster, cluster_namespace: str, port: int) -> ClusterJobs:
    """One that trains, and an account that may see those of this namespace."""
    found = ClusterJobs(kube_cluster, cluster_namespace)
    found.create(paddle_job("ctr", roles={"worker": (2, template("python", "-c", STEPS))}))
    kube_cluster.kubectl("--namespace", cluster_namespace, "create", "serviceaccount", "ada")
    kube_cluster.request(
        "POST",
        f"{RBAC}/namespaces/{cluster_namespace}/rolebindings",
        binding(cluster_namespace, "ada", "view", "ClusterRole"),
    )
    return found


@pytest.fixture
def secret_plan(kube_cluster: Cluster, cluster_namespace: str) -> Iterator[str]:
    """A job of somebody else, in another namespace."""
    name = kube_cluster.namespace(f"{cluster_namespace}-other")
    ClusterJobs(kube_cluster, name).create(
        paddle_job("secret-plan", roles={"worker": (1, template("python", "-c", STEPS))})
    )
    yield f"{name}.secret-plan"
    kube_cluster.request("DELETE", f"/api/v1/namespaces/{name}")


def test_a_pod_shows_each_person_what_the_token_may_see(
    kube_cluster: Cluster, jobs: ClusterJobs, port: int, secret_plan: str
) -> None:
    home, ctr = jobs.namespace, f"{jobs.namespace}.ctr"
    own = kube_cluster.account_token(SYSTEM, objects.DASHBOARD_ACCOUNT)
    everybody = f"{home},{secret_plan.partition('.')[0]}"
    ada = Page(port, kube_cluster.account_token(home, "ada")).entered(everybody)
    # The cluster adds the rules of the manifests to its own role `view` a moment later.
    eventually(lambda: ada.runs() == [ctr], within_s=STARTED_WITHIN_S)
    eventually(
        lambda: [each["phase"] for each in ada.data(f"/runs/{ctr}.json")["workers"][0]["workers"]] == ["running"] * 2,
        within_s=STARTED_WITHIN_S,
    )
    texts = eventually(lambda: [line["text"] for line in ada.data(f"/runs/{ctr}/log.json")["lines"]])
    assert texts == ["<b>step 1</b>"] * 2
    assert ada.ask(f"/runs/{secret_plan}.json")[0] == 404
    assert any("403" in each for each in ada.data("/runs.json")["problems"])
    assert Page(port, own).entered(everybody).runs() == [], "the pod has no rights of its own"
    assert Page(port, "of-no-cluster").ask("/runs.json")[0] == 401
    assert ada.ask("/runs.json", Host="paddle-dashboard.evil.example")[0] in (403, 421)


@pytest.mark.skipif(bool(browser.missing()) and "CI" not in os.environ, reason=f"without {browser.missing()}")
def test_a_job_is_followed_in_a_browser_until_it_is_deleted(
    kube_cluster: Cluster, jobs: ClusterJobs, port: int
) -> None:
    token = kube_cluster.account_token(jobs.namespace, "ada")
    with browser.chromium() as page:

        def shows(text: str) -> None:
            page.wait_for("return document.body.innerText.includes(arguments[0])", text)

        page.open(f"http://localhost:{port}/runs")
        shows("You see what your own token may see")
        page.complaints()  # of the answer that nobody is known yet
        page.run("document.querySelector('[name=token]').value = arguments[0]", token)
        page.run("document.querySelector('[name=namespaces]').value = arguments[0]", jobs.namespace)
        page.run("document.querySelector('form.enter button').click()")
        page.wait_for(f"return document.querySelector('tr[data-run=\"{jobs.namespace}.ctr\"] .state.running')")
        assert page.run("return document.cookie + location.hash + location.search") == ""
        page.open(f"http://localhost:{port}/runs/{jobs.namespace}.ctr?tab=ranks")
        page.wait_for("return document.querySelectorAll('.ranks a.running').length == 2")
        page.open(f"http://localhost:{port}/runs/{jobs.namespace}.ctr?tab=logs")
        shows("<b>step 1</b>")
        assert page.run("return document.querySelectorAll('.log b').length") == 0
        assert page.complaints() == []
        page.open(f"http://localhost:{port}/runs")
        page.wait_for("return document.querySelector('tr[data-run]')")
        jobs.kubectl("delete", "paddlejob", "ctr", "--wait=false")
        page.wait_for("return !document.querySelector('tr[data-run]')")
        shows("There are no runs here yet")
