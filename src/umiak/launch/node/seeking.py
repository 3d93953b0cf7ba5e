"""How a node finds its master: whom it calls next, and what follows from an answer. A decider.

At first that is the address that was given, or the one in etcd. Later it is the line of succession of the last
generation: `succession` says whose turn it is. Who may go on is decided by the node that leads in the end, with
`quorum`.
"""

from __future__ import annotations

from umiak.core.cluster import join_host_port
from umiak.launch.events import Campaign, ConsoleLine, Dial, Discovery, Lead
from umiak.launch.node.phases import NOTE_EVERY_S, SeekingNode
from umiak.launch.protocol import Finish
from umiak.launch.reports import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.cluster import Cluster
    from umiak.launch.events import LinkFailed, NodeAction, NodeSetting
    from umiak.launch.node.succession import Search

ASK_AGAIN_S = 0.2
HEIR_CALLS_WITHIN_S = 0.5
"""A master that took over calls at the job's first address several times in this time."""
LONGEST_PAUSE_S = 0.5
Address = tuple[str, int]


class Finder:
    """What is known of addresses, over all phases of a node. Each answer is the next action, or how the node ends."""

    def __init__(self, setting: NodeSetting) -> None:
        self._setting = setting
        self._terms = setting.terms
        self._dialled: Address | None = None
        self._last_error = ""
        self.reachable: set[Address] = set()
        """Where launchers have answered this one."""
        self.refusals_count_until = 0.0
        """Who is found dead by then has formed no generation without this node."""

    def first(self) -> NodeAction:
        """What a launcher does when it starts."""
        setting = self._setting
        if setting.discovery is Discovery.ETCD:
            return Campaign()
        if setting.leads:
            may_have_moved = setting.discovery is Discovery.ADDRESS and self._terms.survives_its_master
            return Lead(wait_s=HEIR_CALLS_WITHIN_S if may_have_moved else 0.0)
        return self.dial(setting.master_host, setting.master_port)

    def again(self, now: float, seeking: SeekingNode, *, is_gone: bool) -> NodeAction | None:
        """The master was lost before it had formed anything: look where it was."""
        if self._setting.discovery is Discovery.ETCD:
            return self._campaign(is_gone=is_gone)
        seeking.dial_at = now + ASK_AGAIN_S
        return None

    def next(self, now: float, search: Search, *, is_gone: bool) -> NodeAction | Finish:
        """The master of a generation was lost: look for the one after it."""
        search.until = now + self._terms.heartbeat_timeout_s + self._terms.fence_s
        return (
            self._campaign(is_gone=is_gone)
            if self._setting.discovery is Discovery.ETCD
            else self._call_candidate(search)
        )

    def answered(self, cluster: Cluster | None) -> str | None:
        """The launcher that was dialled has answered. Which node of the last generation it is, if it is one of them."""
        if self._dialled:
            self.reachable.add(self._dialled)
        return self.name_of_dialled(cluster)

    def name_of_dialled(self, cluster: Cluster | None) -> str | None:
        nodes = cluster.nodes if cluster else ()
        return next((node.name for node in nodes if (node.host, node.link_port) == self._dialled), None)

    def failed(self, now: float, event: LinkFailed, seeking: SeekingNode) -> NodeAction | Finish | None:
        """Nobody answered."""
        self._last_error = event.why
        # Where nobody ever answered, a refusal says that the address is wrong, not that the launcher there has died.
        is_gone = event.refused and self._dialled in self.reachable
        search = seeking.search
        if event.fatal:
            return Finish(exit_status=3, code="UM-MEET-003", words=event.why, hint=self._if_not_ours())
        if self._setting.discovery is Discovery.ETCD:
            return self._campaign(is_gone=is_gone)
        if search is None:
            seeking.dial_at = now + seeking.pause_s
            seeking.pause_s = min(2 * seeking.pause_s, LONGEST_PAUSE_S)
            return None
        if search.called is None:
            # Where another node pointed, nobody answers; that says nothing about the node that pointed there.
            seeking.ask_at = now + ASK_AGAIN_S
            return None
        search.lost(search.called, dead=is_gone and now < self.refusals_count_until)
        return self._call_candidate(search)

    def moved(self, now: float, search: Search | None, host: str, port: int) -> NodeAction | Finish:
        """The node that was called does not lead, and says who does."""
        if search is None:
            return self.dial(host, port)
        is_lost = search.is_lost((host, port))
        if is_lost and now >= search.until:
            lost = "the master can't be reached from here, while other nodes still follow it"
            return Finish(exit_status=3, code="UM-MEET-001", words=lost, at_once=True)
        search.called = None
        # If it is lost: the other node has not noticed yet that its master is gone,
        # or it can still reach it; so may this one by now.
        return self.dial(host, port, patience_s=self._short_patience_s() if is_lost else None)

    def lead(self, search: Search | None) -> Lead:
        """Become the master, with what is known of the nodes of the last generation."""
        if search is None:
            return Lead()
        nodes = search.cluster.nodes
        return Lead(
            previous=search.cluster,
            basis=search.basis,
            dead=search.dead,
            silent=search.silent,
            reachable=tuple(node.name for node in nodes if (node.host, node.link_port) in self.reachable),
            refusals_count_until=self.refusals_count_until,
        )

    def tick(self, now: float, seeking: SeekingNode) -> list[NodeAction | Finish]:
        """What is due."""
        actions: list[NodeAction | Finish] = []
        if seeking.dial_at is not None and now >= seeking.dial_at:
            seeking.dial_at = None
            actions.append(self.dial(self._setting.master_host, self._setting.master_port))
        if seeking.ask_at is not None and now >= seeking.ask_at:
            seeking.ask_at = None
            if seeking.search:
                actions.append(self._call_candidate(seeking.search))
        if seeking.note_at is not None and now >= seeking.note_at:
            seeking.note_at = now + NOTE_EVERY_S
            actions.append(ConsoleLine(text=f"waiting for the master at {self._where()}"))
        return actions

    def not_found(self) -> Finish:
        """The time to join is over."""
        text = f"no master after --join_timeout {self._terms.join_timeout_s:g} at {self._where()}"
        hint = "is the master running, and is its port open? `umiak launch --check` on every node tells"
        return Finish(exit_status=3, code="UM-MEET-002", words=text, hint=hint)

    def dial(self, host: str, port: int, patience_s: float | None = None) -> Dial:
        self._dialled = (host, port)
        return Dial(host=host, port=port, patience_s=patience_s or self._terms.heartbeat_timeout_s)

    def _campaign(self, *, is_gone: bool) -> Campaign:
        """``is_gone``: whether the launcher that was dialled last is gone."""
        host, port = self._dialled if is_gone and self._dialled else ("", 0)
        return Campaign(gone_host=host, gone_port=port)

    def _call_candidate(self, search: Search) -> NodeAction | Finish:
        if search.is_hopeless:
            return words.cut_off(", ".join(search.hosts_out_of_reach), search.cluster.generation)
        candidate = search.candidate
        if candidate is None or candidate.name == self._setting.offer.name:
            return self.lead(search)
        search.called = candidate.name
        return self.dial(candidate.host, candidate.link_port, patience_s=self._short_patience_s())

    def _short_patience_s(self) -> float:
        """How long a node of the last generation may take to answer a call."""
        return min(2.0, self._terms.heartbeat_timeout_s)

    def _where(self) -> str:
        """Where the master is looked for, and what came of it the last time."""
        host = self._setting.master_host
        where = join_host_port(host, self._setting.master_port) if host else "the address in etcd"
        return f"{where} ({self._last_error})" if self._last_error else where

    def _if_not_ours(self) -> str:
        """What to do where another program, or somebody else's job, answers at the master's address."""
        if not self._setting.master_host:
            return ""
        return (
            "if it is not this job's master that answers there, name another port in --master, the same on every node"
        )
