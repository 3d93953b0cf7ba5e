"""How a run in a cluster is, in words; which lines of its logs were given; what kubeconfigs say, and how they are put together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from umiak.core.cluster import Role
from umiak.core.problem import UmiakError
from umiak.core.status import State
from umiak.kube import kubeconfig
from umiak.kube.times import nanoseconds_of, seconds_of, text_of
from umiak.schema.findings import Place
from umiak.schema.yaml_tree import Section
from umiak.submit import configuration, place_record
from umiak.submit.backend import LogsWanted, Secrets
from umiak.submit.backends.kubernetes import backend, state
from umiak.submit.backends.kubernetes.log_lines import PodSource, Resumed, SeenLines, StampedLine, stamped
from umiak.submit.backends.kubernetes.state import KubeFacts, status_of
from umiak.submit.places import NamedPlace
from umiak.submit.states import STATES

T = "2026-11-16T18:45:{:02d}Z"


def pod(
    index: int, phase: str, container: dict[str, Any] | None = None, role: str = "trainer", **status: Any
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"ctr-1-{role}-{index}",
            "labels": {"umiak/role": role},
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "umiak", "resources": {"limits": {"memory": "4Gi"}}}]},
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": "umiak", "image": "paddle:3.3", "state": container or {}}],
            **status,
        },
    }


def ended(
    index: int, code: int, at: int, reason: str = "Error", role: str = "trainer", **status: Any
) -> dict[str, Any]:
    terminated = {"exitCode": code, "finishedAt": T.format(at), "startedAt": T.format(1), "reason": reason}
    return pod(index, "Failed" if code else "Succeeded", {"terminated": terminated}, role, **status)


def running(index: int, role: str = "trainer") -> dict[str, Any]:
    return pod(index, "Running", {"running": {"startedAt": T.format(5)}}, role)


def unschedulable(index: int) -> dict[str, Any]:
    row = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes: no nvidia.com/gpu",
    }
    made = pod(index, "Pending", conditions=[row])
    del made["spec"]["nodeName"]
    return made


def job(*conditions: tuple[str, str, str], kind: str = "Job", **metadata: Any) -> dict[str, Any]:
    rows = [
        {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": T.format(30)}
        for kind, reason, message in conditions
    ]
    return {"kind": kind, "metadata": {"creationTimestamp": T.format(0), **metadata}, "status": {"conditions": rows}}


def paddlejob(phase: str, *conditions: tuple[str, str, str]) -> dict[str, Any]:
    rows = [{"type": kind, "status": "True", "reason": why, "message": text} for kind, why, text in conditions]
    return {"kind": "PaddleJob", "metadata": {}, "status": {"phase": phase, "conditions": rows}}


FAILED = ("Failed", "PodFailurePolicy", "Container umiak failed with exit code 3")
RECORD = {"metadata": {"annotations": {"umiak/cancelled": T.format(40)}}}


@pytest.mark.parametrize(
    ("workloads", "pods", "expected", "word", "reason"),
    [
        ([job()], [], 2, "Pending", ""),
        (
            [job()],
            [unschedulable(0), unschedulable(1)],
            2,
            "Unschedulable",
            "trainer 0 and 1 more: Unschedulable: no node takes the pod (0/3 nodes: no nvidia.com/gpu)",
        ),
        ([job()], [pod(0, "Pending", {"waiting": {"reason": "ContainerCreating"}})], 1, "Starting", ""),
        (
            [job()],
            [pod(0, "Pending", {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off"}})],
            1,
            "Starting",
            "trainer 0: ImagePullBackOff: the image can't be pulled: paddle:3.3 (Back-off)",
        ),
        (
            [job()],
            [running(0), unschedulable(1)],
            2,
            "Starting",
            "trainer 1: Unschedulable: no node takes the pod (0/3 nodes: no nvidia.com/gpu)",
        ),
        ([job()], [running(0), running(1)], 2, "Running", ""),
        (
            [job()],
            [running(0), running(1), unschedulable(2)],
            2,
            "Running",
            "trainer 2: Unschedulable: no node takes the pod (0/3 nodes: no nvidia.com/gpu)",
        ),
        ([job()], [ended(0, 137, 9)], 1, "Restarting", "trainer 0: exit code 137"),
        ([job(("Suspended", "JobSuspended", "Job suspended"))], [], 2, "Suspended", "JobSuspended: Job suspended"),
        ([job(("FailureTarget", "x", "y"))], [running(0)], 1, "Completing", ""),
        ([job(("Complete", "", ""))], [ended(0, 0, 9)], 1, "Complete", ""),
        ([job(("Completed", "", ""), kind="JobSet")], [ended(0, 0, 9)], 1, "Complete", ""),
        ([job(("Complete", "", "")), job()], [ended(0, 0, 9), running(0, "server")], 2, "Completing", ""),
        ([job(FAILED), job()], [ended(0, 3, 9)], 2, "Failed", "trainer 0: exit code 3"),
        ([job(("Failed", "DeadlineExceeded", "was active too long"))], [], 2, "Failed", "the time limit is over"),
        ([job(deletionTimestamp=T.format(9))], [running(0)], 1, "Terminating", "somebody deletes it"),
        ([paddlejob("Running")], [running(0)], 1, "Running", ""),
        (
            [paddlejob("Suspended", ("Suspended", "Queued", "queue team: insufficient quota"))],
            [],
            2,
            "Suspended",
            "Queued: queue team: insufficient quota",
        ),
        ([paddlejob("Completed")], [ended(0, 0, 9)], 1, "Complete", ""),
        ([paddlejob("Failed")], [ended(0, 9, 9)], 1, "Failed", "trainer 0: exit code 9"),
        ([], [], 1, "NotFound", "the cluster has deleted it, and how it ended is not known"),
    ],
)
def test_states(workloads: list[Any], pods: list[Any], expected: int, word: str, reason: str) -> None:
    found = status_of(KubeFacts(workloads=tuple(workloads), pods=tuple(pods), expected=expected))
    assert (found.said, found.reason) == (word, reason)
    assert found.state is STATES["kubernetes"][word]


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (ended(0, 137, 9, "OOMKilled"), "OOMKilled: it used more memory than its limit of 4Gi"),
        (
            pod(0, "Failed", reason="Evicted", message="The node was low on memory"),
            "Evicted: the node took the pod away (The node was low on memory)",
        ),
        (
            ended(
                0,
                143,
                9,
                conditions=[
                    {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": ""}
                ],
            ),
            "PreemptionByScheduler: a pod of higher priority took its place",
        ),
        (ended(0, 128, 9, "StartError"), "StartError: the program can't be started"),
        (
            pod(0, "Pending", {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "x" not found'}}),
            'CreateContainerConfigError: something that the pod needs is missing (a Secret or a ConfigMap) (secret "x" not found)',
        ),
        (ended(0, 3, 9), "exit code 3"),
        (running(0), ""),
    ],
)
def test_pods_say_in_words_what_is_wrong(made: dict[str, Any], words: str) -> None:
    assert state.node_of(made).reason == words


def test_the_exit_code_is_that_of_the_first_that_failed() -> None:
    pods = (ended(0, 143, 12), ended(1, 7, 12), ended(2, 143, 13), ended(3, 1, 15))
    found = status_of(KubeFacts(workloads=(job(FAILED),), pods=pods))
    assert (found.exit_code, found.exit_status, found.reason) == (7, 7, "trainer 1: exit code 7")
    assert (found.submitted_s, found.started_s, found.ended_s) == tuple(
        seconds_of(T.format(each)) for each in (0, 1, 30)
    )
    evicted = status_of(KubeFacts(workloads=(job(FAILED),), pods=(pod(0, "Failed", reason="Evicted"),)))
    assert (evicted.exit_code, evicted.exit_status) == (None, 1)


def test_a_cancelled_run_is_remembered() -> None:
    gone = status_of(KubeFacts(record=RECORD))
    assert (gone.state, gone.ended_s) == (State.CANCELLED, seconds_of(T.format(40)))
    assert status_of(KubeFacts(record=RECORD, pods=(running(0),))).state is State.STOPPING
    assert status_of(KubeFacts(record=RECORD, workloads=(job(FAILED),))).state is State.STOPPING


def test_pods_of_a_paddlejob_are_told_by_their_names() -> None:
    found = state.node_of({"metadata": {"name": "ctr-1-worker-3", "labels": {"umiak/role": "trainer"}}, "status": {}})
    assert (found.role, found.rank, found.state) == (Role.TRAINER, 3, State.QUEUED)


# ---- lines


def test_times_are_exact() -> None:
    assert nanoseconds_of("2026-11-16T18:45:18.123456789Z") % 10**9 == 123456789
    assert nanoseconds_of("2026-11-17T02:45:18.5+08:00") == nanoseconds_of("2026-11-16T18:45:18.500Z")
    assert text_of(int(seconds_of("2026-11-16T18:45:18Z"))) == "2026-11-16T18:45:18Z"


def test_no_line_twice_and_none_missing_when_a_log_is_taken_up_again() -> None:
    """Also with equal times, equal texts, times out of order, and after the log was rotated."""
    at = nanoseconds_of(T.format(10))
    log = [
        StampedLine(at=at + step, text=text)
        for step, text in [
            (0, "a"),
            (0, "a"),
            (5, "b"),
            (3, "late"),
            (10**9, "c"),
            (10**9, "c"),
            (10**9, "d"),
            (4 * 10**9, "e"),
            (4 * 10**9, "e"),
        ]
    ]
    for cut in range(len(log) + 1):
        # A log that is rotated between two lines of the very same time and text can't be told from one that has the line once.
        for rotated in [each for each in range(cut + 1) if not each or log[each - 1 : each] != log[each : each + 1]]:
            seen = SeenLines()
            given = [line for line in log[:cut] if seen.is_new(line)]
            since = seen.since()
            left = [line for line in log[rotated:] if not since or line.at >= nanoseconds_of(since)]
            given += [line for line in left if seen.is_new(line)]
            assert sorted(given, key=log.index) == log
            assert len(given) == len(log)


def test_lines_belong_to_workers_and_launchers() -> None:
    source = PodSource(pod="p", made=T.format(1), role=Role.TRAINER, rank=1)

    def lines(wanted: LogsWanted) -> list[Any]:
        reader = Resumed(source, wanted)
        raw = [b"%s [trainer 9] step 1\n", b"%s [trainer 8] step 1\n", b"%s note: 2 nodes\n", b"%s [trainer 9] step 2"]
        made = [reader.line(stamped(each % T.format(3).encode())) for each in raw]
        return [each for each in made if each]

    everything = lines(LogsWanted())
    assert [(each.source, each.text, each.rank) for each in everything] == [
        ("trainer.9", "step 1", 9),
        ("trainer.8", "step 1", 8),
        ("launcher.trainer.1", "note: 2 nodes", None),
        ("trainer.9", "step 2", 9),
    ]
    assert [each.text for each in lines(LogsWanted(rank=8))] == ["step 1"]
    assert lines(LogsWanted(role=Role.SERVER)) == []
    after = {each.source: each.position for each in everything[:3]}
    assert [each.text for each in lines(LogsWanted(after=after))] == ["step 2"]
    later = {"trainer.9": f"{T.format(2)}|newer|0#1", "trainer.8": f"{T.format(0)}|older|0#1"}
    assert [each.source for each in lines(LogsWanted(after=later))] == ["trainer.8", "launcher.trainer.1"]


# ---- kubeconfigs

SECRET = "c2VjcmV0LWtleQ=="


def config(**more: Any) -> dict[str, Any]:
    return {
        "clusters": [{"name": "k", "cluster": {"server": "https://10.0.0.1:6443/", "certificate-authority": "ca.crt"}}],
        "users": [
            {"name": "me", "user": {"client-key-data": SECRET, "client-certificate-data": "Y2VydA==", "token": "t0ken"}}
        ],
        "contexts": [{"name": "prod", "context": {"cluster": "k", "user": "me", "namespace": "training"}}],
        **more,
    }


def test_a_context_says_where_and_who() -> None:
    data = kubeconfig.located(kubeconfig.parse(json.dumps(config()), "f"), "/etc/kube")
    access = kubeconfig.access_of(data, "", "f")
    assert (access.server, access.namespace, access.context) == ("https://10.0.0.1:6443", "training", "prod")
    assert access.ca_file == "/etc/kube/ca.crt"
    assert access.secrets["token"] == "t0ken"
    assert SECRET not in repr(access)
    assert "t0ken" not in repr(access)


def test_what_clouds_hand_out_is_read() -> None:
    """As a file in YAML or JSON, and as the answers of ACK's and CCE's interfaces."""
    text = json.dumps(config())
    import yaml

    for each in (
        text,
        yaml.safe_dump(config()),
        json.dumps({"config": text, "expiration": "x"}),
        json.dumps({"kubeConfigType": "vpc", "kubeConfig": yaml.safe_dump(config())}),
    ):
        assert kubeconfig.contexts(kubeconfig.parse(each, "f")) == ["prod"]


def test_several_files_are_one() -> None:
    other = config(contexts=[{"name": "dev", "context": {}}, {"name": "prod", "context": {"cluster": "other"}}])
    found = kubeconfig.joined([config(), {**other, "current-context": "dev"}])
    assert kubeconfig.contexts(found) == ["prod", "dev"]
    assert found["current-context"] == "dev"
    assert kubeconfig.server_of(found, "prod") == "https://10.0.0.1:6443/"


@pytest.mark.parametrize(
    ("text", "context", "words"),
    [
        ("[]", "", "expected a kubeconfig"),
        ("a: 1", "", "no clusters, users and contexts"),
        (json.dumps(config()), "pord", "did you mean `prod`"),
        (json.dumps(config(contexts=[])), "", "no current context"),
        (json.dumps(config(users=[])), "", "names what is not there: user me"),
        (json.dumps(config(clusters="x")), "", "clusters is not a list"),
        (
            json.dumps(config(clusters=[{"name": "k", "cluster": {"server": "10.0.0.1"}}])),
            "",
            "not the address of an API",
        ),
        (json.dumps(config(users=[{"name": "me", "user": {"auth-provider": {"name": "gcp"}}}])), "", "auth-provider"),
        (f"users: [\n  token: {SECRET}", "", "not YAML: f:"),
    ],
)
def test_what_is_wrong_with_a_kubeconfig(text: str, context: str, words: str) -> None:
    with pytest.raises(UmiakError) as caught:
        kubeconfig.access_of(kubeconfig.parse(text, "f"), context, "f")
    said = "\n".join(line for problem in caught.value.problems for line in problem.lines())
    assert words in said
    assert SECRET not in said


def test_a_context_is_merged_under_a_name_of_its_own() -> None:
    own = config(**{"current-context": "prod"})
    brought = {
        "clusters": [{"name": "k", "cluster": {"server": "https://1.2.3.4"}}],
        "users": [{"name": "me", "user": {"token": "other"}}],
        "contexts": [{"name": "external", "context": {"cluster": "k", "user": "me"}}],
    }
    made = kubeconfig.merged(own, brought, "external", as_name="cce", namespace="jobs")
    assert kubeconfig.contexts(made) == ["prod", "cce"]
    assert made["current-context"] == "prod"
    access = kubeconfig.access_of(made, "cce", "f")
    assert (access.server, access.namespace, access.secrets) == ("https://1.2.3.4", "jobs", Secrets(token="other"))
    assert kubeconfig.access_of(made, "prod", "f").secrets["token"] == "t0ken"
    again = kubeconfig.merged(made, brought, "external", as_name="cce", is_current=True)
    assert kubeconfig.contexts(again) == ["prod", "cce"]
    assert again["current-context"] == "cce"


def test_a_run_is_kept_with_the_context_and_namespace_of_then(tmp_path: Path) -> None:
    """So that another current context, or another directory, does not lead to another cluster."""
    contexts = [
        {"name": "prod", "context": {"cluster": "k", "user": "me", "namespace": "training"}},
        {"name": "dev", "context": {"cluster": "k", "user": "me"}},
    ]
    file = tmp_path / "config"
    place = NamedPlace(name="k", backend="kubernetes", settings=Section(place=Place(source="umiak.toml")))
    at = configuration.context({"HOME": str(tmp_path), "KUBECONFIG": str(file)}, str(tmp_path))
    for current, namespace in (("prod", "training"), ("dev", "default")):
        file.write_text(json.dumps(config(contexts=contexts, **{"current-context": current})))
        pinned = backend.make(place, at).pinned()
        assert pinned == {"context": current, "namespace": namespace, "kubeconfig": str(file)}
        kept = place_record.place_of(place_record.plain_of(place, pinned))
        file.write_text(json.dumps(config(contexts=contexts, **{"current-context": "dev"})))
        later = configuration.context({"HOME": str(tmp_path)}, "/")
        assert backend.make(kept, later).pinned() == pinned
