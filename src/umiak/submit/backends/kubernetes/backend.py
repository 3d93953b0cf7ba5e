"""The backend `kubernetes`: a run as objects of a cluster. An adapter.

Names of objects follow from the run's id, and all of them have its digest: a submission that is repeated finds what
is there. The workload comes last, and owns the rest from then on, so that nothing is left behind when it is deleted.
"""

from __future__ import annotations

import os
import time

from umiak.core.job import Handle
from umiak.core.problem import Problem, UmiakError
from umiak.core.shown import without_password
from umiak.kube.answers import KubeRefused, KubeSilent
from umiak.kube.times import maybe, text_of
from umiak.submit.backend import Pinning
from umiak.submit.backends.kubernetes import manifests, sending, settings, state
from umiak.submit.backends.kubernetes.manifests import collection
from umiak.submit.backends.kubernetes.names import CANCELLED, KIND, MANAGED_BY, OURS, RUN_ID, RunNames
from umiak.submit.backends.kubernetes.planning import KubePlanning
from umiak.submit.backends.kubernetes.settings import WorkloadKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.core.status import JobStatus
    from umiak.submit.backend import (
        JobNode,
        LogLine,
        LogsWanted,
        NodeChannel,
        PlaceCheck,
        RunFileRoots,
        Submission,
        SubmitContext,
    )
    from umiak.submit.places import NamedPlace

NAME = "kubernetes"
LOOK_S = 0.5
"""Between two looks at pods that end."""
STATUS_S = 1.0
"""Between two looks at a workload whose logs are followed."""
LINES_S = 0.1
"""How long lines are waited for before new pods are looked for."""
OUTAGE_S = 600.0
"""How long an API may be silent before a follower gives up."""
MOST_AT_ONCE = 200
"""Logs of more pods are not read side by side: those of the first pods come first."""
ENDING_S = 60.0
"""For pods to be gone after their grace."""
REMEMBERED_S = 7 * 86400.0
"""How long a cancelled run is remembered in the cluster."""


def make(place: NamedPlace, context: SubmitContext) -> KubeBackend:
    """The entry point of this backend."""
    return KubeBackend(place.name, settings.read(place), context)


