"""What a job of fluid says to the person who watches, each thing once. An adapter."""

from __future__ import annotations

import sys

_said: set[str] = set()


def say(text: str) -> None:
    """One line on stderr."""
    if text not in _said:
        _said.add(text)
        sys.stderr.write(f"umiak.fluid: {text}\n")
        sys.stderr.flush()
