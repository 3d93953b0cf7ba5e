"""The controller against the API server of the tests: whole lives of jobs, and everything that an API server does wrong."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from tests.support.kube_server import KubeServer, status
from umiak.core.shown import Secrets
from umiak.kube.async_api import AsyncKubeApi
from umiak.kube.kubeconfig import KubeAccess
from umiak.operator.controller.controller import LONGEST_COUNT_PAUSE_S, Controller, count_pause_s
from umiak.operator.controller.metrics import OperatorMetrics
from umiak.operator.options import OperatorOptions
from umiak.operator.reconcile import reconcile
from umiak.operator.values import Decision
from umiak.paddlejob.reading import read
from umiak.paddlejob.report import JobReport

PATIENCE_S = 300.0
GROUP = "batch.paddlepaddle.org"


class Bench:
    """A server, and an operator that can be killed and started again."""

    def __init__(self, server: KubeServer) -> None:
        self.server = server
        self.controller: Controller | None = None
        self.task: asyncio.Task[None] | None = None

    def start(self, **options: Any) -> None:
        async def operate() -> None:
            access = KubeAccess(server=self.server.url, secrets=Secrets())
            async with AsyncKubeApi(access, {}) as api:
                self.controller = Controller(
                    api,
                    OperatorOptions(**options),
                    decide=reconcile,
                    read_job=read,
                    metrics=OperatorMetrics(),
                )
                await self.controller.run()

        self.task = asyncio.ensure_future(operate())

    async def kill(self) -> None:
        assert self.task
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def submit(self, name: str = "wide", workers: int = 2, ps: int = 0, **spec: Any) -> dict[str, Any]:
        template = {"spec": {"containers": [{"name": "main", "image": "train:1"}]}}
        roles = {"worker": {"replicas": workers, "template": template}}
        if ps:
            roles["ps"] = {"replicas": ps, "template": template}
        body = {"apiVersion": f"{GROUP}/v1", "kind": "PaddleJob", "metadata": {"name": name}, "spec": {**roles, **spec}}
        return self.server.cluster.put(GROUP, "paddlejobs", body)

    def pods(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.server.cluster.all("pods")]

    def phase(self, name: str = "wide") -> str:
        job = self.server.cluster.get("paddlejobs", name)
        return ((job or {}).get("status") or {}).get("phase", "")

    def job_status(self, name: str = "wide") -> dict[str, Any]:
        job = self.server.cluster.get("paddlejobs", name)
        return (job or {}).get("status") or {}

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if self.task is not None and self.task.done():
                self.task.result()
            assert time.monotonic() < deadline, f"never: {what}; {self.pods()} {self.job_status()}"
            await asyncio.sleep(0.01)

    async def until_running(self, name: str = "wide", count: int = 2) -> None:
        await self.until(lambda: len(self.pods()) >= count, "pods")
        await self.until(lambda: self.start_pods(f"{name}-") and self.phase(name) == "Running", "Running")

    def start_pods(self, prefix: str = "") -> bool:
        """A node starts the pods of a job, or of all; called again, also those that were made later."""
        for pod in self.server.cluster.all("pods"):
            is_new = (pod.get("status") or {}).get("phase", "Pending") == "Pending"
            if pod["metadata"]["name"].startswith(prefix) and is_new:
                self.server.cluster.set_pod(pod["metadata"]["name"], "Running")
        return True


def run(test: Callable[[Bench], Awaitable[None]], *, starts: bool = True) -> None:
    async def main() -> None:
        async with KubeServer() as server:
            bench = Bench(server)
            if starts:
                bench.start()
            try:
                await test(bench)
            finally:
                if bench.task is not None:
                    await bench.kill()

    asyncio.run(main())


def ended(code: int = 0) -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
    return {"containerStatuses": [{"name": "main", "restartCount": 0, "state": state}]}


def test_the_whole_life_of_a_job() -> None:
    async def life(bench: Bench) -> None:
        bench.submit(ps=1)
        await bench.until_running(count=3)
        config = bench.server.cluster.get("configmaps", "wide")
        assert config
        assert config["data"]["PADDLE_TRAINERS_NUM"] == "2"
        for pod in ("wide-worker-0", "wide-worker-1"):
            bench.server.cluster.set_pod(pod, "Succeeded", **ended())
        await bench.until(lambda: bench.phase() == "Completed", "Completed")
        writes = [path for verb, path in bench.server.writes() if "/events" not in path]
        assert len(writes) <= 1.2 * 3 + 4 + 1 + 3, writes  # and one deletion for each pod

    run(life)


def test_a_job_that_was_there_before_the_operator() -> None:
    async def life(bench: Bench) -> None:
        bench.submit()
        bench.start()
        await bench.until_running()

    run(life, starts=False)


def test_a_watch_that_is_cut_and_forgotten() -> None:
    async def life(bench: Bench) -> None:
        bench.submit()
        await bench.until(lambda: len(bench.pods()) == 2)
        bench.server.cut_watches()
        bench.server.cluster.set_pod("wide-worker-0", "Running")
        bench.server.cluster.set_pod("wide-worker-1", "Running")
        bench.server.forget()
        await bench.until(lambda: bench.phase() == "Running", "Running")
        bench.server.forget()
        bench.server.cluster.remove("paddlejobs", "wide")
        for pod in bench.pods():  # their containers have ended
            bench.server.cluster.remove("pods", pod)
        bench.submit("other", workers=1)
        await bench.until(lambda: bench.pods() == ["other-worker-0"], "only the other's pod")
        assert bench.controller
        assert [key[2] for key in bench.controller.cache.jobs] == ["other"]

    run(life)


def test_an_old_picture_makes_no_duplicates() -> None:
    """The watches are far behind: what the operator has written itself it knows all the same."""

    async def life(bench: Bench) -> None:
        await bench.until(lambda: bench.controller and bench.controller.is_synced)
        bench.submit(workers=20)
        await bench.until(lambda: len(bench.pods()) == 1 or bench.server.writes())
        bench.server.holds_watches = True
        await bench.until(lambda: len(bench.pods()) == 20, "pods")
        await asyncio.sleep(0.3)
        created = [path for verb, path in bench.server.writes(("POST",)) if path.endswith("/pods")]
        assert len(created) == 20
        bench.server.holds_watches = False
        bench.server.wake()
        await bench.until_running(count=20)
        created = [path for verb, path in bench.server.writes(("POST",)) if path.endswith("/pods")]
        assert len(created) == 20

    run(life)


def test_refusals_are_told_and_tried_again() -> None:
    async def life(bench: Bench) -> None:
        is_full = True

        async def quota(verb: str, path: str, _: web.Request) -> web.StreamResponse | None:
            if is_full and verb == "POST" and path.endswith("/pods"):
                return status(403, "Forbidden", "exceeded quota: gpus")
            return None

        bench.server.hook = quota
        bench.submit()

        def waits() -> bool:
            conditions = bench.job_status().get("conditions") or ()
            return any("exceeded quota" in each.get("message", "") for each in conditions)

        await bench.until(waits, "a condition that says so")
        tried = len(bench.server.writes(("POST",)))
        assert tried < 50
        is_full = False
        await bench.until_running()

    run(life)


def test_errors_lost_answers_and_throttling_on_the_way() -> None:
    async def life(bench: Bench) -> None:
        count = 0

        async def trouble(verb: str, path: str, request: web.Request) -> web.StreamResponse | None:
            nonlocal count
            if verb == "GET" and "watch" in request.query:
                return None
            count += 1
            if count % 5 == 1:
                return status(500, "InternalError", "etcd has no leader")
            if count % 5 == 2:
                return status(429, "TooManyRequests", "slow down", **{"Retry-After": "0"})
            if count % 5 == 3 and request.transport is not None:
                request.transport.abort()
                return web.Response()
            return None

        bench.server.hook = trouble
        for number in range(5):
            bench.submit(f"job-{number}")
        await bench.until(lambda: len(bench.pods()) == 10, "all pods")
        for pod in bench.pods():
            bench.server.cluster.set_pod(pod, "Running")
        await bench.until(lambda: all(bench.phase(f"job-{number}") == "Running" for number in range(5)), "Running")
        assert len(bench.pods()) == 10

    run(life)


def test_an_answer_that_is_lost_after_the_write() -> None:
    """The object was made, and the operator is not told: it makes it again, and finds its own."""

    async def life(bench: Bench) -> None:
        lost = 0

        async def trouble(verb: str, path: str, request: web.Request) -> web.StreamResponse | None:
            nonlocal lost
            if verb == "POST" and path.endswith("/pods") and lost < 2:
                lost += 1
                body = json.loads(await request.read())
                body["metadata"]["namespace"] = "default"
                bench.server.cluster.put("", "pods", body)
                assert request.transport
                request.transport.abort()
                return web.Response()
            return None

        bench.server.hook = trouble
        bench.submit()
        await bench.until_running()
        assert lost == 2
        assert bench.pods() == ["wide-worker-0", "wide-worker-1"]

    run(life)


def test_conflicts_of_the_status() -> None:
    async def life(bench: Bench) -> None:
        count = 0

        async def trouble(verb: str, path: str, _: web.Request) -> web.StreamResponse | None:
            nonlocal count
            if verb == "PATCH" and path.endswith("/status") and count < 3:
                count += 1
                bench.server.cluster.change(
                    "paddlejobs", "wide", lambda body: body["metadata"].setdefault("labels", {}).update(n=str(count))
                )
            return None

        bench.server.hook = trouble
        bench.submit()
        await bench.until_running()
        assert count

    run(life)


def test_a_name_that_is_taken_is_told_and_waited_for() -> None:
    async def life(bench: Bench) -> None:
        bench.server.cluster.put("", "pods", {"metadata": {"name": "wide-worker-1"}, "spec": {"containers": []}})
        bench.submit()

        def waits() -> bool:
            conditions = bench.job_status().get("conditions") or ()
            return any("wide-worker-1" in each.get("message", "") for each in conditions)

        await bench.until(waits, "a condition that says so")

    run(life)


def test_pods_of_an_earlier_job_of_the_name_are_waited_for() -> None:
    async def life(bench: Bench) -> None:
        bench.submit()
        await bench.until_running()
        old = {each["metadata"]["uid"] for each in bench.server.cluster.all("pods")}
        bench.server.cluster.remove("paddlejobs", "wide", is_collected=False)
        bench.submit()
        await bench.until(lambda: "NameConflict" in json.dumps(bench.job_status()), "a condition that says so")
        assert {each["metadata"]["uid"] for each in bench.server.cluster.all("pods")} == old
        for pod in bench.pods():
            bench.server.cluster.remove("pods", pod)
        if bench.server.cluster.get("configmaps", "wide"):
            bench.server.cluster.remove("configmaps", "wide")
        await bench.until(lambda: len(bench.pods()) == 2, "new pods")
        await bench.until_running()
        await bench.until(lambda: "NameConflict" not in json.dumps(bench.job_status()), "it waits for nothing")
        assert not old & {each["metadata"]["uid"] for each in bench.server.cluster.all("pods")}

    run(life)


def test_a_small_job_does_not_wait_for_a_large_one() -> None:
    async def life(bench: Bench) -> None:
        async def slow(verb: str, path: str, _: web.Request) -> web.StreamResponse | None:
            if verb == "POST" and path.endswith("/pods"):
                await asyncio.sleep(0.02)
            return None

        bench.server.hook = slow
        bench.submit("large", workers=600)
        await bench.until(lambda: len(bench.pods()) > 20)
        bench.submit("small")
        await bench.until(lambda: sum(pod.startswith("small") for pod in bench.pods()) == 2, "the small one's pods")
        assert len(bench.pods()) < 400

    run(life)


def test_the_old_finalizer_is_taken_away() -> None:
    async def life(bench: Bench) -> None:
        bench.submit()
        bench.server.cluster.change(
            "paddlejobs", "wide", lambda body: body["metadata"].update(finalizers=["finalizers.paddlepaddle.org"])
        )
        await bench.until(lambda: not bench.server.cluster.get("paddlejobs", "wide")["metadata"].get("finalizers"))  # type: ignore[index]

    run(life)


def test_logs_of_a_failed_pod_are_kept_before_it_is_deleted() -> None:
    async def life(bench: Bench) -> None:
        bench.submit(workers=1, runPolicy={"backoffLimit": 0})
        await bench.until_running(count=1)
        bench.server.cluster.say("wide-worker-0", "loss is NaN", "Traceback: out of luck")
        bench.server.cluster.set_pod("wide-worker-0", "Failed", **ended(1))
        await bench.until(lambda: bench.phase() == "Failed", "Failed")
        await bench.until(lambda: bench.job_status().get("lastLogs"), "logs")
        assert "out of luck" in bench.job_status()["lastLogs"]["wide-worker-0"]

    run(life)


def test_the_log_of_a_pod_that_is_started_again_and_again_is_that_of_the_run_before() -> None:
    async def life(bench: Bench) -> None:
        bench.submit(ps=1, workers=1, intranet="Service", runPolicy={"backoffLimit": 0})
        await bench.until_running(count=2)
        crash = ended(1)["containerStatuses"][0]["state"]
        row = {"name": "main", "restartCount": 1, "state": {"running": {}}, "lastState": crash}
        bench.server.cluster.set_pod("wide-worker-0", "Running", containerStatuses=[row])
        await bench.until(lambda: bench.job_status().get("lastLogs"), "logs")
        assert list(bench.job_status()["lastLogs"]) == ["wide-worker-0"]
        assert [query.get("previous") for query in bench.server.log_queries] == ["true"]

    run(life)


class Kubelet:
    """Pods run, one worker fails once, then all workers end well."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.has_failed = False

    def step(self) -> None:
        server, is_running = self.bench.server, self.bench.phase() == "Running"
        for pod in server.cluster.all("pods"):
            name, phase = pod["metadata"]["name"], pod["status"]["phase"]
            if pod["metadata"].get("deletionTimestamp"):
                server.cluster.remove("pods", name)
            elif phase == "Pending":
                server.cluster.set_pod(name, "Running")
            elif is_running and phase == "Running" and "worker" in name:
                self._end(name)

    def _end(self, name: str) -> None:
        if self.has_failed:
            self.bench.server.cluster.set_pod(name, "Succeeded", **ended())
        elif name == "wide-worker-1":
            self.has_failed = True
            self.bench.server.cluster.set_pod(name, "Failed", **ended(1))


