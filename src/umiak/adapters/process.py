"""Processes: starting them so that they can't outlive us, and ending whole trees of them. An adapter, Linux only.

No orphan ever. Three things together see to that:

- every worker asks the kernel for SIGKILL when its launcher dies (parent-death signal);
- the launcher is a *sub-reaper*: whatever its workers leave behind becomes its child, so it can find and kill it, also
  what went into a session of its own or was forked twice;
- the launcher is two processes, a watchdog and a working half (`watchdog`). Whichever of the two is killed, the other
  one ends the tree.
"""

from __future__ import annotations

import errno
import os
import signal
import time

from umiak.adapters.kernel_requests import ask_for_death_signal, become
from umiak.core.runtime.repeated_signal import is_same
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

MOST_OPEN_FILES = 1 << 20
"""Where the system sets no limit."""

WATCHDOG_GONE = signal.SIGRTMIN + 8
"""What the working half of the launcher receives when the watchdog was killed."""

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


@value
class Child:
    """A started process: its output arrives on ``output``, its end on ``pidfd``."""

    pid: int
    pidfd: int
    output: int


class NotStarted(Exception):
    """A program could not be executed. ``exit_code`` follows the shell: 127 not found, 126 not executable."""

    def __init__(self, program: str, error_number: int) -> None:
        super().__init__(f"{program}: {os.strerror(error_number)}")
        self.exit_code = 127 if error_number == errno.ENOENT else 126


_given_back: list[int] = []  # how many files a started process may open, if this one may open more


def raise_open_files() -> int:
    """Let this process open as many files as it is ever allowed to; how many that are.

    What it starts may open as many as this process might before:
    some programs go through all numbers, and some can't use large ones.
    """
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_OPEN_FILES if hard == resource.RLIM_INFINITY else hard
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):
        return soft
    _given_back[:] = [soft]
    return most


def spawn(argv: Sequence[str], environ: Mapping[str, str], *, read_stdin: bool = False) -> Child:
    """Start a program in a session of its own; it is killed if this process dies.
    NotStarted if it can't be executed.
    """
    output_read, output_write = os.pipe2(os.O_CLOEXEC)
    try:
        pid = _fork_and_exec(argv, environ, output_write, read_stdin=read_stdin)
    except BaseException:
        os.close(output_read)
        raise
    finally:
        os.close(output_write)
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:  # too few descriptors
        os.close(output_read)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    os.set_blocking(output_read, False)
    return Child(pid=pid, pidfd=pidfd, output=output_read)


def spawn_helper(argv: Sequence[str], output: int) -> int:
    """Start a program that nobody waits for, writing to a file; it ends with the other descendants. Its process id."""
    return _fork_and_exec(argv, os.environ, output, read_stdin=False)


def _fork_and_exec(argv: Sequence[str], environ: Mapping[str, str], output: int, *, read_stdin: bool) -> int:
    error_read, error_write = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _exec_child(argv, environ, parent, output, read_stdin=read_stdin)
        except OSError as error:
            os.write(error_write, str(error.errno or 0).encode())
        finally:
            os._exit(127)
    os.close(error_write)
    failed = os.read(error_read, 16)
    os.close(error_read)
    if failed:
        os.waitpid(pid, 0)
        raise NotStarted(argv[0], int(failed))
    return pid


def _exec_child(argv: Sequence[str], environ: Mapping[str, str], parent: int, output: int, *, read_stdin: bool) -> None:
    signal.set_wakeup_fd(-1)
    for number in (*FORWARDED, WATCHDOG_GONE, signal.SIGPIPE):
        if callable(signal.getsignal(number)) or number == signal.SIGPIPE:
            signal.signal(number, signal.SIG_DFL)  # what was ignored before us (nohup) stays ignored
    os.setsid()
    ask_for_death_signal(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(127)  # the launcher died before the kernel was told to tell us
    if not read_stdin:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if _given_back:
        import resource

        # Last of all: this process may have more open than it is allowed to from now on.
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (_given_back[0], hard))
    become(argv, environ)


