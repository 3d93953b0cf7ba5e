"""The backend `aihc`: training jobs of Baidu's AIHC. An adapter."""

from __future__ import annotations

from umiak.submit.backends.aihc import request
from umiak.submit.backends.cloud import settings
from umiak.submit.backends.cloud.backend import TerminalBackend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.submit.backend import SubmitContext
    from umiak.submit.backends.aihc.request import AihcSettings
    from umiak.submit.backends.cloud.api import CloudApi
    from umiak.submit.places import NamedPlace


def make(place: NamedPlace, context: SubmitContext) -> AihcBackend:
    """The entry point of this backend."""
    return AihcBackend(settings.read(request.AihcSettings, place, request.PAGE), context)


class AihcBackend(TerminalBackend):
    """A queue of AIHC."""

    NAME = "aihc"
    TERMINAL = "the link opens a shell, for a WebSocket client, within 30 seconds; it needs no further key, so show it to nobody"
    EXTRA = "baidu"
    SDK = "baidubce"
    ACCOUNT = ("BCE_ACCESS_KEY_ID", "BCE_SECRET_ACCESS_KEY", "BCE_SESSION_TOKEN")
    KEYS = ACCOUNT[:2]
    STORE = "bos"
    REQUEST = request
    ENDPOINT = "https://aihc.{region}.baidubce.com"
    own: AihcSettings

    def address(self) -> str:
        query = f"action=CreateJob&resourcePoolId={self.own.pool}&queueID={self.own.queue}"
        return f"POST {self.endpoint()}/?{query}"

    def connect(self, keys: dict[str, str]) -> CloudApi:
        from umiak.submit.backends.aihc.api import AihcApi

        return AihcApi(
            keys,
            endpoint=self.endpoint(),
            pool=self.own.pool,
            queue=self.own.queue,
            timeout_s=self.settings.timeout_s,
        )
