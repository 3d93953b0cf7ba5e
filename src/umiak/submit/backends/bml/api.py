"""BML's five calls for training jobs. An adapter; no SDK has them.

A key is exchanged for a token, which stands in the query of every request, as this API wants it:
so no query is ever told. Errors come with status 200 and a number.
"""

from __future__ import annotations

import json
from urllib.parse import urlencode

from umiak.adapters.stores import http_retry
from umiak.adapters.stores.http_retry import Unanswered
from umiak.core.cluster import Role
from umiak.core.problem import UmiakError
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from umiak.core.json_types import JsonMapping, JsonObject

KEYS = ("BML_API_KEY", "BML_SECRET_KEY")
TOKENS = "/oauth/2.0/token"
CALLS = "/rpc/2.0/easydl/pro/remotetrain"
PAGE_SIZE = 50
MADE_BY = "umiak run "
STATUSES = {1: 500, 2: 503, 4: 429, 17: 429, 18: 429, 19: 429, 6: 403, 100: 401, 110: 401, 111: 401}
"""What the numbers of this API's errors are in HTTP."""


class BmlApi(ForwardOnly):
    """One account. Of logs it tells nothing."""

    def __init__(self, keys: Mapping[str, str], *, endpoint: str, timeout_s: float) -> None:
        self._keys = dict(keys)
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._token = ""

    def named(self, name: str) -> list[CloudJob]:
        return oldest_first(self._search(name), name)

    def create(self, body: JsonObject) -> str:
        return sdk.made(_id(self._sent("create", body)))

    def job(self, job_id: str) -> CloudJob | None:
        return unless_gone(lambda: job_of(self._sent("detail", {"job_id": job_id})))

    def page(self, _job: CloudJob, _pod: CloudPod, _position: str, _is_over: bool, /) -> LogPage:
        what = "BML's API has no logs"
        hint = "look at the job in BML's console, or write `outputs:` so that the job's log directory is kept"
        raise UmiakError.refused("UM-SUBMIT-273", what, hint=hint)

    def stop(self, job_id: str) -> None:
        self._sent("stop", {"job_id": job_id})

    def list(self) -> Iterator[CloudJob]:
        return self._search("")

    def _search(self, name: str) -> Iterator[CloudJob]:
        def ask(number: int) -> tuple[list[JsonObject], float | str | None]:
            page = {"page_num": number, "page_size": PAGE_SIZE, **({"name": name} if name else {})}
            answer = self._sent("list", page)
            return answer.get("jobs") or answer.get("list") or [], answer.get("total") or answer.get("total_num")

        jobs = of_all_pages(ask, PAGE_SIZE)
        return (job_of(each) for each in jobs if str(each.get("description") or "").startswith(MADE_BY))

    def _sent(self, call: str, body: JsonObject) -> JsonObject:
        for is_last in (False, True):
            if not self._token:
                self._token = self._exchange()
            try:
                answer = self._ask(f"{CALLS}/{call}?{urlencode({'access_token': self._token})}", body)
                result = answer.get("result")
                return result if isinstance(result, dict) else answer
            except CloudFailure as error:
                if error.status != 401 or is_last:
                    raise
                self._token = ""  # it has expired: refused requests are not obeyed, so this one can be sent again
        raise AssertionError("the last attempt returns or raises")

    def _exchange(self) -> str:
        query = {"grant_type": "client_credentials", "client_id": self._keys[KEYS[0]]}
        answer = self._ask(f"{TOKENS}?{urlencode({**query, 'client_secret': self._keys[KEYS[1]]})}", None)
        token = answer.get("access_token")
        if not isinstance(token, str) or not token:
            raise CloudFailure(401, "no token was given for the key")
        return token

    def _ask(self, target: str, body: JsonObject | None) -> JsonObject:
        data = b"" if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        try:
            answer = http_retry.send(
                self._endpoint + target, "POST", headers=headers, body=data, timeout_s=self._timeout_s
            )
            said = json.loads(answer.read())
        except Unanswered as error:
            raise CloudFailure(
                error.status, self._without_keys(str(error)), retry_after_s=error.retry_after_s
            ) from None
        except ValueError:
            raise CloudFailure(0, "the answer is not JSON") from None
        if not isinstance(said, dict):
            raise CloudFailure(0, "the answer is no object")
        number = said.get("error_code") or (400 if said.get("error") else 0)
        if number:
            what = f"{number}: {said.get('error_msg') or said.get('error_description') or said.get('error')}"
            raise CloudFailure(STATUSES.get(int(number), 400), self._without_keys(what))
        return said

    def _without_keys(self, text: str) -> str:
        return sdk.without(text, {**self._keys, "token": self._token})


def job_of(answer: JsonMapping) -> CloudJob:
    """A job as BML writes it. What it calls a state is in no document: words are compared in upper case."""
    config = answer.get("resource_config") or {}
    count = int(config.get("node_count") or answer.get("node_count") or 1)
    return CloudJob(
        id=_id(answer),
        name=str(answer.get("name") or ""),
        word=str(answer.get("status") or answer.get("job_status") or "").upper(),
        reason=str(answer.get("fail_reason") or answer.get("message") or ""),
        pods=tuple(CloudPod(id=str(number), role=Role.TRAINER, rank=number) for number in range(count)),
        created_s=_seconds(answer.get("create_time")),
        ended_s=_seconds(answer.get("finish_time")),
    )


def _id(answer: JsonMapping) -> str:
    return str(answer.get("job_id") or answer.get("id") or "")


def _seconds(moment: object) -> float | None:
    if not isinstance(moment, (int, float)) or isinstance(moment, bool):
        return None
    return moment / 1000 if moment > 1e11 else float(moment)
