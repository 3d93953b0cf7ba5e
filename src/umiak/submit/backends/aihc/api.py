"""AIHC's training jobs through Baidu's SDK. An adapter.

The SDK signs and sends; its own retries are off, since they would create a job twice.
"""

from __future__ import annotations

import datetime as dt

from umiak.submit.backends.aihc.request import LABEL, seat
from umiak.submit.backends.cloud import sdk
from umiak.submit.backends.cloud.api import GONE, CloudFailure, CloudJob, CloudPod, LogPage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from umiak.submit.backend import LogsWanted

EXTRA = "baidu"
PAGE_SIZE = 50
MOST_LINES = 1000


class AihcApi:
    """One queue."""

    def __init__(self, keys: Mapping[str, str], *, endpoint: str, pool: str, queue: str, timeout_s: float) -> None:
        self._keys = keys
        self._at = {"resourcePoolId": pool, "queueID": queue}
        self._pool, self._queue = pool, queue
        token = keys.get("BCE_SESSION_TOKEN")
        base = sdk.load("baidubce.bce_client_configuration", EXTRA)
        credentials = sdk.load("baidubce.auth.bce_credentials", EXTRA)
        policy = sdk.load("baidubce.retry.retry_policy", EXTRA)
        protocol = sdk.load("baidubce.protocol", EXTRA)
        scheme, _, host = endpoint.partition("://")
        config = base.BceClientConfiguration(
            credentials=credentials.BceCredentials(keys["BCE_ACCESS_KEY_ID"], keys["BCE_SECRET_ACCESS_KEY"]),
            endpoint=host,
            protocol=protocol.HTTP if scheme == "http" else protocol.HTTPS,
            connection_timeout_in_mills=int(timeout_s * 1000),
            retry_policy=policy.NoRetryPolicy(),
            security_token=token or None,
        )
        self._client = sdk.load("baidubce.services.aihc.modules.job.job_client", EXTRA).JobClient(config)

    def named(self, name: str) -> list[CloudJob]:
        return sorted(
            (each for each in self._search(keywordType="name", keyword=name) if each.name == name),
            key=lambda each: (each.created_s or 0, each.id),
        )

    def create(self, body: dict[str, Any]) -> str:
        made = {**body, "dataSources": body["datasources"]}
        del made["datasources"]
        # The SDK would send null for these two.
        said = self._sent(self._client.CreateJob, **self._at, **made, enableBccl=False, faultTolerance=False)
        return sdk.made(said.get("jobId"))

    def job(self, job_id: str) -> CloudJob | None:
        try:
            said = self._sent(self._client.DescribeJob, **self._at, jobId=job_id, needDetail=True)
        except CloudFailure as error:
            if error.status in GONE:
                return None
            raise
        return job_of(said.get("job") or said)

    def page(self, job: CloudJob, pod: CloudPod, position: str, *, is_over: bool) -> LogPage:  # noqa: ARG002 - of the protocol
        """AIHC's marker is where an answer ended; a position is the marker and how many lines behind it were seen."""
        marker, _, seen = position.rpartition("@")
        skip = int(seen) if seen.isdigit() else 0
        asked = {"jobId": job.id, "podName": pod.id, "maxLines": str(MOST_LINES)}
        try:
            said = self._sent(self._client.DescribeJobLogs, **self._at, **asked, marker=marker or None)
        except CloudFailure as error:
            if error.status in GONE:  # a node that has not begun has no log
                return LogPage()
            raise
        lines = [str(each) for each in said.get("logs") or ()]
        told = [
            (line.rstrip("\r\n"), f"{marker}@{number}") for number, line in enumerate(lines, start=1) if number > skip
        ]
        after = str(said.get("nextMarker") or "")
        if after and after != marker:
            return LogPage(lines=tuple(told), position=f"{after}@0", has_more=True)
        return LogPage(lines=tuple(told), position=f"{marker}@{max(skip, len(lines))}")

    def start(self, job: CloudJob, pod: CloudPod, wanted: LogsWanted, *, is_over: bool) -> str:  # noqa: ARG002 - of the protocol
        return ""  # its markers lead forward only

    def terminal(self, job: CloudJob, pod: CloudPod) -> str:
        said = self._sent(self._client.DescribeJobWebterminal, **self._at, jobId=job.id, podName=pod.id)
        return str(said.get("webTerminalUrl") or said.get("WebTerminalUrl") or "")

    def stop(self, job_id: str) -> None:
        self._sent(self._client.StopJob, **self._at, jobId=job_id)

    def list(self) -> Iterator[CloudJob]:
        return self._search()

    def _search(self, **wanted: str) -> Iterator[CloudJob]:
        number = 1
        while True:
            page = {"pageNumber": number, "pageSize": PAGE_SIZE, "queue": self._queue}
            said = self._sent(self._client.DescribeJobs, resourcePoolId=self._pool, **page, **wanted)
            jobs = said.get("jobs") or []
            yield from (job_of(each) for each in jobs if _labels(each).get(LABEL))
            if not jobs or number * PAGE_SIZE >= int(said.get("totalCount") or 0):
                return
            number += 1

    def _sent(self, call: Callable[..., Any], **words: Any) -> dict[str, Any]:
        try:
            answer = call(**words)
        except Exception as error:  # noqa: BLE001 - SDKs raise whatever they like
            raise sdk.failure(error, self._keys) from None
        said = _plain(answer)
        return said if isinstance(said, dict) else {}


def _plain(item: Any) -> Any:
    """The SDK makes objects of what was JSON."""
    if isinstance(item, list):
        return [_plain(each) for each in item]
    if hasattr(item, "__dict__"):
        return {name: _plain(each) for name, each in vars(item).items()}
    return item


def job_of(said: Mapping[str, Any]) -> CloudJob:
    """A job as AIHC writes it."""
    return CloudJob(
        id=str(said.get("jobId") or ""),
        name=str(said.get("name") or ""),
        word=str(said.get("status") or ""),
        reason=str(said.get("reason") or said.get("message") or ""),
        pods=tuple(pods_of(said)),
        created_s=_seconds(said.get("createdAt")),
        started_s=_seconds(said.get("runningAt") or said.get("startedAt")),
        ended_s=_seconds(said.get("finishedAt")),
    )


def pods_of(said: Mapping[str, Any]) -> Iterator[CloudPod]:
    """The nodes by the names that AIHC gives them; where it lists them, with what it says about them."""
    name, roles = str(said.get("name") or ""), _labels(said).get("umiak-roles", "")
    count = int((said.get("jobSpec") or {}).get("replicas") or 0)
    listed = {str(each.get("podName") or each.get("name") or ""): each for each in _listed(said)}
    for number in range(count):
        pod = f"{name}-worker-{number - 1}" if number else f"{name}-master-0"
        seen = listed.get(pod) or {}
        role, rank = seat(roles, number)
        code = seen.get("exitCode")
        yield CloudPod(
            id=pod,
            role=role,
            rank=rank,
            word=str(seen.get("podStatus") or seen.get("status") or ""),
            exit_code=code if isinstance(code, int) else None,
            reason=str(seen.get("reason") or ""),
        )


def _listed(said: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = said.get("pods") or (said.get("podList") or {})
    found = found.get("pods") or [] if isinstance(found, dict) else found
    return [each for each in found if isinstance(each, dict)]


def _labels(said: Mapping[str, Any]) -> dict[str, str]:
    return {str(each.get("key")): str(each.get("value")) for each in said.get("labels") or () if isinstance(each, dict)}


def _seconds(text: Any) -> float | None:
    try:
        return dt.datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp() if text else None
    except ValueError:
        return None
