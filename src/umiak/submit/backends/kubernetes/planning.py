"""What a job becomes in a cluster, as far as it can be told before anything is sent; and the way to the cluster.
An adapter.

    KubePlanning(place, settings, context).check(job), .render(job, run_id)

For a dry run neither a kubeconfig nor an answer of the cluster is needed: what they would say is a placeholder.
"""

from __future__ import annotations

import contextlib

from umiak.core.bundle import Bundle, placeholder
from umiak.core.problem import Problem, UmiakError
from umiak.core.shown import without_password
from umiak.core.value import replace, value
from umiak.kube import answers
from umiak.kube.answers import KubeRefused, KubeSilent
from umiak.submit.backend import FilesSent, OfflineCheck
from umiak.submit.backends.kubernetes import checks, manifests, sending, settings, yaml_text
from umiak.submit.backends.kubernetes.manifests import ClusterParts
from umiak.submit.backends.kubernetes.settings import WorkloadKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from umiak.core.job import Job
    from umiak.kube.api import KubeApi
    from umiak.kube.kubeconfig import KubeAccess
    from umiak.submit.backend import SubmitContext
    from umiak.submit.payload.file_manifest import FoundFiles

OFFLINE_S = 5.0
"""How long a dry run waits for the cluster."""
DISCOVERED = {"batch.paddlepaddle.org": WorkloadKind.PADDLEJOB, "jobset.x-k8s.io": WorkloadKind.JOBSET}
"""Groups of APIs, and what a cluster that has them can make of a job: the first that is there."""


