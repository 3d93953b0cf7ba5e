"""A command on a node of a run, found and run, with its output kept: for programs. A program.

captured(backend, handle, WantedCommand(words=("nvidia-smi",), rank=0))
"""

from __future__ import annotations

import contextlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor

from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.submit.reach import nodes
from umiak.submit.reach.command import NodeCommand, WorkerMissing
from umiak.submit.reach.nodes import no_such_worker
from umiak.submit.reach.session import NodeSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from umiak.core.job import Handle
    from umiak.core.json_types import JsonObject
    from umiak.submit.backend import Backend, JobNode, NodeAccess


@value
class WantedCommand:
    """What is to be run, and where: on a node by its number or name, or beside a worker; else on the first node."""

    words: tuple[str, ...]
    node: str = ""
    role: str = ""
    rank: int | None = None

    def request(self, run_id: str) -> JsonObject:
        return {"run": run_id, "words": list(self.words), "role": self.role or None, "rank": self.rank}


@value
class CommandResult:
    """What a command has printed, and how it ended."""

    exit_code: int
    stdout: bytes
    stderr: bytes


def session_of(backend: Backend, handle: Handle, wanted: WantedCommand) -> tuple[NodeSession, str]:
    """A session on the node that is meant, which its caller ends, and the run's id there."""
    reached = nodes.reachable(backend, handle)
    found = reached.nodes(handle)
    if wanted.node:
        found = [nodes.chosen(found, wanted.node)]
    if wanted.role or wanted.rank is not None:
        return with_worker(reached, found, wanted.role or "trainer", wanted.rank), found[0].run_id
    return NodeSession(found[0].name, reached.open(found[0])), found[0].run_id


def missing(session: NodeSession, run_id: str, wanted: WantedCommand) -> Exception:
    """The node has no such worker."""
    role = wanted.role or ("trainer" if wanted.rank is not None else "")
    return nodes.no_such_worker(role, wanted.rank, session.workers(run_id))


def captured(backend: Backend, handle: Handle, wanted: WantedCommand, stdin: bytes = b"") -> CommandResult:
    """Run it, with this input."""
    kept: dict[bool, list[bytes]] = {False: [], True: []}
    session, run_id = session_of(backend, handle, wanted)
    source, feed = os.pipe()
    threading.Thread(target=_fed, args=(feed, stdin), daemon=True).start()
    try:
        command = NodeCommand(session, lambda is_error, data: kept[is_error].append(data), source=source)
        end = command.run(wanted.request(run_id))
    except WorkerMissing:
        raise missing(session, run_id, wanted) from None
    finally:
        session.close()
        os.close(source)
    return CommandResult(exit_code=end.code, stdout=b"".join(kept[False]), stderr=b"".join(kept[True]))


def _fed(fd: int, data: bytes) -> None:
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        pass  # the command reads no more
    finally:
        os.close(fd)


AT_ONCE = 8
"""Nodes that are asked at the same time."""


@contextlib.contextmanager
def opened(backend: NodeAccess, node: JobNode) -> Iterator[NodeSession]:
    """A session that is ended at the end."""
    session = NodeSession(node.name, backend.open(node))
    try:
        yield session
    finally:
        session.close()


def with_worker(backend: NodeAccess, nodes: Sequence[JobNode], role: str, rank: int | None) -> NodeSession:
    """A session on the node that has this worker; its caller ends it.
    UmiakError if no node that can be asked has it.
    """
    found: list[tuple[str, int]] = []
    errors: list[UmiakError] = []

    def look(node: JobNode) -> tuple[NodeSession | None, list[tuple[str, int]]]:
        try:
            session = NodeSession(node.name, backend.open(node))
        except UmiakError as error:
            errors.append(error)
            return None, []
        try:
            return session, session.workers(node.run_id)
        except BaseException as error:
            session.close()
            if not isinstance(error, UmiakError):
                raise
            errors.append(error)
            return None, []

    for start in range(0, len(nodes), AT_ONCE):
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(look, nodes[start : start + AT_ONCE]))
        chosen: NodeSession | None = None
        for session, workers in answers:
            found += workers
            has_it = any(each == role and rank in (None, number) for each, number in workers)
            if session is not None and has_it and chosen is None:
                chosen = session
            elif session is not None:
                session.close()
        if chosen is not None:
            return chosen
    if errors and not found:
        raise errors[0]
    raise no_such_worker(role, rank, found)
