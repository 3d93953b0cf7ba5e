"""Jobs in a cluster, over a real socket: created once whatever is lost, followed, cancelled; pods that really run the launcher."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.support import PATIENCE_S, eventually, remember_launcher
from tests.support.kube_server import TOKEN, KubeServer, strict
from tests.support.kube_store import now
from umiak.core.backoff import ATTEMPTS, RetryPolicy
from umiak.core.bundle import shown
from umiak.core.cluster import Role
from umiak.core.job import FileSet, Handle, Job, Replicas, RoleSpec
from umiak.core.problem import UmiakError
from umiak.core.status import State
from umiak.core.value import replace
from umiak.kube import access, requests
from umiak.submit import configuration
from umiak.submit.backend import AnswerLost, LogsWanted, Secrets, Submission
from umiak.submit.backends.kubernetes import pod_watch
from umiak.submit.backends.kubernetes.backend import KubeBackend
from umiak.submit.flow import Flow
from umiak.submit.logs import reading as log_reading

RUN = "ctr-3f2a9c10"
PASSWORD = "hush-hush-hush-hush"
SECRETS = Secrets(UMIAK_TOKEN="0123456789abcdef0123456789abcdef", DB_PASSWORD=PASSWORD)
PS = Job(
    name="ctr",
    command=("train.py",),
    roles=(RoleSpec(role=Role.SERVER), RoleSpec(nodes=Replicas(least=2, most=2))),
    secrets=("DB_PASSWORD",),
    files=FileSet(),
)
KINDS = ("job", "jobset", "paddlejob")
SCRIPT = """
import os, socket, sys, time
print(os.environ["UMIAK_ROLE"], os.environ["UMIAK_RANK"], "of", os.environ["UMIAK_WORLD_SIZE"], os.environ["GREETING"], flush=True)
if os.environ["UMIAK_ROLE"] == "server":
    listener = socket.create_server(("", int(os.environ["PADDLE_PORT"])))
    while True:
        listener.accept()
while "wait" in sys.argv:
    time.sleep(0.05)
