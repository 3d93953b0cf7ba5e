"""The backend `pai`: DLC jobs of Alibaba's cloud. An adapter."""

from __future__ import annotations

from umiak.submit.backend import Remarks, SinceByPlace
from umiak.submit.backends.cloud import settings
from umiak.submit.backends.cloud.backend import TerminalBackend
from umiak.submit.backends.pai import request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.job import Job
    from umiak.core.problem import Problem
    from umiak.submit.backend import SubmitContext
    from umiak.submit.backends.cloud.api import CloudApi
    from umiak.submit.backends.pai.request import PaiSettings
    from umiak.submit.places import NamedPlace


def make(place: NamedPlace, context: SubmitContext) -> PaiBackend:
    """The entry point of this backend."""
    return PaiBackend(settings.read(request.PaiSettings, place, request.PAGE), context)


class PaiBackend(TerminalBackend, Remarks, SinceByPlace):
    """A workspace of PAI."""

    NAME = "pai"
    TERMINAL = "the link opens a shell once, for a WebSocket client, within 30 seconds; it needs no further key, so show it to nobody"
    EXTRA = "pai"
    SDK = "alibabacloud_pai_dlc20201203"
    ACCOUNT = ("ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_SECRET", "ALIBABA_CLOUD_SECURITY_TOKEN")
    KEYS = ACCOUNT[:2]
    STORE = "oss"
    REQUEST = request
    ENDPOINT = "https://pai-dlc.{region}.aliyuncs.com"
    own: PaiSettings

    def remarks(self, job: Job) -> list[Problem]:
        """An instance type says all that a node has."""
        return request.remarks(job, self.own)

    def address(self) -> str:
        return f"POST {self.endpoint()}/api/v1/jobs"

    def connect(self, keys: dict[str, str]) -> CloudApi:
        from umiak.submit.backends.pai.api import PaiApi

        return PaiApi(
            keys,
            region=self.settings.region,
            endpoint=self.endpoint(),
            workspace=self.own.workspace,
            timeout_s=self.settings.timeout_s,
        )
