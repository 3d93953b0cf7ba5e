"""The master of a job, where it is this launcher:
its links to the nodes, and those who call before it is known who leads. An adapter.

    links of nodes, calls of launchers --events--> Coordinator --actions--> here

The agent asks the decider, journals what it says, and hands the actions over to `Leadership.perform`.
"""

from __future__ import annotations

import time

from umiak.core.decode import Malformed, encode_tagged
from umiak.core.shown import one_line
from umiak.core.value import from_fields
from umiak.launch import calls, events, message_checks
from umiak.launch.events import Discovery
from umiak.launch.links.link import Link, message_frame
from umiak.launch.master import admission, rendezvous
from umiak.launch.master.phases import MasterPhase
from umiak.launch.protocol import Join, Moved, Refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from umiak.adapters.loop import Loop
    from umiak.launch.events import RendezvousAction
    from umiak.launch.journal import Journal
    from umiak.launch.links.etcd_election import Election
    from umiak.launch.links.handshake import Listener, Visitor
    from umiak.launch.node.machine import NodeMachine
    from umiak.launch.peers.reachability import Dialler
    from umiak.launch.protocol import FromMaster, Offer
    from umiak.launch.reports.output import LauncherOutput

HOLD_EVERY_S = 0.5
PART_WITHIN_S = 30.0
"""How long a node that takes no further part may leave its connection open."""
BEACON_EVERY_S, BEACON_PATIENCE_S = 0.2, 0.5
CALLBACK_PATIENCE_S = 5.0
NAME_PATIENCE_S = 35.0
"""Name servers of clusters remember for up to 30 s that there was no such name."""


