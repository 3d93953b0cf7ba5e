"""Laws of the operator about what is around a training: sidecars, init containers, clocks, images, queues, a PodGroup of the user's own, Kubeflow.

Stories as in `test_operator_laws`, where jobs have one container, and nodes agree about the time.
"""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.test_operator_laws import Story, step
from tests.support.effort import effort
from tests.support.operator_cluster import manifest
from umiak.operator.objects.workloads import found_in, with_conditions
from umiak.operator.policies.gangs import DRIVERS
from umiak.operator.values import FLAVOR, QUEUE_NAME, WORKLOAD, ClassLookup, ClusterFacts, WorkloadCondition
from umiak.paddlejob.names import pod_name
from umiak.paddlejob.resource import CleanPods, JobPhase

RULES = (
    [{"action": "Fail", "onExitCodes": {"operator": "In", "values": [42]}}],
    [{"action": "RestartWithoutCounting", "onReasons": ["OOMKilled"]}, {"action": "Restart", "onReasons": ["Evicted"]}],
)
ENDS = ((1, "Error"), (42, "Error"), (137, "OOMKilled"))
FLAVORS = (found_in(ClassLookup(kind=FLAVOR, name="a"), {"spec": {"nodeLabels": {"gpu": "a"}}}),)
GROUP = DRIVERS["volcano"].kind
MAIN, SIDECAR = {"name": "paddle", "image": "demo:v1"}, {"name": "a-sidecar", "image": "demo:v1"}
INIT = [{"name": "fetch", "image": "demo:v1"}, {"name": "native", "image": "demo:v1", "restartPolicy": "Always"}]
KUBEFLOW_CLEAN = ("None", "Running", "All")

more_steps = st.lists(
    st.one_of(
        step,
        st.tuples(st.just("break_sidecar"), st.integers(0, 9)),
        st.tuples(st.just("break_init"), st.integers(0, 9)),
        st.tuples(st.just("images"), st.booleans()),
        st.tuples(st.just("places"), st.booleans()),
        st.tuples(st.just("admit"), st.just(0)),
        st.tuples(st.just("preempt"), st.just(0)),
        st.tuples(st.just("queue"), st.booleans()),
        st.tuples(st.just("edit"), st.integers(1, 4)),
        st.tuples(st.just("clock"), st.sampled_from([-600, 0, 600])),
    ),
    min_size=8,
    max_size=40,
)