def reap(child: Child) -> int:
    """The wait status of a child whose pidfd is readable: exit code, or minus the signal."""
    _, status = os.waitpid(child.pid, 0)
    os.close(child.pidfd)
    return os.waitstatus_to_exitcode(status)


def signal_group(child: Child, number: int) -> None:
    """Send a signal to a child's whole process group."""
    try:
        os.killpg(child.pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def kill_descendants(
    *, spare: Sequence[int] = (), ancestor: int | None = None, meanwhile: Callable[[], None] = lambda: None
) -> int:
    """SIGKILL to every descendant of this process (or another one), until none is left alive. How many there were.

    Children of ours are left unreaped for the code that waits for them (``spare``), adopted orphans are reaped here.
    A large process takes seconds to end; ``meanwhile`` is called again and again until then.
    """
    killed: set[int] = set()
    untouchable: set[int] = set()
    while True:
        alive = [
            pid for pid, state in descendants(ancestor or os.getpid()) if state not in "ZX" and pid not in untouchable
        ]
        if not alive:
            break
        for pid in alive:
            killed.add(pid)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            except PermissionError:
                untouchable.add(pid)  # it runs as somebody else (sudo): not ours to end
        reap_adopted(spare)
        meanwhile()
        os.sched_yield()
    reap_adopted(spare)
    return len(killed)


def reap_orphans(spare: Sequence[int]) -> None:
    """As `reap_adopted`, without looking at every process: what is not seen behind one of ``spare`` comes next time."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid in spare:
            return
        os.waitpid(ended.si_pid, os.WNOHANG)


def reap_adopted(spare: Sequence[int]) -> None:
    """Collect orphans that became our children and have ended, but none of ``spare``."""
    for pid, state in _children(os.getpid()):
        if state == "Z" and pid not in spare:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass


def descendants(ancestor: int) -> list[tuple[int, str]]:
    """Every process below this one, with its state letter."""
    parents: dict[int, list[tuple[int, str]]] = {}
    for pid, parent, state in _processes():
        parents.setdefault(parent, []).append((pid, state))
    descendants: list[tuple[int, str]] = []
    todo = [ancestor]
    while todo:
        children = parents.get(todo.pop(), [])
        descendants.extend(children)
        todo.extend(pid for pid, _ in children)
    return descendants


def _children(parent: int) -> list[tuple[int, str]]:
    return [(pid, state) for pid, its_parent, state in _processes() if its_parent == parent]


def _processes() -> list[tuple[int, int, str]]:
    """(pid, parent, state) of every process that can be seen."""
    processes = []
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                text = file.read()
        except OSError:
            continue  # it ended while we looked
        # The command's name stands in brackets and may hold anything, so count from its last bracket.
        state, parent = text[text.rindex(b")") + 2 :].split(b" ", 2)[:2]
        processes.append((int(name), int(parent), state.decode()))
    return processes


def out_of_memory_kills() -> int:
    """How many processes the kernel has killed for want of memory, since it booted."""
    try:
        with open("/proc/vmstat", "rb") as file:
            for line in file:
                if line.startswith(b"oom_kill "):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler of its own for this signal, so that it may be sent without ending it."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    except OSError:
        pass
    return False


def heeded(numbers: Sequence[signal.Signals]) -> list[signal.Signals]:
    """Those signals that this process was not told to ignore, as nohup and background shells do."""
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]


class OneInterrupt:
    """While it is entered, Ctrl-C is one KeyboardInterrupt also if the signal comes twice at once.
    A program that has a handler of its own, and a thread that gets no signals, keep what they have.
    """

    def __init__(self) -> None:
        self._first_at = float("-inf")
        self._is_used = False

    def __enter__(self) -> None:
        import threading

        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._is_used = True
            signal.signal(signal.SIGINT, self._on_signal)

    def __exit__(self, *_: object) -> None:
        if self._is_used:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if not is_same(number, now, number, self._first_at):
            self._first_at = now
            signal.default_int_handler(number, frame)
