"""A command line of `umiak deploy` as the chart's values. A decider."""

from __future__ import annotations

from umiak.cli.deploy import values as chart_values
from umiak.cli.deploy.flags import NAMESPACE
from umiak.cli.deploy.objects import DeployOptions
from umiak.core.problem import Problem, UmiakError
from umiak.paddlejob.names import is_host_label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.schema.flags import Parsed


def options_of(parsed: Parsed) -> DeployOptions:
    """What is asked for. UmiakError with everything that is wrong."""
    problems = list(parsed.problems)
    namespace = parsed.text("namespace") or NAMESPACE
    if not is_host_label(namespace):
        hint = "use small letters, digits and hyphens, at most 63 characters"
        problems.append(Problem(code="UM-DEPLOY-001", what=f"--namespace is not a namespace: {namespace}", hint=hint))
    values = _values(parsed, problems)
    for name in ("dashboard_tls", "dashboard_host"):
        if parsed.said(name) and not parsed.truth("dashboard"):
            what = f"{parsed[name].said_as} without --dashboard"
            problems.append(Problem(code="UM-DEPLOY-044", what=what, hint="add --dashboard"))
    if parsed.said("dashboard_host") and parsed.truth("dashboard") and not parsed.said("dashboard_tls"):
        what = "--dashboard-host without --dashboard-tls"
        hint = (
            "without a certificate the dashboard is reached by `kubectl port-forward` alone: add --dashboard-tls SECRET"
        )
        problems.append(Problem(code="UM-DEPLOY-044", what=what, hint=hint))
    for each in chart_values.refusals(values):
        flag = chart_values.BY_NAME[each.value].flag.replace("_", "-")
        what = f"--{'limits' if each.path.startswith('resources.limits') else flag}: {each.what}: {each.given}"
        hint = f"it becomes {each.path} of the chart's values; `umiak deploy --help` shows the form"
        problems.append(Problem(code="UM-DEPLOY-042", what=what, hint=hint))
    UmiakError.raise_any(problems)
    only_crd, only_operator = parsed.truth("crd"), parsed.truth("operator")
    return DeployOptions(
        namespace=namespace,
        values=values,
        is_old_cluster=parsed.truth("v1beta1"),
        has_crd=only_crd or not only_operator,
        has_operator=only_operator or not only_crd or parsed.truth("delete"),
    )


def _values(parsed: Parsed, problems: list[Problem]) -> JsonObject:
    default: JsonObject = chart_values.defaults()
    resources = {
        name: {**default["resources"][name], **_pairs(parsed, name, problems)} for name in ("requests", "limits")
    }
    return {
        "image": parsed.text("image") or chart_values.IMAGE,
        "imagePullPolicy": parsed.text("pull_policy"),
        "imagePullSecrets": [{"name": each} for each in parsed.texts.get("pull_secret", ())],
        "replicas": parsed.number("replicas") or 0,
        "watchNamespaces": [name for each in parsed.texts.get("watch", ()) for name in each.split(",") if name],
        "scheduling": parsed.text("scheduling"),
        "etcdServer": parsed.text("etcd_server"),
        "kubeflow": parsed.truth("kubeflow"),
        "kueue": parsed.truth("kueue"),
        "dashboard": parsed.truth("dashboard"),
        "dashboardTls": parsed.text("dashboard_tls"),
        "dashboardHosts": [name for each in parsed.texts.get("dashboard_host", ()) for name in each.split(",") if name],
        "serviceMonitor": parsed.truth("service_monitor"),
        "warnings": parsed.truth("warnings"),
        "resources": resources,
        "nodeSelector": _pairs(parsed, "node_selector", problems),
        "tolerations": [_toleration(each) for each in parsed.texts.get("toleration", ())],
        "extraLabels": _pairs(parsed, "label", problems),
    }


def _pairs(parsed: Parsed, flag: str, problems: list[Problem]) -> dict[str, str]:
    pairs = {}
    for word in parsed.texts.get(flag, ()):
        name, sign, text = word.partition("=")
        if not sign or not name:
            what = f"--{flag.replace('_', '-')}: not a name and a value: {word}"
            hint = f"write it as {parsed[flag].flag.metavar}"
            problems.append(Problem(code="UM-DEPLOY-041", what=what, hint=hint))
        else:
            pairs[name] = text
    return pairs


def _toleration(word: str) -> dict[str, str]:
    """A taint as `kubectl taint` writes it: ``gpu=yes:NoSchedule``, ``gpu:NoSchedule``, ``gpu``."""
    pair, _, effect = word.partition(":")
    key, sign, text = pair.partition("=")
    toleration = {"key": key, "operator": "Equal", "value": text} if sign else {"key": key, "operator": "Exists"}
    return {**toleration, "effect": effect} if effect else toleration
