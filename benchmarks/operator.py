"""What the operator costs: jobs and pods beside bare pods, on a real control plane with fake nodes.

python -m benchmarks.operator                  everything (about 15 minutes)
python -m benchmarks.operator --only jobs      200 jobs of 4 pods: until every job says Running
python -m benchmarks.operator --only many      1,000 jobs of 4 pods, and whether every status is right at the end
python -m benchmarks.operator --only large     a job of 1,000 pods, and a small one that comes in the middle
python -m benchmarks.operator --only failover  a leader is killed
python -m benchmarks.operator --only memory    10,000 pods
python -m benchmarks.operator --only modes     a job of 2 pods on real nodes, by address and by name: until both trainings have begun

`modes` has a cluster with two real nodes. Elsewhere API server, etcd, scheduler, kwok, the operator and this program share one machine. Pods without an operator are created by one Python
process with 32 requests in flight, in the same control plane and just before.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import sections
from benchmarks.measure import Figure
from testbed.kubernetes import cluster as real_cluster
from testbed.kubernetes import control_plane, fake_nodes
from testbed.kubernetes.control_plane import ControlPlane
from umiak.kube import access
from umiak.kube.answers import KubeRefused
from umiak.kube.async_api import AsyncKubeApi
from umiak.paddlejob import crd

OURS, BARE = "umiak operator", "bare pods, no operator"
NODES = 50
IN_FLIGHT = 32
PATIENCE_S = 600.0
JOBS = "/apis/batch.paddlepaddle.org/v1/namespaces/{}/paddlejobs"
PODS = "/api/v1/namespaces/{}/pods"
CONTAINERS = [{"name": "main", "image": "train:1", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]


class Operator:
    """A real operator process, and what its page of metrics says."""

    def __init__(self, plane: ControlPlane, directory: Path, *flags: str) -> None:
        self.port = measure_port()
        command = [sys.executable, "-m", "umiak", "operator", "--kubeconfig", str(plane.kubeconfig), *flags]
        command += ["--metrics-bind-address", f"127.0.0.1:{self.port}", "--health-probe-bind-address", "0"]
        with (directory / f"operator-{self.port}.log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def metrics(self) -> dict[str, float]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return {}
        rows = [line.rpartition(" ") for line in lines if not line.startswith("#")]
        return {name: float(number) for name, _, number in rows}

    def is_leader(self) -> bool:
        return self.metrics().get("umiak_operator_is_leader") == 1.0

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def writes(self) -> float:
        verbs = ("POST", "PUT", "PATCH", "DELETE")
        return sum(
            number
            for name, number in self.metrics().items()
            if name.startswith("umiak_operator_api_requests_total") and any(f'verb="{verb}"' in name for verb in verbs)
        )

    def memory_mb(self) -> float:
        return control_plane.resident_mb(self.process.pid)

    def cpu_s(self) -> float:
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_port() -> int:
    """A port that is free."""
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextlib.contextmanager
def operating(plane: ControlPlane, *flags: str) -> Iterator[Operator]:
    """An operator that has read the cluster; killed at the end."""
    with tempfile.TemporaryDirectory() as directory:
        operator = Operator(plane, Path(directory), *flags)
        try:
            wait(operator.is_ready, "the operator is ready")
            yield operator
        finally:
            operator.process.send_signal(signal.SIGKILL)
            operator.process.wait()


@contextlib.contextmanager
def cluster(nodes: int = NODES) -> Iterator[ControlPlane]:
    """A control plane with fake nodes that knows PaddleJobs."""
    with control_plane.opened() as plane, contextlib.ExitStack() as stack:
        if nodes:
            stack.enter_context(fake_nodes.opened(plane, nodes))
        plane.apply(crd.resource())
        plane.until(lambda: _is_served(plane), "PaddleJobs are served")
        yield plane


def _is_served(plane: ControlPlane) -> bool:
    try:
        return bool(plane.request("GET", JOBS.format("default")))
    except control_plane.KubernetesError:
        return False


def wait(condition: Callable[[], object], what: str) -> None:
    """Until a condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.02)


# ---- objects


def a_job(name: str, workers: int, ps: int) -> dict[str, Any]:
    """A PaddleJob."""
    template = {"spec": {"terminationGracePeriodSeconds": 0, "containers": CONTAINERS}}
    spec: dict[str, Any] = {"worker": {"replicas": workers, "template": template}}
    if ps:
        spec["ps"] = {"replicas": ps, "template": template}
    return {
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": name},
        "spec": spec,
    }


