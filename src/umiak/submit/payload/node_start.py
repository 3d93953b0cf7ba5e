"""One node of a run, in the foreground: files, data in, the launcher, data out. A program.

    python umiak-launcher.pyz -m umiak.submit.payload.node_start [--remove_secrets] RUN_DIRECTORY/node.json [WORDS FOR THE LAUNCHER]

Every place that can start a program on a node starts this one; who the node is among the others is said by its
environment, which the launcher reads. The exit status is the launcher's. Results are brought home whatever it was: a
run that failed after ten hours has checkpoints. Words behind the plan come before those of the plan: what is known on
the node only, such as ``--master``. With ``--remove_secrets`` their file is removed when it was read: it is this node's
own, and nobody else removes it.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import sys

from umiak.adapters import kernel_requests, own_modules, process
from umiak.core.decode import Malformed
from umiak.core.problem import Exit, UmiakError
from umiak.submit.payload import node_plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.submit.payload.node_plan import NodePlan

USAGE = "usage: python -m umiak.submit.payload.node_start [--remove_secrets] PLAN [WORDS FOR THE LAUNCHER]"
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
LAUNCHER = "umiak.launch"
REMOVE_SECRETS = "--remove_secrets"


def main(words: list[str], environ: Mapping[str, str]) -> int:
    """The command; its exit status."""
    removes_secrets = words[:1] == [REMOVE_SECRETS]
    words = words[1:] if removes_secrets else words
    if not words:
        sys.stderr.write(f"{USAGE}\n")
        return Exit.BAD_REQUEST
    try:
        return run(words[0], words[1:], environ, removes_secrets=removes_secrets)
    except UmiakError as error:
        return _told(error)


def run(path: str, words: Sequence[str], environ: Mapping[str, str], *, removes_secrets: bool = False) -> int:
    """Do what a plan says."""
    plan = _read(path)
    here = os.path.dirname(os.path.abspath(path))
    directory = os.path.join(here, plan.directory)
    environ = {**environ, **dict(plan.env), **_secrets(os.path.join(here, plan.secrets_file), plan)}
    if removes_secrets and plan.secrets_file:
        os.unlink(os.path.join(here, plan.secrets_file))
    _prepare(plan, here, directory, environ)
    argv = (*own_modules.command(LAUNCHER), *words, *plan.launch)
    sys.stdout.flush()
    sys.stderr.flush()
    if plan.stop_signals:
        kernel_requests.ask_for_death_signal(signal.SIGTERM)  # a starter that was killed tells nobody
    if plan.only_data:
        return _bring_home(plan, directory, environ)
    if not plan.outputs and not plan.stop_signals:
        kernel_requests.become(argv, environ)  # nothing is left to do here
    status = _launched(argv, environ, [getattr(signal, name) for name in plan.stop_signals])
    late = _bring_home(plan, directory, environ)
    return status or late


def _read(path: str) -> NodePlan:
    try:
        with open(path, encoding="utf-8") as file:
            return node_plan.from_text(file.read())
    except (OSError, UnicodeDecodeError, Malformed) as error:
        what = f"the plan of this node can't be read: {path}"
        raise UmiakError.refused("UM-SUBMIT-070", what, why=str(error), hint="submit the job again") from None


def _secrets(path: str, plan: NodePlan) -> dict[str, str]:
    if not plan.secrets_file:
        return {}
    try:
        return _read_secrets(path)
    except (OSError, ValueError) as error:
        # What is in the file is not shown, and so neither is what a parser says about it.
        why = error.strerror if isinstance(error, OSError) else "it is damaged"
        raise UmiakError.refused(
            "UM-SUBMIT-071",
            f"the secrets of the run can't be read: {path}",
            why=why,
            hint="the file must belong to the user that runs the job, with mode 600; submit the job again",
        ) from None


def _read_secrets(path: str) -> dict[str, str]:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), encoding="utf-8") as file:
        seen = os.fstat(file.fileno())
        if seen.st_uid != os.geteuid() or stat.S_IMODE(seen.st_mode) & 0o077:
            raise PermissionError(1, "others can read it")
        data = json.load(file)
    if not (isinstance(data, dict) and all(isinstance(each, str) for each in data.values())):
        raise ValueError("it is no object of texts")
    return data


def _prepare(plan: NodePlan, here: str, directory: str, environ: Mapping[str, str]) -> None:
    try:
        os.makedirs(directory, exist_ok=True)
        os.chdir(directory)
    except OSError as error:
        what = f"the working directory can't be made: {directory}"
        raise UmiakError.refused("UM-SUBMIT-072", what, why=error.strerror, hint="look at the disk: `df -h`") from None
    if plan.files:
        from umiak.submit.payload import unpack

        archive = os.path.join(here, plan.files.archive) if plan.files.archive else ""
        if plan.files.url:
            from umiak.submit.payload import transfer

            transfer.bring_in(plan.files.url, archive, environ)
        unpack.copy(unpack.unpack(plan.files.digest, os.path.join(here, plan.files.store), archive), directory)
    if plan.inputs:
        from umiak.submit.payload import transfer

        for each in plan.inputs:
            transfer.bring_in(each.url, os.path.join(directory, each.path), environ)


def _launched(argv: Sequence[str], environ: Mapping[str, str], stopping: Sequence[int]) -> int:
    """Run the launcher as a child, so that something can be done after it.
    It gets our signals, SIGTERM for those that mean the end here, and SIGTERM if we are killed.
    """
    import subprocess

    parent = os.getpid()

    def in_child() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
        kernel_requests.ask_for_death_signal(signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(Exit.REFUSED)

    # Blocked until there is somebody to forward to: none is lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    heeded = process.heeded(FORWARDED)
    child = subprocess.Popen(argv, env=dict(environ), preexec_fn=in_child)  # noqa: PLW1509 - this process has one thread
    for number in heeded:
        signal.signal(number, lambda number, _: child.send_signal(signal.SIGTERM if number in stopping else number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    code = child.wait()
    return 128 - code if code < 0 else code


def _bring_home(plan: NodePlan, directory: str, environ: Mapping[str, str]) -> int:
    """Every output that there is; one that fails does not keep the others here."""
    from umiak import platforms
    from umiak.submit.payload import transfer

    placement = platforms.detect(environ)
    rank = placement.rank if placement else 0
    status: int = Exit.DONE
    for each in plan.outputs:
        path, url = os.path.join(directory, each.path), node_plan.output_url(each, rank)
        if url and os.path.lexists(path):
            try:
                transfer.bring_out(path, url, environ)
            except UmiakError as error:
                status = _told(error)
    return status


def _told(error: UmiakError) -> int:
    for problem in error.problems:
        sys.stderr.write("".join(f"{line}\n" for line in problem.lines()))
    sys.stderr.flush()
    return error.exit_status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
