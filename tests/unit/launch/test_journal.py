"""A journal holds what the deciders were told and what they decided; asked again, they decide the same."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import PATIENCE_S, formation, offer, simulated_cluster, simulated_node, terms
from umiak.launch import events
from umiak.launch.events import Discovery, Lead, NodeSetting
from umiak.launch.journal import Journal, Start, replay
from umiak.launch.master import rendezvous
from umiak.launch.node.machine import NodeMachine
from umiak.launch.protocol import Finish, Form
from umiak.launch.reports import words

SECRET = "correct-horse-battery-staple"


def differences(path: Path) -> tuple[int, list[tuple[Any, Any, Any]]]:
    """How many decisions a journal holds, and those that come out otherwise now."""
    replayed = replay(path.read_text().splitlines())
    decisions = [(entry["event"], entry["actions"], json.loads(json.dumps(again))) for entry, again in replayed]
    return len(decisions), [each for each in decisions if each[1] != each[2]]


# ---- a simulated run, journalled as the launcher does it


class JournalledMachine(NodeMachine):
    journal: Journal

    def start(self, now: float) -> Any:
        self.journal.begin("run", now, self.setting)
        actions = super().start(now)
        self.journal.record(now, "node", Start(), actions)
        return actions

    def step(self, now: float, event: Any) -> Any:
        actions = super().step(now, event)
        self.journal.record(now, "node", event, actions)
        return actions


class JournalledCoordinator(rendezvous.Coordinator):
    journals: dict[str, Journal] = {}

    def __init__(self, setting: NodeSetting, lead: Lead, *, now: float) -> None:
        super().__init__(setting, lead, now=now)
        self.journals[setting.offer.name].lead(now, lead)

    def step(self, now: float, event: Any) -> Any:
        actions = super().step(now, event)
        self.journals[self.name].record(now, "master", event, actions)
        return actions


@pytest.fixture
def journals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """While this lasts, every simulated launcher writes its journal here."""
    opened: dict[str, Journal] = {}

    def journalled(setting: NodeSetting) -> JournalledMachine:
        made = JournalledMachine(setting)
        name = setting.offer.name
        made.journal = opened[name] = Journal(str(tmp_path / f"{name}.jsonl"))
        return made

    monkeypatch.setattr(simulated_node, "NodeMachine", journalled)
    monkeypatch.setattr(rendezvous, "Coordinator", JournalledCoordinator)
    monkeypatch.setattr(JournalledCoordinator, "journals", opened)
    yield tmp_path
    monkeypatch.undo()
    for journal in opened.values():
        journal.close()


def test_every_launcher_of_a_simulated_run_decides_the_same_again(
    journals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = simulated_cluster.World(terms("2:4", max_restart=3), seed=5)
    for name in "abcd":
        world.start(name)
    world.run(3)
    world.nodes["c"].fail_worker(7)
    world.run(5)
    world.kill("b")
    world.run(5)
    world.kill("a")
    world.run(20)
    for name in "ab":
        world.start(name)
        world.run(5)
    world.cut({"d"}, {"a'", "b'", "c"})
    world.run(30)
    world.nodes["c"].feed(events.SignalReceived(number=15))
    world.run(60)
    monkeypatch.undo()  # the deciders that replay uses write no journal
    written = sorted(path.stem for path in journals.glob("*.jsonl"))
    assert written == ["a", "a'", "b", "b'", "c", "d"]
    for name in written:
        count, different = differences(journals / f"{name}.jsonl")
        assert count > 5
        assert different == []
    takeovers = [line for line in (journals / "c.jsonl").read_text().splitlines() if '"lead"' in line]
    assert takeovers, "c took over from a, and its journal says so"


def test_a_decider_that_decides_otherwise_is_noticed(journals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = simulated_cluster.World(terms("2"), seed=5)
    world.start("a")
    world.start("b")
    world.run(3)
    world.nodes["b"].fail_worker(7)
    world.run(10)
    monkeypatch.undo()
    monkeypatch.setattr(words, "verdict", lambda _failure: Finish(exit_status=0))
    assert differences(journals / "a.jsonl")[1] != []


# ---- a real run

FAILS_ONCE = """
import os
marker = os.path.join(os.path.dirname(__file__), "failed-once")
if os.environ["PADDLE_TRAINER_ID"] == "1" and not os.path.exists(marker):
    open(marker, "w").close()
    raise RuntimeError("the first time it fails")
"""


def test_a_real_run_with_a_restart_decides_the_same_again(tmp_path: Path) -> None:
    script, log_dir = tmp_path / "train.py", tmp_path / "log"
    script.write_text(FAILS_ONCE)
    options = ["--nproc_per_node", "2", "--max_restart", "1", "--topology", "none", "--log_dir", str(log_dir)]
    command = [sys.executable, "-m", "umiak.launch", *options, str(script)]
    environ = {**os.environ, "UMIAK_TOKEN": SECRET, "MY_PASSWORD": SECRET}
    ran = subprocess.run(
        command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert ran.returncode == 0, ran.stderr
    journal = log_dir / "events.jsonl"
    count, different = differences(journal)
    assert count >= 10
    assert different == []
    text = journal.read_text()
    assert "the first time it fails" in text
    assert SECRET not in text
    assert stat.S_IMODE(journal.stat().st_mode) == 0o600


# ---- the file


def test_a_journal_is_appended_to_and_replays_each_run_from_its_own_beginning(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    setting = NodeSetting(terms=terms("1"), offer=offer("a"), discovery=Discovery.ALONE)
    for run in ("first", "second"):
        journal = Journal(str(path))
        journal.begin(run, 0.0, setting)
        node = NodeMachine(setting)
        journal.record(0.0, "node", Start(), node.start(0.0))
        link_up = events.LinkUp(host="10.0.0.1")
        journal.record(0.1, "node", link_up, node.step(0.1, link_up))
        form = events.MessageFromMaster(message=Form(cluster=formation("a")))
        journal.record(0.2, "node", form, node.step(0.2, form))
        journal.close()
    assert differences(path) == (6, [])
    lines = path.read_text().splitlines()
    assert len(lines) == 10
    assert sum(line.startswith('{"formation"') for line in lines) == 2, "each run writes its formation down once"


def test_a_full_disk_ends_the_journal_and_not_the_run() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this machine has no /dev/full")
    setting = NodeSetting(terms=terms("1"), offer=offer("a"))
    journal = Journal.__new__(Journal)
    journal._fd, journal._full = os.open("/dev/full", os.O_WRONLY), False
    journal.begin("run", 0.0, setting)
    journal.record(0.0, "node", Start(), ())
    journal.close()


def test_every_line_is_one_entry(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    journal = Journal(str(path))
    setting = NodeSetting(terms=terms("1"), offer=offer("a", host="two\nlines"))
    journal.begin("run", 0.0, setting)
    journal.record(1.5, "node", events.LinkFailed(refused=False, why="two\nlines"), ())
    journal.close()
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert first["setting"]["offer"]["host"] == "two\nlines"
    assert second == {
        "t": 1.5,
        "who": "node",
        "event": {"is": "LinkFailed", "refused": False, "why": "two\nlines", "fatal": False},
        "actions": [],
    }
