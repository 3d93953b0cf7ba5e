"""Every key of a backend.yaml for PaddleCloud, with its kind, its default and its meaning. Values.

Names and defaults are those of PaddleRec 1.8.5; ``k8s-cpu-cores`` and ``k8s_cpu_cores`` are the same key. Rows marked as umiak's are not
known there.
"""

from __future__ import annotations

import re
from enum import Enum

from umiak.schema import kinds
from umiak.schema.keys import BadValue, Key, Kind, WrongType, words
from umiak.schema.kinds import word_of
from umiak.schema.sections import UnknownKeys
from umiak.schema.yaml_tree import Listing, Scalar, shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
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
    if isinstance(node, Listing):
        return tuple([word_of(each) for each in node.items])
    import shlex

    text = word_of(node)
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise BadValue(f"not a list of files: {shortened(text)}", why=str(error), hint="quote it as a shell") from None


def _remote(_: Key, node: Node) -> str:
    """A path in the remote file system. People write it with the name of that in front, which the platform does not take."""
    text = word_of(node).strip()
    if text and (_PATH.match(text) or not text.startswith("/")):
        bare = re.sub(r"^[A-Za-z]+:(//[^/]*)?", "", text)
        raise BadValue(
            f"not a path of the remote file system: {shortened(text)}",
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
        raise BadValue(f"neither 0 nor 1: {shortened(node.text)}")
    return text in ("1", "true")


def _wall_time(_: Key, node: Node) -> str:
    text = node.text.strip() if isinstance(node, Scalar) else ""
    if not _WALL_TIME.match(text):
        raise BadValue(f"not a time: {shortened(text)}", hint='write hours, minutes and seconds: `"72:00:00"`')
    return text


SECRET = Kind(phrase="text, or a variable such as $PADDLECLOUD_SK", read=_secret)
FILES = Kind(phrase="patterns of files", read=_files)
REMOTE = Kind(phrase="a path of the remote file system", read=_remote)
FLAG = Kind(phrase="0 or 1", read=_flag)
WALL_TIME = Kind(phrase="hours, minutes and seconds", read=_wall_time)

PLACE = (
    Key(
        name="cluster_type",
        meaning="Kind of cluster.",
        kind=kinds.CHOICE,
        choices=words(ClusterType),
        synonyms=(("kubernetes", "k8s"),),
        required=True,
    ),
    Key(name="config", meaning="What nodes are given.", kind=kinds.MAPPING, required=True),
    Key(name="submit", meaning="What the client is given.", kind=kinds.MAPPING, required=True),
    Key(
        name="timeout",
        meaning="Seconds to wait for the client.",
        kind=kinds.NUMBER,
        least=1,
        default=300,
        origin=KeyOrigin.UMIAK,
    ),
)

CONFIG = (
    Key(
        name="paddle_version",
        meaning="PaddlePaddle to install on nodes.",
        kind=kinds.TEXT,
        default_said="that of the node",
    ),
    Key(name="use_python3", meaning="Let the platform use its Python 3.", kind=FLAG, default=0),
    Key(name="fs_name", meaning="Remote file system, as in `afs://host:port`.", kind=kinds.TEXT, required=True),
    Key(name="fs_ugi", meaning="User and password of it, `user,password`.", kind=SECRET, required=True),
    Key(name="output_path", meaning="Where results go.", kind=REMOTE),
    Key(name="train_data_path", meaning="mpi: data, brought to `./train_data`.", kind=REMOTE),
    Key(name="test_data_path", meaning="mpi: data, brought to `./test_data`.", kind=REMOTE),
    Key(name="thirdparty_path", meaning="mpi: other files, brought to `./thirdparty`.", kind=REMOTE),
    Key(name="afs_remote_mount_point", meaning="k8s: directory that is mounted as `./afs`.", kind=REMOTE),
    Key(name="communicator", meaning="Flags of the parameter server's communicator.", kind=kinds.MAPPING),
)

_THREADS = "CPU_NUM, the largest `thread_num`"
COMMUNICATOR = (
    Key(name="FLAGS_communicator_is_sgd_optimizer", meaning="1 with SGD.", kind=FLAG, default=0),
    Key(
        name="FLAGS_communicator_send_queue_size",
        meaning="Gradients that wait to be sent.",
        kind=kinds.WHOLE,
        least=1,
        default_said=_THREADS,
    ),
    Key(name="FLAGS_communicator_thread_pool_size", meaning="Sending threads.", kind=kinds.WHOLE, least=1, default=32),
    Key(
        name="FLAGS_communicator_max_merge_var_num",
        meaning="Gradients that are merged into one.",
        kind=kinds.WHOLE,
        least=1,
        default_said=_THREADS,
    ),
    Key(
        name="FLAGS_communicator_max_send_grad_num_before_recv",
        meaning="Gradients sent before parameters are received.",
        kind=kinds.WHOLE,
        least=1,
        default_said=_THREADS,
    ),
    Key(name="FLAGS_communicator_fake_rpc", meaning="1: send nothing, to measure.", kind=FLAG, default=0),
    Key(name="FLAGS_rpc_retry_times", meaning="Repeats of a request.", kind=kinds.WHOLE, least=0, default=3),
)

SUBMIT = (
    Key(name="ak", meaning="Access key.", kind=SECRET, default_said="`PADDLECLOUD_AK`, or the client's own"),
    Key(name="sk", meaning="Secret key.", kind=SECRET, default_said="`PADDLECLOUD_SK`, or the client's own"),
    Key(
        name="priority",
        meaning="Priority of the job.",
        kind=kinds.CHOICE,
        choices=("low", "normal", "high", "very_high", "veryhigh"),
        default="high",
    ),
    Key(name="job_name", meaning="Name of the job.", kind=kinds.NAME, default_said="that of the config"),
    Key(name="group", meaning="Group whose resources are used.", kind=kinds.TEXT, default="paddle"),
    Key(
        name="start_cmd",
        meaning="Command on every node.",
        kind=kinds.TEXT,
        default_said="`umiak train` with the config, or the job's command under `umiak launch`",
    ),
    Key(
        name="files",
        meaning="Patterns of files to upload, all into one directory.",
        kind=FILES,
        default_said="the job's files, as one archive",
    ),
    Key(name="nodes", meaning="mpi: number of nodes.", kind=kinds.WHOLE, least=1, default=1),
    Key(name="k8s_trainers", meaning="k8s: number of trainers.", kind=kinds.WHOLE, least=1, default=1),
    Key(
        name="k8s_cpu_cores",
        meaning="k8s: cores of a trainer.",
        kind=kinds.WHOLE,
        least=1,
        default_said="1 with GPUs, else 2",
    ),
    Key(name="k8s_gpu_card", meaning="k8s, collective: GPUs of a trainer.", kind=kinds.WHOLE, least=1, default=1),
    Key(name="k8s_ps_num", meaning="k8s, ps: number of servers.", kind=kinds.WHOLE, least=1, default=1),
    Key(name="k8s_ps_cores", meaning="k8s, ps: cores of a server.", kind=kinds.WHOLE, least=1, default=2),
    Key(
        name="job_version",
        meaning="Environment of the platform.",
        kind=kinds.TEXT,
        default="paddle-fluid-v1.7.1",
        origin=KeyOrigin.UMIAK,
    ),
    Key(
        name="image_addr",
        meaning="k8s: image of the nodes, with `job_version: paddle-fluid-custom`.",
        kind=kinds.TEXT,
        origin=KeyOrigin.UMIAK,
    ),
    Key(
        name="wall_time",
        meaning="Time after which the job is stopped.",
        kind=WALL_TIME,
        default="2000:00:00",
        origin=KeyOrigin.UMIAK,
    ),
    Key(
        name="permission",
        meaning="Who may see the job: you, or your group.",
        kind=kinds.CHOICE,
        choices=("private", "group"),
        default="private",
        origin=KeyOrigin.UMIAK,
    ),
)

FOR_MPI = ("train_data_path", "test_data_path", "thirdparty_path", "nodes")
FOR_K8S = (
    *("afs_remote_mount_point", "k8s_trainers", "k8s_cpu_cores", "k8s_gpu_card", "k8s_ps_num", "k8s_ps_cores"),
    "image_addr",
)
