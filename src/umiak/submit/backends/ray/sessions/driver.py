"""The driver of a session: a Ray job beside a run, for one `umiak exec` or one node of `umiak fetch`. A program.

    python umiak-launcher.pyz -m umiak.submit.backends.ray.sessions.driver ORDER

It starts an actor on the node that is meant, which takes nothing of the cluster's resources, gives it the client's
messages and writes its answers into files beside its own log. It ends with the session, or when its client says so, or
has said nothing for a while.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time

from umiak.submit.backends.ray import node as node_module
from umiak.submit.backends.ray import plan
from umiak.submit.backends.ray.run_driver import say
from umiak.submit.backends.ray.sessions import messages as words
from umiak.submit.backends.ray.sessions import program
from umiak.submit.backends.ray.status_file import log_directory
from umiak.submit.node import session_frames as frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from umiak.submit.backends.ray.sessions.messages import SessionOrder

LOOK_S = 0.05
SEGMENT_BYTES = 8 << 20
"""Of answers in one file."""
MOST_SEGMENTS = 4
"""That the client has not read: then the session waits, so that the head's disk does not fill."""
NO_RAY = 3
REFUSED = 3


class Segments:
    """Answers, in files that the client reads one after the other. An adapter."""

    def __init__(self, directory: str, session: str) -> None:
        self._directory, self._session = directory, session
        self._first = self._last = 0
        self._file = self._opened(0)

    def _opened(self, number: int) -> Any:
        path = self._path(number)
        return open(path, "xb", buffering=0, opener=lambda name, flags: os.open(name, flags, 0o600))

    def _path(self, number: int) -> str:
        return os.path.join(self._directory, words.segment_file(self._session, number))

    @property
    def has_room(self) -> bool:
        return self._last - self._first < MOST_SEGMENTS

    def put(self, kind: bytes, payload: bytes = b"") -> None:
        self._write(frames.frame(kind, payload))
        if self._file.tell() >= SEGMENT_BYTES:
            following = self._opened(self._last + 1)  # it is there before anybody hears of it
            self._write(frames.frame(words.NEXT))
            self._file.close()
            self._file, self._last = following, self._last + 1

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]

    def taken(self, number: int) -> None:
        """The client has read everything up to this one."""
        while self._first <= min(number, self._last - 1):
            self._remove(self._first)
            self._first += 1

    def close(self) -> None:
        self._file.close()
        for number in range(self._first, self._last + 1):
            self._remove(number)

    def _remove(self, number: int) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._path(number))


class Packages:
    """What clients have left in the cluster under a name. An adapter; not a part of Ray that is promised."""

    def take(self, name: str) -> bytes | None:
        """It is not there any more then; None: it is not there."""
        from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get

        key = f"gcs://{name}".encode()
        data: bytes | None = _internal_kv_get(key)
        if data is not None:
            _internal_kv_del(key)
        return data

    def remove(self, prefix: str) -> None:
        from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_list

        for key in _internal_kv_list(f"gcs://{prefix}".encode()):
            _internal_kv_del(key)


class SessionDriver:
    """One session."""

    def __init__(self, ray: Any, order: SessionOrder, segments: Segments, packages: Packages) -> None:
        self._ray = ray
        self._order = order
        self._segments = segments
        self._packages = packages
        self._heard_at = time.monotonic()
        self._number = 0
        """Of the next message."""
        self._has_left = False
        self._unsent = bytearray()

    def signalled(self, *_: object) -> None:
        self._has_left = True

    def main(self) -> int:
        actor = self.actor()
        order = self._order
        asked = {"run_id": order.run_id, "name": order.name, "directory": order.directory, "launcher": plan.LAUNCHER}
        started = actor.start.remote(asked)
        why, code = "", 0
        try:
            while not self._is_over() and not self._ray.wait([started], timeout=LOOK_S)[0]:
                self._hear()
            why = "" if self._is_over() else self._ray.get(started)
            if not why:
                self._follow(actor)
        except self._ray.exceptions.RayError as error:
            why = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        if why:
            self._segments.put(words.PROBLEM, json.dumps(why).encode())
            code = REFUSED
        while not self._is_over():  # until the client has read it
            time.sleep(LOOK_S)
            self._hear()
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.wait([actor.close.remote()], timeout=program.END_S + 5)
        return code

    def actor(self) -> Any:
        """On the node that is meant."""
        from ray import cloudpickle
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        for module in (node_module, program):
            cloudpickle.register_pickle_by_value(module)
        strategy = NodeAffinitySchedulingStrategy(self._order.ray_node, soft=False)
        kind = self._ray.remote(program.SessionNode)
        return kind.options(num_cpus=0, max_concurrency=4, scheduling_strategy=strategy).remote()

    def _follow(self, actor: Any) -> None:
        """Until the session has ended, or its client has gone."""
        reading = writing = None
        while not self._is_over():
            if reading is None and self._segments.has_room:
                reading = actor.read.remote()
            if writing is None and self._unsent:
                writing = actor.write.remote(bytes(self._unsent))
                self._unsent.clear()
            waiting = [each for each in (reading, writing) if each is not None]
            ready: Sequence[Any] = ()
            if waiting:
                ready, _ = self._ray.wait(waiting, timeout=LOOK_S)
            else:
                time.sleep(LOOK_S)
            if reading in ready:
                data, is_over, said = self._ray.get(reading)
                reading = None
                if data:
                    self._segments.put(words.DATA, data)
                if is_over:
                    self._segments.put(words.END, json.dumps(said).encode())
                    return
            if writing in ready:
                self._ray.get(writing)
                writing = None
            self._hear()

    def _is_over(self) -> bool:
        return self._has_left or time.monotonic() - self._heard_at > words.LEASE_S

    # ---- the client's messages

    def _hear(self) -> None:
        """All messages that are there, in their order."""
        while True:
            data = self._packages.take(words.message_name(self._order.session, self._number))
            if data is None:
                return
            self._number += 1
            self._heard_at = time.monotonic()
            for kind, payload in frames.FrameParser().feed(data):
                if kind == words.DATA:
                    self._unsent += payload
                elif kind == words.TAKEN:
                    self._segments.taken(int(payload))
                elif kind == words.LEAVE:
                    self._has_left = True

    def clean(self) -> None:
        """Remove what is left in the cluster."""
        self._segments.close()
        self._packages.remove(words.message_prefix(self._order.session))


def main(argv: Sequence[str]) -> int:
    """The command."""
    try:
        import ray
    except ImportError:
        say(f"error: {sys.executable} has no ray [UM-SUBMIT-320]")
        return NO_RAY
    order = words.from_text(argv[0])
    directory = log_directory()
    if not directory:
        say("error: the output of this driver is no file of Ray's: there is no way to answer")
        return REFUSED
    segments = Segments(directory, order.session)
    ray.init(log_to_driver=False, logging_level="warning")
    driver = SessionDriver(ray, order, segments, Packages())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, driver.signalled)
    try:
        return driver.main()
    finally:
        driver.clean()
        ray.shutdown()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
