"""The journal of a run: every event that a decider was given and what it decided, in ``events.jsonl``. An adapter.

    {"run": "abcdef", "wall": 1718000000.0, "setting": {...}}                      a launcher starts
    {"t": 12.5, "who": "master", "lead": {...}}                                    it becomes the master
    {"t": 12.5, "who": "node", "event": {"is": "Received", ...}, "actions": [...]}

Feeding the events of a journal to the deciders again gives the same actions: `replay` does that, for tests and for finding out
why a run went as it did. No environment and no secret is ever part of an event.
"""

from __future__ import annotations

import json
import os

from umiak.core.decode import decode, decode_tagged, encode, encode_tagged
from umiak.launch import events, logs, machine, rendezvous

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from umiak.launch.events import Lead, NodeSetting


class Journal:
    """Writes one launcher's events, each as soon as it was decided upon."""

    def __init__(self, path: str) -> None:
        self._fd = logs.open_private(path)
        self._full = False

    def begin(self, run: str, wall: float, setting: NodeSetting) -> None:
        self._write({"run": run, "wall": wall, "setting": encode(setting)})

    def lead(self, now: float, lead: Lead) -> None:
        self._write({"t": now, "who": "master", "lead": encode(lead)})

    def record(self, now: float, who: str, event: object, actions: Iterable[object]) -> None:
        self._write({"t": now, "who": who, "event": _tagged(event), "actions": [_tagged(action) for action in actions]})

    def close(self) -> None:
        os.close(self._fd)

    def _write(self, entry: dict[str, Any]) -> None:
        if self._full:
            return
        try:
            os.write(self._fd, json.dumps(entry, separators=(",", ":")).encode() + b"\n")
        except OSError:
            self._full = True  # a full disk must not stop the job; the worker logs say so aloud


def replay(lines: Iterable[str]) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """Every journalled decision of a run's last launcher, with what the deciders decide when they are asked again."""
    node: machine.NodeMachine | None = None
    master: rendezvous.Coordinator | None = None
    for line in lines:
        entry = json.loads(line)
        if "run" in entry:
            node = machine.NodeMachine(decode(events.NodeSetting, entry["setting"]))
            continue
        assert node is not None, "a journal begins with its setting"
        now = entry["t"]
        if "lead" in entry:
            lead = decode(events.Lead, entry["lead"])
            offer = node.setting.offer
            master = rendezvous.Coordinator(
                node.terms, name=offer.name, now=now, previous=lead.previous, dead=lead.dead, silent=lead.silent
            )
        elif entry["who"] == "master":
            assert master is not None
            event: Any = decode_tagged(events.RENDEZVOUS_EVENTS, entry["event"])
            yield entry, [_tagged(action) for action in master.step(now, event)]
        elif entry["event"] == {"is": "Start"}:
            yield entry, [_tagged(action) for action in node.start(now)]
        else:
            happened: Any = decode_tagged(events.NODE_EVENTS, entry["event"])
            yield entry, [_tagged(action) for action in node.step(now, happened)]


class Start:
    """The event before all others."""


def _tagged(item: object) -> dict[str, Any]:
    """A value with its kind, and the kind of the message that it carries."""
    if isinstance(item, Start):
        return {"is": "Start"}
    plain = encode_tagged(item)
    message = getattr(item, "message", None)
    if message is not None:
        plain["message"] = encode_tagged(message)
    return plain
