"""What lies where in the directory of a run that all nodes see, and what is written there for them. A decider.

    DIRECTORY/launchers/SHA256.pyz     once for each version of the launcher
    DIRECTORY/files/SHA256/            once for each content of a job's files
    DIRECTORY/runs/RUN_ID/
        job.sh, node.sh                what is started once, and on every node
        run.json                       which roles there are
        before.json, ROLE.json, after.json     plans for `node_start`
        secrets.json                   mode 600, removed when the run is over
        umiak-launcher.pyz, work/      the launcher, the job's own copy of its files
        log/job.log, log/NODE/         what job.sh printed, what each node and its workers printed, and how it is (state.json)
        end                            exit status and time, written by job.sh
        cancelled                      somebody wants its end

The launcher and the files are put there when the job is submitted, so that this module needs to read neither.
"""

from __future__ import annotations

import shlex

from umiak.core.bundle import PRIVATE, Bundle, BundleFile, SecretFile
from umiak.core.decode import Malformed, decode, encode
from umiak.core.value import replace, value
from umiak.submit.backend import RunFileRoots
from umiak.submit.payload import node_plan
from umiak.submit.payload.node_plan import PlaceTraits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.core.job import Job, RoleSpec
    from umiak.submit.backend import JobNode
    from umiak.submit.payload.node_plan import NodePlan

JOB, NODE, RUN, SECRETS, END, CANCEL = "job.sh", "node.sh", "run.json", "secrets.json", "end", "cancelled"
BEFORE, AFTER = "before.json", "after.json"
CLAIM = "job"
"""A link whose target is the id of the place's job that the run belongs to."""
LAUNCHER = "umiak-launcher.pyz"
LOGS, JOB_LOG, LAUNCHER_LOG = "log", "job.log", "launcher.log"
EXECUTABLE = 0o700
START_S = 300
"""So far apart launchers may start on nodes that a scheduler prepares."""
NODE_START = "umiak.submit.payload.node_start"
CHECK, LAUNCHER_SHA256 = "{umiak_check}", "{umiak_launcher_sha256}"
"""In job.sh until it is written: the program of `umiak.submit.payload.node_check`, and the hash of the launcher."""
CHECKED = '"${checked[@]}"'
"""In job.sh, before the words of node.sh: they are run if nobody else can change them."""


@value
class SharedRun:
    """Where a run lies. Paths are absolute, and the same on every node."""

    root: str
    run_id: str

    @property
    def path(self) -> str:
        return f"{self.root}/runs/{self.run_id}"

    def file(self, name: str) -> str:
        return f"{self.path}/{name}"

    @property
    def work(self) -> str:
        return self.file("work")

    @property
    def logs(self) -> str:
        return self.file(LOGS)


@value
class SharedRole:
    """A group of nodes, as those who ask about a run need to know it."""

    role: str
    nodes: int
    workers: int = 0
    """On each node; 0: as many as there are devices, or one."""


@value
class RunInfo:
    """What is kept about a run for those who ask."""

    run_id: str
    directory: str
    """Where it works."""
    roles: tuple[SharedRole, ...]
    time_limit_s: int | None = None
    stop_time_s: int = 0
    """So long before it a place asks the workers to end."""
    is_elastic: bool = False


def info_of(job: Job, run: SharedRun, directory: str) -> RunInfo:
    """``directory``: where the person is; the job works there, unless its files are sent."""
    return RunInfo(
        run_id=run.run_id,
        directory=run.work if job.files else directory,
        roles=tuple(
            SharedRole(role=each.role.value, nodes=each.nodes.most, workers=_workers(job, each)) for each in job.roles
        ),
        time_limit_s=job.time_limit_s,
        is_elastic=job.nodes.is_elastic,
    )


def info_from(text: str) -> RunInfo:
    """`Malformed` if it is none."""
    import json

    try:
        return decode(RunInfo, json.loads(text))
    except ValueError as error:
        raise Malformed(str(error)) from None


