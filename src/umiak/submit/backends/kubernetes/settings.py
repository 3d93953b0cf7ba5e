"""What a place in umiak.toml says about a Kubernetes cluster, with every key that it may have. A decider.

[place.prod]
backend = "kubernetes"
context = "prod"
namespace = "training"
image = "registry.example/paddle:3.3"

[place.prod.volumes.data]
pvc = "datasets"
mount = "/data"
"""

from __future__ import annotations

import re
from enum import Enum

from umiak.core.devices import DeviceKind
from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.schema import kinds, sections
from umiak.schema.findings import Findings
from umiak.schema.keys import BadValue, Key, Kind, WrongType, words
from umiak.schema.kinds import word_of
from umiak.schema.sections import UnknownKeys
from umiak.schema.yaml_tree import Listing, Scalar, Section, shortened
from umiak.submit.job_keys import SIZE, SPAN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.sections import Said
    from umiak.schema.yaml_tree import Node
    from umiak.submit.places import NamedPlace

PAGE = "docs/how-to/submit-kubernetes.md"
UNKNOWN = UnknownKeys(
    page=PAGE, short={"ns": "namespace", "pull_secrets": "image_pull_secrets", "sa": "service_account"}
)
GRACE_S = 30
REQUEST_TIMEOUT_S = 30
VOLCANO, KUEUE = "volcano", "kueue"

RESOURCES = {
    DeviceKind.GPU: "nvidia.com/gpu",
    DeviceKind.NPU: "huawei.com/Ascend910",
    DeviceKind.XPU: "kunlunxin.com/xpu",
    DeviceKind.DCU: "hygon.com/dcu",
}
"""What a cluster's device plug-in calls each kind of accelerator, where a place says nothing else."""

OTHER_RESOURCES = (
    ("gpu", "amd.com/gpu", "AMD's device plug-in"),
    ("npu", "huawei.com/ascend-1980", "Huawei CCE's add-on, cards of the 910 class"),
    ("npu", "huawei.com/Ascend910B", "Ascend plug-ins that name the chip"),
    ("xpu", "baidu.com/xpu", "Kunlun's older plug-in"),
    ("gpu", "baidu.com/a100_80g_cgpu", "Baidu CCE: the card's name, then _cgpu"),
    ("dcu", "hygon.com/dcunum", "HAMi"),
)
"""Other names that are in use, for the documentation."""

_LABEL = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?\Z")
_DNS_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?\Z")


class WorkloadKind(str, Enum):
    """What a job is made into."""

    PADDLEJOB = "paddlejob"
    JOBSET = "jobset"
    JOB = "job"


@value
class KubeVolume:
    """Something that is mounted into every pod. One of the four sources is set."""

    name: str
    mount: str
    pvc: str = ""
    host_path: str = ""
    nfs: str = ""
    """``server:/path``"""
    config_map: str = ""
    sub_path: str = ""
    read_only: bool = False


@value
class KubeToleration:
    """A taint that pods put up with."""

    key: str = ""
    value: str = ""
    """Empty: whatever the taint's value is."""
    effect: str = ""
    """Empty: every effect."""


@value
class KubeSettings:
    """One cluster, as its place describes it."""

    context: str = ""
    kubeconfig: str = ""
    namespace: str = ""
    kind: WorkloadKind | None = None
    """None: what the cluster has."""
    image: str = ""
    pull_policy: str = ""
    image_pull_secrets: tuple[str, ...] = ()
    python: str = "python3"
    scheduler: str = ""
    queue: str = ""
    priority_class: str = ""
    service_account: str = ""
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[KubeToleration, ...] = ()
    volumes: tuple[KubeVolume, ...] = ()
    shared_memory_bytes: int = 0
    device: DeviceKind = DeviceKind.GPU
    resources: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    ttl_s: int | None = None
    grace_s: int = GRACE_S
    files_url: str = ""
    etcd: str = ""
    request_timeout_s: int = REQUEST_TIMEOUT_S

    def resource_of(self, kind: DeviceKind | None) -> str:
        """The cluster's name for a kind of accelerator."""
        wanted = kind or self.device
        return dict(self.resources).get(wanted.value) or RESOURCES[wanted]


