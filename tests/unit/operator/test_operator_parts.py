"""Parts of the operator by themselves: queue, fair share, cache, election, events, client, pages."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.support.kube_server import KubeServer, status
from umiak.core.problem import UmiakError
from umiak.core.shown import Secrets
from umiak.kube.answers import KubeRefused, KubeSilent
from umiak.kube.async_api import AsyncKubeApi
from umiak.kube.kubeconfig import KubeAccess
from umiak.operator.controller import http_pages
from umiak.operator.controller.cache import ClusterCache
from umiak.operator.controller.election import LEASE_NAME, LEASE_S, RENEW_S, RETRY_S, LeaseElection
from umiak.operator.controller.event_recorder import BURST, EventRecorder
from umiak.operator.controller.metrics import OperatorMetrics
from umiak.operator.controller.program import run
from umiak.operator.controller.seen_objects import pod_of
from umiak.operator.options import OperatorOptions
from umiak.operator.values import ClusterFacts, PodPhase, RecordEvent
from umiak.paddlejob.reading import PaddleJobReading, read
from umiak.paddlejob.resource import PodRole

PATIENCE_S = 150.0


async def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


def with_server(test: Callable[[KubeServer, AsyncKubeApi], Awaitable[None]]) -> None:
    async def main() -> None:
        async with KubeServer() as server:
            access = KubeAccess(server=server.url, secrets=Secrets(token="s3cret"))
            async with AsyncKubeApi(access, {}) as api:
                await test(server, api)

    asyncio.run(main())


# ---- the cache


def a_pod(name: str, version: int, owner: str = "uid-1", **status_: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-of-{name}",
            "resourceVersion": str(version),
            "labels": {"paddle-res-type": "worker", "batch.paddlepaddle.org/job-name": "wide"},
            "ownerReferences": [{"uid": owner, "controller": True}],
        },
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", **status_},
    }


def a_job(version: int = 5, uid: str = "uid-1", **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    return {
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {
            "name": "wide",
            "namespace": "default",
            "uid": uid,
            "resourceVersion": str(version),
            "generation": 1,
        },
        "spec": {"worker": {"replicas": 2, "template": template}, **spec},
    }


class Watched:
    def __init__(self, **options: Any) -> None:
        self.changed: list[Any] = []
        self.cache = ClusterCache(lambda body: PaddleJobReading(job=read(body).job), self.changed.append, **options)
        self.key = ("g", "default", "wide")

    def observed(self, now: float = 1e9) -> Any:
        return self.cache.observe(self.key, ClusterFacts(), now)


def test_an_older_version_never_replaces_a_newer_one() -> None:
    watched = Watched()
    watched.cache.put_job("g", a_job(9))
    watched.cache.put("Pod", a_pod("wide-worker-0", 20))
    watched.cache.put("Pod", a_pod("wide-worker-0", 12, phase="Pending"))
    watched.cache.put_job("g", a_job(7, intranet="Host"))
    (pod,) = watched.observed().pods
    assert pod.phase is PodPhase.RUNNING
    assert watched.observed().job.resource_version == "9"


def test_a_late_answer_does_not_bring_back_what_was_deleted() -> None:
    """The answer to a deletion, or to a status, may come after the watch has said that the object is gone."""
    watched = Watched()
    watched.cache.put_job("g", a_job(9))
    for end in (23, 25):
        late = a_pod("wide-worker-0", 23)
        late["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
        watched.cache.put("Pod", a_pod("wide-worker-0", 20))
        watched.cache.remove("Pod", "default", "wide-worker-0", uid="uid-of-wide-worker-0", version=end)
        watched.cache.put("Pod", late)
        assert watched.observed().pods == ()
    watched.cache.remove_job("g", "default", "wide", "uid-1")
    assert watched.cache.put_job("g", a_job(11)) is None
    assert watched.observed() is None
    watched.cache.put_job("g", a_job(12, uid="uid-2"))
    assert watched.observed() is not None


def test_a_pod_that_only_lost_a_label_is_still_there() -> None:
    watched = Watched()
    watched.cache.put_job("g", a_job(9))
    watched.cache.put("Pod", a_pod("wide-worker-0", 20))
    watched.cache.remove("Pod", "default", "wide-worker-0", uid="uid-of-wide-worker-0", version=23)
    watched.cache.put("Pod", a_pod("wide-worker-0", 23))  # from the watch of another label
    assert len(watched.observed().pods) == 1


def test_nothing_is_told_if_nothing_changed() -> None:
    watched = Watched()
    watched.cache.put_job("g", a_job())
    watched.cache.put("Pod", a_pod("wide-worker-0", 20))
    told = len(watched.changed)
    watched.cache.put("Pod", a_pod("wide-worker-0", 21))
    assert len(watched.changed) == told
    watched.cache.put("Pod", a_pod("wide-worker-0", 22, phase="Failed"))
    assert len(watched.changed) == told + 1


def test_a_list_removes_what_is_not_in_it_and_not_newer() -> None:
    watched = Watched()
    watched.cache.put_job("g", a_job())
    for number, version in enumerate((10, 20, 30)):
        watched.cache.put("Pod", a_pod(f"wide-worker-{number}", version))
    watched.cache.listed("Pod", {"uid-of-wide-worker-0"}, 25)
    assert [pod.name for pod in watched.observed().pods] == ["wide-worker-0", "wide-worker-2"]


def test_children_belong_to_the_uid_of_their_controller() -> None:
    watched = Watched()
    watched.cache.put_job("g", a_job(5, uid="old"))
    watched.cache.put("Pod", a_pod("wide-worker-0", 6, owner="old"))
    watched.cache.put_job("g", a_job(8, uid="new"))
    assert watched.observed().pods == ()
    watched.cache.block(watched.key, "Pod", "default", "wide-worker-0")
    (foreign,) = watched.observed().pods
    assert (foreign.role, foreign.owner_uid) == (None, "old")
    watched.cache.remove("Pod", "default", "wide-worker-0")
    assert watched.observed().pods == ()


def test_a_node_is_lost_when_it_is_silent_for_long_or_gone() -> None:
    watched = Watched(node_timeout_s=60.0)
    watched.cache.put_job("g", a_job())
    pod = a_pod("wide-worker-0", 20)
    pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    watched.cache.put("Pod", pod)

    def node(word: str) -> dict[str, Any]:
        ready = {"type": "Ready", "status": word, "lastTransitionTime": "2026-01-01T01:00:00Z"}
        return {"metadata": {"name": "n1", "uid": "n"}, "status": {"conditions": [ready]}}

    at = read(a_job()).job.created_s or 1767229200.0  # 2026-01-01T01:00:00Z
    watched.cache.put_node(node("Unknown"))
    watched.cache.listed_nodes({"n"})
    assert watched.observed(at + 30).facts.lost_nodes == frozenset()
    assert watched.cache.silent_for_s(watched.key, at + 30) == pytest.approx(30.0)
    assert watched.observed(at + 61).facts.lost_nodes == {"n1"}
    assert watched.observed(at + 61).pods[0].is_disrupted
    watched.cache.put_node(node("False"))
    assert watched.observed(at + 600).facts.lost_nodes == frozenset()
    told = len(watched.changed)
    watched.cache.remove_node("n1")
    assert len(watched.changed) == told + 1
    assert watched.observed(at + 61).facts.lost_nodes == {"n1"}


def test_ports_of_other_jobs_on_hosts() -> None:
    watched = Watched()
    watched.cache.put_job("g", a_job(intranet="Host"))
    other = a_job(uid="uid-2", intranet="Host")
    other["metadata"]["name"] = "deep"
    other["status"] = {"phase": "Running", "hostPorts": {"deep-worker-0": 10020, "deep-worker-1": 10040}}
    watched.cache.put_job("g", other)
    watched.cache.put("Pod", a_pod("deep-worker-0", 20, owner="uid-2"))
    assert set(watched.observed().facts.kept_ports) == {("n1", 10020), ("*", 10040)}


@pytest.mark.parametrize(
    ("given", "reason", "code"),
    [
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, "Evicted", None),
        (
            {
                "phase": "Failed",
                "containerStatuses": [
                    {"restartCount": 2, "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
                ],
            },
            "OOMKilled",
            137,
        ),
        (
            {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]},
            "ImagePullBackOff",
            None,
        ),
        (
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
            },
            "Unschedulable",
            None,
        ),
        (
            {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]},
            "",
            None,
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    {
                        "restartCount": 3,
                        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                        "lastState": {"terminated": {"exitCode": 3, "reason": "Error"}},
                    }
                ],
            },
            "CrashLoopBackOff",
            3,
        ),
    ],
)
def test_what_is_kept_of_a_pod(given: dict[str, Any], reason: str, code: int | None) -> None:
    seen = pod_of(a_pod("wide-worker-7", 1, **given))
    assert (seen.reason, seen.exit_code, seen.index, seen.role) == (reason, code, 7, PodRole.WORKER)


def test_addresses_of_both_families() -> None:
    seen = pod_of(a_pod("w-0", 1, podIP="10.0.0.1", podIPs=[{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]))
    assert seen.addresses == ("10.0.0.1", "fd00::1")


# ---- the client


def test_the_client_tries_again_and_then_says_why() -> None:
    async def main(server: KubeServer, api: AsyncKubeApi) -> None:
        count = 0

        async def trouble(verb: str, path: str, request: web.Request) -> web.StreamResponse | None:
            nonlocal count
            count += 1
            assert request.headers["Authorization"] == "Bearer s3cret"
            return status(503, "ServiceUnavailable", "starting") if count < 4 else None

        server.hook = trouble
        assert (await api.get("/version"))["gitVersion"]
        assert count == 4
        count = -1000
        with pytest.raises(KubeSilent, match="503 ServiceUnavailable: starting") as silent:
            await api.get("/version")
        assert "s3cret" not in f"{silent.value!r} {silent.value} {silent.value.request}"
        server.hook = None
        with pytest.raises(KubeRefused) as refused:
            await api.get("/api/v1/namespaces/default/pods/none")
        assert refused.value.status == 404

    with_server(main)


def test_the_clock_of_the_cluster_is_told_from_ours() -> None:
    """An operator whose clock is ten minutes behind would wait that long before it makes a pod again that was refused by its node."""

    async def story(server: KubeServer, api: AsyncKubeApi) -> None:
        await api.get("/api/v1/namespaces/default/pods")
        assert api.clock_ahead_s == 0.0
        server.clock_ahead_s = 600.0
        api._clock_seen_s = 0.0
        await api.get("/api/v1/namespaces/default/pods")
        assert 590 < api.clock_ahead_s < 610

    with_server(story)


def test_a_token_that_is_renewed_in_its_file_is_used_at_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")

    async def main() -> None:
        async with KubeServer() as server:
            valid = "first"

            async def guard(_verb: str, _path: str, request: web.Request) -> web.StreamResponse | None:
                is_right = request.headers.get("Authorization") == f"Bearer {valid}"
                return None if is_right else status(401, "Unauthorized", "the token has expired")

            server.hook = guard
            access = KubeAccess(server=server.url, token_file=str(token), secrets=Secrets())
            async with AsyncKubeApi(access, {}) as api:
                assert (await api.get("/version"))["gitVersion"]
                valid = "second"
                with pytest.raises(KubeRefused, match="expired"):
                    await api.get("/version")
                renewed = tmp_path / "renewed"  # as the kubelet does it: another file under the same name
                renewed.write_text("second\n")
                renewed.rename(token)
                assert (await api.get("/version"))["gitVersion"]
                token.unlink()
                assert (await api.get("/version"))["gitVersion"], "the token before is as good as it was"

    asyncio.run(main())


def test_lists_come_in_pages() -> None:
    async def main(server: KubeServer, api: AsyncKubeApi) -> None:
        for number in range(1203):
            server.cluster.put("", "configmaps", {"metadata": {"name": f"c{number}"}})
        sizes = [len(items) async for items, _ in api.pages("/api/v1/configmaps")]
        assert sizes == [500, 500, 203]

    with_server(main)


# ---- election


def test_a_leader_stops_before_another_may_start() -> None:
    assert RENEW_S + RETRY_S < LEASE_S
    assert LEASE_S + 2 * RETRY_S < 20


def test_one_leads_the_other_follows_and_takes_over() -> None:
    async def main(server: KubeServer, api: AsyncKubeApi) -> None:
        acting: list[str] = []

        async def lead(name: str) -> None:
            acting.append(name)
            try:
                await asyncio.Event().wait()
            finally:
                acting.remove(name)

        def candidate(name: str) -> tuple[LeaseElection, asyncio.Task[None]]:
            election = LeaseElection(api, "default", name, lease_s=2, renew_s=1.0, retry_s=0.2)
            return election, asyncio.ensure_future(election.run(lambda: lead(name)))

        first, first_task = candidate("first")
        await until(lambda: acting == ["first"])
        _second, second_task = candidate("second")
        await asyncio.sleep(1.0)
        assert acting == ["first"]
        # It ends cleanly: the other need not wait.
        first_task.cancel()
        await asyncio.gather(first_task, return_exceptions=True)
        await first.give_up()
        await until(lambda: acting == ["second"])
        lease = server.cluster.get("leases", LEASE_NAME)
        assert lease
        assert lease["spec"]["holderIdentity"] == "second"
        # It is killed: the lease ends by itself.
        _third, third_task = candidate("third")
        second_task.cancel()
        await asyncio.gather(second_task, return_exceptions=True)
        assert acting == []
        await until(lambda: acting == ["third"])
        third_task.cancel()
        await asyncio.gather(third_task, return_exceptions=True)

    with_server(main)


def test_a_leader_that_can_not_renew_stops_acting() -> None:
    async def main(server: KubeServer, api: AsyncKubeApi) -> None:
        acting = False

        async def lead() -> None:
            nonlocal acting
            acting = True
            try:
                await asyncio.Event().wait()
            finally:
                acting = False

        election = LeaseElection(api, "default", "first", lease_s=3, renew_s=1.0, retry_s=0.2)
        task = asyncio.ensure_future(election.run(lead))
        await until(lambda: acting)

        async def hangs(verb: str, path: str, _: web.Request) -> web.StreamResponse | None:
            await asyncio.sleep(60)
            return None

        renewed = time.monotonic()
        server.hook = hangs
        await until(lambda: not acting)
        assert time.monotonic() - renewed < PATIENCE_S
        server.hook = None
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with_server(main)


# ---- events


def test_equal_events_are_counted_and_floods_are_held_back() -> None:
    async def main(server: KubeServer, api: AsyncKubeApi) -> None:
        job = read(a_job()).job
        recorder = EventRecorder(api, "host")
        task = asyncio.ensure_future(recorder.run())
        for _ in range(50):
            recorder.record(job, RecordEvent(reason="Created", message="created 2 pods"))
        await until(lambda: server.cluster.all("events"))
        (event,) = server.cluster.all("events")
        assert event["involvedObject"]["uid"] == "uid-1"
        assert event["source"]["component"] == "paddlejob-controller"
        for number in range(500):
            recorder.record(job, RecordEvent(reason="Create", message=f"refused {number}", is_warning=True))
        await asyncio.sleep(0.3)
        assert len(server.cluster.all("events")) <= BURST
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with_server(main)


# ---- pages


@pytest.mark.parametrize(
    ("text", "meant"),
    [(":8080", ("", 8080)), ("127.0.0.1:1", ("127.0.0.1", 1)), ("[::1]:80", ("::1", 80)), ("0", None), ("", None)],
)
def test_addresses_of_pages(text: str, meant: tuple[str, int] | None) -> None:
    assert http_pages.address_of(text) == meant


@pytest.mark.parametrize("text", ["8080x", "host", ":99999", ":-1"])
def test_no_addresses_of_pages(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the caller says which flag
        http_pages.address_of(text)


def test_pages_are_served() -> None:
    async def main() -> None:
        metrics = OperatorMetrics(lambda: [("umiak_operator_is_leader", (), 1.0)])
        metrics.count("umiak_operator_actions_total", verb="create", kind='Po"d', result="done")
        metrics.observe("umiak_operator_decide_seconds", 0.004)

        def broken() -> tuple[int, str]:
            raise RuntimeError("secret")

        pages = {"/metrics": lambda: (200, metrics.text()), "/broken": broken}
        server = await http_pages.serve(("127.0.0.1", 0), pages)
        port = server.sockets[0].getsockname()[1]

        async def ask(line: str) -> str:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{line} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            text = (await reader.read()).decode()
            writer.close()
            return text

        page = await ask("GET /metrics?x=1")
        assert page.startswith("HTTP/1.1 200 OK")
        assert 'umiak_operator_actions_total{kind="Po\\"d",result="done",verb="create"} 1\n' in page
        assert 'umiak_operator_decide_seconds_bucket{le="0.005"} 1\n' in page
        assert "umiak_operator_is_leader 1\n" in page
        assert "404" in await ask("GET /nothing")
        assert "405" in await ask("POST /metrics")
        page = await ask("GET /broken")
        assert "500" in page
        assert "secret" not in page
        server.close()

    asyncio.run(main())


def test_the_metrics_page_is_what_prometheus_reads() -> None:
    for line in OperatorMetrics().text().splitlines():
        assert line.startswith(("# HELP ", "# TYPE ")) or len(line.split(" ")) == 2
    assert json.dumps(OperatorMetrics().text())


def test_without_a_kubeconfig_the_hint_speaks_of_the_operator(tmp_path: Path) -> None:
    with pytest.raises(UmiakError) as error:
        run(OperatorOptions(), {"HOME": str(tmp_path)})
    said = "\n".join(error.value.problems[0].lines("error"))
    assert "--kubeconfig" in said
    assert "the place" not in said
