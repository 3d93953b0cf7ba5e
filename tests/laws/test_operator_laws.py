"""Laws of the operator: whatever happens to pods, nodes, the API and the operator itself, and in whatever order.

Stories are drawn: pods fail, are evicted, deleted, finish; nodes are lost; people scale, suspend and resume; writes fail; the operator
is killed behind any write and begins again with what the API has, or looks at an old cache for a while.
"""

from __future__ import annotations

import random
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.effort import effort
from tests.support.operator_cluster import Killed, OperatorCluster, manifest
from umiak.core.value import replace
from umiak.operator.reconcile import reconcile
from umiak.operator.values import ClusterFacts
from umiak.paddlejob.resource import JobPhase, RestartScope

GANG = "scheduling.x-k8s.io/PodGroup"

step = st.one_of(
    st.tuples(st.just("settle"), st.sampled_from([0, 0, 15, 60])),
    st.tuples(st.just("operate"), st.integers(1, 4)),
    st.tuples(st.just("kill"), st.integers(1, 6)),
    st.tuples(st.just("flaky"), st.integers(1, 3)),
    st.tuples(st.just("kubelets"), st.integers(1, 3)),
    st.tuples(st.just("pass"), st.sampled_from([1, 11, 60, 400])),
    st.tuples(st.just("fail"), st.integers(0, 9)),
    st.tuples(st.just("evict"), st.integers(0, 9)),
    st.tuples(st.just("remove"), st.integers(0, 9)),
    st.tuples(st.just("terminate"), st.integers(0, 9)),
    st.tuples(st.just("finish"), st.integers(0, 9)),
    st.tuples(st.just("lose"), st.just(0)),
    st.tuples(st.just("scale"), st.integers(1, 4)),
    st.tuples(st.just("suspend"), st.booleans()),
    st.tuples(st.just("stale"), st.integers(1, 3)),
)
steps = st.lists(step, max_size=40)


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    has_servers = draw(st.booleans())
    is_elastic = not has_servers and draw(st.booleans())
    fields: dict[str, Any] = {"intranet": draw(st.sampled_from(["PodIP", "Service", "Host"]))}
    policy: dict[str, Any] = {"backoffLimit": draw(st.integers(0, 3))}
    if draw(st.booleans()):
        policy["restartScope"] = draw(st.sampled_from(["Pod", "Role", "Job"]))
    if has_servers:
        fields["withGloo"] = draw(st.integers(0, 1))
    if is_elastic:
        fields["elastic"] = 1
    clean = draw(st.sampled_from(["", "Always", "Never", "OnFailure", "OnCompletion", "OnFailed"]))
    if clean:
        fields["cleanPodPolicy"] = clean
    return manifest(
        "job",
        ps=draw(st.integers(1, 2)) if has_servers else None,
        worker=draw(st.integers(1, 3)),
        runPolicy=policy,
        **fields,
    )


