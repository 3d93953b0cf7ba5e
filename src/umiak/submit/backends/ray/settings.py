"""What is said about a Ray cluster in umiak.toml. A decider.

[place.cluster]
backend = "ray"
address = "http://head:8265"
"""

from __future__ import annotations

from umiak.core.devices import DeviceKind
from umiak.core.names import is_name
from umiak.schema import kinds
from umiak.schema.keys import BadValue, Empty, Kind, WrongType
from umiak.schema.kinds import word_of
from umiak.schema.sections import UnknownKeys
from umiak.schema.settings import checked, setting, settings
from umiak.schema.yaml_tree import Scalar, Section, shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.schema.keys import Key
    from umiak.schema.yaml_tree import Node
    from umiak.submit.places import NamedPlace

STRATEGIES = ("SPREAD", "STRICT_SPREAD", "PACK")
HEADERS = "RAY_JOB_HEADERS"
AUTHENTICATION = "RAY_AUTH_TOKEN"
RESOURCES = {DeviceKind.GPU: "GPU", DeviceKind.DCU: "GPU", DeviceKind.NPU: "NPU"}
"""What Ray calls the devices that it knows; others are custom resources of the cluster,
which `device_resource` names.
"""
UNKNOWN = UnknownKeys(page="docs/how-to/submit-ray.md", short={"url": "address", "host": "address"})


def _address(_: Key, node: Node) -> str:
    text = word_of(node).strip().rstrip("/")
    scheme, mark, rest = text.partition("://")
    hint = "write the dashboard's address, as in http://head:8265"
    if scheme not in ("http", "https") or not mark or not rest or any(each in rest for each in " ?#\t\r\n"):
        raise BadValue(f"expected the address of a dashboard, got {shortened(text)}", hint=hint)
    if "@" in rest:
        why = "passwords in files are read by others"
        raise BadValue("an address with a password", why=why, hint=f"put a header into the variable {HEADERS}")
    return text


def _resources(_: Key, node: Node) -> tuple[tuple[str, float], ...]:
    if not isinstance(node, Section):
        raise WrongType
    resources = []
    for entry in node.entries:
        number = entry.node.data if isinstance(entry.node, Scalar) else None
        if not is_name(entry.key) or isinstance(number, bool) or not isinstance(number, (int, float)) or number <= 0:
            raise BadValue(
                f"expected a resource of a node, got {shortened(entry.key)}",
                hint="write it as `{ fast_disk = 1 }`, more than 0",
            )
        resources.append((entry.key, float(number)))
    return tuple(resources)


def _absolute(_: Key, node: Node) -> str:
    text = word_of(node).strip()
    if not text.startswith("/"):
        raise BadValue(f"expected an absolute path, got {shortened(text)}")
    return text.rstrip("/") or "/"


@settings
class RaySettings:
    """One cluster."""

    address: str = setting(
        Kind(phrase="an address, as in http://head:8265", read=_address),
        "Address of the cluster's dashboard.",
        required=True,
    )
    """Without a slash at the end."""
    python: str = setting(
        kinds.PATH,
        "Python of the cluster, which has `ray`; the driver runs with it, on the head.",
        default="",
        default_text="`python` on the head's PATH",
    )
    job_python: str = setting(
        kinds.PATH, "Python of the job, on all nodes.", default="", default_text="the one that Ray runs with"
    )
    strategy: str = setting(
        kinds.CHOICE,
        "How nodes of a job are placed on nodes of the cluster.",
        choices=STRATEGIES,
        default=STRATEGIES[0],
    )
    resources: tuple[tuple[str, float], ...] = setting(
        Kind(phrase="a table of numbers", read=_resources),
        "Custom resources that every node of a job needs besides CPUs, memory and devices.",
        default=(),
    )
    device_resource: str = setting(
        kinds.NAME,
        "Ray's resource for accelerators.",
        default="",
        default_text="`GPU` for gpu and dcu, `NPU` for npu",
    )
    directory: str = setting(
        Kind(phrase="an absolute path", read=_absolute),
        "Directory on the nodes below which runs have their working directories.",
        default="",
        default_text="one of the user's own below the directory for temporary files",
    )
    keep_directories: bool = setting(kinds.TRUTH, "Keep the working directories of runs that are over.", default=False)
    headers_variable: str = setting(
        kinds.NAME,
        "Variable with HTTP headers for a proxy in front of the dashboard, as a JSON object.",
        default=HEADERS,
        empty=Empty.TAKEN,
    )
    token_variable: str = setting(
        kinds.NAME, "Variable with the token of a cluster that wants one.", default=AUTHENTICATION, empty=Empty.TAKEN
    )
    verify_tls: bool = setting(kinds.TRUTH, "Check the certificate of an https address.", default=True)
    ca_file: str = setting(kinds.PATH, "File of certificates to check it with.", default="")

    def resource_of(self, device: DeviceKind | None) -> str:
        """Ray's word for a kind of accelerator; empty if it has none."""
        return self.device_resource or RESOURCES.get(device or DeviceKind.GPU, "")


def read(place: NamedPlace) -> RaySettings:
    """The settings of a place. UmiakError with everything that is wrong."""
    return checked(RaySettings, place.settings, f"place {place.name}", UNKNOWN)


def headers(settings: RaySettings, environ: Mapping[str, str]) -> dict[str, str] | None:
    """What every request carries; None if the variable is no JSON object of texts."""
    headers = {}
    token = environ.get(settings.token_variable)
    if token:
        headers["Authorization"] = f"Bearer {token}"
    text = environ.get(settings.headers_variable)
    if text:
        import json

        try:
            data = json.loads(text)
        except ValueError:
            return None
        if not isinstance(data, dict) or not all(isinstance(each, str) for each in data.values()):
            return None
        headers.update(data)
    return headers
