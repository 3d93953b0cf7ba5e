"""Sends the objects of a run to a cluster, each once, however often it is asked for. An adapter.

    ObjectSender("prod", api, KubePayload(directory, environ)).send(objects, submission, files_url)

Workloads are tried first and created last. What was created of a run that is then refused is removed again.
"""

from __future__ import annotations

import os

from umiak.core.problem import UmiakError
from umiak.kube.answers import KubeRefused, KubeSilent
from umiak.submit.backend import AnswerLost
from umiak.submit.backends.kubernetes import manifests
from umiak.submit.backends.kubernetes.names import DIGEST, RUN, RUN_ID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.core.job import FileSet, Job
    from umiak.core.json_types import JsonObject
    from umiak.kube.api import KubeApi
    from umiak.submit.backend import Submission
    from umiak.submit.backends.kubernetes.manifests import KubeObject
    from umiak.submit.payload.file_manifest import FoundFiles
    from umiak.submit.payload.launcher_file import LauncherFile


class KubePayload:
    """What travels with a run: the launcher's file, and the job's own."""

    def __init__(self, directory: str, environ: Mapping[str, str]) -> None:
        self._directory = directory
        self.environ = environ
        self._files: dict[FileSet | None, tuple[FoundFiles, int]] = {}
        self._launcher: LauncherFile | None = None

    def launcher(self) -> LauncherFile:
        if self._launcher is None:
            from umiak.submit.payload import launcher_file

            self._launcher = launcher_file.find()
        return self._launcher

    def collected(self, files: FileSet) -> tuple[FoundFiles, int]:
        """The job's files, and the size of their archive."""
        from umiak.submit.payload import file_set

        if files not in self._files:
            collected = file_set.collect(files, self._directory)
            self._files[files] = collected, 0
            self._files[files] = collected, len(self.packed(files))
        return self._files[files]

    def packed(self, files: FileSet | None) -> bytes:
        import tempfile  # as everything here that a dry run does not need

        from umiak.submit.payload import file_set

        with tempfile.TemporaryDirectory(prefix="umiak-files-") as directory:
            path = os.path.join(directory, manifests.ARCHIVE)
            file_set.pack(self._files[files][0], path)
            with open(path, "rb") as file:
                return file.read()


