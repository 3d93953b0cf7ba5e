"""What a cluster's API says of PaddleJobs to one person: lists, one job with its pods, ends of logs. An adapter.

    source = ClusterSource(access, environ, namespaces=("training",))
    source.bodies()                     all jobs that this person may list, and why others are not among them
    source.job(namespace, name, api)    one, with its pods
    source.lines(namespace, log)        the end of a log

One request at a time, each with a limit; the rights are those of the credentials in ``access``, and of nobody else.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque

from umiak.dashboard.cluster.job_view import JOB_LABELS, ContainerLog
from umiak.kube.answers import KubeRefused
from umiak.kube.api import KubeApi
from umiak.paddlejob.resource import PLURAL, JobApi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from umiak.core.json_types import JsonObject
    from umiak.kube.kubeconfig import KubeAccess

TIMEOUT_S = 10.0
ATTEMPTS = 2
LOG_LINES = 2000
MOST_LOG_BYTES = 32 << 20
LOG_WITHIN_S = 15.0


class Stranger(Exception):
    """The cluster does not know these credentials, or not any more."""


class ClusterSource:
    """One cluster as one person may see it. Any thread may ask."""

    def __init__(
        self,
        access: KubeAccess,
        environ: Mapping[str, str],
        *,
        namespaces: tuple[str, ...] = (),
        with_kubeflow: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._api = KubeApi(access, environ, timeout_s=timeout_s, attempts=ATTEMPTS)
        self._namespaces = namespaces
        self._apis = (JobApi.BATCH, JobApi.KUBEFLOW) if with_kubeflow else (JobApi.BATCH,)
        self._own = access.namespace
        self._lock = threading.Lock()
        self._is_closed = False

    def bodies(self) -> tuple[list[tuple[JobApi, JsonObject]], list[str]]:
        """Stranger for credentials that the cluster does not know; KubeSilent if it does not answer."""
        found: list[tuple[JobApi, JsonObject]] = []
        problems: list[str] = []
        with self._asking():
            for api in self._apis:
                bodies, refused = self._list(api)
                found += [(api, body) for body in bodies]
                problems += refused
        return found, problems

    def _list(self, api: JobApi) -> tuple[list[JsonObject], list[str]]:
        if not self._namespaces:
            try:
                return self._api.list(f"/apis/{api.value}/{PLURAL}")[0], []
            except KubeRefused as refused:
                _check(refused)
                if refused.status == 404:
                    return [], [] if api is JobApi.KUBEFLOW else [
                        "the cluster knows no PaddleJobs: `umiak deploy --crd`"
                    ]
                if not self._own:
                    return [], [_told(refused), "name the namespaces in which you may list PaddleJobs"]
        bodies: list[JsonObject] = []
        problems = []
        for namespace in self._namespaces or (self._own,):
            try:
                bodies += self._api.list(f"/apis/{api.value}/namespaces/{namespace}/{PLURAL}")[0]
            except KubeRefused as refused:
                _check(refused)
                problems.append(_told(refused))
        return bodies, problems

    def job(self, namespace: str, name: str, api: JobApi) -> tuple[JsonObject, list[JsonObject], str]:
        """The job, its pods, and why pods can't be seen. KubeRefused with 404 if there is none, with 403 if this person may not see it."""
        with self._asking():
            try:
                body = self._api.get(f"/apis/{api.value}/namespaces/{namespace}/{PLURAL}/{name}")
                try:
                    label = f"{JOB_LABELS[api]}={name}"
                    pods, _ = self._api.list(f"/api/v1/namespaces/{namespace}/pods", labelSelector=label)
                except KubeRefused as refused:
                    _check(refused)
                    return body, [], _told(refused)
            except KubeRefused as refused:
                _check(refused)
                raise
        return body, pods, ""

    def lines(self, namespace: str, log: ContainerLog, most: int = LOG_LINES) -> list[bytes]:
        """The last lines, each behind the time when it was written."""
        query = {"container": log.container, "timestamps": "true", "tailLines": str(most)}
        query |= {"previous": "true"} if log.is_previous else {}
        kept: deque[bytes] = deque(maxlen=most)
        taken, until = 0, time.monotonic() + LOG_WITHIN_S
        with self._asking():
            try:
                for line in self._api.stream(f"/api/v1/namespaces/{namespace}/pods/{log.pod}/log", query):
                    kept.append(line)
                    taken += len(line)
                    if taken > MOST_LOG_BYTES or time.monotonic() > until:
                        break
            except KubeRefused as refused:
                _check(refused)
                raise
        return list(kept)

    def check(self) -> None:
        """Whether the cluster knows these credentials. Stranger, KubeRefused or KubeSilent if not."""
        attributes = {"group": JobApi.BATCH.value.partition("/")[0], "resource": PLURAL, "verb": "list"}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        with self._asking():
            try:
                self._api.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
            except KubeRefused as refused:
                _check(refused)
                raise

    def close(self) -> None:
        """What is being asked is not waited for."""
        self._is_closed = True
        if self._lock.acquire(blocking=False):
            self._api.close()
            self._lock.release()

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            finally:
                if self._is_closed:
                    self._api.close()


def _check(refused: KubeRefused) -> None:
    if refused.status == 401:
        raise Stranger(_told(refused)) from None


def _told(refused: KubeRefused) -> str:
    return f"the cluster has refused: {refused.message or refused.reason} ({refused.status})"
