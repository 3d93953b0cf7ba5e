"""JSON without the standard module around it, whose import takes as long as a bare Python's start. A decider.

    loads(b'{"do": "check"}\\n')     {"do": "check"}
    dumps({"is_started": False})     '{"is_started": false}'

`json` compiles regular expressions and imports `enum` for them: 9 ms, which an agent spends on each of many hosts at
once, before it has done anything. The C half of `json` is all that is needed for texts that programs write for one
another; a Python that has none, or another one, gets `json` itself. What is read and written is the same in both cases.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def loads(data: bytes | str) -> Any:
    """What a text says, in UTF-8 if it comes as bytes. ValueError if it is no JSON."""
    text = data if isinstance(data, str) else data.decode()
    begin = len(text) - len(text.lstrip(_SPACE))
    try:
        found, end = _scan(text, begin)
    except StopIteration:
        raise ValueError("not JSON") from None
    if text[end:].strip(_SPACE):
        raise ValueError(f"not JSON: something follows at {end}")
    return found


def dumps(data: object) -> str:
    """A text in one line, in ASCII. TypeError if there is no JSON for it."""
    return "".join(_encode(data, 0))


_SPACE = " \t\n\r"


class _Settings:
    """What `json.JSONDecoder` has by default."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float  # NaN, Infinity and -Infinity are words that it knows


def _refuse(item: object) -> object:
    raise TypeError(f"no JSON for {type(item).__name__}")


try:
    import _json

    _scan = _json.make_scanner(_Settings)  # type: ignore[arg-type]
    _encode: Any = _json.make_encoder(
        None, _refuse, _json.encode_basestring_ascii, None, ": ", ", ", False, False, True
    )
    _encode([], 0)
except (ImportError, AttributeError, TypeError):
    import json

    _scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]

    def _encode(data: object, _: int) -> str:
        return json.dumps(data)
