"""What the cluster has, as far as it was told: jobs, their children by the UID of their controller, nodes. A decider.

Watches put objects in, and so do the answers to our own writes; an object never gives way to an older version of
itself. So a decision that follows a write sees at least what was written, however late the watch is, and nothing is
made twice.
"""

from __future__ import annotations

from umiak.core.value import replace, value
from umiak.operator.controller.kinds import JOB, POD
from umiak.operator.controller.seen_objects import SeenNode, node_of, object_of, owner_of, pod_of, version_of
from umiak.operator.objects.names import JOB_NAME
from umiak.operator.policies.waiting import is_own_group
from umiak.operator.values import ClusterFacts, Observed, SeenObject, SeenPod
from umiak.paddlejob.names import RES_NAME
from umiak.paddlejob.resource import Intranet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from umiak.core.json_types import JsonMapping
    from umiak.core.problem import Problem
    from umiak.operator.values import Refusal
    from umiak.paddlejob.reading import PaddleJobReading
    from umiak.paddlejob.resource import PaddleJob

JobKey = tuple[str, str, str]
"""Group of its API, namespace, name."""
ObjectKey = tuple[str, str, str]
"""Kind, namespace, name."""
NEW_NODE_S = 60.0
"""A pod may be on a node that we have not been told of yet; after this long there is none."""
MOST_GONE = 10_000
"""Deleted objects that are kept in mind: an answer is late by seconds, not by ten thousand deletions."""
NEVER_AGAIN = 1 << 62


@value
class CachedJob:
    """A job as it was read last."""

    job: PaddleJob
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    version: int = 0


