"""Notices `hash()` of a text in a user's reader. An adapter: it replaces a builtin of a reader process until the first such call.

    hash_calls.watch("reader.py")       in a reader process, before the user's code is imported
    hash_calls.told()                   {"hash_call": {"file": ..., "line": 12}} once, then nothing
    hash_calls.problem({...})           what is told about it, in the trainer

Python mixes a number of the process into `hash` of texts and bytes. Reader processes all have the same one (PYTHONHASHSEED=0), so a training works; a program that serves the model has
another one, and looks up other rows. Nothing but such a call of the user's own code is told: not what libraries do, nor a method `__hash__`, whose numbers stay in the process.
"""

from __future__ import annotations

import builtins
import os
import sys
from typing import TYPE_CHECKING, Any

from umiak.core.problem import Problem

if TYPE_CHECKING:
    from umiak.core.json_types import JsonMapping, JsonObject

KEY = "hash_call"
_plain = builtins.hash
_found: list[JsonObject] = []


def watch(file: str) -> None:
    """From now on, until code in the directory of this file calls `hash` with a text."""
    directory = os.path.join(os.path.dirname(os.path.abspath(file)), "")

    def hash(item: Any, /) -> int:  # noqa: A001 - it stands for it
        if _has_text(item):
            frame = sys._getframe(1)  # noqa: SLF001 - who calls
            path = os.path.abspath(frame.f_code.co_filename)
            is_own = path.startswith(directory) and "site-packages" not in path[len(directory) :]
            if is_own and frame.f_code.co_name != "__hash__":
                builtins.hash = _plain
                _found.append({"file": frame.f_code.co_filename, "line": frame.f_lineno})
        return _plain(item)

    builtins.hash = hash


def told() -> JsonObject:
    """The first call, to be sent to the trainer; once."""
    return {KEY: _found.pop()} if _found else {}


def problem(call: JsonMapping) -> Problem:
    """What people read about it."""
    return Problem(
        code="UM-DATA-181",
        what="hash() of a text is another number in every process, and so are ids that are made with it",
        why="reader processes have PYTHONHASHSEED=0 and agree; a program that serves the model looks up other rows",
        hint="`from umiak.models import stable_hash`, and `stable_hash(text, buckets)` instead of `hash(text) % buckets`",
        where=f"{call['file']}:{call['line']}",
    )


def _has_text(item: object) -> bool:
    if isinstance(item, (str, bytes)):
        return True
    return isinstance(item, (tuple, frozenset)) and any(_has_text(each) for each in item)
