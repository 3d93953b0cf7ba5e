"""What a trainer posts for the others to look at: a few words, and the state of its metrics. A decider.

    message = posted({"batch": 7}, metrics.state())
    head, state = read(message)

A state of many numbers, such as that of an AUC with a million thresholds, is compressed, as most of them are zeros. One that is too long for a message
all the same is left out.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from umiak.core.json_types import JsonMapping, JsonObject

MOST_BYTES = 1 << 20
"""Of a message."""
MOST_PLAIN_BYTES = 1 << 19
"""Of numbers that are sent as they are: compressing takes longer than sending them."""
FORM = "form"
PLAIN, COMPRESSED, ABSENT = "plain", "compressed", "absent"


def posted(head: JsonMapping, state: NDArray[np.float64], *, most_bytes: int = MOST_BYTES) -> bytes:
    """One message, of at most so many bytes."""
    plain = state.tobytes()
    if len(plain) <= min(MOST_PLAIN_BYTES, most_bytes // 2):
        return _message(head, PLAIN, plain)
    message = _message(head, COMPRESSED, zlib.compress(plain, 1))
    return message if len(message) <= most_bytes else _message(head, ABSENT, b"")


def read(message: bytes) -> tuple[JsonObject, NDArray[np.float64] | None]:
    """Its words, and the numbers; None where they were left out."""
    line, _, body = message.partition(b"\n")
    head: JsonObject = json.loads(line)
    form = head.pop(FORM)
    if form == ABSENT:
        return head, None
    return head, np.frombuffer(zlib.decompress(body) if form == COMPRESSED else body, np.float64)


def _message(head: JsonMapping, form: str, body: bytes) -> bytes:
    return json.dumps({**head, FORM: form}).encode() + b"\n" + body
