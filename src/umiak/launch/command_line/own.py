"""The flags that `umiak launch` has beyond Paddle's: a table, and what its rows mean. A decider.

Their variables begin with UMIAK_. ``--check`` and ``--json`` have none, because they ask for something else than the
job, and a variable that is forgotten in a shell would ask for it for ever. Nor have ``--quiet`` and ``--verbose``:
PADDLE_LOG_LEVEL is there.
"""

from __future__ import annotations

from umiak.core.value import replace
from umiak.launch.command_line import paddle, paddle_flags, paddle_old_flags, torchrun_flags
from umiak.launch.command_line.paddle_flags import FAILURES, LEVELS, NODES, SEEN, SERVERS, WORKERS
from umiak.launch.options import TrainerRestart
from umiak.schema.flags import FlagKind, FlagOrigin, flag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Unpack

    from umiak.launch.options import LaunchOptions
    from umiak.schema.flags import Flag, FlagFindings, FlagRow, Parsed


def _own(name: str, help_: str, group: str, **more: Unpack[FlagRow]) -> Flag:
    """A row whose variable is called as it is, unless the row says otherwise."""
    row: FlagRow = {"origin": FlagOrigin.UMIAK, "env": (f"UMIAK_{name.upper()}",), **more}
    return flag(name, help_, group, **row)


OWN = (
    _own(
        "join_timeout",
        "Time to wait for missing nodes; then the job fails and names them.",
        NODES,
        kind=FlagKind.SECONDS,
        default=600.0,
        least=0.1,
    ),
    _own(
        "topology",
        "Platform to read the cluster from (slurm, openmpi, modelarts, ...). Default: auto-detect; none: disable.",
        NODES,
        metavar="NAME",
    ),
    _own(
        "heartbeat_timeout",
        "Treat a node as lost after this long without a heartbeat.",
        FAILURES,
        kind=FlagKind.SECONDS,
        default=5.0,
        least=0.1,
    ),
    _own(
        "hang_timeout",
        "Treat a worker as hung and failed after this long without progress; the script reports progress with "
        "umiak.progress(). Default: off.",
        FAILURES,
        kind=FlagKind.SECONDS,
        least=0.1,
    ),
    _own(
        "grace",
        "Time workers have to exit after the launcher receives SIGTERM or Ctrl-C; then they are killed.",
        FAILURES,
        kind=FlagKind.SECONDS,
        default=30.0,
        least=0,
    ),
    _own(
        "failure_grace",
        "Time workers have to exit when the job stops because of a failure or a change of nodes.",
        FAILURES,
        kind=FlagKind.SECONDS,
        default=5.0,
        least=0,
    ),
    _own(
        "trainer_restart",
        "With parameter servers: restart the whole group when a trainer fails, or that trainer alone.",
        FAILURES,
        default="group",
        choices=("group", "alone"),
    ),
    _own(
        "lost_at_start",
        "When a node is lost before the job has started: wait for it to come back, until --join_timeout, or fail at once. "
        "Elastic jobs always wait.",
        FAILURES,
        default="wait",
        choices=("wait", "fail"),
    ),
    _own(
        "tee",
        "Show worker output live, beside the log files: of the first worker (0), of all workers with a tag, or of none. "
        "torchrun's 1, 2, 3 and RANK:STD lists are accepted too.",
        SEEN,
        letter="t",
        default="0",
        metavar="0|all|none",
        env=("UMIAK_TEE", "PET_TEE"),
    ),
    _own(
        "log_max_bytes",
        "Rotate a log file when it exceeds this size; two old files are kept.",
        SEEN,
        kind=FlagKind.SIZE,
        default=256 * 1024 * 1024,
        least=1024,
    ),
    _own(
        "log_mode",
        "Permissions of log files, e.g. 0640. Default: readable by the owner only; 0640 with --log_group.",
        SEEN,
        metavar="MODE",
    ),
    _own(
        "log_group",
        "Group that owns the log files, for a log collector that runs as another user.",
        SEEN,
        metavar="GROUP",
    ),
    _own(
        "keep_proxy",
        "Pass http_proxy and https_proxy on to workers. By default they are removed, as Paddle does, unless flags of "
        "torchrun are used.",
        WORKERS,
        kind=FlagKind.TRUTH,
    ),
    _own(
        "no_compat",
        "Leave `import paddle.fluid` in Python workers to Paddle, and with parameter servers the calls of paddle.distributed.fleet. "
        "By default umiak has a paddle.fluid where Paddle has none, and its servers answer these calls.",
        SERVERS,
        kind=FlagKind.TRUTH,
    ),
    _own(
        "quiet",
        "Print warnings, errors and worker output only: --log_level WARNING. A command for the other nodes is still printed.",
        SEEN,
        letter="q",
        kind=FlagKind.SWITCH,
        elsewhere=("silent",),
        env=(),
    ),
    _own(
        "verbose",
        "Print every setting at the start, not only those that differ from the defaults.",
        SEEN,
        letter="v",
        kind=FlagKind.SWITCH,
        env=(),
    ),
    _own(
        "check",
        "Connect and check the nodes without starting anything. No program is required.",
        SEEN,
        kind=FlagKind.SWITCH,
        elsewhere=("dry_run", "dryrun"),
        env=(),
    ),
    _own("json", "With --check: print the result as JSON to stdout.", SEEN, kind=FlagKind.SWITCH, env=()),
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
        made = replace(made, shown=paddle.shown(parsed, made, whole=True))
    _check_program(made, parsed, findings)
    return made


def _log_level(made: LaunchOptions, parsed: Parsed, findings: FlagFindings) -> str:
    if not parsed.truth("quiet"):
        return made.log_level
    if parsed.truth("verbose"):
        findings.note("--verbose is not used: --quiet is said as well")
    return max(made.log_level, "WARNING", key=LEVELS.index)


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
