"""What follows from the state of a job: a generation is formed, grows, goes on after a stop, or the job ends.
A decider.

decide(state, now)      after every event of a master
"""

from __future__ import annotations

from umiak.core.cluster import Cluster
from umiak.launch.master import admission
from umiak.launch.master.phases import WAITING_NOTE_EVERY_S, EndedJob, GatheringJob, RunningJob, StoppingJob
from umiak.launch.protocol import Finish, Form, Go, Waiting
from umiak.launch.reports import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.launch.master.state import MasterState


def next_deadline(state: MasterState) -> float | None:
    """When a Tick is wanted, if nothing else happens before."""
    times: list[float | None] = []
    match state.current:
        case GatheringJob() as gathering:
            times = [gathering.deadline, gathering.note_at, _form_time(state, gathering)]
            if state.votes.awaited:
                times.append(gathering.await_until)
        case RunningJob() as running:
            times = [running.grow_at, *(restart.at for restart in running.restarts)]
    return min((time for time in times if time is not None), default=None)


def decide(state: MasterState, now: float) -> None:
    """Go on from phase to phase as far as may be."""
    if isinstance(state.current, EndedJob):
        return
    here = state.roster.names
    if state.cluster and not state.votes.awaited and not state.votes.may_go_on(here):
        hosts = {node.name: node.host for node in state.cluster.nodes}
        lost = ", ".join(hosts.get(name, name) for name in state.votes.missing(here))
        state.end_cut_off(words.cut_off(lost, state.cluster.generation))
    if isinstance(state.current, RunningJob):
        _decide_running(state, state.current, now)
    if isinstance(state.current, StoppingJob) and all(member.idle for member in state.roster.active):
        _after_stopping(state, state.current, now)
    if isinstance(state.current, GatheringJob):
        _decide_gathering(state, state.current, now)


def _decide_running(state: MasterState, running: RunningJob, now: float) -> None:
    active = state.roster.active
    for restart in [restart for restart in running.restarts if now >= restart.at]:
        running.restarts.remove(restart)
        if restart.node in state.roster:
            state.send(restart.message, restart.node)
    if not running.trainers_started and state.all_ready():
        running.trainers_started = True
        state.send(Go(generation=state.generation), *(member.offer.name for member in active))
    if all(member.done for member in active):
        state.end(Finish(exit_status=0, words="the job is done"))
    elif running.grow_at is not None and now >= running.grow_at:
        running.grow_at = None
        newcomers = state.roster.standing_by[: state.terms.most - len(active)]
        if newcomers and not state.anyone_done():
            hosts = ", ".join(member.offer.host for member in newcomers)
            size = len(active) + len(newcomers)
            state.stop(f"growing from {len(active)} to {size} nodes: {hosts} joined", reform=True)


def _after_stopping(state: MasterState, stopping: StoppingJob, now: float) -> None:
    if not stopping.reform:
        state.end(words.verdict(min(state.failures, key=lambda failure: failure.at)))
        return
    for member in [member for member in state.roster if member.leaving]:
        state.part_with(member)
    if state.name not in state.roster:
        state.current = EndedJob()
        return
    state.current = GatheringJob(now, max(now, state.not_before) + state.patience_s())
    state.current.is_reform = True
    state.failures.clear()


def _decide_gathering(state: MasterState, gathering: GatheringJob, now: float) -> None:
    free = state.terms.most - len(state.roster.active)
    for member in state.roster.standing_by[: max(free, 0)]:
        state.roster.stand_by(member, standby=False)
    when = _form_time(state, gathering)
    if when is not None and now >= when:
        _form(state, now)
    elif state.votes.awaited and now >= gathering.await_until:
        state.votes.stop_waiting()
        decide(state, now)
    elif now >= gathering.deadline:
        _give_up(state, gathering)
    elif now >= gathering.note_at:
        gathering.note_at = now + WAITING_NOTE_EVERY_S
        text = _waiting_text(state)
        if gathering.is_reform and when is not None:
            text = f"generation {state.generation + 1} starts in {when - now:.1f} s"
        state.broadcast(Waiting(text=text))


def _form_time(state: MasterState, gathering: GatheringJob) -> float | None:
    """When a generation may be formed from the nodes that are here, if nothing changes; None: not with these."""
    count, terms = len(state.roster.active), state.terms
    if count < terms.least or state.name not in state.roster or (count < terms.most and not terms.elastic):
        return None
    if gathering.is_reform:
        return None if state.votes.awaited else state.not_before
    return state.not_before if count >= terms.most else gathering.last_change + terms.elastic_timeout_s


def _form(state: MasterState, now: float) -> None:
    first = state.generation == 0
    seated = [(member.offer, member.home) for member in state.roster.active]
    order = admission.in_rank_order(seated, by_address=state.terms.sort_ip and first)
    members = [state.roster[name] for name in order]
    if first:
        for home, member in enumerate(members):
            member.home = home
    state.cluster = cluster = Cluster(
        job_id=state.terms.job_id,
        generation=state.generation + 1,
        nodes=tuple(member.node() for member in members),
        coordinator=state.name,
        restarts=state.restarts,
        lineage=state.lineage,
    )
    state.votes.formed(cluster)
    state.has_formed = True
    for member in members:
        member.ready = member.done = member.idle = False
    state.backoff.began(now)
    state.current = RunningJob(trainers_started=not state.terms.mode.has_servers)
    formed = {*cluster.names}
    others = [name for name in state.roster.names if name not in formed]
    # First, so that none of them takes this master for one of the generation before when it dies in between.
    state.stand_by(f"generation {cluster.generation} runs without this node", *others)
    state.send(Form(cluster=cluster, basis=state.votes.basis), *cluster.names)


def _give_up(state: MasterState, gathering: GatheringJob) -> None:
    text = _waiting_text(state)
    if gathering.is_reform or state.generation:
        gave_up = f"{text}; gave up after --elastic_timeout"
        state.end(Finish(exit_status=1, code="UM-MEET-005", words=gave_up))
    else:
        gave_up = f"{text}; gave up after --join_timeout {state.terms.join_timeout_s:g}"
        hint = "start the missing nodes with the same --master, or raise --join_timeout"
        state.end(Finish(exit_status=3, code="UM-MEET-004", words=gave_up, hint=hint))


def _waiting_text(state: MasterState) -> str:
    terms, active = state.terms, state.roster.active
    hosts = ", ".join(member.offer.host for member in active) or "none"
    missing = terms.least - len(active)
    if missing <= 0 and terms.elastic:
        return f"have {len(active)} of {terms.least}:{terms.most} nodes ({hosts}), waiting for more"
    wanted = terms.least if terms.elastic else terms.most
    return f"waiting for {max(missing, 0)} of {wanted} nodes: have {hosts}"
