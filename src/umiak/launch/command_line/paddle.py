"""What the flags of ``paddle.distributed.launch`` mean: a parsed command line in, LaunchOptions out. A decider.

    options(parsed, findings)      the job that the flags ask for; whatever is wrong is added to the findings
    inherited(environ)             the environment without variables that are not meant as flags of this launch

Nothing is raised: each check adds its problem and goes on with a value that makes sense, so that all mistakes of a
command line are told at once. Where the command line and the environment contradict one another across two flags
(``--ips`` here, PADDLE_MASTER there), the command line holds and a note says so; on one level it is a problem.
"""

from __future__ import annotations

from umiak.core.cluster import Mode, node_range
from umiak.core.value import replace
from umiak.launch.command_line import addresses, paddle_servers, torchrun
from umiak.launch.options import LaunchOptions
from umiak.schema.flags import Flag, FlagFindings, FlagKind, FlagOrigin, FlagSource, Parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    T = TypeVar("T")

NOT_SHOWN = ("check", "json", "print_config", "quiet", "verbose")
"""Flags that say what is shown, not what is run."""
SERVER_FLAGS = ("server_num", "trainer_num", "servers", "trainers")
LONGEST_JOB_ID = 128
HETER_FLAGS = ("heter_worker_num", "heter_workers", "heter_devices")
OF_ONE_NODE = ("master", "rank", "host", *torchrun.OF_ONE_NODE)
"""Flags that say something else on each node, or are said again in the command for the others."""
WORKER_MARKS = ("UMIAK_RANK", "PADDLE_CURRENT_ENDPOINT", "PADDLE_LOCAL_RANK")
WORKER_WORDS = ("PADDLE_MASTER", "PADDLE_NNODES", "PADDLE_TRAINER_ID", "PADDLE_DISTRI_BACKEND")
PLATFORM_MARKS = ("PADDLE_TRAINER_ENDPOINTS", "DISTRIBUTED_TRAINER_ENDPOINTS", "PADDLE_TRAINERS", "TRAINING_ROLE")

OPERATOR_LISTS = ("PADDLE_SERVERS_ENDPOINTS", "PADDLE_TRAINERS_ENDPOINTS")
"""What a PaddleJob's pods have for Paddle's own launcher."""


def options(parsed: Parsed, findings: FlagFindings) -> LaunchOptions:
    """The job that Paddle's flags ask for."""
    _refuse(parsed, findings)
    mode = _mode(parsed, findings)
    master, node_hosts = _discovery(parsed, findings)
    nodes = _read(parsed, "nnodes", node_range, findings, "UM-LAUNCH-102", NODES_HINT) or (1, 1)
    elastic_level = int(parsed.text("elastic_level"))
    options = LaunchOptions(
        program=parsed.program,
        is_module=parsed.is_module,
        program_argv=_for_other_nodes(parsed),
        job_id=_job_id(parsed, findings),
        mode=mode,
        least_nodes=nodes[0],
        most_nodes=nodes[1],
        nodes_said=parsed.said("nnodes"),
        host=_read(parsed, "host", addresses.host, findings, "UM-LAUNCH-109", HOST_HINT),
        master=master,
        node_hosts=node_hosts,
        start_port=parsed.number("start_port") if node_hosts or parsed.said("start_port") else None,
        sort_ip=parsed.truth("sort_ip"),
        topology="paddlejob" if parsed.truth("use_paddlecloud") else None,
        workers_per_node=parsed.number("nproc_per_node"),
        workers_word=parsed.word("nproc_per_node"),
        devices=_read(parsed, "devices", addresses.devices, findings, "UM-LAUNCH-108", DEVICES_HINT),
        backend=None if parsed.text("backend") == "auto" else parsed.text("backend"),
        with_gloo=_with_gloo(parsed, mode),
        gloo_port=parsed.number("gloo_port") if parsed.said("gloo_port") else None,
        max_restart=parsed.number("max_restart") or 0,
        restart_wanted=parsed.said("max_restart") or nodes[0] < nodes[1] or elastic_level >= 0,
        elastic_level=elastic_level,
        elastic_timeout_s=parsed.seconds("elastic_timeout") or 0.0,
        log_dir=_log_dir(parsed, findings),
        log_level=parsed.text("log_level"),
        log_overwrite=parsed.truth("log_overwrite"),
        enable_gpu_log=parsed.truth("enable_gpu_log"),
    )
    if mode.has_servers:
        options = paddle_servers.with_servers(options, parsed, findings)
        if parsed["nproc_per_node"].source is FlagSource.COMMAND:
            findings.note(f"{parsed['nproc_per_node'].spoken} is not used: with servers, --trainer_num says how many")
    options = _with_nodes(options, parsed, findings)
    _check_ports(options, findings)
    return replace(options, shown=shown(parsed, options) if parsed.truth("print_config") else ())


