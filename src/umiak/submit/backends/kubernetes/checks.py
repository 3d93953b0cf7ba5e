"""What keeps a job from running in a cluster, as far as it can be told without asking the cluster. A decider.

problems(job, "prod", settings, kind, sizes)
"""

from __future__ import annotations

from umiak.core.problem import Problem
from umiak.submit.backends.kubernetes.manifests import MOST_BYTES, ROOM_BYTES
from umiak.submit.backends.kubernetes.settings import VOLCANO, WorkloadKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.core.job import Job
    from umiak.submit.backends.kubernetes.manifests import ClusterParts
    from umiak.submit.backends.kubernetes.settings import KubeSettings

MOST_SECRET_BYTES = MOST_BYTES - ROOM_BYTES


def problems(job: Job, place: str, settings: KubeSettings, parts: ClusterParts, secret_bytes: int) -> Iterator[Problem]:
    """All of them."""
    if not (job.image or settings.image):
        yield Problem(
            code="UM-SUBMIT-185",
            what=f"{place}: no image: pods need one with Python 3.10 or newer and what the job imports",
            hint=f"write `image:` in the job, or `image =` in [place.{place}]",
        )
    if parts.kind is WorkloadKind.PADDLEJOB:
        yield from _as_paddlejob(place, settings)
    if parts.launcher_bytes > MOST_BYTES - ROOM_BYTES:
        yield Problem(
            code="UM-SUBMIT-186",
            what=f"{place}: the launcher is too large for a ConfigMap: {parts.launcher_bytes} bytes",
            why=f"a cluster takes {MOST_BYTES} bytes in one object",
        )
    if parts.has_large_files and not settings.files_url:
        yield Problem(
            code="UM-SUBMIT-186",
            what=f"{place}: the job's files are too large for a ConfigMap: {parts.files_bytes} bytes packed",
            why=f"a cluster takes {MOST_BYTES} bytes in one object",
            hint=f"leave files out (.gitignore, `exclude:`), build them into the image, or name storage that you and "
            f'the pods reach: `files_url = "s3://bucket/files"` in [place.{place}]',
        )
    if secret_bytes > MOST_SECRET_BYTES:
        yield Problem(
            code="UM-SUBMIT-186",
            what=f"{place}: the job's secrets are too large for a Secret: {secret_bytes} bytes",
            why=f"a cluster takes {MOST_BYTES} bytes in one object",
        )
    if settings.queue and not settings.scheduler:
        yield Problem(
            code="UM-SUBMIT-187",
            what=f"{place}: queue without a scheduler that has queues: {settings.queue}",
            hint=f'write `scheduler = "{VOLCANO}"` or `scheduler = "kueue"` in [place.{place}]',
        )


def _as_paddlejob(place: str, settings: KubeSettings) -> Iterator[Problem]:
    if settings.ttl_s is not None:
        yield Problem(
            code="UM-SUBMIT-188",
            what=f"{place}: a PaddleJob has no ttl: its operator keeps it until it is deleted",
            hint=f"leave `ttl` out of [place.{place}], and cancel runs that are over",
        )
