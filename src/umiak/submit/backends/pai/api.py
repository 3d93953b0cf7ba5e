"""DLC jobs of Alibaba PAI through its SDK. An adapter.

The SDK signs and sends; its own retries are off. Logs can be asked for by time only, which `log_windows` makes whole.
"""

from __future__ import annotations

import time

from umiak.core.cluster import Role
from umiak.submit.backends.cloud import log_windows, sdk
from umiak.submit.backends.cloud.api import CloudJob, CloudPod, LogPage, of_all_pages, oldest_first, unless_gone
from umiak.submit.backends.pai.request import TAG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.submit.backend import LogsWanted

MODULE, EXTRA = "alibabacloud_pai_dlc20201203", "pai"
PAGE_SIZE = 50
MOST_LINES = 2000


class PaiApi:
    """One workspace."""

    def __init__(
        self, keys: Mapping[str, str], *, region: str, endpoint: str, workspace: str, timeout_s: float
    ) -> None:
        self._keys = keys
        self._workspace = workspace
        self._timeout_ms = int(timeout_s * 1000)
        self._models = sdk.load("alibabacloud_tea_openapi.utils_models", EXTRA)
        self._options = sdk.load("darabonba.runtime", EXTRA).RuntimeOptions
        client = sdk.load(f"{MODULE}.client", EXTRA).Client
        protocol, _, host = endpoint.partition("://")
        self._client = client(
            self._models.Config(
                access_key_id=keys["ALIBABA_CLOUD_ACCESS_KEY_ID"],
                access_key_secret=keys["ALIBABA_CLOUD_ACCESS_KEY_SECRET"],
                security_token=keys.get("ALIBABA_CLOUD_SECURITY_TOKEN") or None,
                region_id=region,
                endpoint=host,
                protocol=protocol,
            )
        )

    def named(self, name: str) -> list[CloudJob]:
        return oldest_first(self._search({"DisplayName": name}), name)

    def create(self, body: JsonObject) -> str:
        return sdk.made(self._sent("CreateJob", "POST", "/api/v1/jobs", body=body).get("JobId"))

    def job(self, job_id: str) -> CloudJob | None:
        return unless_gone(lambda: job_of(self._sent("GetJob", "GET", f"/api/v1/jobs/{job_id}")))

    def page(self, job: CloudJob, pod: CloudPod, position: str, is_over: bool, /) -> LogPage:
        at = log_windows.from_text(position) or log_windows.start_of(job.created_s)
        now_s = _end_s(job, is_over=is_over)
        fetch = self._fetch(job, pod)
        return unless_gone(lambda: log_windows.read(at, fetch, now_s=now_s, most=MOST_LINES)) or LogPage()

    def start(self, job: CloudJob, pod: CloudPod, wanted: LogsWanted, is_over: bool, /) -> str:
        first_s = max(int(job.created_s or 0), int(wanted.since_s or 0))
        count = wanted.tail
        if count is None:
            return str(log_windows.start_of(first_s)) if wanted.since_s is not None else ""
        now_s = _end_s(job, is_over=is_over)
        at = unless_gone(lambda: log_windows.tail(self._fetch(job, pod), first_s, now_s=now_s, count=count))
        return "" if at is None else str(at)

    def _fetch(self, job: CloudJob, pod: CloudPod) -> Callable[[int, int], list[str]]:
        def fetch(start_s: int, end_s: int) -> list[str]:
            query = {"StartTime": sdk.utc(start_s), "EndTime": sdk.utc(end_s), "MaxLines": str(MOST_LINES)}
            answer = self._sent("GetPodLogs", "GET", f"/api/v1/jobs/{job.id}/pods/{pod.id}/logs", query=query)
            return [str(each) for each in answer.get("Logs") or ()]

        return fetch

    def terminal(self, job: CloudJob, pod: CloudPod) -> str:
        """A shared link: others want the cookies of the console, which no client but a browser has."""
        path = f"/api/v1/jobs/{job.id}/pods/{pod.id}/webterminal"
        answer = self._sent("GetWebTerminal", "GET", path, query={"IsShared": "true"})
        return str(answer.get("WebTerminalUrl") or "")

    def stop(self, job_id: str) -> None:
        self._sent("StopJob", "POST", f"/api/v1/jobs/{job_id}/stop")

    def list(self) -> Iterator[CloudJob]:
        return self._search({})

    def _search(self, wanted: dict[str, str]) -> Iterator[CloudJob]:
        def ask(number: int) -> tuple[list[JsonObject], float | str | None]:
            query = {"WorkspaceId": self._workspace, "PageNumber": str(number), "PageSize": str(PAGE_SIZE), **wanted}
            answer = self._sent("ListJobs", "GET", "/api/v1/jobs", query={**query, "SortBy": "GmtCreateTime"})
            return answer.get("Jobs") or [], answer.get("TotalCount")

        for each in of_all_pages(ask, PAGE_SIZE):
            if TAG in ((each.get("Settings") or {}).get("Tags") or {}):
                yield job_of(each)

    def _sent(
        self,
        action: str,
        method: str,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: JsonObject | None = None,
    ) -> JsonObject:
        """As the SDK's own methods do it; those leave out of an answer what their models do not have."""
        request = self._models.OpenApiRequest(headers={}, query=query, body=body)
        params = self._models.Params(
            action=action,
            version="2020-12-03",
            protocol="HTTPS",
            pathname=path,
            method=method,
            auth_type="AK",
            style="ROA",
            req_body_type="json",
            body_type="json",
        )
        runtime = self._options(autoretry=False, read_timeout=self._timeout_ms, connect_timeout=self._timeout_ms)
        answer = sdk.sent(self._client.call_api, self._keys, params, request, runtime).get("body")
        return answer if isinstance(answer, dict) else {}


def job_of(answer: JsonMapping) -> CloudJob:
    """A job as DLC writes it."""
    ended = answer.get("GmtFinishTime") or answer.get("GmtStoppedTime") or answer.get("GmtFailedTime")
    code, message = str(answer.get("ReasonCode") or ""), str(answer.get("ReasonMessage") or "")
    return CloudJob(
        id=str(answer.get("JobId") or ""),
        name=str(answer.get("DisplayName") or ""),
        word=str(answer.get("Status") or ""),
        reason=": ".join(each for each in (code, message) if each),
        pods=tuple(pods_of(answer)),
        created_s=sdk.seconds_of(answer.get("GmtCreateTime")),
        started_s=sdk.seconds_of(answer.get("GmtRunningTime")),
        ended_s=sdk.seconds_of(ended),
    )


def pods_of(answer: JsonMapping) -> Iterator[CloudPod]:
    """Masters come before workers, and are counted with them."""
    pods = answer.get("Pods") or []
    types = [str(each.get("Type") or "").lower() for each in pods]
    masters = sum(each in ("master", "chief") for each in types)
    for each, kind in zip(pods, types, strict=True):
        number = str(each.get("PodId") or "").rpartition("-")[2]
        rank = int(number) if number.isdigit() else 0
        yield CloudPod(
            id=str(each.get("PodId") or ""),
            role=Role.SERVER if kind == "ps" else Role.TRAINER,
            rank=rank + masters if kind == "worker" else rank,
            word=str(each.get("Status") or ""),
        )


def _end_s(job: CloudJob, *, is_over: bool) -> float:
    """Up to when there may be lines."""
    now_s = time.time()
    return min(now_s, job.ended_s + log_windows.LATE_S) if is_over and job.ended_s else now_s
