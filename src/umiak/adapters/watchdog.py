"""The launcher's two halves: a watchdog, and a working half that shows it signs of life. An adapter, Linux only.

    guarded = watchdog.guard(silence_s=2.5)
    if isinstance(guarded, int):
        return guarded                 # the watchdog: the working half has ended with this status
    guarded.beat()                     # the working half, several times within silence_s

The process that a person started becomes the watchdog. It forwards signals, passes the exit status on, and ends the
whole tree if the working half is killed, or if it shows no sign of life for ``silence_s``: it is frozen or hangs then,
and can't stop its workers if it must. Ctrl-Z stops the whole tree, and ``fg`` lets it go on.

A watchdog that stood still itself (SIGSTOP to both halves, a paused virtual machine) starts to count again when it
wakes up: the working half could not show a sign of life in that time either.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import time

from umiak.adapters import kernel_requests, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

TICKS = 5
"""How often within ``silence_s`` the watchdog looks."""
LATENESS_S = 0.05
"""A watchdog that wakes up later than this, and later than its next look, has stood still."""
STOPPING_ROUNDS = 200


class Unresponsive(Exception):
    """The working half showed no sign of life, so the whole tree was ended."""

    def __init__(self, silent_s: float) -> None:
        super().__init__(f"no sign of life for {silent_s:.1f} s")
        self.silent_s = silent_s


class Killed(Exception):
    """A signal ended the working half, and the rest of the tree was ended after it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"killed by signal {number}")
        self.number = number


class Pulse:
    """The working half's sign of life: a time, in memory that both halves see. Nothing that could block or fill up."""

    def __init__(self) -> None:
        self._times = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("d")
        self.least_allowed_s = 0.0
        """What every beat allows, at least: in a job of one node nobody else waits for this launcher."""

    def beat(self, allow_s: float = 0.0) -> None:
        """Show that this process runs. ``allow_s``: it may do one thing now that takes so long."""
        now = time.monotonic()
        self._times[1] = now
        self._times[0] = now + max(allow_s, self.least_allowed_s)

    @property
    def until(self) -> float:
        """Since when silence counts."""
        return self._times[0]

    @property
    def last(self) -> float:
        """When the last sign of life was."""
        return self._times[1]


def guard(silence_s: float, *, start_s: float = 0.0) -> Pulse | int:
    """Split the launcher in two. A pulse in the half that goes on to work;
    in the watchdog, at the end, the exit status.

    ``start_s``: what the working half may take before its first beat. Unresponsive if the watchdog had to end it,
    Killed if somebody else did.
    """
    kernel_requests.become_subreaper()
    # Held back until somebody waits for them, so that none is lost between a look and the wait that follows it.
    signal.pthread_sigmask(signal.SIG_BLOCK, (*process.FORWARDED, signal.SIGCHLD))
    pulse = Pulse()
    pulse.beat(start_s)
    watchdog = os.getpid()
    worker = os.fork()
    if worker == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGCHLD,))
        os.setsid()
        kernel_requests.become_subreaper()
        kernel_requests.ask_for_death_signal(int(process.WATCHDOG_GONE))
        if os.getppid() != watchdog:
            os._exit(137)
        return pulse
    status = _Watchdog(worker, pulse, silence_s).watch()
    process.kill_descendants()
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        raise Killed(-code)
    return code


def open_for_signals() -> None:
    """In the working half, once its handlers are in place: let the signals in that were held back."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, process.FORWARDED)


class _Watchdog:
    """Waits for signals, for the working half's end, and for its silence."""

    def __init__(self, worker: int, pulse: Pulse, silence_s: float) -> None:
        self._worker, self._pulse, self._silence_s = worker, pulse, silence_s
        self._tick_s = silence_s / TICKS
        self._turned_at = self._woke_at = time.monotonic()

    def watch(self) -> int:
        """Until the working half has ended; its wait status."""
        came = self._listen_for_signals()
        poll = select.poll()
        poll.register(came, select.POLLIN)
        while True:
            # Not sigtimedwait: in CPython, after a stop that outlasted the timeout,
            # it tells of a signal that never came.
            numbers = os.read(came, 64) if poll.poll(1000 * self._tick_s) else b""
            self._notice_own_nap()
            ended, status = os.waitpid(self._worker, os.WNOHANG)
            if ended:
                return status
            for number in numbers:
                if number == signal.SIGTSTP:
                    self._suspend()
                elif number != signal.SIGCHLD:
                    _send(self._worker, number)
            if time.monotonic() - max(self._pulse.until, self._woke_at) >= self._silence_s:
                silent_s = time.monotonic() - max(self._pulse.last, self._woke_at)
                self._end_the_tree()
                raise Unresponsive(silent_s)

    @staticmethod
    def _listen_for_signals() -> int:
        """From now on the numbers of signals can be read here, as bytes."""
        read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        awaited = (*process.heeded((*process.FORWARDED, signal.SIGTSTP)), signal.SIGCHLD)
        for number in awaited:
            signal.signal(number, _noted)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, awaited)
        return read_end

    def _notice_own_nap(self) -> None:
        now = time.monotonic()
        if now - self._turned_at > 2 * self._tick_s + LATENESS_S:
            self._woke_at = now
        self._turned_at = now

    def _end_the_tree(self) -> None:
        """Workers first: when the working half dies its links are closed, which tells others that no worker is left."""
        _send(self._worker, signal.SIGSTOP)
        process.kill_descendants(ancestor=self._worker)
        _send(self._worker, signal.SIGKILL)
        process.kill_descendants()

    def _suspend(self) -> None:
        """Ctrl-Z: stop everything and then this process; go on with everything when the shell continues it."""
        for _ in range(STOPPING_ROUNDS):  # what a process starts before it stops is found in the next round
            running = [pid for pid, state in process.descendants(os.getpid()) if state not in "TtZX"]
            if not running:
                break
            for pid in sorted(running, key=lambda pid: pid != self._worker):
                _send(pid, signal.SIGSTOP)
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        # It stops here, unless nobody could continue it: the kernel does not stop a process group without a shell.
        signal.raise_signal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, _noted)
        self._woke_at = self._turned_at = time.monotonic()
        # The working half first: if other nodes gave this one up meanwhile, it kills its workers before they go on.
        _send(self._worker, signal.SIGCONT)
        _wait(lambda: self._pulse.until > self._woke_at, within_s=self._silence_s)
        for pid, _ in process.descendants(os.getpid()):
            _send(pid, signal.SIGCONT)
        self._turned_at = time.monotonic()


def _noted(_number: int, _frame: object) -> None:
    """Python writes the signal's number to the wake-up descriptor; there is nothing to do here."""


def _wait(happened: Callable[[], bool], *, within_s: float) -> None:
    until = time.monotonic() + within_s
    while not happened() and time.monotonic() < until:
        time.sleep(0.005)


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass
