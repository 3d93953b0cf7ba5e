"""What a run under mpirun writes: a host file, job.sh for its supervisor, node.sh for every host. A decider.

mpirun answers SIGTERM by killing, after a second or less, but passes SIGUSR1 on.
So job.sh turns the one into the other, and on the hosts `node_start` turns it back: workers have their time to end.
"""

from __future__ import annotations

import shlex
import zlib

from umiak.core.bundle import PRIVATE, BundleFile
from umiak.core.cluster import Placement, join_host_port
from umiak.core.value import replace, value
from umiak.platforms import native
from umiak.platforms.reading import port_of_job
from umiak.submit.backends.mpi.settings import Family
from umiak.submit.backends.shared import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.job import Job
    from umiak.submit.backends.mpi.settings import MpiHost, MpiSettings
    from umiak.submit.backends.shared.layout import SharedRun

HOSTFILE = "hosts"
REMOVE_SECRETS = "--remove_secrets"
"""Of `node_start`: the file is the host's own."""
STOP_SIGNAL = "SIGUSR1"


@value
class Mpirun:
    """The command, and the hosts of one run in the order of their ranks."""

    family: Family
    hosts: tuple[MpiHost, ...]


def chosen(job: Job, hosts: tuple[MpiHost, ...], own_name: str) -> tuple[MpiHost, ...]:
    """The hosts that a job gets. This machine is first if it is one of them, since Open MPI puts it there."""
    ordered = sorted(hosts, key=lambda each: each.name.partition(".")[0] != own_name.partition(".")[0])
    return tuple(ordered[: job.nodes.most])


def others(hosts: tuple[MpiHost, ...], own_name: str) -> tuple[MpiHost, ...]:
    """Those that are not this machine."""
    return tuple([each for each in hosts if each.name.partition(".")[0] != own_name.partition(".")[0]])


def scripts(job: Job, run: SharedRun, settings: MpiSettings, mpirun: Mpirun, work: str = "") -> tuple[BundleFile, ...]:
    """All of them. ``work``: for `layout.check_lines`."""
    return (
        layout.script(run, layout.JOB, _job(job, run, settings, mpirun, work)),
        layout.script(run, layout.NODE, _node(job, run, settings, mpirun)),
        BundleFile(path=run.file(HOSTFILE), text=_hostfile(mpirun), mode=PRIVATE),
    )


def master_of(run: SharedRun, mpirun: Mpirun) -> str:
    """Where the nodes of a run meet: MPI tells them either nothing about it,
    or where mpirun is, which need not be a node.
    """
    name = mpirun.hosts[0].name if mpirun.hosts else "127.0.0.1"
    return join_host_port(name, port_of_job(zlib.crc32(run.run_id.encode())))


def _hostfile(mpirun: Mpirun) -> str:
    mark = " slots=" if mpirun.family is Family.OPENMPI else ":"
    return "".join(f"{each.name}{mark}{each.slots}\n" for each in mpirun.hosts)


def _job(job: Job, run: SharedRun, settings: MpiSettings, mpirun: Mpirun, work: str) -> str:
    hostfile, count = f'"$run/{HOSTFILE}"', len(mpirun.hosts)
    spread = "--hostfile {} --map-by ppr:1:node" if mpirun.family is Family.OPENMPI else "-f {} -ppn 1"
    words = [*map(shlex.quote, shlex.split(settings.mpirun)), *map(shlex.quote, settings.arguments)]
    command = " ".join([*words, spread.format(hostfile), f"-n {count} {layout.CHECKED} {layout.NODE}"])
    # bash tells a wait that a signal has broken off by a status above 128, and so the end of a process by a signal.
    start = f"""\
{command} &
mpirun=$!
trap 'kill -USR1 "$mpirun" 2>/dev/null' TERM INT
while :; do
    wait "$mpirun"
    status=$?
    kill -0 "$mpirun" 2>/dev/null || break
done
wait "$mpirun" 2>/dev/null
again=$?
[ "$again" -eq 127 ] || status=$again
"""
    head = [
        "#!/bin/bash",
        f"run={shlex.quote(run.path)}",
        f'exec >>"$run/{layout.LOGS}/{layout.JOB_LOG}" 2>&1 </dev/null',
        "# mpirun passes its environment on. What the supervisor was told is not for nodes, and secrets reach them by a file alone.",
        f"unset {' '.join(['${!UMIAK_@}', *job.secrets])}",
        *settings.setup,
        *layout.check_lines(settings.python, work, settings.trusted_directories),
        "",
    ]
    around = job if settings.is_shared else replace(job, inputs=(), outputs=())  # each host has its own data
    return "\n".join([*head, layout.around(around, run, settings.python, start)])


def _node(job: Job, run: SharedRun, settings: MpiSettings, mpirun: Mpirun) -> str:
    lines = [
        "#!/bin/sh",
        "# One host of the run; mpirun starts it once on each.",
        f"run={shlex.quote(run.path)}",
        "rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}",
        f"log=$run/{layout.LOGS}/$rank",
        f'mkdir -p "$log" && exec >>"$log/{layout.LAUNCHER_LOG}" 2>&1 || exit 3',
        f'[ ! -e "$run/{layout.CANCEL}" ] || exit 143',
    ]
    words = '--log_dir "$log"'
    if job.mode.has_servers:
        lines += _role_by_rank(job, run, mpirun)
    else:
        lines.append(f"role={job.roles[0].role.value}")
        words += f" --master {shlex.quote(master_of(run, mpirun))}"
    plan = '"$run/$role.json"' if settings.is_shared else f'{REMOVE_SECRETS} "$run/$role.json"'
    start = layout.node_start(settings.python, run, plan, words)
    return "\n".join([*lines, f"exec {start}", ""])


def _role_by_rank(job: Job, run: SharedRun, mpirun: Mpirun) -> list[str]:
    """MPI knows no roles, so the whole placement is spelled out: servers have the first ranks."""
    lines, first = [], 0
    for role in job.roles:
        lines.append(f'[ "$rank" -lt {first} ] || role={role.role.value}')
        first += role.nodes.most
    meant = Placement(platform="umiak", reason="", nodes=first, master=master_of(run, mpirun))
    variables = " ".join(f"{name}={shlex.quote(text)}" for name, text in native.environment_of(meant).items())
    own = f'{native.VARIABLES["rank"]}="$rank" {native.VARIABLES["role"]}="$role"'
    return [*lines, f"export {variables} {own}"]
