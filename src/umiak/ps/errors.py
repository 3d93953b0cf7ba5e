"""Mistakes in how `umiak.ps` is used, as an exception whose text says all of them. Values.

What servers and connections report while a job runs are `umiak_native.PsError` and its kinds: ``Refused``, ``ServerLost``,
``ServerForgot``, ``TrainerLost``, ``Timeout``.
"""

from __future__ import annotations

from umiak.core.problem import BadRequest

__all__ = ["BadRequest", "bad"]


def bad(code: str, what: str, hint: str | None = None) -> BadRequest:
    """A request with one problem."""
    return BadRequest.of(code, what, hint=hint)
