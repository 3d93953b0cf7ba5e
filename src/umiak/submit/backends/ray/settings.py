"""What is said about a Ray cluster in umiak.toml. A decider.

[place.cluster]
backend = "ray"
address = "http://head:8265"
"""

from __future__ import annotations

from umiak.core.devices import DeviceKind
from umiak.core.names import is_name
from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.schema import kinds, sections
from umiak.schema.findings import Findings
from umiak.schema.keys import BadValue, Key, Kind, WrongType
from umiak.schema.kinds import word_of
from umiak.schema.sections import UnknownKeys
from umiak.schema.yaml_tree import Scalar, Section, shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.schema.yaml_tree import Node
    from umiak.submit.places import NamedPlace

STRATEGIES = ("SPREAD", "STRICT_SPREAD", "PACK")
HEADERS = "RAY_JOB_HEADERS"
TOKEN = "RAY_AUTH_TOKEN"  # noqa: S105 - the name of a variable
RESOURCES = {DeviceKind.GPU: "GPU", DeviceKind.DCU: "GPU", DeviceKind.NPU: "NPU"}
"""What Ray calls the devices that it knows; others are custom resources of the cluster, which `device_resource` names."""
UNKNOWN = UnknownKeys(page="docs/how-to/submit-ray.md", short={"url": "address", "host": "address"})


@value
class RaySettings:
    """One cluster."""

    address: str
    """Of the dashboard, without a slash at the end."""
    python: str = ""
    job_python: str = ""
    strategy: str = STRATEGIES[0]
    resources: tuple[tuple[str, float], ...] = ()
    device_resource: str = ""
    directory: str = ""
    keep_directories: bool = False
    headers_variable: str = HEADERS
    token_variable: str = TOKEN
    verify_tls: bool = True
    ca_file: str = ""

    def resource_of(self, device: DeviceKind | None) -> str:
        """Ray's word for a kind of accelerator; empty if it has none."""
        return self.device_resource or RESOURCES.get(device or DeviceKind.GPU, "")


def _address(_: Key, node: Node) -> str:
    text = word_of(node).strip().rstrip("/")
    scheme, mark, rest = text.partition("://")
    hint = "write the dashboard's address, as in http://head:8265"
    if scheme not in ("http", "https") or not mark or not rest or any(each in rest for each in " ?#\t\r\n"):
        raise BadValue(f"not an address of a dashboard: {shortened(text)}", hint=hint)
    if "@" in rest:
        why = "passwords in files are read by others"
        raise BadValue("an address with a password", why=why, hint=f"put a header into the variable {HEADERS}")
    return text


def _resources(_: Key, node: Node) -> tuple[tuple[str, float], ...]:
    if not isinstance(node, Section):
        raise WrongType
    found = []
    for entry in node.entries:
        number = entry.node.data if isinstance(entry.node, Scalar) else None
        if not is_name(entry.key) or isinstance(number, bool) or not isinstance(number, (int, float)) or number <= 0:
            raise BadValue(
                f"not a resource of a node: {shortened(entry.key)}", hint="write it as `{ fast_disk = 1 }`, more than 0"
            )
        found.append((entry.key, float(number)))
    return tuple(found)


def _absolute(_: Key, node: Node) -> str:
    text = word_of(node).strip()
    if not text.startswith("/"):
        raise BadValue(f"not an absolute path: {shortened(text)}")
    return text.rstrip("/") or "/"


KEYS = (
    Key(
        name="address",
        meaning="Address of the cluster's dashboard.",
        kind=Kind(phrase="an address, as in http://head:8265", read=_address),
        required=True,
    ),
    Key(
        name="python",
        meaning="Python of the cluster, which has `ray`; the driver runs with it, on the head.",
        kind=kinds.PATH,
        default_said="`python` on the head's PATH",
    ),
    Key(
        name="job_python",
        meaning="Python of the job, on all nodes.",
        kind=kinds.PATH,
        default_said="the one that Ray runs with",
    ),
    Key(
        name="strategy",
        meaning="How nodes of a job are placed on nodes of the cluster.",
        kind=kinds.CHOICE,
        choices=STRATEGIES,
        default=STRATEGIES[0],
    ),
    Key(
        name="resources",
        meaning="Custom resources that every node of a job needs besides CPUs, memory and devices.",
        kind=Kind(phrase="a table of numbers", read=_resources),
    ),
    Key(
        name="device_resource",
        meaning="Ray's resource for accelerators.",
        kind=kinds.NAME,
        default_said="`GPU` for gpu and dcu, `NPU` for npu",
    ),
    Key(
        name="directory",
        meaning="Directory on the nodes below which runs have their working directories.",
        kind=Kind(phrase="an absolute path", read=_absolute),
        default_said="one of the user's own below the directory for temporary files",
    ),
    Key(
        name="keep_directories",
        meaning="Keep the working directories of runs that are over.",
        kind=kinds.TRUTH,
        default=False,
    ),
    Key(
        name="headers_variable",
        meaning="Variable with HTTP headers for a proxy in front of the dashboard, as a JSON object.",
        kind=kinds.NAME,
        default=HEADERS,
    ),
    Key(
        name="token_variable",
        meaning="Variable with the token of a cluster that wants one.",
        kind=kinds.NAME,
        default=TOKEN,
    ),
    Key(name="verify_tls", meaning="Check the certificate of an https address.", kind=kinds.TRUTH, default=True),
    Key(name="ca_file", meaning="File of certificates to check it with.", kind=kinds.PATH),
)


def read(place: NamedPlace) -> RaySettings:
    """The settings of a place. UmiakError with everything that is wrong."""
    findings = Findings()
    said = sections.read(KEYS, place.settings, f"place {place.name}", findings, UNKNOWN)
    if findings.problems:
        raise UmiakError(*findings.problems)
    return RaySettings(
        address=said.get("address"),
        python=said.text("python") or "",
        job_python=said.text("job_python") or "",
        strategy=said.get("strategy"),
        resources=said.get("resources") or (),
        device_resource=said.text("device_resource") or "",
        directory=said.text("directory") or "",
        keep_directories=said.truth("keep_directories"),
        headers_variable=said.get("headers_variable"),
        token_variable=said.get("token_variable"),
        verify_tls=said.truth("verify_tls"),
        ca_file=said.text("ca_file") or "",
    )


def headers(settings: RaySettings, environ: Mapping[str, str]) -> dict[str, str] | None:
    """What every request carries; None if the variable is no JSON object of texts."""
    found = {}
    token = environ.get(settings.token_variable)
    if token:
        found["Authorization"] = f"Bearer {token}"
    text = environ.get(settings.headers_variable)
    if text:
        import json

        try:
            said = json.loads(text)
        except ValueError:
            return None
        if not isinstance(said, dict) or not all(isinstance(each, str) for each in said.values()):
            return None
        found.update(said)
    return found
