"""What can be said about a deployment of the operator: one table, from which the chart's values.yaml,
its schema, and the flags of `umiak deploy` are made. Values, and a decider.

    defaults()                                  {"image": "umiak-operator:latest", "replicas": 1, ...}
    refusals({"replicas": "two"})               [ValueRefusal(value="replicas", path="replicas", what="expected an integer", ...)]

The schema is a part of JSON Schema that both Helm and this module check, so that both refuse the same.
"""

from __future__ import annotations

import json
import re

from umiak.core.value import value
from umiak.submit.backends.kubernetes.yaml_text import as_yaml

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from umiak.core.json_types import JsonMapping, JsonObject

IMAGE = "umiak-operator:latest"
"""What deploy/Dockerfile makes."""
SELECTED = "control-plane"
"""The label by which the deployment knows its pods."""
GANG_GROUPS = {
    "volcano": "scheduling.volcano.sh",
    "scheduler-plugins": "scheduling.x-k8s.io",
    "native": "scheduling.k8s.io",
}
"""Gang schedulers, and where their PodGroup is."""
SCHEDULINGS = ("none", *GANG_GROUPS)
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
RESOURCES = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "300Mi"}}
"""No limit of CPU: it would slow the operator down when many jobs come at once."""

_LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
_QUALIFIED = r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
_LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"
_TOLERATED = r"^(|([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$"
_QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi)?$"
_OWN_LABELS = r"^(control-plane|app\.kubernetes\.io/name|rbac\.authorization\.k8s\.io/.*)$"
"""Names are checked by `patternProperties`: of `propertyNames` Helm tells the path of another value."""


def _text(pattern: str, means: str) -> JsonObject:
    return {"type": "string", "pattern": pattern, "description": means}


_NAME = _text(_LABEL, "a name of small letters, digits and hyphens, at most 63 characters")
_SECRET = _text(_SUBDOMAIN, "a name of small letters, digits, hyphens and dots")
_VALUE = _text(_LABEL_VALUE, "the value of a label: letters, digits, `-`, `_` and `.`, at most 63 characters")
_NUMBERS = {
    "type": "object",
    "additionalProperties": {
        "type": ["string", "number"],
        "pattern": _QUANTITY,
        "minimum": 0,
        "description": "a quantity of Kubernetes, as in 500m or 1Gi",
    },
}


@value
class ChartValue:
    """One value."""

    name: str
    default: Any
    meaning: str
    schema: JsonMapping
    flag: str
    """Of `umiak deploy`."""


@value
class ValueRefusal:
    """What is wrong with a value."""

    value: str
    path: str
    what: str
    given: Any


def _row(name: str, default: object, meaning: str, schema: JsonMapping, *, flag: str = "") -> ChartValue:
    """A value whose flag is called as it is, unless the row says otherwise."""
    flag = flag or re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
    return ChartValue(name=name, default=default, meaning=meaning, schema=schema, flag=flag)


VALUES = (
    _row("image", IMAGE, "Image that has umiak; deploy/Dockerfile makes one.", _text(r"^\S+$", "the name of an image")),
    _row(
        "imagePullPolicy",
        "IfNotPresent",
        "When nodes pull the image.",
        {"enum": list(PULL_POLICIES)},
        flag="pull_policy",
    ),
    _row(
        "imagePullSecrets",
        [],
        "Secrets with the credentials of the image's registry.",
        {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": _SECRET},
                "required": ["name"],
                "additionalProperties": False,
            },
        },
        flag="pull_secret",
    ),
    _row(
        "replicas",
        1,
        "Operators; one of them acts, the others wait to take over. Two or more are put on different nodes where possible, "
        "and a PodDisruptionBudget (Kubernetes 1.21) lets drained nodes take one at a time.",
        {"type": "integer", "minimum": 0, "maximum": 100},
    ),
    _row(
        "watchNamespaces",
        [],
        "Serve jobs of these namespaces only, with rights in them alone. They must exist. Default: all namespaces.",
        {"type": "array", "items": _NAME, "uniqueItems": True},
        flag="watch",
    ),
    _row("scheduling", "none", "Gang scheduler of the cluster.", {"enum": list(SCHEDULINGS)}),
    _row(
        "etcdServer",
        "",
        "etcd of elastic jobs as host:port. Default: jobs bring their own meeting point.",
        _text(r"^\S*$", "an address without spaces"),
    ),
    _row(
        "kubeflow",
        False,
        "Serve kubeflow.org/v1 PaddleJobs as well. Their definition is deploy/crd-kubeflow.yaml.",
        {"type": "boolean"},
    ),
    _row(
        "kueue",
        False,
        "Let jobs with the label kueue.x-k8s.io/queue-name wait in that queue of Kueue, which the cluster must have.",
        {"type": "boolean"},
    ),
    _row(
        "dashboard",
        False,
        "A dashboard of the cluster's PaddleJobs, where each viewer sees what the viewer's own token may see; it has no rights itself. "
        "Reach it with `kubectl port-forward deployment/paddle-dashboard 8200`, or through a Service with dashboardTls. Needs Kubernetes 1.20.",
        {"type": "boolean"},
    ),
    _row(
        "dashboardTls",
        "",
        "Secret with tls.crt and tls.key. With it the dashboard has a Service, and is served to the network.",
        _text(_SUBDOMAIN[:-1].replace("^", "^(") + ")?$", "the name of a Secret"),
        flag="dashboard_tls",
    ),
    _row(
        "dashboardHosts",
        [],
        "Names under which browsers ask for the dashboard, beside those of its Service.",
        {"type": "array", "items": _SECRET, "uniqueItems": True},
        flag="dashboard_host",
    ),
    _row(
        "serviceMonitor",
        False,
        "A ServiceMonitor, so that prometheus-operator, which the cluster must have, reads the metrics.",
        {"type": "boolean"},
    ),
    _row(
        "warnings",
        False,
        "Let the API server warn of misspelt fields when a job is written: a ValidatingAdmissionPolicy, which Kubernetes 1.30 and newer have. "
        "The chart leaves it out on older clusters.",
        {"type": "boolean"},
    ),
    _row(
        "resources",
        RESOURCES,
        "What the operator's container asks for, and at most gets.",
        {
            "type": "object",
            "properties": {"requests": _NUMBERS, "limits": _NUMBERS},
            "additionalProperties": False,
        },
        flag="requests",
    ),
    _row(
        "nodeSelector",
        {},
        "Labels that the operator's nodes must have.",
        {"type": "object", "patternProperties": {_QUALIFIED: _VALUE}, "additionalProperties": False},
    ),
    _row(
        "tolerations",
        [],
        "Taints of nodes that the operator tolerates.",
        {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "key": _text(_TOLERATED, "the key of a taint"),
                    "operator": {"enum": ["Exists", "Equal"]},
                    "value": _VALUE,
                    "effect": {"enum": list(EFFECTS)},
                    "tolerationSeconds": {"type": "integer", "minimum": 0},
                },
                "additionalProperties": False,
            },
        },
        flag="toleration",
    ),
    _row(
        "extraLabels",
        {},
        "Further labels of everything but the definitions, as some Prometheus wants them of a ServiceMonitor.",
        {
            "type": "object",
            "patternProperties": {_OWN_LABELS: False, _QUALIFIED: _VALUE},
            "additionalProperties": False,
        },
        flag="label",
    ),
)
BY_NAME = {each.name: each for each in VALUES}


