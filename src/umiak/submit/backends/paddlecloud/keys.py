"""Every key of a backend.yaml for PaddleCloud, with its kind, its default and its meaning. Values.

Names and defaults are those of PaddleRec 1.8.5; ``k8s-cpu-cores`` and ``k8s_cpu_cores`` are the same key.
Rows marked as umiak's are not known there. PaddleRec's own examples leave texts empty for which there is a default.

    ClusterSettings   the top           NodeSettings           `config`
    ClientSettings    `submit`          CommunicatorSettings   `config.communicator`
"""

from __future__ import annotations

import re
from enum import Enum

from umiak.core.value import fields
from umiak.schema import kinds
from umiak.schema.keys import BadValue, Empty, Kind, WrongType
from umiak.schema.kinds import word_of
from umiak.schema.sections import UnknownKeys
from umiak.schema.settings import setting, settings, table
from umiak.schema.yaml_tree import Scalar, shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.schema.findings import Findings
    from umiak.schema.keys import Key
    from umiak.schema.sections import Said
    from umiak.schema.yaml_tree import Node


class ClusterType(str, Enum):
    """What kind of cluster is behind the client."""

    MPI = "mpi"
    K8S = "k8s"


class KeyOrigin(Enum):
    """Where a key comes from that PaddleRec does not know."""

    UMIAK = "umiak"


UNKNOWN = UnknownKeys(
    why="PaddleRec's own programs may know it; here it has no effect",
    page="docs/how-to/submit-paddlecloud.md",
    short={},
)
REFERENCE = re.compile(r"\$(?:(\w+)|\{(\w+)\})\Z", re.ASCII)
"""In place of a secret: the variable that has it."""
_PATH = re.compile(r"[A-Za-z]+:/")
_WALL_TIME = re.compile(r"\d{1,5}:[0-5]\d:[0-5]\d\Z", re.ASCII)


def _secret(_: Key, node: Node) -> str:
    """A secret is never a part of a message."""
    if not isinstance(node, Scalar):
        raise WrongType
    return "" if node.data is None else node.text.strip()


def _files(_: Key, node: Node) -> tuple[str, ...]:
    return kinds.shell_words(node, "a list of files")


def _remote(_: Key, node: Node) -> str:
    """A path in the remote file system.
    People write it with the name of that in front, which the platform does not take.
    """
    text = word_of(node).strip()
    if text and (_PATH.match(text) or not text.startswith("/")):
        bare = re.sub(r"^[A-Za-z]+:(//[^/]*)?", "", text)
        raise BadValue(
            f"expected a path of the remote file system, got {shortened(text)}",
            why="its name is said in fs_name",
            hint=f"write `{bare}`" if bare.startswith("/") else "write it from the root on, as in `/user/your/path`",
        )
    return text


def _flag(_: Key, node: Node) -> bool:
    """``1``, ``"1"`` and ``true`` alike."""
    if not isinstance(node, Scalar) or node.data is None:
        raise WrongType
    text = node.text.strip().lower()
    if text not in ("0", "1", "true", "false"):
        raise BadValue(f"expected 0 or 1, got {shortened(node.text)}")
    return text in ("1", "true")


def _wall_time(_: Key, node: Node) -> str:
    text = node.text.strip() if isinstance(node, Scalar) else ""
    if not _WALL_TIME.match(text):
        raise BadValue(f"expected a time, got {shortened(text)}", hint='write hours, minutes and seconds: `"72:00:00"`')
    return text


SECRET = Kind(phrase="text, or a variable such as $PADDLECLOUD_SK", read=_secret)
FILES = Kind(phrase="patterns of files", read=_files)
REMOTE = Kind(phrase="a path of the remote file system", read=_remote)
FLAG = Kind(phrase="0 or 1", read=_flag)
WALL_TIME = Kind(phrase="hours, minutes and seconds", read=_wall_time)


def _kept_apart(_: Said, __: Findings) -> None:
    """Secrets are not in these values, which may be printed:
    `umiak.submit.backends.paddlecloud.settings` reads them.
    """


@settings
class ClusterSettings:
    """The top of a backend.yaml."""

    cluster: ClusterType = setting(
        ClusterType, "Kind of cluster.", key="cluster_type", synonyms=(("kubernetes", "k8s"),), required=True
    )
    config: JsonObject = setting(kinds.MAPPING, "What nodes are given.", required=True)
    submit: JsonObject = setting(kinds.MAPPING, "What the client is given.", required=True)
    timeout_s: float = setting(
        kinds.NUMBER, "Seconds to wait for the client.", least=1, default=300.0, origin=KeyOrigin.UMIAK
    )


