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
from umiak.schema import kinds
from umiak.schema.keys import BadValue, Kind, WrongType, words
from umiak.schema.kinds import word_of
from umiak.schema.sections import UnknownKeys
from umiak.schema.settings import checked, setting, settings
from umiak.schema.settings import read as read_settings
from umiak.schema.yaml_tree import Listing, Scalar, Section, shortened
from umiak.submit.job_keys import SIZE, SPAN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.findings import Findings, Place
    from umiak.schema.keys import Key
    from umiak.schema.sections import Said
    from umiak.schema.yaml_tree import Node
    from umiak.submit.places import NamedPlace

PAGE = "docs/how-to/submit-kubernetes.md"
UNKNOWN = UnknownKeys(
    page=PAGE, short={"ns": "namespace", "pull_secrets": "image_pull_secrets", "sa": "service_account"}
)
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a mount
VOLCANO, KUEUE = "volcano", "kueue"

RESOURCES = {
    DeviceKind.GPU: "nvidia.com/gpu",
    DeviceKind.NPU: "huawei.com/Ascend910",
    DeviceKind.XPU: "kunlunxin.com/xpu",
    DeviceKind.DCU: "hygon.com/dcu",
}
"""What a cluster's device plug-in calls each kind of accelerator, where a place says nothing else."""

_LABEL = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?\Z")
_DNS_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?\Z")


class WorkloadKind(str, Enum):
    """What a job is made into."""

    PADDLEJOB = "paddlejob"
    JOBSET = "jobset"
    JOB = "job"


def _texts(_: Key, node: Node) -> tuple[tuple[str, str], ...]:
    if not isinstance(node, Section):
        raise WrongType
    for entry in node.entries:
        if not isinstance(entry.node, Scalar) or entry.node.data is None:
            raise BadValue(f"{shortened(entry.key)} has a value that is no text")
        if not _LABEL.match(entry.key):
            raise BadValue(f"expected a name that Kubernetes takes, got {shortened(entry.key) or 'nothing'}")
    return tuple((entry.key, _text_of(entry.node)) for entry in node.entries)


def _text_of(node: Node) -> str:
    assert isinstance(node, Scalar)
    return node.data if isinstance(node.data, str) else node.text


def _labels(key: Key, node: Node) -> tuple[tuple[str, str], ...]:
    labels = _texts(key, node)
    for name, text in labels:
        if not _LABEL_VALUE.match(text):
            raise BadValue(
                f"{name}: not a value of a label: {shortened(text)}",
                hint="use up to 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends",
            )
    return labels


def _resources(key: Key, node: Node) -> tuple[tuple[str, str], ...]:
    resources = _texts(key, node)
    for kind, name in resources:
        if kind not in words(DeviceKind):
            raise BadValue(
                f"expected a kind of accelerator, got {kind}", hint=f"it is one of {', '.join(words(DeviceKind))}"
            )
        if "/" not in name or not _LABEL.match(name):
            raise BadValue(
                f"{kind}: not the name of a resource: {shortened(name)}", hint=f"as in {RESOURCES[DeviceKind(kind)]}"
            )
    return resources


def _dns_name(_: Key, node: Node) -> str:
    text = word_of(node).strip()
    if not _DNS_NAME.match(text):
        raise BadValue(
            f"expected a name that Kubernetes takes, got {shortened(text)}",
            hint="lower-case letters, digits, `-` and `.`",
        )
    return text


LABELS = Kind(phrase="a table from names to texts", read=_labels)
TEXTS = Kind(phrase="a table from names to texts", read=_texts)
DEVICE_RESOURCES = Kind(phrase="a table from kinds of accelerators to names of resources", read=_resources)
DNS_NAME = Kind(phrase="a name that Kubernetes takes", read=_dns_name)


@settings
class KubeToleration:
    """A taint that pods put up with."""

    key: str = setting(kinds.TEXT, "The taint's key; none: every taint.", default="")
    value: str = setting(kinds.TEXT, "The taint's value; none: any.", default="")
    effect: str = setting(
        kinds.CHOICE,
        "The taint's effect; none: every one.",
        choices=("NoSchedule", "PreferNoSchedule", "NoExecute"),
        default="",
    )


