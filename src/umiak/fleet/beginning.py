"""What a job begins with, as its first server says it and its first trainer carries it out. An adapter.

A program tells only its servers what to load (``fleet.init_server(path)``),
and trainers have to do it, because they know the tables:

    server 0        makes the table ``fleet.begin`` and writes the path into it, with a mark: without the mark nothing counts
    trainer 0       waits for the mark, and tells the others in a gather which path it is, with an id of this beginning
    trainer 0       lets all servers load, and writes that id into the table
    all trainers    meet, and hear that everything is loaded, or why it is not

Gathers are kept by the servers, so a trainer that is started again hears the same; trainer 0 sees by the id whether its
predecessor's load was done. The table is saved with the others, so a load brings that of an earlier job: its id is
another one.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING

import numpy as np
import umiak_native

from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.fleet.job import say
from umiak.ps import checkpoint, specs
from umiak.ps.clients import connect
from umiak.ps.errors import bad

if TYPE_CHECKING:
    from collections.abc import Callable

    from umiak.core.json_types import JsonObject
    from umiak.ps.clients import Client
    from umiak.ps.sessions import Session

READY = "fleet.begin"
EARLIER = "fleet.ready"
"""What checkpoints of earlier versions have instead. Nothing reads it."""
LOOK_S = 0.05
LONGEST = 4000
"""Bytes of a path."""
_SIZE, _ID = 4096, 32
_SPEC = specs.DenseTable(arrays=(specs.Array("path", (_SIZE,)),), rule=specs.Sum())
_SAID, _LOADED, _FAILED = 1, 2, 3


@value
class Beginning:
    """How far a job is with it."""

    stage: int = 0
    text: str = ""
    """The path, or why it can't be loaded."""
    id: str = ""
    """Of the beginning that has ended so; empty before."""

    def to_bytes(self) -> bytes:
        text = os.fsencode(self.text)[:LONGEST].ljust(LONGEST, b"\0")
        return (text + bytes([self.stage]) + self.id.encode().ljust(_ID, b"\0")).ljust(_SIZE, b"\0")

    @classmethod
    def from_bytes(cls, content: bytes) -> Beginning:
        text, rest = content[:LONGEST], content[LONGEST + 1 : LONGEST + 1 + _ID]
        return cls(
            stage=content[LONGEST],
            text=os.fsdecode(text.rstrip(b"\0")),
            id=rest.rstrip(b"\0").decode("ascii", "replace"),
        )


