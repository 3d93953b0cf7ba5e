"""The process that supervises a run on one machine: starts its launchers, waits for them, writes how it ended.
A program, Linux only.

    python -m umiak.submit.node.supervisor RUN_DIRECTORY < secrets

or `hold` in a process that is there already: then everything is made ready, and the launchers begin at `HeldRun.go`. It
belongs to no terminal and no client. Secrets come through standard input, which ends with the word that everything
arrived: a client that was killed in between starts nothing. If this process is killed, the kernel sends its launchers
SIGTERM; they end their workers, and nothing is left. Launchers know which process this is: without it they kill workers
that do not end by themselves.

Up to the start of the launchers nothing is imported that takes milliseconds:
on a job's hosts all of that happens at once, and all wait for the slowest.
"""

from __future__ import annotations

import os
import select
import sys
import time

from umiak.adapters import identity, kernel_requests
from umiak.core import light_json
from umiak.core.problem import Exit
from umiak.core.value import value
from umiak.submit.node import plan as plans
from umiak.submit.node.files import ALREADY, ARRIVED, OUTPUT, STARTED, SUPERVISOR_LOG, RunFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping

    from umiak.submit.node.state import RunEnd
else:
    import _signal as signal  # what the module `signal` wraps into enumerations, for 5 ms

GRACE_S = 30.0
"""For launchers to end after a signal, where nobody says how long."""
PEERS_S = 60.0
"""How long the launchers of a run may go on after one of them has failed: they tell each other, so this is long."""
LONGEST_WAIT_S = 3600.0
"""poll takes at most 24 days at once."""
LOOPBACK = "127.0.0.1"
_GO = b"!"
_READY = "ready"


def main(argv: list[str]) -> int:
    """Take over a run, detach from the client, and stay until the run is over."""
    umask = os.umask(0o077)
    given = sys.stdin.read()
    message = light_json.loads(given) if given else {}
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
        with _EndWritten(files):
            supervisor = _Supervisor(files, message["secrets"], umask)
            supervisor.prepare()
            supervisor.release()
            supervisor.run()
    return Exit.DONE


class HeldRun:
    """A supervisor and its launchers, which wait for `go`.
    Dropped, or left by the end of this process, they end without a trace.
    """

    def __init__(self, pid: int, word: int, answer: int) -> None:
        self._pid = pid
        self._word = word
        self._answer = answer

    def go(self) -> str:
        """Let the launchers begin, unless the run has another supervisor; `STARTED` or `ALREADY`.
        Both outlive this process.
        """
        try:
            os.write(self._word, _GO)
        except BrokenPipeError:
            pass  # it was killed, and says nothing
        line = _line(self._answer)
        os.close(self._word)
        os.close(self._answer)
        if not line:
            raise OSError(0, "its supervisor was killed before it began")
        return line

    def drop(self) -> None:
        """Nothing begins."""
        os.close(self._word)
        os.close(self._answer)
        os.waitpid(self._pid, 0)


def hold(files: RunFiles, secrets: Mapping[str, str]) -> HeldRun:
    """Make everything ready that the plan says, without starting it.
    No interpreter has to begin for it. OSError if that fails.
    """
    go_read, go_write = os.pipe()
    answer_read, answer_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = Exit.OUR_BUG
        try:
            os.close(go_write)
            os.close(answer_read)
            status = _held(files, secrets, go_read, answer_write)
        finally:
            os._exit(status)
    os.close(go_read)
    os.close(answer_write)
    held = HeldRun(pid, go_write, answer_read)
    line = _line(answer_read)
    if line != _READY:
        held.drop()
        raise OSError(*(light_json.loads(line) if line else (0, "its supervisor failed", files.path)))
    return held


