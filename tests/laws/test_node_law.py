"""Whatever happens to one node, in any order that can be: it never falls over, and it leaves nothing behind.

The world around the node is a small model of what can happen next: a link comes up only where one was dialled, a worker ends only
if it was started, the master says only what a master may say then.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support import formation, offer, terms
from tests.support.effort import effort
from umiak.core.cluster import Role
from umiak.launch import events, protocol
from umiak.launch.events import Discovery, NodeSetting
from umiak.launch.node.machine import NodeMachine
from umiak.launch.node.phases import NodePhase
from umiak.launch.protocol import Failure, FailureKind

NAMES = "abc"


class Around:
    """What the node has asked for so far, and so, what can happen to it."""

    def __init__(self, draw: Any, node: NodeMachine) -> None:
        self.draw = draw
        self.node = node
        self.dialling = self.linked = self.campaigning = self.holding_ports = False
        self.may_form = False
        self.generation = 0
        self.workers: set[str] = set()
        self.exits: list[events.Exit] = []
        self.signalled = 0
        self.has_heard_the_end = False

    def take(self, actions: tuple[events.NodeAction, ...]) -> None:
        """Perform what the node decided, in the model."""
        for action in actions:
            assert not self.exits, f"{action} after the end"
            match action:
                case events.Dial() | events.Lead():
                    self.dialling, self.linked = True, False
                case events.Campaign():
                    self.campaigning = True
                case events.HangUp():
                    self.dialling = self.linked = False
                case events.HoldPorts():
                    self.holding_ports = True
                case events.MessageToMaster(message=message):
                    self.may_form = self.may_form or isinstance(message, (protocol.Join, protocol.Stopped))
                case events.StartWorkers(seats=seats):
                    started = {seat.key for seat in seats}
                    assert not started & self.workers, "started twice"
                    assert not self.signalled, "started after a signal"
                    self.workers |= started
                case events.Exit():
                    assert any(isinstance(each, events.KillWorkers) for each in actions), "something may be left behind"
                    self.exits.append(action)

    def possible(self) -> list[str]:
        """The kinds of events that can happen now."""
        kinds = ["tick", "signal"]
        if self.dialling:
            kinds += ["link up", "link failed", "link moved"]
        if self.linked:
            kinds += ["closed", "silent"]
        if self.linked and not self.has_heard_the_end:
            kinds += ["stop", "finish", "waiting", "standby"]
            if not self.generation:
                kinds += ["refuse", "moved"]
            if self.may_form and not self.workers:
                kinds += ["form", "form"]
            if self.workers:
                kinds += ["go", "restart"]
        if self.campaigning:
            kinds += ["elected", "leader"]
        if self.holding_ports:
            kinds += ["ports", "ports"]
        if self.workers:
            kinds += ["exit", "fail", "hung", "listening"]
        return kinds

    def happen(self) -> events.NodeEvent:
        kind = self.draw(st.sampled_from(self.possible()))
        if kind in ("exit", "fail", "hung", "listening"):
            return self._of_a_worker(kind, self.draw(st.sampled_from(sorted(self.workers))))
        if kind in ("stop", "finish", "refuse", "waiting", "standby", "moved", "form", "go", "restart"):
            return events.MessageFromMaster(message=self._message(kind))
        match kind:
            case "signal":
                self.signalled += 1
                return events.SignalReceived(number=15)
            case "link up":
                self.dialling, self.linked, self.has_heard_the_end = False, True, False
                return events.LinkUp(host="10.0.0.9")
            case "link failed":
                self.dialling = False
                return events.LinkFailed(
                    refused=self.draw(st.booleans()), why="why", fatal=self.draw(st.integers(0, 9)) == 0
                )
            case "link moved":
                self.dialling = False
                return events.LinkMoved(host=f"10.0.0.{self.draw(st.integers(1, 4))}", port=7000)
            case "closed" | "silent":
                self.linked = False
                return events.LinkClosed() if kind == "closed" else events.LinkSilent()
            case "elected" | "leader":
                self.campaigning = False
                return events.Elected() if kind == "elected" else events.LeaderAt(host="10.0.0.1", port=7000)
            case "ports":
                self.holding_ports = False
                return events.PortsHeld(ports=(30000, 30001, 30002))
        return events.Tick()

    def _message(self, kind: str) -> protocol.FromMaster:
        generation = self.generation if self.draw(st.integers(0, 9)) else max(0, self.generation - 1)
        match kind:
            case "form":
                self.generation += 1
                self.may_form = False
                return protocol.Form(cluster=formation(NAMES, generation=self.generation, servers=1))
            case "stop":
                grace_s = self.draw(st.sampled_from([0.0, 5.0]))
                return protocol.Stop(
                    generation=generation, why="why", grace_s=grace_s, dump_stacks=self.draw(st.booleans())
                )
            case "finish":
                self.has_heard_the_end = True
                return protocol.Finish(
                    exit_status=self.draw(st.sampled_from([0, 1, 3])), at_once=self.draw(st.booleans())
                )
            case "standby":
                return protocol.Standby(text="text", cluster=self.node.cluster)
            case "refuse":
                self.has_heard_the_end = True
                return protocol.Refuse(text="text", code="UM-MEET-007")
            case "moved":
                return protocol.Moved(host="10.0.0.4", port=7000)
            case "go":
                return protocol.Go(generation=generation)
            case "restart":
                return protocol.RestartWorker(generation=generation, key="server.0", restarts=1)
        return protocol.Waiting(text="text")

    def _of_a_worker(self, kind: str, key: str) -> events.NodeEvent:
        failure = Failure(
            kind=FailureKind.EXITED, at=0.0, node="b", host="h", role=Role.TRAINER, rank=0, key=key, exit_code=3
        )
        generation = self.generation
        match kind:
            case "listening":
                return events.WorkerListening(key=key, generation=generation)
            case "hung":
                return events.WorkerHung(key=key, generation=generation, failure=failure)
        self.workers.discard(key)
        return events.WorkerExited(key=key, generation=generation, failure=failure if kind == "fail" else None)


@effort(5)
@given(st.data())
def test_a_node_takes_whatever_can_happen_and_leaves_nothing_behind(data: st.DataObject) -> None:
    draw = data.draw
    mode = draw(st.sampled_from(["collective", "ps"]))
    nnodes = draw(st.sampled_from(["3", "1:3"]))
    discovery = draw(st.sampled_from(list(Discovery)))
    job = terms(nnodes, mode=mode, restart_wanted=draw(st.booleans()))
    servers = 1 if mode == "ps" else 0
    setting = NodeSetting(
        terms=job,
        offer=offer("b", servers=servers),
        discovery=discovery,
        leads=draw(st.booleans()) or discovery is Discovery.ALONE,
        master_host="10.0.0.1",
        master_port=7000,
    )
    node = NodeMachine(setting)
    around = Around(draw, node)
    now = 0.0
    around.take(node.start(now))
    for _ in range(draw(st.integers(0, 40))):
        if around.exits:
            break
        now += draw(st.sampled_from([0.0, 0.1, 1.0, 6.0, 40.0]))
        event = around.happen()
        around.take(node.step(now, event))
        if isinstance(event, events.Tick) and node.next_deadline is not None:
            assert node.next_deadline > now, "a tick was asked for, given, and is asked for again"
    if around.exits:
        assert node.phase is NodePhase.ENDED
        assert node.next_deadline is None
        assert node.step(now, events.Tick()) == ()
        return
    end(node, around, now)


def end(node: NodeMachine, around: Around, now: float) -> None:
    """However it went: told twice to stop, with its workers gone and its master silent, a node ends."""
    for _ in range(2):
        around.take(node.step(now, events.SignalReceived(number=15)))
    for key in sorted(around.workers):
        around.take(node.step(now, events.WorkerExited(key=key, generation=around.generation)))
    for _ in range(10):
        if around.exits or node.next_deadline is None:
            break
        now = max(now, node.next_deadline)
        around.take(node.step(now, events.Tick()))
    assert len(around.exits) == 1, f"{node.phase} and no end in sight"
