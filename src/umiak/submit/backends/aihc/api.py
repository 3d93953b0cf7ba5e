"""AIHC's training jobs through Baidu's SDK. An adapter.

The SDK signs and sends; its own retries are off, since they would create a job twice.
"""

from __future__ import annotations

from umiak.submit.backends.aihc.request import LABEL, seat
from umiak.submit.backends.cloud import sdk
from umiak.submit.backends.cloud.api import (
    CloudJob,
    CloudPod,
    ForwardOnly,
    LogPage,
    of_all_pages,
    oldest_first,
    unless_gone,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from umiak.core.json_types import JsonMapping, JsonObject

PAGE_SIZE = 50
MOST_LINES = 1000


class AihcApi(ForwardOnly):
    """One queue. The markers of its logs lead forward only."""

    def __init__(self, keys: Mapping[str, str], *, endpoint: str, pool: str, queue: str, timeout_s: float) -> None:
        self._keys = keys
        self._at = {"resourcePoolId": pool, "queueID": queue}
        self._pool, self._queue = pool, queue
        account = keys["BCE_ACCESS_KEY_ID"], keys["BCE_SECRET_ACCESS_KEY"], keys.get("BCE_SESSION_TOKEN", "")
        service = "baidubce.services.aihc.modules.job.job_client"
        self._client = sdk.baidu_client(service, "JobClient", account, endpoint, timeout_s)

    def named(self, name: str) -> list[CloudJob]:
        return oldest_first(self._search(keywordType="name", keyword=name), name)

    def create(self, body: JsonObject) -> str:
        request = {**body, "dataSources": body["datasources"]}
        del request["datasources"]
        # The SDK would send null for these two.
        answer = self._sent(self._client.CreateJob, **self._at, **request, enableBccl=False, faultTolerance=False)
        return sdk.made(answer.get("jobId"))

    def job(self, job_id: str) -> CloudJob | None:
        asked = {**self._at, "jobId": job_id, "needDetail": True}
        answer = unless_gone(lambda: self._sent(self._client.DescribeJob, **asked))
        return None if answer is None else job_of(answer.get("job") or answer)

    def page(self, job: CloudJob, pod: CloudPod, position: str, _is_over: bool, /) -> LogPage:
        """AIHC's marker is where an answer ended; a position is the marker and how many lines behind it were seen."""
        marker, _, seen = position.rpartition("@")
        skip = int(seen) if seen.isdigit() else 0
        asked = {**self._at, "jobId": job.id, "podName": pod.id, "maxLines": str(MOST_LINES), "marker": marker or None}
        answer = unless_gone(lambda: self._sent(self._client.DescribeJobLogs, **asked))
        if answer is None:
            return LogPage()
        lines = [str(each) for each in answer.get("logs") or ()]
        rows = [
            (line.rstrip("\r\n"), f"{marker}@{number}") for number, line in enumerate(lines, start=1) if number > skip
        ]
        after = str(answer.get("nextMarker") or "")
        if after and after != marker:
            return LogPage(lines=tuple(rows), position=f"{after}@0", has_more=True)
        return LogPage(lines=tuple(rows), position=f"{marker}@{max(skip, len(lines))}")

    def terminal(self, job: CloudJob, pod: CloudPod) -> str:
        answer = self._sent(self._client.DescribeJobWebterminal, **self._at, jobId=job.id, podName=pod.id)
        return str(answer.get("webTerminalUrl") or answer.get("WebTerminalUrl") or "")

    def stop(self, job_id: str) -> None:
        self._sent(self._client.StopJob, **self._at, jobId=job_id)

    def list(self) -> Iterator[CloudJob]:
        return self._search()

    def _search(self, **wanted: str) -> Iterator[CloudJob]:
        def ask(number: int) -> tuple[list[JsonObject], float | str | None]:
            page = {"pageNumber": number, "pageSize": PAGE_SIZE, "queue": self._queue}
            answer = self._sent(self._client.DescribeJobs, resourcePoolId=self._pool, **page, **wanted)
            return answer.get("jobs") or [], answer.get("totalCount")

        return (job_of(each) for each in of_all_pages(ask, PAGE_SIZE) if _labels(each).get(LABEL))

    def _sent(self, call: Callable[..., object], **words: object) -> JsonObject:
        answer = _plain(sdk.sent(call, self._keys, **words))
        return answer if isinstance(answer, dict) else {}


def _plain(item: object) -> object:
    """The SDK makes objects of what was JSON."""
    if isinstance(item, list):
        return [_plain(each) for each in item]
    if hasattr(item, "__dict__"):
        return {name: _plain(each) for name, each in vars(item).items()}
    return item


def job_of(answer: JsonMapping) -> CloudJob:
    """A job as AIHC writes it."""
    return CloudJob(
        id=str(answer.get("jobId") or ""),
        name=str(answer.get("name") or ""),
        word=str(answer.get("status") or ""),
        reason=str(answer.get("reason") or answer.get("message") or ""),
        pods=tuple(pods_of(answer)),
        created_s=sdk.seconds_of(answer.get("createdAt")),
        started_s=sdk.seconds_of(answer.get("runningAt") or answer.get("startedAt")),
        ended_s=sdk.seconds_of(answer.get("finishedAt")),
    )


def pods_of(answer: JsonMapping) -> Iterator[CloudPod]:
    """The nodes by the names that AIHC gives them; where it lists them, with what it says about them."""
    name, roles = str(answer.get("name") or ""), _labels(answer).get("umiak-roles", "")
    count = int((answer.get("jobSpec") or {}).get("replicas") or 0)
    listed = {str(each.get("podName") or each.get("name") or ""): each for each in _listed(answer)}
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


def _listed(answer: JsonMapping) -> list[JsonObject]:
    pods = answer.get("pods") or (answer.get("podList") or {})
    pods = pods.get("pods") or [] if isinstance(pods, dict) else pods
    return [each for each in pods if isinstance(each, dict)]


def _labels(answer: JsonMapping) -> dict[str, str]:
    return {
        str(each.get("key")): str(each.get("value")) for each in answer.get("labels") or () if isinstance(each, dict)
    }
