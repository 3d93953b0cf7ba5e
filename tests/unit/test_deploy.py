"""`umiak deploy` and the files of deploy/: names of the old manifests, few rights, and a chart that says the same."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from umiak.cli.deploy import chart, objects
from umiak.cli.deploy.objects import DeployOptions

ROOT = Path(__file__).resolve().parents[2]


def deploy(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "umiak", "deploy", *words], capture_output=True, text=True, timeout=120
    )


def printed(*words: str) -> list[dict[str, Any]]:
    done = deploy(*words)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def names(made: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["kind"], each["metadata"]["name"]) for each in made]


def by_kind(made: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in made if each["kind"] == kind]


def test_names_are_those_of_the_old_manifests() -> None:
    assert names(printed()) == [
        ("CustomResourceDefinition", "paddlejobs.batch.paddlepaddle.org"),
        ("Namespace", "paddle-system"),
        ("ServiceAccount", "paddle-manager-sa"),
        ("Role", "paddle-leader-election-role"),
        ("RoleBinding", "paddle-leader-election-rolebinding"),
        ("ClusterRole", "paddle-manager-role"),
        ("ClusterRoleBinding", "paddle-manager-rolebinding"),
        ("ClusterRole", "paddlejob-editor-role"),
        ("ClusterRole", "paddlejob-viewer-role"),
        ("Deployment", "paddle-controller-manager"),
    ]


def test_parts_can_be_printed_alone() -> None:
    assert {kind for kind, _ in names(printed("--crd"))} == {"CustomResourceDefinition"}
    assert "CustomResourceDefinition" not in {kind for kind, _ in names(printed("--operator"))}
    both = printed("--crd", "--kubeflow")
    assert [each["spec"]["group"] for each in both] == ["batch.paddlepaddle.org", "kubeflow.org"]
    assert printed("--crd", "--v1beta1")[0]["apiVersion"] == "apiextensions.k8s.io/v1beta1"


def test_the_operator_is_told_what_was_asked_for() -> None:
    words = ["--namespace", "ml", "--image", "registry.example/x:1", "--scheduling", "volcano", "--kubeflow"]
    made = printed(*words, "--replicas", "2", "--pull_secret", "s", "--etcd-server", "etcd:2379", "--watch", "jobs")
    (deployment,) = by_kind(made, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert deployment["metadata"]["namespace"] == "ml"
    assert deployment["spec"]["replicas"] == 2
    assert container["image"] == "registry.example/x:1"
    assert pod["imagePullSecrets"] == [{"name": "s"}]
    assert container["args"] == [
        "operator",
        "--leader-elect",
        "--metrics-bind-address=:8080",
        "--health-probe-bind-address=:8081",
        "--namespace=jobs",
        "--scheduling=volcano",
        "--etcd-server=etcd:2379",
        "--kubeflow",
    ]


def test_for_one_namespace_there_are_no_rights_beyond_it() -> None:
    made = printed("--operator", "--namespace", "ml", "--watch", "jobs", "--kubeflow", "--scheduling", "native")
    assert not [kind for kind, _ in names(made) if kind.startswith("ClusterRole")]
    places = {each["metadata"]["name"]: each["metadata"]["namespace"] for each in by_kind(made, "Role")}
    assert places.pop("paddle-leader-election-role") == "ml"
    assert set(places.values()) == {"jobs"}
    assert all(each["subjects"][0]["namespace"] == "ml" for each in by_kind(made, "RoleBinding"))


def test_rights_are_few() -> None:
    made = objects.objects(DeployOptions(has_kubeflow=True, scheduling="volcano"))
    rules = [rule for each in made for rule in each.get("rules", ())]
    assert not [rule for rule in rules if "*" in str(rule)]
    manager = [rule for each in made if "manager" in each["metadata"]["name"] for rule in each.get("rules", ())]
    touched = {resource for rule in manager for resource in rule["resources"]}
    assert not touched & {"secrets", "pods/exec", "serviceaccounts", "roles", "clusterroles", "namespaces"}
    nodes = [rule["verbs"] for rule in manager if "nodes" in rule["resources"]]
    assert nodes == [["get", "list", "watch"]]
    lease = [rule for rule in rules if "leases" in rule["resources"] and "update" in rule["verbs"]]
    assert lease[0]["resourceNames"] == ["b2a304f2.paddlepaddle.org"]


def test_the_operator_can_do_no_harm_to_its_node() -> None:
    """The profile `restricted` of pod security."""
    pod = objects.deployment(DeployOptions())["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_deleting_leaves_jobs_alone_unless_asked() -> None:
    kinds = [kind for kind, _ in names(printed("--delete"))]
    assert kinds[0] == "Deployment"
    assert not {"Namespace", "CustomResourceDefinition"} & set(kinds)
    done = deploy("--delete", "--crd")
    assert "all PaddleJobs of the cluster are deleted" in done.stderr
    kinds = [each["kind"] for each in yaml.safe_load_all(done.stdout)]
    assert kinds[-1] == "CustomResourceDefinition"
    assert "Namespace" not in kinds


def test_json_is_one_list() -> None:
    done = deploy("--json")
    made = json.loads(done.stdout)
    assert made["kind"] == "List"
    assert made["items"] == objects.objects(DeployOptions())


@pytest.mark.parametrize("words", [["--namespace", "A_b"], ["--watch", "x.y"], ["--scheduling", "slurm"]])
def test_mistakes_are_told(words: list[str]) -> None:
    done = deploy(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert words[1] in done.stderr


# ---- files


def files() -> dict[str, str]:
    return chart.files("0.1.0+local")


@pytest.mark.parametrize("path", [path for path in files() if path.endswith(".yaml") and "templates" not in path])
def test_files_are_yaml(path: str) -> None:
    assert all(yaml.safe_load_all(files()[path]))


def test_files_are_fresh_but_for_their_version() -> None:
    for path, text in files().items():
        if not path.endswith("Chart.yaml"):
            assert (ROOT / path).read_text(encoding="utf-8") == text, path


def test_no_file_in_deploy_is_left_over() -> None:
    found = {path.relative_to(ROOT).as_posix() for path in (ROOT / "deploy").rglob("*") if path.is_file()}
    by_hand = {path for path in found if path.startswith("deploy/samples/")} | {"deploy/README.md", "deploy/Dockerfile"}
    assert found - by_hand == set(files())


EXPRESSION = re.compile(r"\{\{-? *(.*?) *-?\}\}")


def rendered(text: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    """What Helm makes of the few expressions that the chart has."""
    lines: list[str] = []
    stack: list[bool] = []
    for line in text.splitlines():
        found = EXPRESSION.search(line)
        words = found[1].split() if found else []
        if words[:1] in (["if"], ["with"]):
            stack.append(_holds(words, values))
        elif words == ["end"]:
            stack.pop()
        elif all(stack):
            if words[:1] == ["toYaml"]:
                item = values["imagePullSecrets" if words[1] == "." else words[1].removeprefix(".Values.")]
                shift = " " * int(words[-1])
                lines += [shift + each for each in yaml.safe_dump(item).splitlines()]
            else:
                lines.append(EXPRESSION.sub(lambda each: _value(each[1], values), line))
    return [each for each in yaml.safe_load_all("\n".join(lines)) if each]


def _holds(words: list[str], values: dict[str, Any]) -> bool:
    if words[1] in ("eq", "ne"):
        return (values[words[2].removeprefix(".Values.")] == words[3].strip('"')) == (words[1] == "eq")
    return bool(values[words[1].removeprefix(".Values.")])


def _value(expression: str, values: dict[str, Any]) -> str:
    return "ml" if expression == ".Release.Namespace" else str(values[expression.removeprefix(".Values.")])


@pytest.mark.parametrize("scheduling", objects.SCHEDULINGS)
@pytest.mark.parametrize("kubeflow", [False, True])
def test_the_chart_says_what_the_command_says(scheduling: str, kubeflow: bool) -> None:
    values = yaml.safe_load(files()["deploy/chart/values.yaml"])
    values |= {"scheduling": scheduling, "kubeflow": kubeflow, "replicas": 2, "image": "registry.example/x:1"}
    values |= {"imagePullSecrets": [{"name": "s"}], "etcdServer": "etcd:2379"}
    made = [
        each
        for path, text in files().items()
        if "/templates/" in path and path.endswith(".yaml")
        for each in rendered(text, values)
    ]
    options = DeployOptions(
        namespace="ml",
        image="registry.example/x:1",
        pull_secrets=("s",),
        replicas=2,
        scheduling=scheduling,
        etcd="etcd:2379",
        has_kubeflow=kubeflow,
        has_crd=False,
    )
    wanted = [each for each in objects.objects(options) if each["kind"] != "Namespace"]
    assert sorted(made, key=str) == sorted(wanted, key=str)
