"""What a launcher writes down about itself for those who ask how a run is. Values.

    NodeReport(state=State.RESTARTING, host="10.0.0.2", restarts=1, reason="trainer 0 failed, restart 1 of 3", changed_s=...)

It lies in the launcher's log directory as `FILE`, and is replaced whenever it changes. That the launcher is still there is not in it.
"""

from __future__ import annotations

from umiak.core.decode import Malformed, decode, encode
from umiak.core.status import State
from umiak.core.value import value

FILE = "state.json"


@value
class NodeReport:
    """How one launcher and its workers are."""

    state: State
    host: str = ""
    """The address at which the other nodes know it, or the name of its machine."""
    address: str = ""
    """``host:port`` at which other launchers can call it; empty if none can."""
    restarts: int = 0
    """How often the workers of the job were started again."""
    reason: str = ""
    """Why it restarts or stops, or has restarted the last time; at the end how it ended."""
    exit_code: int | None = None
    """Of the launcher, once it is over."""
    changed_s: float = 0.0
    """Seconds since 1970."""

    @property
    def story(self) -> str:
        """Why a job that runs was restarted; empty if it was not."""
        if not self.restarts:
            return ""
        times = "once" if self.restarts == 1 else f"{self.restarts} times"
        return f"restarted {times}: {self.reason}" if self.reason else f"restarted {times}"

    def reason_in(self, state: State) -> str:
        """The reason for this node's state, in which it may be by more than what it knows itself."""
        if state is State.RUNNING:
            return self.story
        return "" if state in (State.SUCCEEDED, State.STARTING) else self.reason


def text_of(report: NodeReport) -> str:
    """As JSON."""
    import json

    return json.dumps(encode(report)) + "\n"


def from_text(text: str) -> NodeReport | None:
    """None if it is none: of another version, or of somebody else."""
    import json

    try:
        return decode(NodeReport, json.loads(text))
    except (ValueError, Malformed):
        return None
