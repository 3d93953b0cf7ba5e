"""The loop of one node's launcher: it feeds events to the deciders and performs what they decide. An adapter.

    links, workers, signals, timers --events--> NodeMachine   --actions--> here
                                     --events--> Coordinator  --actions--> here     (on the node that leads)

Every event goes through `_feed`, which asks the decider, journals event and actions, and performs them in order.
"""

from __future__ import annotations

import time
from collections import deque

from umiak.adapters import identity
from umiak.adapters.ports import HeldPorts
from umiak.core.decode import Malformed, encode_tagged
from umiak.core.problem import UmiakError
from umiak.core.shown import one_line
from umiak.launch import calls, events, message_checks
from umiak.launch.events import Meeting
from umiak.launch.journal import Start
from umiak.launch.links import handshake
from umiak.launch.links.link import Link, message_frame
from umiak.launch.master import admission, rendezvous
from umiak.launch.node.machine import NodeMachine
from umiak.launch.protocol import Form, Join, Moved, Refuse, Standby
from umiak.launch.reachability import ReachabilityCheck

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.adapters.identity import ProcessIdentity
    from umiak.adapters.loop import Loop, Timer
    from umiak.launch.events import NodeAction, NodeSetting, RendezvousAction
    from umiak.launch.journal import Journal
    from umiak.launch.links.etcd_election import Election
    from umiak.launch.links.handshake import Caller, Listener, Visitor
    from umiak.launch.links.link import Heart
    from umiak.launch.plan import LaunchPlan
    from umiak.launch.protocol import FromMaster, Offer
    from umiak.launch.report_writer import ReportWriter
    from umiak.launch.reports.talk import Talk
    from umiak.launch.supervisor import Supervisor

LINGER_S = 3.0
"""How long a master that ends waits until every node has its last message."""
HOLD_EVERY_S = 0.5
PART_WITHIN_S = 30.0
"""How long a node that takes no further part may leave its connection open."""
BEACON_EVERY_S, BEACON_PATIENCE_S = 0.2, 0.5
CALLBACK_PATIENCE_S = 5.0
UNSUPERVISED_GRACE_S = 20.0
"""How long workers may take to end after a signal if the supervisor of their run was killed."""


