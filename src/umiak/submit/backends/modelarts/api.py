"""ModelArts' training jobs through Huawei's SDK. An adapter.

The SDK signs and sends; its own retries are off, since only the caller knows what may be sent twice.
Requests and answers are plain data: the models of the SDK would leave out what a newer service says.
"""

from __future__ import annotations

from umiak.core.cluster import Role
from umiak.submit.backends.cloud import sdk
from umiak.submit.backends.cloud.api import (
    CloudFailure,
    CloudJob,
    CloudPod,
    ForwardOnly,
    LogPage,
    of_all_pages,
    oldest_first,
    unless_gone,
)
from umiak.submit.backends.modelarts.request import TASKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from umiak.core.json_types import JsonMapping, JsonObject

MODULE, EXTRA = "huaweicloudsdkmodelarts.v1", "modelarts"
PAGE_SIZE = 50
MADE_BY = "umiak run "
"""How the description of our jobs begins."""
_ROLES = {word: role for role, word in TASKS.items()}


class ModelArtsApi(ForwardOnly):
    """One project. Of a log it shows the newest part only."""

    def __init__(
        self, keys: Mapping[str, str], *, project: str, endpoint: str, workspace: str, timeout_s: float
    ) -> None:
        self._keys = keys
        self._workspace = workspace
        self._v1 = sdk.load(MODULE, EXTRA)
        credentials = sdk.load("huaweicloudsdkcore.auth.credentials", EXTRA)
        config = sdk.load("huaweicloudsdkcore.http.http_config", EXTRA)
        signed = credentials.BasicCredentials(keys["HUAWEICLOUD_SDK_AK"], keys["HUAWEICLOUD_SDK_SK"], project)
        token = keys.get("HUAWEICLOUD_SDK_SECURITY_TOKEN")
        signed = signed.with_security_token(token) if token else signed
        settings = config.HttpConfig(timeout=(timeout_s, timeout_s), retry_times=0)
        builder = self._v1.ModelArtsClient.new_builder().with_credentials(signed).with_endpoints([endpoint])
        self._client = builder.with_http_config(settings).build()

    def named(self, name: str) -> list[CloudJob]:
        return oldest_first(self._search({"key": "name", "operator": "in", "value": [name]}), name)

    def create(self, body: JsonObject) -> str:
        answer = self._sent(self._client.create_training_job, self._v1.CreateTrainingJobRequest(body=body))
        return sdk.made((answer.get("metadata") or {}).get("id"))

    def job(self, job_id: str) -> CloudJob | None:
        request = self._v1.ShowTrainingJobDetailsRequest(training_job_id=job_id)
        return unless_gone(lambda: job_of(self._sent(self._client.show_training_job_details, request)))

    def page(self, job: CloudJob, pod: CloudPod, position: str, is_over: bool, /) -> LogPage:
        request = self._v1.ShowTrainingJobLogsPreviewRequest(training_job_id=job.id, task_id=pod.id)
        answer = unless_gone(lambda: self._sent(self._client.show_training_job_logs_preview, request))
        if answer is None:
            return LogPage()
        return tail(answer.get("content") or "", int(answer.get("full_size") or 0), position, is_over=is_over)

    def stop(self, job_id: str) -> None:
        body = {"action_type": "terminate"}
        self._sent(self._client.stop_training_job, self._v1.StopTrainingJobRequest(training_job_id=job_id, body=body))

    def list(self) -> Iterator[CloudJob]:
        return self._search(None)

    def _search(self, wanted: JsonObject | None) -> Iterator[CloudJob]:
        def ask(number: int) -> tuple[list[JsonObject], float | str | None]:
            # The offset counts pages, from 0.
            body = {"offset": number - 1, "limit": PAGE_SIZE, "sort_by": "create_time", "order": "desc"}
            body |= {"workspace_id": self._workspace, **({"filters": [wanted]} if wanted else {})}
            answer = self._sent(self._client.list_training_jobs, self._v1.ListTrainingJobsRequest(body=body))
            return answer.get("items") or [], answer.get("total")

        for each in of_all_pages(ask, PAGE_SIZE):
            if str((each.get("metadata") or {}).get("description") or "").startswith(MADE_BY):
                yield job_of(each)

    def _sent(self, call: Callable[[object], object], request: object) -> JsonObject:
        import json

        answer = sdk.sent(call, self._keys, request)
        try:
            data = json.loads(answer.raw_content or b"{}")
        except ValueError:
            raise CloudFailure(0, "the answer is not JSON") from None
        return data if isinstance(data, dict) else {}


def job_of(answer: JsonMapping) -> CloudJob:
    """A job as ModelArts writes it."""
    metadata, status = answer.get("metadata") or {}, answer.get("status") or {}
    ends = {each.get("task"): each for each in status.get("task_statuses") or ()}
    pods = [_pod(str(task), ends.get(task) or {}) for task in status.get("tasks") or ()]
    created, started = _seconds(metadata.get("create_time")), _seconds(status.get("start_time"))
    lasted = _seconds(status.get("duration"))
    word = str(status.get("phase") or "")
    is_over = word in ("Failed", "Completed", "Terminated", "Abnormal")
    reason = next((str(each.get("message")) for each in ends.values() if each.get("message")), "")
    return CloudJob(
        id=str(metadata.get("id") or ""),
        name=str(metadata.get("name") or ""),
        word=word,
        reason=reason,
        pods=tuple(pods),
        created_s=created,
        started_s=started,
        ended_s=started + lasted if started and lasted is not None and is_over else None,
    )


def tail(content: str, full_size: int, position: str, *, is_over: bool) -> LogPage:
    """The lines behind a position, which is a number of bytes.
    A preview has the newest part of a log, and says how long all of it is.
    """
    data = content.encode()
    begin = max(0, full_size - len(data))
    at = int(position) if position.isascii() and position.isdigit() else 0
    lines: list[tuple[str, str]] = []
    if at < begin:
        lines.append((f"[umiak: {begin - at} bytes of this log are too old for ModelArts to show them]", str(begin)))
        at = begin
    new = data[at - begin :]
    whole = len(new) if is_over else new.rfind(b"\n") + 1
    for line in new[:whole].splitlines(keepends=True):
        at += len(line)
        lines.append((line.rstrip(b"\r\n").decode(errors="replace"), str(at)))
    return LogPage(lines=tuple(lines), position=str(at))


def _pod(task: str, end: JsonMapping) -> CloudPod:
    word, _, number = task.rpartition("-")
    code = end.get("exit_code")
    return CloudPod(
        id=task,
        role=_ROLES.get(word, Role.TRAINER),
        rank=int(number) if number.isdigit() else 0,
        exit_code=int(code) if code is not None else None,
        reason=str(end.get("message") or ""),
    )


def _seconds(milliseconds: object) -> float | None:
    return milliseconds / 1000 if isinstance(milliseconds, (int, float)) else None
