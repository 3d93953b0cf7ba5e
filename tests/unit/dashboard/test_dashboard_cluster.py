"""The page of a cluster: each viewer sees what the viewer's own token may see, and the server has no rights of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from tests.support.cluster_pages import job, pod
from tests.support.kube_server import KubeServer, status
from umiak.core.shown import Secrets
from umiak.dashboard.cluster import cluster_runs, job_view
from umiak.dashboard.cluster.cluster_runs import ClusterRuns
from umiak.dashboard.cluster.program import ClusterDashboard, ClusterOptions
from umiak.dashboard.cluster.source import ClusterSource
from umiak.dashboard.cluster.viewers import SESSION_S, Viewers
from umiak.dashboard.options import DashboardOptions
from umiak.dashboard.outside.given import GivenSources
from umiak.dashboard.program import Dashboard
from umiak.kube.kubeconfig import KubeAccess
from umiak.paddlejob.resource import JobApi
from umiak.web.messages import HttpRefusal

if TYPE_CHECKING:
    from umiak.core.json_types import JsonObject

ADA, BOB, NOBODY = "token-of-ada", "token-of-bob", "token-of-nobody"
MAY = {ADA: ("training", "lab"), BOB: ("lab",)}


class Answer:
    def __init__(self, code: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = code, headers, body

    @property
    def data(self) -> JsonObject:
        found: JsonObject = json.loads(self.body)
        return found


async def ask(port: int, path: str, method: str = "GET", **headers: str) -> Answer:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    given = {"Host": f"localhost:{port}", **{name.replace("_", "-"): text for name, text in headers.items()}}
    text = "".join(f"{name}: {each}\r\n" for name, each in given.items() if each)
    writer.write(f"{method} {path} HTTP/1.1\r\n{text}\r\n".encode())
    try:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().rstrip().split("\r\n")
        found = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        body = await reader.readexactly(int(found.get("content-length", "0")))
        return Answer(int(first.split(" ")[1]), found, body)
    finally:
        writer.close()


def as_viewer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def rights(_verb: str, path: str, request: web.Request) -> web.StreamResponse | None:
    """As RBAC would have it: lists of all namespaces for nobody but an administrator, one's own namespaces for each."""
    token = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if token not in MAY:
        return status(401, "Unauthorized", "Unauthorized")
    namespace = path.partition("/namespaces/")[2].partition("/")[0]
    if "selfsubject" in path or namespace in MAY[token] or (not namespace and token == ADA):
        return None
    return status(403, "Forbidden", f"may not in {namespace or 'all namespaces'}")


