"""PaddleJobs in Kubernetes 1.20: its server of custom resources takes both forms of the definition, without CEL rules.

What else the operator asks of an API server (pods, services, ConfigMaps, events, leases) has had its present version since 1.14.
"""

from __future__ import annotations

import pytest
import yaml

from testbed.kubernetes import old_definitions
from tests.support.paths import ROOT
from umiak.paddlejob.reading import read

pytestmark = pytest.mark.kubernetes

DEPLOY = ROOT / "deploy"
NAME = "paddlejobs.batch.paddlepaddle.org"


@pytest.fixture(params=["crd.yaml", "crd-v1beta1.yaml"])
def old(control_plane, request):
    """A server of Kubernetes 1.20 that has the definition of one of our files."""
    definition = yaml.safe_load((DEPLOY / request.param).read_text(encoding="utf-8"))
    with old_definitions.opened(control_plane) as server:
        path = f"/apis/{definition['apiVersion']}/customresourcedefinitions"
        server.request("POST", path, definition)

        def is_established() -> bool:
            conditions = server.request("GET", f"{path}/{NAME}").get("status", {}).get("conditions") or []
            return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

        control_plane.until(is_established, "the definition is established", 60)
        yield server


def test_jobs_keep_their_templates_and_have_status_and_scale(old, control_plane, kube_namespace):
    jobs = f"/apis/batch.paddlepaddle.org/v1/namespaces/{kube_namespace}/paddlejobs"
    control_plane.until(lambda: control_plane.ask("GET", jobs, port=old.port)[0] == 200, "jobs are served", 60)
    job = yaml.safe_load((DEPLOY / "samples" / "wide_and_deep.yaml").read_text(encoding="utf-8"))
    job["spec"]["worker"]["template"]["spec"]["fieldOfTomorrow"] = {"kept": True}
    made = old.request("POST", jobs, job)
    assert made["spec"]["worker"]["template"]["spec"]["fieldOfTomorrow"] == {"kept": True}
    own = f"{jobs}/{job['metadata']['name']}"
    told = old.request("PUT", f"{own}/status", {**made, "spec": {}, "status": {"phase": "Running"}})
    assert (told["status"]["phase"], told["spec"]) == ("Running", made["spec"])
    old.request("PATCH", f"{own}/scale", {"spec": {"replicas": 3}})
    assert old.request("GET", own)["spec"]["worker"]["replicas"] == 3


def test_what_a_rule_would_refuse_is_stored_and_found_by_the_operators_own_checks(old, control_plane, kube_namespace):
    jobs = f"/apis/batch.paddlepaddle.org/v1/namespaces/{kube_namespace}/paddlejobs"
    control_plane.until(lambda: control_plane.ask("GET", jobs, port=old.port)[0] == 200, "jobs are served", 60)
    job = yaml.safe_load((DEPLOY / "samples" / "wide_and_deep.yaml").read_text(encoding="utf-8"))
    job["spec"]["ps"]["replicas"] = -3
    stored = old.request("POST", jobs, job)
    assert stored["spec"]["ps"]["replicas"] == -3
    assert read(stored).problems
