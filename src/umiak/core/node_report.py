"""What a launcher writes down about itself for those who ask how a run is. Values.

    NodeReport(state=State.RESTARTING, host="10.0.0.2", restarts=1, reason="trainer 0 failed, restart 1 of 3", changed_s=...)

It lies in the launcher's log directory as `FILE`, and is replaced whenever it changes.
That the launcher is still there is not in it.

    last_words("UM-JOB-005", "node 1 was lost")     "[UM-JOB-005] node 1 was lost"

In a pod it leaves such last words in `LAST_WORDS_FILE` if it fails:
Kubernetes shows them in the status of the pod, and the operator decides by them whose failure it is.
"""

from __future__ import annotations

from umiak.core.decode import Malformed, decode, encode
from umiak.core.shown import one_line
from umiak.core.status import State
from umiak.core.value import value

FILE = "state.json"
LAST_WORDS_FILE = "/dev/termination-log"
"""Kubernetes gives every container this file."""
LONGEST_LAST_WORDS = 1000
"""Kubernetes keeps 4096 bytes of a container, and 12 KiB of a pod."""
CONSEQUENCES = ("UM-JOB-005", "UM-JOB-006", "UM-MEET-001", "UM-MEET-005")
"""Another node was lost, or told to stop; this one was cut off; too few were left."""


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


def last_words(code: str, words: str) -> str:
    """One line; the code is first, so that it is never cut off."""
    return f"[{code}] {one_line(words, LONGEST_LAST_WORDS)}"


def is_consequence(said: str) -> bool:
    """Whether a launcher's last words say that another node is the cause."""
    return said.startswith(tuple([f"[{code}]" for code in CONSEQUENCES]))
