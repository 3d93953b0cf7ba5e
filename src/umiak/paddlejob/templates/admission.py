"""Warnings that an API server gives when a PaddleJob is written: a ValidatingAdmissionPolicy that refuses nothing.
A decider.

What the definition of PaddleJob does not have, API servers tell by themselves. Templates keep every field, so that
nobody would tell of ``contaners`` or ``resorces``: this policy does, from the table of
`paddlejob.templates.pod_fields`. It needs Kubernetes 1.30 and no webhook.
"""

from __future__ import annotations

from umiak.paddlejob.job_fields import MISSPELLED
from umiak.paddlejob.resource import PLURAL, VERSION, JobApi
from umiak.paddlejob.templates.pod_fields import RELEASE, TYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.core.json_types import JsonObject

NAME = "paddlejob-warnings"
SINCE = "1.30"
"""The first release of Kubernetes that has such policies."""
API = "admissionregistration.k8s.io/v1"
ROLES = ("ps", "worker", "heter", "Master", "Worker")
_IN_CONTAINERS = (
    ("resources", False),
    ("securityContext", False),
    ("env", True),
    ("envFrom", True),
    ("ports", True),
    ("volumeMounts", True),
)
"""Parts of containers that are looked into, and whether they are lists."""


def objects() -> list[JsonObject]:
    """The policy, and its binding to all namespaces."""
    groups = [api.value.partition("/")[0] for api in JobApi]
    rule = {
        "apiGroups": groups,
        "apiVersions": [VERSION],
        "operations": ["CREATE", "UPDATE"],
        "resources": [PLURAL],
    }
    policy = {
        "apiVersion": API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Ignore",
            "matchConstraints": {"resourceRules": [rule]},
            "variables": _variables(),
            "validations": [*_misspelled(), *_unknown()],
        },
    }
    binding = {
        "apiVersion": API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": NAME},
        "spec": {"policyName": NAME, "validationActions": ["Warn"]},
    }
    return [policy, binding]


def _misspelled() -> list[dict[str, str]]:
    return [
        {
            "expression": f"!has(object.spec) || !has(object.spec.{wrong})",
            "message": f"spec.{wrong} has no effect: did you mean {right}?",
        }
        for wrong, right in MISSPELLED.items()
    ]


def _unknown() -> list[dict[str, str]]:
    about = f"Kubernetes {RELEASE} does not have these fields of pods, are they misspelt?"
    return [
        {
            "expression": f"variables.{name} == ''",
            "messageExpression": f"'{about} ' + variables.{name}",
            "message": about,
        }
        for name in ("inTemplates", "inContainers")
    ]


def _variables() -> list[dict[str, str]]:
    template = "variables.holder[r].template"
    spec, metadata = f"{template}.spec", f"{template}.metadata"
    parts = [
        _keys(template, "PodTemplateSpec", ""),
        _if(metadata, _keys(metadata, "ObjectMeta", ".metadata")),
        _if(spec, _keys(spec, "PodSpec", ".spec")),
    ]
    lists = [_if(spec, _if(f"{spec}.{name}", f"{spec}.{name}")) for name in ("containers", "initContainers")]
    each = f"({' + '.join(lists)}).map(c, {_joined(' + '.join(_in_container()))})"
    return [
        {
            "name": "holder",
            "expression": "has(object.spec.paddleReplicaSpecs) ? object.spec.paddleReplicaSpecs : object.spec",
        },
        {
            "name": "roles",
            "expression": f"{_listed(ROLES)}.filter(r, r in variables.holder && has(variables.holder[r].template))",
        },
        {"name": "inTemplates", "expression": _all(f"variables.roles.map(r, {_joined(' + '.join(parts))})")},
        {"name": "inContainers", "expression": _all(f"variables.roles.map(r, {_all(each)})")},
    ]


def _in_container() -> list[str]:
    """Lists of unknown fields in the container ``c`` of the role ``r``."""
    path = ".spec.containers[]"
    rules = [_keys("c", "Container", path)]
    for name, is_list in _IN_CONTAINERS:
        kind = TYPES["Container"][name]
        if is_list:
            texts = f"c.{name}.map(e, {_joined(_keys('e', kind, f'{path}.{name}[]'))}).filter(t, t != '')"
        else:
            texts = _keys(f"c.{name}", kind, f"{path}.{name}")
        rules.append(_if(f"c.{name}", texts))
    return rules


def _keys(where: str, kind: str, path: str) -> str:
    """A list of the fields there that are not of this type, each behind the path to it."""
    return f"{where}.filter(k, !(k in {_listed(sorted(TYPES[kind]))})).map(k, r + '.template{path}.' + k)"


def _if(where: str, items: str) -> str:
    return f"(has({where}) ? {items} : [])"


def _joined(items: str) -> str:
    return f"({items}).join(', ')"


def _all(texts: str) -> str:
    """Texts of which some are empty, as one."""
    return f"{texts}.filter(t, t != '').join(', ')"


def _listed(words: Sequence[str]) -> str:
    return "[" + ", ".join([f"'{word}'" for word in words]) + "]"
