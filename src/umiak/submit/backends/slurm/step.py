"""A step of a running job on one of its nodes, for commands and files: srun, and what it starts there. A decider.

    words("4242", "node0", settings, run)     ("srun", "--jobid=4242", "--overlap", ...)

The step shares the job's processors, memory and devices (``--overlap``), and takes nothing from it.
"""

from __future__ import annotations

from umiak.submit.backends.shared import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.submit.backends.shared.layout import SharedRun
    from umiak.submit.backends.slurm.settings import SlurmSettings

SESSION = "umiak.submit.node.session"
_KEPT = ("SLURM_CONF", "SLURM_CLUSTERS")


def words(job_id: str, host: str, settings: SlurmSettings, run: SharedRun) -> tuple[str, ...]:
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


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Of srun: nothing of a job around this one, and no variable that would change its options."""
    return {
        name: text
        for name, text in environ.items()
        if name in _KEPT or not name.startswith(("SLURM_", "SRUN_", "SBATCH_", "UMIAK_"))
    }
