"""Links to terminals on the nodes of a job, of clouds whose API gives them. An adapter."""

from __future__ import annotations

from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.shown import one_line
from umiak.submit.backend import TerminalLink
from umiak.submit.backends.cloud.backend import CloudBackend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.job import Handle
    from umiak.submit.backends.cloud.api import TerminalApi

SCHEMES = ("wss://", "https://", "ws://", "http://")


class TerminalBackend(CloudBackend):
    """A place in such a cloud."""

    TERMINAL = ""
    """What is said about a link: how long it is valid, and what opens it."""

    def terminal(self, handle: Handle, node: str) -> TerminalLink:
        """Asked for once: a link is of one person, and not valid for long."""
        job = self._known(handle)
        pod = next((each for each in job.pods if each.name == node), None)
        api: TerminalApi = self.api  # type: ignore[assignment]
        url = self.asked(lambda: api.terminal(job, pod), f"no link to a terminal on {node}") if pod else ""
        if not url.startswith(SCHEMES) or not url.isprintable() or " " in url:
            problem = Problem(
                code="UM-SUBMIT-492",
                what=f"{self.settings.place} gave no link to a terminal on {node}",
                why=one_line(url, 100) or "its answer has none",
                hint="is the node running? `umiak status` says so; the console of the cloud has a terminal as well",
            )
            raise UmiakError(problem, exit_status=Exit.REFUSED)
        return TerminalLink(url=url, about=self.TERMINAL)
