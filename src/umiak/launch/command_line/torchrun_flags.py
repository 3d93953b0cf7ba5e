"""The flags of torchrun, as of torch 2.15: a table. Values.

Those that Paddle's launcher has under the same name (``--nnodes``, ``--nproc-per-node``, ``--log-dir``) have their row
in paddle_flags, and ``--tee`` has its row among umiak's own. What the rows mean is decided in `torchrun`. ``ignored``
flags ask for something that umiak does otherwise or not at all, and that does not change what the job computes: they
are accepted, and a warning says so.
"""

from __future__ import annotations

from umiak.contracts.setting import SIGNALS
from umiak.launch.command_line.paddle_flags import REFUSED
from umiak.schema.flags import FlagKind, FlagOrigin, flag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Unpack

    from umiak.schema.flags import Flag, FlagRow

TORCHRUN = "Flags of torchrun"
BACKENDS = ("static", "c10d", "etcd", "etcd-v2")


def _flag(name: str, help_: str, group: str = TORCHRUN, **more: Unpack[FlagRow]) -> Flag:
    """A row. Its variable is called as it is; those that it names are asked behind that one."""
    row: FlagRow = {**more, "origin": FlagOrigin.TORCHRUN, "env": (f"PET_{name.upper()}", *more.get("env", ()))}
    return flag(name, help_, group, **row)


def _ignored(name: str, why: str, **more: Unpack[FlagRow]) -> Flag:
    row: FlagRow = {**more, "ignored": why}
    return _flag(name, "Accepted without effect.", **row)


FLAGS = (
    _flag("standalone", "Run on this node only, ignoring any platform.", kind=FlagKind.SWITCH),
    _flag(
        "node_rank",
        "With the static backend: same as --rank.",
        kind=FlagKind.NUMBER,
        least=0,
        elsewhere=("machine_rank",),
    ),
    _flag("master_addr", "With the static backend: address of node 0.", metavar="HOST"),
    _flag(
        "master_port",
        "With the static backend: port of the first worker's store, MASTER_PORT. The launchers use the port 10000 below it, or "
        "above it if it is below 20000.",
        kind=FlagKind.NUMBER,
        least=1,
        metavar="PORT",
    ),
    _flag("local_addr", "Same as --host.", metavar="HOST"),
    _flag(
        "rdzv_backend",
        "Rendezvous backend. static: at --master_addr, node 0 leads; c10d: at --rdzv_endpoint, the node with that address "
        "leads; etcd, etcd-v2: in etcd.",
        default="static",
        choices=BACKENDS,
        synonyms=(("etcd_v2", "etcd-v2"),),
    ),
    _flag("rdzv_endpoint", "Rendezvous address. Default port: 29400 with c10d, 2379 with etcd.", metavar="HOST[:PORT]"),
    _flag("rdzv_id", "Same as --job_id.", metavar="NAME"),
    _flag(
        "rdzv_conf",
        "Rendezvous settings: join_timeout, last_call_timeout, keep_alive_interval, keep_alive_max_attempt, is_host.",
        metavar="KEY=VALUE,...",
    ),
    _flag(
        "max_restarts", "Same as --max_restart. Default with other flags of torchrun: 0.", kind=FlagKind.NUMBER, least=0
    ),
    _flag("role", "Value of ROLE_NAME for the workers.", default="default", metavar="NAME"),
    _flag(
        "module", "Run the program as a Python module. Same as -m, but other flags may follow.", kind=FlagKind.SWITCH
    ),
    _flag("no_python", "Execute the program directly, even if its name ends with .py.", kind=FlagKind.SWITCH),
    _flag("run_path", "Run the program with Python, whatever its name.", kind=FlagKind.SWITCH),
    _flag(
        "redirects",
        "Write output to the log file only, not to the console: 3 for all workers, 1:3 for local rank 1.",
        letter="r",
        metavar="STD|RANK:STD,...",
    ),
    _flag("local_ranks_filter", "Show the output of these local ranks only.", metavar="N,..."),
    _flag(
        "shutdown_timeout",
        "Same as --grace and --failure_grace.",
        kind=FlagKind.SECONDS,
        least=0,
        env=("TORCH_ELASTIC_SHUTDOWN_TIMEOUT",),
    ),
    _flag(
        "signals_to_handle",
        "Signals that stop the job. Only these four are supported.",
        default=SIGNALS,
        metavar="SIGNAL,...",
    ),
    _ignored(
        "monitor_interval", "workers are not polled, their end is noticed at once", kind=FlagKind.SECONDS, least=0
    ),
    _ignored(
        "start_method",
        "it is about functions that torch's multiprocessing starts, and workers are programs",
        default="spawn",
        choices=("spawn", "fork", "forkserver"),
        metavar="NAME",
    ),
    _ignored(
        "event_log_handler",
        "events of the launcher are in events.jsonl in the log directory",
        default="null",
        metavar="NAME",
    ),
    _ignored(
        "log_line_prefix_template",
        "lines on the console are tagged with role and rank, as in [trainer 1]",
        default="",
        metavar="TEMPLATE",
        env=("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE",),
    ),
    _ignored(
        "duplicate_stdout_filters",
        "no second file is written; `grep` finds the lines in workerlog.*",
        default="",
        metavar="TEXT,...",
    ),
    _ignored(
        "duplicate_stderr_filters",
        "no second file is written; `grep` finds the lines in workerlog.*",
        default="",
        metavar="TEXT,...",
    ),
    _ignored(
        "logs_specs",
        "plug-ins of torchrun are not loaded; output goes to workerlog.* in the log directory",
        metavar="NAME",
    ),
    _ignored(
        "numa_binding",
        "workers are not bound to CPUs; `numactl` in a small script can do it",
        choices=("node", "socket", "exclusive", "core-complex"),
        metavar="MODE",
    ),
    _flag(
        "virtual_local_rank",
        "Set LOCAL_RANK to 0 for every worker, each with one visible device.",
        REFUSED,
        kind=FlagKind.SWITCH,
        refused="workers of a node see the same devices and different values of LOCAL_RANK; let the script use cuda:LOCAL_RANK",
    ),
    _flag(
        "print_completion",
        "Print torchrun's shell completion.",
        REFUSED,
        metavar="SHELL",
        refused="it prints a script for the command torchrun",
    ),
)
