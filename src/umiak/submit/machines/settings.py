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

from umiak.core.value import replace
from umiak.schema import command_line, kinds
from umiak.schema.flags import Flag, FlagKind
from umiak.schema.keys import BadValue, Kind
from umiak.schema.sections import UnknownKeys
from umiak.schema.settings import checked, setting, settings
from umiak.submit.backends.cloud.settings import ADDRESS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.keys import Key
    from umiak.schema.yaml_tree import Node, Section

PAGE = "docs/how-to/rent-machines.md"
BAIDU, ALIBABA, HUAWEI = "baidu", "alibaba", "huawei"
CLOUDS = (BAIDU, ALIBABA, HUAWEI)
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


@settings
class MachineSettings:
    """A group of machines."""

    group: str
    """Its name, and its place's."""
    cloud: str = setting(
        kinds.CHOICE,
        "Whose machines. `baidu` is created here; for the others Terraform's JSON is rendered.",
        choices=CLOUDS,
        default=BAIDU,
    )
    region: str = setting(kinds.TEXT, "Region, such as `bj`, `cn-beijing`, `cn-north-4`.", required=True)
    zone: str = setting(kinds.TEXT, "Zone in the region, such as `cn-bj-d`.", required=True)
    spec: str = setting(kinds.TEXT, "Kind of machine: BCC's spec, ECS's instance type, Huawei's flavor.", required=True)
    image: str = setting(kinds.TEXT, "Id of the image; `umiak machines image` makes one of a machine.", required=True)
    subnet: str = setting(kinds.TEXT, "Id of the subnet (Alibaba: vSwitch; Huawei: network).", required=True)
    security_group: str = setting(
        kinds.TEXT,
        "Id of the security group; it must let ssh in, and the machines talk to one another.",
        required=True,
    )
    key_pair: str = setting(
        kinds.TEXT,
        "Key pair for ssh, as the cloud names it: its id on BCC, its name on the others.",
        required=True,
    )
    count: int = setting(kinds.WHOLE, "Number of machines.", least=1, default=1)
    bandwidth: int = setting(
        kinds.WHOLE,
        "Mbit/s of a public address for each machine; 0: none, ssh goes to the internal address.",
        least=0,
        default=0,
    )
    disk: int = setting(kinds.WHOLE, "Size of the system disk in GB.", least=20, default=0, default_text="the image's")
    release_after_s: float = setting(
        DURATION,
        "Time after which the cloud releases the machines by itself, as in `8h`; `up` again renews it.",
        default=8 * 3600.0,
        default_text="8h",
    )
    owner: str = setting(
        kinds.NAME,
        "Tag by which your machines are told from those of others in the same account.",
        default="",
        default_text="your user name",
    )
    user: str = setting(kinds.NAME, "User for ssh.", default="root")
    key: str = setting(
        kinds.PATH,
        "Private key file for ssh.",
        default="",
        default_text="your ssh config's, the agent's, `~/.ssh/id_*`",
    )
    port: int = setting(kinds.WHOLE, "Port of ssh.", least=1, default=22)
    python: str = setting(kinds.TEXT, "Python on the machines, 3.10 or newer.", default="python3")
    endpoint: str = setting(ADDRESS, "Address of the cloud's API.", default="", default_text="the one of the region")
    timeout_s: float = setting(kinds.NUMBER, "Seconds to wait for an answer of the cloud.", least=1, default=60.0)
    poll_s: float = setting(kinds.NUMBER, "Seconds between two looks at machines.", least=0, default=5.0)


def read(section: Section, group: str, user_name: str) -> MachineSettings:
    """The settings of a group. UmiakError with everything that is wrong."""
    settings = checked(MachineSettings, section, f"machines {group}", UNKNOWN, group=group)
    return settings if settings.owner else replace(settings, owner=user_name)