class Agent:
    """One node's launcher at work."""

    def __init__(
        self,
        loop: Loop,
        *,
        plan: LaunchPlan,
        setting: NodeSetting,
        supervisor: Supervisor,
        held: HeldPorts,
        journal: Journal,
        reports: ReportWriter,
        talk: Talk,
        heart: Heart,
        listener: Listener | None,
        election: Election | None,
        token: bytes | None,
        supervised_by: ProcessIdentity | None = None,
    ) -> None:
        self._loop, self._plan, self._supervisor = loop, plan, supervisor
        self._held, self._journal, self._talk = held, journal, talk
        self._heart, self._listener, self._election, self._token = heart, listener, election, token
        self._offer = setting.offer
        self._name = setting.offer.name
        self._host = setting.offer.host
        self._machine = NodeMachine(setting)
        self._reports = reports
        self._supervised_by = supervised_by
        self._coordinator: rendezvous.Coordinator | None = None
        self._queue: deque[tuple[str, object]] = deque()
        self._pumping = False
        self._timers: dict[str, Timer | None] = {}
        self._caller: Caller | None = None
        self._link: Link | None = None  # to a master elsewhere
        self._master_at: tuple[str, int] | None = None
        self._node_links: dict[str, Link] = {}  # the nodes of a master that is here
        self._visitors: list[Visitor] = []  # not known yet who leads
        self._takeover_calls: dict[int, Visitor] = {}
        self._call_count = 0
        self._reachability = ReachabilityCheck(loop, self._call_launcher)
        self._reachability.on_answered = lambda name, generation: self._node(
            events.Reachable(name=name, generation=generation)
        )
        self._reachability.on_trouble = lambda text: talk.say(text, "WARNING")
        self._status: int | None = None
        supervisor.on_exit = self._worker_exited
        supervisor.on_listening = lambda key, generation: self._node(
            events.WorkerListening(key=key, generation=generation)
        )
        supervisor.on_hung = lambda key, generation, failure: self._node(
            events.WorkerHung(key=key, generation=generation, failure=failure)
        )
        supervisor.on_trouble = lambda text: talk.say(text, "WARNING")
        if listener:
            listener.on_visitor = self._visited
            listener.on_trouble = lambda text: talk.say(text, "WARNING")
        if election:
            election.on_elected = lambda: self._node(events.Elected())
            election.on_master = lambda host, port: self._node(events.LeaderAt(host=host, port=port))
            election.on_rival = self._call_rival
            election.on_trouble = lambda text: talk.say(text, "WARNING")

    def run(self) -> int:
        """Until the job is over; the launcher's exit status."""
        self._node(Start())
        self._loop.run()
        self._say_goodbye()
        assert self._status is not None
        return self._status

    def signalled(self, number: int) -> None:
        self._node(events.SignalReceived(number=number))
        if self._supervised_by and self._status is None:
            self._loop.after(UNSUPERVISED_GRACE_S, lambda: self._kill_unsupervised(number))

    def _kill_unsupervised(self, number: int) -> None:
        """The long grace of a submitted job is kept by its supervisor; if that was killed, nobody else ends stubborn workers."""
        if self._supervised_by and not identity.is_alive(self._supervised_by):
            self._supervised_by = None
            self._talk.say("the supervisor of this run was killed", "WARNING")
            self._node(events.SignalReceived(number=number))

    def passed_on(self, number: int) -> None:
        """A signal that means something to the workers only, such as SIGUSR1 before a time limit."""
        self._supervisor.pass_on(number)

    def child_ended(self, _number: int) -> None:
        """A worker, which is reported elsewhere, or something that a worker left behind."""
        self._supervisor.reap_orphans()

    def watchdog_gone(self, _number: int) -> None:
        """The watchdog was killed: nothing may live on."""
        self._supervisor.kill_all()
        self._status = 137
        self._loop.stop()

    # ---- feeding the deciders

    def _node(self, event: object) -> None:
        self._queue.append(("node", event))
        self._pump()

    def _master(self, event: object) -> None:
        self._queue.append(("master", event))
        self._pump()

    def _pump(self) -> None:
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._queue and self._status is None:
                self._feed(*self._queue.popleft())
        finally:
            self._pumping = False
        if self._status is not None:
            return  # nobody decides any more, so a deadline that has passed would come again and again
        self._set_timer("node", self._machine.next_deadline)
        self._set_timer("master", self._coordinator.next_deadline if self._coordinator else None)

    def _feed(self, who: str, event: object) -> None:
        now = self._loop.now()
        if who == "node":
            if isinstance(event, Start):
                actions: tuple[NodeAction, ...] = self._machine.start(now)
            else:
                actions = self._machine.step(now, event)  # type: ignore[arg-type]
            self._journal.record(now, who, event, actions)
            self._reports.step(self._machine.phase, event, actions)
            for action in actions:
                self._perform(action)
        elif self._coordinator:
            decided = self._coordinator.step(now, event)  # type: ignore[arg-type]
            self._journal.record(now, who, event, decided)
            for decision in decided:
                self._perform_for_master(decision)

    def _set_timer(self, who: str, when: float | None) -> None:
        timer = self._timers.get(who)
        if timer and timer.when == when and timer.call:
            return
        if timer:
            timer.cancel()
        tick = self._node_tick if who == "node" else self._master_tick
        self._timers[who] = self._loop.at(when, tick) if when is not None else None

    def _node_tick(self) -> None:
        self._timers["node"] = None
        self._node(events.Tick())

    def _master_tick(self) -> None:
        self._timers["master"] = None
        self._master(events.Tick())

    # ---- performing a node's actions

    def _perform(self, action: NodeAction) -> None:
        match action:
            case events.Say(text=text, level=level):
                self._talk.say(text, level)
            case events.Tell(message=message):
                self._tell(message)
            case events.StartWorkers(cluster=cluster, seats=seats, restarts=restarts):
                node = cluster.node(self._name)
                self._held.release(node.store_port)
                self._held.release(node.gloo_port)
                for seat in seats:
                    self._held.release(seat.port)
                    self._supervisor.start(cluster, seat, restarts)
            case events.AwaitListening(keys=keys, within_s=within_s):
                for key in keys:
                    self._supervisor.await_listening(key, within_s)
            case events.SignalWorkers(number=number):
                self._supervisor.signal_all(number)
            case events.KillWorkers():
                self._supervisor.kill_all()
            case events.DumpStacks():
                self._supervisor.dump_stacks()
            case events.HoldPorts():
                self._hold_ports()
            case events.Exit():
                self._status = action.status
                self._talk.goodbye(action)
                self._loop.stop()
            case _:
                self._perform_on_links(action)

    def _perform_on_links(self, action: NodeAction) -> None:
        match action:
            case events.Dial(host=host, port=port, patience_s=patience_s):
                self._dial(host, port, patience_s)
            case events.HangUp():
                self._hang_up()
            case events.CheckReachable(generation=generation, nodes=nodes):
                self._reachability.begin(generation, nodes)
            case events.Lead():
                self._lead(action)
            case events.Campaign(gone_host=host, gone_port=port):
                assert self._election is not None
                assert self._listener is not None
                self._election.campaign(self._host, self._listener.port, gone=(host, port) if host else None)

    def _tell(self, message: object) -> None:
        if self._coordinator:
            self._queue.append(("master", events.NodeSaid(name=self._name, message=message, at=time.time())))  # type: ignore[arg-type]
        elif self._link:
            self._link.send(message_frame(encode_tagged(message)))

    def _hold_ports(self) -> None:
        self._held.close()
        try:
            if self._plan.ports:
                self._held.hold_these(self._plan.ports)
            else:
                self._held.hold_any(self._plan.port_count, last=self._plan.own_store_port)
        except UmiakError as error:
            self._talk.problems(error.problems)
            self._status = error.exit_status
            self._loop.stop()
            return
        self._queue.append(("node", events.PortsHeld(ports=self._held.numbers)))

    def _worker_exited(self, key: str, generation: int, failure: object) -> None:
        self._node(events.WorkerExited(key=key, generation=generation, failure=failure))  # type: ignore[arg-type]

    # ---- the link to a master elsewhere

    def _dial(self, host: str, port: int, patience_s: float) -> None:
        self._hang_up()
        caller = self._caller = self._call(host, port, calls.JoinJob(), patience_s)
        self._master_at = (host, port)
        caller.on_link = self._linked
        caller.on_moved = lambda there, its_port: self._node(events.LinkMoved(host=there, port=its_port))
        caller.on_failed = lambda refused, why, fatal: self._node(
            events.LinkFailed(refused=refused, why=why, fatal=fatal)
        )

    def _linked(self, link: Link) -> None:
        self._link = link
        self._supervisor.wall_offset_s = link.clock_offset_s
        link.on_message = self._heard_master
        link.on_closed = lambda: self._link_ended(events.LinkClosed(silent_s=link.silent_s))
        link.on_silent = lambda: self._link_ended(events.LinkSilent())
        self._host = self._host or link.local_host
        self._redirect_visitors()
        self._node(events.LinkUp(host=link.local_host))

    def _heard_master(self, content: object) -> None:
        try:
            message = message_checks.from_master(content, own=self._offer)
        except Malformed as error:
            self._talk.say(f"the master sent something that makes no sense: {one_line(str(error))}", "ERROR")
            self._link_ended(events.LinkSilent())
            return
        if isinstance(message, (Form, Standby)) and message.cluster and isinstance(content, dict):
            self._journal.know(message.cluster, content["cluster"])
        self._node(events.Received(message=message))

    def _link_ended(self, event: object) -> None:
        if self._link:
            self._node(event)

    def _hang_up(self) -> None:
        if self._caller:
            self._caller.cancel()
            self._caller = None
        if self._link:
            self._link.leave()
            self._link = None
        if self._coordinator:
            # The master here stands down; its nodes have been told where to go.
            self._coordinator = None
            self._node_links.clear()

    # ---- a master here

    def _lead(self, lead: events.Lead) -> None:
        now = self._loop.now()
        self._journal.lead(now, lead)
        self._coordinator = rendezvous.Coordinator(self._machine.setting, lead, now=now)
        self._host = self._host or (self._election.own_host if self._election else "")
        for visitor in self._take_visitors():
            self._welcome(visitor)
        for probe in self._coordinator.probes():
            self._probe(probe)
        if lead.previous and self._plan.meeting is Meeting.ADDRESS:
            self._call_rivals(self._coordinator)
        self._queue.append(("node", events.LinkUp(host=self._host)))

    def _perform_for_master(self, action: RendezvousAction) -> None:
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
                    visitor.moved(self._host, self._listener.port)
            case events.StandDown(text=text):
                self._talk.say(text, "WARNING")
                if self._election:
                    self._election.resign()

    def _send(self, names: tuple[str, ...], message: FromMaster) -> None:
        if self._name in names:
            self._queue.append(("node", events.Received(message=message)))
        others = [self._node_links[name] for name in names if name in self._node_links]
        if others:
            frame = message_frame(encode_tagged(message))
            for link in others:
                link.send(frame)

    def _visited(self, visitor: Visitor) -> None:
        purpose = calls.read(visitor.purpose)
        if isinstance(purpose, calls.Takeover):
            self._takeover_called(visitor, purpose)
        elif isinstance(purpose, calls.AreYou):
            visitor.confirm(is_the_one=purpose.name == self._name)
        elif isinstance(purpose, calls.Callback):
            visitor.confirm(is_the_one=purpose.key == self._machine.setting.callback_key)
        elif purpose is None:
            visitor.confirm(is_the_one=False)
        elif self._coordinator:
            self._welcome(visitor)
        elif self._link and self._master_at:
            visitor.moved(*self._master_at)
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

    def _redirect_visitors(self) -> None:
        assert self._master_at is not None
        for visitor in self._take_visitors():
            visitor.moved(*self._master_at)

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
        caller = self._call_once(
            offer.host or link.peer_host, offer.link_port, calls.Callback(key=message.callback_key), CALLBACK_PATIENCE_S
        )

        def answered(back: Link) -> None:
            back.close()
            self._seat(link, message)

        caller.on_link = answered
        caller.on_failed = lambda _refused, why, _fatal: self._turn_away(link, admission.unreachable(offer, why))

    def _turn_away(self, link: Link, refusal: Refuse) -> None:
        self._talk.say(f"a node at {link.peer_host} was refused: {refusal.text}", "WARNING")
        link.on_message = lambda _content: None
        link.send(message_frame(encode_tagged(refusal)))
        link.leave_within(PART_WITHIN_S)

    def _seat(self, link: Link, message: Join) -> None:
        """Hand a node's offer to the master, if both are still there."""
        if not link.is_open:
            return
        if self._coordinator is None:
            # This launcher went to another master meanwhile. Closing the link would look like its death.
            where = Moved(host=self._master_at[0], port=self._master_at[1]) if self._master_at else None
            gone = where or Refuse(text="this launcher does not lead any more", code="UM-MEET-009", gone=True)
            link.send(message_frame(encode_tagged(gone)))
            return
        if self._coordinator.is_name_taken(message.offer):
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
        link.on_closed = lambda: self._master(events.NodeClosed(name=name, at=time.time()))
        link.on_silent = lambda: self._master(events.NodeSilent(name=name, at=time.time()))
        self._master(events.NodeSaid(name=name, message=message, at=time.time()))

    def _heard_node(self, name: str, link: Link, content: object, joined: Offer) -> None:
        try:
            message = message_checks.from_node(content, joined=joined)
        except Malformed as error:
            self._talk.say(f"{link.peer_host} sent something that makes no sense: {one_line(str(error))}", "WARNING")
            # It may well be alive and training, so it is given up as one that fell silent, and told so.
            self._master(events.NodeSilent(name=name, at=time.time()))
            return
        self._master(events.NodeSaid(name=name, message=message, at=time.time()))

    # ---- after a take-over

    def _probe(self, probe: events.Probe) -> None:
        """A launcher whose host refuses the connection is gone; any other outcome tells nothing."""

        def failed(refused: bool, _why: str, _fatal: bool) -> None:
            if refused:
                self._master(events.NodeRefused(name=probe.name, at=time.time()))

        caller = self._call_launcher(probe)
        caller.on_link, caller.on_failed = Link.close, failed

    def _call_rivals(self, coordinator: rendezvous.Coordinator) -> None:
        """Tell those who may lead this job without knowing it that it is led from here, again and again."""
        if coordinator is not self._coordinator or coordinator.phase is rendezvous.MasterPhase.ENDED:
            return
        for host, port in coordinator.rivals():
            self._call_rival(host, port)
        self._loop.after(BEACON_EVERY_S, lambda: self._call_rivals(coordinator))

    def _call_rival(self, host: str, port: int) -> None:
        """Tell the launcher there that the job is led from here; it may know better."""
        coordinator = self._coordinator
        if coordinator and self._listener:
            cluster = coordinator.cluster
            purpose = calls.Takeover(
                host=self._host,
                port=self._listener.port,
                generation=cluster.generation if cluster else 0,
                lineage=cluster.lineage if cluster else "",
                formed=coordinator.has_formed,
                ready=coordinator.has_majority,
            )
            caller = self._call_once(host, port, purpose, BEACON_PATIENCE_S)
            caller.on_moved = lambda there, its_port: self._takeover_refused(coordinator, there, its_port)

    def _takeover_refused(self, coordinator: rendezvous.Coordinator, host: str, port: int) -> None:
        if coordinator is self._coordinator:
            self._master(events.TakeoverRefused(host=host, port=port))

    def _takeover_called(self, visitor: Visitor, told: calls.Takeover) -> None:
        if self._coordinator is None:
            visitor.confirm(is_the_one=False)
            return
        self._call_count += 1
        call = self._call_count
        self._takeover_calls[call] = visitor
        # Without a token, who is on this machine is trusted as the listener on loopback is, and nobody else.
        proven = self._token is not None or visitor.is_on_loopback
        self._master(
            events.TakeoverCalled(
                call=call,
                host=told.host,
                port=told.port,
                generation=told.generation,
                lineage=told.lineage,
                formed=told.formed,
                ready=told.ready,
                proven=proven,
            )
        )
        unanswered = self._takeover_calls.pop(call, None)
        if unanswered:
            unanswered.confirm(is_the_one=True)

    def _call_launcher(self, probe: events.Probe) -> Caller:
        return self._call(probe.host, probe.port, calls.AreYou(name=probe.name), self._heart.timeout_s)

    def _call_once(self, host: str, port: int, purpose: calls.Purpose, patience_s: float) -> Caller:
        """Call, and hang up as soon as somebody answers."""
        caller = self._call(host, port, purpose, patience_s)
        caller.on_link = lambda link: link.close()
        return caller

    def _call(self, host: str, port: int, purpose: calls.Purpose, patience_s: float) -> Caller:
        return handshake.Caller(
            self._loop,
            self._heart,
            host=host,
            port=port,
            job_id=self._machine.terms.job_id,
            token=self._token,
            purpose=calls.text(purpose),
            patience_s=patience_s,
        )

    # ---- the end

    def _say_goodbye(self) -> None:
        """Let every node have its last message before this process, and with it the links, are gone."""
        self._reachability.stop()
        if self._election:
            self._election.resign()
        until = self._loop.now() + LINGER_S
        open_links = [link for link in (*self._heart.links,) if link.is_open]
        for link in open_links:
            link.on_message = lambda _content: None
            link.on_closed = link.on_silent = lambda: None

        def check() -> None:
            for link in open_links:
                if not link.has_unsent:
                    link.finish_sending()
            waiting = any(link.is_open for link in open_links)
            if not waiting or self._loop.now() >= until:
                self._loop.stop()
            else:
                self._loop.after(0.005, check)

        if open_links:
            check()
            self._loop.run()
        elif self._election:
            self._loop.after(0.2, self._loop.stop)
            self._loop.run()