class KubePlanning(OfflineCheck, FilesSent):
    """One cluster, or a namespace of it, before a job is there."""

    def __init__(self, place: str, said: settings.KubeSettings, context: SubmitContext) -> None:
        self._place = place
        self._settings = said
        self._context = context
        self._found: KubeAccess | None = None
        self._api: KubeApi | None = None
        self._kind: WorkloadKind | None = said.kind
        self._seen_offline: _OfflineCluster | None = None
        self._payload = sending.KubePayload(context.directory, context.environ)

    def check(self, job: Job) -> list[Problem]:
        """What can be told before anything is sent;
        the cluster is asked for what it has, if the place does not say it.
        """
        return self._problems(job, self._parts(job))

    def check_offline(self, job: Job) -> list[Problem]:
        """As `check`, also without a kubeconfig, and if the cluster does not answer."""
        try:
            return self._problems(job, self._parts_offline(job))
        except UmiakError as error:
            return list(error.problems)

    def missing_here(self, _: Job, /) -> list[Problem]:
        """A kubeconfig, and an answer of the cluster where the place does not say what a job becomes there."""
        return list(self._offline.missing)

    def files_sent(self, job: Job) -> FoundFiles | None:
        return self._payload.collected(job.files)[0] if job.files is not None else None

    def render(self, job: Job, run_id: str) -> Bundle:
        """Every object, as YAML."""
        return self._rendered(job, run_id, self._parts(job))

    def render_offline(self, job: Job, run_id: str) -> Bundle:
        """With placeholders for what a kubeconfig and the cluster would say."""
        rendered = self._rendered(job, run_id, self._parts_offline(job))
        if self._offline.kind is not None:
            return rendered
        unknown = placeholder("what a job becomes in this cluster", is_missing=True)
        warning = f"{unknown}: the plan has a plain Job; `kind =` in [place.{self._place}] says which it is"
        return replace(rendered, requests=(warning, *rendered.requests))

    def _rendered(self, job: Job, run_id: str, parts: ClusterParts) -> Bundle:
        objects = manifests.objects(job, run_id, self._settings, parts)
        requests = [f"POST {each.collection}\n{yaml_text.as_yaml(manifests.shown(each))}" for each in objects]
        if url := self._large_files(job, parts):
            requests.insert(0, f"upload {parts.files_bytes} bytes to {without_password(url)}")
        return Bundle(requests=tuple(requests))

    def _large_files(self, job: Job, parts: ClusterParts) -> str:
        """Where the job's files are stored, if a ConfigMap can't take them."""
        files = manifests.plan_of(job, job.roles[0], "run", self._settings, parts).files
        return files.url if files else ""

    def _problems(self, job: Job, parts: ClusterParts) -> list[Problem]:
        secret_bytes = sum(len(self._context.environ.get(name, "").encode()) for name in job.secrets)
        return list(checks.problems(job, self._place, self._settings, parts, secret_bytes))

    def _parts(self, job: Job) -> ClusterParts:
        return self._parts_for(job, self._namespace, self._workload_kind())

    def _parts_offline(self, job: Job) -> ClusterParts:
        known = self._offline
        return self._parts_for(job, known.namespace, known.kind or WorkloadKind.JOB)

    @property
    def _offline(self) -> _OfflineCluster:
        """Asked once, and not for long: a plan is worth no more than that."""
        if self._seen_offline is None:
            namespace, kind = self._settings.namespace, self._kind
            missing: tuple[Problem, ...] = ()
            try:
                access = self._access
                namespace = namespace or access.namespace or "default"
                if kind is None:
                    with contextlib.closing(self._connect(is_brief=True)) as client:
                        kind = self._discovered(client)
            except UmiakError as error:
                missing = error.problems
            namespace = namespace or placeholder("namespace of your kubeconfig", is_missing=True)
            self._seen_offline = _OfflineCluster(namespace=namespace, kind=kind, missing=missing)
        return self._seen_offline

    def _parts_for(self, job: Job, namespace: str, kind: WorkloadKind) -> ClusterParts:
        launcher = self._payload.launcher()
        files, packed = self._payload.collected(job.files) if job.files is not None else (None, 0)
        return ClusterParts(
            namespace=namespace,
            kind=kind,
            launcher_sha256=launcher.sha256,
            launcher_bytes=launcher.size_bytes,
            files_digest=files.manifest.digest if files else "",
            files_bytes=packed,
        )

    def _workload_kind(self) -> WorkloadKind:
        """As the place says, or what the cluster has."""
        if self._kind is None:
            self._kind = self._discovered(self._client)
        return self._kind

    def _discovered(self, client: KubeApi) -> WorkloadKind:
        with self._telling():
            groups = {each.get("name") for each in client.get("/apis").get("groups") or ()}
        return next((kind for group, kind in DISCOVERED.items() if group in groups), WorkloadKind.JOB)

    @property
    def _namespace(self) -> str:
        return self._settings.namespace or self._access.namespace or "default"

    @property
    def _access(self) -> KubeAccess:
        if self._found is None:
            from umiak.kube import access

            settings = self._settings
            self._found = access.find(
                self._context.environ, kubeconfig_file=settings.kubeconfig, context=settings.context
            )
        return self._found

    @property
    def _client(self) -> KubeApi:
        if self._api is None:
            self._api = self._connect()
        return self._api

    def _connect(self, *, is_brief: bool = False) -> KubeApi:
        from umiak.kube.api import KubeApi  # with TLS and HTTP, which a place that says everything does not need

        wait_s: float | None = self._settings.request_timeout_s or None
        if is_brief:
            wait_s = min(OFFLINE_S, wait_s or OFFLINE_S)
        attempts = 1 if is_brief else None
        return KubeApi(self._access, self._context.environ, timeout_s=wait_s, attempts=attempts)

    def _telling(self) -> _Telling:
        return _Telling(lambda error: answers.told(error, self._place, self._access), self._hang_up)

    def _hang_up(self) -> None:
        if self._api is not None:
            self._api.close()


@value
class _OfflineCluster:
    """What is known of a cluster for a plan."""

    namespace: str
    """Or a placeholder."""
    kind: WorkloadKind | None
    missing: tuple[Problem, ...]


class _Telling:
    """Makes what the API says an error for people, and keeps no connection when all is said."""

    def __init__(self, told: Callable[[KubeRefused | KubeSilent], UmiakError], done: Callable[[], None]) -> None:
        self._told, self._done = told, done

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._done()
        if isinstance(error, (KubeRefused, KubeSilent)):
            raise self._told(error) from None
