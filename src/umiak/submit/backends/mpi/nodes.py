"""The hosts of a run under mpirun, as `umiak exec` and `umiak fetch` reach them: this machine itself, others over ssh.
An adapter.
"""

from __future__ import annotations

import os
import socket

from umiak.submit.backend import JobNode, RunFileRoots
from umiak.submit.backends.mpi import script, settings
from umiak.submit.backends.shared import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.submit.backend import NodeChannel, SubmitContext
    from umiak.submit.backends.mpi.settings import MpiSettings
    from umiak.submit.backends.shared.layout import RunInfo, SharedRun
    from umiak.submit.backends.shared.remote import RemoteHosts


class MpiNodes:
    """Of the runs of one place."""

    def __init__(self, place: str, said: MpiSettings, context: SubmitContext) -> None:
        self._place, self._settings, self._context = place, said, context
        self._reached: dict[str, RemoteHosts] = {}
        """Hosts on which programs were started, by their names."""

    def of(self, run: SharedRun, hostfile: str) -> Sequence[JobNode]:
        """The nodes of a run, from its host file."""
        hosts = settings.hosts_in(hostfile)
        others = {each.name for each in script.others(hosts, socket.gethostname())}
        return [
            JobNode(
                run_id=run.run_id,
                name=each.name,
                address=each.name if each.name in others else "",
                command=(run.path,),
            )
            for each in hosts
        ]

    def files(self, run: SharedRun, info: RunInfo, nodes: Sequence[JobNode]) -> Sequence[RunFileRoots]:
        """The run's directory, which all hosts share, or one of each host's own."""
        if self._settings.is_shared:
            here = JobNode(run_id=run.run_id, name=self._place)
            return [layout.roots_of(run, info, here, [each.name for each in nodes])]
        return [
            RunFileRoots(name=each.name, node=each, base=run.path, only=("work", layout.LOGS), node_number=number)
            for number, each in enumerate(nodes)
        ]

    def open(self, node: JobNode) -> NodeChannel:
        """Over ssh, as mpirun itself starts its processes; on this machine without it."""
        if not node.address:
            from umiak.submit.reach import channels

            return channels.on_this_machine(self._context.environ)
        from umiak.submit.backends.shared.remote import RemoteHosts
        from umiak.submit.backends.ssh.channel import open_session

        settings = self._settings
        hosts = self._reached.get(node.address)
        if hosts is None:
            root = os.path.dirname(os.path.dirname(node.command[0]))
            hosts = RemoteHosts(settings.access, [node.address], root, settings.python, self._context)
            self._reached[node.address] = hosts
        return open_session(hosts.connections, hosts.all[0], {"do": "session", "run": node.run_id})
