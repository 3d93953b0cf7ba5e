"""The pods of a run as `umiak exec` and `umiak fetch` reach them: through ``pods/exec`` of the API. An adapter.

The first byte of a message says which stream it is of (``v4.channel.k8s.io``):
0 to 2 as file descriptors, 3 how the program ended.
"""

from __future__ import annotations

import http.client
import json

from umiak.core.problem import UmiakError
from umiak.core.shown import one_line
from umiak.submit.backend import JobNode, RunFileRoots
from umiak.submit.backends.kubernetes import state
from umiak.submit.backends.kubernetes.names import CONTAINER
from umiak.submit.backends.kubernetes.pods import LAUNCHER_NAME, ROOT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.core.job import Handle
    from umiak.kube.api import KubeApi
    from umiak.kube.web_socket import WebSocket
    from umiak.submit.backends.kubernetes.state import KubeFacts

SESSION = "umiak.submit.node.session"
FORBIDDEN = 403


def nodes_of(facts: KubeFacts, handle: Handle, python: str) -> Sequence[JobNode]:
    """The pods that run, servers and trainers in the order of their ranks."""
    words = (python, f"{ROOT}/launcher/{LAUNCHER_NAME}", "-m", SESSION)
    running = [pod for pod in facts.pods if state.phase(pod) == "Running"]
    nodes = sorted(map(state.node_of, running), key=lambda each: (each.role.value if each.role else "", each.rank or 0))
    return [JobNode(run_id=handle.id, name=each.name, address=each.name, command=words) for each in nodes]


def roots_of(nodes: Sequence[JobNode], handle: Handle) -> Sequence[RunFileRoots]:
    """The working directory of each pod, and its launcher's logs.
    UmiakError if none runs: those of pods that are over can't be entered.
    """
    if not nodes:
        raise UmiakError.refused(
            "UM-SUBMIT-400",
            f"the files of the run can't be reached: {handle}",
            why="none of its pods runs, and the directory of a pod ends with it",
            hint="name what the job must bring home in its `outputs`, or give it a volume; `umiak logs` prints its lines",
        )
    roots = (("log", f"{ROOT}/work/logs"), ("work", f"{ROOT}/work/job"))
    return [
        RunFileRoots(name=each.name, node=each, others=roots, plans=f"{ROOT}/plan", node_number=number)
        for number, each in enumerate(nodes)
    ]


def opened(api: KubeApi, pods: str, node: JobNode, place: str) -> PodChannel:
    """Start the program in a pod. KubeRefused or KubeSilent if the API does not;
    UmiakError if it lets nobody do that.
    """
    from umiak.kube.answers import KubeRefused, KubeSilent

    query = [("command", word) for word in node.command]
    query += [("container", CONTAINER), ("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
    path = f"{pods}/{node.address}/exec"
    try:
        return PodChannel(api.web_socket(path, query, PROTOCOL))
    except KubeRefused as refused:
        if refused.status != FORBIDDEN:
            raise
        raise UmiakError.refused(
            "UM-SUBMIT-401",
            f"{place}: you may not start programs in pods: {node.name}",
            why=refused.message,
            hint="ask the cluster's administrator for a Role with `create` and `get` on `pods/exec` in the namespace",
        ) from None
    except (http.client.HTTPException, OSError) as error:
        raise KubeSilent(str(error), f"GET {path}") from error


PROTOCOL = "v4.channel.k8s.io"
BLOCK_BYTES = 1 << 15
MOST_WORDS = 4096
_INPUT, _OUTPUT, _ERRORS, _END = 0, 1, 2, 3


class PodChannel:
    """A `umiak.submit.backend.NodeChannel`."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._said = b""

    def read(self) -> bytes:
        while message := self._socket.receive():
            stream, data = message[0], message[1:]
            if stream == _OUTPUT and data:
                return data
            if stream == _ERRORS:
                self._said = (self._said + data)[-MOST_WORDS:]
            elif stream == _END:
                self._said = (self._said + b"\n" + _words(data))[-MOST_WORDS:]
        return b""

    def write(self, data: bytes) -> None:
        for start in range(0, len(data), BLOCK_BYTES):
            self._socket.send(bytes([_INPUT]) + data[start : start + BLOCK_BYTES])

    def close(self) -> None:
        self._socket.close()

    def last_words(self) -> str:
        lines = [each.strip() for each in self._said.decode(errors="replace").splitlines() if each.strip()]
        return one_line("; ".join(lines[-3:]), 500)


def _words(data: bytes) -> bytes:
    """What the API says about the end of a program; nothing of a good one."""
    try:
        status = json.loads(data)
        return b"" if status.get("status") == "Success" else str(status.get("message") or "").encode()
    except (ValueError, AttributeError):
        return b""