def bundle_of(
    job: Job,
    run: SharedRun,
    info: RunInfo,
    scripts: tuple[BundleFile, ...],
    command: tuple[str, ...],
    stop_signals: tuple[str, ...] = (),
    *,
    is_shared: bool = True,
) -> Bundle:
    """Everything that is written, with the scripts of a place, and the command that starts it. ``stop_signals``:
    for `PlaceTraits`. ``is_shared``: whether all nodes see the same directory; else each has its own data in and out.
    """
    import json

    from umiak.contracts.start import TOKEN

    secrets = (TOKEN, *job.secrets)
    files = [*scripts, _file(run, RUN, json.dumps(encode(info)) + "\n")]
    plans = _plans(job, run, info, stop_signals, is_shared=is_shared)
    files += [_file(run, name, node_plan.as_text(plan)) for name, plan in plans.items()]
    requests = [f"copy to {run.file(LAUNCHER)}: the launcher of this umiak, kept once in {run.root}/launchers"]
    if job.files:
        chosen = f", only {' '.join(job.files.include)}" if job.files.include else " without what .gitignore leaves out"
        requests.append(f"copy to {run.work}: the files of {job.files.root}{chosen}, kept once in {run.root}/files")
    return Bundle(
        files=(*files, SecretFile(path=run.file(SECRETS), variable=", ".join(secrets))),
        requests=tuple(requests),
        commands=(command,),
    )


def node_start(python: str, run: SharedRun, plan: str, *words: str) -> str:
    """A line of shell that does what a plan says.
    ``plan`` and ``words`` may hold variables of the shell: they come quoted.
    """
    return " ".join([shlex.quote(python), shlex.quote(run.file(LAUNCHER)), "-m", NODE_START, plan, *words])


def check_lines(python: str, work: str, trusted: tuple[str, ...]) -> list[str]:
    """Of job.sh, which comes to a node by its scheduler: what each node runs before anything
    that lies in the run's directory. ``work``: the working directory, if it is the user's own here.
    """
    words = " ".join(map(shlex.quote, (work or "-", *trusted)))  # not every mpirun keeps an empty word
    return [
        "# Before anything in $run is used, a node sees that nobody else can change it, and that the launcher is the one that was sent.",
        f"check='{CHECK}'",
        f'checked=({shlex.quote(python)} -I -S -c "$check" "$run" {LAUNCHER_SHA256} {words} --)',
    ]


def around(job: Job, run: SharedRun, python: str, start: str) -> str:
    """The part of job.sh that all places have: data in, the nodes, data out, how it ended.
    ``start`` sets ``status``.
    """
    lines = [
        "ended() {",
        '    printf "%s %s\\n" "$1" "$(date +%s)" >"$run/end.new" && mv "$run/end.new" "$run/end"',
        '    rm -f "$run/secrets.json"',
        '    exit "$1"',
        "}",
        "",
    ]
    if job.inputs:
        lines += [node_start(python, run, f'"$run/{BEFORE}"') + ' || ended "$?"', ""]
    lines += [start.rstrip("\n"), ""]
    if job.outputs:
        lines += ["late=0", node_start(python, run, f'"$run/{AFTER}"') + " || late=$?"]
        lines += ['[ "$status" -ne 0 ] || status=$late']
    return "\n".join([*lines, 'ended "$status"', ""])


def script(run: SharedRun, name: str, text: str) -> BundleFile:
    """A script of a run."""
    return BundleFile(path=run.file(name), text=text, mode=EXECUTABLE)


def _file(run: SharedRun, name: str, text: str) -> BundleFile:
    return BundleFile(path=run.file(name), text=text, mode=PRIVATE)


def _plans(
    job: Job, run: SharedRun, info: RunInfo, stop_signals: tuple[str, ...], *, is_shared: bool
) -> dict[str, NodePlan]:
    """Data is brought in and out once, if all nodes see the same directory."""
    whole = PlaceTraits(
        directory=info.directory, tee="none", start_s=START_S, secrets_file=SECRETS, stop_signals=stop_signals
    )
    traits = replace(whole, inputs=(), outputs=()) if is_shared else whole
    plans = {}
    if job.inputs and is_shared:
        plans[BEFORE] = node_plan.of_data(job, run.run_id, replace(whole, outputs=()))
    for role in job.roles:
        plans[f"{role.role.value}.json"] = node_plan.of(job, role, run.run_id, traits)
    if job.outputs and is_shared:
        plans[AFTER] = node_plan.of_data(job, run.run_id, replace(whole, inputs=()))
    return plans


def _workers(job: Job, role: RoleSpec) -> int:
    return 1 if job.mode.has_servers else role.workers or role.resource.devices


SHARED = "shared"


def roots_of(run: SharedRun, info: RunInfo, node: JobNode, names: Sequence[str]) -> RunFileRoots:
    """``node``: through which they are reached. ``names``: of the run's nodes, in the order of their numbers."""
    count = max(len(names), sum(each.nodes for each in info.roles))
    known = [*names, *(f"node-{number}" for number in range(len(names), count))]
    return RunFileRoots(
        name=SHARED,
        node=node,
        base=run.path,
        only=("work", LOGS),
        in_place="" if info.directory == run.work else info.directory,
        parts=tuple((name, f"{LOGS}/{number}") for number, name in enumerate(known)),
    )
