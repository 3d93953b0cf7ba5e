"""The backend `bml`: custom training jobs of Baidu's BML. An adapter."""

from __future__ import annotations

from umiak.submit.backends.bml import request
from umiak.submit.backends.cloud import settings
from umiak.submit.backends.cloud.backend import CloudBackend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.submit.backend import SubmitContext
    from umiak.submit.backends.bml.request import BmlSettings
    from umiak.submit.backends.cloud.api import CloudApi
    from umiak.submit.places import NamedPlace


def make(place: NamedPlace, context: SubmitContext) -> BmlBackend:
    """The entry point of this backend."""
    return BmlBackend(settings.read(request.BmlSettings, place, request.PAGE), context)


class BmlBackend(CloudBackend):
    """An account of BML. Its API takes another kind of key than the rest of Baidu's cloud, and BOS the usual one."""

    NAME = "bml"
    KEYS = ("BML_API_KEY", "BML_SECRET_KEY")
    ACCOUNT = ("BCE_ACCESS_KEY_ID", "BCE_SECRET_ACCESS_KEY", "BCE_SESSION_TOKEN")
    STORE = "bos"
    REQUEST = request
    ENDPOINT = "https://aip.baidubce.com"
    own: BmlSettings
    MOST_NAME = 50
    IS_ONE_DIRECTORY = True

    def address(self) -> str:
        return f"POST {self.endpoint()}/rpc/2.0/easydl/pro/remotetrain/create"

    def connect(self, keys: dict[str, str]) -> CloudApi:
        from umiak.submit.backends.bml.api import BmlApi

        return BmlApi(keys, endpoint=self.endpoint(), timeout_s=self.settings.timeout_s)