def inherited(environ: Mapping[str, str]) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """The variables that may stand for flags, and notes about those that may not.

    A launch inside a worker of another launch finds that worker's PADDLE_MASTER, PADDLE_NNODES and PADDLE_TRAINER_ID;
    they describe the outer job, and obeying them would make the inner one wait for nodes that never come. Beside a
    platform's endpoint lists PADDLE_TRAINER_ID is the platform's word, which umiak.platforms reads, and so are the
    lists of a PaddleJob. torchrun's PET_ variables are the outer launch's, too, inside a worker of whichever launcher.
    """
    mark = next((name for name in WORKER_MARKS if environ.get(name)), None)
    if mark:
        dropped = [name for name in WORKER_WORDS if environ.get(name)]
    else:
        platform = any(environ.get(name) for name in PLATFORM_MARKS)
        dropped = ["PADDLE_TRAINER_ID"] if platform else []
        dropped += OPERATOR_LISTS if environ.get("TRAINER_PORTS_NUM") and environ.get("TRAINING_ROLE") else ()
    dropped += torchrun.outer_variables(environ, is_worker=mark is not None)
    if not dropped:
        return environ, ()
    kept = {name: text for name, text in environ.items() if name not in dropped}
    if not mark:
        return kept, ()
    return kept, (f"not taken for flags, since they are another launch's ({mark} is set): {', '.join(dropped)}",)


def shown(parsed: Parsed, made: LaunchOptions, *, whole: bool = False) -> tuple[tuple[str, str], ...]:
    """Names and texts for the configuration block, in Paddle's spelling and sorted as Paddle sorts them.

    What differs from the defaults; ``whole``: everything,
    except other launchers' names for it where nobody has said them.
    """
    texts = {
        name: _text(setting.value)
        for name, setting in parsed.settings.items()
        if name not in NOT_SHOWN
        and ((whole and _is_ours(setting.flag)) or (setting.said and setting.value != setting.flag.default))
    }
    nodes = f"{made.least_nodes}:{made.most_nodes}" if made.elastic else f"{made.most_nodes}"
    args = str(list(made.program[1:]))
    for name, text, default in (
        ("run_mode", made.mode.value, Mode.COLLECTIVE.value),
        ("master", _text(made.master), "None"),
        ("host", _text(made.host), "None"),
        ("nnodes", nodes, "1"),
        ("training_script", made.program[0] if made.program else "None", ""),
        ("training_script_args", args, "[]"),
    ):
        texts.pop(name, None)
        if whole or text != default:
            texts[name] = text
    return tuple(sorted(texts.items()))


def _is_ours(flag: Flag) -> bool:
    return flag.origin in (FlagOrigin.PADDLE, FlagOrigin.UMIAK) and not flag.refused


NODES_HINT = "write --nnodes 2, or --nnodes 2:4 for a job that may have 2, 3 or 4 nodes"
DEVICES_HINT = "write numbers with commas between them, as in --devices 0,1,2,3"
HOST_HINT = "write an address or a name, as in --host 10.0.0.2"
MASTER_HINT = "write --master 10.0.0.1:8090, --master [fe80::1]:8090 or --master etcd://10.0.0.1:2379"


def _read(
    parsed: Parsed,
    name: str,
    reader: Callable[[str], T],
    findings: FlagFindings,
    code: str,
    hint: str,
    *,
    text: str = "",
) -> T | None:
    """One flag's text, read; ``None`` if there is none or it can't be read, which is then a problem."""
    text = text or parsed.text(name)
    if not text:
        return None
    try:
        return reader(text)
    except ValueError as error:
        findings.problem(code, f"{error}: {parsed[name].spoken}", hint=hint)
        return None