class ClusterCache:
    """The operator's picture of the cluster."""

    def __init__(
        self,
        read_job: Callable[[JsonMapping], PaddleJobReading],
        changed: Callable[[JobKey], None],
        *,
        node_timeout_s: float = 60.0,
    ) -> None:
        self._read_job = read_job
        self._changed = changed
        self._node_timeout_s = node_timeout_s
        self.jobs: dict[JobKey, CachedJob] = {}
        self._keys_by_uid: dict[str, JobKey] = {}
        self._objects: dict[ObjectKey, tuple[int, SeenPod | SeenObject]] = {}
        self._children: dict[str, dict[ObjectKey, None]] = {}
        self._blocked: dict[ObjectKey, dict[JobKey, None]] = {}
        """Objects of others under names that jobs need, and which jobs."""
        self._blocked_by: dict[JobKey, dict[ObjectKey, None]] = {}
        self._unlabelled: dict[ObjectKey, bool] = {}
        """Objects without our label, and whether they have the old operator's: if not, no watch tells of them."""
        self._gone: dict[str, int] = {}
        """UIDs of what was deleted lately, each with the version of its end:
        an answer that is late must not bring it back.
        """
        self.nodes: dict[str, SeenNode] = {}
        self._nodes_known = False

    # ---- what watches and answers say

    def put_job(self, group: str, body: JsonMapping) -> CachedJob | None:
        """A job, new or changed. None if a newer version is known."""
        metadata = body["metadata"]
        key = (group, str(metadata.get("namespace") or ""), str(metadata["name"]))
        known, version = self.jobs.get(key), version_of(body)
        if self._is_gone(metadata, version):
            return None
        if known is not None and known.version >= version > 0 and known.job.uid == metadata.get("uid"):
            return known
        found = self._read_job(body)
        job = found.job
        if known is not None and known.job.uid != job.uid:
            if known.version > version > 0:
                return None
            self._forget_job(key, known)
        self.jobs[key] = cached = CachedJob(job=job, problems=found.problems, warnings=found.warnings, version=version)
        self._keys_by_uid[job.uid] = key
        self._changed(key)
        return cached

    def remove_job(self, group: str, namespace: str, name: str, uid: str = "") -> None:
        key = (group, namespace, name)
        known = self.jobs.get(key)
        self._remember_gone(uid, 0)
        if known is not None and (not uid or known.job.uid == uid):
            del self.jobs[key]
            self._forget_job(key, known)
            self._changed(key)

    def listed_jobs(self, group: str, found: set[str], version: int, namespace: str = "") -> None:
        """After a list of a namespace, or of all: what was not in it is gone, unless it is newer than the list."""
        for key, known in [(key, known) for key, known in self.jobs.items() if key[0] == group]:
            if namespace in ("", key[1]) and known.job.uid not in found and known.version <= version:
                self.remove_job(*key)

    def put(self, kind: str, body: JsonMapping) -> None:
        """A child, new or changed."""
        metadata = body["metadata"]
        key = (kind, str(metadata.get("namespace") or ""), str(metadata["name"]))
        version, known = version_of(body), self._objects.get(key)
        if (known is not None and known[0] >= version > 0) or self._is_gone(metadata, version):
            return
        seen = pod_of(body) if kind == POD else object_of(kind, body)
        labels = metadata.get("labels") or {}
        if JOB_NAME in labels:
            self._unlabelled.pop(key, None)
        else:
            self._unlabelled[key] = RES_NAME in labels
        self._objects[key] = (version, seen)
        if known is not None and known[1] == seen:
            return
        if known is not None and known[1].owner_uid != seen.owner_uid:
            self._unlink(key, known[1].owner_uid)
        if seen.owner_uid:
            self._children.setdefault(seen.owner_uid, {})[key] = None
        self._tell(key, seen.owner_uid)

    def remove(self, kind: str, namespace: str, name: str, *, uid: str = "", version: int = 0) -> None:
        key = (kind, namespace, name)
        known = self._objects.get(key)
        self._remember_gone(uid, version)
        if known is None or (uid and known[1].uid != uid) or (version and known[0] > version and not uid):
            return
        del self._objects[key]
        self._unlabelled.pop(key, None)
        self._unlink(key, known[1].owner_uid)
        self._tell(key, known[1].owner_uid)
        for job in self._blocked.pop(key, {}):
            self._blocked_by.get(job, {}).pop(key, None)

    def listed(self, kind: str, found: set[str], version: int, namespace: str = "", *, is_old: bool = False) -> None:
        """As `listed_jobs`; objects of the old operator have another label, and are listed apart."""
        wanted = True if is_old else None
        gone = [
            key
            for key, (known, seen) in self._objects.items()
            if key[0] == kind
            and namespace in ("", key[1])
            and seen.uid not in found
            and known <= version
            and self._unlabelled.get(key) is wanted
        ]
        for key in gone:
            self.remove(*key)

    def put_node(self, body: JsonMapping) -> None:
        node, known = node_of(body), self.nodes.get(body["metadata"]["name"])
        self.nodes[node.name] = node
        if known is not None and known != node:
            self._tell_pods_of(node.name)

    def remove_node(self, name: str) -> None:
        if self.nodes.pop(name, None) is not None:
            self._tell_pods_of(name)

    def listed_nodes(self, found: set[str]) -> None:
        self._nodes_known = True
        for name in [node.name for node in self.nodes.values() if node.uid not in found]:
            self.remove_node(name)

    def block(self, job: JobKey, kind: str, namespace: str, name: str) -> None:
        """An object of somebody else has a name that this job needs."""
        self._blocked.setdefault((kind, namespace, name), {})[job] = None
        self._blocked_by.setdefault(job, {})[(kind, namespace, name)] = None

    def unblock_unwatched(self, job: JobKey) -> None:
        """Forget objects of others that nobody will tell us about: they are asked for again."""
        for key in [key for key in self._blocked_by.get(job, {}) if self._unlabelled.get(key) is False]:
            if not self._is_admitted(key):
                self.remove(*key)

    def _is_admitted(self, key: ObjectKey) -> bool:
        """A PodGroup of a person's own after which nobody has to ask again."""
        seen_object = self._objects.get(key)
        seen = seen_object[1] if seen_object else None
        return isinstance(seen, SeenObject) and is_own_group(seen) and seen.phase not in ("", "Pending")

    def tell_all(self) -> None:
        """All jobs are to be looked at: something has changed that concerns each of them."""
        for key in self.jobs:
            self._changed(key)

    # ---- what decisions ask

    def get(self, kind: str, namespace: str, name: str) -> SeenPod | SeenObject | None:
        seen_object = self._objects.get((kind, namespace, name))
        return seen_object[1] if seen_object else None

    def observe(
        self, key: JobKey, facts: ClusterFacts, now: float, refusals: tuple[Refusal, ...] = ()
    ) -> Observed | None:
        """A job with all that belongs to it, or stands in its way. None if there is no such job."""
        cached = self.jobs.get(key)
        if cached is None:
            return None
        seen = [self._objects[child][1] for child in self._children.get(cached.job.uid, ())]
        for name in self._blocked_by.get(key, ()):
            other = self.get(*name)
            if other is not None and other.owner_uid != cached.job.uid:
                seen.append(replace(other, role=None, index=-1) if isinstance(other, SeenPod) else other)
        pods = [each for each in seen if isinstance(each, SeenPod)]
        objects = [each for each in seen if not isinstance(each, SeenPod)]
        lost = frozenset(node for node in {pod.node for pod in pods} if node and self.is_lost(node, pods, now))
        if lost:
            pods = [replace(pod, is_disrupted=True) if pod.node in lost else pod for pod in pods]
        if lost or cached.job.spec.intranet is Intranet.HOST:
            facts = replace(facts, lost_nodes=lost, kept_ports=self._kept_ports(key, cached.job))
        return Observed(
            job=cached.job,
            problems=cached.problems,
            warnings=cached.warnings,
            pods=tuple(pods),
            objects=tuple(objects),
            refusals=refusals,
            facts=facts,
        )

    def is_lost(self, node: str, pods: Iterable[SeenPod], now: float) -> bool:
        """Whether a node is gone, or silent for so long that what ran there can't be waited for."""
        if not self._nodes_known:
            return False
        known = self.nodes.get(node)
        if known is None:
            return all(now - pod.created_s > NEW_NODE_S for pod in pods if pod.node == node)
        return known.is_silent and now - known.since_s >= self._node_timeout_s

    def silent_for_s(self, key: JobKey, now: float) -> float | None:
        """In how many seconds a node of this job counts as lost; None if all of its nodes speak."""
        silences = []
        cached = self.jobs.get(key)
        for each in self._children.get(cached.job.uid, ()) if cached else ():
            node = self.nodes.get(getattr(self._objects[each][1], "node", ""))
            if node is not None and node.is_silent and now - node.since_s < self._node_timeout_s:
                silences.append(self._node_timeout_s - (now - node.since_s))
        return min(silences, default=None)

    def _remember_gone(self, uid: str, version: int) -> None:
        """Without a version nothing of it counts any more."""
        if uid:
            self._gone[uid] = version or NEVER_AGAIN
            if len(self._gone) > MOST_GONE:
                del self._gone[next(iter(self._gone))]

    def _is_gone(self, metadata: JsonMapping, version: int) -> bool:
        """A watch also says "deleted" of what has lost its label.
        Another watch tells of it in the same version, not as deleted.
        """
        end = self._gone.get(str(metadata.get("uid") or ""))
        return end is not None and (version < end or (version == end and metadata.get("deletionTimestamp") is not None))

    def count(self, kind: str) -> int:
        return len(self.jobs) if kind == JOB else sum(1 for key in self._objects if key[0] == kind)

    def _kept_ports(self, key: JobKey, job: PaddleJob) -> tuple[tuple[str, int], ...]:
        if job.spec.intranet is not Intranet.HOST:
            return ()
        return tuple(row for other, cached in self.jobs.items() if other != key for row in self._ports_of(cached.job))

    def _ports_of(self, job: PaddleJob) -> Iterator[tuple[str, int]]:
        report = job.report
        if job.spec.intranet is not Intranet.HOST or (report.phase is not None and report.phase.is_over):
            return
        for name, port in report.node_ports or ((("", report.port),) if report.port else ()):
            pod = self.get(POD, job.namespace, name) if name else None
            yield (getattr(pod, "node", "") or "*", port)

    # ---- inside

    def _tell(self, key: ObjectKey, owner_uid: str) -> None:
        job = self._keys_by_uid.get(owner_uid)
        if job is not None:
            self._changed(job)
        for blocked in self._blocked.get(key, ()):
            self._changed(blocked)

    def _tell_pods_of(self, node: str) -> None:
        owners = {seen.owner_uid for _, seen in self._objects.values() if getattr(seen, "node", "") == node}
        for uid in owners:
            job = self._keys_by_uid.get(uid)
            if job is not None:
                self._changed(job)

    def _unlink(self, key: ObjectKey, owner_uid: str) -> None:
        siblings = self._children.get(owner_uid)
        if siblings is not None:
            siblings.pop(key, None)
            if not siblings:
                del self._children[owner_uid]

    def _forget_job(self, key: JobKey, known: CachedJob) -> None:
        if self._keys_by_uid.get(known.job.uid) == key:
            del self._keys_by_uid[known.job.uid]
        for each in self._blocked_by.pop(key, {}):
            self._blocked.get(each, {}).pop(key, None)


def owner_uid_of(body: JsonMapping) -> str:
    """The UID of an object's controller."""
    return owner_of(body["metadata"])