def with_cluster(story: Callable[[KubeServer, ClusterDashboard], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with KubeServer() as server:
            server.hook = rights
            for namespace, name in (("training", "secret-plan"), ("lab", "ctr")):
                server.cluster.put("batch.paddlepaddle.org", "paddlejobs", job(namespace, name))
                server.cluster.put("", "pods", pod(namespace, name, 0))
                server.cluster.logs[f"{name}-worker-0"] = [
                    ("2026-01-01T00:00:01.5Z", f"the log of <b>{name}</b>"),
                    ("2026-01-01T00:00:02.5Z", "ValueError: broken"),
                ]
            access = KubeAccess(server=server.url, secrets=Secrets({"token": "the-operator's-own"}), token_file="/none")
            dashboard = ClusterDashboard(ClusterOptions(access=access, **options), {}, version="1.2.3")
            await dashboard.start()
            try:
                await story(server, dashboard)
            finally:
                await dashboard.close()

    asyncio.run(run())


# ---- who sees what


def test_each_viewer_sees_what_the_own_token_may_see() -> None:
    async def story(server: KubeServer, dashboard: ClusterDashboard) -> None:
        seen = (await ask(dashboard.port, "/runs.json", **as_viewer(ADA))).data
        assert sorted(row["id"] for row in seen["runs"]) == ["lab.ctr", "training.secret-plan"]
        found = await ask(dashboard.port, "/runs.json", **as_viewer(BOB))
        assert found.data["runs"] == []
        assert "may not in all namespaces" in " ".join(found.data["problems"])
        for path in ("", "/log", "/files", "/log?file=0000000000000000"):
            told = await ask(dashboard.port, f"/runs/training.secret-plan{path}", **as_viewer(BOB))
            assert told.status == 404
            assert b"secret" not in told.body
        tokens = {address for address in server.addresses if "operator" in address}
        assert tokens == set(), "the server never asks with anything of its own"

    with_cluster(story)


def test_a_browser_enters_with_a_token_and_gets_a_cookie() -> None:
    async def story(_server: KubeServer, dashboard: ClusterDashboard) -> None:
        port = dashboard.port
        origin = f"http://localhost:{port}"
        page = await ask(port, "/runs", Accept="text/html")
        assert page.status == 200
        assert b"training" not in page.body
        without = await ask(port, "/runs.json")
        assert (without.status, without.headers["www-authenticate"]) == (401, 'Bearer realm="kubernetes"')
        enter = {"Origin": origin, "X-Umiak-Dashboard-Token": BOB}
        assert (await ask(port, "/session", "POST", **{**enter, "Origin": "http://evil.example"})).status == 403
        wrong = await ask(port, "/session", "POST", **{**enter, "X-Umiak-Dashboard-Token": NOBODY})
        assert (wrong.status, "set-cookie" in wrong.headers) == (401, False)
        assert (await ask(port, "/session", "POST", Origin=origin)).status == 401
        named = {**enter, "X-Umiak-Dashboard-Namespaces": "lab, ../../x"}
        assert (await ask(port, "/session", "POST", **named)).status == 400
        named["X-Umiak-Dashboard-Namespaces"] = "lab"
        entered = await ask(port, "/session", "POST", **named)
        cookie = entered.headers["set-cookie"]
        assert "HttpOnly; SameSite=Strict" in cookie
        assert BOB not in cookie
        mine = {"Cookie": cookie.partition(";")[0]}
        assert [row["id"] for row in (await ask(port, "/runs.json", **mine)).data["runs"]] == ["lab.ctr"]
        forged = {"Cookie": f"{cookie.partition('=')[0]}=#{'0' * 64}"}
        assert (await ask(port, "/runs.json", **forged)).status == 401
        assert (await ask(port, "/runs.json", **{**mine, "Host": "evil.example"})).status == 421
        assert (await ask(port, "/runs/lab.ctr/cancel", "POST", Origin=origin, **mine)).status == 403
        assert (await ask(port, "/runs/lab.ctr", "DELETE", **mine)).status == 405

    with_cluster(story)


def test_a_token_that_ended_ends_what_was_seen_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_runs, "STALE_S", 0.0)

    async def story(server: KubeServer, dashboard: ClusterDashboard) -> None:
        assert (await ask(dashboard.port, "/runs.json", **as_viewer(ADA))).data["total"] == 2

        async def ended(_verb: str, _path: str, _request: web.Request) -> web.StreamResponse | None:
            return status(401, "Unauthorized", "Unauthorized")

        server.hook = ended
        assert (await ask(dashboard.port, "/runs.json", **as_viewer(ADA))).status == 401
        assert (await ask(dashboard.port, "/runs/lab.ctr", **as_viewer(ADA))).status == 401

    with_cluster(story)


def test_tokens_are_not_guessed_at_the_clusters_cost() -> None:
    async def story(server: KubeServer, dashboard: ClusterDashboard) -> None:
        answers = [(await ask(dashboard.port, "/runs.json", **as_viewer(f"guess-{n}"))).status for n in range(30)]
        assert set(answers) == {401, 429}
        assert len(server.requests) < 30

    with_cluster(story)


def test_namespaces_of_the_deployment_are_a_limit() -> None:
    async def story(_server: KubeServer, dashboard: ClusterDashboard) -> None:
        origin = f"http://localhost:{dashboard.port}"
        named = {"Origin": origin, "X-Umiak-Dashboard-Token": ADA, "X-Umiak-Dashboard-Namespaces": "training"}
        entered = await ask(dashboard.port, "/session", "POST", **named)
        mine = {"Cookie": entered.headers["set-cookie"].partition(";")[0]}
        assert [row["id"] for row in (await ask(dashboard.port, "/runs.json", **mine)).data["runs"]] == ["lab.ctr"]

    with_cluster(story, namespaces=("lab",))


def test_a_session_ends() -> None:
    now = [0.0]

    class Known:
        def check(self) -> None: ...
        def close(self) -> None: ...

    async def story() -> None:
        viewers = Viewers(lambda _token, _namespaces: Known(), clock=lambda: now[0])  # type: ignore[arg-type,return-value]
        session = await viewers.enter("a")
        assert viewers.known(session) is not None
        now[0] = SESSION_S + 1
        assert viewers.known(session) is None
        first = await viewers.enter("a")
        for number in range(1000):
            now[0] += 1
            await viewers.enter(f"t{number}")
        assert viewers.known(first) is None, "the one that was not seen for longest makes room"
        assert len(viewers.all) == 1000

    asyncio.run(story())


# ---- what is shown


def test_a_job_has_pods_logs_and_a_sentence() -> None:
    async def story(server: KubeServer, dashboard: ClusterDashboard) -> None:
        mine = as_viewer(ADA)
        port = dashboard.port
        await ask(port, "/runs.json", **mine)
        found = (await ask(port, "/runs/lab.ctr", **mine)).data
        assert found["sentence"].endswith("1 of 2 pods up")
        (worker,) = found["workers"][0]["workers"]
        assert (worker["role"], worker["rank"], worker["host"], worker["phase"]) == ("trainer", 0, "node-1", "running")
        assert found["settings"]["worker.template.spec.containers[main].env.PASSWORD"] == "***"
        assert found["settings"]["worker.replicas"] == 2
        (log,) = found["files"]
        lines = (await ask(port, f"/runs/lab.ctr/log?file={log['key']}", **mine)).data["lines"]
        assert [line["text"] for line in lines] == ["the log of <b>ctr</b>", "ValueError: broken"]
        assert lines[0]["at"] == 1767225601500000
        errors = (await ask(port, f"/runs/lab.ctr/log?file={log['key']}&error=1", **mine)).data["lines"]
        assert [line["at"] for line in errors] == [lines[1]["at"]]
        merged = (await ask(port, "/runs/lab.ctr/log?find=broken", **mine)).data
        assert [line["source"] for line in merged["lines"]] == ["ctr-worker-0/main"]
        different = (await ask(port, "/compare?runs=lab.ctr,training.secret-plan", **mine)).data
        assert [run["row"]["id"] for run in different["runs"]] == ["lab.ctr", "training.secret-plan"]
        assert (await ask(port, "/about.json", **mine)).data["is_cluster"] is True
        for path in ("/runs/lab.ctr/stack", "/runs/../etc", "/files/lab.ctr/x", "/runs/lab.ctr/log?file=../../x"):
            assert (await ask(port, path, **mine)).status == 404
        assert server.writes() == [("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")]

    with_cluster(story)


def test_a_failed_pod_is_what_failed_first() -> None:
    body = job("lab", "ctr", phase="Failed", message="worker 0 failed", completionTime="2026-01-01T01:00:00Z")
    ended = {
        "exitCode": 137,
        "reason": "OOMKilled",
        "finishedAt": "2026-01-01T00:59:00Z",
        "message": "killed\n\x1b[31m",
    }
    failed = pod("lab", "ctr", 0, phase="Failed", state={"terminated": ended})
    row = job_view.row_of(body, JobApi.BATCH, "cluster")
    found = job_view.run_of(row, body, [failed], JobApi.BATCH, 1767229300.0)
    assert row.state == "failed"
    assert found["sentence"] == (
        "failed 1 min ago: trainer 0 on node node-1 failed with exit code 137 (OOMKilled); worker 0 failed"
    )
    assert found["first_failure"]["excerpt"] == "killed\n"
    assert found["hint"] == "`kubectl describe pdj ctr -n lab`"


def test_a_pod_that_is_not_scheduled_says_why() -> None:
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no GPUs"}
    held = pod("lab", "ctr", 1, phase="Pending", state=None, conditions=[unscheduled])
    body = job("lab", "ctr", phase="Starting")
    row = job_view.row_of(body, JobApi.BATCH, "cluster")
    found = job_view.run_of(row, body, [held], JobApi.BATCH, 0.0)
    assert "trainer 1 waits: Unschedulable: no GPUs" in found["sentence"]
    assert found["files"] == [], "it has no log yet"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"metadata": None, "spec": 3, "status": []},
        {"metadata": {"name": 3, "namespace": [], "creationTimestamp": {}}, "status": {"progress": {"auc": "nan"}}},
        {"spec": {"worker": {"replicas": "x"}, "ps": []}, "status": {"phase": "Strange", "conditions": [None]}},
    ],
)
def test_whatever_an_object_is_it_has_a_row(body: JsonObject) -> None:
    row = job_view.row_of(body, JobApi.BATCH, "cluster")
    strange: list[JsonObject] = [{}, {"status": {"containerStatuses": [{}, 3]}, "metadata": {"labels": 3}}]
    assert job_view.run_of(row, body, strange, JobApi.BATCH, 0.0)["row"]["state"] == "queued"