def _refuse(parsed: Parsed, findings: FlagFindings) -> None:
    for setting in parsed.settings.values():
        if setting.flag.refused and setting.said and setting.value:
            findings.problem(
                "UM-LAUNCH-116",
                f"not supported: {setting.spoken}",
                why=setting.flag.refused,
                hint=f"leave out {setting.said_as}"
                + (", or run this job with Paddle's own launcher" if "Paddle" in setting.flag.refused else ""),
            )
    if parsed.truth("legacy"):
        findings.note(
            f"{parsed['legacy'].spoken} changes nothing: the flags of the old launchers are always understood"
        )


def _mode(parsed: Parsed, findings: FlagFindings) -> Mode:
    """``--run_mode``, or what the flags about servers and heter workers make of it."""
    heter = [name for name in HETER_FLAGS if parsed.said(name)]
    servers = [name for name in SERVER_FLAGS if parsed.said(name)]
    implied = Mode.PS_HETER if heter else Mode.PS if servers else Mode.COLLECTIVE
    wanted = parsed["run_mode"]
    if not wanted.said:
        return implied
    mode = Mode(str(wanted.value))
    against = ([] if mode is Mode.PS_HETER else heter) + ([] if mode.has_servers else servers)
    for name in against:
        other = parsed[name]
        if other.source is wanted.source:
            needed = "ps-heter" if name in HETER_FLAGS else "ps"
            findings.problem(
                "UM-LAUNCH-106",
                f"two modes at once: {wanted.spoken} and {other.spoken}",
                why=f"{other.said_as} asks for {needed} mode",
                hint=f"leave out {other.said_as}, or write --run_mode {needed}",
            )
        elif wanted.source is FlagSource.COMMAND:
            findings.note(f"{wanted.spoken} is used; the environment says {other.spoken}")
        else:
            findings.note(f"{other.spoken} is used; the environment says {wanted.spoken}")
            mode = implied
    return mode


def _with_gloo(parsed: Parsed, mode: Mode) -> int:
    """``--with_gloo``; not said, 1 as in Paddle's launcher,
    and 0 where Paddle falls back to its old one, which had no such flag.

    Paddle does so for every flag that only the old launcher knows, unless a master is named.
    """
    if not mode.has_servers or parsed.said("with_gloo") or parsed.said("master"):
        return int(parsed.text("with_gloo"))
    old = parsed.truth("legacy") or any(
        setting.said
        and setting.source is FlagSource.COMMAND
        and (setting.flag.origin is FlagOrigin.OLD or setting.said_as.lstrip("-").replace("-", "_") in setting.flag.old)
        for setting in parsed.settings.values()
    )
    return 0 if old else int(parsed.text("with_gloo"))


def _discovery(parsed: Parsed, findings: FlagFindings) -> tuple[str | None, tuple[str, ...]]:
    """Where the nodes meet: the master, or the list of all nodes."""
    ways = [name for name in ("master", "elastic_server", "ips") if parsed.said(name)]
    ways.sort(key=lambda name: parsed[name].source is not FlagSource.COMMAND)
    for name in ways[1:]:
        first, other = parsed[ways[0]], parsed[name]
        if first.source is other.source and _master_text(parsed, ways[0]) != _master_text(parsed, name):
            findings.problem(
                "UM-LAUNCH-110",
                f"two ways for the nodes to meet: {first.spoken} and {other.spoken}",
                why="with --ips every node knows the others and no master is asked" if name == "ips" else None,
                hint=f"leave out {other.said_as} or {first.said_as}",
            )
        elif first.source is not other.source:
            findings.note(f"{first.spoken} is used; the environment says {other.spoken}")
    if not ways:
        return None, ()
    if ways[0] == "ips":
        hint = "write the address of each node once, as in --ips 10.0.0.1,10.0.0.2"
        return None, _read(parsed, "ips", addresses.hosts, findings, "UM-LAUNCH-109", hint) or ()
    text = _master_text(parsed, ways[0])
    return _read(parsed, ways[0], addresses.master, findings, "UM-LAUNCH-103", MASTER_HINT, text=text), ()


def _master_text(parsed: Parsed, name: str) -> str:
    text = parsed.text(name)
    return addresses.ETCD + text if name == "elastic_server" and "://" not in text else text


def _with_nodes(made: LaunchOptions, parsed: Parsed, findings: FlagFindings) -> LaunchOptions:
    """The number of nodes where a list fixes it, and this node's rank among them."""
    lists = (*made.server_endpoints, *made.trainer_endpoints, *made.heter_endpoints)
    listed = len(made.node_hosts) or len({addresses.host_of(one) for one in lists})
    if listed:
        name = "ips" if made.node_hosts else "servers" if parsed.said("servers") else "trainers"
        setting, count = parsed[name], parsed["nnodes"]
        if made.nodes_said and (made.least_nodes, made.most_nodes) != (listed, listed):
            if setting.source is count.source or count.source is FlagSource.COMMAND:
                findings.problem(
                    "UM-LAUNCH-111",
                    f"two numbers of nodes: {count.spoken}, and {listed} in {setting.spoken}",
                    hint=f"leave out {count.said_as}: the list says it",
                )
            else:
                findings.note(f"{setting.spoken} is used; the environment says {count.spoken}")
        made = replace(made, least_nodes=listed, most_nodes=listed, nodes_said=True)
    host, ips = parsed["host"], parsed["ips"]
    if made.node_hosts and made.host and made.host not in made.node_hosts and host.source is ips.source:
        findings.problem(
            "UM-LAUNCH-109",
            f"this node is not in the list: {host.spoken} and {ips.spoken}",
            hint=f"write one of the listed addresses after {host.said_as}",
        )
    return replace(made, rank=_rank(made, parsed, findings))


def _rank(made: LaunchOptions, parsed: Parsed, findings: FlagFindings) -> int | None:
    setting, rank = parsed["rank"], parsed.number("rank")
    if rank is None or rank < 0 or (setting.said_as == "PADDLE_TRAINER_ID" and not made.nodes_said):
        return None
    if made.nodes_said and rank >= made.most_nodes:
        findings.problem(
            "UM-LAUNCH-104",
            f"no such node among {made.most_nodes}: {setting.spoken}",
            why="nodes are numbered from 0",
            hint=f"write a rank from 0 to {made.most_nodes - 1}, or leave it out and let the master number the nodes",
        )
        return None
    return rank


def _for_other_nodes(parsed: Parsed) -> tuple[str, ...]:
    """The words that start another node of this job.

    They are as typed here, with what the environment says here and may not say there,
    but without this node's own place.
    """
    words: list[str] = []
    for name, setting in parsed.settings.items():
        if name in OF_ONE_NODE or not setting.said or setting.said_as not in setting.flag.env:
            continue
        words += [f"--{name}={setting.text}"] if setting.flag.kind is FlagKind.SWITCH else [f"--{name}", setting.text]
    own = {spelling for name in OF_ONE_NODE for spelling in parsed[name].flag.spellings}
    flags = iter(parsed.argv[: len(parsed.argv) - len(parsed.program)])
    for word in flags:
        name, equals, _ = word.partition("=")
        if name.lstrip("-").replace("-", "_") not in own:
            words.append(word)
        elif not equals:
            next(flags, None)  # its value
    return (*words, *parsed.program)


def _log_dir(parsed: Parsed, findings: FlagFindings) -> str:
    setting = parsed["log_dir"]
    if setting.value == "" and setting.source is FlagSource.COMMAND:
        hint = "name a directory, as in --log_dir log, or leave it out"
        findings.problem("UM-LAUNCH-140", f"no directory: {setting.said_as} is empty", hint=hint)
    return parsed.text("log_dir") or "log"


def _job_id(parsed: Parsed, findings: FlagFindings) -> str:
    job_id = parsed.text("job_id") or "default"
    plain = job_id.isprintable() and len(job_id) <= LONGEST_JOB_ID
    if not plain or job_id[0] in ".-" or not all(letter.isalnum() or letter in "-._:" for letter in job_id):
        findings.problem(
            "UM-LAUNCH-115",
            f"expected a name for a job, got {parsed['job_id'].spoken}",
            why="the name becomes part of file names and keys",
            hint="use letters, digits, hyphens, underscores and dots, and begin with a letter or digit",
        )
        return "default"
    return job_id


def _check_ports(made: LaunchOptions, findings: FlagFindings) -> None:
    last = (made.start_port or 0) + (made.workers_per_node or 1) - 1
    for name, port in (("--start_port", last), ("--gloo_port", made.gloo_port or 0)):
        if port > 65535:
            findings.problem(
                "UM-LAUNCH-117", f"beyond the last port, 65535: {name} reaches {port}", hint="choose a lower one"
            )


def _text(found: object) -> str:
    """As Paddle prints it: None, True, 30."""
    return f"{found:g}" if isinstance(found, float) else str(found)