def _texts(_: Key, node: Node) -> tuple[tuple[str, str], ...]:
    if not isinstance(node, Section):
        raise WrongType
    for entry in node.entries:
        if not isinstance(entry.node, Scalar) or entry.node.data is None:
            raise BadValue(f"{shortened(entry.key)} has a value that is no text")
        if not _LABEL.match(entry.key):
            raise BadValue(f"not a name that Kubernetes takes: {shortened(entry.key) or 'nothing'}")
    return tuple((entry.key, _text_of(entry.node)) for entry in node.entries)


def _text_of(node: Node) -> str:
    assert isinstance(node, Scalar)
    return node.data if isinstance(node.data, str) else node.text


def _labels(key: Key, node: Node) -> tuple[tuple[str, str], ...]:
    found = _texts(key, node)
    for name, text in found:
        if not _LABEL_VALUE.match(text):
            raise BadValue(
                f"{name}: not a value of a label: {shortened(text)}",
                hint="use up to 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends",
            )
    return found


def _resources(key: Key, node: Node) -> tuple[tuple[str, str], ...]:
    found = _texts(key, node)
    for kind, name in found:
        if kind not in words(DeviceKind):
            raise BadValue(f"not a kind of accelerator: {kind}", hint=f"it is one of {', '.join(words(DeviceKind))}")
        if "/" not in name or not _LABEL.match(name):
            raise BadValue(
                f"{kind}: not the name of a resource: {shortened(name)}", hint=f"as in {RESOURCES[DeviceKind(kind)]}"
            )
    return found


def _dns_name(_: Key, node: Node) -> str:
    text = word_of(node).strip()
    if not _DNS_NAME.match(text):
        raise BadValue(
            f"not a name that Kubernetes takes: {shortened(text)}", hint="lower-case letters, digits, `-` and `.`"
        )
    return text


LABELS = Kind(phrase="a table from names to texts", read=_labels)
TEXTS = Kind(phrase="a table from names to texts", read=_texts)
DEVICE_RESOURCES = Kind(phrase="a table from kinds of accelerators to names of resources", read=_resources)
DNS_NAME = Kind(phrase="a name that Kubernetes takes", read=_dns_name)

