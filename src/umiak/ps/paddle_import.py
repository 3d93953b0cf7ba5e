"""Importing Paddle without remarks that are none of the user's business. An adapter."""

from __future__ import annotations

import contextlib
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def without_remarks() -> Iterator[None]:
    """Paddle misses a program for compiling operators, which nobody does here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="No ccache found")
        yield
