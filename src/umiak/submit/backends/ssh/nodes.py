"""The hosts of a run as `umiak exec` and `umiak fetch` reach them:
through an agent of their own, over the place's connections. An adapter.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.core.job import Handle
    from umiak.submit.backend import JobNode, NodeChannel, RunFileRoots
    from umiak.submit.backends.ssh.connections import Connections
    from umiak.submit.backends.ssh.joined import HostOutput
    from umiak.submit.backends.ssh.settings import SshHost, SshSettings


class SshNodes:
    """A part of the backend: mixed in."""

    settings: SshSettings

    @property
    def connections(self) -> Connections:
        raise NotImplementedError

    def said(self, handle: Handle) -> list[HostOutput]:
        """What each host of a run says."""
        raise NotImplementedError

    def nodes(self, handle: Handle) -> Sequence[JobNode]:
        """The hosts of the run."""
        from umiak.submit.backends.ssh import joined
        from umiak.submit.reach.nodes import check_running

        outputs = self.said(handle)
        check_running(handle, joined.status_of(outputs))
        return [self._node(each, handle) for each in self._those_of(handle, outputs)]

    def files(self, handle: Handle) -> Sequence[RunFileRoots]:
        """What each host has of the run."""
        from umiak.submit.backend import RunFileRoots

        return [
            RunFileRoots(
                name=host.directory_name, node=self._node(host, handle), only=("work*", "log"), node_number=number
            )
            for number, host in enumerate(self._those_of(handle))
        ]

    def open(self, node: JobNode) -> NodeChannel:
        """Through an agent of its own."""
        from umiak.submit.backends.ssh.channel import open_session

        host = next(each for each in self.settings.hosts if each.directory_name == node.address)
        question = {"do": "session", "run": node.run_id, "host": host.directory_name}
        return open_session(self.connections, host, question)

    def _node(self, host: SshHost, handle: Handle) -> JobNode:
        from umiak.submit.backend import JobNode

        return JobNode(run_id=handle.id, name=host.label, address=host.directory_name)

    def _those_of(self, handle: Handle, said: Sequence[HostOutput] | None = None) -> Sequence[SshHost]:
        labels = {each.label for each in (self.said(handle) if said is None else said)}
        return [each for each in self.settings.hosts if each.label in labels]
