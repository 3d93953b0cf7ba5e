"""Does what was decided: objects are created, written again and deleted, logs are read, statuses written. An adapter.

Every answer goes into the cache at once. A creation is idempotent by name and owner, a deletion by UID, and a status is
written only over the version of the job that was decided on; so all of it may be done again, and by another operator
after this one was killed.
"""

from __future__ import annotations

import asyncio
import logging
import time

from umiak.core.shown import inert
from umiak.core.value import replace
from umiak.kube.answers import KubeRefused, KubeSilent
from umiak.kube.requests import JSON_PATCH
from umiak.operator.cancellation import within
from umiak.operator.controller.cache import owner_uid_of
from umiak.operator.controller.kinds import (
    CONFIG_MAPS,
    JOB,
    JOBS,
    KUBEFLOW_JOBS,
    POD,
    PODS,
    SERVICE,
    SERVICES,
    ServedKind,
)
from umiak.operator.objects.names import JOB_NAME, WOKEN
from umiak.operator.objects.workloads import with_conditions
from umiak.operator.values import (
    STOP_S,
    CreateObject,
    DeleteObject,
    KeepLogs,
    PatchWorkload,
    Refusal,
    RemoveFinalizer,
    ReplaceObject,
    StopPod,
    WakePod,
)
from umiak.paddlejob.resource import JobApi
from umiak.paddlejob.templates.main_container import main_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.kube.async_api import AsyncKubeApi
    from umiak.operator.controller.cache import CachedJob, ClusterCache, JobKey
    from umiak.operator.controller.metrics import OperatorMetrics
    from umiak.operator.values import ClusterAction, Decision
    from umiak.paddlejob.resource import JobReport, PaddleJob

LOG = logging.getLogger("umiak.operator")
LOG_LINES = 20
LONGEST_LOG = 2000
LOG_S = 10.0
VERBS: dict[type, str] = {
    CreateObject: "create",
    ReplaceObject: "replace",
    DeleteObject: "delete",
    StopPod: "stop",
    WakePod: "wake",
    RemoveFinalizer: "finalizer",
    PatchWorkload: "patch",
}
"""As the metric calls them."""
BASIC = {each.kind: each for each in (PODS, SERVICES, CONFIG_MAPS)}


class ActionRefused(Exception):
    """The API has refused an action, and it is known which."""

    def __init__(self, refusal: Refusal, after_s: float = 0.0) -> None:
        super().__init__(f"{refusal.kind} {refusal.name}: {refusal.status} {refusal.reason}: {refusal.message}")
        self.refusal = refusal
        self.after_s = after_s


def jobs_kind(api: JobApi) -> ServedKind:
    """The resource that jobs of an API are."""
    return KUBEFLOW_JOBS if api is JobApi.KUBEFLOW else JOBS


