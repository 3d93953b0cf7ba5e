"""The flags that `umiak launch` has beyond Paddle's: a table, and what its rows mean. A decider.

Their variables begin with UMIAK_. ``--check`` and ``--json`` have none, because they ask for something else than the job,
and a variable that is forgotten in a shell would ask for it for ever. Nor have ``--quiet`` and ``--verbose``: PADDLE_LOG_LEVEL
is there.
"""

from __future__ import annotations

from umiak.compat import paddle_flags, paddle_launch, paddle_old_flags, torchrun_flags
from umiak.core.value import replace
from umiak.launch.options import TrainerRestart
from umiak.schema.flags import Flag, FlagKind, FlagOrigin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.launch.options import LaunchOptions
    from umiak.schema.flags import FlagFindings, Parsed

OWN = (
    Flag(
        name="join_timeout",
        help="Time to wait for missing nodes; then the job fails and names them.",
        group=paddle_flags.NODES,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SECONDS,
        default=600.0,
        least=0.1,
        metavar="SECONDS",
        env=("UMIAK_JOIN_TIMEOUT",),
    ),
    Flag(
        name="topology",
        help="Platform to read the cluster from (slurm, openmpi, modelarts, ...). Default: auto-detect; none: disable.",
        group=paddle_flags.NODES,
        origin=FlagOrigin.UMIAK,
        metavar="NAME",
        env=("UMIAK_TOPOLOGY",),
    ),
    Flag(
        name="heartbeat_timeout",
        help="Treat a node as lost after this long without a heartbeat.",
        group=paddle_flags.FAILURES,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SECONDS,
        default=5.0,
        least=0.1,
        metavar="SECONDS",
        env=("UMIAK_HEARTBEAT_TIMEOUT",),
    ),
    Flag(
        name="hang_timeout",
        help="Treat a worker as hung and failed after this long without progress; the script reports progress with "
        "umiak.progress(). Default: off.",
        group=paddle_flags.FAILURES,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SECONDS,
        least=0.1,
        metavar="SECONDS",
        env=("UMIAK_HANG_TIMEOUT",),
    ),
    Flag(
        name="grace",
        help="Time workers have to exit after the launcher receives SIGTERM or Ctrl-C; then they are killed.",
        group=paddle_flags.FAILURES,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SECONDS,
        default=30.0,
        least=0,
        metavar="SECONDS",
        env=("UMIAK_GRACE",),
    ),
    Flag(
        name="failure_grace",
        help="Time workers have to exit when the job stops because of a failure or a change of nodes.",
        group=paddle_flags.FAILURES,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SECONDS,
        default=5.0,
        least=0,
        metavar="SECONDS",
        env=("UMIAK_FAILURE_GRACE",),
    ),
    Flag(
        name="trainer_restart",
        help="With parameter servers: restart the whole group when a trainer fails, or that trainer alone.",
        group=paddle_flags.FAILURES,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.CHOICE,
        default="group",
        choices=("group", "alone"),
        metavar="group|alone",
        env=("UMIAK_TRAINER_RESTART",),
    ),
    Flag(
        name="lost_at_start",
        help="When a node is lost before the job has started: wait for it to come back, until --join_timeout, or fail at once. "
        "Elastic jobs always wait.",
        group=paddle_flags.FAILURES,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.CHOICE,
        default="wait",
        choices=("wait", "fail"),
        metavar="wait|fail",
        env=("UMIAK_LOST_AT_START",),
    ),
    Flag(
        name="tee",
        help="Show worker output live, beside the log files: of the first worker (0), of all workers with a tag, or of none. "
        "torchrun's 1, 2, 3 and RANK:STD lists are accepted too.",
        group=paddle_flags.SEEN,
        origin=FlagOrigin.UMIAK,
        letter="t",
        default="0",
        metavar="0|all|none",
        env=("UMIAK_TEE", "PET_TEE"),
    ),
    Flag(
        name="log_max_bytes",
        help="Rotate a log file when it exceeds this size; two old files are kept.",
        group=paddle_flags.SEEN,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SIZE,
        default=256 * 1024 * 1024,
        least=1024,
        metavar="SIZE",
        env=("UMIAK_LOG_MAX_BYTES",),
    ),
    Flag(
        name="log_mode",
        help="Permissions of log files, e.g. 0640. Default: readable by the owner only; 0640 with --log_group.",
        group=paddle_flags.SEEN,
        origin=FlagOrigin.UMIAK,
        metavar="MODE",
        env=("UMIAK_LOG_MODE",),
    ),
    Flag(
        name="log_group",
        help="Group that owns the log files, for a log collector that runs as another user.",
        group=paddle_flags.SEEN,
        origin=FlagOrigin.UMIAK,
        metavar="GROUP",
        env=("UMIAK_LOG_GROUP",),
    ),
    Flag(
        name="keep_proxy",
        help="Pass http_proxy and https_proxy on to workers. By default they are removed, as Paddle does, unless flags of "
        "torchrun are used.",
        group=paddle_flags.WORKERS,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.TRUTH,
        default=False,
        metavar="BOOL",
        env=("UMIAK_KEEP_PROXY",),
    ),
    Flag(
        name="no_compat",
        help="With parameter servers: leave the calls of paddle.distributed.fleet in Python workers to Paddle. By default umiak's "
        "servers answer them.",
        group=paddle_flags.SERVERS,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.TRUTH,
        default=False,
        metavar="BOOL",
        env=("UMIAK_NO_COMPAT",),
    ),
    Flag(
        name="quiet",
        help="Print warnings, errors and worker output only: --log_level WARNING. A command for the other nodes is still printed.",
        group=paddle_flags.SEEN,
        origin=FlagOrigin.UMIAK,
        letter="q",
        kind=FlagKind.SWITCH,
        default=False,
        elsewhere=("silent",),
    ),
    Flag(
        name="verbose",
        help="Print every setting at the start, not only those that differ from the defaults.",
        group=paddle_flags.SEEN,
        origin=FlagOrigin.UMIAK,
        letter="v",
        kind=FlagKind.SWITCH,
        default=False,
    ),
    Flag(
        name="check",
        help="Connect and check the nodes without starting anything. No program is required.",
        group=paddle_flags.SEEN,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
        elsewhere=("dry_run", "dryrun"),
    ),
    Flag(
        name="json",
        help="With --check: print the result as JSON to stdout.",
        group=paddle_flags.SEEN,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
)

FLAGS = paddle_flags.FLAGS + OWN + torchrun_flags.FLAGS + paddle_old_flags.FLAGS


def with_own(made: LaunchOptions, parsed: Parsed, findings: FlagFindings) -> LaunchOptions:
    """Paddle's options, and umiak's own on top."""
    made = replace(
        made,
        topology=_topology(made, parsed, findings),
        join_timeout_s=parsed.seconds("join_timeout"),
        heartbeat_timeout_s=parsed.seconds("heartbeat_timeout"),
        hang_timeout_s=parsed.seconds("hang_timeout"),
        grace_s=parsed.seconds("grace"),
        failure_grace_s=parsed.seconds("failure_grace"),
        trainer_restart=TrainerRestart(parsed.text("trainer_restart")),
        fails_at_start=parsed.text("lost_at_start") == "fail",
        keep_proxy=parsed.truth("keep_proxy"),
        no_compat=parsed.truth("no_compat"),
        log_level=_log_level(made, parsed, findings),
        log_max_bytes=parsed.number("log_max_bytes"),
        log_mode=_log_mode(parsed, findings),
        log_group=parsed.text("log_group") or None,
        check=parsed.truth("check"),
        as_json=parsed.truth("json"),
    )
    if made.shown and parsed.truth("verbose"):
        made = replace(made, shown=paddle_launch.shown(parsed, made, whole=True))
    _check_program(made, parsed, findings)
    return made


def _log_level(made: LaunchOptions, parsed: Parsed, findings: FlagFindings) -> str:
    if not parsed.truth("quiet"):
        return made.log_level
    if parsed.truth("verbose"):
        findings.note("--verbose is not used: --quiet is said as well")
    return max(made.log_level, "WARNING", key=paddle_flags.LEVELS.index)


def _log_mode(parsed: Parsed, findings: FlagFindings) -> int | None:
    setting = parsed["log_mode"]
    if not setting.said:
        return None
    text = parsed.text("log_mode").removeprefix("0o")
    mode = int(text, 8) if text.isascii() and text and set(text) <= set("01234567") else -1
    if mode & ~0o664 or mode & 0o600 != 0o600:
        findings.problem(
            "UM-LAUNCH-315",
            f"not permissions for log files: {setting.spoken}",
            why="the owner must be able to read and write them, and only the group may write besides",
            hint="write an octal number between 0600 and 0664, as in --log_mode 0640",
        )
        return None
    return mode


def _topology(made: LaunchOptions, parsed: Parsed, findings: FlagFindings) -> str | None:
    setting, old = parsed["topology"], parsed["use_paddlecloud"]
    if not setting.said:
        return made.topology
    name = parsed.text("topology").lower()
    if made.topology not in (None, name):
        if setting.source is old.source:
            findings.problem(
                "UM-LAUNCH-119",
                f"two sources for the cluster: {setting.spoken} and {old.spoken}",
                hint=f"leave out {old.said_as}: it is an old name for --topology paddlejob",
            )
            return name
        findings.note(f"{old.spoken} is used; the environment says {setting.spoken}")
        return made.topology
    return name


def _check_program(made: LaunchOptions, parsed: Parsed, findings: FlagFindings) -> None:
    if parsed.program[:1] == ("run_check",) and not parsed.is_module:
        findings.problem(
            "UM-LAUNCH-116",
            "not supported: run_check",
            why="it is a test inside Paddle's launcher",
            hint="`umiak launch --check --nnodes 2` examines the nodes; ./run_check runs a program of that name",
        )
    if parsed.program and not parsed.program[0].strip():
        findings.problem(
            "UM-LAUNCH-139",
            "nothing to run: the program's name is empty",
            hint="is a shell variable empty? write `umiak launch --nnodes 2 train.py`",
        )
    if not parsed.program and not made.check:
        after = "a module after -m" if parsed.is_module else "a program"
        findings.problem(
            "UM-LAUNCH-101",
            f"nothing to run: {after} is missing",
            hint="write it after the flags: `umiak launch --nnodes 2 train.py`",
        )
