"""A command on a node of a run, found and run, with its output kept: for programs. A program.

captured(backend, handle, WantedCommand(words=("nvidia-smi",), rank=0))
"""

from __future__ import annotations

import os
import threading

from umiak.core.value import value
from umiak.submit.reach import finding, nodes
from umiak.submit.reach.command import NodeCommand, WorkerMissing
from umiak.submit.reach.session import NodeSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from umiak.core.job import Handle
    from umiak.submit.backend import Backend


@value
class WantedCommand:
    """What is to be run, and where: on a node by its number or name, or beside a worker; else on the first node."""

    words: tuple[str, ...]
    node: str = ""
    role: str = ""
    rank: int | None = None

    def request(self, run_id: str) -> dict[str, Any]:
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
        return finding.with_worker(reached, found, wanted.role or "trainer", wanted.rank), found[0].run_id
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
