"""What a client and a session on a node of a Ray cluster say to each other, and by which means. A decider.

    request(order, python, package)        what the dashboard is asked for: a second job, beside the run
    message_name(session, 0)               the first message of the client, left in the cluster as a package
    segment_file(session, 0)               the first part of the answers, beside the log of the session's driver

Ray's API has no channel to a process. But who may submit jobs may leave packages in the cluster and read files beside
its logs, so that messages go the one way and answers the other. Both are frames of `session_frames`. Nothing of it
stays: the driver removes what was read.
"""

from __future__ import annotations

from umiak.core.decode import decode, encode
from umiak.core.value import value
from umiak.submit.backends.ray.plan import LAUNCHER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject

DRIVER = "umiak.submit.backends.ray.sessions.driver"
MARK = "umiak_session"
"""In the metadata of the job: it is none of a person's runs."""
ALIVE_S = 5.0
"""So often a client says that it is there."""
LEASE_S = 30.0
"""After so long without a word from its client a session ends, and the command in it."""
STOP_WAIT_S = 30
"""How long Ray lets the driver of a session that it has asked to stop go on: a command has some seconds to end."""

DATA = b"d"
"""Of the session's input and output."""
TAKEN, ALIVE, LEAVE = b"t", b"a", b"l"
"""From the client: a segment was read, by its number; it is there; it wants no more."""
NEXT, END, PROBLEM = b"n", b"e", b"x"
"""To the client: the next segment goes on; the session has ended, with what it said; why there is none."""
GONE = "gone"
"""Such a reason: the node has no directory of the run."""


@value
class SessionOrder:
    """What a session is for."""

    session: str
    """Its id: Ray's submission id."""
    ray_node: str
    """Ray's id of the node on which it is."""
    run_id: str
    name: str
    """Of the node of the run: ``trainer.0``."""
    directory: str = ""
    """Of the place's settings."""

    def text(self) -> str:
        import json

        return json.dumps(encode(self))


def from_text(text: str) -> SessionOrder:
    """`Malformed` or ValueError if it is none."""
    import json

    return decode(SessionOrder, json.loads(text))


def request(order: SessionOrder, python: str, package: str) -> JsonObject:
    """The body of the request that starts a session."""
    import shlex

    words = f"{shlex.quote(python or 'python')} {LAUNCHER} -m {DRIVER} {shlex.quote(order.text())}"
    return {
        "entrypoint": f"exec {words}",
        "submission_id": order.session,
        "runtime_env": {
            "working_dir": f"gcs://{package}",
            "env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_WAIT_S)},
        },
        "metadata": {MARK: order.run_id},
    }


def message_name(session: str, number: int) -> str:
    """The package with a message."""
    return f"{message_prefix(session)}{number}.zip"


def message_prefix(session: str) -> str:
    """Of all messages of a session."""
    return f"_umiak_to_{session}_"


def segment_file(session: str, number: int) -> str:
    """The file with a part of the answers."""
    return f"umiak-{session}-{number}.log"
