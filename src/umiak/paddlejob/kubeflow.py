"""Where the pods of a PaddleJob of Kubeflow's training-operator (``kubeflow.org/v1``) meet. A decider."""

from __future__ import annotations

from umiak.core.names import DefaultPort
from umiak.paddlejob.resource import PodRole
from umiak.paddlejob.templates.main_container import main_index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.paddlejob.resource import JobSpec, PaddleJobRole

MEETING_PORT = "master"
"""The name of the container port where pods meet."""


def leader_of(spec: JobSpec) -> PodRole:
    """Whose first pod is the meeting point."""
    return PodRole.PS if spec.role(PodRole.PS) else PodRole.WORKER


def ports_of(wish: PaddleJobRole) -> list[JsonObject]:
    """The ports of a role's main container, with the one where pods meet, which Kubeflow adds."""
    containers = (wish.template.get("spec") or {}).get("containers") or ()
    number = main_index(containers)
    ports = [each for each in (containers[number].get("ports") or ()) if isinstance(each, dict)] if containers else []
    if any(each.get("name") == MEETING_PORT for each in ports):
        return ports
    return [*ports, {"name": MEETING_PORT, "containerPort": DefaultPort.KUBEFLOW, "protocol": "TCP"}]


def rendezvous_port(spec: JobSpec) -> int:
    """Where the pods of a job meet at its first pod."""
    wish = spec.role(leader_of(spec))
    ports = ports_of(wish) if wish else []
    number = next((each.get("containerPort") for each in ports if each.get("name") == MEETING_PORT), None)
    return number if isinstance(number, int) else DefaultPort.KUBEFLOW
