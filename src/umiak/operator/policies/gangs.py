"""Gang scheduling: all pods of a job get their places together, or none does. A decider.

The operator is started with a driver. It is used for jobs whose templates name no other scheduler. Where the cluster
does not serve the driver's PodGroup, the job waits and says so: pods without their group could each hold a part of what
all of them need.
"""

from __future__ import annotations

from umiak.core.value import value
from umiak.operator.policies.waiting import Wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.operator.policies.view import JobView
    from umiak.operator.values import SeenObject


@value
class GangDriver:
    """One way of scheduling a gang."""

    name: str
    api_version: str
    scheduler: str = ""
    """What pods name as their scheduler where the template is silent."""
    waits_for_phase: bool = False
    """Pods are made when the group has been admitted: Volcano's webhook refuses them earlier."""

    @property
    def kind(self) -> str:
        return f"{self.api_version.partition('/')[0]}/PodGroup"


DRIVERS = {
    "volcano": GangDriver(
        name="volcano", api_version="scheduling.volcano.sh/v1beta1", scheduler="volcano", waits_for_phase=True
    ),
    "scheduler-plugins": GangDriver(name="scheduler-plugins", api_version="scheduling.x-k8s.io/v1alpha1"),
    "native": GangDriver(name="native", api_version="scheduling.k8s.io/v1beta1"),
}
GROUP_KINDS = frozenset(driver.kind for driver in DRIVERS.values())


def driver_of(view: JobView) -> GangDriver | None:
    """The driver of this job; None: its pods are scheduled one by one."""
    driver = DRIVERS.get(view.facts.gang)
    if driver is None:
        return None
    named = {(wish.template.get("spec") or {}).get("schedulerName") or "" for wish in view.spec.roles}
    return driver if driver.scheduler == "" or named <= {"", driver.scheduler} else None


def gang_wait(driver: GangDriver, view: JobView, group: SeenObject | None) -> Wait | None:
    """What keeps pods from being made; None: nothing does."""
    if driver.kind not in view.facts.kinds:
        return Wait(
            reason="GangUnavailable",
            message=f"the operator uses gang scheduling by {driver.name}, but this cluster does not serve {driver.kind}",
        )
    if group is None:
        return Wait(reason="GangPending", message=f"the PodGroup {view.job.name} is being created")
    if driver.waits_for_phase and group.phase in ("", "Pending"):
        state = f"is {group.phase}" if group.phase else "has no phase yet: is its scheduler running?"
        return Wait(reason="GangPending", message=f"the PodGroup {group.name} {state}")
    return None


def unused_policy(view: JobView) -> Wait | None:
    """``schedulingPolicy`` in a job although no driver reads it."""
    if view.spec.gang is None or driver_of(view) is not None:
        return None
    why = (
        "its template names another scheduler"
        if view.facts.gang in DRIVERS
        else "the operator runs without a gang driver"
    )
    return Wait(reason="SchedulingPolicyIgnored", message=f"schedulingPolicy has no effect: {why}")
