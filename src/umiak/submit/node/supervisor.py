"""The process that supervises a run on one machine: starts its launchers, waits for them, writes how it ended. A program, Linux only.

    python -m umiak.submit.node.supervisor RUN_DIRECTORY < secrets

or `start` in a process that is there already.
It belongs to no terminal and no client. Secrets come through standard input, which ends with the word that everything arrived:
a client that was killed in between starts nothing. If this process is killed, the kernel sends its launchers SIGTERM; they end
their workers, and nothing is left. Launchers know which process this is: without it they kill workers that do not end by themselves.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time

from umiak.adapters import identity, process
from umiak.contracts.start import SUPERVISOR
from umiak.core.cluster import join_host_port
from umiak.core.problem import Exit
from umiak.core.value import value
from umiak.submit.node import plan as plans
from umiak.submit.node.files import ALREADY, ARRIVED, OUTPUT, STARTED, SUPERVISOR_LOG, RunFiles
from umiak.submit.node.state import RunEnd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

GRACE_S = 30.0
"""For launchers to end after a signal, where nobody says how long."""
PEERS_S = 60.0
"""How long the launchers of a run may go on after one of them has failed: they tell each other, so this is long."""
LONGEST_WAIT_S = 3600.0
"""poll takes at most 24 days at once."""
LOOPBACK = "127.0.0.1"


def main(argv: list[str]) -> int:
    """Take over a run, detach from the client, and stay until the run is over."""
    umask = os.umask(0o077)
    given = sys.stdin.read()
    message = json.loads(given) if given else {}
    if message.get("end") != ARRIVED:
        return Exit.REFUSED  # the client was killed: nobody was told that the job began, and it does not
    if os.fork():
        return Exit.DONE  # what the client waits for; the job is the other half's
    files = RunFiles(argv[0])
    is_ours = files.claim()
    try:
        os.write(1, (STARTED if is_ours else ALREADY).encode())
    except BrokenPipeError:
        pass  # the client was killed; it finds the run when it is repeated
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    if is_ours:
        _supervise(files, message["secrets"], umask)
    return Exit.DONE


def start(files: RunFiles, secrets: Mapping[str, str]) -> str:
    """Start a supervisor that outlives this process, unless the run has one; its answer. No interpreter has to begin for it."""
    read_end, write_end = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = Exit.OUR_BUG
        try:
            status = _detached(files, secrets, read_end, write_end)
        finally:
            os._exit(status)
    os.close(write_end)
    with open(read_end, "rb") as answer:
        return answer.read().decode()


def _detached(files: RunFiles, secrets: Mapping[str, str], read_end: int, write_end: int) -> int:
    os.close(read_end)
    os.setsid()
    umask = os.umask(0o077)
    null = os.open(os.devnull, os.O_RDWR)
    talk = os.open(os.path.join(files.path, SUPERVISOR_LOG), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target, source in ((0, null), (1, null), (2, talk)):
        os.dup2(source, target)
    is_ours = files.claim()
    os.write(write_end, (STARTED if is_ours else ALREADY).encode())
    os.close(write_end)
    if is_ours:
        _supervise(files, secrets, umask)
    return Exit.DONE


def _supervise(files: RunFiles, secrets: Mapping[str, str], umask: int) -> None:
    try:
        end = _Supervisor(files, secrets, umask).run()
    except BaseException as error:
        process.kill_descendants()
        what = f"its supervisor failed: {type(error).__name__}: {error}"
        files.write_end(RunEnd(exit_code=Exit.OUR_BUG, ended_s=time.time(), stopped=what, exit_codes={}))
        files.forget_token()
        raise
    files.write_end(end)
    files.forget_token()


@value
class _Stop:
    """Why a run is ended, and when what is left of it is killed."""

    why: str
    kill_at: float
    is_cancelled: bool = False


class _StartedLauncher:
    """A launcher's process. Not subprocess's: importing that takes as long as everything else here."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        """Its exit code, of a signal the negative number; None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)  # it was not waited for, so the number is still its own


