"""The backend `bml`: custom training jobs of Baidu's BML. An adapter."""

from __future__ import annotations

from umiak.submit.backends.bml import request
from umiak.submit.backends.cloud import settings
from umiak.submit.backends.cloud.backend import CloudBackend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from umiak.core.job import Job
    from umiak.core.problem import Problem
    from umiak.submit.backend import SubmitContext
    from umiak.submit.backends.bml.request import BmlSettings
    from umiak.submit.backends.cloud.api import CloudApi
    from umiak.submit.backends.cloud.layout import CloudLayout
    from umiak.submit.places import NamedPlace

ENDPOINT = "https://aip.baidubce.com"


def make(place: NamedPlace, context: SubmitContext) -> BmlBackend:
    """The entry point of this backend."""
    said = settings.read(request.TABLE, place, request.PAGE)
    return BmlBackend(request.settings_of(said, place.name), context)


class BmlBackend(CloudBackend):
    """An account of BML. Its API takes another kind of key than the rest of Baidu's cloud, and BOS the usual one."""

    NAME = "bml"
    KEYS = ("BML_API_KEY", "BML_SECRET_KEY")
    ACCOUNT = ("BCE_ACCESS_KEY_ID", "BCE_SECRET_ACCESS_KEY", "BCE_SESSION_TOKEN")
    STORE = "bos"
    MOST_NAME = 50
    IS_ONE_DIRECTORY = True

    def __init__(self, own: BmlSettings, context: SubmitContext) -> None:
        super().__init__(own.common, context)
        self.own = own

    def own_problems(self, job: Job) -> list[Problem]:
        return request.problems(job, self.own)

    def body(self, job: Job, plan: CloudLayout) -> dict[str, Any]:
        return request.body(job, plan, self.own)

    def address(self) -> str:
        return f"POST {self._endpoint()}/rpc/2.0/easydl/pro/remotetrain/create"

    def connect(self, keys: dict[str, str]) -> CloudApi:
        from umiak.submit.backends.bml.api import BmlApi

        return BmlApi(keys, endpoint=self._endpoint(), timeout_s=self.settings.timeout_s)

    def _endpoint(self) -> str:
        return self.settings.endpoint or ENDPOINT
