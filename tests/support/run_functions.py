"""Functions that tests give to `umiak.run`: workers import this module, as they would a user's."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

PATIENCE_S = 120.0


def rank() -> int:
    return int(os.environ["RANK"])


def add(one: int, *, other: int = 0) -> tuple[int, int]:
    print(f"adding on rank {rank()}")
    return rank(), one + other


def wait_forever(story: str) -> None:
    """Say who is here, and stay."""
    (Path(story) / f"{rank()}.{os.getpid()}").touch()
    threading.Event().wait(PATIENCE_S)


def ignore_signals(story: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    wait_forever(story)


class Missing(Exception):
    """Can be sent, and not be made again: the other side does not know the column."""

    def __init__(self, column: str, table: str) -> None:
        super().__init__(f"no such column: {column} in {table}")


def fail_on(who: int, how: str) -> int:
    if rank() != who:
        threading.Event().wait(PATIENCE_S)
    if how == "raise":
        raise ValueError("no such column: age")
    if how == "odd":
        raise Missing("age", "users")
    if how == "exit":
        sys.exit(5)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(0)


def fail_in_order(story: str) -> None:
    """Rank 1 fails, and then rank 0 because of it, before anybody could stop it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    (Path(story) / f"rank{rank()}").symlink_to(str(os.getpid()))
    if rank() == 1:
        while not (Path(story) / "rank0").is_symlink():  # until it can't be stopped any more
            threading.Event().wait(0.01)
        raise ValueError("the first")
    while not (Path(story) / "rank1").is_symlink() or _runs(int(os.readlink(Path(story) / "rank1"))):
        threading.Event().wait(0.01)
    raise ConnectionError("the second")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def fail_once() -> str:
    restarts = os.environ["UMIAK_RESTART_COUNT"]
    if restarts == "0":
        if rank() == 0:
            raise ValueError("not yet")
        threading.Event().wait(PATIENCE_S)
    return restarts


def unsendable() -> object:
    return threading.Lock()


def variable(name: str) -> str | None:
    return os.environ.get(name)


def nested() -> tuple[object, ...]:
    import umiak

    return tuple(umiak.run(add, 1, nproc_per_node=2, log_dir=f"inner{rank()}"))


def execute(code: str) -> None:
    """Run a text as a program."""
    exec(code, {})
