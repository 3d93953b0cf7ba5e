"""What one node of a run does, from files that came with the job to results that go home. Values, and a decider.

    plan = of(job, job.roles[0], "ctr-3f2a9c", PlaceTraits(directory="work", tee="all"))
    text = as_text(plan)          written beside the launcher's file; `node_start` reads it there

Every `NodePlan` comes from here, so that a job is started with the same variables and flags on every place; a backend
says in `PlaceTraits` what differs on its own. It has a plan for each role, since roles may differ in commands and
variables; which node of a role it is, a node learns from its environment. No secret is in it.
"""

from __future__ import annotations

from umiak.contracts.start import GRACE, JOIN_TIMEOUT, LOST_AT_START
from umiak.core.decode import Malformed, decode, encode
from umiak.core.job import Transfer
from umiak.core.value import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.job import Job, RoleSpec

RANK = "{rank}"
"""In an output's URL: the node's rank."""


@value
class SentFiles:
    """The job's files, known by their content: sent once, used by many runs."""

    digest: str
    store: str
    """The directory with one directory for each content hash."""
    archive: str = ""
    """Where it came to; empty if the store has it already."""
    url: str = ""
    """Storage from which the node fetches the archive; empty: it is there."""


@value
class NodePlan:
    """All that `node_start` needs. Paths are absolute, or relative to the directory of the plan's file."""

    run_id: str
    directory: str
    """Where the job works: made if it is not there."""
    launch: tuple[str, ...]
    """The words after ``umiak launch``."""
    env: tuple[tuple[str, str], ...] = ()
    files: SentFiles | None = None
    inputs: tuple[Transfer, ...] = ()
    outputs: tuple[Transfer, ...] = ()
    secrets_file: str = ""
    """A JSON object of variables in a file that its owner alone can read;
    empty: they are in the environment already.
    """
    only_data: bool = False
    """Nothing is launched: files and data are all."""
    stop_signals: tuple[str, ...] = ()
    """Signals that reach a node where SIGTERM does not, as under mpirun,
    and for which the launcher gets SIGTERM: ``SIGUSR1``.
    """


@value
class PlaceTraits:
    """What differs in the plans of one kind of place."""

    directory: str
    tee: str = ""
    """Whose output the launcher repeats: ``none`` where a place reads the log files,
    ``all`` where it keeps the launcher's own output.
    """
    log_directory: str = ""
    """Where the place looks for log files; empty:
    said on the node, or as the role's variables and the launcher have it.
    """
    grace_s: int | None = None
    """Of launchers under a supervisor, which ends what is left after the grace
    that was asked for: the most that may be.
    """
    start_s: int | None = None
    """For places that start all launchers together and none again: how far apart starts may be.
    A node that is missing or lost at the start never comes then, so that the others end soon.
    """
    processes: tuple[str, ...] | None = None
    """Flags that say how many processes a launcher starts;
    None: a launcher starts those of one node, as the role says.
    """
    files: SentFiles | None = None
    inputs: tuple[Transfer, ...] | None = None
    """What nodes bring in themselves; None: all of the job's. `outputs` likewise."""
    outputs: tuple[Transfer, ...] | None = None
    secrets_file: str = ""
    stop_signals: tuple[str, ...] = ()
    sets_variables: bool = True
    """Whether the plan has the role's variables; else the place gives them to the node."""


def as_text(plan: NodePlan) -> str:
    """As JSON, in lines that people can read."""
    import json

    return json.dumps(encode(plan), indent=1) + "\n"


def from_text(text: str) -> NodePlan:
    """`Malformed` if it is none."""
    import json

    try:
        data = json.loads(text)
    except ValueError as error:
        raise Malformed(f"expected JSON: {error}") from None
    return decode(NodePlan, data)


def of(job: Job, role: RoleSpec, run_id: str, traits: PlaceTraits) -> NodePlan:
    """The plan of the nodes of a role."""
    return NodePlan(
        run_id=run_id,
        directory=traits.directory,
        launch=(*_flags_of_place(job, role, traits), *_flags_of_job(job, role, run_id, traits), *_program(job, role)),
        env=_environment(job, role) if traits.sets_variables else (),
        files=traits.files,
        inputs=job.inputs if traits.inputs is None else traits.inputs,
        outputs=job.outputs if traits.outputs is None else traits.outputs,
        secrets_file=traits.secrets_file,
        stop_signals=traits.stop_signals,
    )


def of_data(job: Job, run_id: str, traits: PlaceTraits) -> NodePlan:
    """The plan of a process that brings data in or out for all nodes, with the variables of the main role."""
    plan = of(job, job.main_role, run_id, traits)
    return replace(plan, launch=(), only_data=True, stop_signals=())


def _environment(job: Job, role: RoleSpec) -> tuple[tuple[str, str], ...]:
    """A secret of the same name counts, wherever it comes from."""
    return tuple((name, text) for name, text in job.environment_of(role).items() if name not in job.secrets)


def _flags_of_place(job: Job, role: RoleSpec, traits: PlaceTraits) -> list[str]:
    """Flags count more than variables: what a role's variables may say instead is not a flag then."""
    variables = job.environment_of(role)
    words = ["--tee", traits.tee] if traits.tee else []
    if traits.log_directory:
        words += ["--log_dir", traits.log_directory]
    if traits.grace_s is not None and GRACE not in variables:
        words += ["--grace", str(traits.grace_s)]
    if traits.start_s is None or job.nodes.is_elastic or job.nodes.most == 1:
        return words
    if LOST_AT_START not in variables:
        words += ["--lost_at_start", "fail"]
    if not job.inputs and JOIN_TIMEOUT not in variables:  # nobody knows how long data takes
        words += ["--join_timeout", str(traits.start_s)]
    return words


def _flags_of_job(job: Job, role: RoleSpec, run_id: str, traits: PlaceTraits) -> list[str]:
    """How many nodes there are a place says, unless the job is elastic."""
    words = ["--job_id", run_id]
    if job.max_restarts:
        words += ["--max_restart", str(job.max_restarts)]
    if traits.processes is not None:
        return [*words, *traits.processes]
    if job.nodes.is_elastic:
        words += ["--nnodes", str(job.nodes)]
    workers = role.workers or role.resource.devices
    if workers and not job.mode.has_servers:
        words += ["--nproc_per_node", str(workers)]
    return words


def _program(job: Job, role: RoleSpec) -> tuple[str, ...]:
    """``--`` keeps a program whose name begins with a dash from being taken for a flag."""
    program = job.command_of(role)
    return program if program[:1] == ("-m",) else ("--", *program)


def output_url(output: Transfer, rank: int | None) -> str:
    """Where this node's results go; empty: another node brings them home.
    Of nodes without a rank each brings its own.
    """
    if RANK in output.url:
        return output.url.replace(RANK, str(rank or 0))
    return output.url if not rank else ""
