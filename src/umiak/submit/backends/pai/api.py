"""DLC jobs of Alibaba PAI through its SDK. An adapter.

The SDK signs and sends; its own retries are off. Logs can be asked for by time only, which `log_windows` makes whole.
"""

from __future__ import annotations

import datetime as dt
import time

from umiak.core.cluster import Role
from umiak.submit.backends.cloud import log_windows, sdk
from umiak.submit.backends.cloud.api import GONE, CloudFailure, CloudJob, CloudPod, LogPage
from umiak.submit.backends.pai.request import TAG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

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
        return sorted(
            (each for each in self._search({"DisplayName": name}) if each.name == name),
            key=lambda each: (each.created_s or 0, each.id),
        )

    def create(self, body: dict[str, Any]) -> str:
        return sdk.made(self._sent("CreateJob", "POST", "/api/v1/jobs", body=body).get("JobId"))

    def job(self, job_id: str) -> CloudJob | None:
        try:
            return job_of(self._sent("GetJob", "GET", f"/api/v1/jobs/{job_id}"))
        except CloudFailure as error:
            if error.status in GONE:
                return None
            raise

    def page(self, job: CloudJob, pod: CloudPod, position: str, *, is_over: bool) -> LogPage:
        at = log_windows.from_text(position) or log_windows.start_of(job.created_s)
        try:
            now_s = _end_s(job, is_over=is_over)
            return log_windows.read(at, self._fetch(job, pod), now_s=now_s, most=MOST_LINES)
        except CloudFailure as error:
            if error.status in GONE:  # a node that has not begun has no log
                return LogPage()
            raise

    def start(self, job: CloudJob, pod: CloudPod, wanted: LogsWanted, *, is_over: bool) -> str:
        first_s = max(int(job.created_s or 0), int(wanted.since_s or 0))
        if wanted.tail is None:
            return str(log_windows.start_of(first_s)) if wanted.since_s is not None else ""
        try:
            now_s = _end_s(job, is_over=is_over)
            return str(log_windows.tail(self._fetch(job, pod), first_s, now_s=now_s, count=wanted.tail))
        except CloudFailure as error:
            if error.status in GONE:
                return ""
            raise

    def _fetch(self, job: CloudJob, pod: CloudPod) -> Callable[[int, int], list[str]]:
        def fetch(start_s: int, end_s: int) -> list[str]:
            query = {"StartTime": _moment(start_s), "EndTime": _moment(end_s), "MaxLines": str(MOST_LINES)}
            said = self._sent("GetPodLogs", "GET", f"/api/v1/jobs/{job.id}/pods/{pod.id}/logs", query=query)
            return [str(each) for each in said.get("Logs") or ()]

        return fetch

    def terminal(self, job: CloudJob, pod: CloudPod) -> str:
        """A shared link: others want the cookies of the console, which no client but a browser has."""
        path = f"/api/v1/jobs/{job.id}/pods/{pod.id}/webterminal"
        said = self._sent("GetWebTerminal", "GET", path, query={"IsShared": "true"})
        return str(said.get("WebTerminalUrl") or "")

    def stop(self, job_id: str) -> None:
        self._sent("StopJob", "POST", f"/api/v1/jobs/{job_id}/stop")

    def list(self) -> Iterator[CloudJob]:
        return self._search({})

    def _search(self, wanted: dict[str, str]) -> Iterator[CloudJob]:
        number = 1
        while True:
            query = {"WorkspaceId": self._workspace, "PageNumber": str(number), "PageSize": str(PAGE_SIZE), **wanted}
            said = self._sent("ListJobs", "GET", "/api/v1/jobs", query={**query, "SortBy": "GmtCreateTime"})
            jobs = said.get("Jobs") or []
            for each in jobs:
                if TAG in ((each.get("Settings") or {}).get("Tags") or {}):
                    yield job_of(each)
            if not jobs or number * PAGE_SIZE >= int(said.get("TotalCount") or 0):
                return
            number += 1

    def _sent(
        self, action: str, method: str, path: str, *, query: dict[str, str] | None = None, body: Any = None
    ) -> dict[str, Any]:
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
        try:
            answer = self._client.call_api(params, request, runtime)
        except Exception as error:  # noqa: BLE001 - SDKs raise whatever they like
            raise sdk.failure(error, self._keys) from None
        said = answer.get("body")
        return said if isinstance(said, dict) else {}


def job_of(said: Mapping[str, Any]) -> CloudJob:
    """A job as DLC writes it."""
    ended = said.get("GmtFinishTime") or said.get("GmtStoppedTime") or said.get("GmtFailedTime")
    code, message = str(said.get("ReasonCode") or ""), str(said.get("ReasonMessage") or "")
    return CloudJob(
        id=str(said.get("JobId") or ""),
        name=str(said.get("DisplayName") or ""),
        word=str(said.get("Status") or ""),
        reason=": ".join(each for each in (code, message) if each),
        pods=tuple(pods_of(said)),
        created_s=_seconds(said.get("GmtCreateTime")),
        started_s=_seconds(said.get("GmtRunningTime")),
        ended_s=_seconds(ended),
    )


def pods_of(said: Mapping[str, Any]) -> Iterator[CloudPod]:
    """Masters come before workers, and are counted with them."""
    found = said.get("Pods") or []
    types = [str(each.get("Type") or "").lower() for each in found]
    masters = sum(each in ("master", "chief") for each in types)
    for each, kind in zip(found, types, strict=True):
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


def _moment(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(text: Any) -> float | None:
    try:
        return dt.datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp() if text else None
    except ValueError:
        return None
