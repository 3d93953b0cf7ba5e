"""What counts where a manifest is silent. A decider.

Defaults that depend on the kind of job are here, and not in the CRD: the API server would write them into people's objects, and
they could never be told from what was asked for.
"""

from __future__ import annotations

from umiak.core.value import replace
from umiak.paddlejob.resource import JobMode, PodRole, RestartScope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.paddlejob.resource import JobSpec, RoleWish

BACKOFF_LIMIT = 3
LEAST_ELASTIC = 1


def with_defaults(spec: JobSpec) -> JobSpec:
    """The spec with a budget of restarts, their scope, and the bounds of elastic roles. Applied twice, nothing changes."""
    policy = spec.run_policy
    if policy.backoff_limit is None:
        policy = replace(policy, backoff_limit=BACKOFF_LIMIT)
    if policy.restart_scope is None:
        policy = replace(policy, restart_scope=restart_scope(spec))
    roles = tuple([_bounded(role) if spec.is_elastic else role for role in spec.roles])
    return replace(spec, run_policy=policy, roles=roles)


def restart_scope(spec: JobSpec) -> RestartScope:
    """What a failed pod takes with it.

    Workers with parameter servers, and those of elastic jobs, can join again one by one. Collective workers
    can't: the others wait in an all-reduce for one that is gone.
    """
    return RestartScope.POD if spec.is_elastic or spec.mode is JobMode.PS else RestartScope.JOB


def _bounded(role: RoleWish) -> RoleWish:
    if role.role is not PodRole.WORKER or role.least is not None:
        return role
    return replace(role, least=min(LEAST_ELASTIC, role.replicas))
