"""What a trial prints, and how it is read back: one line of JSON, the last one. A decider."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def answer_of(output: str) -> Any:
    """The answer in an output; ``None``: there is none. A framework may have printed other things before it."""
    for line in reversed(output.splitlines()):
        if line.startswith(("{", "[")):
            try:
                return json.loads(line)
            except ValueError:
                continue
    return None