def a_pod(name: str) -> dict[str, Any]:
    """A pod as the operator would make it, without variables."""
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": CONTAINERS}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"bench": "1"}}, "spec": spec}


class Watcher:
    """When each object of a collection was first as asked for."""

    def __init__(self, api: AsyncKubeApi, path: str, is_there: Callable[[Mapping[str, Any]], bool]) -> None:
        self._api, self._path, self._is_there = api, path, is_there
        self.seen: dict[str, float] = {}
        self.made: dict[str, float] = {}
        self._changed = asyncio.Event()
        self.ready = asyncio.Event()

    async def run(self) -> None:
        version = ""
        async for _, version in self._api.pages(self._path):  # noqa: B007 - the version of the last page
            pass
        self.ready.set()
        while True:  # a watch that is too slow for the API server is ended by it
            query = {"resourceVersion": version, "timeoutSeconds": "3600"}
            async for line in self._api.watch(self._path, query, quiet_s=PATIENCE_S):
                version = self._take(json.loads(line)) if line else version

    def _take(self, event: Mapping[str, Any]) -> str:
        body = event["object"]
        name = body["metadata"]["name"]
        if event["type"] in ("ADDED", "MODIFIED"):
            self.made.setdefault(name, time.monotonic())
            if self._is_there(body):
                self.seen.setdefault(name, time.monotonic())
        self._changed.set()
        return str(body["metadata"]["resourceVersion"])

    async def until(self, count: int, *, made: bool = False) -> float:
        """When the last of so many was."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self.made if made else self.seen) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(self.seen)} of {count} in {self._path}")
            self._changed.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait(), 5.0)
        return sorted((self.made if made else self.seen).values())[count - 1]


def runs(body: Mapping[str, Any]) -> bool:
    """Whether a pod or a job says Running."""
    return (body.get("status") or {}).get("phase") == "Running"


async def create(api: AsyncKubeApi, path: str, bodies: list[dict[str, Any]]) -> None:
    """Create objects, so many requests in flight."""
    places = asyncio.Semaphore(IN_FLIGHT)

    async def one(body: dict[str, Any]) -> None:
        async with places:
            await api.create(path, body)

    await asyncio.gather(*(one(body) for body in bodies))


async def with_api(plane: ControlPlane, work: Callable[[AsyncKubeApi], Awaitable[Any]]) -> Any:
    """Work with a client of the control plane."""
    found = access.find({}, kubeconfig_file=str(plane.kubeconfig))
    async with AsyncKubeApi(found, {}, connections=IN_FLIGHT + 8, timeout_s=120) as api:
        return await work(api)


async def watched(
    api: AsyncKubeApi, wanted: Mapping[str, Callable[[Mapping[str, Any]], bool]], work: Callable[..., Awaitable[Any]]
) -> Any:
    """Work while these collections are watched."""
    watchers = [Watcher(api, path, is_there) for path, is_there in wanted.items()]
    tasks = [asyncio.ensure_future(each.run()) for each in watchers]
    for each in watchers:
        await each.ready.wait()
    try:
        return await work(*watchers)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def bare_pods(plane: ControlPlane, count: int) -> tuple[float, float]:
    """Seconds until so many pods are created, and until all of them run. They are gone afterwards."""
    path = PODS.format("default")

    async def work(api: AsyncKubeApi) -> tuple[float, float]:
        async def measured(pods: Watcher) -> tuple[float, float]:
            began = time.monotonic()
            await create(api, path, [a_pod(f"bare-{number}") for number in range(count)])
            created = time.monotonic() - began
            return created, await pods.until(count) - began

        return tuple(await watched(api, {path: runs}, measured))

    found: tuple[float, float] = asyncio.run(with_api(plane, work))
    clear(plane)
    return found


def clear(plane: ControlPlane) -> None:
    """Delete jobs, pods and events, and wait until they are gone."""
    for path in (JOBS.format("default"), PODS.format("default"), "/api/v1/namespaces/default/events"):
        wait(partial(_is_cleared, plane, path), f"{path} is empty")


def _is_cleared(plane: ControlPlane, path: str) -> bool:
    """Whether a collection is empty; what is left of it is deleted. Of thousands of objects the answer may come too late."""
    try:
        if plane.request("GET", f"{path}?limit=1")["items"]:
            plane.request("DELETE", path)
        return not plane.request("GET", f"{path}?limit=1")["items"]
    except control_plane.KubernetesError:
        return False


# ---- sections


def jobs(is_quick: bool) -> Iterator[Figure]:
    """Many small jobs."""
    yield from _of_jobs(50 if is_quick else 200, 1.4)


def many(is_quick: bool) -> Iterator[Figure]:
    """Very many of them."""
    yield from _of_jobs(100 if is_quick else 1000, 1.3)


def _of_jobs(count: int, goal: float) -> Iterator[Figure]:
    all_run = Figure(
        f"jobs{count}",
        f"{count} jobs x 4 pods (2 ps, 2 workers, PodIP): every job says Running",
        f"goal: {goal} x bare pods",
    )
    first = Figure(f"first{count}", f"the first of {count} jobs says Running", "from the first creation", goal=2.0)
    written = Figure(f"writes{count}", "writes per job", "its own counter, events included", unit="writes", goal=8.8)
    wrong = Figure(
        f"wrong{count}", f"statuses of {count} jobs that are wrong at the end", "phase and counts", unit="jobs", goal=0
    )
    idle = Figure(f"idle{count}", f"CPU of the operator with {count} running jobs", "over 20 s", unit="%", goal=1.0)
    with cluster() as plane:
        created, running = bare_pods(plane, count * 4)
        with operating(plane) as operator:
            outcome = asyncio.run(with_api(plane, partial(_jobs, count)))
            all_run.add(OURS, outcome["all"], operator.cpu_s())
            all_run.add(BARE, running)
            all_run.note(OURS, f"{outcome['all'] / running:.2f} x; all pods created after {outcome['pods']:.1f} s")
            all_run.note(BARE, f"all created after {created:.1f} s")
            first.add(OURS, outcome["first"])
            written.add(OURS, operator.writes() / count)
            written.note(OURS, f"{operator.memory_mb()} MB")
            before = operator.cpu_s()
            time.sleep(20)
            idle.add(OURS, (operator.cpu_s() - before) / 20 * 100)
            wrong.add(OURS, asyncio.run(with_api(plane, partial(_wrong_statuses, count))))
    yield from (all_run, first, written, wrong, idle)


async def _wrong_statuses(count: int, api: AsyncKubeApi) -> float:
    """How many jobs don't say what is true of all of them: two servers and two workers run."""
    right = 0
    async for page, _ in api.pages(JOBS.format("default")):
        for body in page:
            found = body.get("status") or {}
            up = [(found.get(role) or {}).get("running") for role in ("ps", "worker")]
            right += found.get("phase") == "Running" and up == [2, 2] and found.get("workers") == "2/2"
    return float(count - right)


