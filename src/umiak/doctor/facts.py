"""What was measured, one value for each check. Values.

No secret is in them: they are printed with ``--json``.
"""

from __future__ import annotations

from umiak.core.problem import Problem
from umiak.core.value import value

# ---- umiak itself


@value
class InstallFacts:
    """This umiak, and others."""

    version: str
    python: str
    location: str
    """Where the package is."""
    native_version: str = ""
    """Empty: the native core is not installed."""
    native_error: str = ""
    """Why it can't be imported, though it is installed."""
    packages: tuple[str, ...] = ()
    """Directories with a package ``umiak`` that Python would look at."""
    command: str = ""
    """What `umiak` means in a shell; empty: nothing."""
    command_is_ours: bool = True
    other_commands: tuple[str, ...] = ()


@value
class DirectoryFacts:
    """A directory that is written to."""

    purpose: str
    path: str
    at: str
    """The directory itself, or the nearest one above it that exists."""
    writable: bool
    free_bytes: int
    error: str = ""


@value
class DiskFacts:
    """Where logs, runs and caches are kept."""

    directories: tuple[DirectoryFacts, ...]


# ---- frameworks


@value
class TrialFacts:
    """How a program in a process of its own ended."""

    status: int | None
    """Exit code, or minus a signal; ``None``: it was stopped at its time limit."""
    took_s: float
    limit_s: float
    last_lines: tuple[str, ...] = ()


@value
class FrameworkFacts:
    """A framework, imported in a process of its own."""

    name: str
    installed: str = ""
    """The version that its distribution has; empty: it is not installed."""
    found: bool = False
    """Whether there is something by its name to import."""
    trial: TrialFacts | None = None
    version: str = ""
    """What the imported module says."""
    file: str = ""
    build: str = ""
    """``cpu``, ``cuda 12.6``, ``rocm``, ``xpu``, ``npu``."""
    device_count: int = 0
    """As the framework counts them."""
    node_kind: str = ""
    node_devices: int = 0
    """Visible ones, without the framework."""
    in_directory: bool = False
    """Whether it was imported from the working directory."""


@value
class ProtobufFacts:
    """Protobuf, beside the Paddle that needs it."""

    version: str = ""
    """Of the distribution; empty: not installed."""
    imported: str = ""
    """What the imported module says."""
    error: str = ""
    file: str = ""
    copies: tuple[str, ...] = ()
    """Directories with a ``google/protobuf`` that Python would look at."""
    implementation: str = ""
    """``upb``, ``cpp`` or ``python``."""
    paddle: str = ""
    required: str = ""
    """What Paddle's metadata wants, such as ``>=3.20.2``."""


@value
class CollectiveFacts:
    """Two processes that add numbers up, started by `umiak launch`."""

    framework: str
    backend: str
    """``gloo`` or ``nccl``."""
    ready: bool = False
    """Whether the framework can be imported at all."""
    trial: TrialFacts | None = None
    sums: tuple[float, ...] = ()
    """Of each process."""
    expected: float = 0.0
    error: str = ""
    node_devices: int = 0


# ---- devices


@value
class DeviceFacts:
    """Accelerators and the variables about them."""

    kinds: dict[str, int]
    """How many devices of each kind the files show."""
    kind: str = ""
    """What a launcher would use; empty: the CPU."""
    ids: tuple[str, ...] = ()
    said_by: str = ""
    variables: dict[str, str] = {}
    """Those about visibility that are set."""
    closed: tuple[str, ...] = ()
    """Device files that this user can't open."""
    tool: str = ""
    """The vendor's command, such as nvidia-smi; empty: there is none."""
    tool_count: int = -1
    tool_error: str = ""


# ---- network


@value
class PortFacts:
    """A port that the job would use."""

    number: int
    purpose: str
    error: str = ""
    """Why it can't be listened on; empty: it can."""
    holder: str = ""
    """The program that has it: ``python (4711)``."""


