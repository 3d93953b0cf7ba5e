"""Asks etcd through its JSON gateway, one short request at a time.
An adapter. Proxies are not used, as the launcher uses none.
"""

from __future__ import annotations

import base64
import email.utils
import http.client
import json
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class EtcdRefused(Exception):
    """No answer, or not the one that was asked for."""


def ask(host: str, port: int, path: str, body: object = None, *, timeout_s: float) -> Any:
    """What it answers: to a GET, or with a body to a POST."""
    status, _, text = _exchange(host, port, path, body, timeout_s)
    try:
        answer = json.loads(text)
    except ValueError:
        raise EtcdRefused(f"no JSON from {path}: is it etcd?") from None
    if status != http.client.OK and not (isinstance(answer, dict) and "health" in answer):
        reason = answer.get("error") or answer.get("message") if isinstance(answer, dict) else ""
        raise EtcdRefused(f"status {status}: {reason or text[:100]}")
    return answer


def clock(host: str, port: int, *, timeout_s: float) -> tuple[float, float] | None:
    """How far our clock is ahead of its, and how much that may be wrong; ``None``: it does not tell."""
    before = time.time()
    try:
        _, date, _ = _exchange(host, port, "/version", None, timeout_s)
        theirs = email.utils.parsedate_to_datetime(date or "").timestamp()
    except (EtcdRefused, ValueError, TypeError):
        return None
    after = time.time()
    # Its second has begun, and is not over: half a second more is the best guess.
    return (before + after) / 2 - (theirs + 0.5), 0.5 + (after - before) / 2


def in_base64(text: str) -> str:
    """As the gateway wants keys and values."""
    return base64.b64encode(text.encode()).decode()


def _exchange(host: str, port: int, path: str, body: object, timeout_s: float) -> tuple[int, str | None, str]:
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        if body is None:
            connection.request("GET", path)
        else:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.getheader("Date"), answer.read(1 << 20).decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        raise EtcdRefused(getattr(error, "strerror", None) or str(error) or type(error).__name__) from None
    finally:
        connection.close()