async def _jobs(count: int, api: AsyncKubeApi) -> dict[str, float]:
    path = JOBS.format("default")

    async def measured(seen: Watcher, pods: Watcher) -> dict[str, float]:
        began = time.monotonic()
        await create(api, path, [a_job(f"job-{number}", 2, 2) for number in range(count)])
        last = await seen.until(count)
        made = await pods.until(count * 4, made=True)
        return {"all": last - began, "first": min(seen.seen.values()) - began, "pods": made - began}

    found: dict[str, float] = await watched(api, {path: runs, PODS.format("default"): runs}, measured)
    return found


def large(is_quick: bool) -> Iterator[Figure]:
    """One job with many pods, and a small one beside it."""
    count = 200 if is_quick else 1000
    made = Figure("large", f"all pods of a {count}-pod job created", "goal: 2 x bare pods, from the job's creation")
    small = Figure("small", "a small job that comes in the middle: its pods are created", "from its creation", goal=2.0)
    with cluster() as plane:
        created, _ = bare_pods(plane, count)
        with operating(plane) as operator:

            async def work(api: AsyncKubeApi) -> tuple[float, float]:
                async def measured(pods: Watcher) -> tuple[float, float]:
                    began = time.monotonic()
                    await api.create(JOBS.format("default"), a_job("large", count, 0))
                    await pods.until(count // 4, made=True)
                    asked = time.monotonic()
                    await api.create(JOBS.format("default"), a_job("small", 2, 0))
                    while not {"small-worker-0", "small-worker-1"} <= pods.made.keys():
                        await asyncio.sleep(0.005)
                    answered = max(pods.made["small-worker-0"], pods.made["small-worker-1"]) - asked
                    return await pods.until(count + 2, made=True) - began, answered

                return tuple(await watched(api, {PODS.format("default"): runs}, measured))

            took, waited = asyncio.run(with_api(plane, work))
            made.add(OURS, took, operator.cpu_s())
            made.add(BARE, created)
            made.note(OURS, f"{took / created:.2f} x")
            small.add(OURS, waited)
    yield from (made, small)


def failover(is_quick: bool) -> Iterator[Figure]:
    """The leader is killed with SIGKILL."""
    figure = Figure(
        "failover", "a leader is killed: the next one acts", "until a job of that moment has pods", goal=20.0
    )
    flags = ("--leader-elect", "--leader-elect-namespace", "default")
    with cluster(4) as plane:
        for number in range(1 if is_quick else 3):
            with operating(plane, *flags) as first:
                wait(first.is_leader, "a leader")
                with operating(plane, *flags):
                    first.process.kill()
                    began = time.monotonic()
                    plane.request("POST", JOBS.format("default"), a_job(f"late-{number}", 2, 0))
                    wait(partial(_has_pod, plane, f"late-{number}-worker-0"), "a pod")
                    figure.add(OURS, time.monotonic() - began)
    yield figure


def _has_pod(plane: ControlPlane, name: str) -> bool:
    try:
        return bool(plane.request("GET", f"{PODS.format('default')}/{name}"))
    except (control_plane.KubernetesError, KubeRefused):
        return False


def memory(is_quick: bool) -> Iterator[Figure]:
    """Many pods, which wait for nodes: what is kept of a pod does not depend on it."""
    count = 1000 if is_quick else 10000
    figure = Figure("memory", f"memory of the operator with {count} pods", "resident", unit="MB", goal=120.0)
    again = Figure("restart", f"an operator is started beside {count} pods: ready", "until it has read everything")
    with cluster(0) as plane:
        with operating(plane) as operator:
            for number in range(10):
                plane.request("POST", JOBS.format("default"), a_job(f"job-{number}", count // 10, 0))
            wait(lambda: operator.metrics().get("umiak_operator_pods", 0) >= count, "all pods")
            time.sleep(5)
            figure.add(OURS, operator.memory_mb(), operator.cpu_s())
        began = time.monotonic()
        with operating(plane) as operator:
            again.add(OURS, time.monotonic() - began)
            time.sleep(5)
            figure.add("the same, started again", operator.memory_mb(), operator.cpu_s())
    yield from (figure, again)


def modes(is_quick: bool) -> Iterator[Figure]:
    """How soon containers start with real kubelets, by how pods are told where the others are."""
    figure = Figure(
        "modes", "a job of 2 pods: from its creation until both trainings run", "real nodes, one job at a time"
    )
    with real_cluster.opened(2) as kube, _serving(kube):
        template = {
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{**CONTAINERS[0], "command": ["sleep", "3600"]}],
            }
        }
        for number in range(3 if is_quick else 7):
            for mode in ("PodIP", "Service"):
                body = a_job(f"{mode.lower()}-{number}", 2, 0)
                body["spec"] |= {"intranet": mode}
                body["spec"]["worker"]["template"] = template
                began = time.monotonic()
                kube.request("POST", JOBS.format("default"), body)
                wait(partial(_both_run, kube), "both run")
                if number:  # the first time the nodes pull the image
                    figure.add(mode, time.monotonic() - began)
                kube.request("DELETE", f"{JOBS.format('default')}/{body['metadata']['name']}")
                wait(lambda: not kube.request("GET", PODS.format("default"))["items"], "its pods are gone")
    yield figure


@contextlib.contextmanager
def _serving(kube: ControlPlane) -> Iterator[None]:
    kube.apply(crd.resource())
    kube.until(lambda: _is_served(kube), "PaddleJobs are served")
    with operating(kube):
        yield


def _both_run(plane: ControlPlane) -> bool:
    pods = plane.request("GET", PODS.format("default"))["items"]
    states = [row["state"] for pod in pods for row in pod["status"].get("containerStatuses", ())]
    return len(states) == 2 and all("running" in state for state in states)


SECTIONS: Mapping[str, Callable[[bool], Iterator[Figure]]] = {
    "jobs": jobs,
    "many": many,
    "large": large,
    "failover": failover,
    "memory": memory,
    "modes": modes,
}


def main() -> int:
    """The command."""
    asked = sections.parser("benchmarks.operator", __doc__ or "", SECTIONS).parse_args()
    return sections.run(SECTIONS, asked.quick, asked)


if __name__ == "__main__":
    sys.exit(main())
