"""Flags of Paddle's older launchers, and those that umiak refuses: a table. Values; the other half of paddle_flags.

Old names of flags that still exist are not here but beside the flag. A flag with ``refused`` is known so that the
answer can say why it is not obeyed: leaving it out silently would run another job than the one that was asked for.
"""

from __future__ import annotations

from umiak.launch.command_line.paddle_flags import OLDER, REFUSED, SERVERS
from umiak.schema.flags import FlagKind, FlagOrigin, flag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Unpack

    from umiak.schema.flags import Flag, FlagRow

NO_PLAN = "the search for a parallel plan is part of Paddle's launcher"
NO_COORDINATORS = "umiak knows servers, trainers and heter workers, but not the coordinators of federated training"


def _old(name: str, help_: str, group: str, **more: Unpack[FlagRow]) -> Flag:
    row: FlagRow = {**more, "origin": FlagOrigin.OLD}
    return flag(name, help_, group, **row)


FLAGS = (
    _old(
        "heter_worker_num",
        "Number of heter workers per node. Default in ps-heter mode: 1.",
        SERVERS,
        default="",
        metavar="N",
    ),
    _old("heter_workers", "Addresses of all heter workers.", SERVERS, default="", metavar="HOST:PORT,..."),
    _old("heter_devices", "Device of the heter workers: gpu, xpu or cpu.", SERVERS, default="", metavar="DEVICE"),
    _old(
        "elastic_server",
        "Etcd server of the old elastic launcher. Same as --master etcd://HOST:PORT.",
        OLDER,
        metavar="HOST:PORT",
        env=("PADDLE_ELASTIC_SERVER",),
    ),
    _old(
        "use_paddlecloud",
        "Read the cluster from PaddleCloud's variables. Same as --topology paddlejob.",
        OLDER,
        kind=FlagKind.TRUTH,
    ),
    _old(
        "backend",
        "Communication backend of the workers. Default, or auto: chosen by the framework.",
        OLDER,
        default="auto",
        choices=("auto", "nccl", "gloo", "bkcl", "heter", "xccl", "flagcx"),
        metavar="NAME",
        env=("PADDLE_DISTRI_BACKEND",),
    ),
    _old("print_config", "False: do not print the configuration block.", OLDER, kind=FlagKind.TRUTH, default=True),
    _old(
        "scale",
        "Change the number of nodes (old elastic launcher).",
        REFUSED,
        kind=FlagKind.NUMBER,
        default=0,
        env=("PADDLE_ELASTIC_SCALE",),
        refused="an elastic job grows and shrinks by itself: start one more node, or stop one",
    ),
    _old(
        "force",
        "Used with --scale.",
        REFUSED,
        kind=FlagKind.TRUTH,
        env=("PADDLE_ELASTIC_FORCE",),
        refused="it changed the number of nodes of a running job, which now needs no command",
    ),
    _old(
        "elastic_pre_hook",
        "Shell command to run before each start of the workers.",
        REFUSED,
        metavar="COMMAND",
        refused="umiak starts your program and nothing else; let a small script run the command and then the program",
    ),
    _old(
        "coordinators",
        "Coordinators of federated training.",
        REFUSED,
        default="",
        metavar="HOST:PORT,...",
        refused=NO_COORDINATORS,
    ),
    _old("coordinator_num", "Number of coordinators.", REFUSED, kind=FlagKind.NUMBER, refused=NO_COORDINATORS),
    _old("cluster_topo_path", "File for automatic parallelism.", REFUSED, metavar="FILE", refused=NO_PLAN),
    _old("rank_mapping_path", "File for automatic parallelism.", REFUSED, metavar="FILE", refused=NO_PLAN),
    _old("enable_auto_mapping", "Enable automatic parallelism.", REFUSED, kind=FlagKind.TRUTH, refused=NO_PLAN),
    flag(
        "legacy",
        "Use Paddle's old launcher. Not required: its flags are accepted as they are.",
        OLDER,
        kind=FlagKind.TRUTH,
    ),
    flag(
        "auto_parallel_config",
        "Paddle's file for automatic parallelism.",
        REFUSED,
        metavar="FILE",
        env=("PADDLE_AUTO_PARALLEL_CONFIG",),
        refused="the search for a parallel plan is part of Paddle's launcher, which runs the script many times to find it",
    ),
    flag(
        "auto_cluster_config",
        "Enable Paddle's automatic parallelism.",
        REFUSED,
        kind=FlagKind.TRUTH,
        env=("PADDLE_AUTO_CLUSTER",),
        refused=NO_PLAN,
    ),
    flag(
        "auto_tuner_json",
        "File for Paddle's auto-tuner.",
        REFUSED,
        metavar="FILE",
        refused="the tuner is part of Paddle's launcher, which runs the script many times and compares",
    ),
)
