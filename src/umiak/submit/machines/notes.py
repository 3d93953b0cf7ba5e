"""What this machine remembers about rented ones: requests without an answer, host keys, the place. An adapter.

    ~/.local/state/umiak/machines/gpu.json           requests whose machines are not to be seen yet; host keys by machine
                                 /gpu.toml           the place, which `umiak submit --on gpu` finds
                                 /gpu.known_hosts    the host keys, as ssh reads them

A request is written down before it is sent, so that a client that was killed leaves its token,
and the next one repeats the request instead of making another. Nothing here is secret.
"""

from __future__ import annotations

import contextlib
import json
import os
import time

from umiak.adapters import private_files
from umiak.core.problem import UmiakError
from umiak.submit.configuration import machines_directory
from umiak.submit.machines.machine import Wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TextIO

    from umiak.submit.backend import SubmitContext


WAIT_S, POLL_S = 60.0, 0.05
"""For another command about the same machines."""


class Notes:
    """Of one group of machines."""

    def __init__(self, context: SubmitContext, group: str) -> None:
        self._group = group
        self._directory = machines_directory(context)
        self._file = os.path.join(self._directory, f"{group}.json")
        self._lock_file = os.path.join(self._directory, f"{group}.lock")
        self.place_file = os.path.join(self._directory, f"{group}.toml")
        self.known_hosts_file = os.path.join(self._directory, f"{group}.known_hosts")
        self.pending: tuple[Wanted, ...] = ()
        self.keys: dict[str, str] = {}
        """Host keys by the ids of machines."""
        self.lock_fd = -1
        """A process that has it open holds the lock."""

    @contextlib.contextmanager
    def held(self) -> Iterator[Notes]:
        """Read them; nobody else on this machine changes this group meanwhile."""
        private_files.make_directory(self._directory)
        fd = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, private_files.PRIVATE_FILE)
        with os.fdopen(fd, "w", encoding="utf-8") as lock:
            until = time.monotonic() + WAIT_S
            while not _locked(lock):
                if time.monotonic() > until:
                    what = f"another `umiak machines` is at work: {self._group}"
                    hint = "wait for it; `umiak machines list` shows what there is"
                    raise UmiakError.refused("UM-MACHINES-003", what, hint=hint)
                time.sleep(POLL_S)
            self.lock_fd = lock.fileno()
            self._read()
            yield self

    def _read(self) -> None:
        try:
            with open(self._file, encoding="utf-8") as file:
                data = json.load(file)
            self.pending = tuple(Wanted(**each) for each in data["pending"])
            self.keys = {str(name): str(text) for name, text in data["keys"].items()}
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            hint = f"look whether machines run: umiak machines list; then remove the file: rm {self._file}"
            raise UmiakError.refused(
                "UM-MACHINES-004", f"can't be read: {self._file}", why=str(error), hint=hint
            ) from None

    def expect(self, pending: Sequence[Wanted]) -> None:
        """These requests are, or may have been, sent."""
        self.pending = tuple(pending)
        self.write()

    def write(self) -> None:
        pending = [{"token": each.token, "count": each.count, "sent_s": each.sent_s} for each in self.pending]
        private_files.write(self._file, json.dumps({"pending": pending, "keys": self.keys}))

    def write_place(self, place: str, known_hosts: str) -> None:
        private_files.write(self.known_hosts_file, known_hosts)
        private_files.write(self.place_file, place)

    def forget(self) -> None:
        """There is nothing left."""
        for path in (self.place_file, self.known_hosts_file, self._file):
            private_files.remove(path)


def _locked(lock: TextIO) -> bool:
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