@settings
class NodeSettings:
    """What nodes are given: `config`."""

    paddle_version: str = setting(
        kinds.TEXT, "PaddlePaddle to install on nodes.", default="", default_text="that of the node"
    )
    use_python3: bool = setting(FLAG, "Let the platform use its Python 3.", default=False, default_text="`0`")
    fs_name: str = setting(kinds.TEXT, "Remote file system, as in `afs://host:port`.", required=True)
    fs_ugi: None = setting(SECRET, "User and password of it, `user,password`.", required=True, read=_kept_apart)
    output_path: str = setting(REMOTE, "Where results go.", default="")
    train_data_path: str = setting(REMOTE, "mpi: data, brought to `./train_data`.", default="")
    test_data_path: str = setting(REMOTE, "mpi: data, brought to `./test_data`.", default="")
    thirdparty_path: str = setting(REMOTE, "mpi: other files, brought to `./thirdparty`.", default="")
    afs_remote_mount_point: str = setting(REMOTE, "k8s: directory that is mounted as `./afs`.", default="")
    communicator: JsonObject = setting(kinds.MAPPING, "Flags of the parameter server's communicator.", default={})

    def paths(self) -> list[tuple[str, str]]:
        """Of the remote file system, by their keys; those that are not set are empty."""
        return [(key.name, getattr(self, key.name)) for key in table(NodeSettings) if key.kind is REMOTE]


_THREADS = "CPU_NUM, the largest `thread_num`"


@settings
class CommunicatorSettings:
    """Flags of Paddle's communicator: `config.communicator`."""

    FLAGS_communicator_is_sgd_optimizer: bool = setting(FLAG, "1 with SGD.", default=False, default_text="`0`")
    FLAGS_communicator_send_queue_size: int | None = setting(
        kinds.WHOLE, "Gradients that wait to be sent.", least=1, default=None, default_text=_THREADS
    )
    FLAGS_communicator_thread_pool_size: int = setting(kinds.WHOLE, "Sending threads.", least=1, default=32)
    FLAGS_communicator_max_merge_var_num: int | None = setting(
        kinds.WHOLE, "Gradients that are merged into one.", least=1, default=None, default_text=_THREADS
    )
    FLAGS_communicator_max_send_grad_num_before_recv: int | None = setting(
        kinds.WHOLE,
        "Gradients sent before parameters are received.",
        least=1,
        default=None,
        default_text=_THREADS,
    )
    FLAGS_communicator_fake_rpc: bool = setting(FLAG, "1: send nothing, to measure.", default=False, default_text="`0`")
    FLAGS_rpc_retry_times: int = setting(kinds.WHOLE, "Repeats of a request.", least=0, default=3)

    def texts(self) -> list[tuple[str, str]]:
        """As they stand in a config.ini; empty: as many as there are threads."""
        values = [(name, getattr(self, name)) for name in fields(self)]
        return [(name, "" if number is None else str(int(number))) for name, number in values]


@settings
class ClientSettings:
    """What the client is given: `submit`."""

    ak: None = setting(
        SECRET,
        "Access key.",
        default=None,
        default_text="`PADDLECLOUD_AK`, or the client's own",
        read=_kept_apart,
    )
    sk: None = setting(
        SECRET,
        "Secret key.",
        default=None,
        default_text="`PADDLECLOUD_SK`, or the client's own",
        read=_kept_apart,
    )
    priority: str = setting(
        kinds.CHOICE,
        "Priority of the job.",
        choices=("low", "normal", "high", "very_high", "veryhigh"),
        default="high",
    )
    job_name: str = setting(kinds.NAME, "Name of the job.", default="", default_text="that of the config")
    group: str = setting(kinds.TEXT, "Group whose resources are used.", default="paddle", empty=Empty.UNSAID)
    start_cmd: str = setting(
        kinds.TEXT,
        "Command on every node.",
        default="",
        default_text="`umiak train` with the config, or the job's command under `umiak launch`",
    )
    files: tuple[str, ...] = setting(
        FILES,
        "Patterns of files to upload, all into one directory.",
        default=(),
        default_text="the job's files, as one archive",
    )
    nodes: int = setting(kinds.WHOLE, "mpi: number of nodes.", least=1, default=1)
    trainers: int = setting(kinds.WHOLE, "k8s: number of trainers.", key="k8s_trainers", least=1, default=1)
    cpus: int | None = setting(
        kinds.WHOLE,
        "k8s: cores of a trainer.",
        key="k8s_cpu_cores",
        least=1,
        default=None,
        default_text="1 with GPUs, else 2",
    )
    gpus: int = setting(kinds.WHOLE, "k8s, collective: GPUs of a trainer.", key="k8s_gpu_card", least=1, default=1)
    servers: int = setting(kinds.WHOLE, "k8s, ps: number of servers.", key="k8s_ps_num", least=1, default=1)
    server_cpus: int = setting(kinds.WHOLE, "k8s, ps: cores of a server.", key="k8s_ps_cores", least=1, default=2)
    job_version: str = setting(
        kinds.TEXT,
        "Environment of the platform.",
        default="paddle-fluid-v1.7.1",
        empty=Empty.UNSAID,
        origin=KeyOrigin.UMIAK,
    )
    image: str = setting(
        kinds.TEXT,
        "k8s: image of the nodes, with `job_version: paddle-fluid-custom`.",
        key="image_addr",
        default="",
        origin=KeyOrigin.UMIAK,
    )
    wall_time: str = setting(
        WALL_TIME, "Time after which the job is stopped.", default="2000:00:00", origin=KeyOrigin.UMIAK
    )
    permission: str = setting(
        kinds.CHOICE,
        "Who may see the job: you, or your group.",
        choices=("private", "group"),
        default="private",
        origin=KeyOrigin.UMIAK,
    )
