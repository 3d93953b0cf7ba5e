"""Plain Kubernetes: Indexed Jobs, and JobSets, which are made of them. A decider.

An Indexed Job gives each pod JOB_COMPLETION_INDEX and nothing else: a rank, but no count, and its pods may well be
unrelated tasks. A JobSet gives labels, which a manifest hands to its pods under the names that are usual for them:

    JOBSET_NAME  REPLICATED_JOB_NAME  JOB_INDEX  REPLICATED_JOB_REPLICAS  GLOBAL_REPLICAS      labels
    JOBSET_COORDINATOR                                                                         annotation
    UMIAK_JOBSET_LAYOUT=ps=1x2,worker=1x4                                                      literal

No label tells how many pods a job has, so the layout does: per replicated job, jobs x pods. From it follow ranks, roles
and hosts, ``<jobset>-<replicated job>-<job>-<pod>.<jobset>``. Without it, only a JobSet of a single job has ranks.

Trap: KUBERNETES_SERVICE_HOST is set in every pod there is. It is no evidence of a training job.
"""

from __future__ import annotations

from umiak.core.cluster import Placement
from umiak.platforms import roles
from umiak.platforms.reading import master_endpoint, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.platforms.reading import Reader

MOST_PODS = 100_000


def indexed_job(reader: Reader) -> Placement:
    """A pod of an Indexed Job: its rank, and the job's name if the host name shows it."""
    rank = reader.number("JOB_COMPLETION_INDEX")
    reader.raise_problems()
    host = reader.text("HOSTNAME") or ""
    return Placement(
        platform=reader.platform,
        reason=f"JOB_COMPLETION_INDEX={rank}",
        rank=rank,
        job_id=host.removesuffix(f"-{rank}") if host.endswith(f"-{rank}") else None,
    )


def jobset(reader: Reader) -> Placement | None:
    """A pod of a JobSet."""
    name = reader.text("JOBSET_NAME") or ""
    own = reader.text("REPLICATED_JOB_NAME")
    if own is None:
        return None
    job = reader.number("JOB_INDEX") or 0
    pod = reader.needed("JOB_COMPLETION_INDEX")
    layout = _layout(reader)
    reader.raise_problems()
    reason = f"pod {pod} of job {job} of {own} in JobSet {name}"
    if not layout:
        return _without_layout(reader, name, own, pod, reason)
    groups = {
        group: tuple(_host(name, group, number, index) for number in range(jobs) for index in range(pods))
        for group, (jobs, pods) in layout.items()
    }
    jobs, pods = layout.get(own, (0, 0))
    if own in layout and pod >= pods:
        reader.wrong("004", "JOB_COMPLETION_INDEX", f"no pod {pod} in a job of {own}: UMIAK_JOBSET_LAYOUT says {pods}")
    if own in layout and job >= jobs:
        reader.wrong("004", "JOB_INDEX", f"no job {job} of {own}: UMIAK_JOBSET_LAYOUT says {jobs}")
    reader.raise_problems()
    return roles.place(
        reader,
        groups,
        own=own,
        index=job * pods + pod,
        names=("REPLICATED_JOB_NAME", "JOB_COMPLETION_INDEX", "UMIAK_JOBSET_LAYOUT"),
        reason=reason,
        job_id=name,
    )


def environment_of_pod(name: str, group: str, layout: Mapping[str, tuple[int, int]]) -> dict[str, str]:
    """What a pod of a group must be given beside its JOB_COMPLETION_INDEX, so that `jobset` knows it among all others.

    ``layout`` has for each group the number of jobs, and of pods in each.
    Plain Jobs that are named as those of a JobSet work as well.
    """
    return {
        "JOBSET_NAME": name,
        "REPLICATED_JOB_NAME": group,
        "JOB_INDEX": "0",
        "UMIAK_JOBSET_LAYOUT": ",".join(f"{each}={jobs}x{pods}" for each, (jobs, pods) in layout.items()),
    }


def _without_layout(reader: Reader, name: str, own: str, pod: int, reason: str) -> Placement:
    mine, every = reader.number("REPLICATED_JOB_REPLICAS"), reader.number("GLOBAL_REPLICAS")
    only_group = mine is not None and mine == every
    first = reader.text("JOBSET_COORDINATOR") or (_host(name, own, 0, 0) if only_group else None)
    reader.raise_problems()
    return Placement(
        platform=reader.platform,
        reason=reason,
        rank=pod if mine == every == 1 else None,
        master=None if first is None else master_endpoint(first),
        job_id=name,
        role=None if only_group else roles.role_of(own),
    )


def _host(jobset: str, group: str, job: int, pod: int) -> str:
    return f"{jobset}-{group}-{job}-{pod}.{jobset}"


def _layout(reader: Reader) -> dict[str, tuple[int, int]]:
    """``ps=1x2,worker=1x4``: the number of jobs, and of pods in each, by replicated job."""
    name = "UMIAK_JOBSET_LAYOUT"
    layout: dict[str, tuple[int, int]] = {}
    for item in reader.items(name):
        group, _, size = item.partition("=")
        jobs, pods = (whole(number) for number in (size.split("x") if size.count("x") == 1 else ("", "")))
        if not group or not jobs or not pods or group in layout or jobs * pods > MOST_PODS:
            reader.wrong("009", name, f"expected a layout such as ps=1x2,worker=1x4, got {item}")
        else:
            layout[group] = (jobs, pods)
    return layout