class ObjectSender:
    """Creates objects in one cluster."""

    def __init__(self, place: str, client: KubeApi, payload: KubePayload) -> None:
        self._place = place
        self._client = client
        self._payload = payload

    def send(self, made: tuple[KubeObject, ...], submission: Submission, files_url: str) -> None:
        """Create what is not there. `AnswerLost` if it can't be told whether the job was started."""
        workloads = [each for each in made if each.kind in manifests.WORKLOADS]
        ours: list[KubeObject] = []
        is_known_absent = is_begun = False
        try:
            there = [self._is_there(each) for each in workloads]
            is_begun = any(there)
            is_known_absent = not is_begun
            if is_known_absent:
                for each in workloads:
                    self._try(each)
                self._store(submission.job, files_url)
            for each in made:
                # From the first workload on, it can't be told from here whether something runs.
                is_known_absent = is_known_absent and each not in workloads
                self._create(each, submission)
                ours.append(each)
        except KubeSilent as silent:
            if not is_known_absent:
                raise AnswerLost(self._place, f"{silent.why} ({silent.request})") from silent
            self._remove(ours)
            raise
        except (KubeRefused, UmiakError):
            if not is_begun:
                self._remove(ours)
            raise
        self._adopt(made, workloads)

    def _try(self, each: KubeObject) -> None:
        """Let the cluster check a workload before anything is created: rights, quotas, rules, its kind."""
        try:
            self._client.create(each.collection, each.body, dryRun="All")
        except KubeRefused as refused:
            if refused.status == 404 and each.kind != "Job":
                raise UmiakError.refused(
                    "UM-SUBMIT-189",
                    f"{self._place}: the cluster has no {each.kind}",
                    why=f"{refused.status} {refused.reason}: {refused.message}",
                    hint=f"leave `kind` out of [place.{self._place}] to take what there is, or install its operator",
                ) from None
            # Some clusters have webhooks that can't be tried.
            if refused.status != 409 and "dry run" not in refused.message and "dryRun" not in refused.message:
                raise

    def _create(self, each: KubeObject, submission: Submission) -> None:
        """One of this name that is ours is as good."""
        try:
            self._client.create(each.collection, self._filled(each, submission))
        except KubeRefused as refused:
            if refused.status != 409 or not self._is_there(each):
                raise

    def _is_there(self, each: KubeObject) -> bool:
        """Whether an object is there, and is the one that is meant."""
        try:
            present = self._client.get(f"{each.collection}/{each.name}")
        except KubeRefused as refused:
            if refused.status == 404:
                return False
            raise
        own, theirs = each.body["metadata"], present.get("metadata") or {}
        is_ours = (theirs.get("labels") or {}).get(RUN) == own["labels"][RUN]
        digest = (theirs.get("annotations") or {}).get(DIGEST)
        if is_ours and digest == own["annotations"][DIGEST]:
            return True
        if is_ours:
            why = "it was submitted before with other files, settings or another version of umiak"
            hint = f"`umiak status kubernetes://{self._place}/{own['annotations'][RUN_ID]}` shows it, `umiak cancel` ends it"
        else:
            why, hint = "it is not umiak's", "use another name for the job"
        what = f"{self._place}: there is something else of this name: {each.kind} {each.namespace}/{each.name}"
        raise UmiakError.refused("UM-SUBMIT-184", what, why=why, hint=hint)

    def _filled(self, each: KubeObject, submission: Submission) -> JsonObject:
        """With secrets and archives, which are in no rendered text."""
        if each.filled == "secrets":
            return {**each.body, "data": {name: _base64(text.encode()) for name, text in submission.secrets.items()}}
        if each.filled == "launcher":
            with open(self._payload.launcher().path, "rb") as file:
                return {**each.body, "binaryData": {each.content[0][0]: _base64(file.read())}}
        if each.filled == "files":
            return {
                **each.body,
                "binaryData": {each.content[0][0]: _base64(self._payload.packed(submission.job.files))},
            }
        return each.body

    def _adopt(self, made: tuple[KubeObject, ...], workloads: list[KubeObject]) -> None:
        """Everything else goes with the workloads.
        What fails here is done by `cancel`, and keeps no job from running.
        """
        try:
            owners = []
            for each in workloads:
                present = self._client.get(f"{each.collection}/{each.name}")
                owners.append(
                    {
                        "apiVersion": each.body["apiVersion"],
                        "kind": each.kind,
                        "name": each.name,
                        "uid": present["metadata"]["uid"],
                    }
                )
            for each in made:
                if each not in workloads:
                    self._client.patch(f"{each.collection}/{each.name}", {"metadata": {"ownerReferences": owners}})
        except (KubeRefused, KubeSilent, KeyError):
            pass

    def _remove(self, created: list[KubeObject]) -> None:
        """What was created of a run that was refused."""
        try:
            for each in reversed(created):
                self._client.delete(f"{each.collection}/{each.name}", {"propagationPolicy": "Background"})
        except (KubeRefused, KubeSilent):
            pass  # the first error is what is told

    def _store(self, job: Job, url: str) -> None:
        """Files that are too large for a ConfigMap."""
        if not url:
            return
        import tempfile

        from umiak.submit.payload import transfer

        with tempfile.TemporaryDirectory(prefix="umiak-files-") as directory:
            path = os.path.join(directory, os.path.basename(url))
            with open(path, "wb") as file:
                file.write(self._payload.packed(job.files))
            transfer.bring_out(path, url, self._payload.environ)


def _base64(data: bytes) -> str:
    import base64

    return base64.b64encode(data).decode()
