"""Trainers that wait for each other, told in the words of fleet's scripts. An adapter.

Servers notice it, and name what a script of `umiak.ps` calls. A script that calls fleet has no such call.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import umiak_native

if TYPE_CHECKING:
    from collections.abc import Iterator

CODE = "mutual-wait"
HINT = (
    "with a_sync=False every trainer runs the same number of steps, and all of them call fleet.barrier_worker, fleet.util.barrier, all_reduce and "
    "all_gather equally often; one that has no more batches calls fleet.stop_worker(), and train_from_dataset sees to it by itself"
)


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Around what waits for other trainers."""
    try:
        yield
    except umiak_native.Refused as error:
        if error.code != CODE or not error.hint or error.hint == HINT:
            raise
        again = umiak_native.Refused(str(error).replace(error.hint, HINT))
        again.code, again.hint = CODE, HINT
        raise again from None
