"""When a job is done. A decider.

Its workers decide: parameter servers serve as long as they are asked, and end with the job. ``successPolicy: AllRoles`` waits for
every pod, as the old operator did. kubeflow.org's jobs are also done when their first master is.
"""

from __future__ import annotations

from umiak.paddlejob.resource import JobApi, PodRole, SuccessPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.operator.policies.view import JobView


def is_done(view: JobView) -> bool:
    """Whether everything that has to end well has ended well."""
    workers = view.slots_of(PodRole.WORKER)
    decisive = workers if workers and view.spec.run_policy.success is SuccessPolicy.WORKERS else view.slots
    if decisive and all(slot.name in view.done for slot in decisive):
        return True
    masters = view.slots_of(PodRole.PS)
    return view.job.api is JobApi.KUBEFLOW and bool(masters) and masters[0].name in view.done
