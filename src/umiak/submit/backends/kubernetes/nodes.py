"""The pods of a run as `umiak exec` and `umiak fetch` reach them: through ``pods/exec`` of the API. An adapter."""

from __future__ import annotations

import http.client

from umiak.core.problem import Exit, Problem, UmiakError
from umiak.submit.backend import JobNode, RunFileRoots
from umiak.submit.backends.kubernetes import state
from umiak.submit.backends.kubernetes.names import CONTAINER
from umiak.submit.backends.kubernetes.pod_channel import PROTOCOL, PodChannel
from umiak.submit.backends.kubernetes.pods import LAUNCHER_NAME, ROOT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from umiak.core.job import Handle
    from umiak.kube.api import KubeApi
    from umiak.submit.backends.kubernetes.state import KubeFacts

SESSION = "umiak.submit.node.session"
FORBIDDEN = 403


def nodes_of(facts: KubeFacts, handle: Handle, python: str) -> Sequence[JobNode]:
    """The pods that run, servers and trainers in the order of their ranks."""
    words = (python, f"{ROOT}/launcher/{LAUNCHER_NAME}", "-m", SESSION)
    running = [pod for pod in facts.pods if state.phase(pod) == "Running"]
    found = sorted(map(state.node_of, running), key=lambda each: (each.role.value if each.role else "", each.rank or 0))
    return [JobNode(run_id=handle.id, name=each.name, address=each.name, command=words) for each in found]


def roots_of(nodes: Sequence[JobNode], handle: Handle) -> Sequence[RunFileRoots]:
    """The working directory of each pod, and its launcher's logs. UmiakError if none runs: those of pods that are over can't be entered."""
    if not nodes:
        problem = Problem(
            code="UM-SUBMIT-400",
            what=f"the files of the run can't be reached: {handle}",
            why="none of its pods runs, and the directory of a pod ends with it",
            hint="name what the job must bring home in its `outputs`, or give it a volume; `umiak logs` prints its lines",
        )
        raise UmiakError(problem, exit_status=Exit.REFUSED)
    roots = (("log", f"{ROOT}/work/logs"), ("work", f"{ROOT}/work/job"))
    return [
        RunFileRoots(name=each.name, node=each, others=roots, plans=f"{ROOT}/plan", node_number=number)
        for number, each in enumerate(nodes)
    ]


def opened(api: KubeApi, pods: str, node: JobNode, place: str) -> PodChannel:
    """Start the program in a pod. KubeRefused or KubeSilent if the API does not; UmiakError if it lets nobody do that."""
    from umiak.kube.answers import KubeRefused, KubeSilent

    query = [("command", word) for word in node.command]
    query += [("container", CONTAINER), ("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
    path = f"{pods}/{node.address}/exec"
    try:
        return PodChannel(api.web_socket(path, query, PROTOCOL))
    except KubeRefused as refused:
        if refused.status != FORBIDDEN:
            raise
        problem = Problem(
            code="UM-SUBMIT-401",
            what=f"{place}: you may not start programs in pods: {node.name}",
            why=refused.message,
            hint="ask the cluster's administrator for a Role with `create` and `get` on `pods/exec` in the namespace",
        )
        raise UmiakError(problem, exit_status=Exit.REFUSED) from None
    except (http.client.HTTPException, OSError) as error:
        raise KubeSilent(str(error), f"GET {path}") from error
