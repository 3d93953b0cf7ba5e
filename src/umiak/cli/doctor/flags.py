"""The page of `umiak doctor`, and its flags: its own, and those of `umiak launch` that say what a job would use.
Values.
"""

from __future__ import annotations

from umiak.cli.shared_flags import JSON, ON, OUTPUT, TIMEOUT, flag, shared
from umiak.cli.texts.command_page import CommandPage
from umiak.core.value import replace
from umiak.doctor.checks import CHECKS, GROUPS
from umiak.launch.command_line import paddle_flags

WHAT = "Checks"
JOB = "The job, as for `umiak launch`"
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
    flag(
        "only",
        "Run these checks or groups of checks only, comma-separated.",
        WHAT,
        metavar="NAME,...",
        elsewhere=("checks", "select"),
    ),
    shared(ON, "Check this place of umiak.toml too, through its backend: hosts, keys, rights.", WHAT),
    replace(TIMEOUT, help="Time limit of each check. Default: its own, 10 to 120 seconds.", group=WHAT, least=0.1),
    shared(JSON, "Print JSON, with everything that was measured.", OUTPUT),
)
FLAGS = (
    *OWN[:-1],
    *(replace(of_launch, group=JOB) for of_launch in paddle_flags.FLAGS if of_launch.name in _OF_LAUNCH),
    OWN[-1],
)

PAGE = CommandPage(
    usage=("umiak doctor [flags]",),
    about="Find out why it does not work: examine this machine, its frameworks and its network, and with --on a place where jobs "
    "run. Nothing is changed. A framework is tried in a process of its own.",
    examples=(
        ("umiak doctor", "everything about this machine"),
        ("umiak doctor --nnodes 2 --master 10.0.0.1:8090", "as part of this job"),
        ("umiak doctor --nnodes 2:4 --master etcd://10.0.0.7", "etcd, and what elastic jobs need"),
        ("umiak doctor --only network,shm", "some checks"),
        ("umiak doctor --on lab", "and the hosts of a place"),
        ("umiak doctor --json", "machine-readable"),
    ),
    flags=FLAGS,
    lists=(
        (
            "Checks, by group",
            tuple((group, ", ".join(check.name for check in CHECKS if check.group == group)) for group in GROUPS),
        ),
    ),
    ending="Exit status: 0 if there is no problem (warnings are none), 1 if there is one, 2 for a wrong command line. Several "
    "nodes together are examined by `umiak launch --check`.",
)
