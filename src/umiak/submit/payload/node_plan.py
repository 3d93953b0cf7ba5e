"""What one node of a run does, from files that came with the job to results that go home. Values, and a decider.

    plan = NodePlan(run_id="ctr-3f2a9c", directory="work", launch=launch_words(job, job.roles[0], "ctr-3f2a9c"))
    text = as_text(plan)          written beside the launcher's file; `node_start` reads it there

A backend makes one for each role, since roles may differ in commands and variables; which node of a role it is, a node learns from
its environment. No secret is in it.
"""

from __future__ import annotations

from umiak.contracts.start import JOIN_TIMEOUT, LOST_AT_START
from umiak.core.decode import Malformed, decode, encode
from umiak.core.job import Transfer
from umiak.core.value import value

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
    """A JSON object of variables in a file that its owner alone can read; empty: they are in the environment already."""
    only_data: bool = False
    """Nothing is launched: files and data are all."""
    stop_signals: tuple[str, ...] = ()
    """Signals that reach a node where SIGTERM does not, as under mpirun, and for which the launcher gets SIGTERM: ``SIGUSR1``."""


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


def launch_words(job: Job, role: RoleSpec, run_id: str) -> tuple[str, ...]:
    """The flags of `umiak launch` that follow from the job, and its program. How many nodes there are a place says, unless the job
    is elastic."""
    words = ["--job_id", run_id]
    if job.nodes.is_elastic:
        words += ["--nnodes", str(job.nodes)]
    if job.max_restarts:
        words += ["--max_restart", str(job.max_restarts)]
    workers = role.workers or role.resource.devices
    if workers and not job.mode.has_servers:
        words += ["--nproc_per_node", str(workers)]
    program = job.command_of(role)
    # `--` keeps a program whose name begins with a dash from being taken for a flag.
    return (*words, *(program if program[:1] == ("-m",) else ("--", *program)))


def started_once(job: Job, role: RoleSpec, *, start_s: int) -> tuple[str, ...]:
    """Flags for places that start all launchers at the same time and none again: a node that is missing or lost at the start never
    comes, so that the others end soon. ``start_s``: how far apart starts may be. Where nodes bring data in first, nobody knows."""
    if job.nodes.is_elastic or job.nodes.most == 1:
        return ()
    said = job.environment_of(role)
    words: tuple[str, ...] = ("--lost_at_start", "fail") if LOST_AT_START not in said else ()
    if not job.inputs and JOIN_TIMEOUT not in said:
        words += ("--join_timeout", str(start_s))
    return words


def output_url(output: Transfer, rank: int | None) -> str:
    """Where this node's results go; empty: another node brings them home. Of nodes without a rank each brings its own."""
    if RANK in output.url:
        return output.url.replace(RANK, str(rank or 0))
    return output.url if not rank else ""