@settings
class KubeVolume:
    """Something that is mounted into every pod. One of the four sources is set."""

    name: str
    mount: str = setting(kinds.PATH, "Where pods see it.", required=True)
    pvc: str = setting(DNS_NAME, "Name of a PersistentVolumeClaim.", default="")
    host_path: str = setting(kinds.PATH, "Directory of the nodes.", default="")
    nfs: str = setting(kinds.TEXT, "Server and path, as in `10.0.0.9:/export`.", default="")
    config_map: str = setting(DNS_NAME, "Name of a ConfigMap.", default="")
    sub_path: str = setting(kinds.PATH, "Path inside of it.", default="")
    read_only: bool = setting(kinds.TRUTH, "Mount it read-only.", default=False)


SOURCES = ("pvc", "host_path", "nfs", "config_map")


def _tolerations(section: Said, findings: Findings) -> tuple[KubeToleration, ...]:
    node = section.node("tolerations")
    tolerations = []
    for item in node.items if isinstance(node, Listing) else ():
        if not isinstance(item, Section):
            hint = 'write `tolerations = [{key = "gpu", effect = "NoSchedule"}]`'
            findings.problem("UM-CONFIG-013", item.place, f"{section.label}: a toleration must be a table", hint=hint)
            continue
        toleration, _ = read_settings(KubeToleration, item, f"{section.label}: toleration", findings, UNKNOWN)
        tolerations.append(toleration)
    return tuple(tolerations)


def _volumes(section: Said, findings: Findings) -> tuple[KubeVolume, ...]:
    node = section.node("volumes")
    volumes = []
    for entry in node.entries if isinstance(node, Section) else ():
        label = f"{section.label}: volume {shortened(entry.key)}"
        if not isinstance(entry.node, Section):
            findings.problem(
                "UM-CONFIG-013", entry.place, f"{label} must be a table", hint='write `{pvc = "data", mount = "/data"}`'
            )
            continue
        volume, table = read_settings(KubeVolume, entry.node, label, findings, UNKNOWN, name=entry.key)
        _check_volume(volume, table, entry.place, findings)
        volumes.append(volume)
    return tuple(volumes)


