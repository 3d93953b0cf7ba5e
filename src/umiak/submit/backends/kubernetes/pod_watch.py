"""The pods of a run as they change, by a watch that goes on where it broke off. An adapter.

with PodWatch(api, path, selector) as watch:
    watch.pods                     as they are now
    watch.changed.wait(1.0)
"""

from __future__ import annotations

import json
import threading

from umiak.kube.answers import KubeRefused, KubeSilent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject
    from umiak.kube.api import KubeApi

WATCH_S = 240
"""After so long the API ends a watch, and it is begun again."""
QUIET_S = WATCH_S + 30.0
AGAIN_S = 0.5
GONE = 410
"""The version from which a watch should go on is too old: the list is read again."""


class PodWatch:
    """A thread that keeps a list."""

    def __init__(self, api: KubeApi, path: str, selector: str) -> None:
        self._api, self._path, self._selector = api, path, selector
        self._pods: dict[str, JsonObject] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.trouble: BaseException | None = None

    def __enter__(self) -> PodWatch:
        version = self._list()
        threading.Thread(target=self._run, args=(version,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    @property
    def pods(self) -> tuple[JsonObject, ...]:
        if self.trouble is not None:
            raise self.trouble
        with self._lock:
            return tuple(self._pods.values())

    def _list(self) -> str:
        found, version = self._api.list(self._path, labelSelector=self._selector)
        with self._lock:
            self._pods = {pod["metadata"]["uid"]: pod for pod in found}
        return version

    def _list_again(self) -> str:
        try:
            return self._list()
        except KubeSilent:
            self._stop.wait(AGAIN_S)
            return ""

    def _run(self, version: str) -> None:
        try:
            while not self._stop.is_set():
                version = self._watch(version) if version else self._list_again()
        except BaseException as error:  # noqa: BLE001 - told where the pods are read
            self.trouble = error
        finally:
            self._api.close()

    def _watch(self, version: str) -> str:
        """The version up to which everything was seen; empty: the list must be read again."""
        query = {"labelSelector": self._selector, "resourceVersion": version, "watch": "true"}
        query |= {"allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_S)}
        try:
            for line in self._api.stream(self._path, query, quiet_s=QUIET_S):
                event = json.loads(line)
                thing = event["object"]
                if event["type"] == "ERROR":
                    return ""
                version = thing["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self._take(event["type"], thing)
                if self._stop.is_set():
                    break
        except KubeRefused as refused:
            if refused.status == GONE:
                return ""
            if refused.status in (401, 403, 404):
                raise
            self._stop.wait(AGAIN_S)
        except (KubeSilent, ValueError, KeyError):
            self._stop.wait(AGAIN_S)
        return version

    def _take(self, kind: str, pod: JsonObject) -> None:
        with self._lock:
            if kind == "DELETED":
                self._pods.pop(pod["metadata"]["uid"], None)
            else:
                self._pods[pod["metadata"]["uid"]] = pod
