"""Which process a number means: one that began at the same time in the same boot, not a later one with its number.
An adapter.

own = identity.of(os.getpid())
identity.is_alive(own)      False once it has ended, also if another process has its number now

A process that has ended and was not waited for (a zombie) is not alive.
"""

from __future__ import annotations

import os

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SUPERVISOR = "UMIAK_SUPERVISOR"
"""Which process ends a launcher's workers after the grace that a person asked for;
if it is gone, the launcher does so itself.
"""


@value
class ProcessIdentity:
    """A process of one boot of one machine."""

    pid: int
    start_ticks: int
    """When it began, in clock ticks since the boot."""
    boot: str

    def to_plain(self) -> dict[str, object]:
        return {"pid": self.pid, "start_ticks": self.start_ticks, "boot": self.boot}

    @classmethod
    def from_plain(cls, data: Mapping[str, object]) -> ProcessIdentity:
        """ValueError or KeyError if this was not written by `to_plain`."""
        return cls(pid=int(str(data["pid"])), start_ticks=int(str(data["start_ticks"])), boot=str(data["boot"]))

    @property
    def text(self) -> str:
        """For an environment variable; `from_words` reads it back."""
        return f"{self.pid} {self.start_ticks} {self.boot}"

    @classmethod
    def from_words(cls, text: str) -> ProcessIdentity | None:
        """None if this is not such a text."""
        words = text.split()
        if len(words) != 3 or not (words[0].isdecimal() and words[1].isdecimal()):
            return None
        return cls(pid=int(words[0]), start_ticks=int(words[1]), boot=words[2])


def of(pid: int) -> ProcessIdentity | None:
    """The identity of a process; None if it has ended."""
    state = _state_and_start(pid)
    return None if state is None else ProcessIdentity(pid=pid, start_ticks=state[1], boot=boot())


def is_alive(identity: ProcessIdentity) -> bool:
    """Whether this very process runs, on this machine and in this boot."""
    if identity.boot != boot():
        return False
    state = _state_and_start(identity.pid)
    return state is not None and state[1] == identity.start_ticks and state[0] not in "ZX"


def send(identity: ProcessIdentity, number: int) -> bool:
    """A signal to this very process, never to another one with its number; whether it was there."""
    try:
        pidfd = os.pidfd_open(identity.pid)
    except OSError:
        return False
    try:
        if not is_alive(identity):  # asked after the descriptor was opened: it can't become another process's any more
            return False
        import signal

        signal.pidfd_send_signal(pidfd, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(pidfd)
    return True


def boot() -> str:
    """The name that the kernel gave this boot."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _state_and_start(pid: int) -> tuple[str, int] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The command's name stands in brackets and may hold anything, so count from its last bracket.
    rest = text[text.rindex(b")") + 2 :].split()
    return rest[0].decode(), int(rest[19])
