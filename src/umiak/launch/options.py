"""What a person asked `umiak launch` for: made by the command line, read by everything behind it. A value."""

from __future__ import annotations

from enum import Enum

from umiak.contracts.setting import SIGNALS
from umiak.core.cluster import Mode
from umiak.core.value import value

HEARTBEAT_TIMEOUT_S = 5.0
"""Where nothing else is said."""


class Tee(str, Enum):
    """Whose output is shown live on the console, beside the log files."""

    FIRST = "0"
    ALL = "all"
    NONE = "none"


class TrainerRestart(str, Enum):
    """What happens in parameter-server mode when one trainer fails and restarts are left."""

    GROUP = "group"
    ALONE = "alone"


class ProgramStart(str, Enum):
    """How a program that is no module is started."""

    BY_NAME = "by name"
    """``.py`` with Python, anything else as it is."""
    PYTHON = "python"
    """With Python whatever it is called, as torchrun does."""
    DIRECT = "direct"
    """As it is, also if it is called ``.py``: torchrun's ``--no-python``."""


@value
class LaunchOptions:
    """Every option of `umiak launch`, parsed and valid. ``None`` and ``()`` mean: not said."""

    program: tuple[str, ...]
    """What a worker runs: the script, module or executable with its arguments."""
    is_module: bool = False
    """``-m package.module``: the first word of ``program`` is a Python module."""
    runner: ProgramStart = ProgramStart.BY_NAME

    # Who takes part
    job_id: str = "default"
    mode: Mode = Mode.COLLECTIVE
    least_nodes: int = 1
    most_nodes: int = 1
    nodes_said: bool = False
    """Whether ``--nnodes`` was said at all; if not, the platform may know better."""
    rank: int | None = None
    host: str | None = None
    master: str | None = None
    """``host:port`` or ``etcd://host:port[,host:port]``."""
    rank_leads: bool = False
    """Whether node 0 is the master no matter to whom the master's address seems to belong,
    as torchrun's static backend has it.
    """
    is_host: bool | None = None
    """torchrun's ``is_host``: whether this node may be the master; ``None``: if the master's address is its own."""
    store_port: int | None = None
    """torchrun's ``--master-port``: where the first worker opens its store (MASTER_PORT); ``None``: a free port."""
    node_hosts: tuple[str, ...] = ()
    """``--ips``: the nodes' addresses in rank order; no master is needed then."""
    start_port: int | None = None
    """First of the consecutive ports that workers get with ``--ips``; ``None``: free ports are held."""
    sort_ip: bool = False
    topology: str | None = None
    """Force one platform's rule (``slurm``), or ``none`` for no detection."""

    # What each node runs
    workers_per_node: int | None = None
    workers_word: str | None = None
    """``--nproc_per_node`` as a word: one worker for each ``gpu``,
    ``xpu`` or ``cpu``, or ``auto`` for what there is.
    """
    devices_shared: bool = False
    """Whether more workers than devices are allowed; nobody is given a device of its own then."""
    devices: tuple[str, ...] | None = None
    servers_per_node: int | None = None
    trainers_per_node: int | None = None
    heters_per_node: int | None = None
    server_endpoints: tuple[str, ...] = ()
    trainer_endpoints: tuple[str, ...] = ()
    heter_endpoints: tuple[str, ...] = ()
    heter_device: str | None = None
    """``--heter_devices``: what the heter workers compute on, ``gpu``, ``xpu`` or ``cpu``."""
    backend: str | None = None
    """``--backend`` of the old launcher, for PADDLE_DISTRI_BACKEND: ``nccl``, ``gloo``, ..."""
    with_gloo: int = 1
    gloo_port: int | None = None
    role_name: str = "default"
    """torchrun's ``--role``: ROLE_NAME for the workers."""
    signals: str = SIGNALS
    keep_proxy: bool = False
    """Whether workers keep http_proxy and https_proxy, which Paddle's launcher hides from them."""
    no_compat: bool = False
    """Whether calls of ``paddle.distributed.fleet`` stay Paddle's own in jobs with parameter servers."""

    # When things go wrong
    max_restart: int = 3
    restart_wanted: bool = False
    """Whether a failed group restarts at all: ``--max_restart`` was said, or the job is elastic."""
    elastic_level: int = -1
    elastic_timeout_s: float = 30.0
    join_timeout_s: float = 600.0
    heartbeat_timeout_s: float = HEARTBEAT_TIMEOUT_S
    grace_s: float = 30.0
    """How long workers may take after SIGTERM or SIGINT to the launcher."""
    failure_grace_s: float = 5.0
    """How long they may take when the generation is stopped because a worker failed or the nodes changed."""
    hang_timeout_s: float | None = None
    trainer_restart: TrainerRestart = TrainerRestart.GROUP
    fails_at_start: bool = False
    """Whether a node that is lost before the job has started ends it; otherwise it may come back."""

    # What a person sees
    log_dir: str = "log"
    log_level: str = "INFO"
    log_overwrite: bool = False
    log_max_bytes: int = 256 * 1024 * 1024
    """A log file larger than this is rotated to ``workerlog.0.1``; two old ones are kept."""
    log_mode: int | None = None
    """Rights of log files, as in 0o640; ``None``: for their owner only."""
    log_group: str | None = None
    """The group that log files are given to, by name or number."""
    tee: Tee = Tee.FIRST
    tee_except: tuple[int, ...] = ()
    """Local ranks of trainers for which the opposite of ``tee`` holds."""
    enable_gpu_log: bool = True
    check: bool = False
    """``--check``: examine the nodes instead of running the job."""
    as_json: bool = False

    shown: tuple[tuple[str, str], ...] = ()
    """Flag names and texts for the configuration block, in Paddle's spelling, sorted."""
    program_argv: tuple[str, ...] = ()
    """The words that a person typed after `launch`, for the command that is printed for the other nodes."""

    @property
    def elastic(self) -> bool:
        """Whether the number of nodes may change while the job runs."""
        return self.least_nodes < self.most_nodes