@value
class PortsFacts:
    """Ports that were named, and the range from which others are taken."""

    named: tuple[PortFacts, ...]
    first: int
    last: int
    free: int
    """In this range."""
    ephemeral_first: int
    """From here to ``ephemeral_last`` the kernel takes ports for outgoing connections."""
    ephemeral_last: int


@value
class AddressFacts:
    """What this machine would be called by other nodes."""

    announced: str
    reason: str
    interface: str = ""
    answers: bool = False
    error: str = ""
    """Why nobody answers there."""
    own: tuple[str, ...] = ()
    """All addresses of this machine."""
    hostname: str = ""
    name_means: str = ""
    """The address that the host's own name has here; empty: none."""
    name_source: str = ""
    """Where that is said: ``/etc/hosts:3``."""
    interfaces: tuple[str, ...] = ()
    interface_variables: dict[str, str] = {}
    """NCCL_SOCKET_IFNAME and the like."""


@value
class NamedHostFacts:
    """A host that was named."""

    name: str
    address: str = ""
    error: str = ""
    took_s: float = 0.0
    is_name: bool = True
    """And no address already."""
    has_route: bool = True


@value
class DnsFacts:
    """All of them."""

    hosts: tuple[NamedHostFacts, ...]
    own: tuple[str, ...] = ()


@value
class ClockSkew:
    """Another clock."""

    source: str
    ahead_s: float
    """How far this machine's clock is ahead."""
    uncertainty_s: float


@value
class ClockFacts:
    """This machine's clock."""

    now_s: float
    installed_s: float
    """When the newest file of umiak was written."""
    synchronised: bool | None = None
    """As the kernel knows; ``None``: it does not."""
    others: tuple[ClockSkew, ...] = ()
    silent: tuple[str, ...] = ()


@value
class ProxyFacts:
    """Proxies of HTTP clients. Passwords are covered."""

    variables: dict[str, str]
    targets: tuple[str, ...] = ()
    """Hosts of the job, names and addresses."""


# ---- the machine


@value
class ShmFacts:
    """Shared memory."""

    exists: bool
    writable: bool = False
    total_bytes: int = 0
    free_bytes: int = 0


@value
class LimitFacts:
    """What the kernel allows this user's processes. ``None``: no limit."""

    open_files: int | None
    most_open_files: int | None
    locked_bytes: int | None
    processes: int | None
    tasks: int | None = None
    """Of the control group."""
    tasks_now: int = 0
    rdma: tuple[str, ...] = ()
    """Adapters for which memory is locked."""


# ---- clusters


@value
class EtcdEndpointFacts:
    """One endpoint."""

    endpoint: str
    error: str = ""
    version: str = ""
    healthy: bool = False
    health_text: str = ""
    latency_s: float = 0.0
    """The median of some reads."""


@value
class EtcdFacts:
    """All of them."""

    endpoints: tuple[EtcdEndpointFacts, ...] = ()
    write_error: str = ""
    wrote: bool = False


@value
class ElasticFacts:
    """What an elastic job rests on."""

    master_of_job: str = ""
    """Who leads a job of this name, as etcd has it; empty: nobody."""
    etcd_error: str = ""


@value
class KubeconfigFacts:
    """The files with clusters and credentials."""

    said_by: str = ""
    """``KUBECONFIG``, or empty for the default."""
    files: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    open_to_others: tuple[str, ...] = ()


@value
class PlaceFinding:
    """What a backend found about its place: a problem, or, without one, something that works."""

    text: str = ""
    problem: Problem | None = None
    is_warning: bool = False


@value
class PlaceFacts:
    """A place, as its backend sees it."""

    name: str = ""
    backend: str = ""
    findings: tuple[PlaceFinding, ...] = ()
    error: tuple[Problem, ...] = ()
    """Why it can't be examined."""
    known: tuple[str, ...] = ()
    """Places that could be named."""
