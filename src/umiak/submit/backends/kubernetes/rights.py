"""Whether a kubeconfig is good for submitting jobs: does the API answer, and what may this person do there? An adapter.

found = look(api, "training")
found.version, found.kind, found.missing
"""

from __future__ import annotations

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.kube.api import KubeApi

NEEDED = (
    ("", "pods", ("get", "list", "watch", "delete")),
    ("", "pods/log", ("get",)),
    ("", "secrets", ("create", "get", "patch", "delete")),
    ("", "configmaps", ("create", "get", "list", "patch", "delete")),
)
WORKLOADS = {
    "batch.paddlepaddle.org": ("paddlejob", "paddlejobs"),
    "jobset.x-k8s.io": ("jobset", "jobsets"),
    "batch": ("job", "jobs"),
}
"""By group of APIs, the first that is there: the kind of a place, and what it creates."""
VERBS = ("create", "get", "list", "delete")
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@value
class ClusterLook:
    """What there is, and what may be done."""

    version: str
    kind: str
    missing: tuple[str, ...] = ()
    """Rights in words: ``create jobs.batch``."""


def look(api: KubeApi, namespace: str) -> ClusterLook:
    """Ask a cluster. KubeRefused or KubeSilent if it does not let this person ask."""
    version = str(api.get("/version").get("gitVersion") or "unknown")
    groups = {each.get("name") for each in api.get("/apis").get("groups") or ()}
    group = next((name for name in WORKLOADS if name in groups), "batch")
    kind, plural = WORKLOADS[group]
    wanted = [*NEEDED, (group, plural, VERBS)]
    if kind == "job":
        wanted.append(("", "services", ("create", "get", "patch", "delete")))
    missing = [
        f"{verb} {resource}{f'.{each}' if each else ''}"
        for each, resource, verbs in wanted
        for verb in verbs
        if not _may(api, namespace, each, resource, verb)
    ]
    return ClusterLook(version=version, kind=kind, missing=tuple(missing))


def _may(api: KubeApi, namespace: str, group: str, resource: str, verb: str) -> bool:
    name, _, part = resource.partition("/")
    attributes = {"namespace": namespace, "verb": verb, "group": group, "resource": name}
    if part:
        attributes["subresource"] = part
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    return bool((api.create(REVIEW, body).get("status") or {}).get("allowed"))