class ReadyTable:
    """The table in which it is written."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def read(self) -> Beginning:
        if READY not in json.loads(self._client.status())[0]["tables"]:
            return Beginning()
        try:
            numbers = self._client.pull_dense(self._number())
        except umiak_native.Refused as refused:
            if refused.code != "not-set":
                raise
            return Beginning()
        return Beginning.from_bytes(numbers.astype(np.uint8).tobytes())

    def write(self, beginning: Beginning, *, if_unset: bool = False) -> None:
        content = np.frombuffer(beginning.to_bytes(), np.uint8).astype(np.float32)
        self._client.set_dense(self._number(), content, if_unset=if_unset)

    def _number(self) -> int:
        return int(self._client.create_table(READY, specs.to_json(_SPEC)))


# ---- servers


def serve(session: Session, tables: str | None) -> int:
    """Serve until the job is over; returns the exit status.
    ``tables`` is a checkpoint that the job begins with: the first server says it.
    """
    if len(os.fsencode(os.path.abspath(tables or ""))) > LONGEST:
        raise bad("UM-FLEET-030", f"a path of more than {LONGEST} bytes: {tables}", "give a shorter one")
    threading.Thread(target=_tell, args=(session, tables), daemon=True, name="umiak.fleet begin").start()
    return session.serve()


def _tell(session: Session, tables: str | None) -> None:
    try:
        if session.rank == 0:
            client = connect(session.seat, session.options, kind="observer")
            ready = ReadyTable(client)
            if ready.read().stage == 0:  # else this server came back with everything
                ready.write(Beginning(stage=_SAID, text=os.path.abspath(tables) if tables else ""), if_unset=True)
            client.close()
    except BaseException:  # noqa: BLE001 - whatever it is, trainers would wait for ever
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    if tables:
        with contextlib.suppress(umiak_native.PsError):  # the job may end meanwhile
            _watch(session)


def _watch(session: Session) -> None:
    """On a server that was given a path: say it if the trainers could not let it be loaded."""
    client = connect(session.seat, session.options, kind="observer")
    ready = ReadyTable(client)
    while (beginning := ready.read()).stage in (0, _SAID):
        time.sleep(LOOK_S)
    if beginning.stage == _FAILED:
        say(f"the job can't begin: {beginning.text}")
    client.close()


# ---- trainers


def begin(session: Session, prepare: Callable[[bool], None]) -> tuple[str, ...] | None:
    """On every trainer: returns when all servers hold what the job begins with, and the names of those tables;
    None if it begins from nothing.

    ``prepare`` makes the tables, and is told whether something is loaded into them.
    """
    if not session.seat.servers:
        prepare(False)
        return None
    own = json.dumps({"path": _path(session), "id": secrets.token_hex(_ID // 2)}) if session.is_first else ""
    agreed = _of_the_first(session.client.gather("fleet.begin", own.encode()))
    path = agreed["path"]
    prepare(bool(path))
    if not path:
        return None
    own_outcome = _loaded(session, path, agreed["id"]) if session.is_first else {}
    outcome = _of_the_first(session.client.gather("fleet.begun", json.dumps(own_outcome).encode()))
    if outcome["error"]:
        what = f"fleet.init_server: the servers can't begin with {path}: {outcome['error']}"
        raise bad("UM-FLEET-060", what, outcome["hint"])
    return tuple(outcome["tables"])


def _loaded(session: Session, path: str, own: str) -> JsonObject:
    """Let all servers load, unless an earlier process of this trainer has done it.
    ``own``: the id of this beginning.
    """
    ready = ReadyTable(session.client)
    try:
        if ready.read() == Beginning(stage=_LOADED, text=path, id=own):
            manifest = checkpoint.read(path)
        else:
            manifest = checkpoint.load(session.client, path, counts_steps=False)
            ready.write(Beginning(stage=_LOADED, text=path, id=own))
    except umiak_native.ServerLost:
        raise  # there is nobody to tell it to
    except (UmiakError, umiak_native.PsError, OSError) as error:
        problem = error.problems[0] if isinstance(error, UmiakError) else None
        text = ": ".join(filter(None, (problem.where, problem.what, problem.why))) if problem else str(error)
        ready.write(Beginning(stage=_FAILED, text=f"{path}: {text}", id=own))
        time.sleep(20 * LOOK_S)  # servers look for it, and say it before the launcher ends them
        return {"tables": [], "error": text, "hint": problem.hint if problem else None}
    return {"tables": [*manifest.tables], "error": "", "hint": None}


def _of_the_first(brought: list[bytes]) -> JsonObject:
    if not brought[0]:
        what = "trainer 0 was lost before the job had begun, and only it lets the servers load"
        raise bad("UM-FLEET-061", what, "trainer 0's own output says why; start the job again")
    agreed: JsonObject = json.loads(brought[0])
    return agreed


def _path(session: Session) -> str:
    """What the first server says; waits for it."""
    ready = ReadyTable(session.client)
    until = time.monotonic() + session.options.timeout_s
    while (beginning := ready.read()).stage == 0:
        if time.monotonic() > until:
            say("waiting for the first server: does it call fleet.run_server()?")
            until = time.monotonic() + session.options.timeout_s
        time.sleep(LOOK_S)
    return beginning.text if beginning.stage == _SAID else ""
