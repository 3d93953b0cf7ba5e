"""The addresses of a model server, and who may ask. A program.

/v2, /v2/health/live, /v2/health/ready            the server
/v2/models/NAME[/versions/V][/ready]              a model
/v2/models/NAME[/versions/V]/infer                POST: tensors in, tensors out
/v1/models/NAME:predict, /predict                 POST: {"instances": [...]}
/metrics                                          for Prometheus
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from umiak.core.value import value
from umiak.serving import protocol
from umiak.serving.counting import ServingCounts
from umiak.web.guard import LOOPBACK, TokenCheck, host_name
from umiak.web.messages import HttpAnswer, HttpRefusal

if TYPE_CHECKING:
    from umiak.serving.batching import Batcher
    from umiak.serving.models import ServedModel
    from umiak.web.messages import RequestHead

JSON_LENGTH = "inference-header-content-length"
HEALTH = ("/v2/health/live", "/v2/health/ready")
READING = ("GET", "HEAD")


@value
class ServingLimits:
    """What one request may be."""

    body_bytes: int


class ServingGate:
    """Without a token only programs of this machine may ask, and no page of a browser; with one, who has it."""

    def __init__(self, token: str, limits: ServingLimits) -> None:
        self._has_token, self._limits = bool(token), limits
        self._tokens = TokenCheck(token)

    def check(self, head: RequestHead, now_s: float) -> None:
        """HttpRefusal if the request must not be answered."""
        if head.method not in (*READING, "POST"):
            raise HttpRefusal(405, "method not allowed", {"Allow": "GET, HEAD, POST"})
        if "origin" in head.headers or head.headers.get("sec-fetch-site", "none") != "none":
            raise HttpRefusal(403, "asked by a page of a browser")
        if head.body_bytes > self._limits.body_bytes:
            raise HttpRefusal(413, f"the body has {head.body_bytes} bytes: at most {self._limits.body_bytes} are read")
        if not self._has_token:
            if host_name(head.headers.get("host", "")) not in LOOPBACK:
                raise HttpRefusal(
                    421, "this server answers to localhost alone: umiak serve --host ... --token_file ..."
                )
        elif head.path not in HEALTH and not self._tokens.is_borne(head, now_s):
            raise HttpRefusal(401, "a token is needed: Authorization: Bearer ...", {"WWW-Authenticate": "Bearer"})


class ServingApp:
    """Answers requests with the model that is current."""

    def __init__(self, name: str, batcher: Batcher, *, version: str) -> None:
        self._name, self._batcher, self._version = name, batcher, version
        self.model: ServedModel | None = None
        self.is_ending = False
        self.counts = ServingCounts()

    async def handle(self, head: RequestHead) -> HttpAnswer:
        """HttpRefusal if there is no such address."""
        words = [each for each in head.path.split("/") if each]
        if head.path == "/metrics":
            text = self.counts.text(waiting=self._batcher.waiting, version=self._current)
            return HttpAnswer(body=text.encode(), kind="text/plain; version=0.0.4; charset=utf-8")
        if words == ["v2"]:
            about = {"name": "umiak", "version": self._version, "extensions": ["binary_tensor_data"]}
            return _json(about)
        if words == ["v2", "health", "live"]:
            return _json({"live": True})
        if words == ["v2", "health", "ready"]:
            return self._ready()
        if words == ["predict"] or words == ["v1", "models", f"{self._name}:predict"]:
            return await self._asked(head, is_plain=True)
        if words[:2] == ["v2", "models"] and len(words) > 2:
            return await self._of_model(head, words[2:])
        raise HttpRefusal(404, f"there is nothing at {head.path}")

    async def _of_model(self, head: RequestHead, words: list[str]) -> HttpAnswer:
        name, *rest = words
        if name != self._name:
            raise HttpRefusal(404, f"no model is called {name}: there is {self._name}")
        if rest[:1] == ["versions"]:
            if rest[1:2] != [self._current]:
                raise HttpRefusal(404, f"this version is not served: there is {self._current}")
            rest = rest[2:]
        match rest:
            case []:
                model = self._loaded()
                return _json(protocol.metadata(model.signature, name=name, versions=[self._current]))
            case ["ready"]:
                return self._ready()
            case ["infer"]:
                return await self._asked(head, is_plain=False)
        raise HttpRefusal(404, f"there is nothing at {head.path}")

    async def _asked(self, head: RequestHead, *, is_plain: bool) -> HttpAnswer:
        began, status = time.monotonic(), 500
        try:
            answer = await self._answered(head, is_plain=is_plain)
            status = answer.status
        except HttpRefusal as refusal:
            status = refusal.status
            raise
        finally:
            self.counts.answered(status, time.monotonic() - began)
        return answer

    async def _answered(self, head: RequestHead, *, is_plain: bool) -> HttpAnswer:
        if head.method != "POST":
            raise HttpRefusal(405, "method not allowed", {"Allow": "POST"})
        model = self._loaded()
        if is_plain and model.raw is not None:
            asked = model.raw.request(head.body)
        elif is_plain:
            asked = protocol.instances_request(head.body, model.signature)
        else:
            asked = protocol.infer_request(head.body, _json_bytes(head), model.signature)
        try:
            outputs = await self._batcher.ask(model, asked)
        except HttpRefusal:
            raise
        except Exception as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise HttpRefusal(400, f"the model refuses these inputs: {lines[-1][:300]}") from error
        self.counts.rows += asked.rows
        if is_plain:
            return HttpAnswer(body=protocol.instances_answer(outputs))
        body, json_bytes = protocol.infer_answer(asked, outputs, model=self._name, version=model.version.name)
        if json_bytes is None:
            return HttpAnswer(body=body)
        headers = {"Inference-Header-Content-Length": str(json_bytes)}
        return HttpAnswer(body=body, kind="application/octet-stream", headers=headers)

    def _ready(self) -> HttpAnswer:
        is_ready = self.model is not None and not self.is_ending
        return _json({"ready": is_ready, "version": self._current}, 200 if is_ready else 503)

    def _loaded(self) -> ServedModel:
        if self.model is None:
            raise HttpRefusal(503, "no model is loaded yet")
        return self.model

    @property
    def _current(self) -> str:
        return self.model.version.name if self.model else ""


def refused(refusal: HttpRefusal) -> HttpAnswer:
    """As the protocol tells errors."""
    body = json.dumps({"error": refusal.text}).encode()
    return HttpAnswer(status=refusal.status, body=body, headers=refusal.headers)


def _json_bytes(head: RequestHead) -> int | None:
    text = head.headers.get(JSON_LENGTH)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9) or int(text) > len(head.body):
        raise HttpRefusal(400, f"{JSON_LENGTH}: {text} is not a length within the body")
    return int(text)


def _json(said: dict[str, Any], status: int = 200) -> HttpAnswer:
    return HttpAnswer(status=status, body=json.dumps(said).encode())
