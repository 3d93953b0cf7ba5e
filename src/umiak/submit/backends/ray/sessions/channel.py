"""Standard input and output of a program on a node of a Ray cluster, through its dashboard alone. An adapter.

    channel = opened(api, node, settings)    a `umiak.submit.backend.NodeChannel`

What is written becomes packages, which the driver of the session takes; what is read are files beside its log.
A thread says again and again that this client is there: if it is killed, the session ends soon after.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time

from umiak.adapters.stores.http_retry import Unanswered
from umiak.core.shown import one_line
from umiak.submit.backends.ray import package, plan
from umiak.submit.backends.ray.sessions import messages as words
from umiak.submit.backends.ray.sessions import nodes
from umiak.submit.backends.ray.state import has_ended
from umiak.submit.node import session_frames as frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.core.json_types import JsonObject
    from umiak.submit.backend import JobNode
    from umiak.submit.backends.ray.api import RayApi
    from umiak.submit.backends.ray.settings import RaySettings

LOOK_S = 0.2
SILENCE_S = 1.0
"""After so long without an answer it is asked whether the session is over."""
FORGET_S = 60.0
"""So long after its end a session is removed from Ray's list of jobs.
Earlier, Ray would write it down again, as one that has failed.
"""
STARTS_AT_ONCE = 4
"""Every session has a driver on the head of the cluster, and each takes some memory while it starts."""
_STARTS = threading.Semaphore(STARTS_AT_ONCE)


def opened(api: RayApi, node: JobNode, settings: RaySettings) -> RayChannel:
    """Start a session on a node, and wait until it is there.
    UmiakError if it can't be; `Unanswered` if the dashboard does not answer.
    """
    from umiak.submit.payload import launcher_file

    with open(launcher_file.find().path, "rb") as file:
        sent = package.pack({plan.LAUNCHER: file.read()})
    order = words.SessionOrder(
        session=f"{node.run_id}-session-{os.urandom(6).hex()}",
        ray_node=node.address,
        run_id=node.run_id,
        name=node.name,
        directory=settings.directory,
    )
    with _STARTS:
        forget_ended(api)
        if not api.has_package(sent.name):
            api.send_package(sent.name, sent.data)
        api.start(words.request(order, settings.python, sent.name))
        channel = RayChannel(api, node, order.session)
        try:
            channel.await_start()
        except BaseException:
            channel.close()
            raise
    return channel


def forget_ended(api: RayApi) -> None:
    """Let the cluster forget sessions that are over:
    they are none of the jobs that people look for in the dashboard.
    """
    try:
        ended = [each for each in api.jobs() if words.MARK in (each.get("metadata") or {}) and has_ended(each)]
        for each in ended:
            if (each.get("end_time") or 0) / 1000 < time.time() - FORGET_S:
                api.remove(str(each.get("submission_id")))
    except Unanswered:
        pass  # another client was faster, or the next one does it


class RayChannel:
    """One session."""

    def __init__(self, api: RayApi, node: JobNode, session: str) -> None:
        self._api, self._node, self._session = api, node, session
        self._driver_node = ""
        self._number = 0
        """Of the next message."""
        self._sending = threading.Lock()
        self._left = threading.Event()
        self._said = ""
        self._pieces = self._read()
        self._first = b""
        threading.Thread(target=self._live, daemon=True).start()

    def await_start(self) -> None:
        """Until the session says something. UmiakError with its reason if it can't be."""
        while not self._driver_node:
            job = self._job()
            self._driver_node = str(job.get("driver_node_id") or "")
            if has_ended(job) and not self._driver_node:
                raise nodes.not_started(self._node, self._words_of(job))
            if not self._driver_node:
                time.sleep(LOOK_S)
        self._first = next(self._pieces, b"")
        if not self._first:
            raise nodes.not_started(self._node, self._said or self._words_of(self._job()))

    # ---- a NodeChannel

    def read(self) -> bytes:
        if self._first:
            data, self._first = self._first, b""
            return data
        try:
            return next(self._pieces, b"")
        except (Unanswered, OSError) as error:  # the dashboard has gone
            self._said = one_line(str(error), 200)
            return b""

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            self._put(words.DATA, bytes(view[: frames.MOST_BYTES]))
            view = view[frames.MOST_BYTES :]

    def close(self) -> None:
        if self._left.is_set():
            return
        self._left.set()
        with contextlib.suppress(OSError):  # its lease ends it
            self._put(words.LEAVE)

    def last_words(self) -> str:
        return self._said

    # ---- messages

    def _put(self, kind: bytes, payload: bytes = b"") -> None:
        with self._sending:
            if self._number < 0:
                raise BrokenPipeError(32, "the connection to the cluster was lost")
            try:
                name = words.message_name(self._session, self._number)
                self._api.send_package(name, frames.frame(kind, payload))
            except Unanswered as error:
                self._number = -1  # whether the message is there, nobody knows
                raise BrokenPipeError(32, str(error)) from None
            self._number += 1

    def _live(self) -> None:
        while not self._left.wait(words.ALIVE_S):
            try:
                self._put(words.ALIVE)
            except OSError:
                return

    # ---- answers

    def _read(self) -> Iterator[bytes]:
        number = 0
        while True:
            parser = frames.FrameParser()
            is_whole = False
            for piece in self._segment(number):
                for kind, payload in parser.feed(piece):
                    if kind == words.DATA:
                        yield payload
                    elif kind == words.NEXT:
                        is_whole = True
                    elif kind in (words.END, words.PROBLEM):
                        self._said = _last_lines(str(json.loads(payload)))
                        return
                if is_whole:
                    break
            if not is_whole:
                return
            self._put(words.TAKEN, str(number).encode())
            number += 1

    def _segment(self, number: int) -> Iterator[bytes]:
        """A file of answers as it grows, until nobody wants it or the session is over."""
        name = words.segment_file(self._session, number)
        taken = 0
        while not self._left.is_set():
            skipped = 0
            try:
                for piece in self._api.growing_file(name, self._driver_node, SILENCE_S):
                    if self._left.is_set() or (not piece and has_ended(self._job())):
                        return
                    rest = piece[max(0, taken - skipped) :]  # what a broken connection has brought already
                    skipped += len(piece)
                    if rest:
                        taken += len(rest)
                        yield rest
            except Unanswered:
                if has_ended(self._job()):
                    return
            time.sleep(LOOK_S)  # the file is not there yet, or the connection broke

    def _job(self) -> JsonObject:
        return self._api.job(self._session) or {"status": "FAILED"}

    def _words_of(self, job: JsonObject) -> str:
        """Why there is no session: what its driver has printed, or what Ray says about it."""
        try:
            printed = b"".join(self._api.log(self._session, self._driver_node)) if self._driver_node else b""
        except Unanswered:
            printed = b""
        return _last_lines(printed.decode(errors="replace")) or _last_lines(
            str(job.get("message") or "no reason given")
        )


def _last_lines(text: str) -> str:
    lines = [each.strip() for each in text.splitlines() if each.strip()]
    return one_line("; ".join(lines[-3:]), 500)
