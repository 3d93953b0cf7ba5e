"""Opens sessions on the nodes of a run, and finds the one that has a worker. An adapter.

with opened(backend, node) as session: ...
session = with_worker(backend, nodes, "trainer", 3)
"""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

from umiak.core.problem import UmiakError
from umiak.submit.reach.nodes import no_such_worker
from umiak.submit.reach.session import NodeSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from umiak.submit.backend import JobNode, NodeAccess

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
    """A session on the node that has this worker; its caller ends it. UmiakError if no node that can be asked has it."""
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