def defaults() -> JsonObject:
    """Every value as it is if nobody says anything."""
    return {each.name: each.default for each in VALUES}


def values_yaml() -> str:
    """values.yaml of the chart."""
    parts = [f"# {each.meaning}{_words(each)}\n{as_yaml({each.name: each.default})}" for each in VALUES]
    return "\n".join(parts)


def schema() -> str:
    """values.schema.json of the chart. A chart above this one may say ``global`` to all."""
    properties = {each.name: {"description": each.meaning, **each.schema} for each in VALUES}
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart umiak-operator",
        "type": "object",
        "properties": {**properties, "global": {"type": "object"}},
        "additionalProperties": False,
    }
    return json.dumps(schema, indent=2) + "\n"


def refusals(values: JsonMapping) -> list[ValueRefusal]:
    """Everything that the schema does not allow."""
    refusals = []
    for name, item in values.items():
        for path, what, given in _refused(BY_NAME[name].schema, item, name):
            refusals.append(ValueRefusal(value=name, path=path, what=what, given=given))
    return refusals


def _words(each: ChartValue) -> str:
    choices = each.schema.get("enum")
    return f" One of {', '.join(choices)}." if choices else ""


_TYPES = {
    "object": (dict, "a mapping"),
    "array": (list, "a list"),
    "string": (str, "text"),
    "boolean": (bool, "a boolean"),
    "integer": (int, "an integer"),
    "number": ((int, float), "a number"),
}


def _refused(schema: JsonMapping, item: Any, path: str) -> Iterator[tuple[str, str, Any]]:
    if "enum" in schema and item not in schema["enum"]:
        yield path, f"expected one of {', '.join(schema['enum'])}", item
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(kind, item) for kind in kinds):
        yield path, f"expected {' or '.join(_TYPES[kind][1] for kind in kinds)}", item
        return
    yield from _refused_scalar(schema, item, path)
    if isinstance(item, dict):
        yield from _refused_entries(schema, item, path)
    if isinstance(item, list):
        if schema.get("uniqueItems") and len(set(map(str, item))) < len(item):
            yield path, "the same item twice", item
        for number, each in enumerate(item):
            yield from _refused(schema.get("items", {}), each, f"{path}[{number}]")


def _refused_scalar(schema: JsonMapping, item: Any, path: str) -> Iterator[tuple[str, str, Any]]:
    if "pattern" in schema and isinstance(item, str) and not re.fullmatch(schema["pattern"], item):
        yield path, f"expected {schema.get('description', 'another text')}", item
    if isinstance(item, (int, float)) and not isinstance(item, bool):
        if item < schema.get("minimum", item):
            yield path, f"less than {schema['minimum']}", item
        if item > schema.get("maximum", item):
            yield path, f"more than {schema['maximum']}", item


def _refused_entries(schema: JsonMapping, item: JsonMapping, path: str) -> Iterator[tuple[str, str, Any]]:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    for name in schema.get("required", ()):
        if name not in item:
            yield path, f"{name} is missing", dict(item)
    for key, each in item.items():
        matching = [known[key]] if key in known else []
        matching += [part for name, part in schema.get("patternProperties", {}).items() if re.fullmatch(name, key)]
        for part in matching or [others]:
            if part is not False:
                yield from _refused(part, each, f"{path}.{key}")
            elif matching:
                yield f"{path}.{key}", "the operator uses this one itself", key
            else:
                choices = f", expected one of {', '.join(known)}" if known else ""
                yield f"{path}.{key}", f"not a name that can stand here{choices}", key


def _is(kind: str, item: Any) -> bool:
    wanted = _TYPES[kind][0]
    return isinstance(item, wanted) and (kind == "boolean" or not isinstance(item, bool))  # type: ignore[arg-type]