def _check_volume(volume: KubeVolume, table: Said, place: Place, findings: Findings) -> None:
    """What keys of a volume, one by one, can't show."""
    label, mount, nfs = table.label, volume.mount, volume.nfs
    sources = [name for name in SOURCES if table.said(name)]
    if len(sources) != 1 and not table.wrong:
        what = f"{label} has {'more than one source' if sources else 'no source'}"
        findings.problem("UM-CONFIG-014", place, what, hint=f"it needs exactly one of {', '.join(SOURCES)}")
    if mount and (not mount.startswith("/") or mount.rstrip("/") in ("", "/umiak", SHARED_MEMORY)):
        what = f"{label}: mount: not possible there: {shortened(mount)}"
        hint = f"write an absolute path; `/`, `/umiak` and `{SHARED_MEMORY}` are taken"
        findings.problem("UM-CONFIG-014", table.place("mount"), what, hint=hint)
    if nfs and not (nfs.partition(":/")[0] and nfs.partition(":/")[1]):
        what = f"{label}: nfs: not a server and a path: {shortened(nfs)}"
        findings.problem("UM-CONFIG-014", table.place("nfs"), what, hint="write it as 10.0.0.9:/export")
    if not re.match(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?\Z", volume.name) or volume.name.startswith("umiak-"):
        hint = "use lower-case letters, digits and `-`, not beginning with `umiak-`"
        findings.problem("UM-CONFIG-014", place, f"{label}: expected a name of a volume", hint=hint)


@settings
class KubeSettings:
    """One cluster, as its place describes it."""

    context: str = setting(kinds.TEXT, "Context of the kubeconfig.", default="", default_text="its current context")
    kubeconfig: str = setting(
        kinds.PATH,
        "Path of the kubeconfig.",
        default="",
        default_text="`KUBECONFIG`, else `~/.kube/config`; in a pod its service account",
    )
    namespace: str = setting(
        DNS_NAME, "Namespace of the jobs.", default="", default_text="the context's, else `default`"
    )
    kind: WorkloadKind | None = setting(
        WorkloadKind,
        "What a job is made into: a PaddleJob, a JobSet, or Indexed Jobs.",
        default=None,
        default_text="the first of the three that the cluster has",
    )
    image: str = setting(kinds.TEXT, "Image of jobs that name none.", default="")
    pull_policy: str = setting(
        kinds.CHOICE,
        "When nodes pull the image.",
        choices=("Always", "IfNotPresent", "Never"),
        default="",
        default_text="the cluster decides",
    )
    image_pull_secrets: tuple[str, ...] = setting(
        kinds.NAMES, "Secrets of the namespace with passwords of registries.", default=()
    )
    python: str = setting(kinds.TEXT, "Python of the image, 3.10 or newer.", default="python3")
    scheduler: str = setting(
        kinds.TEXT,
        "`volcano` (starts all pods of a job or none), `kueue`, or another scheduler's name.",
        default="",
        default_text="the cluster's own",
    )
    queue: str = setting(DNS_NAME, "Queue of Volcano or Kueue.", default="")
    priority_class: str = setting(DNS_NAME, "Priority class of the pods.", default="")
    service_account: str = setting(DNS_NAME, "Service account of the pods.", default="")
    node_selector: tuple[tuple[str, str], ...] = setting(LABELS, "Labels that nodes must have.", default=())
    tolerations: tuple[KubeToleration, ...] = setting(
        kinds.SECTIONS,
        "Taints that pods tolerate: a list of tables with `key`, `value` and `effect`.",
        default=(),
        read=_tolerations,
    )
    volumes: tuple[KubeVolume, ...] = setting(
        kinds.MAPPING,
        "What every pod has mounted: tables with `mount` and one of `pvc`, `host_path`, `nfs`, `config_map`.",
        default=(),
        read=_volumes,
    )
    shared_memory_bytes: int = setting(
        SIZE, "Size of `/dev/shm` for jobs that say none.", default=0, default_text="the runtime decides, often 64 MiB"
    )
    device: DeviceKind = setting(DeviceKind, "Kind of accelerator of jobs that ask for any.", default=DeviceKind.GPU)
    resources: tuple[tuple[str, str], ...] = setting(
        DEVICE_RESOURCES, "The cluster's name for a kind of accelerator.", default=()
    )
    labels: tuple[tuple[str, str], ...] = setting(LABELS, "Further labels of everything that is created.", default=())
    annotations: tuple[tuple[str, str], ...] = setting(
        TEXTS, "Further annotations of everything that is created.", default=()
    )
    ttl_s: int | None = setting(
        SPAN, "Time after which the cluster deletes a finished job.", default=None, default_text="never"
    )
    grace_s: int = setting(SPAN, "Time for pods to end when the cluster stops them.", default=30, default_text="30 s")
    files_url: str = setting(
        kinds.TEXT,
        "Storage for files of jobs that are too large for a ConfigMap, as in `s3://bucket/files`.",
        default="",
    )
    etcd: str = setting(
        kinds.TEXT,
        "Address of an etcd, for elastic jobs as a PaddleJob; umiak's operator needs none.",
        default="",
    )
    request_timeout_s: int = setting(
        SPAN, "Time for an answer of the cluster's API; 0: no limit.", default=30, default_text="30 s"
    )

    def resource_of(self, kind: DeviceKind | None) -> str:
        """The cluster's name for a kind of accelerator."""
        wanted = kind or self.device
        return dict(self.resources).get(wanted.value) or RESOURCES[wanted]


def read(place: NamedPlace) -> KubeSettings:
    """The settings of a place. UmiakError with everything that is wrong with them."""
    return checked(KubeSettings, place.settings, f"place {place.name}", UNKNOWN)
