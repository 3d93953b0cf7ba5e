"""BML's five calls for training jobs. An adapter; no SDK has them.

A key is exchanged for a token, which stands in the query of every request, as this API wants it: so no query is ever told. Errors come
with status 200 and a number.
"""

from __future__ import annotations

import json
from urllib.parse import urlencode

from umiak.adapters.stores import http_retry
from umiak.adapters.stores.http_retry import Unanswered
from umiak.core.cluster import Role
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.submit.backends.cloud import sdk
from umiak.submit.backends.cloud.api import GONE, CloudFailure, CloudJob, CloudPod, LogPage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from umiak.submit.backend import LogsWanted

KEYS = ("BML_API_KEY", "BML_SECRET_KEY")
TOKENS = "/oauth/2.0/token"
CALLS = "/rpc/2.0/easydl/pro/remotetrain"
PAGE_SIZE = 50
MADE_BY = "umiak run "
STATUSES = {1: 500, 2: 503, 4: 429, 17: 429, 18: 429, 19: 429, 6: 403, 100: 401, 110: 401, 111: 401}
"""What the numbers of this API's errors are in HTTP."""


class BmlApi:
    """One account."""

    def __init__(self, keys: Mapping[str, str], *, endpoint: str, timeout_s: float) -> None:
        self._keys = dict(keys)
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._token = ""

    def named(self, name: str) -> list[CloudJob]:
        found = (each for each in self._search(name) if each.name == name)
        return sorted(found, key=lambda each: (each.created_s or 0, each.id))

    def create(self, body: dict[str, Any]) -> str:
        return sdk.made(_id(self._sent("create", body)))

    def job(self, job_id: str) -> CloudJob | None:
        try:
            return job_of(self._sent("detail", {"job_id": job_id}))
        except CloudFailure as error:
            if error.status in GONE:
                return None
            raise

    def page(self, job: CloudJob, pod: CloudPod, position: str, *, is_over: bool) -> LogPage:  # noqa: ARG002 - there are none
        what = "BML's API has no logs"
        hint = "look at the job in BML's console, or write `outputs:` so that the job's log directory is kept"
        raise UmiakError(Problem(code="UM-SUBMIT-273", what=what, hint=hint), exit_status=Exit.REFUSED)

    def start(self, job: CloudJob, pod: CloudPod, wanted: LogsWanted, *, is_over: bool) -> str:  # noqa: ARG002 - of the protocol
        return ""  # there are no logs

    def stop(self, job_id: str) -> None:
        self._sent("stop", {"job_id": job_id})

    def list(self) -> Iterator[CloudJob]:
        return self._search("")

    def _search(self, name: str) -> Iterator[CloudJob]:
        number = 1
        while True:
            page = {"page_num": number, "page_size": PAGE_SIZE, **({"name": name} if name else {})}
            said = self._sent("list", page)
            jobs = said.get("jobs") or said.get("list") or []
            yield from (job_of(each) for each in jobs if str(each.get("description") or "").startswith(MADE_BY))
            if not jobs or number * PAGE_SIZE >= int(said.get("total") or said.get("total_num") or 0):
                return
            number += 1

    def _sent(self, call: str, body: dict[str, Any]) -> dict[str, Any]:
        for is_last in (False, True):
            if not self._token:
                self._token = self._exchange()
            try:
                said = self._ask(f"{CALLS}/{call}?{urlencode({'access_token': self._token})}", body)
                result = said.get("result")
                return result if isinstance(result, dict) else said
            except CloudFailure as error:
                if error.status != 401 or is_last:
                    raise
                self._token = ""  # it has expired: refused requests are not obeyed, so this one can be sent again
        raise AssertionError("the last attempt returns or raises")

    def _exchange(self) -> str:
        query = {"grant_type": "client_credentials", "client_id": self._keys[KEYS[0]]}
        said = self._ask(f"{TOKENS}?{urlencode({**query, 'client_secret': self._keys[KEYS[1]]})}", None)
        token = said.get("access_token")
        if not isinstance(token, str) or not token:
            raise CloudFailure(401, "no token was given for the key")
        return token

    def _ask(self, target: str, body: dict[str, Any] | None) -> dict[str, Any]:
        data = b"" if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        try:
            answer = http_retry.send(
                self._endpoint + target, "POST", headers=headers, body=data, timeout_s=self._timeout_s
            )
            said = json.loads(answer.read())
        except Unanswered as error:
            raise CloudFailure(error.status, self._without_keys(str(error))) from None
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


def job_of(said: Mapping[str, Any]) -> CloudJob:
    """A job as BML writes it. What it calls a state is in no document: words are compared in upper case."""
    config = said.get("resource_config") or {}
    count = int(config.get("node_count") or said.get("node_count") or 1)
    return CloudJob(
        id=_id(said),
        name=str(said.get("name") or ""),
        word=str(said.get("status") or said.get("job_status") or "").upper(),
        reason=str(said.get("fail_reason") or said.get("message") or ""),
        pods=tuple(CloudPod(id=str(number), role=Role.TRAINER, rank=number) for number in range(count)),
        created_s=_seconds(said.get("create_time")),
        ended_s=_seconds(said.get("finish_time")),
    )


def _id(said: Mapping[str, Any]) -> str:
    return str(said.get("job_id") or said.get("id") or "")


def _seconds(said: Any) -> float | None:
    if not isinstance(said, (int, float)) or isinstance(said, bool):
        return None
    return said / 1000 if said > 1e11 else float(said)
