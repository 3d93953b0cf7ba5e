"""The nodes of a run on a Ray cluster, as `umiak exec` and `umiak fetch` reach them. An adapter."""

from __future__ import annotations

from umiak.submit.backends.ray.sessions import nodes
from umiak.submit.backends.ray.state import has_ended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

    from umiak.adapters.stores.http_retry import Unanswered
    from umiak.core.job import Handle
    from umiak.core.status import JobStatus
    from umiak.submit.backend import JobNode, NodeChannel, RunFileRoots
    from umiak.submit.backends.ray.api import RayApi
    from umiak.submit.backends.ray.settings import RaySettings


class SessionAccess:
    """A backend of runs on Ray: mixed in."""

    settings: RaySettings

    @property
    def api(self) -> RayApi:
        raise NotImplementedError

    def status(self, handle: Handle) -> JobStatus:
        raise NotImplementedError

    def job(self, handle: Handle) -> dict[str, object]:
        """What the cluster knows of a run. UmiakError if nothing."""
        raise NotImplementedError

    def refuse(self, error: Unanswered) -> NoReturn:
        """UmiakError for a dashboard that does not answer."""
        raise NotImplementedError

    def nodes(self, handle: Handle) -> Sequence[JobNode]:
        """Where the launchers of the run are."""
        from umiak.adapters.stores.http_retry import Unanswered
        from umiak.submit.reach.nodes import check_running

        check_running(handle, self.status(handle))
        try:
            return nodes.living(self.actors(self.job(handle), handle), handle)
        except Unanswered as error:
            self.refuse(error)

    def files(self, handle: Handle) -> Sequence[RunFileRoots]:
        """Of a run that is over where they were."""
        from umiak.adapters.stores.http_retry import Unanswered

        try:
            job = self.job(handle)
            if not has_ended(job):
                return nodes.roots_of(self.nodes(handle))
            return nodes.roots_of(nodes.recorded(self.status_lines(job, handle), handle))
        except Unanswered as error:
            self.refuse(error)

    def open(self, node: JobNode) -> NodeChannel:
        """By a job beside the run, which starts the program there."""
        from umiak.adapters.stores.http_retry import Unanswered
        from umiak.submit.backends.ray.sessions import channel

        try:
            return channel.opened(self.api, node, self.settings)
        except Unanswered as error:
            self.refuse(error)

    def actors(self, job: Mapping[str, object], handle: Handle) -> list[dict[str, object]]:
        """Those in which the launchers of the run are."""
        actors = self.api.states("actors", "job_id", str(job["job_id"])) if job.get("job_id") else []
        return [each for each in actors if str(each.get("name")).startswith(f"{handle.id}/")]

    def status_lines(self, job: Mapping[str, object], handle: Handle) -> str:
        """What the driver has written about the nodes."""
        node = str(job.get("driver_node_id") or "")
        return self.api.status_lines(handle.id, node) if node else ""
