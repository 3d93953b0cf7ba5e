"""Runs Slurm's commands, here or on a login node over ssh, and reads their answers. An adapter.

slurm = SlurmCommands("hpc", environ)
slurm.submit("job.sh", env), slurm.named("ctr-3f2a9c"), slurm.jobs("4242"), slurm.signal("4242", "TERM")
"""

from __future__ import annotations

import os

from umiak.core.names import is_digits
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.shown import one_line
from umiak.submit.backend import AnswerLost

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

    from umiak.submit.backends.shared.remote import RemoteStore
    from umiak.submit.backends.slurm.state import SlurmJob

ANSWER_S = 100.0
"""Slurm's commands give up by themselves, mostly after 10 s."""
SACCT = ("--noheader", "--parsable2", "--allocations")
UNKNOWN_JOB = "Invalid job id"
NOTHING_SENT = ("connect failure", "Unable to contact slurm controller", "establish a configuration source")
"""Messages of sbatch that had nobody to talk to."""
NOBODY_KNOWS = ("timed out", "Zero Bytes were transmitted", "Unexpected message", "Connection reset")
"""Messages of sbatch that has sent the job and got no answer."""


class SlurmCommands:
    """Slurm, as this machine reaches it."""

    def __init__(self, place: str, environ: Mapping[str, str], directory: str = "") -> None:
        self._place = place
        self._given = environ
        self._path = directory or environ.get("PATH", os.defpath)
        self._environ = asking_environment(environ)

    def environ(self) -> Mapping[str, str]:
        """Where the commands run."""
        return self._given

    def missing(self, names: Sequence[str]) -> list[str]:
        """Those of these commands that are not there."""
        return [each for each in names if self.find(each) is None]

    def no_command(self, name: str) -> Problem:
        """A command that is not there."""
        return no_command(self._place, name)

    def find(self, name: str) -> str | None:
        """The path of a command. By hand: shutil takes 10 ms of every dry run."""
        paths = [os.path.join(each, name) for each in self._path.split(os.pathsep)]
        return next((each for each in paths if os.path.isfile(each) and os.access(each, os.X_OK)), None)

    def submit(self, path: str, env: Mapping[str, str]) -> str:
        """The id of the new job. UmiakError if Slurm refused it, `AnswerLost` if it may have it."""
        import subprocess

        try:
            done = self._run(["sbatch", "--parsable", path], env=env)
        except subprocess.TimeoutExpired:
            raise AnswerLost(self._place, f"sbatch said nothing for {ANSWER_S:g} s") from None
        job_id = done.stdout.strip().partition(";")[0]
        if done.returncode == 0 and is_digits(job_id):
            return job_id
        message = _message(done)
        is_sent = any(each in message for each in NOBODY_KNOWS) and not any(each in message for each in NOTHING_SENT)
        if done.returncode < 0 or done.returncode == 0 or is_sent:
            raise AnswerLost(self._place, message or f"sbatch ended with {done.returncode}")
        if any(each in message for each in NOTHING_SENT):
            raise self._silent(message)
        hint = f"`sbatch --test-only {path}` asks again; `sinfo` and `sacctmgr show assoc` list what you may use"
        raise UmiakError.refused("UM-SUBMIT-144", f"place {self._place}: Slurm refused the job", why=message, hint=hint)

    def named(self, name: str) -> list[str]:
        """The ids of jobs with this name that Slurm knows: those in its memory, then those in its accounting."""
        done = self._asked(["squeue", "--noheader", "--states=all", f"--name={name}", "--me", "--format=%A"])
        numbers = done.stdout.split()
        if not numbers:
            done = self._asked(
                ["sacct", *SACCT, "--starttime=now-30days", f"--name={name}", "--format=JobIDRaw"], may_fail=True
            )
            numbers = done.stdout.split() if done.returncode == 0 else []
        return sorted({each for each in numbers if is_digits(each)}, key=int)

    def jobs(self, job_id: str) -> tuple[SlurmJob, ...]:
        """The components of a job; none if Slurm knows no such job."""
        from umiak.submit.backends.slurm import state

        done = self._asked(["scontrol", "show", "job", "--oneliner", job_id], may_fail=True)
        if done.returncode == 0:
            return state.from_scontrol(done.stdout)
        if UNKNOWN_JOB not in done.stderr:
            raise self._silent(_message(done))
        fields = f"--format={','.join(state.SACCT_FIELDS)}"
        done = self._asked(["sacct", *SACCT, f"--jobs={job_id}", fields], may_fail=True)
        return state.from_sacct(done.stdout) if done.returncode == 0 else ()

    def signal(self, job_id: str, name: str) -> None:
        """To the processes of all steps of a job, on all nodes."""
        self._asked(["scancel", f"--signal={name}", job_id], may_fail=True)

    def cancel(self, job_id: str) -> None:
        """Take it from the queue, or end it as Slurm does it."""
        self._asked(["scancel", job_id], may_fail=True)

    def _asked(self, words: Sequence[str], *, may_fail: bool = False) -> subprocess.CompletedProcess[str]:
        import subprocess

        try:
            done = self._run(words)
        except subprocess.TimeoutExpired:
            raise self._silent(f"{words[0]} said nothing for {ANSWER_S:g} s") from None
        if done.returncode and not may_fail:
            raise self._silent(_message(done))
        return done

    def _run(self, words: Sequence[str], env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        import subprocess

        program = self.find(words[0])
        if program is None:
            raise UmiakError(self.no_command(words[0]), exit_status=Exit.REFUSED)
        return subprocess.run(
            [program, *words[1:]],
            check=False,
            env=dict(self._environ if env is None else env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_S,
        )

    def _silent(self, why: str) -> UmiakError:
        return UmiakError.refused(
            "UM-SUBMIT-145",
            f"place {self._place}: Slurm does not answer",
            why=why,
            hint="`scontrol ping` tells whether its controller is up; jobs that run go on without it",
        )


def asking_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """With times as numbers, and messages as they are known here."""
    kept = {name: text for name, text in environ.items() if not name.startswith(("SQUEUE_", "SACCT_", "SCANCEL_"))}
    return {**kept, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}


def no_command(place: str, name: str, host: str = "") -> Problem:
    """Slurm's commands are not on this machine, or not on that host."""
    hint = "submit from a login node of the cluster, or over ssh with `submit_host =`"
    if host:
        hint = "commands over ssh may get another PATH than you after a login"
    return Problem(
        code="UM-SUBMIT-140",
        what=f"place {place}: no such command {f'on {host}' if host else 'here'}: {name}",
        hint=f"{hint}; `commands =` of the place names the directory of the command",
    )


def _message(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return one_line("; ".join(lines[-3:]), 500)


SUBMITS = "sbatch"


class RemoteSlurmCommands(SlurmCommands):
    """Slurm, as the submit host of a place reaches it."""

    def __init__(self, place: str, store: RemoteStore, directory: str = "") -> None:
        super().__init__(place, {}, directory)
        self._store = store
        self._directory = directory
        self._there: Mapping[str, str] | None = None

    def environ(self) -> Mapping[str, str]:
        if self._there is None:
            self._there = self._store.asked("environment")["environment"]
        return self._there

    def missing(self, names: Sequence[str]) -> list[str]:
        return list(self._store.asked("find", names=list(names), path=self._directory)["missing"])

    def no_command(self, name: str) -> Problem:
        return no_command(self._place, name, self._store.label)

    def _run(self, words: Sequence[str], env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        import subprocess

        from umiak.submit.backends.ssh.connections import HostFailure

        answer = self._store.tried(
            "execute",
            words=list(words),
            path=self._directory,
            env=dict(asking_environment(self.environ()) if env is None else env),
            limit_s=ANSWER_S,
        )
        if isinstance(answer, HostFailure):
            if words[0] == SUBMITS and answer.is_sent:
                raise AnswerLost(self._place, f"{answer.problem.what}: {answer.problem.why}")
            raise UmiakError(answer.problem, exit_status=Exit.REFUSED)
        if answer["code"] is None and answer["err"]:
            raise UmiakError(self.no_command(words[0]), exit_status=Exit.REFUSED)
        if answer["code"] is None:
            raise subprocess.TimeoutExpired(list(words), ANSWER_S)
        return subprocess.CompletedProcess(list(words), answer["code"], answer["out"], answer["err"])