class KubeBackend(KubePlanning, Pinning):
    """One cluster, or a namespace of it."""

    # ---- submitting

    def submit(self, submission: Submission) -> Handle:
        """Create what is not there."""
        parts = self._parts(submission.job)
        objects = manifests.objects(submission.job, submission.run_id, self._settings, parts)
        with self._telling():
            sending.ObjectSender(self._place, self._client, self._payload).send(
                objects, submission, self._large_files(submission.job, parts)
            )
        return Handle(backend=NAME, place=self._place, id=submission.run_id)

    def examine(self) -> Iterator[PlaceCheck]:
        """Whether the cluster answers, and whether this person may do there what submitting needs."""
        from umiak.submit.backend import PlaceCheck
        from umiak.submit.backends.kubernetes import rights

        with self._telling():
            findings = rights.look(self._client, self._namespace)
        server = without_password(self._access.server)
        kind = self._settings.kind.value if self._settings.kind else findings.kind
        yield PlaceCheck(text=f"{server}: Kubernetes {findings.version}, jobs are made into a {kind}")
        if findings.missing:
            what = f"rights are missing in the namespace {self._namespace}: {', '.join(findings.missing)}"
            hint = "ask the cluster's administrator for a Role with them, or take another namespace"
            yield PlaceCheck(text=what, problem=Problem(code="UM-SUBMIT-193", what=what, hint=hint))
        else:
            yield PlaceCheck(text=f"namespace {self._namespace}: all rights that submitting needs")

    def pinned(self) -> Mapping[str, str]:
        """The cluster does not change with the current context, nor with the working directory."""
        from umiak.kube import access

        files = access.paths(self._settings.kubeconfig, self._context.environ)
        named = [os.path.join(self._context.directory, each) for each in files if os.path.exists(each)]
        return {
            "context": self._access.context,
            "namespace": self._namespace,
            "kubeconfig": named[0] if len(named) == 1 and len(files) == 1 else "",
        }

    # ---- asking

    def status(self, handle: Handle) -> JobStatus:
        """From the workload and its pods."""
        with self._telling():
            return state.status_of(self._facts(handle))

    def logs(self, handle: Handle, wanted: LogsWanted) -> Iterator[LogLine]:
        """The lines of all pods, through the API, in the order of time; new ones as they come."""
        with self._telling():
            yield from self._followed(handle, wanted) if wanted.follow else self._read(handle, wanted)

    def _read(self, handle: Handle, wanted: LogsWanted) -> Iterator[LogLine]:
        from umiak.submit.backends.kubernetes.log_streams import PodLog, source_of
        from umiak.submit.logs.order import by_time

        pods = sorted(self._facts(handle).pods, key=lambda each: str(each["metadata"].get("creationTimestamp")))
        collection = self._collection("Pod")
        sources = [source_of(pod) for pod in pods]
        logs = [PodLog(self._client, f"{collection}/{each.pod}", each, wanted).read() for each in sources]
        # Each has a connection of its own while they are read side by side.
        for first in range(0, len(logs), MOST_AT_ONCE):
            yield from by_time(logs[first : first + MOST_AT_ONCE])

    def _followed(self, handle: Handle, wanted: LogsWanted) -> Iterator[LogLine]:
        from umiak.submit.backends.kubernetes.log_streams import LogStreams
        from umiak.submit.backends.kubernetes.pod_watch import PodWatch

        path, names = self._collection("Pod"), RunNames.of(handle.id)
        with (
            PodWatch(self._connect(), path, names.selector) as watch,
            LogStreams(self._connect, path, wanted) as streams,
        ):
            ask_at, is_over, silent_since = 0.0, False, 0.0
            while True:
                streams.look(watch.pods)
                yield from streams.lines(wait_s=LINES_S)
                if is_over and streams.is_done:
                    return
                if time.monotonic() < ask_at:
                    continue
                try:
                    facts = self._facts(handle)
                except KubeSilent:
                    silent_since = silent_since or time.monotonic()
                    if time.monotonic() - silent_since > OUTAGE_S:
                        raise
                    continue
                silent_since = 0.0
                is_over = state.status_of(facts).state.is_over
                if is_over:
                    streams.look(facts.pods)
                ask_at = time.monotonic() + STATUS_S

    def cancel(self, handle: Handle, grace_s: float) -> None:
        """Remember that it was cancelled, delete it, and wait for its pods to be gone."""
        names = RunNames.of(handle.id)
        with self._telling():
            facts = self._facts(handle)
            if state.status_of(facts).state.is_over:
                return
            now = text_of(int(time.time()))
            record = f"{self._collection('ConfigMap')}/{names.plan}"
            try:
                # It outlives the workload from now on: it says how the run ended.
                self._client.patch(record, {"metadata": {"ownerReferences": None, "annotations": {CANCELLED: now}}})
            except KubeRefused as refused:
                if refused.status != 404:
                    raise
            self._delete_workloads(facts)
            deadline = time.monotonic() + grace_s + ENDING_S
            while True:
                pods, _ = self._client.list(self._collection("Pod"), labelSelector=names.selector)
                alive = [pod for pod in pods if state.phase(pod) not in ("Succeeded", "Failed")]
                for pod in alive:
                    if not _is_ending(pod, int(grace_s)):
                        path = f"{self._collection('Pod')}/{pod['metadata']['name']}"
                        self._client.delete(path, {"gracePeriodSeconds": int(grace_s)})
                if not alive and not self._facts(handle).workloads:
                    break
                if time.monotonic() >= deadline:
                    raise self._stays(handle, tuple(pod["metadata"]["name"] for pod in alive))
                time.sleep(LOOK_S)
            self._clean(names)

    def _delete_workloads(self, facts: state.KubeFacts) -> None:
        for each in facts.workloads:
            path = f"{self._collection(str(each['kind']))}/{each['metadata']['name']}"
            self._client.delete(path, {"propagationPolicy": "Background"})

    def _clean(self, names: RunNames) -> None:
        """What belonged to a cancelled run, and what is left of those that were cancelled long ago."""
        self._client.delete(f"{self._collection('Secret')}/{names.secret}")
        for kind, name in (("ConfigMap", names.launcher), ("ConfigMap", names.files), ("Service", names.name)):
            self._client.delete(f"{self._collection(kind)}/{name}")
        now = time.time()
        records, _ = self._client.list(self._collection("ConfigMap"), labelSelector=f"{MANAGED_BY}={OURS}")
        for record in records:
            ended = maybe((record["metadata"].get("annotations") or {}).get(CANCELLED))
            if ended is not None and now - ended > REMEMBERED_S:
                self._client.delete(f"{self._collection('ConfigMap')}/{record['metadata']['name']}")

    def list(self) -> Iterable[Handle]:
        """Every run of this namespace, of all people."""
        with self._telling():
            records, _ = self._client.list(self._collection("ConfigMap"), labelSelector=f"{MANAGED_BY}={OURS}")
        run_ids = {
            (each["metadata"].get("annotations") or {}).get(RUN_ID)
            for each in records
            if str(each["metadata"]["name"]).endswith("-plan")
        }
        return [Handle(backend=NAME, place=self._place, id=run_id) for run_id in sorted(filter(None, run_ids))]

    # ---- its nodes

    def nodes(self, handle: Handle) -> Sequence[JobNode]:
        """The pods that run."""
        from umiak.submit.backends.kubernetes import nodes
        from umiak.submit.reach.nodes import check_running

        with self._telling():
            facts = self._facts(handle)
        check_running(handle, state.status_of(facts))
        return nodes.nodes_of(facts, handle, self._settings.python)

    def files(self, handle: Handle) -> Sequence[RunFileRoots]:
        """The working directories of the pods that run."""
        from umiak.submit.backends.kubernetes import nodes

        with self._telling():
            facts = self._facts(handle)
        return nodes.roots_of(nodes.nodes_of(facts, handle, self._settings.python), handle)

    def open(self, node: JobNode) -> NodeChannel:
        """Through the API, with a connection of its own."""
        from umiak.submit.backends.kubernetes import nodes

        with self._telling():
            return nodes.opened(self._connect(), self._collection("Pod"), node, self._place)

    # ---- what is known

    def _facts(self, handle: Handle) -> state.KubeFacts:
        names = RunNames.of(handle.id)
        record = None
        try:
            record = self._client.get(f"{self._collection('ConfigMap')}/{names.plan}")
        except KubeRefused as refused:
            if refused.status != 404:
                raise
        annotations = ((record or {}).get("metadata") or {}).get("annotations") or {}
        kinds = (
            [annotations[KIND]]
            if annotations.get(KIND) in [each.value for each in WorkloadKind]
            else [each.value for each in WorkloadKind]
        )
        workloads: list[JsonObject] = []
        for kind in kinds:
            word = manifests.KINDS[WorkloadKind(kind)]
            try:
                found, _ = self._client.list(self._collection(word), labelSelector=names.selector)
            except KubeRefused as refused:
                if refused.status not in (403, 404) or len(kinds) == 1:
                    raise
                continue
            # A JobSet's own Jobs have the label as well.
            workloads += [{"kind": word, **each} for each in found]
            if workloads:
                break
        pods, _ = self._client.list(self._collection("Pod"), labelSelector=names.selector)
        return state.KubeFacts(
            workloads=tuple(workloads), pods=tuple(pods), record=record, expected=state.expected(workloads)
        )

    def _collection(self, kind: str) -> str:
        return collection(kind, self._namespace)

    def _stays(self, handle: Handle, pods: tuple[str, ...]) -> UmiakError:
        return UmiakError.refused(
            "UM-SUBMIT-190",
            f"{self._place}: the run does not end: {handle}",
            why=f"still there: {', '.join(pods[:5]) or 'its workload'}",
            hint="does its node answer, and does its operator run? `kubectl describe pod` tells more",
        )


def _is_ending(pod: JsonMapping, grace_s: int) -> bool:
    metadata = pod["metadata"]
    given = metadata.get("deletionGracePeriodSeconds")
    return bool(metadata.get("deletionTimestamp")) and (given is None or int(given) <= grace_s)
