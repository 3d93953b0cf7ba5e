"""The backend `modelarts`: training jobs of Huawei's cloud. An adapter."""

from __future__ import annotations

from umiak.core.bundle import placeholder
from umiak.core.problem import Problem
from umiak.submit.backends.cloud import settings
from umiak.submit.backends.cloud.backend import CloudBackend
from umiak.submit.backends.modelarts import request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.job import Job
    from umiak.submit.backend import SubmitContext
    from umiak.submit.backends.cloud.api import CloudApi
    from umiak.submit.backends.modelarts.request import ModelArtsSettings
    from umiak.submit.places import NamedPlace

PROJECT = "HUAWEICLOUD_SDK_PROJECT_ID"


def make(place: NamedPlace, context: SubmitContext) -> ModelArtsBackend:
    """The entry point of this backend."""
    return ModelArtsBackend(settings.read(request.ModelArtsSettings, place, request.PAGE), context)


class ModelArtsBackend(CloudBackend):
    """A region of Huawei's cloud."""

    NAME = "modelarts"
    EXTRA = "modelarts"
    SDK = "huaweicloudsdkmodelarts"
    ACCOUNT = ("HUAWEICLOUD_SDK_AK", "HUAWEICLOUD_SDK_SK", "HUAWEICLOUD_SDK_SECURITY_TOKEN")
    KEYS = ACCOUNT[:2]
    STORE = "obs"
    REQUEST = request
    ENDPOINT = "https://modelarts.{region}.myhuaweicloud.com"
    own: ModelArtsSettings

    def __init__(self, own: ModelArtsSettings, context: SubmitContext) -> None:
        super().__init__(own, context)
        self._project = own.project or context.environ.get(PROJECT, "")

    def missing_here(self, job: Job, /) -> list[Problem]:
        problems = super().missing_here(job)
        if not self._project:
            hint = f"write `project =` in [place.{self.settings.place}], or export {PROJECT}"
            problems.append(Problem(code="UM-SUBMIT-272", what="ModelArts needs the id of a project", hint=hint))
        return problems

    def address(self) -> str:
        return f"POST {self.endpoint()}/v2/{self._project or placeholder('project', is_missing=True)}/training-jobs"

    def connect(self, keys: dict[str, str]) -> CloudApi:
        from umiak.submit.backends.modelarts.api import ModelArtsApi

        return ModelArtsApi(
            keys,
            project=self._project,
            endpoint=self.endpoint(),
            workspace=self.own.workspace,
            timeout_s=self.settings.timeout_s,
        )
