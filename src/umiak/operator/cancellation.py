"""Waits with a time limit, and the end of tasks, in which no cancellation is lost. An adapter; asyncio.

`asyncio.wait_for` before Python 3.12 returns as if nothing had happened when it is cancelled in the moment in
which what it waits for is done. A loop around it then goes on for ever, and who cancelled it waits for ever.
"""

from __future__ import annotations

import asyncio

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import TypeVar

    T = TypeVar("T")


async def within(awaitable: Awaitable[T], seconds: float | None) -> T:
    """The result; TimeoutError of asyncio after so many seconds, None being no limit. Cancelled, it always says so."""
    task = asyncio.ensure_future(awaitable)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await ended(task)
        raise
    if done:
        return task.result()
    await ended(task)
    if task.cancelled() or task.exception() is not None:
        raise asyncio.TimeoutError
    return task.result()  # it was done in the last moment


async def ended(*tasks: asyncio.Future[T]) -> None:
    """All of them are cancelled and over; what they raised is left in them."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
