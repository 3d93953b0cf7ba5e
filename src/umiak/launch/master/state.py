"""What a master knows of its job, and the steps that several events share: stop, end, tell the nodes. A decider.

`rendezvous` takes events and `deciding` draws the conclusions;
both work on this state, and what they decide is kept in ``actions`` until the event is over.
"""

from __future__ import annotations

from umiak.launch.events import Drop, Probe, Send
from umiak.launch.master.backoff import Backoff
from umiak.launch.master.phases import EndedJob, GatheringJob, JobInPhase, MasterPhase, StoppingJob
from umiak.launch.master.roster import Roster
from umiak.launch.master.votes import Votes
from umiak.launch.protocol import Evict, Finish, Standby, Stop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.cluster import Cluster
    from umiak.launch.events import Lead, NodeSetting, RendezvousAction
    from umiak.launch.master.roster import Member
    from umiak.launch.protocol import Failure, FromMaster, Offer

FIXED_SIZE_PATIENCE = 10
"""A job of fixed size waits this many times ``--elastic_timeout`` for a lost node to come back, as Paddle's does."""


class MasterState:
    """A job, in one phase. ``lead.previous`` is set when this master takes over from a lost one."""

    def __init__(self, setting: NodeSetting, lead: Lead, *, now: float) -> None:
        previous = lead.previous
        self.setting = setting
        self.terms = setting.terms
        self.name = setting.offer.name
        self.cluster = previous
        """The last generation."""
        self.has_formed = False
        """Whether it was formed here, with a majority of the one before."""
        self.lineage = previous.lineage if previous else setting.lineage
        self.restarts = previous.restarts if previous else 0
        self.failures: list[Failure] = []
        self.roster = Roster(previous)
        self.votes = Votes(lead)
        self.backoff = Backoff(self.terms.job_id, now)
        self.not_before = now + lead.wait_s
        """When the next generation may be formed at the earliest."""
        self.current: JobInPhase = GatheringJob(now, now + self.terms.join_timeout_s)
        self.actions: list[RendezvousAction] = []
        self._took_over = previous is not None
        if previous:
            self.take_over(self.current, previous, now)

    # ---- questions

    @property
    def phase(self) -> MasterPhase:
        return self.current.name

    @property
    def generation(self) -> int:
        """The number of the last one; 0: there is none."""
        return self.cluster.generation if self.cluster else 0

    @property
    def has_majority(self) -> bool:
        """Whether the nodes that are here may form the next generation."""
        return self.cluster is not None and self.votes.may_go_on(here=self.roster.names)

    def is_name_taken(self, offer: Offer) -> bool:
        """Whether a node at another address takes part under this name."""
        return self.roster.is_name_taken(offer)

    def all_ready(self) -> bool:
        return all(member.ready for member in self.roster.active)

    def anyone_done(self) -> bool:
        return any(member.done and member.offer.trainers for member in self.roster.active)

    def patience_s(self) -> float:
        """How long nodes are waited for, once a generation was formed."""
        return self.terms.elastic_timeout_s * (1 if self.terms.elastic else FIXED_SIZE_PATIENCE)

    def can_reform_without(self, leaving: int) -> bool:
        """Whether a job that loses nodes may go on without them, or wait for others in their place."""
        if len(self.roster.active) - leaving < 1:
            return False
        if self.terms.elastic or self.terms.elastic_level == 0:
            return True
        return self.terms.restart_wanted and self.restarts < self.terms.max_restart

    def probes(self) -> tuple[Probe, ...]:
        """After a take-over: whom to probe, so that a node that died with the master is not waited for."""
        nodes = self.cluster.nodes if self.cluster else ()
        awaited = [node for node in nodes if node.name in self.votes.awaited]
        return tuple(Probe(name=node.name, host=node.host, port=node.link_port) for node in awaited)

    def rivals(self) -> tuple[tuple[str, int], ...]:
        """After a take-over: the addresses where somebody may lead this job without knowing of this launcher."""
        if not self._took_over or not self.cluster or isinstance(self.current, EndedJob):
            return ()
        addresses = [(self.setting.master_host, self.setting.master_port)]
        if not self.has_formed:
            # The old master may just have been out of reach, and so may those who stand in line before this node:
            # they may be about to lead. As long as there is no generation of its own here, they are asked.
            for name in (self.cluster.coordinator, *self.votes.silent_before(self.name)):
                node = self.cluster.node(name)
                addresses.append((node.host, node.link_port))
        own = self.cluster.node(self.name) if self.name in self.cluster.names else self.setting.offer
        here = (own.host, own.link_port)
        return tuple(dict.fromkeys(address for address in addresses if address[0] and address != here))

    # ---- steps

    def take_over(self, gathering: GatheringJob, previous: Cluster, now: float) -> None:
        """Start as the successor of a lost master: wait for the others of its last generation, not for ever."""
        gathering.is_reform = True
        self.votes.await_all_but({self.name, *self.roster.names})
        # A node that this one never had a link to notices by itself that it is cut off, and stops, within this time.
        others_stop_s = self.terms.old_workers_end_s + self.terms.fence_s
        gathering.await_until = now + others_stop_s + self.terms.heartbeat_timeout_s
        # Whether this side may go on at all is known only then, and comes before the question whether it is enough.
        gathering.deadline = max(now + self.patience_s(), gathering.await_until)
        if self.votes.silent - {previous.coordinator}:
            self.not_before = now + others_stop_s
        if self.votes.silent:
            self.form_not_before(now + self.terms.fence_s)

    def form_not_before(self, time: float) -> None:
        self.not_before = max(self.not_before, time)

    def stop(self, why: str, *, reform: bool, dump_stacks: bool = False, grace_s: float | None = None) -> None:
        """The workers of this generation end, on all nodes."""
        self.current = StoppingJob(reform=reform)
        grace_s = self.terms.failure_grace_s if grace_s is None else grace_s
        stop = Stop(generation=self.generation, why=why, grace_s=grace_s, dump_stacks=dump_stacks, reform=reform)
        self.send(stop, *(member.offer.name for member in self.roster.active))

    def end(self, finish: Finish, *, is_cut_off: bool = False) -> None:
        self.current = EndedJob(is_cut_off=is_cut_off)
        self.broadcast(finish)

    def end_cut_off(self, finish: Finish) -> None:
        """This side may not go on. Its other nodes may reach the rest,
        which this master could not: they look for it.
        """
        self.current = EndedJob(is_cut_off=True)
        others = [name for name in self.roster.names if name != self.name]
        is_over = not self.terms.survives_its_master
        self.send(finish if is_over else Evict(text="it was cut off, and ends"), *others)
        self.send(finish, self.name)

    def stand_by(self, text: str, *names: str) -> None:
        """These nodes take no part in the generation."""
        standby = Standby(text=text, cluster=self.cluster, basis=self.votes.basis, formed_here=self.has_formed)
        self.send(standby, *names)

    def forget(self, name: str, *, dead: bool) -> None:
        self.roster.remove(name)
        if dead:
            self.votes.dead.add(name)
        self.actions.append(Drop(name=name))

    def part_with(self, member: Member) -> None:
        """Let a node go that was told to stop."""
        if member.farewell:
            self.send(member.farewell, member.offer.name)
        self.forget(member.offer.name, dead=True)

    def send(self, message: FromMaster, *names: str) -> None:
        if names:
            self.actions.append(Send(names=tuple(names), message=message))

    def broadcast(self, message: FromMaster) -> None:
        self.send(message, *self.roster.names)
