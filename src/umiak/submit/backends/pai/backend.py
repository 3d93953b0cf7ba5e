"""The backend `pai`: DLC jobs of Alibaba's cloud. An adapter."""

from __future__ import annotations

from umiak.submit.backend import Remarks, SinceByPlace
from umiak.submit.backends.cloud import settings
from umiak.submit.backends.cloud.terminals import TerminalBackend
from umiak.submit.backends.pai import request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from umiak.core.job import Job
    from umiak.core.problem import Problem
    from umiak.submit.backend import SubmitContext
    from umiak.submit.backends.cloud.api import CloudApi
    from umiak.submit.backends.cloud.layout import CloudLayout
    from umiak.submit.backends.pai.request import PaiSettings
    from umiak.submit.places import NamedPlace


def make(place: NamedPlace, context: SubmitContext) -> PaiBackend:
    """The entry point of this backend."""
    said = settings.read(request.TABLE, place, request.PAGE)
    return PaiBackend(request.settings_of(said, place.name), context)


class PaiBackend(TerminalBackend, Remarks, SinceByPlace):
    """A workspace of PAI."""

    NAME = "pai"
    TERMINAL = "the link opens a shell once, for a WebSocket client, within 30 seconds; it needs no further key, so show it to nobody"
    EXTRA = "pai"
    SDK = "alibabacloud_pai_dlc20201203"
    ACCOUNT = ("ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_SECRET", "ALIBABA_CLOUD_SECURITY_TOKEN")
    KEYS = ACCOUNT[:2]
    STORE = "oss"

    def __init__(self, own: PaiSettings, context: SubmitContext) -> None:
        super().__init__(own.common, context)
        self.own = own

    def own_problems(self, job: Job) -> list[Problem]:
        return request.problems(job, self.own)

    def remarks(self, job: Job) -> list[Problem]:
        """An instance type says all that a node has."""
        return request.remarks(job, self.own)

    def body(self, job: Job, plan: CloudLayout) -> dict[str, Any]:
        return request.body(job, plan, self.own)

    def address(self) -> str:
        return f"POST {self._endpoint()}/api/v1/jobs"

    def connect(self, keys: dict[str, str]) -> CloudApi:
        from umiak.submit.backends.pai.api import PaiApi

        return PaiApi(
            {**keys, self.ACCOUNT[2]: self.context.environ.get(self.ACCOUNT[2], "")},
            region=self.settings.region,
            endpoint=self._endpoint(),
            workspace=self.own.workspace,
            timeout_s=self.settings.timeout_s,
        )

    def _endpoint(self) -> str:
        return self.settings.endpoint or f"https://pai-dlc.{self.settings.region}.aliyuncs.com"