class Performer:
    """Hands for decisions."""

    def __init__(
        self,
        api: AsyncKubeApi,
        cache: ClusterCache,
        served: Callable[[str], ServedKind | None],
        metrics: OperatorMetrics,
    ) -> None:
        self._api = api
        self._cache = cache
        self._served = served
        """Kinds of other groups, as this cluster serves them."""
        self._metrics = metrics

    async def perform(self, key: JobKey, job: PaddleJob, action: ClusterAction) -> None:
        """Do it. ActionRefused or KubeSilent if it was not done."""
        verb = VERBS[type(action)]
        kind = action.kind if not isinstance(action, RemoveFinalizer) else JOB
        try:
            if isinstance(action, CreateObject):
                await self._create(key, job, action)
            elif isinstance(action, ReplaceObject):
                await self._replace(job, action)
            elif isinstance(action, DeleteObject):
                await self._delete(job, action)
            elif isinstance(action, StopPod):
                await self._stop(job, action)
            elif isinstance(action, WakePod):
                await self._wake(job, action)
            elif isinstance(action, PatchWorkload):
                await self._patch_workload(job, action)
            else:
                await self._remove_finalizer(job, action)
        except KubeRefused as refused:
            self._metrics.count("umiak_operator_actions_total", verb=verb, kind=kind, result=str(refused.status))
            raise ActionRefused(
                Refusal(
                    kind=kind,
                    name=action.name,
                    status=refused.status,
                    reason=refused.reason,
                    message=refused.message,
                ),
                refused.after_s,
            ) from refused
        except KubeSilent:
            self._metrics.count("umiak_operator_actions_total", verb=verb, kind=kind, result="silent")
            raise
        self._metrics.count("umiak_operator_actions_total", verb=verb, kind=kind, result="done")

    async def write_status(self, cached: CachedJob, status: JsonMapping) -> CachedJob | None:
        """Write a status over the version of the job that was decided on.
        None if the job is another one by now, which is read again.
        """
        job = cached.job
        kind = jobs_kind(job.api)
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": job.uid},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": job.resource_version},
            {"op": "add", "path": "/status", "value": status},
        ]
        try:
            body = await self._api.patch(kind.path(job.namespace, job.name, "status"), patch, JSON_PATCH)
        except KubeRefused as refused:
            self._metrics.count("umiak_operator_status_writes_total", result=str(refused.status))
            if refused.status == 404:
                self._cache.remove_job(kind.group, job.namespace, job.name, job.uid)
                return None
            if refused.status in (409, 422):
                await self._read_job(job)
                if refused.status == 422 and self._is_same(kind, cached):
                    raise
                return None
            raise
        self._metrics.count("umiak_operator_status_writes_total", result="done")
        return self._cache.put_job(kind.group, body)

    async def with_logs(self, job: PaddleJob, decision: Decision) -> JobReport:
        """The report with the logs that are to be kept."""
        wanted = [action for action in decision.actions if isinstance(action, KeepLogs)]
        if not wanted:
            return decision.report
        texts = await asyncio.gather(*(self.last_lines(job, each) for each in wanted))
        kept = dict(decision.report.last_logs)
        kept.update({each.pod: text for each, text in zip(wanted, texts, strict=True)})
        return replace(decision.report, last_logs=tuple(kept.items()))

    async def last_lines(self, job: PaddleJob, wanted: KeepLogs) -> str:
        """The end of a pod's log; where it can't be read, a line that says why."""
        try:
            text = await self._log(job, wanted.pod, LOG_LINES, wanted.container, is_previous=wanted.is_previous)
        except Exception as error:  # noqa: BLE001 - whatever it is, the job goes on without the log
            why = f"{error.status} {error.reason}" if isinstance(error, KubeRefused) else type(error).__name__
            return f"(the log can't be read: {why})"
        return inert(text.strip())[-LONGEST_LOG:] or "(the log is empty)"

    async def tail(self, job: PaddleJob, pod: str, lines: int) -> str | None:
        """The last lines of a pod's log; None if they can't be read."""
        try:
            return await self._log(job, pod, lines)
        except Exception as error:  # noqa: BLE001 - whatever it is, the job goes on without the log
            LOG.debug("%s/%s: its log can't be read: %s", job.namespace, pod, error)
            return None

    async def _log(
        self, job: PaddleJob, pod: str, lines: int, container: str = "", *, is_previous: bool = False
    ) -> str:
        query = {"tailLines": str(lines), "limitBytes": str(16 * LONGEST_LOG)}
        if is_previous:
            query["previous"] = "true"
        container = container or self._main_container(job, pod)
        if container:
            query["container"] = container
        return await within(self._api.text(PODS.path(job.namespace, pod, "log"), **query), LOG_S)

    # ---- actions

    async def _create(self, key: JobKey, job: PaddleJob, action: CreateObject) -> None:
        kind = self._kind(action.kind)
        if action.kind not in BASIC:  # of several versions that are served, the one that the body is written in
            kind = replace(kind, version=str(action.body["apiVersion"]).rpartition("/")[2])
        body = _labelled(action.body, job)
        query = {"dryRun": "All"} if action.dry else {}
        try:
            created = await self._api.create(kind.collection(job.namespace), body, **query)
        except KubeRefused as refused:
            if refused.status != 409 or refused.reason != "AlreadyExists":
                raise
            try:
                present = await self._api.get(kind.path(job.namespace, action.name))
            except KubeRefused as gone:
                if gone.status == 404:
                    raise refused from None  # it was deleted just now: once more, a little later
                raise
            self._cache.put(action.kind, present)
            if owner_uid_of(present) != job.uid:
                self._cache.block(key, action.kind, job.namespace, action.name)
                raise
            return
        if not action.dry:
            self._cache.put(action.kind, created)

    async def _replace(self, job: PaddleJob, action: ReplaceObject) -> None:
        kind = self._kind(action.kind)
        path = kind.path(job.namespace, action.name)
        present = await self._api.get(path)
        metadata = present["metadata"]
        if metadata.get("uid") != action.uid:
            self._cache.put(action.kind, present)
            return
        body = _labelled(action.body, job)
        body["metadata"] = {**body["metadata"], "uid": action.uid, "resourceVersion": metadata.get("resourceVersion")}
        if action.kind == SERVICE:  # the API server has filled in fields that must stay
            body["spec"] = {**(present.get("spec") or {}), **(body.get("spec") or {})}
        if "status" in present:
            body["status"] = present["status"]
        self._cache.put(action.kind, await self._api.replace(path, body))

    async def _delete(self, job: PaddleJob, action: DeleteObject) -> None:
        options: JsonObject = {"preconditions": {"uid": action.uid}, "propagationPolicy": "Background"}
        if action.grace_s is not None:
            options["gracePeriodSeconds"] = action.grace_s
        kind = jobs_kind(job.api) if action.kind == JOB else self._kind(action.kind)
        try:
            answer = await self._api.delete(kind.path(job.namespace, action.name), options)
        except KubeRefused as refused:
            if refused.status not in (404, 409):
                raise
            answer = {}  # it is gone, or there is another one of this name
        if action.kind == JOB:
            return
        metadata = answer.get("metadata", {})
        # Without a grace period and without finalizers it is gone already, though the answer shows it as being deleted.
        is_left = metadata.get("deletionGracePeriodSeconds") != 0 or metadata.get("finalizers")
        if metadata.get("deletionTimestamp") and action.grace_s != 0 and is_left:
            self._cache.put(action.kind, answer)
        else:
            self._cache.remove(action.kind, job.namespace, action.name, uid=action.uid)

    async def _stop(self, job: PaddleJob, action: StopPod) -> None:
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": action.uid},
            {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": STOP_S},
        ]
        try:
            self._cache.put(POD, await self._api.patch(PODS.path(job.namespace, action.name), patch, JSON_PATCH))
        except KubeRefused as refused:
            if refused.status not in (404, 422):
                raise  # otherwise it is gone, or there is another one of this name

    async def _wake(self, job: PaddleJob, action: WakePod) -> None:
        body = {"metadata": {"uid": action.uid, "annotations": {WOKEN: action.note}}}
        try:
            self._cache.put(POD, await self._api.patch(PODS.path(job.namespace, action.name), body))
        except KubeRefused as refused:
            if refused.status not in (404, 409):
                raise  # otherwise it is gone, or there is another one of this name

    async def _patch_workload(self, job: PaddleJob, action: PatchWorkload) -> None:
        kind = self._kind(action.kind)
        try:
            body = await self._api.get(kind.path(job.namespace, action.name))
            metadata = body["metadata"]
            if (metadata.get("uid"), metadata.get("resourceVersion")) == (action.uid, action.version):
                now_s = time.time() + self._api.clock_ahead_s
                status = with_conditions(body, action.conditions, now_s, drops_admission=action.drops_admission)
                patch = [
                    {"op": "replace", "path": "/metadata/resourceVersion", "value": action.version},
                    {"op": "add", "path": "/status", "value": status},
                ]
                body = await self._api.patch(kind.path(job.namespace, action.name, "status"), patch, JSON_PATCH)
        except KubeRefused as refused:
            if refused.status == 409:
                return  # it is another one by now: the watch tells
            if refused.status != 404:
                raise
            self._cache.remove(action.kind, job.namespace, action.name, uid=action.uid)
            return
        self._cache.put(action.kind, body)

    async def _remove_finalizer(self, job: PaddleJob, action: RemoveFinalizer) -> None:
        kind = jobs_kind(job.api)
        left = [each for each in job.finalizers if each != action.name]
        body = {"metadata": {"finalizers": left, "uid": job.uid, "resourceVersion": job.resource_version}}
        try:
            answer = await self._api.patch(kind.path(job.namespace, job.name), body)
        except KubeRefused as refused:
            if refused.status == 404:
                self._cache.remove_job(kind.group, job.namespace, job.name, job.uid)
                return
            if refused.status == 409:
                await self._read_job(job)
            raise
        if job.is_deleting and not left:
            self._cache.remove_job(kind.group, job.namespace, job.name, job.uid)
        else:
            self._cache.put_job(kind.group, answer)

    # ---- helpers

    async def _read_job(self, job: PaddleJob) -> None:
        """What the API has, into the cache: the watch may be far behind."""
        kind = jobs_kind(job.api)
        try:
            self._cache.put_job(kind.group, await self._api.get(kind.path(job.namespace, job.name)))
        except KubeRefused as refused:
            if refused.status != 404:
                raise
            self._cache.remove_job(kind.group, job.namespace, job.name, job.uid)

    def _is_same(self, kind: ServedKind, cached: CachedJob) -> bool:
        now = self._cache.jobs.get((kind.group, cached.job.namespace, cached.job.name))
        return now is not None and now.version == cached.version and now.job.uid == cached.job.uid

    def _kind(self, kind: str) -> ServedKind:
        resource_kind = BASIC.get(kind) or self._served(kind)
        if resource_kind is None:
            raise KubeRefused(404, "NotServed", f"this cluster does not serve {kind}", kind)
        return resource_kind

    def _main_container(self, job: PaddleJob, pod: str) -> str:
        seen = self._cache.get(POD, job.namespace, pod)
        role = getattr(seen, "role", None)
        wish = job.spec.role(role) if role else None
        containers = ((wish.template.get("spec") or {}).get("containers") or ()) if wish else ()
        return main_name(containers)


def _labelled(body: JsonMapping, job: PaddleJob) -> JsonObject:
    """With the label by which it is found again: what the watches don't tell of would be made for ever."""
    metadata = body["metadata"]
    labels = {JOB_NAME: job.name[:63], **(metadata.get("labels") or {})}
    return {**body, "metadata": {**metadata, "labels": labels}}