KEYS = (
    Key(name="context", meaning="Context of the kubeconfig.", kind=kinds.TEXT, default_said="its current context"),
    Key(
        name="kubeconfig",
        meaning="Path of the kubeconfig.",
        kind=kinds.PATH,
        default_said="`KUBECONFIG`, else `~/.kube/config`; in a pod its service account",
    ),
    Key(
        name="namespace", meaning="Namespace of the jobs.", kind=DNS_NAME, default_said="the context's, else `default`"
    ),
    Key(
        name="kind",
        meaning="What a job is made into: a PaddleJob, a JobSet, or Indexed Jobs.",
        kind=kinds.CHOICE,
        choices=words(WorkloadKind),
        default_said="the first of the three that the cluster has",
    ),
    Key(name="image", meaning="Image of jobs that name none.", kind=kinds.TEXT),
    Key(
        name="pull_policy",
        meaning="When nodes pull the image.",
        kind=kinds.CHOICE,
        choices=("Always", "IfNotPresent", "Never"),
        default_said="the cluster decides",
    ),
    Key(name="image_pull_secrets", meaning="Secrets of the namespace with passwords of registries.", kind=kinds.NAMES),
    Key(name="python", meaning="Python of the image, 3.10 or newer.", kind=kinds.TEXT, default="python3"),
    Key(
        name="scheduler",
        meaning="`volcano` (starts all pods of a job or none), `kueue`, or another scheduler's name.",
        kind=kinds.TEXT,
        default_said="the cluster's own",
    ),
    Key(name="queue", meaning="Queue of Volcano or Kueue.", kind=DNS_NAME),
    Key(name="priority_class", meaning="Priority class of the pods.", kind=DNS_NAME),
    Key(name="service_account", meaning="Service account of the pods.", kind=DNS_NAME),
    Key(name="node_selector", meaning="Labels that nodes must have.", kind=LABELS),
    Key(
        name="tolerations",
        meaning="Taints that pods tolerate: a list of tables with `key`, `value` and `effect`.",
        kind=kinds.SECTIONS,
    ),
    Key(
        name="volumes",
        meaning="What every pod has mounted: tables with `mount` and one of `pvc`, `host_path`, `nfs`, `config_map`.",
        kind=kinds.MAPPING,
    ),
    Key(
        name="shared_memory",
        meaning="Size of `/dev/shm` for jobs that say none.",
        kind=SIZE,
        default_said="the runtime decides, often 64 MiB",
    ),
    Key(
        name="device",
        meaning="Kind of accelerator of jobs that ask for any.",
        kind=kinds.CHOICE,
        choices=words(DeviceKind),
        default=DeviceKind.GPU.value,
    ),
    Key(name="resources", meaning="The cluster's name for a kind of accelerator.", kind=DEVICE_RESOURCES),
    Key(name="labels", meaning="Further labels of everything that is created.", kind=LABELS),
    Key(name="annotations", meaning="Further annotations of everything that is created.", kind=TEXTS),
    Key(
        name="ttl",
        meaning="Time after which the cluster deletes a finished job.",
        kind=SPAN,
        default_said="never",
    ),
    Key(
        name="grace",
        meaning="Time for pods to end when the cluster stops them.",
        kind=SPAN,
        default_said=f"{GRACE_S} s",
    ),
    Key(
        name="files_url",
        meaning="Storage for files of jobs that are too large for a ConfigMap, as in `s3://bucket/files`.",
        kind=kinds.TEXT,
    ),
    Key(
        name="etcd",
        meaning="Address of an etcd, for elastic jobs as a PaddleJob; umiak's operator needs none.",
        kind=kinds.TEXT,
    ),
    Key(
        name="request_timeout",
        meaning="Time for an answer of the cluster's API.",
        kind=SPAN,
        default_said=f"{REQUEST_TIMEOUT_S} s",
    ),
)
VOLUME_KEYS = (
    Key(name="mount", meaning="Where pods see it.", kind=kinds.PATH, required=True),
    Key(name="pvc", meaning="Name of a PersistentVolumeClaim.", kind=DNS_NAME),
    Key(name="host_path", meaning="Directory of the nodes.", kind=kinds.PATH),
    Key(name="nfs", meaning="Server and path, as in `10.0.0.9:/export`.", kind=kinds.TEXT),
    Key(name="config_map", meaning="Name of a ConfigMap.", kind=DNS_NAME),
    Key(name="sub_path", meaning="Path inside of it.", kind=kinds.PATH),
    Key(name="read_only", meaning="Mount it read-only.", kind=kinds.TRUTH, default=False),
)
TOLERATION_KEYS = (
    Key(name="key", meaning="The taint's key; none: every taint.", kind=kinds.TEXT),
    Key(name="value", meaning="The taint's value; none: any.", kind=kinds.TEXT),
    Key(
        name="effect",
        meaning="The taint's effect; none: every one.",
        kind=kinds.CHOICE,
        choices=("NoSchedule", "PreferNoSchedule", "NoExecute"),
    ),
)
SOURCES = ("pvc", "host_path", "nfs", "config_map")


def read(place: NamedPlace) -> KubeSettings:
    """The settings of a place. UmiakError with everything that is wrong with them."""
    findings = Findings()
    said = sections.read(KEYS, place.settings, f"place {place.name}", findings, UNKNOWN)
    made = _settings(said, findings)
    if findings.problems:
        raise UmiakError(*findings.problems)
    return made


