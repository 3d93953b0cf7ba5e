"""Data as JSON that every browser can read: what is no number is nothing. A decider.

json_text({"loss": float("nan")})         {"loss":null}
"""

from __future__ import annotations

import json
import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject


def json_text(data: JsonObject) -> str:
    """On one line. Python would write NaN and Infinity, which JSON does not know; a training whose loss is NaN has them."""
    try:
        return json.dumps(data, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_finite(data), separators=(",", ":"))


def _finite(item: object) -> object:
    if isinstance(item, float):
        return item if math.isfinite(item) else None
    if isinstance(item, dict):
        return {name: _finite(each) for name, each in item.items()}
    return [_finite(each) for each in item] if isinstance(item, list | tuple) else item
