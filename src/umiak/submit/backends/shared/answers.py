"""What a host does with the directory of a run there, when it is asked over ssh. An adapter.

    {"do": "shared.put", "run": "ctr-3f2a9c", "texts": [["job.sh", "...", 448]], "secrets": {...}, "files": "9f31..."}
    {"do": "shared.lines", "run": "ctr-3f2a9c", "after": {...}}        {"lines": [...], "has_more": false}

The agent imports this module when such a question comes. Names of files are names in the run's directory, never paths.
Secrets come through the connection, and lie in a file that its owner alone can read.
"""

from __future__ import annotations

import os
import time

from umiak.core.cluster import Role
from umiak.core.names import is_name
from umiak.core.node_report import text_of
from umiak.submit.backend import LogsWanted
from umiak.submit.backends.shared import layout, logs
from umiak.submit.backends.shared.store import RunStore
from umiak.submit.logs import order as log_order
from umiak.submit.node.logs import LogReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.submit.backends.shared.layout import SharedRun

MOST_LINES = 5_000
"""In one answer."""


def answer(word: str, directory: str, launcher: str, request: JsonMapping, trusted: Sequence[str] = ()) -> JsonMapping:
    """The answer to ``shared.WORD``."""
    store = RunStore(directory, "", trusted)
    match word:
        case "prepare":
            return _prepare(store, str(request.get("files") or ""))
        case "environment":
            return {"environment": dict(os.environ)}
        case "find":
            return {"missing": [each for each in request["names"] if not _found(each, str(request["path"]))]}
        case "execute":
            return _executed(request)
        case "runs":
            return {"runs": store.runs(), "claims": store.claims()}
    return _of_run(word, store, launcher, request)


def _of_run(word: str, store: RunStore, launcher: str, request: JsonMapping) -> JsonMapping:
    run = _run(store, request)
    match word:
        case "put":
            texts = [(_name(name), str(text), int(mode)) for name, text, mode in request["texts"]]
            store.make_directories(run)
            store.put(run, texts, request["secrets"], launcher, str(request["files"]))
            return {}
        case "read":
            return {
                "texts": {name: store.read(run, _name(name)) for name in request["names"]},
                "claimed": store.claimed(run),
                "is_cancelled": store.is_cancelled(run),
            }
        case "reports":
            return {"reports": [[number, text_of(each)] for number, each in store.reports(run).items()]}
        case "claim":
            return {"claimed": store.claim(run, str(request["by"]))}
        case "cancel":
            store.ask_to_cancel(run)
            return {}
        case "forget":
            store.forget_secrets(run)
            return {}
        case "lines":
            return _lines(store, run, request)
    raise OSError(22, "not a question", word)


def _run(store: RunStore, request: JsonMapping) -> SharedRun:
    run = store.run(_name(request["run"]))
    store.check(run)
    return run


def _name(text: object) -> str:
    if not is_name(str(text)):
        raise OSError(22, "not a name", str(text))
    return str(text)


def _prepare(store: RunStore, digest: str) -> JsonObject:
    store.make_directories()
    kept = store.kept(digest)
    has = not digest or os.path.isdir(kept)
    if digest and has:
        os.utime(kept)
    return {"directory": store.root, "needs_files": not has}


def _found(name: str, path: str) -> bool:
    import shutil

    return shutil.which(name, path=path or None) is not None


def _executed(request: JsonMapping) -> JsonObject:
    """A command with a clean standard input. No secret is among its words or variables."""
    import shutil
    import subprocess

    words, path = [str(each) for each in request["words"]], str(request["path"])
    program = shutil.which(words[0], path=path or None)
    if program is None:
        return {"code": None, "out": "", "err": "no such command"}
    try:
        done = subprocess.run(
            [program, *words[1:]],
            check=False,
            env=dict(request["env"]),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=float(request["limit_s"]),
        )
    except subprocess.TimeoutExpired:
        return {"code": None, "out": "", "err": ""}
    return {"code": done.returncode, "out": done.stdout, "err": done.stderr}


def _lines(store: RunStore, run: SharedRun, request: JsonMapping) -> JsonObject:
    """What came since the caller's positions, up to so many lines."""
    text = store.read(run, layout.RUN)
    if text is None:
        return {"lines": [], "has_more": False}
    is_over = bool(request["is_over"])
    since_s = request.get("since_s")
    ahead_s = log_order.clock_ahead_s(time.time(), request.get("now_s"))
    wanted = LogsWanted(
        role=Role(request["role"]) if request.get("role") else None,
        rank=request.get("rank"),
        after=request.get("after") or {},
        tail=request.get("tail"),
        since_s=None if since_s is None else float(since_s) + ahead_s,
    )
    readers = [
        LogReader(source, wanted.after.get(source.name, ""), tail=wanted.tail, since_s=wanted.since_s)
        for source in logs.sources(run, layout.info_from(text), wanted, is_over=is_over)
    ]
    given: list[list[Any]] = []
    try:
        for line in log_order.by_time([reader.lines(is_over=is_over) for reader in readers]):
            time_s = None if line.time_s is None else line.time_s - ahead_s
            role = line.role.value if line.role else None
            given.append([line.source, line.text, line.position, role, line.rank, time_s])
            if len(given) == MOST_LINES:
                return {"lines": given, "has_more": True}
    finally:
        for reader in readers:
            reader.close()
    return {"lines": given, "has_more": False}
