"""The workers of one node: starting, watching, signalling and ending them. An adapter; it reports, `machine` decides.

Nothing is polled: a worker's end arrives on its pidfd, its output on a pipe, a hang on a timer.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
import time

from umiak import contracts
from umiak.adapters import hostinfo, own_modules, process
from umiak.contracts import injected, stacks
from umiak.contracts.paddle import BACKUP_PATH
from umiak.contracts.start import with_start
from umiak.contracts.torch import ERROR_FILE
from umiak.core.cluster import Role
from umiak.core.value import from_fields, replace, value
from umiak.launch.options import ProgramStart, Tee
from umiak.launch.protocol import Failure, FailureKind
from umiak.launch.reports import failure_excerpt, logs
from umiak.launch.reports.logfiles import PRIVATE, Access, open_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from umiak.adapters.loop import Loop, Timer
    from umiak.contracts import WorkerSetting
    from umiak.core.cluster import Cluster, Seat

INJECTED = os.path.join(os.path.dirname(__file__), "inject")
LOG_NAMES = {Role.SERVER: "serverlog", Role.TRAINER: "workerlog", Role.HETER: "heterlog"}
STACK_SIGNAL = signal.SIGRTMIN + 7
LISTEN_CHECK_S, LISTEN_PATIENCE_S = 0.02, 0.5
MOST_LAST_READS = 64
GPU_LOG_COMMAND = (
    "nvidia-smi",
    "--query-gpu=index,utilization.gpu,memory.total,memory.used,memory.free,timestamp",
    "--format=csv,nounits",
    "--loop=5",
)
_READ_BYTES = 64 * 1024
_MOST_ERROR_FILE_BYTES = 256 * 1024


@value
class Program:
    """What every worker of this node runs, and how its output is kept."""

    command: tuple[str, ...]
    environ: dict[str, str]
    setting: WorkerSetting
    log_dir: str
    log_max_bytes: int
    log_overwrite: bool
    tee: Tee
    log_access: Access = PRIVATE
    run: str = "run"
    """The launcher's own name: the end of the name of a log file whose usual name is taken."""
    tee_except: tuple[int, ...] = ()
    """Local ranks of trainers for which the opposite of ``tee`` holds."""
    hang_timeout_s: float | None = None
    gpu_log: bool = False
    token: str | None = None
    """What parameter servers and trainers know one another by.
    It reaches them in their environment and nothing else.
    """
    fleet_from: tuple[str, ...] | None = None
    """Where workers find this launcher's umiak, for ``paddle.fluid`` and calls of ``paddle.distributed.fleet``;
    ``None``: both are Paddle's.
    """


class _Worker:
    """One running worker."""

    def __init__(self, seat: Seat, generation: int, child: process.Child, log: logs.WorkerLog, error_file: str) -> None:
        self.seat = seat
        self.error_file = error_file
        """Where a script with torch's ``@record`` writes the exception that ends it;
        empty for a worker that has none.
        """
        self.generation = generation
        self.child = child
        self.log = log
        self.asked_to_end = False
        self.exited = False
        self.output_closed = False
        self.memory_kills = process.out_of_memory_kills()
        self.hang_timer: Timer | None = None


