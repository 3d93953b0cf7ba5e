"""`umiak deploy` and the files of deploy/: names of the old manifests, few rights, and a chart that says the same."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT
from umiak.cli.deploy import chart, flags, objects, values
from umiak.cli.deploy.objects import DeployOptions
from umiak.cli.main import main
from umiak.core.value import value


@value
class Done:
    """A command that has ended."""

    returncode: int
    stdout: str
    stderr: str


def deploy(*words: str) -> Done:
    out, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
        status = main(["deploy", *words])
    return Done(returncode=status, stdout=out.getvalue(), stderr=told.getvalue())


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
        ("Service", "paddle-controller-manager-metrics"),
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
    made = printed(
        *words, "--replicas", "2", "--pull_secret", "s", "--etcd-server", "etcd:2379", "--watch", "jobs", "lab"
    )
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
        "--namespace=jobs,lab",
        "--scheduling=volcano",
        "--etcd-server=etcd:2379",
        "--kubeflow",
    ]


def test_for_some_namespaces_there_are_no_rights_beyond_them() -> None:
    words = ["--operator", "--namespace", "ml", "--watch", "jobs,lab", "--kubeflow", "--scheduling", "native"]
    made = printed(*words)
    assert not [kind for kind, _ in names(made) if kind.startswith("ClusterRole")]
    places: dict[str, list[str]] = {}
    for each in by_kind(made, "Role"):
        places.setdefault(each["metadata"]["name"], []).append(each["metadata"]["namespace"])
    assert places.pop("paddle-leader-election-role") == ["ml"]
    assert set(places) == {"paddle-manager-role", "paddle-manager-gang-role", "paddle-manager-kubeflow-role"}
    assert all(found == ["jobs", "lab"] for found in places.values())
    assert all(each["subjects"][0]["namespace"] == "ml" for each in by_kind(made, "RoleBinding"))
    assert not [rule for each in by_kind(made, "Role") for rule in each["rules"] if "nodes" in rule["resources"]]


def test_with_kueue_an_operator_of_some_namespaces_reads_flavors_by_name_and_no_more() -> None:
    made = printed("--operator", "--namespace", "ml", "--watch", "jobs,lab", "--kueue")
    (role,) = by_kind(made, "ClusterRole")
    (binding,) = by_kind(made, "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == role["metadata"]["name"] == "paddle-manager-kueue-classes-role-ml"
    assert binding["metadata"]["name"] == "paddle-manager-kueue-classes-rolebinding-ml"
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get"}
    roles = [each for each in by_kind(made, "Role") if each["metadata"]["name"] == "paddle-manager-kueue-role"]
    assert [each["metadata"]["namespace"] for each in roles] == ["jobs", "lab"]
    rules = {resource: rule["verbs"] for rule in roles[0]["rules"] for resource in rule["resources"]}
    assert {"get", "list", "watch", "create", "update", "patch", "delete"} == set(rules["workloads"])
    assert "patch" in rules["workloads/status"]
    (deployment,) = by_kind(made, "Deployment")
    assert "--kueue" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert not [rule for each in printed("--operator") for rule in each.get("rules", ()) if "kueue" in str(rule)]


def test_the_api_server_warns_if_asked_for() -> None:
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    assert not [each for each in printed("--operator") if each["kind"] in kinds], "clusters before 1.30 would refuse it"
    policy, binding = (by_kind(printed("--operator", "--warnings", "--namespace", "ml"), kind)[0] for kind in kinds)
    assert policy["metadata"]["name"] == binding["spec"]["policyName"] == "paddlejob-warnings-ml"
    assert policy["spec"]["failurePolicy"] == "Ignore"
    assert binding["spec"] == {"policyName": "paddlejob-warnings-ml", "validationActions": ["Warn"]}
    (binding,) = by_kind(printed("--operator", "--warnings", "--watch", "jobs,lab"), kinds[1])
    (place,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert place == {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["jobs", "lab"]}


def test_metrics_have_a_service_and_a_monitor_if_asked_for() -> None:
    made = printed("--operator", "--service-monitor", "--label", "release=prometheus")
    (service,) = by_kind(made, "Service")
    (monitor,) = by_kind(made, "ServiceMonitor")
    (deployment,) = by_kind(made, "Deployment")
    template = deployment["spec"]["template"]
    ports = {each["name"]: each["containerPort"] for each in template["spec"]["containers"][0]["ports"]}
    assert {each["targetPort"]: each["port"] for each in service["spec"]["ports"]} == ports
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] in ports
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert not by_kind(printed("--operator"), "ServiceMonitor")


def test_the_dashboard_has_no_rights_and_is_reached_by_port_forward_alone() -> None:
    assert not [each for each in printed("--operator") if "dashboard" in each["metadata"]["name"]]
    made = printed("--operator", "--dashboard", "--watch", "jobs,lab", "--kubeflow")
    own = [each for each in made if each["metadata"]["name"].startswith("paddle-dashboard")]
    assert [each["kind"] for each in own] == ["ServiceAccount", "Deployment"]
    bound = [each for each in made if each["kind"].endswith("Binding")]
    assert {each["name"] for binding in bound for each in binding["subjects"]} == {objects.ACCOUNT}
    pod = own[1]["spec"]["template"]["spec"]
    assert own[0]["automountServiceAccountToken"] is pod["automountServiceAccountToken"] is False
    assert pod["volumes"] == [{"name": "authority", "configMap": {"name": "kube-root-ca.crt"}}]
    (container,) = pod["containers"]
    flags = ["--port=8200", "--health-port=8081", "--namespace=jobs,lab", "--kubeflow"]
    assert container["args"] == ["dashboard", "--cluster", *flags], "it listens at loopback"
    (operator,) = [each for each in by_kind(made, "Deployment") if each["metadata"]["name"] == objects.DEPLOYMENT]
    assert pod["securityContext"] == operator["spec"]["template"]["spec"]["securityContext"]
    selector = own[1]["spec"]["selector"]["matchLabels"]
    assert not operator["spec"]["selector"]["matchLabels"].items() <= selector.items(), (
        "no Service takes one for the other"
    )


def test_with_a_certificate_the_dashboard_has_a_service() -> None:
    words = ["--dashboard-tls", "page", "--dashboard-host", "page.example.com,umiak"]
    made = printed("--operator", "--namespace", "ml", "--dashboard", *words)
    (service,) = [each for each in by_kind(made, "Service") if each["metadata"]["name"] == objects.DASHBOARD]
    (deployment,) = [each for each in by_kind(made, "Deployment") if each["metadata"]["name"] == objects.DASHBOARD]
    pod = deployment["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert pod["spec"]["volumes"][1] == {"name": "tls", "secret": {"secretName": "page"}}
    (container,) = pod["spec"]["containers"]
    hosts = [each.partition("=")[2] for each in container["args"] if each.startswith("--allowed-hosts=")]
    names = ["paddle-dashboard", "paddle-dashboard.ml", "paddle-dashboard.ml.svc", "page.example.com,umiak"]
    assert hosts == names
    assert service["spec"]["ports"][0]["targetPort"] in [each["name"] for each in container["ports"]]


def test_what_is_printed_for_the_dashboard_is_a_command_line_of_it() -> None:
    from umiak.cli.dashboard.asked import allowed_hosts
    from umiak.cli.dashboard.flags import DASHBOARD_FLAGS
    from umiak.schema import command_line

    words = ["--watch", "a", "--dashboard", "--dashboard-tls", "page", "--dashboard-host", "page.example.com"]
    (deployment,) = [
        each for each in by_kind(printed(*words), "Deployment") if each["metadata"]["name"] == objects.DASHBOARD
    ]
    _, *said = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    parsed = command_line.parse(DASHBOARD_FLAGS, said, {}, command="umiak dashboard", starts_program=False)
    assert (parsed.problems, parsed.truth("cluster"), parsed.number("health_port")) == ((), True, 8081)
    assert len(allowed_hosts(parsed)) == 4


@pytest.mark.parametrize(
    "words",
    [["--dashboard-tls", "x"], ["--dashboard-host", "x"], ["--dashboard", "--dashboard-host", "x"]],
)
def test_a_flag_of_the_dashboard_is_never_without_effect(words: list[str]) -> None:
    done = deploy(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "UM-DEPLOY-044" in done.stderr


def test_several_operators_are_kept_apart_and_one_stays() -> None:
    for replicas, several in (("1", False), ("2", True)):
        made = printed("--operator", "--replicas", replicas)
        (deployment,) = by_kind(made, "Deployment")
        assert ("affinity" in deployment["spec"]["template"]["spec"]) is several
        budgets = by_kind(made, "PodDisruptionBudget")
        assert bool(budgets) is several
        for budget in budgets:
            assert budget["apiVersion"] == "policy/v1"
            assert budget["spec"] == {"maxUnavailable": 1, "selector": deployment["spec"]["selector"]}
    (old,) = by_kind(printed("--operator", "--replicas", "2", "--v1beta1"), "PodDisruptionBudget")
    assert old["apiVersion"] == "policy/v1beta1"


def test_the_pod_goes_where_it_is_told() -> None:
    words = ["--node-selector", "pool=system", "--toleration", "gpu=yes:NoSchedule", "spot", "--limits", "memory=1Gi"]
    made = printed("--operator", *words, "--label", "example.com/team=ml", "--pull-policy", "Always")
    (deployment,) = by_kind(made, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"pool": "system"}
    assert pod["tolerations"] == [
        {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists"},
    ]
    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": "100m", "memory": "128Mi"},
        "limits": {"memory": "1Gi"},
    }
    assert pod["containers"][0]["imagePullPolicy"] == "Always"
    assert all(each["metadata"]["labels"]["example.com/team"] == "ml" for each in made)
    assert deployment["spec"]["template"]["metadata"]["labels"]["example.com/team"] == "ml"
    assert "example.com/team" not in deployment["spec"]["selector"]["matchLabels"]


def test_rights_are_few() -> None:
    made = objects.objects(DeployOptions(values={"kubeflow": True, "scheduling": "volcano"}))
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


@pytest.mark.parametrize(
    "words",
    [
        ["--namespace", "A_b"],
        ["--watch", "x.y"],
        ["--watch", "a,a"],
        ["--scheduling", "slurm"],
        ["--label", "team"],
        ["--label", "control-plane=mine"],
        ["--limits", "memory=much"],
        ["--toleration", "gpu:Never"],
        ["--node-selector", "a b=c"],
        ["--pull-secret", "A"],
        ["--dashboard-tls", "A_b", "--dashboard"],
    ],
)
def test_mistakes_are_told(words: list[str]) -> None:
    done = deploy(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert words[0] in done.stderr
    assert any(part in done.stderr for part in re.split("[=:,]", words[1]))


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


def test_values_and_their_schema_are_one_table() -> None:
    told = yaml.safe_load(files()["deploy/chart/values.yaml"])
    schema = json.loads(files()["deploy/chart/values.schema.json"])
    assert told == values.defaults()
    assert set(schema["properties"]) == {*told, "global"}
    assert schema["additionalProperties"] is False
    assert values.refusals(told) == []
    assert {each.flag for each in values.VALUES} <= {each.name for each in flags.FLAGS}


def test_a_directory_for_kustomize(tmp_path: Path) -> None:
    there = tmp_path / "new" / "base"
    done = deploy("--kustomize", str(there), "--replicas", "2")
    assert (done.returncode, done.stdout) == (0, "")
    named = yaml.safe_load((there / "kustomization.yaml").read_text())["resources"]
    assert sorted(path.name for path in there.iterdir()) == sorted([*named, "kustomization.yaml"])
    made = [each for name in named for each in yaml.safe_load_all((there / name).read_text())]
    assert made == printed("--replicas", "2")
    assert deploy("--kustomize", str(tmp_path / "crd"), "--crd").returncode == 0
    assert yaml.safe_load((tmp_path / "crd" / "kustomization.yaml").read_text())["resources"] == ["crd.yaml"]
    (tmp_path / "file").touch()
    done = deploy("--kustomize", str(tmp_path / "file"))
    assert done.returncode == 3
    assert "UM-DEPLOY-043" in done.stderr