# ---- beside the runs of this machine


def test_jobs_of_a_kubeconfig_are_in_the_list_of_this_machine(tmp_path: Path) -> None:
    async def story(server: KubeServer) -> None:
        access = KubeAccess(server=server.url, secrets=Secrets({"token": ADA}))
        options = DashboardOptions(directories=(str(tmp_path),), token="t" * 40)
        dashboard = Dashboard(options, GivenSources(cluster=ClusterSource(access, {})))
        await dashboard.start()
        mine = as_viewer("t" * 40)
        try:
            assert dashboard.cluster is not None
            await dashboard.cluster.fresh()
            seen = (await ask(dashboard.port, "/runs.json?q=kind:paddlejob", **mine)).data
            assert [row["place"] for row in seen["runs"]] == ["cluster/lab"]
            found = (await ask(dashboard.port, "/runs/lab.ctr", **mine)).data
            assert found["handle"] == "k8s://lab/paddlejob/ctr"
        finally:
            await dashboard.close()

    async def run() -> None:
        async with KubeServer() as server:
            server.hook = rights
            server.cluster.put("batch.paddlepaddle.org", "paddlejobs", job("lab", "ctr"))
            await story(server)

    asyncio.run(run())


def test_a_cluster_that_hangs_holds_up_nobody_and_says_since_when() -> None:
    async def run() -> None:
        async with KubeServer() as server:
            server.cluster.put("batch.paddlepaddle.org", "paddlejobs", job("lab", "ctr"))
            released = asyncio.Event()
            asked = asyncio.Event()

            async def hangs(_verb: str, _path: str, _request: web.Request) -> web.StreamResponse | None:
                asked.set()
                await released.wait()
                return None

            server.hook = hangs
            runs = ClusterRuns(ClusterSource(KubeAccess(server=server.url, secrets=Secrets()), {}))
            task = runs.begin()
            assert task is not None
            await asked.wait()
            assert runs.begin() is task, "never more than one question at a time"
            assert runs.page({}, 0, 100)["runs"] == []
            (problem,) = runs.problems(1e12)
            assert problem.startswith("the cluster has not answered for ")
            released.set()
            await task
            assert [row.id for row in runs.rows] == ["lab.ctr"]
            assert runs.problems(1e12) == []
            await runs.close()

    asyncio.run(run())


def test_an_unknown_job_is_refused() -> None:
    async def run() -> None:
        runs = ClusterRuns(ClusterSource(KubeAccess(server="http://127.0.0.1:1", secrets=Secrets()), {}))
        with pytest.raises(HttpRefusal) as raised:
            await runs.data("lab.ctr", [], {})
        assert raised.value.status == 404

    asyncio.run(run())
