"""The CustomResourceDefinitions of PaddleJob, made from the tables of fields. A decider.

    resource()            batch.paddlepaddle.org/v1, for Kubernetes 1.16 and newer
    old_resource()        the same for Kubernetes 1.11 to 1.21, which serve apiextensions.k8s.io/v1beta1
    kubeflow_resource()   kubeflow.org/v1

Old fields have a type and nothing else, templates keep every field: no manifest that people have is refused. What can
never run is refused by rules (CEL) where the API server has them; ``checks`` finds the same, and more, everywhere.
"""

from __future__ import annotations

from umiak.paddlejob import job_fields, kubeflow_fields, status_fields
from umiak.paddlejob.fields import CelRule, FieldKind, ResourceField
from umiak.paddlejob.resource import GROUP, KIND, PLURAL, VERSION, JobApi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from umiak.core.json_types import JsonObject

NAME = f"{PLURAL}.{GROUP}"
KUBEFLOW_GROUP = JobApi.KUBEFLOW.value.partition("/")[0]
KUBEFLOW_NAME = f"{PLURAL}.{KUBEFLOW_GROUP}"
LONGEST_MANAGER = 63

_AGE = ("Age", "date", ".metadata.creationTimestamp", "", False)
_WIDE = (
    (
        "Workers",
        "string",
        ".status.workers",
        "Running workers, or in the end those that ended well, and how many there should be",
        True,
    ),
    ("Restarts", "integer", ".status.restarts", "Restarts that count against backoffLimit", True),
    ("Progress", "string", ".status.progress.percent", "What the job says, in percent", True),
    ("Message", "string", ".status.message", "What it waits for, or why it ended", True),
)
_COLUMNS = (
    ("Status", "string", ".status.phase", "", False),
    ("Mode", "string", ".status.mode", "", False),
    _AGE,
    *_WIDE,
)
_KUBEFLOW_COLUMNS = (("State", "string", ".status.conditions[-1:].type", "", False), _AGE, *_WIDE)
_TYPES = {
    FieldKind.TEXT: "string",
    FieldKind.INTEGER: "integer",
    FieldKind.BOOLEAN: "boolean",
    FieldKind.TIME: "string",
    FieldKind.LIST: "array",
    FieldKind.WORDS: "array",
    FieldKind.CODES: "array",
}
_ITEMS = {FieldKind.WORDS: "string", FieldKind.CODES: "integer"}
_VALUES: dict[FieldKind, JsonObject] = {
    FieldKind.TEXTS: {"type": "string"},
    FieldKind.NUMBERS: {"type": "integer"},
    FieldKind.QUANTITIES: {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
}


def resource() -> JsonObject:
    """For clusters of today."""
    schema = _whole(
        job_fields.FIELDS,
        job_fields.RULES,
        status_fields.FIELDS,
        job_fields.name_rules(),
        "A distributed training job of PaddlePaddle.",
    )
    return _definition(GROUP, "pdj", schema, _COLUMNS, ".spec.worker.replicas")


def kubeflow_resource() -> JsonObject:
    """For manifests of Kubeflow's training-operator. Its status has more fields than Kubeflow's own definition."""
    schema = _whole(
        kubeflow_fields.FIELDS,
        kubeflow_fields.RULES,
        status_fields.KUBEFLOW_FIELDS,
        (),
        "A distributed training job of PaddlePaddle, as Kubeflow's training-operator describes it.",
    )
    return _definition(KUBEFLOW_GROUP, "", schema, _KUBEFLOW_COLUMNS, ".spec.paddleReplicaSpecs.Worker.replicas")


def old_resource() -> JsonObject:
    """For API servers that know no other version of definitions: they have no rules, and keep unknown fields anyway."""
    definition = resource()
    version = definition["spec"]["versions"][0]
    return {
        **definition,
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "spec": {
            "group": GROUP,
            "version": VERSION,
            "versions": [{"name": VERSION, "served": True, "storage": True}],
            "scope": "Namespaced",
            "names": definition["spec"]["names"],
            "subresources": version["subresources"],
            "additionalPrinterColumns": [
                {"JSONPath" if key == "jsonPath" else key: item for key, item in column.items()}
                for column in version["additionalPrinterColumns"]
            ],
            "validation": {"openAPIV3Schema": _plain(version["schema"]["openAPIV3Schema"])},
        },
    }


def _definition(
    group: str, short: str, schema: JsonObject, columns: tuple[tuple[str, str, str, str, bool], ...], replicas: str
) -> JsonObject:
    names: JsonObject = {"kind": KIND, "listKind": f"{KIND}List", "plural": PLURAL, "singular": KIND.lower()}
    if short:
        names["shortNames"] = [short]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": replicas,
                            "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                    "additionalPrinterColumns": [_column(*each) for each in columns],
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def _column(name: str, kind: str, path: str, meaning: str, is_wide: bool) -> JsonObject:
    column: JsonObject = {"name": name, "type": kind, "jsonPath": path}
    if meaning:
        column["description"] = meaning
    if is_wide:
        column["priority"] = 1
    return column


def _whole(
    spec: tuple[ResourceField, ...],
    rules: tuple[CelRule, ...],
    status: tuple[ResourceField, ...],
    names: tuple[CelRule, ...],
    about: str,
) -> JsonObject:
    wanted = {"type": "object", "description": "What is wanted.", "properties": _properties(spec), **_required(spec)}
    schema = {
        "type": "object",
        "description": about,
        "properties": {
            "apiVersion": {"type": "string", "description": "Group and version of the API."},
            "kind": {"type": "string", "description": KIND},
            "metadata": {"type": "object"},
            "spec": {**wanted, **_rules(rules)},
            "status": {
                "type": "object",
                "description": "What the operator found and did. It is its only memory.",
                "properties": _properties(status),
            },
        },
    }
    return {**schema, **_rules(names)}


def _properties(fields: tuple[ResourceField, ...]) -> JsonObject:
    return {field.name: _schema(field) for field in fields}


def _required(fields: tuple[ResourceField, ...]) -> JsonObject:
    names = [field.name for field in fields if field.required]
    return {"required": names} if names else {}


def _rules(rules: tuple[CelRule, ...]) -> JsonObject:
    rows = [{"rule": each.rule, "message": each.message} for each in rules]
    return {"x-kubernetes-validations": rows} if rows else {}


def _schema(field: ResourceField) -> JsonObject:
    schema: JsonObject = {"type": _TYPES.get(field.kind, "object"), "description": _description(field)}
    if field.kind is FieldKind.TIME:
        schema["format"] = "date-time"
    elif field.kind is FieldKind.TEMPLATE:
        schema["x-kubernetes-preserve-unknown-fields"] = True
    elif field.kind is FieldKind.OBJECT:
        schema |= {"properties": _properties(field.fields), **_required(field.fields)}
    elif field.kind is FieldKind.LIST:
        schema["items"] = {"type": "object", "properties": _properties(field.fields), **_required(field.fields)}
        if field.keys:
            schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(field.keys)}
    elif field.kind in _ITEMS:
        schema["items"] = {"type": _ITEMS[field.kind], **({} if field.is_old else _limits(field))}
    elif field.kind in _VALUES:
        schema["additionalProperties"] = _VALUES[field.kind]
    if not field.is_old and field.kind not in _ITEMS:
        schema |= _limits(field)
    return {**schema, **_rules(field.rules)}


def _limits(field: ResourceField) -> JsonObject:
    limits: JsonObject = {}
    if field.least is not None:
        limits["minimum"] = field.least
    if field.most is not None:
        limits["maximum"] = field.most
    if field.is_closed:
        limits["enum"] = list(field.words)
    if field.name == "managedBy":
        limits["maxLength"] = LONGEST_MANAGER
    return limits


def _description(field: ResourceField) -> str:
    words = f" One of {', '.join(field.words)}." if field.words else ""
    default = f" Default: {field.default}." if field.default else ""
    return f"{field.meaning}{words}{default}".replace("`", "'")


def _plain(schema: Any) -> Any:
    """Without what API servers older than 1.15 do not know."""
    if isinstance(schema, dict):
        return {key: _plain(item) for key, item in schema.items() if not key.startswith("x-kubernetes-")}
    return [_plain(each) for each in schema] if isinstance(schema, list) else schema
