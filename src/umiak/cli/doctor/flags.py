"""The flags of `umiak doctor`: its own, and those of `umiak launch` that say what a job would use. Values."""

from __future__ import annotations

from umiak.compat import paddle_flags
from umiak.core.value import replace
from umiak.schema.flags import Flag, FlagKind, FlagOrigin

WHAT = "Checks"
JOB = "The job, as for `umiak launch`"
SHOWN = "Output"
_OF_LAUNCH = (
    "nnodes",
    "master",
    "ips",
    "host",
    "start_port",
    "nproc_per_node",
    "devices",
    "job_id",
    "elastic_level",
    "elastic_timeout",
    "max_restart",
    "log_dir",
)

OWN = (
    Flag(
        name="only",
        help="Run these checks or groups of checks only, comma-separated.",
        group=WHAT,
        origin=FlagOrigin.UMIAK,
        metavar="NAME,...",
        elsewhere=("checks", "select"),
    ),
    Flag(
        name="on",
        help="Check this place of umiak.toml too, through its backend: hosts, keys, rights.",
        group=WHAT,
        origin=FlagOrigin.UMIAK,
        metavar="PLACE",
    ),
    Flag(
        name="timeout",
        help="Time limit of each check. Default: its own, 10 to 120 seconds.",
        group=WHAT,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SECONDS,
        least=0.1,
        metavar="SECONDS",
    ),
    Flag(
        name="json",
        help="Print JSON, with everything that was measured.",
        group=SHOWN,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
)
FLAGS = (
    *OWN[:-1],
    *(replace(flag, group=JOB) for flag in paddle_flags.FLAGS if flag.name in _OF_LAUNCH),
    OWN[-1],
)
