"""The operator while it acts: watches, a queue of jobs, decisions, and what follows from them. An adapter.

For each job in turn: look at the cache, decide (pure), and do what was decided. At a turning point the status is
written first, and decided again on what was written; it is the operator's only memory. One job is never worked on twice
at a time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import nullcontext

from umiak.core.value import replace
from umiak.kube.answers import KubeRefused, KubeSilent
from umiak.operator.class_lookups import ClusterLookups
from umiak.operator.controller.cache import ClusterCache
from umiak.operator.controller.cluster_watch import ClusterWatch
from umiak.operator.controller.discovery import ApiDiscovery
from umiak.operator.controller.event_recorder import EventRecorder
from umiak.operator.controller.fair_share import SLICE, FairShare
from umiak.operator.controller.job_queue import JobQueue
from umiak.operator.controller.kinds import POD
from umiak.operator.controller.performer import ActionRefused, Performer
from umiak.operator.controller.progress_reader import ProgressReader
from umiak.operator.queueing import lookups
from umiak.operator.values import ClusterFacts, CreateObject, KeepLogs, RecordEvent
from umiak.paddlejob.report import status_of
from umiak.paddlejob.resource import Intranet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable
    from typing import Any

    from umiak.core.json_types import JsonMapping
    from umiak.kube.async_api import AsyncKubeApi
    from umiak.operator.controller.cache import CachedJob, JobKey
    from umiak.operator.controller.metrics import Labels, OperatorMetrics
    from umiak.operator.options import OperatorOptions
    from umiak.operator.values import ClusterAction, Decision, Observed, OperatorAction, Refusal
    from umiak.paddlejob.reading import PaddleJobReading
    from umiak.paddlejob.resource import PaddleJob

LOG = logging.getLogger("umiak.operator")
AT_ONCE = 64
"""Jobs that are worked on at a time; a large one gives its place away after its first slice of requests."""
NEW_AT_ONCE = 16
"""Jobs besides, of which nothing was done yet. Few, so that the first of many is finished before the last is begun."""
TURNS = 8
"""Turning points of a job one after another before others have their turn."""
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.03, 1.0
"""Between two looks at the same job, so that many small changes are seen together."""
PAUSE_PER_DECISION = 10.0
"""A job whose decisions take long is looked at less often: this many times as long is the pause."""
COUNTS_PER_S, LONGEST_COUNT_PAUSE_S = 25, 10.0
"""Statuses per second of which only counts have changed:
where many jobs start at once, each of them waits longer for more of its pods.
"""
RECHECK_S = 15.0
"""How often an object in the way is looked at that no watch tells of."""


def count_pause_s(decision: Decision, unsaved: int) -> float:
    """How long a status may wait of which only counts have changed, beside so many others."""
    return max(decision.status_may_wait_s, min(LONGEST_COUNT_PAUSE_S, unsaved / COUNTS_PER_S))


class Controller:
    """All jobs of a cluster, or of a namespace."""

    def __init__(
        self,
        api: AsyncKubeApi,
        options: OperatorOptions,
        *,
        decide: Callable[[Observed, float], Decision],
        read_job: Callable[[JsonMapping], PaddleJobReading],
        metrics: OperatorMetrics,
        host: str = "",
    ) -> None:
        self._api = api
        self._options = options
        self._decide = decide
        self._metrics = metrics
        self.queue = JobQueue()
        self.cache = ClusterCache(read_job, self.queue.add, node_timeout_s=options.node_timeout_s)
        self._discovery = ApiDiscovery(api, options.gang, with_kueue=options.with_kueue)
        self.share = FairShare(options.in_flight)
        self._performer = Performer(api, self.cache, self._discovery.served, metrics)
        self._progress = ProgressReader(self._performer.tail, self.queue.add)
        self._lookups = ClusterLookups(api, lambda: self._discovery.kueue, self.queue.add)
        self._recorder = EventRecorder(api, host)
        self._watch = ClusterWatch(api, options, self.cache, self._discovery, metrics)
        self._tasks: set[asyncio.Task[None]] = set()
        self._host_ports = asyncio.Lock()
        """Ports of two jobs in Host mode are chosen one after the other."""
        self._refusals: dict[JobKey, dict[tuple[str, str], Refusal]] = {}
        self._not_before: dict[JobKey, float] = {}
        """When creations of a job that was refused one are tried again."""
        self._recheck: dict[JobKey, float] = {}
        self._unsaved: dict[JobKey, float] = {}
        """Since when a status is unsaved that may wait."""
        self._is_six = "://[" in api.access.server
        self.is_synced = False

    async def run(self) -> None:
        """For ever; cancelled, it starts nothing more and takes back what is under way."""
        loops: list[asyncio.Task[None]] = []
        try:
            watches = await self._watch.start()
            self.is_synced = True
            LOG.info("watching %d jobs with %d pods", len(self.cache.jobs), self.cache.count(POD))
            loops += [asyncio.ensure_future(self._recorder.run()), *self._dispatchers()]
            done, _ = await asyncio.wait([*watches, *loops], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self.is_synced = False
            self.share.close()
            self._progress.close()
            self._lookups.close()
            await self._watch.stop()
            ending = [*loops, *self._tasks]
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)

    async def flush_events(self) -> None:
        """At a clean end."""
        await self._recorder.flush()

    def gauges(self) -> Iterable[tuple[str, Labels, float]]:
        """For the page of metrics."""
        phases: dict[str, int] = {}
        for cached in self.cache.jobs.values():
            phase = cached.job.report.phase
            name = phase.value if phase else "New"
            phases[name] = phases.get(name, 0) + 1
        for name, count in phases.items():
            yield "umiak_operator_jobs", (("phase", name),), count
        yield "umiak_operator_pods", (), self.cache.count(POD)
        yield "umiak_operator_queue_length", (), len(self.queue)
        yield "umiak_operator_queue_oldest_seconds", (), self.queue.oldest_s()
        yield "umiak_operator_requests_waiting", (), self.share.waiting

    def troubles(self) -> list[str]:
        """What can't be read at the moment."""
        return self._watch.troubles()

    # ---- working

    def _dispatchers(self) -> list[asyncio.Task[None]]:
        lines = ((self.queue.get, AT_ONCE), (self.queue.get_new, NEW_AT_ONCE))
        return [asyncio.ensure_future(self._dispatch(take, at_once)) for take, at_once in lines]

    async def _dispatch(self, take: Callable[[], Awaitable[Any]], at_once: int) -> None:
        places = asyncio.Semaphore(at_once)
        while True:
            await places.acquire()
            key = await take()
            task = asyncio.ensure_future(self._handle(key, _Once(places.release)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _handle(self, key: JobKey, leave: _Once) -> None:
        began = time.monotonic()
        result, pause_s = "done", SHORTEST_PAUSE_S
        try:
            pause_s = await self._work(key, leave)
        except (KubeRefused, KubeSilent) as error:
            result = "refused"
            wait_s = self.queue.add_failed(key)
            LOG.warning("%s/%s: again in %.1f s: %s", key[1], key[2], wait_s, error)
        except asyncio.CancelledError:
            raise
        except Exception:
            result = "bug"
            wait_s = self.queue.add_failed(key, at_least_s=1.0)
            LOG.exception("%s/%s: a bug in umiak; again in %.1f s", key[1], key[2], wait_s)
        finally:
            leave()
            self._metrics.count("umiak_operator_reconciles_total", result=result)
            self._metrics.observe("umiak_operator_reconcile_seconds", time.monotonic() - began)
            # Until then it stays this worker's: what changes meanwhile is seen together.
            asyncio.get_running_loop().call_later(pause_s, self.queue.done, key)

    async def _work(self, key: JobKey, leave: _Once) -> float:
        """Look at a job and do what there is to do. The result is how long to leave it alone."""
        for _ in range(TURNS):
            cached = self.cache.jobs.get(key)
            if cached is None:
                self._forget(key)
                return 0.0
            self._recheck_names(key)
            is_host = cached.job.spec.intranet is Intranet.HOST
            async with self._host_ports if is_host else nullcontext():
                decision, took_s = self._decision(key)
                if not decision.is_turning_point:
                    break
                is_written = await self._save(key, cached, decision)
            if is_written is False:
                break  # it was saved before: this is not a turning point any more
            if is_written:
                self._record(cached.job, decision.actions)
        else:
            self.queue.add(key)
            return SHORTEST_PAUSE_S
        await self._carry_out(key, cached, decision, leave)
        return max(SHORTEST_PAUSE_S, min(LONGEST_PAUSE_S, PAUSE_PER_DECISION * took_s))

    def _decision(self, key: JobKey) -> tuple[Decision, float]:
        now = time.time() + self._api.clock_ahead_s  # in the cluster's time, which its objects are written in
        began = time.perf_counter()
        refusals = tuple(self._refusals.get(key, {}).values())
        observed = self.cache.observe(key, _facts(self._discovery, self._options, self._is_six), now, refusals)
        assert observed is not None
        answers = self._lookups.known(key, lookups(observed))
        observed = replace(observed, progress=self._progress.said(key, observed.job), found=answers)
        decision = self._decide(observed, now)
        took_s = time.perf_counter() - began
        self._metrics.observe("umiak_operator_decide_seconds", took_s)
        for wait_s in (
            decision.again_in_s,
            self.cache.silent_for_s(key, now),
            self._progress.look(key, observed.job),
        ):
            if wait_s is not None:
                self.queue.add_after(key, max(wait_s, SHORTEST_PAUSE_S))
        return decision, took_s

    async def _carry_out(self, key: JobKey, cached: CachedJob, decision: Decision, leave: _Once) -> None:
        actions = self._possible(key, cached.job, decision.actions)
        if len(actions) > SLICE:
            leave()
        outcome = await self.share.run(
            [_call(self._one, key, cached.job, action) for action in actions],
            lambda: _is_current(self.cache.jobs.get(key), cached),
            is_last=not any(isinstance(each, CreateObject) and each.kind == POD for each in actions),
        )
        if outcome.errors:
            self._failed(key, cached.job, outcome.errors)
        else:
            self._record(cached.job, decision.actions)
        has_logs = any(isinstance(action, KeepLogs) for action in decision.actions)
        if outcome.started and not outcome.errors:
            self._not_before.pop(key, None)
            self.queue.add(key)  # the status follows from what there is now
            if not has_logs:
                return
        if outcome.skipped:
            self.queue.add(key)
        await self._save_if_due(key, cached, decision)
        if not outcome.errors and not self._refusals.get(key):
            self._not_before.pop(key, None)
            self.queue.succeeded(key)

    async def _save_if_due(self, key: JobKey, cached: CachedJob, decision: Decision) -> None:
        if any(isinstance(action, KeepLogs) for action in decision.actions) or decision.status_may_wait_s <= 0:
            await self._save(key, cached, decision)
            return
        if status_of(decision.report, cached.job) == status_of(cached.job.report, cached.job):
            self._unsaved.pop(key, None)
            return
        now = time.monotonic()
        left_s = self._unsaved.setdefault(key, now) - now + count_pause_s(decision, len(self._unsaved))
        if left_s > 0:
            self.queue.add_after(key, left_s)
        else:
            await self._save(key, cached, decision)

    async def _save(self, key: JobKey, cached: CachedJob, decision: Decision) -> bool | None:
        """Write the status. False: it is as it was; None: the job has changed meanwhile, and is looked at again."""
        report = await self._performer.with_logs(cached.job, decision)
        status = status_of(report, cached.job)
        self._unsaved.pop(key, None)
        if status == status_of(cached.job.report, cached.job):
            return False
        saved = await self._performer.write_status(cached, status)
        if saved is None:
            self.queue.add(key)
            return None
        before, after = cached.job.report, saved.job.report
        if after.phase is not None and after.phase.is_over and before.phase is not after.phase:
            labels = {"namespace": cached.job.namespace, "phase": after.phase.value}
            self._metrics.count("umiak_operator_jobs_finished_total", **labels)
        if after.restarts > before.restarts:
            by = after.restarts - before.restarts
            self._metrics.count("umiak_operator_job_restarts_total", by, namespace=cached.job.namespace)
        return True

    async def _one(self, key: JobKey, job: PaddleJob, action: ClusterAction) -> None:
        known = self._refusals.get(key)
        try:
            await self._performer.perform(key, job, action)
        except ActionRefused as refused:
            if isinstance(action, CreateObject):
                self._refusals.setdefault(key, {})[(action.kind, action.name)] = refused.refusal
            raise
        if known and isinstance(action, CreateObject):
            known.pop((action.kind, action.name), None)

    def _possible(self, key: JobKey, job: PaddleJob, actions: tuple[OperatorAction, ...]) -> list[ClusterAction]:
        """Without events and logs, and without creations that would only be refused: not so soon again, or a name that is taken."""
        possible: list[ClusterAction] = []
        self._still_refused(key, actions)
        is_held = time.monotonic() < self._not_before.get(key, 0.0)
        is_blocked = False
        for action in actions:
            if isinstance(action, (RecordEvent, KeepLogs)):
                continue
            if isinstance(action, CreateObject):
                there = self.cache.get(action.kind, job.namespace, action.name)
                if there is not None and there.owner_uid != job.uid:
                    self.cache.block(key, action.kind, job.namespace, action.name)
                    is_blocked = True
                    continue
                if is_held:
                    continue
            possible.append(action)
        if is_held:
            self.queue.add_after(key, self._not_before[key] - time.monotonic())
        if is_blocked:
            self.queue.add(key)
        return possible

    def _failed(self, key: JobKey, job: PaddleJob, errors: tuple[Exception, ...]) -> None:
        after_s = max([error.after_s for error in errors if isinstance(error, ActionRefused)], default=0.0)
        wait_s = self.queue.add_failed(key, at_least_s=after_s)
        self._not_before[key] = time.monotonic() + wait_s
        self._recheck[key] = time.monotonic() + RECHECK_S
        self.queue.add(key)  # to say so in the status
        self.queue.add_after(key, RECHECK_S)
        for error in errors[:3]:
            if not isinstance(error, (ActionRefused, KubeSilent)):
                raise error
            if isinstance(error, ActionRefused) and error.refusal.reason != "AlreadyExists":
                refusal = error.refusal
                message = f"{refusal.kind} {refusal.name}: {refusal.reason}: {refusal.message}"
                self._recorder.record(job, RecordEvent(reason="Create", message=message, is_warning=True))
        LOG.warning("%s/%s: %d refused, again in %.1f s: %s", key[1], key[2], len(errors), wait_s, errors[0])

    def _still_refused(self, key: JobKey, actions: tuple[OperatorAction, ...]) -> None:
        """Refusals of what is not wanted any more are forgotten."""
        known = self._refusals.get(key)
        if known:
            wanted = {(action.kind, action.name) for action in actions if isinstance(action, CreateObject)}
            for each in [each for each in known if each not in wanted]:
                del known[each]

    def _recheck_names(self, key: JobKey) -> None:
        """Objects of others that no watch tells of are forgotten after a while, and found again if they are still there."""
        due = self._recheck.get(key)
        if due is not None and time.monotonic() >= due:
            del self._recheck[key]
            self.cache.unblock_unwatched(key)

    def _record(self, job: PaddleJob, actions: Iterable[OperatorAction]) -> None:
        for action in actions:
            if isinstance(action, RecordEvent):
                self._recorder.record(job, action)

    def _forget(self, key: JobKey) -> None:
        self.queue.forget(key)
        self._progress.forget(key)
        for table in (self._refusals, self._not_before, self._recheck, self._unsaved):
            table.pop(key, None)


def _facts(discovery: ApiDiscovery, options: OperatorOptions, is_six: bool) -> ClusterFacts:
    kinds = frozenset(kind.kind for kind in discovery.kinds())
    return ClusterFacts(kinds=kinds, gang=options.gang, kueue=discovery.kueue, etcd=options.etcd, is_six=is_six)


def _is_current(now: CachedJob | None, cached: CachedJob) -> bool:
    """Whether what was decided still holds: the job is there, wants the same and is in the same attempt."""
    if now is None:
        return False
    old, new = cached.job, now.job
    return now is cached or (
        old.uid == new.uid
        and old.generation == new.generation
        and old.is_deleting == new.is_deleting
        and old.report.attempt == new.report.attempt
    )


class _Once:
    """A call that is made at most once."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def __call__(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


def _call(
    function: Callable[..., Coroutine[object, None, None]], *arguments: Any
) -> Callable[[], Coroutine[object, None, None]]:
    return lambda: function(*arguments)
