"""The journal of a run: every event that a decider was given and what it decided, in ``events.jsonl``. An adapter.

    {"run": "abcdef", "wall": 1718000000.0, "setting": {...}}                      a launcher starts
    {"t": 12.5, "who": "master", "lead": {...}}                                    it becomes the master
    {"formation": "1 abcdef", "cluster": {...}}                                    a formation, before it is mentioned
    {"t": 12.5, "who": "node", "event": {"is": "MessageFromMaster", ...}, "actions": [...]}

Feeding the events of a journal to the deciders again gives the same actions: `replay` does that,
for tests and for finding out why a run went as it did. No environment and no secret is ever part of an event.
"""

from __future__ import annotations

import json
import os

from umiak.core.cluster import Cluster
from umiak.core.decode import decode, decode_tagged, encode
from umiak.core.value import fields, is_value
from umiak.launch import events
from umiak.launch.master import rendezvous
from umiak.launch.node import machine
from umiak.launch.reports.logfiles import PRIVATE, Access, open_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from umiak.core.json_types import JsonObject
    from umiak.launch.events import Lead, NodeSetting


class Journal:
    """Writes one launcher's events, each as soon as it was decided upon."""

    def __init__(self, path: str, access: Access = PRIVATE) -> None:
        self._fd = open_log(path, access=access)
        self._full = False
        self._mentioned: set[str] = set()

    def begin(self, run: str, wall: float, setting: NodeSetting) -> None:
        self._write({"run": run, "wall": wall, "setting": encode(setting)})

    def lead(self, now: float, lead: Lead) -> None:
        self._write({"t": now, "who": "master", "lead": plain(lead, self._introduce)})

    def record(self, now: float, who: str, event: object, actions: Iterable[object]) -> None:
        entry = {
            "t": now,
            "who": who,
            "event": plain(event, self._introduce),
            "actions": [plain(action, self._introduce) for action in actions],
        }
        self._write(entry)

    def know(self, cluster: Cluster, as_received: object) -> None:
        """A formation that came over the wire is written down as it came; that saves encoding it again."""
        formation = _name_of(cluster)
        if formation not in self._mentioned:
            self._mentioned.add(formation)
            self._write({"formation": formation, "cluster": as_received})

    def close(self) -> None:
        os.close(self._fd)

    def _introduce(self, formation: str, cluster: Cluster) -> None:
        """Formations are large and are mentioned often, so each is written down once."""
        if formation not in self._mentioned:
            self._mentioned.add(formation)
            self._write({"formation": formation, "cluster": encode(cluster)})

    def _write(self, entry: JsonObject) -> None:
        if self._full:
            return
        try:
            os.write(self._fd, json.dumps(entry, separators=(",", ":")).encode() + b"\n")
        except OSError:
            self._full = True  # a full disk must not stop the job; the worker logs say so aloud


class Start:
    """The event before all others."""


def plain(item: object, introduce: Callable[[str, Cluster], None] = lambda _formation, _cluster: None) -> object:
    """Plain data in which every value says what it is, and a formation is only mentioned."""
    if isinstance(item, Cluster):
        formation = _name_of(item)
        introduce(formation, item)
        return {"formation": formation}
    if isinstance(item, Start):
        return {"is": "Start"}
    if is_value(item):
        return {"is": type(item).__name__, **{name: plain(getattr(item, name), introduce) for name in fields(item)}}
    if isinstance(item, tuple):
        return [plain(each, introduce) for each in item]
    return encode(item)


def _name_of(cluster: Cluster) -> str:
    return f"{cluster.generation} {cluster.coordinator}"


def replay(lines: Iterable[str]) -> Iterator[tuple[JsonObject, list[object]]]:
    """Every journalled decision of a run's last launcher, with what the deciders decide when they are asked again."""
    node: machine.NodeMachine | None = None
    master: rendezvous.Coordinator | None = None
    formations: JsonObject = {}
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            return  # the disk was full here, or the machine lost power
        if "run" in entry:
            node = machine.NodeMachine(decode(events.NodeSetting, entry["setting"]))
            continue
        if "formation" in entry:
            formations[entry["formation"]] = entry["cluster"]
            continue
        assert node is not None, "a journal begins with its setting"
        now = entry["t"]
        if "lead" in entry:
            lead = decode(events.Lead, recalled(entry["lead"], formations))
            master = rendezvous.Coordinator(node.setting, lead, now=now)
        elif entry["who"] == "master":
            assert master is not None
            event: Any = decode_tagged(events.RENDEZVOUS_EVENTS, recalled(entry["event"], formations))
            yield entry, [plain(action) for action in master.step(now, event)]
        elif entry["event"] == {"is": "Start"}:
            yield entry, [plain(action) for action in node.start(now)]
        else:
            happened: Any = decode_tagged(events.NODE_EVENTS, recalled(entry["event"], formations))
            yield entry, [plain(action) for action in node.step(now, happened)]


def recalled(data: object, formations: JsonObject) -> object:
    """The same data with every mentioned formation in full."""
    if isinstance(data, list):
        return [recalled(each, formations) for each in data]
    if isinstance(data, dict):
        if "formation" in data:
            return formations[data["formation"]]
        return {name: recalled(each, formations) for name, each in data.items()}
    return data