class Whereabouts:
    """Where this launcher is, and which master elsewhere it follows: both of its sides have to know."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.link: Link | None = None
        """To a master elsewhere."""
        self.master_at: tuple[str, int] | None = None


class Leadership:
    """What a launcher does as the master of its job, and until it knows whether it is."""

    def __init__(
        self,
        loop: Loop,
        machine: NodeMachine,
        place: Whereabouts,
        dialler: Dialler,
        *,
        discovery: Discovery,
        journal: Journal,
        output: LauncherOutput,
        listener: Listener | None,
        election: Election | None,
        token: bytes | None,
        decide: Callable[[object], None],
        queue_for_node: Callable[[object], None],
    ) -> None:
        """``decide`` asks the coordinator what an event means;
        ``queue_for_node`` leaves an event for this node's own machine.
        """
        self._loop, self._machine, self._place, self._dialler = loop, machine, place, dialler
        self._discovery, self._journal, self._output = discovery, journal, output
        self._listener, self._election, self._token = listener, election, token
        self._decide, self._queue_for_node = decide, queue_for_node
        self._name = machine.setting.offer.name
        self.coordinator: rendezvous.Coordinator | None = None
        self._node_links: dict[str, Link] = {}
        self._visitors: list[Visitor] = []  # not known yet who leads
        self._takeover_calls: dict[int, Visitor] = {}
        self._call_count = 0

    def stand_down(self) -> None:
        """The nodes have been told where to go."""
        self.coordinator = None
        self._node_links.clear()

    def lead(self, lead: events.Lead) -> None:
        now = self._loop.now()
        self._journal.lead(now, lead)
        self.coordinator = rendezvous.Coordinator(self._machine.setting, lead, now=now)
        self._place.host = self._place.host or (self._election.own_host if self._election else "")
        for visitor in self._take_visitors():
            self._welcome(visitor)
        for probe in self.coordinator.probes():
            self._probe(probe)
        if lead.previous and self._discovery is Discovery.ADDRESS:
            self._call_rivals(self.coordinator)
        self._queue_for_node(events.LinkUp(host=self._place.host))

    def perform(self, action: RendezvousAction) -> None:
        match action:
            case events.Send(names=names, message=message):
                self._send(names, message)
            case events.Drop(name=name):
                # The link stays open until the other side closes it: closing it here would look like a death.
                link = self._node_links.pop(name, None)
                if link:
                    link.on_message = lambda _content: None
                    link.on_closed = link.on_silent = lambda: None
                    link.leave_within(PART_WITHIN_S)
            case events.AnswerTakeover(call=call):
                visitor = self._takeover_calls.pop(call, None)
                if visitor and self._listener:
                    visitor.moved(self._place.host, self._listener.port)
            case events.StandDown(text=text):
                self._output.say(text, "WARNING")
                if self._election:
                    self._election.resign()

    def _send(self, names: tuple[str, ...], message: FromMaster) -> None:
        if self._name in names:
            self._queue_for_node(events.MessageFromMaster(message=message))
        others = [self._node_links[name] for name in names if name in self._node_links]
        if others:
            frame = message_frame(encode_tagged(message))
            for link in others:
                link.send(frame)

    def visited(self, visitor: Visitor) -> None:
        purpose = calls.read(visitor.purpose)
        if isinstance(purpose, calls.Takeover):
            self._takeover_called(visitor, purpose)
        elif isinstance(purpose, calls.AreYou):
            visitor.confirm(is_the_one=purpose.name == self._name)
        elif isinstance(purpose, calls.Callback):
            visitor.confirm(is_the_one=purpose.key == self._machine.setting.callback_key)
        elif purpose is None:
            visitor.confirm(is_the_one=False)
        elif self.coordinator:
            self._welcome(visitor)
        elif self._place.link and self._place.master_at:
            visitor.moved(*self._place.master_at)
        else:
            self._visitors.append(visitor)
            if len(self._visitors) == 1:
                self._hold_visitors()

    def _hold_visitors(self) -> None:
        self._visitors = [visitor for visitor in self._visitors if visitor.is_open]
        if self._visitors:
            for visitor in self._visitors:
                visitor.hold()
            self._loop.after(HOLD_EVERY_S, self._hold_visitors)

    def _take_visitors(self) -> list[Visitor]:
        visitors, self._visitors = self._visitors, []
        return [visitor for visitor in visitors if visitor.is_open]

    def redirect_visitors(self) -> None:
        assert self._place.master_at is not None
        for visitor in self._take_visitors():
            visitor.moved(*self._place.master_at)

    def _welcome(self, visitor: Visitor) -> None:
        link = visitor.welcome()
        link.on_message = lambda content: self._first_words(link, content)

    def _first_words(self, link: Link, content: object) -> None:
        """A node's first message says who it is."""
        try:
            message = message_checks.from_node(content, master=self._name)
        except Malformed as error:
            text = f"the master can't take what this node offers: {one_line(str(error))}"
            self._turn_away(link, Refuse(text=text, code="UM-MEET-033"))
            return
        if not isinstance(message, Join):
            link.close()
            return
        link.on_message = lambda _content: None
        if not self._machine.terms.survives_its_master:
            self._seat(link, message)
            return
        # Should the master be lost, the others find this node at the address that it offers, or take it for dead.
        offer = message.offer
        host, purpose = offer.host or link.peer_host, calls.Callback(key=message.callback_key)
        caller = self._dialler.call(host, offer.link_port, purpose, CALLBACK_PATIENCE_S, name_s=NAME_PATIENCE_S)

        def answered(back: Link) -> None:
            back.close()
            self._seat(link, message)

        caller.on_link = answered
        caller.on_failed = lambda _refused, why, _fatal: self._turn_away(link, admission.unreachable(offer, why))

    def _turn_away(self, link: Link, refusal: Refuse) -> None:
        self._output.say(f"a node at {link.peer_host} was refused: {refusal.text}", "WARNING")
        link.on_message = lambda _content: None
        link.send(message_frame(encode_tagged(refusal)))
        link.leave_within(PART_WITHIN_S)

    def _seat(self, link: Link, message: Join) -> None:
        """Hand a node's offer to the master, if both are still there."""
        if not link.is_open:
            return
        if self.coordinator is None:
            # This launcher went to another master meanwhile. Closing the link would look like its death.
            where = (
                Moved(host=self._place.master_at[0], port=self._place.master_at[1]) if self._place.master_at else None
            )
            gone = where or Refuse(text="this launcher does not lead any more", code="UM-MEET-009", gone=True)
            link.send(message_frame(encode_tagged(gone)))
            return
        if self.coordinator.is_name_taken(message.offer):
            self._turn_away(link, admission.name_taken(message.offer))
            return
        link.trust()
        name = message.offer.name
        old = self._node_links.pop(name, None)
        if old:
            old.on_closed = old.on_silent = lambda: None
            old.close()
        self._node_links[name] = link
        offer = message.offer
        link.on_message = lambda later: self._heard_node(name, link, later, offer)
        link.on_closed = lambda: self._decide(events.NodeClosed(name=name, at=time.time()))
        link.on_silent = lambda: self._decide(events.NodeSilent(name=name, at=time.time()))
        self._decide(events.MessageFromNode(name=name, message=message, at=time.time()))

    def _heard_node(self, name: str, link: Link, content: object, joined: Offer) -> None:
        try:
            message = message_checks.from_node(content, joined=joined)
        except Malformed as error:
            self._output.say(f"{link.peer_host} sent something that makes no sense: {one_line(str(error))}", "WARNING")
            # It may well be alive and training, so it is given up as one that fell silent, and told so.
            self._decide(events.NodeSilent(name=name, at=time.time()))
            return
        self._decide(events.MessageFromNode(name=name, message=message, at=time.time()))

    # ---- after a take-over

    def _probe(self, probe: events.Probe) -> None:
        """A launcher whose host refuses the connection is gone; any other outcome tells nothing."""

        def failed(refused: bool, _why: str, _fatal: bool) -> None:
            if refused:
                self._decide(events.NodeRefused(name=probe.name, at=time.time()))

        caller = self._dialler.launcher(probe)
        caller.on_link, caller.on_failed = Link.close, failed

    def _call_rivals(self, coordinator: rendezvous.Coordinator) -> None:
        """Tell those who may lead this job without knowing it that it is led from here, again and again."""
        if coordinator is not self.coordinator or coordinator.phase is MasterPhase.ENDED:
            return
        for host, port in coordinator.rivals():
            self.call_rival(host, port)
        self._loop.after(BEACON_EVERY_S, lambda: self._call_rivals(coordinator))

    def call_rival(self, host: str, port: int) -> None:
        """Tell the launcher there that the job is led from here; it may know better."""
        coordinator = self.coordinator
        if coordinator and self._listener:
            cluster = coordinator.cluster
            purpose = calls.Takeover(
                host=self._place.host,
                port=self._listener.port,
                generation=cluster.generation if cluster else 0,
                lineage=cluster.lineage if cluster else "",
                formed=coordinator.has_formed,
                ready=coordinator.has_majority,
            )
            caller = self._dialler.once(host, port, purpose, BEACON_PATIENCE_S)
            caller.on_moved = lambda there, its_port: self._takeover_refused(coordinator, there, its_port)

    def _takeover_refused(self, coordinator: rendezvous.Coordinator, host: str, port: int) -> None:
        if coordinator is self.coordinator:
            self._decide(events.TakeoverRefused(host=host, port=port))

    def _takeover_called(self, visitor: Visitor, told: calls.Takeover) -> None:
        if self.coordinator is None:
            visitor.confirm(is_the_one=False)
            return
        self._call_count += 1
        call = self._call_count
        self._takeover_calls[call] = visitor
        # Without a token, who is on this machine is trusted as the listener on loopback is, and nobody else.
        proven = self._token is not None or visitor.is_on_loopback
        self._decide(from_fields(events.TakeoverCalled, told, call=call, proven=proven))
        unanswered = self._takeover_calls.pop(call, None)
        if unanswered:
            unanswered.confirm(is_the_one=True)