async def life_with_an_end(after: int) -> int:
    """A whole life, in which the operator ends after its n-th write and another one goes on. The result is the count of writes."""
    async with KubeServer() as server:
        bench = Bench(server)
        kubelet = Kubelet(bench)
        written = 0

        async def counting(verb: str, path: str, _: web.Request) -> web.StreamResponse | None:
            nonlocal written
            if verb in ("POST", "PATCH", "PUT", "DELETE") and "/events" not in path:
                written += 1
                if written == after:
                    assert bench.task
                    asyncio.get_running_loop().call_soon(bench.task.cancel)
            return None

        server.hook = counting
        bench.start()
        bench.submit(ps=1, runPolicy={"backoffLimit": 1})
        deadline = time.monotonic() + PATIENCE_S
        while bench.phase() != "Completed":
            assert time.monotonic() < deadline, f"after {after}: {bench.pods()} {bench.job_status()}"
            assert bench.task
            if bench.task.done():
                bench.start()
            kubelet.step()
            await asyncio.sleep(0.005)
        assert bench.job_status().get("restarts", 0) == 1
        assert kubelet.has_failed
        if bench.task and not bench.task.done():
            await bench.kill()
        return written


def test_ended_after_each_write_it_comes_to_the_same() -> None:
    total = asyncio.run(life_with_an_end(0))
    assert total > 8
    for after in range(1, total + 1):
        asyncio.run(life_with_an_end(after))


