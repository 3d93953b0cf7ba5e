"""The chart with a real Helm, the kustomization with a real kubectl: both make the objects that `umiak deploy` prints, and Helm refuses the
values that `umiak deploy` refuses."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.kubernetes import programs
from testbed.pytest_support import require
from tests.support import PATIENCE_S
from tests.support.paths import ROOT
from umiak.cli.deploy import chart, objects, values
from umiak.cli.deploy.objects import DeployOptions

pytestmark = [pytest.mark.kubernetes]

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "chart"
Helm = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    """Runs Helm with an empty home, and with values where there are some."""
    require(programs.available("helm"))
    kept = {f"HELM_{name}_HOME": str(tmp_path / name) for name in ("CACHE", "CONFIG", "DATA")}
    environ = {**os.environ, **kept, "HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "none")}

    def run(*words: str, said: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        command = [programs.program("helm", "helm"), *words]
        if said is not None:
            (tmp_path / "values.json").write_text(json.dumps(said))
            command += ["--values", str(tmp_path / "values.json")]
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    return run


EVERYTHING = {
    "image": "registry.example/umiak:1",
    "imagePullPolicy": "Always",
    "imagePullSecrets": [{"name": "registry"}, {"name": "other.registry"}],
    "replicas": 3,
    "scheduling": "scheduler-plugins",
    "etcdServer": "etcd:2379",
    "kubeflow": True,
    "kueue": True,
    "dashboard": True,
    "dashboardTls": "page.tls",
    "dashboardHosts": ["page.example.com", "umiak"],
    "serviceMonitor": True,
    "warnings": True,
    "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": "1.5", "memory": "1Gi"}},
    "nodeSelector": {"example.com/pool": "system", "on": "true"},
    "tolerations": [
        {"key": "gpu", "operator": "Equal", "value": "1", "effect": "NoSchedule"},
        {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
    ],
    "extraLabels": {"release": "prometheus", "example.com/cost": "007"},
}
CASES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "two": {"replicas": 2},
    "everything": EVERYTHING,
    "namespaces": {**EVERYTHING, "watchNamespaces": ["ml", "007", "lab"]},
    "one namespace": {"watchNamespaces": ["ml"], "scheduling": "volcano", "kueue": True},
    "page": {"dashboard": True},
    "native": {"scheduling": "native", "replicas": 0},
}


def test_the_chart_is_what_the_command_prints(helm: Helm) -> None:
    for name, said in CASES.items():
        for namespace in ("paddle-system", "007"):
            words = ("--namespace", namespace, "--kube-version", programs.KUBERNETES_VERSION)
            done = helm("template", "umiak", str(CHART), *words, said=said)
            assert done.returncode == 0, f"{name}: {done.stderr}"
            made = [each for each in yaml.safe_load_all(done.stdout) if each]
            options = DeployOptions(namespace=namespace, values=said, has_crd=False)
            wanted = [each for each in objects.objects(options) if each["kind"] != "Namespace"]
            assert sorted(map(_plain, made)) == sorted(map(_plain, wanted)), name


def test_the_chart_has_no_policy_where_the_cluster_has_none(helm: Helm) -> None:
    for version, has_policies in (("1.30.0", True), ("1.29.0", False)):
        words = ["--kube-version", version]
        done = helm("template", "umiak", str(CHART), *words, said={"warnings": True})
        assert done.returncode == 0, done.stderr
        assert ("ValidatingAdmissionPolicy" in done.stdout) is has_policies, version


def _plain(made: dict[str, Any]) -> str:
    return json.dumps(made, sort_keys=True)


def test_helm_finds_nothing_wrong(helm: Helm) -> None:
    for said in CASES.values():
        done = helm("lint", "--strict", str(CHART), said=said)
        assert done.returncode == 0, done.stdout + done.stderr
    shown = helm("show", "crds", str(CHART))
    (definition,) = [each for each in yaml.safe_load_all(shown.stdout) if each]
    assert definition == objects.definitions(DeployOptions())[0]


BAD: dict[str, dict[str, Any]] = {
    "replicas": {"replicas": "two"},
    "replicas ": {"replicas": 101},
    "scheduling": {"scheduling": "slurm"},
    "watchNamespaces/0": {"watchNamespaces": ["My_Space"]},
    "watchNamespaces": {"watchNamespaces": ["ml", "ml"]},
    "imagePullSecrets/0": {"imagePullSecrets": ["registry"]},
    "tolerations/0/effect": {"tolerations": [{"key": "gpu", "effect": "Never"}]},
    "resources/limits/memory": {"resources": {"limits": {"memory": "much"}}},
    "nodeSelector/pool": {"nodeSelector": {"pool": True}},
    "extraLabels/control-plane": {"extraLabels": {"control-plane": "mine"}},
    "nodeSelector": {"nodeSelector": {"a b": "c"}},
    "extraLabels/team": {"extraLabels": {"team": "a b"}},
}


def test_a_bad_value_is_refused_with_its_path(helm: Helm) -> None:
    for path, said in BAD.items():
        done = helm("template", "umiak", str(CHART), said=said)
        assert done.returncode != 0, path
        assert f"/{path.strip()}'" in done.stderr, f"{path}: {done.stderr}"
        assert values.refusals(said), f"{path}: umiak deploy takes it"
    done = helm("template", "umiak", str(CHART), said={"replica": 2})
    assert done.returncode != 0
    assert "replica" in done.stderr


def test_kustomize_makes_what_the_command_prints(tmp_path: Path) -> None:
    require(programs.available())

    def built(directory: Path) -> list[dict[str, Any]]:
        command = [programs.program("kubectl"), "kustomize", str(directory)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stderr
        return list(yaml.safe_load_all(done.stdout))

    assert sorted(map(_plain, built(DEPLOY))) == sorted(map(_plain, objects.objects(DeployOptions())))
    options = DeployOptions(values={**EVERYTHING, "watchNamespaces": ["ml", "lab"]})
    base, overlay = tmp_path / "base", tmp_path / "overlay"
    base.mkdir()
    overlay.mkdir()
    for name, text in chart.kustomize_files(options).items():
        (base / name).write_text(text)
    assert sorted(map(_plain, built(base))) == sorted(map(_plain, objects.objects(options)))
    images = [{"name": "registry.example/umiak", "newTag": "2"}]
    replicas = [{"name": objects.DEPLOYMENT, "count": 5}]
    (overlay / "kustomization.yaml").write_text(
        json.dumps({"resources": ["../base"], "images": images, "replicas": replicas})
    )
    deployments = [each for each in built(overlay) if each["kind"] == "Deployment"]
    (deployment,) = [each for each in deployments if each["metadata"]["name"] == objects.DEPLOYMENT]
    assert deployment["spec"]["replicas"] == 5
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/umiak:2"
