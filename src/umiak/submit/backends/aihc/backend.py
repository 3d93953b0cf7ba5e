"""The backend `aihc`: training jobs of Baidu's AIHC. An adapter."""

from __future__ import annotations

from umiak.submit.backends.aihc import request
from umiak.submit.backends.cloud import settings
from umiak.submit.backends.cloud.terminals import TerminalBackend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from umiak.core.job import Job
    from umiak.core.problem import Problem
    from umiak.submit.backend import SubmitContext
    from umiak.submit.backends.aihc.request import AihcSettings
    from umiak.submit.backends.cloud.api import CloudApi
    from umiak.submit.backends.cloud.layout import CloudLayout
    from umiak.submit.places import NamedPlace


def make(place: NamedPlace, context: SubmitContext) -> AihcBackend:
    """The entry point of this backend."""
    said = settings.read(request.TABLE, place, request.PAGE)
    return AihcBackend(request.settings_of(said, place.name), context)


class AihcBackend(TerminalBackend):
    """A queue of AIHC."""

    NAME = "aihc"
    TERMINAL = "the link opens a shell, for a WebSocket client, within 30 seconds; it needs no further key, so show it to nobody"
    EXTRA = "baidu"
    SDK = "baidubce"
    ACCOUNT = ("BCE_ACCESS_KEY_ID", "BCE_SECRET_ACCESS_KEY", "BCE_SESSION_TOKEN")
    KEYS = ACCOUNT[:2]
    STORE = "bos"

    def __init__(self, own: AihcSettings, context: SubmitContext) -> None:
        super().__init__(own.common, context)
        self.own = own

    def own_problems(self, job: Job) -> list[Problem]:
        return request.problems(job, self.own)

    def body(self, job: Job, plan: CloudLayout) -> dict[str, Any]:
        return request.body(job, plan, self.own)

    def address(self) -> str:
        query = f"action=CreateJob&resourcePoolId={self.own.pool}&queueID={self.own.queue}"
        return f"POST {self._endpoint()}/?{query}"

    def connect(self, keys: dict[str, str]) -> CloudApi:
        from umiak.submit.backends.aihc.api import AihcApi

        return AihcApi(
            {**keys, self.ACCOUNT[2]: self.context.environ.get(self.ACCOUNT[2], "")},
            endpoint=self._endpoint(),
            pool=self.own.pool,
            queue=self.own.queue,
            timeout_s=self.settings.timeout_s,
        )

    def _endpoint(self) -> str:
        return self.settings.endpoint or f"https://aihc.{self.settings.region}.baidubce.com"
