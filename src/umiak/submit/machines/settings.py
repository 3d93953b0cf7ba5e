"""What a table ``[machines.NAME]`` of umiak.toml says: its keys, read and checked. A decider.

    [machines.gpu]
    region = "bj"
    zone = "cn-bj-d"
    spec = "bcc.gn3.c8m32.1v100-32g"
    image = "m-8Wk5tPjN"
    subnet = "sbn-6qm4r0gh"
    security_group = "g-2xe1d7fp"
    key_pair = "k-3m9vbcwz"
    count = 2

No key of the account stands here: it comes from the environment.
"""

from __future__ import annotations

from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.schema import command_line, kinds, sections
from umiak.schema.findings import Findings
from umiak.schema.flags import Flag, FlagKind
from umiak.schema.keys import BadValue, Key, Kind
from umiak.schema.sections import UnknownKeys
from umiak.submit.backends.cloud.settings import ADDRESS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.yaml_tree import Node, Section

PAGE = "docs/how-to/rent-machines.md"
BAIDU, ALIBABA, HUAWEI = "baidu", "alibaba", "huawei"
CLOUDS = (BAIDU, ALIBABA, HUAWEI)
RELEASE_AFTER_S = 8 * 3600.0
LEAST_RELEASE_S, MOST_RELEASE_S = 1800.0, 30 * 86400.0
"""Clouds refuse release times that are nearer than half an hour."""
RELEASE_FLAG = Flag(
    name="release_after",
    help="up: the cloud releases the machines after this long, whatever happens here. Default: release_after of the table, or 8h.",
    group="Machines",
    kind=FlagKind.SECONDS,
    least=LEAST_RELEASE_S,
    most=MOST_RELEASE_S,
    metavar="TIME",
)


def _duration(_: Key, node: Node) -> float:
    text = kinds.word_of(node)
    try:
        return float(command_line.convert(RELEASE_FLAG, text))  # type: ignore[arg-type]
    except ValueError as error:
        raise BadValue(f"{error}: {text}", hint='write it as in "8h", "90m" or "1800s", from 30m to 720h') from None


DURATION = Kind(phrase='a time, as in "8h" or "90m"', read=_duration)

TABLE = (
    Key(
        name="cloud",
        meaning="Whose machines. `baidu` is created here; for the others Terraform's JSON is rendered.",
        kind=kinds.CHOICE,
        choices=CLOUDS,
        default=BAIDU,
    ),
    Key(name="region", meaning="Region, such as `bj`, `cn-beijing`, `cn-north-4`.", kind=kinds.TEXT, required=True),
    Key(name="zone", meaning="Zone in the region, such as `cn-bj-d`.", kind=kinds.TEXT, required=True),
    Key(
        name="spec",
        meaning="Kind of machine: BCC's spec, ECS's instance type, Huawei's flavor.",
        kind=kinds.TEXT,
        required=True,
    ),
    Key(
        name="image",
        meaning="Id of the image; `umiak machines image` makes one of a machine.",
        kind=kinds.TEXT,
        required=True,
    ),
    Key(
        name="subnet",
        meaning="Id of the subnet (Alibaba: vSwitch; Huawei: network).",
        kind=kinds.TEXT,
        required=True,
    ),
    Key(
        name="security_group",
        meaning="Id of the security group; it must let ssh in, and the machines talk to one another.",
        kind=kinds.TEXT,
        required=True,
    ),
    Key(
        name="key_pair",
        meaning="Key pair for ssh, as the cloud names it: its id on BCC, its name on the others.",
        kind=kinds.TEXT,
        required=True,
    ),
    Key(name="count", meaning="Number of machines.", kind=kinds.WHOLE, least=1, default=1),
    Key(
        name="bandwidth",
        meaning="Mbit/s of a public address for each machine; 0: none, ssh goes to the internal address.",
        kind=kinds.WHOLE,
        least=0,
        default=0,
    ),
    Key(
        name="disk",
        meaning="Size of the system disk in GB.",
        kind=kinds.WHOLE,
        least=20,
        default_said="the image's",
    ),
    Key(
        name="release_after",
        meaning="Time after which the cloud releases the machines by itself, as in `8h`; `up` again renews it.",
        kind=DURATION,
        default_said="8h",
    ),
    Key(
        name="owner",
        meaning="Tag by which your machines are told from those of others in the same account.",
        kind=kinds.NAME,
        default_said="your user name",
    ),
    Key(name="user", meaning="User for ssh.", kind=kinds.NAME, default="root"),
    Key(
        name="key",
        meaning="Private key file for ssh.",
        kind=kinds.PATH,
        default_said="your ssh config's, the agent's, `~/.ssh/id_*`",
    ),
    Key(name="port", meaning="Port of ssh.", kind=kinds.WHOLE, least=1, default=22),
    Key(name="python", meaning="Python on the machines, 3.10 or newer.", kind=kinds.TEXT, default="python3"),
    Key(name="endpoint", meaning="Address of the cloud's API.", kind=ADDRESS, default_said="the one of the region"),
    Key(
        name="timeout",
        meaning="Seconds to wait for an answer of the cloud.",
        kind=kinds.NUMBER,
        least=0,
        default=60,
    ),
    Key(name="poll", meaning="Seconds between two looks at machines.", kind=kinds.NUMBER, least=0, default=5),
)
UNKNOWN = UnknownKeys(
    page=PAGE,
    short={
        "flavor": "spec",
        "instance_type": "spec",
        "vswitch": "subnet",
        "keypair": "key_pair",
        "image_id": "image",
        "nodes": "count",
    },
)


@value
class MachineSettings:
    """All that is said about a group of machines."""

    group: str
    """Its name, and its place's."""
    cloud: str
    region: str
    zone: str
    spec: str
    image: str
    subnet: str
    security_group: str
    key_pair: str
    count: int
    bandwidth: int
    disk: int
    """0: the image's."""
    release_after_s: float
    owner: str
    user: str
    key: str
    port: int
    python: str
    endpoint: str
    timeout_s: float
    poll_s: float


def read(section: Section, group: str, user_name: str) -> MachineSettings:
    """The settings of a group. UmiakError with everything that is wrong."""
    findings = Findings()
    said = sections.read(TABLE, section, f"machines {group}", findings, UNKNOWN)
    if findings.problems:
        raise UmiakError(*findings.problems)

    def text(name: str) -> str:
        return said.text(name) or ""

    return MachineSettings(
        group=group,
        cloud=text("cloud"),
        region=text("region"),
        zone=text("zone"),
        spec=text("spec"),
        image=text("image"),
        subnet=text("subnet"),
        security_group=text("security_group"),
        key_pair=text("key_pair"),
        count=said.number("count"),
        bandwidth=said.number("bandwidth"),
        disk=int(said.get("disk") or 0),
        release_after_s=float(said.get("release_after") or RELEASE_AFTER_S),
        owner=text("owner") or user_name,
        user=text("user"),
        key=text("key"),
        port=said.number("port"),
        python=text("python"),
        endpoint=text("endpoint"),
        timeout_s=float(said.get("timeout")) or 60.0,
        poll_s=float(said.get("poll")),
    )