sys.exit(int(sys.argv[1]) if os.environ["UMIAK_RANK"] == "1" else 0)
"""


class Bench:
    """A person with a project and a cluster."""

    def __init__(self, directory: Path, server: KubeServer) -> None:
        self.server = server
        self.cluster = server.cluster
        self.directory = directory / "project"
        self.directory.mkdir()
        (self.directory / "train.py").write_text(SCRIPT)
        (self.directory / ".gitignore").write_text("umiak.toml\njob.yaml\n")
        self.config = server.kubeconfig(directory / "kubeconfig")
        remember_launcher(directory)
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "XDG_STATE_HOME": str(directory / "state"),
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"),
            "KUBECONFIG": str(self.config),
            "DB_PASSWORD": PASSWORD,
        }

    def place(self, kind: str = "", **more: str) -> None:
        said = {"image": '"paddle:3.3"', "request_timeout": '"1s"', **({"kind": f'"{kind}"'} if kind else {}), **more}
        lines = "\n".join(f"{key} = {text}" for key, text in said.items())
        (self.directory / "umiak.toml").write_text(f'[place.prod]\nbackend = "kubernetes"\n{lines}\n')

    def backend(self, kind: str = "", **more: str) -> KubeBackend:
        self.place(kind, **more)
        context = configuration.context(self.environ, str(self.directory))
        flow = Flow(context)
        made = flow.backend(flow.place("prod"))
        assert isinstance(made, KubeBackend)
        return made

    def submit(self, made: KubeBackend, job: Job = PS) -> Handle:
        assert made.check(job) == []
        submission = Submission(run_id=RUN, job=job, bundle=made.render(job, RUN), secrets=SECRETS)
        return made.submit(submission)

    def umiak(self, *words: str, status: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "umiak", *words],
            cwd=self.directory,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == status, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + ("" if status == 0 else done.stderr)


@pytest.fixture
def server() -> Iterator[KubeServer]:
    with KubeServer(strict(), {TOKEN}) as made:
        yield made


@pytest.fixture
def bench(tmp_path: Path, server: KubeServer) -> Bench:
    return Bench(tmp_path, server)


def told(error: UmiakError) -> str:
    return "\n".join(line for problem in error.problems for line in problem.lines())


# ---- creating


@pytest.mark.parametrize("kind", KINDS)
def test_everything_is_created_once_and_owned_by_the_workload(bench: Bench, kind: str) -> None:
    made = bench.backend(kind)
    handle = bench.submit(made)
    assert str(handle) == f"kubernetes://prod/{RUN}"
    first = list(bench.cluster.created)
    plural = {"job": "jobs", "jobset": "jobsets", "paddlejob": "paddlejobs"}[kind]
    assert len(bench.cluster.all(plural)) == (2 if kind == "job" else 1)
    assert bench.submit(made) == handle
    assert bench.cluster.created == first
    assert [*made.list()] == [handle]
    uids = {each["metadata"]["uid"] for each in bench.cluster.all(plural)}
    for other in ("secrets", "configmaps", "services"):
        for each in bench.cluster.all(other):
            assert {owner["uid"] for owner in each["metadata"]["ownerReferences"]} == uids


@pytest.mark.parametrize("what", ["429", "500", "drop", "lost", "hang"])
@pytest.mark.parametrize(
    ("verb", "pattern"), [("POST", "/secrets$"), ("POST", "/jobs$"), ("GET", "/jobs/"), ("PATCH", "")]
)
def test_troubles_on_the_way_start_nothing_twice(bench: Bench, verb: str, pattern: str, what: str) -> None:
    made = bench.backend("job")
    bench.server.trouble(verb, pattern, what)
    handle = bench.submit(made)
    assert bench.server.troubles == []
    assert sorted(bench.cluster.created) == sorted(set(bench.cluster.created))
    assert len(bench.cluster.all("jobs")) == 2
    assert made.status(handle).state is State.QUEUED


def test_a_lost_answer_is_told_and_the_job_is_found_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "POLICY", RetryPolicy(first_s=0.001))
    made = bench.backend("jobset")
    bench.server.trouble("POST", "/jobsets$", "lost")
    bench.server.trouble("POST", "/jobsets$", "drop", times=ATTEMPTS)
    with pytest.raises(AnswerLost) as caught:
        bench.submit(made)
    assert "POST /apis/jobset.x-k8s.io" in told(caught.value)
    (found,) = bench.cluster.all("jobsets")
    bench.server.troubles.clear()
    bench.submit(bench.backend("jobset"))
    assert [each["metadata"]["uid"] for each in bench.cluster.all("jobsets")] == [found["metadata"]["uid"]]
    # The first token counts: the pods have it already.
    secret = bench.cluster.all("secrets")[0]["data"]["UMIAK_TOKEN"]
    assert base64.b64decode(secret).decode() == SECRETS["UMIAK_TOKEN"]


def test_what_is_refused_leaves_nothing(bench: Bench) -> None:
    bench.server.trouble("POST", "/jobs$", "403")
    with pytest.raises(UmiakError) as caught:
        bench.submit(bench.backend("job"))
    assert "prod: the cluster has refused: POST /apis/batch/v1/namespaces/training/jobs" in told(caught.value)
    assert "hint: ask for the rights" in told(caught.value)
    assert [bench.cluster.all(plural) for plural in ("jobs", "secrets", "configmaps", "services")] == [[], [], [], []]


def test_a_workload_is_tried_before_anything_is_created(bench: Bench) -> None:
    bench.server.trouble("POST", "/jobs[?]dryRun=All", "422")
    with pytest.raises(UmiakError, match="refused"):
        bench.submit(bench.backend("job"))
    assert bench.cluster.created == []


def test_a_silent_cluster_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "POLICY", RetryPolicy(first_s=0.001))
    bench.server.trouble("GET", "/apis$", "drop", times=ATTEMPTS)
    with pytest.raises(UmiakError) as caught:
        bench.backend().check(PS)
    assert caught.value.problems[0].code == "UM-SUBMIT-182"
    assert bench.server.url in told(caught.value)


def test_somebody_elses_object_is_left_alone(bench: Bench) -> None:
    made = bench.backend("jobset")
    path = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/training/jobsets"
    theirs = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": RUN}, "spec": {}}
    bench.cluster.create(path, theirs)
    with pytest.raises(UmiakError) as caught:
        bench.submit(made)
    assert "it is not umiak's" in told(caught.value)
    assert bench.cluster.created == [f"jobsets/{RUN}"]


def test_a_run_with_other_content_is_told(bench: Bench) -> None:
    made = bench.backend("jobset")
    bench.submit(made)
    with pytest.raises(UmiakError, match="something else of this name"):
        bench.submit(made, replace(PS, command=("other.py",)))
    assert len(bench.cluster.all("jobsets")) == 1
    assert bench.cluster.all("secrets")


def test_a_kind_that_the_cluster_does_not_have(bench: Bench) -> None:
    bench.cluster.groups = ("batch",)
    with pytest.raises(UmiakError, match="the cluster has no JobSet"):
        bench.submit(bench.backend("jobset"))


@pytest.mark.parametrize(
    ("groups", "kind"),
    [
        (("batch",), "jobs"),
        (("batch", "jobset.x-k8s.io"), "jobsets"),
        (("batch", "jobset.x-k8s.io", "batch.paddlepaddle.org"), "paddlejobs"),
    ],
)
def test_a_cluster_is_asked_what_it_has(bench: Bench, groups: tuple[str, ...], kind: str) -> None:
    bench.cluster.groups = groups
    bench.submit(bench.backend())
    assert bench.cluster.all(kind)


def test_large_files_go_through_storage(bench: Bench, tmp_path: Path) -> None:
    (bench.directory / "big.bin").write_bytes(os.urandom(1_200_000))
    made = bench.backend("job")
    (problem,) = made.check(PS)
    assert problem.code == "UM-SUBMIT-186"
    assert "files_url" in str(problem.hint)
    made = bench.backend("job", files_url=f'"{tmp_path}/store"')
    bench.submit(made)
    (stored,) = (tmp_path / "store").iterdir()
    plan = json.loads(bench.cluster.all("configmaps")[-1]["data"]["trainer.json"])
    assert plan["files"]["url"] == str(stored)
    assert f"upload {stored.stat().st_size} bytes to {stored}" in shown(made.render(PS, RUN))


def test_secrets_are_in_the_secret_alone(bench: Bench, tmp_path: Path) -> None:
    made = bench.backend("paddlejob")
    text = shown(made.render(PS, RUN))
    assert 'DB_PASSWORD: "<not shown>"' in text
    bench.submit(made)
    values = [*SECRETS.values(), TOKEN]
    for plural in ("configmaps", "paddlejobs", "services"):
        for each in bench.cluster.all(plural):
            assert not [value for value in values if value in json.dumps(each)]
    assert not [value for value in values if value in text or value in "\n".join(bench.server.addresses)]
    (secret,) = bench.cluster.all("secrets")
    assert {name: base64.b64decode(each).decode() for name, each in secret["data"].items()} == dict(SECRETS)
    for path in (tmp_path / "state").rglob("*"):
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes()
    assert TOKEN not in repr(made._access)


# ---- asking


def test_status_follows_the_cluster(bench: Bench) -> None:
    made = bench.backend("job")
    handle = bench.submit(made)
    assert made.status(handle).state is State.QUEUED
    names = [pod["metadata"]["name"] for pod in bench.cluster.pods()]
    back_off = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
    bench.cluster.set_pod(names[0], "Pending", back_off)
    status = made.status(handle)
    assert status.state is State.STARTING
    assert "server 0: ImagePullBackOff: the image can't be pulled: paddle:3.3 (not found)" in status.reason
    for name in names:
        bench.cluster.set_pod(name, "Running", {"running": {"startedAt": now()}})
    assert made.status(handle).state is State.RUNNING
    bench.cluster.set_pod(
        names[2], "Failed", {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": now()}}
    )
    failed = {"type": "Failed", "status": "True", "reason": "PodFailurePolicy", "lastTransitionTime": now()}
    bench.cluster.set_status("jobs", {"conditions": [failed]})
    status = made.status(handle)
    assert (status.state, status.exit_status) == (State.FAILED, 137)
    assert status.reason == "trainer 1: OOMKilled: it used more memory than its limit"
    assert [(node.role, node.rank) for node in status.nodes] == [(Role.SERVER, 0), (Role.TRAINER, 0), (Role.TRAINER, 1)]
    assert made.status(replace(handle, id="other-1")).state is State.LOST


def test_logs_have_no_holes_and_no_duplicates(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """While connections break in the middle of lines, pods come late, and the watch is too old to go on."""
    monkeypatch.setattr(pod_watch, "AGAIN_S", 0.01)
    made = bench.backend("jobset")
    handle = bench.submit(made)
    names = [pod["metadata"]["name"] for pod in bench.cluster.pods()]
    bench.server.log_cuts = [0, 2, 5, 1, 7, 3, 0, 11, 4] * 3
    bench.server.trouble("GET", "watch=true", "410")
    bench.server.trouble("GET", "watch=true", "500")
    bench.server.trouble("GET", "/log", "500")
    bench.server.trouble("GET", "/log", "drop")
    given: list[str] = []

    def follow() -> None:
        given.extend(f"{line.source} {line.text}" for line in made.logs(handle, LogsWanted(follow=True)))

    reader = threading.Thread(target=follow, daemon=True)
    reader.start()
    written = []
    for number, name in enumerate(names):
        bench.cluster.set_pod(name, "Running", {"running": {"startedAt": now()}})
        for step in range(20):
            lines = (f"[trainer {number}] step {step}", f"[trainer {number}] same")
            bench.cluster.say(name, *lines)
            written += [f"trainer.{number} step {step}", f"trainer.{number} same"]
    eventually(lambda: len(given) == len(written))
    for name in names:
        bench.cluster.say(name, "bye")
        bench.cluster.set_pod(name, "Succeeded", {"terminated": {"exitCode": 0, "finishedAt": now()}})
    bench.cluster.set_status("jobsets", {"conditions": [{"type": "Completed", "status": "True"}]})
    reader.join(PATIENCE_S)
    assert not reader.is_alive()
    written += ["launcher.server.0 bye", "launcher.trainer.0 bye", "launcher.trainer.1 bye"]
    assert sorted(given) == sorted(written)
    for number in range(3):
        own = [line for line in given if line.startswith(f"trainer.{number} ")]
        assert own == [line for line in written if line.startswith(f"trainer.{number} ")]

    everything = list(made.logs(handle, LogsWanted()))
    assert sorted(f"{line.source} {line.text}" for line in everything) == sorted(written)
    after = {line.source: line.position for line in everything if line.text != "bye"}
    assert [line.text for line in made.logs(handle, LogsWanted(after=after))] == ["bye"] * 3
    assert {line.source for line in made.logs(handle, LogsWanted(rank=1))} == {"trainer.1"}


def test_the_last_lines_are_asked_for_and_not_all(bench: Bench) -> None:
    made = bench.backend("jobset")
    handle = bench.submit(made)
    names = [pod["metadata"]["name"] for pod in bench.cluster.pods()]
    for number, name in enumerate(names):
        bench.cluster.set_pod(name, "Running", {"running": {"startedAt": now()}})
        bench.cluster.say(name, "LAUNCH INFO 2026-11-18 03:00:00,000 begin")
        for step in range(1500):
            bench.cluster.say(name, f"[trainer {number}] step {step}")

    def given(**more: Any) -> list[str]:
        lines = log_reading.lines(made, handle, LogsWanted(**more))
        return [f"{line.source} {line.text}" for line in lines if line.rank is not None]

    ends = [f"trainer.{number} step {step}" for number in range(3) for step in (1498, 1499)]
    bench.server.log_queries.clear()
    assert sorted(given(tail=2)) == ends
    assert {each["tailLines"] for each in bench.server.log_queries} == {"1000"}
    times = [line.time_s for line in made.logs(handle, LogsWanted())]
    assert times == sorted(times, key=float), "in the order of time"
    late = max(float(at) for at in times if at is not None) + 5
    bench.server.log_queries.clear()
    assert given(since_s=late) == []
    assert all("sinceTime" in each for each in bench.server.log_queries)
    bench.server.log_queries.clear()
    seen = []
    for line in log_reading.lines(made, handle, LogsWanted(tail=1, follow=True, rank=0)):
        seen.append(line.text)
        if len(seen) == 1:
            bench.cluster.say(names[0], "[trainer 0] new")
        else:
            break
    assert seen == ["step 1499", "new"]
    assert [each for each in bench.server.log_queries if "follow" not in each and "tailLines" not in each] == []
    assert any("sinceTime" in each for each in bench.server.log_queries if "follow" in each), (
        "what was read is not read again"
    )


def test_a_log_that_the_kubelet_has_rotated_is_said_to_be_cut(bench: Bench) -> None:
    made = bench.backend("job")
    handle = bench.submit(made)
    for pod in bench.cluster.pods():
        bench.cluster.set_pod(pod["metadata"]["name"], "Running", {"running": {"startedAt": "2020-01-01T00:00:00Z"}})
        bench.cluster.say(pod["metadata"]["name"], "[trainer 0] step 7")
    assert [line.is_note for line in made.logs(handle, LogsWanted())][:1] == [True]
    assert not any(line.is_note for line in log_reading.lines(made, handle, LogsWanted(tail=1)))


def test_cancel_ends_the_pods_and_is_remembered(bench: Bench) -> None:
    made = bench.backend("job")
    handle = bench.submit(made)
    names = [pod["metadata"]["name"] for pod in bench.cluster.pods()]
    for name in names:
        bench.cluster.set_pod(name, "Running", {"running": {"startedAt": now()}})
    bench.server.trouble("DELETE", "/jobs/", "lost")
    canceller = threading.Thread(target=made.cancel, args=(handle, 7.0), daemon=True)
    canceller.start()

    def ending() -> bool:
        return all(pod["metadata"].get("deletionGracePeriodSeconds") == 7 for pod in bench.cluster.all("pods"))

    eventually(ending)
    assert bench.backend("job").status(handle).state is State.STOPPING
    for name in names:
        bench.cluster.set_pod(name, "Failed")
        bench.cluster.delete(f"/api/v1/namespaces/training/pods/{name}", {})
    canceller.join(PATIENCE_S)
    assert not canceller.is_alive()
    assert made.status(handle).state is State.CANCELLED
    left = [
        each["metadata"]["name"]
        for plural in ("jobs", "secrets", "configmaps", "services")
        for each in bench.cluster.all(plural)
    ]
    assert left == [f"{RUN}-plan"]
    made.cancel(handle, 7.0)
    assert made.status(handle).state is State.CANCELLED


# ---- getting in


def test_no_token_no_entry(bench: Bench) -> None:
    bench.server.tokens = {"another"}
    with pytest.raises(UmiakError) as caught:
        bench.backend().check(PS)
    assert "401 Unauthorized" in told(caught.value)
    assert TOKEN not in told(caught.value)


def test_a_plugin_gives_tokens_and_is_asked_again(bench: Bench, tmp_path: Path) -> None:
    plugin = tmp_path / "bin" / "get-token"
    plugin.parent.mkdir()
    plugin.write_text(
        f"#!{sys.executable}\nimport json, os, pathlib\n"
        "assert json.loads(os.environ['KUBERNETES_EXEC_INFO'])['kind'] == 'ExecCredential'\n"
        "assert os.environ['REGION'] == 'north'\n"
        f"count = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "number = int(count.read_text()) + 1 if count.exists() else 1\n"
        "count.write_text(str(number))\n"
        "print(json.dumps({'kind': 'ExecCredential', 'status': {'token': f'given-{number}'}}))\n"
    )
    plugin.chmod(0o755)
    said = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./bin/get-token",
        "env": [{"name": "REGION", "value": "north"}],
    }
    bench.server.kubeconfig(bench.config, user={"exec": said})
    bench.server.tokens = {"given-2"}
    made = bench.backend()
    assert made.check(PS) == []
    assert (tmp_path / "count").read_text() == "2"
    plugin.write_text("#!/bin/sh\necho not logged in >&2\nexit 7\n")
    with pytest.raises(UmiakError) as caught:
        bench.backend().check(PS)
    assert "exit status 7: not logged in" in told(caught.value)
    plugin.unlink()
    with pytest.raises(UmiakError, match="gave no credentials"):
        bench.backend().check(PS)


def test_certificates(bench: Bench, tmp_path: Path) -> None:
    import ssl

    authority, other = trustme.CA(), trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    own = authority.issue_cert("person@example.org")

    def data(pem: bytes) -> str:
        return base64.b64encode(pem).decode()

    user = {
        "token": TOKEN,
        "client-certificate-data": data(own.cert_chain_pems[0].bytes()),
        "client-key-data": data(own.private_key_pem.bytes()),
    }
    with KubeServer(strict(), {TOKEN}, context) as server:
        known = {"certificate-authority-data": data(authority.cert_pem.bytes())}
        server.kubeconfig(bench.config, user=user, **known)
        assert bench.backend().check(PS) == []
        server.kubeconfig(bench.config, user=user, **{"insecure-skip-tls-verify": True})
        assert bench.backend().check(PS) == []
        server.kubeconfig(bench.config, user=user, **{"certificate-authority-data": data(other.cert_pem.bytes())})
        with pytest.raises(UmiakError, match="does not answer") as caught:
            bench.backend().check(PS)
        assert "not signed by the authority in the kubeconfig" in told(caught.value)
        server.kubeconfig(bench.config, user=user, **known, **{"tls-server-name": "kubernetes"})
        with pytest.raises(UmiakError, match="does not answer") as caught:
            bench.backend().check(PS)
        assert "another name" in told(caught.value)
        server.kubeconfig(bench.config, user={**user, "client-key-data": data(b"-----BEGIN PRIVATE KEY-----")}, **known)
        with pytest.raises(UmiakError, match="can't be used") as caught:
            bench.backend().check(PS)


def test_a_pod_uses_its_own_account(bench: Bench, tmp_path: Path) -> None:
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text(TOKEN)
    (account / "namespace").write_text("inside\n")
    environ = {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}

    found = access.find(environ, account=str(account))
    assert (found.server, found.namespace) == ("https://10.96.0.1:443", "inside")
    assert access.KubeCredentials(found, environ).headers() == {"Authorization": f"Bearer {TOKEN}"}
    with pytest.raises(UmiakError, match="there is no kubeconfig"):
        access.find(environ, context="x", account=str(account))
