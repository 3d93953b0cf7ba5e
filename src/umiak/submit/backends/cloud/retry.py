"""Requests to a cloud that are tried again, and jobs that are created once whatever happens to the answers. An adapter.

patiently(lambda: api.job("x"))              after timeouts, 429 and 5xx again, each time waiting twice as long
created(api, "ctr-3f2a", body)               the id of the one job of this name
"""

from __future__ import annotations

import time

from umiak.submit.backends.cloud.api import CloudFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from umiak.submit.backends.cloud.api import CloudApi

    T = TypeVar("T")

ATTEMPTS = 6
FIRST_DELAY_S = 0.5


def patiently(act: Callable[[], T], *, first_delay_s: float = FIRST_DELAY_S) -> T:
    """Do it until it succeeds, is refused, or has failed too often."""
    for attempt in range(ATTEMPTS - 1):
        try:
            return act()
        except CloudFailure as error:
            if not error.is_worth_another_try:
                raise
        time.sleep(first_delay_s * 2**attempt)
    return act()


def created(api: CloudApi, name: str, body: dict[str, Any], *, first_delay_s: float = FIRST_DELAY_S) -> str:
    """Create a job unless there is one of this name. After an unclear answer it is looked for before it is created again.

    A request that was thought lost may still arrive after that look. So once there was doubt, all jobs of the name are looked at in
    the end, and all but the oldest are stopped: every client chooses the same one.
    """
    doubt = False
    for attempt in range(ATTEMPTS):
        found = patiently(lambda: api.named(name), first_delay_s=first_delay_s)
        if found:
            return _only(api, [each.id for each in found], first_delay_s)
        try:
            made = api.create(body)
        except CloudFailure as error:
            if not error.is_worth_another_try or attempt == ATTEMPTS - 1:
                raise
            doubt = doubt or error.is_unclear
            time.sleep(first_delay_s * 2**attempt)
            continue
        if not doubt:
            return made
        found = patiently(lambda: api.named(name), first_delay_s=first_delay_s)
        return _only(api, [each.id for each in found] or [made], first_delay_s)
    raise AssertionError("the last attempt returns or raises")


def _only(api: CloudApi, ids: list[str], first_delay_s: float) -> str:
    for each in ids[1:]:
        patiently(lambda each=each: api.stop(each), first_delay_s=first_delay_s)  # type: ignore[misc]
    return ids[0]
