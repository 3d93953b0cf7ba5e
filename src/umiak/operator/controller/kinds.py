"""The kinds of objects that the operator watches and makes, and where the API has them. Values."""

from __future__ import annotations

from umiak.core.value import value
from umiak.paddlejob.resource import GROUP, PLURAL, VERSION

JOB = "PaddleJob"
POD = "Pod"
SERVICE = "Service"
CONFIG_MAP = "ConfigMap"
POD_GROUP = "PodGroup"
KUBEFLOW_GROUP = "kubeflow.org"


@value
class ServedKind:
    """One kind, as this cluster serves it."""

    kind: str
    """As actions name it: with its group where that is not the core."""
    group: str
    version: str
    plural: str

    def collection(self, namespace: str = "") -> str:
        """The path of all objects; without a namespace, of the whole cluster."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" if namespace else f"{root}/{self.plural}"

    def path(self, namespace: str, name: str, part: str = "") -> str:
        """Of one object, or of a part of it such as ``status``."""
        return f"{self.collection(namespace)}/{name}{f'/{part}' if part else ''}"


PODS = ServedKind(kind=POD, group="", version="v1", plural="pods")
SERVICES = ServedKind(kind=SERVICE, group="", version="v1", plural="services")
CONFIG_MAPS = ServedKind(kind=CONFIG_MAP, group="", version="v1", plural="configmaps")
NODES = ServedKind(kind="Node", group="", version="v1", plural="nodes")
EVENTS = ServedKind(kind="Event", group="", version="v1", plural="events")
LEASES = ServedKind(kind="Lease", group="coordination.k8s.io", version="v1", plural="leases")
JOBS = ServedKind(kind=JOB, group=GROUP, version=VERSION, plural=PLURAL)
KUBEFLOW_JOBS = ServedKind(kind=JOB, group=KUBEFLOW_GROUP, version="v1", plural=PLURAL)
CHILDREN = (PODS, SERVICES, CONFIG_MAPS)