def _settings(said: Said, findings: Findings) -> KubeSettings:
    kind = said.text("kind")
    return KubeSettings(
        context=said.text("context") or "",
        kubeconfig=said.text("kubeconfig") or "",
        namespace=said.text("namespace") or "",
        kind=WorkloadKind(kind) if kind else None,
        image=said.text("image") or "",
        pull_policy=said.text("pull_policy") or "",
        image_pull_secrets=said.names("image_pull_secrets"),
        python=said.text("python") or "",
        scheduler=said.text("scheduler") or "",
        queue=said.text("queue") or "",
        priority_class=said.text("priority_class") or "",
        service_account=said.text("service_account") or "",
        node_selector=said.get("node_selector") or (),
        tolerations=_tolerations(said, findings),
        volumes=_volumes(said, findings),
        shared_memory_bytes=said.get("shared_memory") or 0,
        device=DeviceKind(said.get("device")),
        resources=said.get("resources") or (),
        labels=said.get("labels") or (),
        annotations=said.get("annotations") or (),
        ttl_s=said.get("ttl"),
        grace_s=said.get("grace") or GRACE_S,
        files_url=said.text("files_url") or "",
        etcd=said.text("etcd") or "",
        request_timeout_s=said.get("request_timeout") or REQUEST_TIMEOUT_S,
    )


def _tolerations(said: Said, findings: Findings) -> tuple[KubeToleration, ...]:
    node = said.node("tolerations")
    found = []
    for each in node.items if isinstance(node, Listing) else ():
        if not isinstance(each, Section):
            hint = 'write `tolerations = [{key = "gpu", effect = "NoSchedule"}]`'
            findings.problem("UM-CONFIG-013", each.place, f"{said.label}: a toleration must be a table", hint=hint)
            continue
        one = sections.read(TOLERATION_KEYS, each, f"{said.label}: toleration", findings, UNKNOWN)
        found.append(
            KubeToleration(key=one.text("key") or "", value=one.text("value") or "", effect=one.text("effect") or "")
        )
    return tuple(found)


def _volumes(said: Said, findings: Findings) -> tuple[KubeVolume, ...]:
    node = said.node("volumes")
    found = []
    for entry in node.entries if isinstance(node, Section) else ():
        label = f"{said.label}: volume {shortened(entry.key)}"
        if not isinstance(entry.node, Section):
            findings.problem(
                "UM-CONFIG-013", entry.place, f"{label} must be a table", hint='write `{pvc = "data", mount = "/data"}`'
            )
            continue
        one = sections.read(VOLUME_KEYS, entry.node, label, findings, UNKNOWN)
        named = [name for name in SOURCES if one.said(name)]
        if len(named) != 1 and not one.wrong:
            what = f"{label} has {'more than one source' if named else 'no source'}"
            findings.problem("UM-CONFIG-014", entry.place, what, hint=f"it needs exactly one of {', '.join(SOURCES)}")
        mount = one.text("mount") or ""
        if mount and (not mount.startswith("/") or mount.rstrip("/") in ("", "/umiak", "/dev/shm")):  # noqa: S108 - a mount
            findings.problem(
                "UM-CONFIG-014",
                one.place("mount"),
                f"{label}: mount: not possible there: {shortened(mount)}",
                hint="write an absolute path; `/`, `/umiak` and `/dev/shm` are taken",
            )
        nfs = one.text("nfs") or ""
        if nfs and not (nfs.partition(":/")[0] and nfs.partition(":/")[1]):
            findings.problem(
                "UM-CONFIG-014",
                one.place("nfs"),
                f"{label}: nfs: not a server and a path: {shortened(nfs)}",
                hint="write it as 10.0.0.9:/export",
            )
        if not re.match(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?\Z", entry.key) or entry.key.startswith("umiak-"):
            findings.problem(
                "UM-CONFIG-014",
                entry.place,
                f"{label}: not a name of a volume",
                hint="use lower-case letters, digits and `-`, not beginning with `umiak-`",
            )
        found.append(
            KubeVolume(
                name=entry.key,
                mount=mount,
                **{name: one.text(name) or "" for name in (*SOURCES, "sub_path")},
                read_only=one.truth("read_only"),
            )
        )
    return tuple(found)
