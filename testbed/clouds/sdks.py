"""Adapter: the vendors' SDKs, which are in an environment of their own, .venv-clouds (80 MB), that `make test` makes."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

VENV = Path(__file__).resolve().parent.parent.parent / ".venv-clouds"


@functools.cache
def available() -> str | None:
    """Why they can't be had on this machine, or `None` where they can."""
    return None if path().exists() else f"the clouds' SDKs are not installed: make test makes {VENV.name}"


def path() -> Path:
    """Where they lie: behind everything else on `sys.path` they replace nothing."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return VENV / "lib" / version / "site-packages"