class Story:
    """A cluster in which a drawn story happens; what must hold at any moment is looked at behind every step."""

    def __init__(self, job: dict[str, Any], seed: int, facts: ClusterFacts = ClusterFacts()) -> None:  # noqa: B008
        self.cluster = OperatorCluster(job, chance=random.Random(seed), nodes=4, facts=facts)
        self.over: JobPhase | None = None

    def play(self, story: list[tuple[str, Any]]) -> None:
        if self.cluster.chance.random() < 0.7:  # most troubles come to jobs that run
            self.cluster.settle()
        for what, number in story:
            getattr(self, f"do_{what}")(number)
            self.look()

    def do_settle(self, seconds: int) -> None:
        self.cluster.settle(seconds)

    def do_operate(self, count: int) -> None:
        for _ in range(count):
            self.cluster.operate(is_due=True)

    def do_kill(self, writes: int) -> None:
        try:
            self.cluster.operate(kill_after=writes, is_due=True)
        except Killed:
            self.cluster.refresh()

    def do_flaky(self, count: int) -> None:
        for _ in range(count):
            self.cluster.operate(fail_writes=0.5, is_due=True)

    def do_stale(self, count: int) -> None:
        self.cluster.keep_stale()
        self.cluster.kubelets()
        for _ in range(count):
            self.cluster.operate(is_due=True)
        self.cluster.refresh()

    def do_kubelets(self, count: int) -> None:
        for _ in range(count):
            self.cluster.kubelets()

    def do_pass(self, seconds: int) -> None:
        self.cluster.now += seconds

    def do_fail(self, number: int) -> None:
        if name := self._pick(number, "Running"):
            self.cluster.fail(name)

    def do_evict(self, number: int) -> None:
        if name := self._pick(number, "Running"):
            self.cluster.evict(name)

    def do_remove(self, number: int) -> None:
        if name := self._pick(number, None):
            self.cluster.remove(name)

    def do_terminate(self, number: int) -> None:
        if name := self._pick(number, None):
            self.cluster.terminate(name)

    def do_finish(self, number: int) -> None:
        if name := self._pick(number, "Running"):
            self.cluster.finish(name)

    def do_lose(self, _: int) -> None:
        left = [node for node in self.cluster.nodes if node not in self.cluster.lost]
        if len(left) > 2:
            self.cluster.lose_node(left[0])

    def do_scale(self, count: int) -> None:
        self.cluster.edit(worker={"replicas": count})

    def do_suspend(self, is_suspended: bool) -> None:
        self.cluster.edit(runPolicy={"suspend": is_suspended})

    def _pick(self, number: int, phase: str | None) -> str | None:
        names = self.cluster.pods(phase)
        return names[number % len(names)] if names else None

    def look(self) -> None:
        """What holds at every moment."""
        cluster = self.cluster
        report = cluster.report
        limit = cluster.job().spec.run_policy.backoff_limit
        assert limit is not None
        assert report.restarts <= limit, "the budget is kept"
        if self.over is not None:
            assert report.phase is self.over, "what is over stays over"
        elif report.phase is not None and report.phase.is_over:
            self.over = report.phase
        for name in cluster.pods("Running"):
            self.look_at_pod(name)
        attempts = [each.attempt for each in cluster.history]
        assert attempts == sorted(attempts), "attempts are never taken back"

    def look_at_pod(self, name: str) -> None:
        """Each pod that runs was told about its own attempt, and finds itself in the list."""
        environment, pod = self.cluster.environment(name), self.cluster.pod(name)
        if "PADDLEJOB_ATTEMPT" not in environment:
            return  # elastic
        assert environment["PADDLEJOB_ATTEMPT"] == pod["metadata"]["annotations"]["batch.paddlepaddle.org/attempt"]
        listed = environment["PADDLE_PSERVERS_IP_PORT_LIST" if "-ps-" in name else "PADDLE_TRAINER_ENDPOINTS"]
        own = f"{environment['POD_IP']}:{environment['PADDLE_PORT']}"
        assert listed.split(",")[int(environment["PADDLE_TRAINER_ID"])] == own

    def end(self) -> None:
        """Nothing happens to the job any more; it comes to rest."""
        self.cluster.refresh()
        self.cluster.settle(2000)
        self.look()


def truthful(cluster: OperatorCluster) -> None:
    """The status says what is there, and pods were told what is true."""
    report, job = cluster.report, cluster.job()
    assert report.observed_generation == job.generation
    wanted = {wish.role.value: wish.replicas for wish in job.spec.roles}
    pods = cluster.pods()
    if report.phase is JobPhase.SUSPENDED:
        assert pods == []
        return
    if report.phase is not None and report.phase.is_over:
        if job.spec.clean_pods is None or job.spec.clean_pods.value != "Never":
            assert cluster.pods("Running") == cluster.pods("Pending") == []
            assert sum(each.running + each.pending + each.starting for each in report.counts) == 0
        return
    assert report.phase is JobPhase.RUNNING
    done = {f"job-{role}-{index}" for role, text in report.completed for index in _numbers(text)}
    every = {f"job-{role}-{index}" for role, count in wanted.items() for index in range(count)}
    assert set(pods) | done == every
    assert set(cluster.pods("Running")) >= every - done
    assert {(each.role.value, each.running + each.succeeded) for each in report.counts} == set(wanted.items())
    if job.spec.is_elastic or ("ps" not in wanted and job.spec.run_policy.restart_scope is RestartScope.POD):
        return  # these find each other by themselves, or were asked to
    # Workers that are restarted alone keep a list with an earlier address of a peer that they never talk to.
    key = "PADDLE_PSERVERS_IP_PORT_LIST" if "ps" in wanted else "PADDLE_TRAINER_ENDPOINTS"
    told = {cluster.environment(name)[key] for name in cluster.pods("Running")}
    if not done:
        assert told <= {cluster.data()[key]}