class Supervisor:
    """Keeps this node's workers. The callbacks are the launcher's events."""

    def __init__(self, loop: Loop, program: Program, console: logs.Console) -> None:
        self._loop = loop
        self._program = program
        self._console = console
        self._workers: dict[str, _Worker] = {}
        self._logs: dict[str, logs.WorkerLog] = {}
        self._gpu_logger = 0
        self.wall_offset_s = 0.0
        """What to add to this machine's clock to get the master's, so that failures of all nodes can be put in order."""
        self.on_exit: Callable[[str, int, Failure | None], None] = lambda _key, _generation, _failure: None
        self.on_listening: Callable[[str, int], None] = lambda _key, _generation: None
        self.on_hung: Callable[[str, int, Failure], None] = lambda _key, _generation, _failure: None
        self.on_trouble: Callable[[str], None] = lambda _text: None
        self.on_progress: Callable[[], None] = lambda: None
        """Called in the middle of what takes long: starting many workers, ending large ones."""

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(worker.child.pid for worker in self._workers.values())

    def start(self, cluster: Cluster, seat: Seat, restarts: int) -> None:
        """Start one worker in its seat."""
        self.on_progress()
        setting = replace(self._program.setting, restart_count=restarts)
        contract = contracts.environment(cluster, seat, setting)
        whole = contracts.backup(cluster, seat, setting)
        if not self._write_contract(contract, whole, seat):
            # A full disk, say: the worker gets everything in its environment,
            # and is not sent to a file that is not whole.
            contract = {name: text for name, text in whole.items() if name != BACKUP_PATH}
        inherited = _with_fleet(contracts.inherit(self._program.environ, contract), self._program)
        environ = with_start(inherited, interface=hostinfo.interface_with(seat.host), token=self._program.token)
        error_file = contract.get(ERROR_FILE, "")
        if error_file:
            self._write(error_file, "")  # torch would make one that others can read
        log = self._log_of(seat)
        if self._program.hang_timeout_s is not None:
            environ.update(self._watch_for_hangs(seat, environ))
        try:
            child = process.spawn(self._program.command, environ, read_stdin=seat.local_rank == 0)
        except (process.NotStarted, OSError) as error:
            failure = self._failure(seat, FailureKind.NOT_STARTED, log, what=str(error))
            failure = replace(failure, exit_code=getattr(error, "exit_code", 126))
            self._loop.soon(lambda: self.on_exit(seat.key, cluster.generation, failure))
            return
        self.on_progress()
        worker = self._workers[seat.key] = _Worker(seat, cluster.generation, child, log, error_file)
        self._log_gpus(cluster.job_id)
        self._loop.on_readable(child.output, lambda: _ignore(self._read(worker)))
        self._loop.on_readable(child.pidfd, lambda: self._ended(worker))
        if self._program.hang_timeout_s is not None:
            self._arm_hang_timer(worker, self._program.hang_timeout_s)

    def await_listening(self, key: str, within_s: float) -> None:
        """Report as soon as this server accepts connections, or that it does not in this time.

        Its own port is asked, softly, some times a second.
        """
        worker = self._workers.get(key)
        if worker:
            self._ask_port(worker, within_s, self._loop.now() + within_s)

    def _ask_port(self, worker: _Worker, within_s: float, until: float) -> None:
        if worker.exited:
            return
        seat = worker.seat

        def answered(accepts: bool) -> None:
            if worker.exited:
                return
            if accepts:
                self.on_listening(seat.key, worker.generation)
            elif self._loop.now() >= until:
                what = f"it did not accept connections at {seat.endpoint} within {within_s:g} s (--join_timeout)"
                failure = self._failure(seat, FailureKind.NOT_STARTED, worker.log, what)
                self.on_hung(seat.key, worker.generation, failure)
            else:
                self._loop.after(LISTEN_CHECK_S, lambda: self._ask_port(worker, within_s, until))

        _try_to_connect(self._loop, seat.host, seat.port, answered)

    def signal_all(self, number: int) -> None:
        for worker in self._workers.values():
            worker.asked_to_end = True
            process.signal_group(worker.child, number)

    def pass_on(self, number: int) -> None:
        """Hand a signal to those workers that have a handler for it; to any other it would be deadly."""
        for worker in self._workers.values():
            if process.catches(worker.child.pid, number):
                os.kill(worker.child.pid, number)

    def kill_all(self) -> None:
        """Every process that the workers ever started; the workers' own ends are then reported as usual."""
        for worker in self._workers.values():
            worker.asked_to_end = True
        process.kill_descendants(spare=self.pids, meanwhile=self.on_progress)

    def reap_orphans(self) -> None:
        """Let what the workers left behind, and what has ended, not stay as zombies for as long as the job runs."""
        process.reap_orphans(spare=self.pids)

    def dump_stacks(self) -> None:
        """Python workers write the stacks of all their threads to stacks.<key> in the log directory."""
        for key, worker in self._workers.items():
            if process.catches(worker.child.pid, STACK_SIGNAL):
                try:
                    os.kill(worker.child.pid, STACK_SIGNAL)
                except ProcessLookupError:
                    pass
            else:
                self.on_trouble(f"{key} does not write stacks: it is not Python, or has not started yet")

    def close(self) -> None:
        for log in self._logs.values():
            log.close()
        self._logs.clear()

    # ---- output and ends

    def _read(self, worker: _Worker) -> bool:
        """Take one piece of output; False when there is none left for now."""
        try:
            data = os.read(worker.child.output, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._close_output(worker)
            return False
        trouble = worker.log.feed(data)
        if trouble:
            self.on_trouble(trouble)
        return True

    def _close_output(self, worker: _Worker) -> None:
        self._loop.forget(worker.child.output)
        os.close(worker.child.output)
        worker.output_closed = True

    def _ended(self, worker: _Worker) -> None:
        self._loop.forget(worker.child.pidfd)
        worker.exited = True
        code = process.reap(worker.child)
        if worker.hang_timer:
            worker.hang_timer.cancel()
        # What it wrote last is still in the pipe. If a grandchild holds the pipe open it may go on writing; whatever
        # it says is logged until it ends, with the generation at the latest.
        for _ in range(MOST_LAST_READS):
            if worker.output_closed or not self._read(worker):
                break
        self._workers.pop(worker.seat.key, None)
        process.reap_adopted(self.pids)
        failure = self._verdict(worker, code)
        _remove_if_empty(worker.error_file)
        self.on_exit(worker.seat.key, worker.generation, failure)

    def _verdict(self, worker: _Worker, code: int) -> Failure | None:
        """What this end means: None if the worker ended well, or only because it was told to."""
        if worker.asked_to_end or code == 0:
            return None
        kind = FailureKind.KILLED if code < 0 else FailureKind.EXITED
        failure = self._failure(worker.seat, kind, worker.log)
        message, traceback = failure_excerpt.recorded_error(_text_of(worker.error_file))
        starved = code == -signal.SIGKILL and process.out_of_memory_kills() > worker.memory_kills
        return replace(
            failure,
            exit_code=code if code > 0 else None,
            signal=-code if code < 0 else None,
            out_of_memory=starved,
            what=message,
            traceback=traceback or failure.traceback,
            port_taken=code != 0 and failure_excerpt.port_was_taken(failure.log_end + failure.traceback + traceback),
        )

    def _failure(self, seat: Seat, kind: FailureKind, log: logs.WorkerLog, what: str = "") -> Failure:
        return from_fields(
            Failure,
            seat,
            kind=kind,
            at=time.time() + self.wall_offset_s,
            key=seat.key,
            what=what,
            log_path=log.path,
            log_end=failure_excerpt.end_of(log.tail),
            traceback=failure_excerpt.traceback_in(log.tail),
        )

    # ---- hangs

    def _watch_for_hangs(self, seat: Seat, environ: Mapping[str, str]) -> dict[str, str]:
        progress = self._progress_file(seat)
        try:
            os.close(self._open(progress))
            os.utime(progress)
        except OSError as error:
            self.on_trouble(f"{progress} can't be written ({error.strerror}): only output counts as progress")
        return stacks.stack_environment(
            environ,
            directory=INJECTED,
            signal_number=int(STACK_SIGNAL),
            stack_file=os.path.join(self._program.log_dir, f"stacks.{seat.key}"),
            progress_file=progress,
        )

    def _arm_hang_timer(self, worker: _Worker, after_s: float) -> None:
        worker.hang_timer = self._loop.after(after_s, lambda: self._check_hang(worker))

    def _check_hang(self, worker: _Worker) -> None:
        limit_s = self._program.hang_timeout_s
        assert limit_s is not None
        idle_s = self._idle_s(worker)
        if idle_s < limit_s:
            self._arm_hang_timer(worker, limit_s - idle_s)
            return
        what = f"no output and no umiak.progress() for {limit_s:g} s"
        self.on_hung(worker.seat.key, worker.generation, self._failure(worker.seat, FailureKind.HUNG, worker.log, what))

    def _idle_s(self, worker: _Worker) -> float:
        quiet_s = time.monotonic() - worker.log.last_output
        try:
            idle_s = min(quiet_s, time.time() - os.stat(self._progress_file(worker.seat)).st_mtime)
        except OSError:
            idle_s = quiet_s
        # After Ctrl-Z and `fg`, a worker that was stopped with its launcher did not hang.
        return idle_s - self._loop.stood_still_s(idle_s)

    # ---- files

    def _log_gpus(self, job_id: str) -> None:
        """<job>.gpu.log: use and memory of every GPU, every five seconds, as long as workers run."""
        if not self._program.gpu_log or self._gpu_logger in {pid for pid, _ in process.descendants(os.getpid())}:
            return
        path = os.path.join(self._program.log_dir, f"{job_id}.gpu.log")
        try:
            log = self._open(path)
        except OSError as error:
            self._program = replace(self._program, gpu_log=False)
            self.on_trouble(f"{path} can't be written: {error.strerror}")
            return
        try:
            self._gpu_logger = process.spawn_helper(GPU_LOG_COMMAND, log)
        except (process.NotStarted, OSError):
            self._program = replace(self._program, gpu_log=False)
        os.close(log)

    def _open(self, path: str, *, overwrite: bool = False) -> int:
        return open_log(path, overwrite=overwrite, access=self._program.log_access)

    def _progress_file(self, seat: Seat) -> str:
        return os.path.join(self._program.log_dir, f"progress.{seat.key}")

    def _log_of(self, seat: Seat) -> logs.WorkerLog:
        """This seat's log, with the tag of the rank that it has in this generation."""
        if seat.key not in self._logs:
            shown = self._program.tee is Tee.ALL or (self._program.tee is Tee.FIRST and _is_first(seat))
            if seat.role is Role.TRAINER and seat.local_rank in self._program.tee_except:
                shown = not shown
            path = os.path.join(self._program.log_dir, f"{LOG_NAMES[seat.role]}.{seat.local_rank}")
            log = self._logs[seat.key] = logs.WorkerLog(
                path,
                spare_path=f"{path}.{self._program.run}",
                access=self._program.log_access,
                most_bytes=self._program.log_max_bytes,
                overwrite=self._program.log_overwrite,
                console=self._console if shown else None,
            )
            if log.trouble:
                self.on_trouble(log.trouble)
        log = self._logs[seat.key]
        log.begin(f"{seat.role.value} {seat.rank}", seat.rank)
        return log

    def _write_contract(self, contract: Mapping[str, str], backup: Mapping[str, str], seat: Seat) -> bool:
        """envlog.<worker>: what this worker was told, without secrets; and the file that Paddle reads long lists from.

        Whether that file, if there must be one, is whole.
        """
        import json

        text = "".join(f"{name}={text}\n" for name, text in sorted(contracts.redacted(contract).items()))
        self._write(os.path.join(self._program.log_dir, f"envlog.{seat.key}"), text)
        return BACKUP_PATH not in contract or self._write(contract[BACKUP_PATH], json.dumps(backup))

    def _write(self, path: str, text: str) -> bool:
        """Whether all of it is there. What is wrong with the log directory is reported by the worker's log."""
        data = text.encode()
        try:
            fd = self._open(path, overwrite=True)
        except OSError:
            return False
        try:
            return os.write(fd, data) == len(data)
        except OSError:
            return False
        finally:
            os.close(fd)


def command_for(
    program: tuple[str, ...], *, is_module: bool, runner: ProgramStart = ProgramStart.BY_NAME
) -> tuple[str, ...]:
    """The words to execute: Python for scripts and modules, anything else as it is."""
    if is_module and own_modules.is_own(program[0]):
        return (sys.executable, "-u", *own_modules.start_words(program[0]), *program[1:])
    if is_module:
        return (sys.executable, "-u", "-m", *program)
    if runner is ProgramStart.PYTHON or (runner is ProgramStart.BY_NAME and program[0].endswith(".py")):
        return (sys.executable, "-u", *program)
    if runner is ProgramStart.BY_NAME and program[0].endswith(".pyxes"):
        return (sys.executable, *program)
    if "/" not in program[0] and os.path.isfile(program[0]) and os.access(program[0], os.X_OK):
        return (f"./{program[0]}", *program[1:])
    return program


def _with_fleet(environ: dict[str, str], program: Program) -> dict[str, str]:
    if program.fleet_from is None:
        return environ
    has_servers = program.setting.mode.has_servers
    return environ | injected.fleet_environment(
        environ, directory=INJECTED, umiak_in=program.fleet_from, has_servers=has_servers
    )


def _ignore(_answer: bool) -> None:
    """For callbacks that only do."""


def _is_first(seat: Seat) -> bool:
    """The worker whose output is shown by default: this node's first trainer."""
    return seat.role is Role.TRAINER and seat.local_rank == 0


def _try_to_connect(loop: Loop, host: str, port: int, answered: Callable[[bool], None]) -> None:
    """Say whether something listens there. The address is this machine's own, so the answer comes soon."""
    try:
        family, address = hostinfo.look_up(host, port)
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    except OSError:
        loop.after(LISTEN_PATIENCE_S, lambda: answered(False))
        return

    def finish() -> None:
        timer.cancel()
        loop.forget(sock.fileno())
        try:
            # A port of the range for outgoing connections may have been connected to itself.
            accepts = sock.getsockname() != sock.getpeername()
        except OSError:
            accepts = False
        sock.close()
        answered(accepts)

    timer = loop.after(LISTEN_PATIENCE_S, finish)
    if sock.connect_ex(address) == errno.EINPROGRESS:
        loop.on_writable(sock.fileno(), finish)
    else:
        finish()


def _text_of(path: str) -> str:
    """The beginning of a file that a worker wrote; empty if there is none.
    Whatever the worker made of it, nothing waits.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        return os.read(fd, _MOST_ERROR_FILE_BYTES).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(fd)


def _remove_if_empty(path: str) -> None:
    try:
        if path and os.path.getsize(path) == 0:
            os.unlink(path)
    except OSError:
        pass