@st.composite
def templates(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": draw(st.sampled_from([[MAIN], [SIDECAR, MAIN], [MAIN, SIDECAR]]))}
    if init := draw(st.sampled_from([[], INIT[:1], INIT[1:], INIT])):
        spec["initContainers"] = init
    if policy := draw(st.sampled_from(["", "Never", "OnFailure", "Always"])):
        spec["restartPolicy"] = policy
    return {"spec": spec}


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    policy: dict[str, Any] = {"backoffLimit": draw(st.integers(0, 3))}
    if draw(st.booleans()):
        policy["failurePolicy"] = {"rules": draw(st.sampled_from(RULES))}
    if draw(st.booleans()):
        policy[draw(st.sampled_from(["imagePullTimeoutSeconds", "pendingTimeoutSeconds"]))] = 300
    template, servers, workers = draw(templates()), draw(st.sampled_from([None, 1])), draw(st.integers(1, 3))
    if draw(st.integers(0, 3)) == 0:
        policy.pop("failurePolicy", None)
        policy["cleanPodPolicy"] = draw(st.sampled_from(KUBEFLOW_CLEAN))
        role = {"restartPolicy": draw(st.sampled_from(["Always", "OnFailure", "ExitCode"])), "template": template}
        roles = {"Worker": {**role, "replicas": workers}, **({"Master": {**role, "replicas": 1}} if servers else {})}
        made = {**manifest("job"), "apiVersion": "kubeflow.org/v1"}
        return {**made, "spec": copy.deepcopy({"paddleReplicaSpecs": roles, "runPolicy": policy})}
    fields: dict[str, Any] = {"elastic": 1} if servers is None and draw(st.booleans()) else {}
    fields["intranet"] = draw(st.sampled_from(["PodIP", "Service", "Host"]))
    fields["cleanPodPolicy"] = draw(st.sampled_from(["Always", "Never", "OnFailure"]))
    made = manifest("job", ps=servers, worker=workers, runPolicy=policy, **fields)
    for role in {"ps", "worker"} & set(made["spec"]):
        made["spec"][role]["template"] = copy.deepcopy(template)
    return made


@st.composite
def clusters(draw: st.DrawFn) -> ClusterFacts:
    gang = draw(st.sampled_from(["", "volcano"]))
    return ClusterFacts(
        gang=gang, kinds=frozenset([GROUP] if gang else []), kueue=draw(st.sampled_from(["", "v1beta2"]))
    )


class NeighboursStory(Story):
    """What happens around a training, besides."""

    def __init__(self, job: dict[str, Any], seed: int, facts: ClusterFacts, *, has_own_group: bool) -> None:
        job["metadata"]["labels"] = {QUEUE_NAME: "team"} if facts.kueue else {}
        super().__init__(job, seed, facts)
        self.cluster.found = FLAVORS
        self.has_own_group = has_own_group and bool(facts.gang)
        if self.has_own_group:
            self.cluster.foreign(GROUP, "job", owner="")
            self.cluster.objects[(GROUP, "job")]["status"] = {"phase": "Inqueue"}

    def play(self, story: list[tuple[str, Any]]) -> None:
        if self.cluster.chance.random() < 0.8:  # most troubles come to jobs that run
            self.do_settle(0)
            self.do_admit(0)
            self.do_settle(0)
        super().play(story)

    def do_operate(self, count: int) -> None:
        self._enqueue()
        super().do_operate(count)

    def do_settle(self, seconds: int) -> None:
        self._enqueue()
        super().do_settle(seconds)

    def do_fail(self, number: int) -> None:
        if name := self._pick(number, "Running"):
            self.cluster.fail(name, *ENDS[number % len(ENDS)])

    def do_break_sidecar(self, number: int) -> None:
        if names := self.cluster.pods("Running"):
            self.cluster.break_sidecars(names[number % len(names)])

    def do_break_init(self, number: int) -> None:
        if name := self._pick(number, "Pending"):
            self.cluster.break_init(name)

    def do_images(self, are_there: bool) -> None:
        self.cluster.image_trouble = "" if are_there else "ErrImagePull"

    def do_places(self, are_there: bool) -> None:
        self.cluster.too_few_nodes = "" if are_there else "0/4 nodes are available"

    def do_clock(self, ahead_s: int) -> None:
        self.cluster.clocks_ahead[self.cluster.nodes[0]] = ahead_s

    def do_admit(self, _: int) -> None:
        for (kind, name), body in list(self.cluster.objects.items()):
            rows = {each["type"]: each["status"] for each in (body.get("status") or {}).get("conditions") or ()}
            if kind == WORKLOAD and rows.get("QuotaReserved") != "True" and rows.get("Finished") != "True":
                sets = [{"name": each["name"], "flavors": {"cpu": "a"}} for each in body["spec"]["podSets"]]
                self._say(name, QuotaReserved=True, Admitted=True, Evicted=False, admission={"podSetAssignments": sets})

    def do_preempt(self, _: int) -> None:
        for kind, name in list(self.cluster.objects):
            if kind == WORKLOAD:
                self._say(name, Evicted=True)

    def do_queue(self, is_in_one: bool) -> None:
        body = self.cluster.body
        if body is not None and self.cluster.facts.kueue:
            body["metadata"]["labels"] = {QUEUE_NAME: "team"} if is_in_one else {}
            body["metadata"]["resourceVersion"] = self.cluster._next()

    def do_scale(self, count: int) -> None:
        if self._is_kubeflow:
            return
        super().do_scale(count)

    def do_edit(self, number: int) -> None:
        """What the containers ask for changes, or only their image: in jobs that run, wait or are suspended."""
        assert self.cluster.body
        spec = self.cluster.body["spec"]
        change = {"resources": {"requests": {"cpu": number}}} if number % 2 else {"image": f"demo:v{number}"}
        roles = [
            each
            for each in (spec.get("paddleReplicaSpecs") or spec).values()
            if isinstance(each, dict) and "template" in each
        ]
        for container in [one for each in roles for one in each["template"]["spec"]["containers"]]:
            container.update(change)
        self.cluster.edit()

    @property
    def _is_kubeflow(self) -> bool:
        return "paddleReplicaSpecs" in (self.cluster.body or {}).get("spec", {})

    def _say(self, name: str, admission: dict[str, Any] | None = None, **words: bool) -> None:
        key = (WORKLOAD, name)
        wanted = [WorkloadCondition(type=kind, is_true=is_true, reason="Test") for kind, is_true in words.items()]
        status = with_conditions(self.cluster.objects[key], wanted, self.cluster.now)
        self.cluster.change(key, status={**status, **({"admission": admission} if admission else {})})

    def _enqueue(self) -> None:
        """Volcano lets groups in."""
        for (kind, _), body in self.cluster.objects.items():
            if kind == GROUP:
                body["status"] = {"phase": "Inqueue"}

    def _pick(self, number: int, phase: str | None) -> str | None:
        """A pod whose training has not ended."""
        names = [each for each in self.cluster.pods(phase) if not self.cluster.has_ended(each)]
        return names[number % len(names)] if names else None

    def look(self) -> None:
        super().look()
        own = self.cluster.objects.get((GROUP, "job"))
        assert not self.has_own_group or (own is not None and own["data"] == {"FOREIGN": "1"}), "it is not ours"

    def end(self) -> None:
        """The cluster has everything that the job needs."""
        self.cluster.refresh()
        self.do_images(True)
        self.do_places(True)
        for _ in range(6):
            self.do_settle(0)
            self.do_admit(0)
        self.do_settle(2000)
        self.look()


def truthful(story: NeighboursStory) -> None:
    """The status says what is there."""
    cluster, report, job = story.cluster, story.cluster.report, story.cluster.job()
    every = {pod_name("job", wish.role, number, job.api) for wish in job.spec.roles for number in range(wish.replicas)}
    if report.phase is JobPhase.SUSPENDED:
        assert cluster.pods() == []
        assert job.spec.run_policy.suspend, cluster.condition("Suspended")
    elif report.phase is not None and report.phase.is_over:
        assert cluster.pods("Pending") == [] or job.spec.clean_pods is CleanPods.NEVER
        assert cluster.pods("Running") == [], "sidecars and servers of a job that is over do not run"
        assert sum(each.running + each.pending + each.starting for each in report.counts) == 0
    else:
        assert report.phase is JobPhase.RUNNING, cluster.condition("Waiting")
        assert set(cluster.pods()) <= every
        up = sum(each.running + each.succeeded for each in report.counts)
        assert up == len(every)
    queued = cluster.facts.kueue and not story._is_kubeflow
    if QUEUE_NAME not in dict(job.labels) and not (report.phase is not None and report.phase.is_over):
        assert cluster.named(WORKLOAD) == []
    elif queued and report.phase is JobPhase.RUNNING:
        assert len(cluster.named(WORKLOAD)) == 1


@effort(1)
@given(jobs(), more_steps, clusters(), st.booleans(), st.integers(0, 10_000))
def test_whatever_is_around_it_a_job_comes_to_rest_and_tells_the_truth(
    job: dict[str, Any], story: list[tuple[str, Any]], facts: ClusterFacts, has_own_group: bool, seed: int
) -> None:
    told = NeighboursStory(job, seed, facts, has_own_group=has_own_group)
    told.play(story)
    told.end()
    truthful(told)
    assert not told.cluster.operate(is_due=True), "at rest nothing is written"
    told.cluster.delete_job()
    assert set(told.cluster.objects) == ({(GROUP, "job")} if told.has_own_group else set())
