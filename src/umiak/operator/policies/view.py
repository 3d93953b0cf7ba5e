"""One job, sorted for the policies: which pods it should have, which it has, which are of an earlier attempt.
A decider.

A pod has a number of its attempt: that of the job plus how often this very pod was started again, so it only ever
grows. A pod with a smaller one than its name should have is *stale*: it is deleted, and its name is used again when it
is gone.
"""

from __future__ import annotations

from umiak.core.value import from_columns, replace, value
from umiak.operator.values import PodPhase
from umiak.paddlejob.checks import message
from umiak.paddlejob.names import pod_name
from umiak.paddlejob.resource import PodRole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from umiak.operator.values import ClusterFacts, Observed, PodPlacement, SeenObject, SeenPod
    from umiak.paddlejob.resource import JobReport, JobSpec, PaddleJob


@value
class PodSlot:
    """A pod that there should be."""

    name: str
    role: PodRole
    index: int
    attempt: int


@value
class JobView:
    """What the policies look at."""

    job: PaddleJob
    now_s: float
    facts: ClusterFacts
    slots: tuple[PodSlot, ...]
    """In the order ps, worker, heter, and by number."""
    current: dict[str, SeenPod]
    """By name: pods of the attempt that their name is at. Also those that end or are being deleted."""
    stale: tuple[SeenPod, ...]
    """Ours, of earlier attempts."""
    surplus: tuple[SeenPod, ...]
    """Ours, and nothing that the spec wants."""
    foreign: tuple[SeenPod, ...]
    """Under a name that we need, and not ours."""
    done: frozenset[str]
    """Names of pods that have ended well, whether they are still there or not."""
    objects: dict[tuple[str, str], SeenObject]
    """By kind and name, ours and others'."""
    progress: tuple[tuple[str, str], ...] = ()
    """What the job said about itself."""
    placements: tuple[tuple[str, PodPlacement], ...] = ()
    """By role what a queue of Kueue adds to its pods."""
    warning: str = ""
    """What the manifest says that has no effect or may be a mistake."""

    @property
    def spec(self) -> JobSpec:
        return self.job.spec

    @property
    def report(self) -> JobReport:
        return self.job.report

    @property
    def is_taken_over(self) -> bool:
        """Whether pods were made by another operator, so that it is not known which ports they were told."""
        return any(not pod.digest for pod in self.current.values())

    def missing(self) -> list[PodSlot]:
        """Pods that there should be and that nobody has made yet."""
        return [slot for slot in self.slots if slot.name not in self.current and slot.name not in self.done]

    def slots_of(self, role: PodRole) -> list[PodSlot]:
        return [slot for slot in self.slots if slot.role is role]

    def is_lost(self, pod: SeenPod) -> bool:
        """Whether its node is gone, so that nobody there will end or delete it."""
        return bool(pod.node) and pod.node in self.facts.lost_nodes


def view_of(observed: Observed, now_s: float) -> JobView:
    """Everything sorted, in one pass over the pods."""
    job = observed.job
    restarts = dict(job.report.pod_restarts)
    base = job.report.attempt
    slots: tuple[PodSlot, ...] = ()
    for wish in job.spec.roles:
        count = max(0, wish.replicas)
        prefix = pod_name(job.name, wish.role, 0, job.api)[:-1]
        names = [f"{prefix}{index}" for index in range(count)]
        attempts = [base + restarts.get(name, 0) for name in names] if restarts else [base] * count
        slots += from_columns(PodSlot, (names, [wish.role] * count, range(count), attempts), count)
    by_name = {slot.name: slot for slot in slots}
    current: dict[str, SeenPod] = {}
    stale, surplus, foreign = [], [], []
    for seen in observed.pods:
        pod = in_cluster_time(seen, now_s) if seen.clock_ahead_s else seen
        slot = by_name.get(pod.name)
        if pod.owner_uid != job.uid:
            if slot is not None:
                foreign.append(pod)
        elif slot is None:
            surplus.append(pod)
        elif pod.attempt < slot.attempt:
            stale.append(pod)
        else:
            current[pod.name] = pod
    done = completed_names(job)
    # One that is being deleted may have ended well because it was told to end, in the middle of its work.
    done |= {name for name, pod in current.items() if pod.phase is PodPhase.SUCCEEDED and not pod.is_deleting}
    return JobView(
        job=job,
        now_s=now_s,
        facts=observed.facts,
        slots=slots,
        current=current,
        stale=tuple(stale),
        surplus=tuple(surplus),
        foreign=tuple(foreign),
        done=frozenset(done & by_name.keys()),
        objects={(each.kind, each.name): each for each in observed.objects},
        progress=observed.progress or job.report.progress,
        warning=message(observed.warnings),
    )


def in_cluster_time(pod: SeenPod, now_s: float) -> SeenPod:
    """A pod whose times are those of the cluster's clock, where its node has another one.

    A clock that seems to be ahead may be that of a node that was slow to start the pod,
    unless it has written down a time that is not yet.
    """
    times = {name: getattr(pod, name) for name in ("started_s", "ended_s", "last_end_s")}
    known = {name: each for name, each in times.items() if each is not None}
    if pod.clock_ahead_s > 0 and max(known.values(), default=0.0) <= now_s:
        return pod
    return replace(
        pod, clock_ahead_s=0.0, **{name: min(now_s, each - pod.clock_ahead_s) for name, each in known.items()}
    )


def completed_names(job: PaddleJob) -> set[str]:
    """Names of the pods that the status knows to have ended well."""
    completed = dict(job.report.completed)
    return {
        pod_name(job.name, wish.role, index, job.api)
        for wish in job.spec.roles
        for index in numbers(completed.get(wish.role.value, ""), wish.replicas)
    }


def completed_ranges(view: JobView, without: Collection[str] = ()) -> tuple[tuple[str, str], ...]:
    """What has ended well, as the status keeps it, but for pods that are started again."""
    found = []
    for wish in view.spec.roles:
        indexes = [
            slot.index for slot in view.slots_of(wish.role) if slot.name in view.done and slot.name not in without
        ]
        if indexes:
            found.append((wish.role.value, ranges(indexes)))
    return tuple(found)


def ranges(indexes: list[int]) -> str:
    """``0-2,5`` for 0, 1, 2, 5; in rising order."""
    runs: list[list[int]] = []
    for index in indexes:
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join([str(first) if first == last else f"{first}-{last}" for first, last in runs])


def numbers(text: str, below: int) -> list[int]:
    """The other way round. What makes no sense is left out: a status can be edited by hand."""
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if _is_number(first) and (_is_number(last) or not dash):
            numbers.extend(range(int(first), min(below, int(last or first) + 1)))
    return numbers


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