def test_progress_is_read_from_the_log_and_seldom() -> None:
    async def life(bench: Bench) -> None:
        bench.server.cluster.say("asks-worker-0", 'progress {"percent": 10, "loss": 0.5}')
        bench.server.cluster.say("silent-worker-0", 'progress {"percent": 10, "loss": 0.5}')
        bench.submit("silent")
        body = bench.submit("asks")
        bench.server.cluster.change(
            "paddlejobs",
            "asks",
            lambda job: job["metadata"].update(annotations={"batch.paddlepaddle.org/progress": "log"}),
        )
        assert body
        for name in ("asks", "silent"):
            await bench.until_running(name, count=4)
        await bench.until(lambda: bench.job_status("asks").get("progress"), "progress")
        assert bench.job_status("asks")["progress"] == {"percent": "10", "loss": "0.5"}
        reads = [path for verb, path in bench.server.requests if verb == "GET" and path.endswith("/log")]
        assert reads == ["/api/v1/namespaces/default/pods/asks-worker-0/log"]
        assert "progress" not in bench.job_status("silent")

    run(life)


def test_of_many_jobs_the_first_ones_run_while_the_last_ones_wait_to_be_begun() -> None:
    async def life(bench: Bench) -> None:
        async def slow(verb: str, path: str, _: web.Request) -> web.StreamResponse | None:
            if verb == "POST" and path.endswith("/pods"):
                await asyncio.sleep(0.15)
            return None

        bench.server.hook = slow
        names = [f"job-{number}" for number in range(60)]
        for name in names:
            bench.submit(name, ps=2)
        await bench.until(lambda: bench.start_pods() and any(bench.phase(name) == "Running" for name in names), "one")
        assert len(bench.pods()) < 0.6 * 4 * len(names)

    run(life)


def test_counts_of_many_jobs_that_start_at_once_wait_longer() -> None:
    waiting = Decision(report=JobReport(), status_may_wait_s=2.0)
    assert [count_pause_s(waiting, unsaved) for unsaved in (1, 200, 5000)] == [2.0, 8.0, LONGEST_COUNT_PAUSE_S]
