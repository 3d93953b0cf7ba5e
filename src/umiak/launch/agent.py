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
from umiak.launch.journal import Start
from umiak.launch.links.link import Link, message_frame
from umiak.launch.node.machine import NodeMachine
from umiak.launch.peers.leadership import Leadership, Whereabouts
from umiak.launch.peers.reachability import Dialler, ReachabilityCheck
from umiak.launch.protocol import Form, Standby

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.adapters.identity import ProcessIdentity
    from umiak.adapters.loop import Loop, Timer
    from umiak.launch.events import NodeAction, NodeSetting
    from umiak.launch.journal import Journal
    from umiak.launch.links.etcd_election import Election
    from umiak.launch.links.handshake import Caller, Listener
    from umiak.launch.links.link import Heartbeats
    from umiak.launch.plan import LaunchPlan
    from umiak.launch.report_writer import ReportWriter
    from umiak.launch.reports.output import LauncherOutput
    from umiak.launch.supervisor import Supervisor

LINGER_S = 3.0
"""How long a master that ends waits until every node has its last message."""
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
        output: LauncherOutput,
        heartbeats: Heartbeats,
        listener: Listener | None,
        election: Election | None,
        token: bytes | None,
        supervised_by: ProcessIdentity | None = None,
    ) -> None:
        self._loop, self._plan, self._supervisor = loop, plan, supervisor
        self._held, self._journal, self._output = held, journal, output
        self._heartbeats, self._listener, self._election = heartbeats, listener, election
        self._offer = setting.offer
        self._name = setting.offer.name
        self._place = Whereabouts(setting.offer.host)
        self._machine = NodeMachine(setting)
        self._reports = reports
        self._supervised_by = supervised_by
        self._queue: deque[tuple[str, object]] = deque()
        self._pumping = False
        self._timers: dict[str, Timer | None] = {}
        self._caller: Caller | None = None
        self._dialler = Dialler(loop, heartbeats, job_id=self._machine.terms.job_id, token=token)
        self._leadership = Leadership(
            loop,
            self._machine,
            self._place,
            self._dialler,
            discovery=plan.discovery,
            journal=journal,
            output=output,
            listener=listener,
            election=election,
            token=token,
            decide=self._master,
            queue_for_node=lambda event: self._queue.append(("node", event)),
        )
        self._reachability = ReachabilityCheck(loop, self._dialler.launcher)
        self._status: int | None = None
        self._listen(output)

    def _listen(self, output: LauncherOutput) -> None:
        """To everything that may bring an event."""
        supervisor, listener, election = self._supervisor, self._listener, self._election
        self._reachability.on_answered = lambda name, generation: self._node(
            events.Reachable(name=name, generation=generation)
        )
        self._reachability.on_trouble = lambda text: output.say(text, "WARNING")
        supervisor.on_exit = self._worker_exited
        supervisor.on_listening = lambda key, generation: self._node(
            events.WorkerListening(key=key, generation=generation)
        )
        supervisor.on_hung = lambda key, generation, failure: self._node(
            events.WorkerHung(key=key, generation=generation, failure=failure)
        )
        supervisor.on_trouble = lambda text: output.say(text, "WARNING")
        if listener:
            listener.on_visitor = self._leadership.visited
            listener.on_trouble = lambda text: output.say(text, "WARNING")
        if election:
            election.on_elected = lambda: self._node(events.Elected())
            election.on_master = lambda host, port: self._node(events.LeaderAt(host=host, port=port))
            election.on_rival = self._leadership.call_rival
            election.on_trouble = lambda text: output.say(text, "WARNING")

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
            self._output.say("the supervisor of this run was killed", "WARNING")
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
        coordinator = self._leadership.coordinator
        self._set_timer("master", coordinator.next_deadline if coordinator else None)

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
        elif self._leadership.coordinator:
            decided = self._leadership.coordinator.step(now, event)  # type: ignore[arg-type]
            self._journal.record(now, who, event, decided)
            for decision in decided:
                self._leadership.perform(decision)

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
            case events.ConsoleLine(text=text, level=level):
                self._output.say(text, level)
            case events.MessageToMaster(message=message):
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
                self._output.goodbye(action)
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
                self._leadership.lead(action)
            case events.Campaign(gone_host=host, gone_port=port):
                assert self._election is not None
                assert self._listener is not None
                self._election.campaign(self._place.host, self._listener.port, gone=(host, port) if host else None)

    def _tell(self, message: object) -> None:
        if self._leadership.coordinator:
            self._queue.append(("master", events.MessageFromNode(name=self._name, message=message, at=time.time())))  # type: ignore[arg-type]
        elif self._place.link:
            self._place.link.send(message_frame(encode_tagged(message)))

    def _hold_ports(self) -> None:
        self._held.close()
        try:
            self._held.hold(self._plan.ports, self._plan.port_count, last=self._plan.own_store_port)
        except UmiakError as error:
            self._output.problems(error.problems)
            self._status = error.exit_status
            self._loop.stop()
            return
        self._queue.append(("node", events.PortsHeld(ports=self._held.numbers)))

    def _worker_exited(self, key: str, generation: int, failure: object) -> None:
        self._node(events.WorkerExited(key=key, generation=generation, failure=failure))  # type: ignore[arg-type]

    # ---- the link to a master elsewhere

    def _dial(self, host: str, port: int, patience_s: float) -> None:
        self._hang_up()
        caller = self._caller = self._dialler.call(host, port, calls.JoinJob(), patience_s)
        self._place.master_at = (host, port)
        caller.on_link = self._linked
        caller.on_moved = lambda there, its_port: self._node(events.LinkMoved(host=there, port=its_port))
        caller.on_failed = lambda refused, why, fatal: self._node(
            events.LinkFailed(refused=refused, why=why, fatal=fatal)
        )

    def _linked(self, link: Link) -> None:
        self._place.link = link
        self._supervisor.wall_offset_s = link.clock_offset_s
        link.on_message = self._heard_master
        link.on_closed = lambda: self._link_ended(events.LinkClosed(silent_s=link.silent_s))
        link.on_silent = lambda: self._link_ended(events.LinkSilent())
        self._place.host = self._place.host or link.local_host
        self._leadership.redirect_visitors()
        self._node(events.LinkUp(host=link.local_host))

    def _heard_master(self, content: object) -> None:
        try:
            message = message_checks.from_master(content, own=self._offer)
        except Malformed as error:
            self._output.say(f"the master sent something that makes no sense: {one_line(str(error))}", "ERROR")
            self._link_ended(events.LinkSilent())
            return
        if isinstance(message, (Form, Standby)) and message.cluster and isinstance(content, dict):
            self._journal.know(message.cluster, content["cluster"])
        self._node(events.MessageFromMaster(message=message))

    def _link_ended(self, event: object) -> None:
        if self._place.link:
            self._node(event)

    def _hang_up(self) -> None:
        if self._caller:
            self._caller.cancel()
            self._caller = None
        if self._place.link:
            self._place.link.leave()
            self._place.link = None
        if self._leadership.coordinator:
            self._leadership.stand_down()

    # ---- the end

    def _say_goodbye(self) -> None:
        """Let every node have its last message before this process, and with it the links, are gone."""
        self._reachability.stop()
        if self._election:
            self._election.resign()
        open_links = [link for link in (*self._heartbeats.links,) if link.is_open]
        if open_links:
            _finish_sending(self._loop, open_links)
        elif self._election:
            self._loop.after(0.2, self._loop.stop)
            self._loop.run()


def _finish_sending(loop: Loop, links: Iterable[Link]) -> None:
    """Run the loop until these links have sent all that they have, and the other sides have closed them."""
    until = loop.now() + LINGER_S
    for link in links:
        link.on_message = lambda _content: None
        link.on_closed = link.on_silent = lambda: None

    def check() -> None:
        for link in links:
            if not link.has_unsent:
                link.finish_sending()
        waiting = any(link.is_open for link in links)
        if not waiting or loop.now() >= until:
            loop.stop()
        else:
            loop.after(0.005, check)

    check()
    loop.run()