class _Supervisor:
    """The launchers of one run."""

    def __init__(self, files: RunFiles, secrets: Mapping[str, str], umask: int) -> None:
        self._umask = umask
        """The person's: files that the job makes are not private because ours are."""
        self._files = files
        self._plan = files.plan()
        self._secrets = secrets
        self._running: dict[str, _StartedLauncher] = {}
        self._ended: dict[str, int] = {}
        self._stop: _Stop | None = None
        self._is_signalled = False
        self._signals = self._listen()

    def run(self) -> RunEnd:
        """Until every launcher has ended."""
        process.become_subreaper()
        self._files.reserve()
        began = time.monotonic()
        self._start()
        while self._running:
            self._wait(began)
            self._reap()
            if self._is_signalled:
                self._is_signalled = False
                self._stopped_by_signal()
            self._keep_times(began)
        process.kill_descendants()
        # A run that a signal stopped counts as cancelled: it did not fail by itself.
        first = next((code for code in self._ended.values() if code), 0)
        stop = self._stop
        return RunEnd(
            exit_code=first or (Exit.JOB_FAILED if stop else 0),
            ended_s=time.time(),
            stopped=stop.why if stop else "",
            is_cancelled=bool(stop and stop.is_cancelled),
            exit_codes=self._ended,
        )

    def _listen(self) -> int:
        read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signalled)
        # Not ignored: launchers would inherit that.
        for number in (signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        return read_end

    def _signalled(self, *_: object) -> None:
        self._is_signalled = True

    def _start(self) -> None:
        master = join_host_port(LOOPBACK, _free_port()) if len(self._plan.launchers) > 1 else ""
        self._files.prepare_launchers()
        own = identity.of(os.getpid())
        assert own is not None
        for index, launcher in enumerate(self._plan.launchers):
            environ = plans.environment(self._plan, index, inherited=os.environ, master=master)
            environ[SUPERVISOR] = own.text
            self._running[launcher.name] = self._start_one(launcher, {**environ, **self._secrets})

    def _start_one(self, launcher: plans.PlannedLauncher, environ: Mapping[str, str]) -> _StartedLauncher:
        logs = self._files.log_directory(launcher.name)
        os.makedirs(logs, mode=0o700, exist_ok=True)
        output = os.open(os.path.join(logs, OUTPUT), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        parent = os.getpid()
        pid = os.fork()  # this process has one thread
        if pid == 0:
            try:
                self._become(launcher, environ, parent, output)
            except OSError as error:
                os.write(output, f"error: can't be started: {error.filename}: {error.strerror}\n".encode())
                os._exit(127 if isinstance(error, FileNotFoundError) else 126)
            finally:
                os._exit(Exit.OUR_BUG)
        os.close(output)
        return _StartedLauncher(pid)

    def _become(self, launcher: plans.PlannedLauncher, environ: Mapping[str, str], parent: int, output: int) -> None:
        """In the new process: it belongs to no terminal, ends with the supervisor, and is known before it is the launcher."""
        os.setsid()
        process.ask_for_death_signal(signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(Exit.REFUSED)
        # If the supervisor is killed now, the next look finds this launcher.
        self._files.write_launcher(launcher.name)
        os.umask(self._umask)
        null = os.open(os.devnull, os.O_RDONLY)
        for target, source in ((0, null), (1, output), (2, output)):
            os.dup2(source, target)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, and launchers would inherit that
            signal.signal(number, signal.SIG_DFL)
        os.chdir(os.path.join(self._files.path, self._plan.directory))
        os.execvpe(launcher.argv[0], launcher.argv, environ)  # noqa: S606 - without a shell

    def _wait(self, began: float) -> None:
        """For a signal, the end of a launcher, or the next of our own times."""
        times = [self._stop.kill_at] if self._stop else []
        if self._plan.time_limit_s and not self._stop:
            times.append(began + self._plan.time_limit_s)
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        wait_s = min([LONGEST_WAIT_S, *(each - time.monotonic() for each in times)])
        if poll.poll(max(0.0, wait_s) * 1000):
            os.read(self._signals, 4096)

    def _reap(self) -> None:
        for name, started in [*self._running.items()]:
            code = started.poll()
            if code is None:
                continue
            del self._running[name]
            self._ended[name] = 128 - code if code < 0 else code
            if code and self._running and self._stop is None:
                self._stop = _Stop(why="", kill_at=time.monotonic() + PEERS_S)
        process.reap_adopted([each.pid for each in self._running.values()])

    def _stopped_by_signal(self) -> None:
        grace_s = self._files.cancel_grace_s()
        why = "received SIGTERM" if grace_s is None else "cancelled"
        self._end(why, GRACE_S if grace_s is None else grace_s, is_cancelled=True)

    def _keep_times(self, began: float) -> None:
        now = time.monotonic()
        limit = self._plan.time_limit_s
        if limit and not self._stop and now >= began + limit:
            self._end(f"the time limit of {limit} s is over", GRACE_S)
        if self._stop and now >= self._stop.kill_at:
            process.kill_descendants(spare=[each.pid for each in self._running.values()])

    def _end(self, why: str, grace_s: float, *, is_cancelled: bool = False) -> None:
        """Ask all launchers to end. Asked again, the shorter grace counts."""
        kill_at = time.monotonic() + grace_s
        if self._stop and self._stop.why:
            why, is_cancelled = self._stop.why, self._stop.is_cancelled
            kill_at = min(kill_at, self._stop.kill_at)
        else:
            for started in self._running.values():
                started.send_signal(signal.SIGTERM)
        self._stop = _Stop(why=why, kill_at=kill_at, is_cancelled=is_cancelled)


def _free_port() -> int:
    import socket  # milliseconds that most runs don't need

    with socket.socket() as one:
        one.bind((LOOPBACK, 0))
        port: int = one.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