def _held(files: RunFiles, secrets: Mapping[str, str], word: int, answer: int) -> int:
    try:
        os.setsid()
        umask = os.umask(0o077)
        null = os.open(os.devnull, os.O_RDWR)
        log = os.open(os.path.join(files.path, SUPERVISOR_LOG), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for target, source in ((0, null), (1, null), (2, log)):
            os.dup2(source, target)
        supervisor = _Supervisor(files, secrets, umask)
        supervisor.prepare()
    except OSError as error:
        _say(answer, light_json.dumps([error.errno, error.strerror, error.filename]))
        return Exit.REFUSED
    _say(answer, _READY)
    if os.read(word, 1) != _GO:
        return Exit.REFUSED  # the client was killed, or another host refused: nobody was told that the job began
    if not files.claim():
        _say(answer, ALREADY)
        return Exit.DONE
    with _EndWritten(files):
        supervisor.release()
        _say(answer, STARTED)
        os.close(answer)
        supervisor.run()
    return Exit.DONE


def _say(answer: int, word: str) -> None:
    try:
        os.write(answer, f"{word}\n".encode())
    except BrokenPipeError:
        pass  # the client was killed; it finds the run when it is repeated


def _line(source: int) -> str:
    """Of a pipe: what was said, or nothing from a process that has ended."""
    data = b""
    while not data.endswith(b"\n"):
        block = os.read(source, 4096)
        if not block:
            return ""
        data += block
    return data[:-1].decode()


class _EndWritten:
    """Around the work of a supervisor that has claimed its run: if it fails, that is written down as the run's end."""

    def __init__(self, files: RunFiles) -> None:
        self._files = files

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None:
            return
        from umiak.adapters import process
        from umiak.submit.node.state import RunEnd

        process.kill_descendants()
        what = f"its supervisor failed: {type(error).__name__}: {error}"
        self._files.write_end(RunEnd(exit_code=Exit.OUR_BUG, ended_s=time.time(), stopped=what, exit_codes={}))
        self._files.forget_token()


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
        self._gate = os.pipe()
        """Through which launchers that wait are let go."""
        self._signals = self._listen()

    def prepare(self) -> None:
        """Make a process of each launcher, which waits."""
        kernel_requests.become_subreaper()
        master = f"{LOOPBACK}:{_free_port()}" if len(self._plan.launchers) > 1 else ""
        self._files.reserve()
        self._files.prepare_launchers()
        own = identity.of(os.getpid())
        assert own is not None
        for index, launcher in enumerate(self._plan.launchers):
            environ = plans.environment(self._plan, index, inherited=os.environ, master=master)
            environ[identity.SUPERVISOR] = own.text
            self._running[launcher.name] = self._start_one(launcher, {**environ, **self._secrets})
        os.close(self._gate[0])

    def release(self) -> None:
        """Let all launchers begin."""
        os.write(self._gate[1], _GO * len(self._running))
        os.close(self._gate[1])

    def run(self) -> None:
        """Until every launcher has ended; write how."""
        self._files.write_end(self._end_of_all())
        self._files.forget_token()

    def _end_of_all(self) -> RunEnd:
        from umiak.adapters import process
        from umiak.submit.node.state import RunEnd

        began = time.monotonic()
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
        if self._plan.is_elastic and not stop and 0 in self._ended.values():
            first = 0  # one that ends well says that the job is done, with or without the others
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
        """In the new process: it belongs to no terminal,
        ends with the supervisor, and is known before it is the launcher.
        """
        os.close(self._gate[1])
        os.setsid()
        kernel_requests.ask_for_death_signal(signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(Exit.REFUSED)
        null = os.open(os.devnull, os.O_RDONLY)
        for target, source in ((0, null), (1, output), (2, output)):
            os.dup2(source, target)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, and launchers would inherit that
            signal.signal(number, signal.SIG_DFL)
        own = identity.of(os.getpid())
        if os.read(self._gate[0], 1) != _GO:
            os._exit(Exit.REFUSED)
        # If the supervisor is killed now, the next look finds this launcher.
        self._files.write_launcher(launcher.name, own)
        os.umask(self._umask)
        os.chdir(os.path.join(self._files.path, self._plan.directory))
        kernel_requests.become(launcher.argv, environ)

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
            if code and self._running and self._stop is None and not self._plan.is_elastic:
                self._stop = _Stop(why="", kill_at=time.monotonic() + PEERS_S)
        from umiak.adapters import process

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
            from umiak.adapters import process

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