def _numbers(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


@effort(2)
@given(jobs(), steps, st.integers(0, 10_000))
def test_it_comes_to_rest_and_tells_the_truth(job: dict[str, Any], story: list[tuple[str, Any]], seed: int) -> None:
    told = Story(job, seed)
    told.play(story)
    told.end()
    truthful(told.cluster)


WORN_OUT_ALIKE = {
    "apiVersion": "batch.paddlepaddle.org/v1",
    "kind": "PaddleJob",
    "metadata": {"name": "job"},
    "spec": {
        "worker": {"replicas": 2, "template": {"spec": {"containers": [{"name": "paddle", "image": "demo:v1"}]}}},
        "runPolicy": {"backoffLimit": 0},
        "intranet": "Service",
    },
}
"""Both of its pods are restarted as often by their nodes."""


@effort(1)
@given(jobs(), steps, st.integers(0, 10_000))
@example(WORN_OUT_ALIKE, [("settle", 0), ("fail", 0), ("fail", 1)], 0)
def test_deciding_twice_is_deciding_once(job: dict[str, Any], story: list[tuple[str, Any]], seed: int) -> None:
    told = Story(job, seed)
    told.play(story)
    seen = told.cluster.observed()
    assert seen
    first = reconcile(seen, told.cluster.now)
    assert reconcile(seen, told.cluster.now) == first
    turned = replace(seen, pods=seen.pods[::-1], objects=seen.objects[::-1])
    again = reconcile(turned, told.cluster.now)
    assert again.report == first.report
    assert sorted(map(repr, again.actions)) == sorted(map(repr, first.actions))
    told.end()
    assert not told.cluster.operate(is_due=True), "at rest nothing is written"


@effort(0.5)
@given(jobs(), st.integers(0, 10_000), st.data())
def test_killed_behind_any_write_the_end_is_the_same(job: dict[str, Any], seed: int, data: st.DataObject) -> None:
    """An operator that is killed again and again, with a fresh one behind it, starts the same pods and finishes the same way."""
    cluster = OperatorCluster(job, chance=random.Random(seed), nodes=8)
    for _ in range(60):
        try:
            cluster.operate(kill_after=data.draw(st.integers(1, 3)), is_due=True)
        except Killed:
            pass
        cluster.kubelets()
    assert cluster.report.phase is JobPhase.RUNNING
    assert (cluster.report.attempt, cluster.report.restarts, cluster.report.pod_restarts) == (0, 0, ())
    assert cluster.writes.count("create Pod") == len(cluster.pods())
    cluster.finish()
    for _ in range(20):
        try:
            cluster.operate(kill_after=1, is_due=True)
        except Killed:
            pass
        cluster.kubelets()
    assert cluster.report.phase is JobPhase.COMPLETED
    truthful(cluster)


@effort(0.5)
@given(jobs(), steps, st.integers(0, 10_000))
def test_nothing_is_left_behind(job: dict[str, Any], story: list[tuple[str, Any]], seed: int) -> None:
    told = Story(job, seed, ClusterFacts(gang="scheduler-plugins", kinds=frozenset([GANG])))
    told.play(story)
    told.cluster.delete_job()
    assert told.cluster.objects == {}, "every object has its owner"


@effort(0.3)
@given(st.integers(1, 8), st.integers(0, 8), st.integers(0, 10_000))
def test_the_plain_path_writes_little(workers: int, servers: int, seed: int) -> None:
    cluster = OperatorCluster(manifest(ps=servers or None, worker=workers), chance=random.Random(seed))
    cluster.settle()
    pods = workers + servers
    events = len(cluster.events)
    assert cluster.report.phase is JobPhase.RUNNING
    assert len(cluster.writes) + events <= 1.2 * pods + 4
    cluster.finish()
    cluster.operate()
    ended = [each for each in cluster.writes if not each.startswith("delete")]
    assert cluster.report.phase is JobPhase.COMPLETED
    assert len(ended) + events <= 1.2 * pods + 5
