"""The sbatch script of a job, and what Slurm starts on every node. A decider.

Roles become the components of a heterogeneous job, which one srun starts as one step, so that all nodes are one cluster
for `umiak.platforms`. srun itself answers SIGTERM by killing, so nothing is sent to it: Slurm signals the steps, before
the time limit (``--signal`` without ``B:``) and when the run is cancelled.
"""

from __future__ import annotations

import math
import shlex

from umiak.core.devices import DeviceKind
from umiak.submit.backends.shared import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.core.bundle import BundleFile
    from umiak.core.job import Job, RoleSpec
    from umiak.submit.backends.shared.layout import SharedRun
    from umiak.submit.backends.slurm.settings import SlurmSettings

MARK = "umiak"
"""The comment of our jobs."""
MIB = 1 << 20
MINUTE_S = 60
_USUAL = ("HOME", "PATH", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR")
_KEPT = ("SLURM_CONF", "SLURM_CLUSTERS")

_CLAIM = """\
# A run belongs to one job. Of two that were submitted for it, as after a lost answer, the later one ends here.
if ! ln -s "$SLURM_JOB_ID" "$run/job" 2>/dev/null && [ "$(readlink "$run/job")" != "$SLURM_JOB_ID" ]; then
    echo "this run belongs to $(readlink "$run/job"): job $SLURM_JOB_ID starts nothing"
    exit 0
fi
rm -f "$run/end" "$run/done"
"""


def scripts(job: Job, run: SharedRun, settings: SlurmSettings, work: str = "") -> tuple[BundleFile, ...]:
    """job.sh for sbatch, node.sh for srun. ``work``: for `layout.check_lines`."""
    return layout.script(run, layout.JOB, _job(job, run, settings, work)), layout.script(
        run, layout.NODE, _node(job, run, settings)
    )


def times(job: Job, settings: SlurmSettings) -> tuple[int | None, int]:
    """The time limit of a job, and how long before it the workers are told."""
    limit_s = job.time_limit_s or settings.time_limit_s
    return limit_s, min(settings.stop_time_s, limit_s // 2) if limit_s else settings.stop_time_s


def sbatch_environment(
    environ: Mapping[str, str], secrets: tuple[str, ...], settings: SlurmSettings, text: str
) -> dict[str, str]:
    """The environment of sbatch, which Slurm gives to the job.
    No secret, nothing of a job around this one, and no variable that would override what the script says.
    """
    options = {line.split()[1].partition("=")[0] for line in text.splitlines() if line.startswith("#SBATCH --")}
    overriding = {"SBATCH_" + name.removeprefix("--").replace("-", "_").upper() for name in options}
    overriding |= {
        "SBATCH_TIMELIMIT" if "--time" in options else "",
        "SBATCH_ARRAY_INX",
        "SBATCH_EXPORT",
        "SBATCH_WAIT",
    }
    overriding |= {"SBATCH_REQUEUE", "SBATCH_NO_REQUEUE", "SBATCH_EXCLUSIVE" if "--exclusive" in options else ""}

    def is_kept(name: str) -> bool:
        if name in _KEPT:
            return True
        if name in secrets or name in overriding or name.startswith(("UMIAK_", "SLURM_", "SRUN_")):
            return False
        return settings.export == "all" or name in _USUAL or name.startswith("SBATCH_")

    return {name: text for name, text in environ.items() if is_kept(name)}


def _job(job: Job, run: SharedRun, settings: SlurmSettings, work: str) -> str:
    components = [_component(job, run, role, settings) for role in job.roles]
    head = [f"#SBATCH {line}" for line in _common(job, run, settings)]
    for number, component in enumerate(components):
        head += ["#SBATCH hetjob"] if number else []
        head += [f"#SBATCH {line}" for line in component]
    check = layout.check_lines(settings.python, work, settings.trusted_directories)
    lines = [
        "#!/bin/bash",
        *head,
        "",
        f"run={shlex.quote(run.path)}",
        "",
        *settings.setup,
        *check,
        f"{layout.CHECKED} || exit 3",
        "",
        _CLAIM,
    ]
    if len(job.roles) > 1:
        from umiak.platforms.slurm import GROUPS

        lines.append(f"export {GROUPS}={','.join(each.role.value for each in job.roles)}")
    start = f"{_srun(job)}\nstatus=$?"
    if job.nodes.is_elastic:
        start += '\n# Nodes that were lost on the way do not count: the others have done the job.\n[ ! -e "$run/done" ] || status=0'
    return "\n".join([*lines, layout.around(job, run, settings.python, start)])


def _common(job: Job, run: SharedRun, settings: SlurmSettings) -> list[str]:
    """What counts for the job as a whole."""
    output = f"{run.logs}/{layout.JOB_LOG}".replace("%", "%%")
    return [
        f"--output={shlex.quote(output)}",
        "--open-mode=append",
        "--requeue" if settings.requeue else "--no-requeue",
        *(["--no-kill"] if job.nodes.is_elastic else []),
    ]


def _component(job: Job, run: SharedRun, role: RoleSpec, settings: SlurmSettings) -> list[str]:
    """What each component of a heterogeneous job says for itself; an ordinary job has one."""
    limit_s, stop_s = times(job, settings)
    wanted, nodes = role.resource, role.nodes
    lines = [
        f"--job-name={run.run_id}",
        f"--comment={MARK}",
        f"--nodes={nodes.least}-{nodes.most}" if nodes.is_elastic else f"--nodes={nodes.most}",
    ]
    if (
        not nodes.is_elastic
    ):  # with it Slurm gives the least number, and never more; one task to a node is srun's own default
        lines.append("--ntasks-per-node=1")
    if wanted.cpus:
        lines.append(f"--cpus-per-task={math.ceil(wanted.cpus)}")
    if wanted.memory_bytes:
        lines.append(f"--mem={math.ceil(wanted.memory_bytes / MIB)}M")
    if wanted.devices:
        lines.append(f"--gres={shlex.quote(_gres(role, settings))}:{wanted.devices}")
    if limit_s:
        lines.append(f"--time={math.ceil(limit_s / MINUTE_S)}")
    lines.append(f"--signal=TERM@{stop_s}")
    for name in ("partition", "account", "qos", "constraint"):
        text = getattr(settings, name)
        lines += [f"--{name}={shlex.quote(text)}"] if text else []
    for each in settings.arguments:
        option, equals, text = each.partition("=")
        lines.append(f"{option}={shlex.quote(text)}" if equals else option)
    return lines


def _gres(role: RoleSpec, settings: SlurmSettings) -> str:
    kind = role.resource.device
    return settings.gres or (kind.value if kind else DeviceKind.GPU.value)


def _srun(job: Job) -> str:
    """One step over all components. srun does not take cpus-per-task from sbatch."""
    # Launchers tell each other of failures, and end each in its time.
    common = "--mpi=none --kill-on-bad-exit=0 --wait=0" + (" --no-kill" if job.nodes.is_elastic else "")
    parts = []
    for number, role in enumerate(job.roles):
        words = [f"--het-group={number}"] if len(job.roles) > 1 else []
        words += [f"--cpus-per-task={math.ceil(role.resource.cpus)}"] if role.resource.cpus else []
        parts.append(" ".join([*words, layout.CHECKED, layout.NODE, role.role.value]))
    joined = " : \\\n    ".join(parts)
    return f"srun {common} \\\n    {joined}"


def _node(job: Job, run: SharedRun, settings: SlurmSettings) -> str:
    start = layout.node_start(settings.python, run, '"$run/$1.json"', '--log_dir "$log"')
    # A launcher that ends well says that all of the job is done.
    # Slurm signals the shell as well, which must not end before it.
    whole = f'trap : TERM INT\n{start}\nstatus=$?\n[ "$status" -ne 0 ] || : >"$run/done"\nexit "$status"'
    return f"""\
#!/bin/sh
# One node of the run; srun starts it once on each, with the node's role.
run={shlex.quote(run.path)}
log=$run/{layout.LOGS}/$SLURM_NODEID
mkdir -p "$log" && exec >>"$log/{layout.LAUNCHER_LOG}" 2>&1 || exit 3
[ ! -e "$run/{layout.CANCEL}" ] || exit 143
{whole if job.nodes.is_elastic else f"exec {start}"}
"""


SESSION = "umiak.submit.node.session"
_STEP_KEEPS = ("SLURM_CONF", "SLURM_CLUSTERS")


def step_words(job_id: str, host: str, settings: SlurmSettings, run: SharedRun) -> tuple[str, ...]:
    """srun with the program, which it starts once, on this node of this job or component."""
    program: tuple[str, ...] = (settings.python, run.file(layout.LAUNCHER), "-m", SESSION, run.path)
    if settings.setup:  # lines of the place, as job.sh has them; what a person types comes later, as frames
        program = ("/bin/bash", "-c", "\n".join([*settings.setup, 'exec "$@"']), "bash", *program)
    return (
        "srun",
        f"--jobid={job_id}",
        "--overlap",
        "--nodes=1",
        "--ntasks=1",
        f"--nodelist={host}",
        "--mpi=none",
        "--unbuffered",
        "--quiet",
        *program,
    )


def step_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Of srun: nothing of a job around this one, and no variable that would change its options."""
    return {
        name: text
        for name, text in environ.items()
        if name in _STEP_KEEPS or not name.startswith(("SLURM_", "SRUN_", "SBATCH_", "UMIAK_"))
    }
