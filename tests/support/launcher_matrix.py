"""Every way to start a training in pods: the cells of a matrix, their manifests, and what became of them in a real cluster.

    {PaddleJob, Kubeflow's} x {Paddle's launcher, umiak launch, a script alone} x {collective, servers, elastic, elastic with etcd}
    x {alone, a sidecar, a native sidecar, an init container}

`EXPECTED` says what comes of each; it is the table of the operator's guide as well (`table()`). Jobs have two workers, and one server where
there are servers. A worker writes down what it was told, and meets the others at the first endpoint of the list: the first one waits
for as many as there should be, so that a job that is in parts does not end.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from testbed import etcd
from testbed.kubernetes.cluster import Cluster
from tests.support.cluster_jobs import ENDED, ClusterJobs, paddle_job, template

IMAGE = "registry.example/training:v1"
AT_ONCE = 8
"""Jobs, of two or three pods each."""
LONGEST_S = 1500
FACTORS = (
    ("batch", "kubeflow"),
    ("stock", "umiak", "plain"),
    ("collective", "servers", "elastic", "etcd"),
    ("alone", "sidecar", "native", "init"),
)
WORKER = """
import glob, json, os, socket, sys, time
said = os.environ.get
out, pod = sys.argv[1], socket.gethostname()
size = int(said("PADDLE_TRAINERS_NUM") or 0)
listed = [each for each in (said("PADDLE_TRAINER_ENDPOINTS") or "").split(",") if each]

def write(name, **more):
    path = os.path.join(out, name + "-" + pod + "-" + str(os.getpid()))
    with open(path + ".part", "w") as file:
        json.dump(more, file)
    os.rename(path + ".part", path + ".json")

if said("TRAINING_ROLE") == "PSERVER":
    door = socket.create_server(("", int(said("PADDLE_PORT"))))  # trainers are started when it accepts connections
    write("server", trainers=size)
    while len(glob.glob(os.path.join(out, "trainer-*.json"))) < size:
        time.sleep(0.2)
    sys.exit(0)
if (size > 1 or int((said("PADDLE_NNODES") or "1").split(":")[0]) > 1) and len(listed) != max(size, 2):
    print("told to be one of several, and not where they are", flush=True)
    sys.exit(3)
rank = int(said("PADDLE_TRAINER_ID") or 0)
if size > 1:
    host, port = listed[0].rsplit(":", 1)
    if rank == 0:
        with socket.create_server(("", int(port))) as door:
            ranks = [0]
            while len(ranks) < size:
                peer, _ = door.accept()
                with peer:
                    ranks.append(int(peer.recv(16)))
    else:
        ranks = [rank]
        while True:
            try:
                with socket.create_connection((host, int(port)), 5) as peer:
                    peer.sendall(str(rank).encode())
                break
            except OSError:
                time.sleep(0.2)
    write("trainer", rank=rank, size=size, ranks=sorted(ranks))
else:
    write("trainer", rank=rank, size=1, ranks=[0])
print("trained", flush=True)
"""


class Cell(NamedTuple):
    """One way."""

    api: str
    launcher: str
    mode: str
    company: str

    @property
    def name(self) -> str:
        return "-".join((self.api[0], self.launcher, self.mode, self.company))


class Outcome(NamedTuple):
    """What came of it. Numbers are 0 where the job has failed."""

    phase: str
    trainers: int = 0
    servers: int = 0
    why: str = ""
    """A word of the reason, in the condition of the status that warns, or in the last words of a container."""


CELLS = tuple(Cell(*each) for each in itertools.product(*FACTORS))
TWO, WITH_SERVER = Outcome("Completed", 2), Outcome("Completed", 2, 1)
NO_LAUNCHER = Outcome("Failed", why="UM-PDJ-071")
NO_EFFECT = Outcome("Completed", 2, why="UM-PDJ-011")
EXPECTED: dict[tuple[str, str, str], Outcome] = {
    ("batch", "stock", "collective"): TWO,
    ("batch", "stock", "servers"): WITH_SERVER,
    ("batch", "stock", "elastic"): TWO,
    ("batch", "stock", "etcd"): Outcome("Failed", why="etcd3"),
    ("batch", "umiak", "collective"): TWO,
    ("batch", "umiak", "servers"): WITH_SERVER,
    ("batch", "umiak", "elastic"): TWO,
    ("batch", "umiak", "etcd"): TWO,
    ("batch", "plain", "collective"): TWO,
    ("batch", "plain", "servers"): WITH_SERVER,
    ("batch", "plain", "elastic"): NO_LAUNCHER,
    ("batch", "plain", "etcd"): NO_LAUNCHER,
    ("kubeflow", "stock", "collective"): TWO,
    ("kubeflow", "stock", "servers"): Outcome("Completed", 3, 3, why="UM-PDJ-072"),
    ("kubeflow", "stock", "elastic"): NO_EFFECT,
    ("kubeflow", "stock", "etcd"): NO_EFFECT,
    ("kubeflow", "umiak", "collective"): TWO,
    ("kubeflow", "umiak", "servers"): WITH_SERVER,
    ("kubeflow", "umiak", "elastic"): NO_EFFECT,
    ("kubeflow", "umiak", "etcd"): NO_EFFECT,
    ("kubeflow", "plain", "collective"): NO_LAUNCHER,
    ("kubeflow", "plain", "servers"): NO_LAUNCHER,
    ("kubeflow", "plain", "elastic"): NO_LAUNCHER,
    ("kubeflow", "plain", "etcd"): NO_LAUNCHER,
}


def fails(cell: Cell) -> bool:
    """Whether its job does, so that its pods are kept, for their logs."""
    return EXPECTED[cell[:3]].phase == "Failed"


def covering() -> list[Cell]:
    """Few cells in which every pair of values of two factors occurs."""
    left = {pair for cell in CELLS for pair in _pairs(cell)}
    chosen: list[Cell] = []
    while left:
        best = max(CELLS, key=lambda cell: len(left & _pairs(cell)))
        chosen.append(best)
        left -= _pairs(best)
    return chosen


def _pairs(cell: Cell) -> set[tuple[tuple[int, str], ...]]:
    return set(itertools.combinations(enumerate(cell), 2))


def manifest(cell: Cell, folder: Path) -> dict[str, Any]:
    """The job of a cell. Addresses and names of pods take turns; Paddle's launcher needs addresses, except in elastic jobs."""
    script, out = folder.parent / "worker.py", folder
    words = {
        "stock": ("python", "-m", "paddle.distributed.launch", "--nproc_per_node", "1", "--log_dir", "/tmp/log"),
        "umiak": ("python", "-m", "umiak", "launch", "--nproc_per_node", "1", "--log_dir", "/tmp/log"),
        "plain": ("python",),
    }[cell.launcher]
    patient = {
        "UMIAK_HEARTBEAT_TIMEOUT": "60"
    }  # a busy machine may keep a launcher silent for more than the 5 seconds of the default
    pod = template(*words, str(script), str(out), shared=folder.parent, env=patient, restartPolicy="Never")
    spec = pod["spec"]
    spec["terminationGracePeriodSeconds"] = 0
    spec["containers"][0]["terminationMessagePolicy"] = "FallbackToLogsOnError"
    sidecar = {"name": "a-sidecar", "image": IMAGE, "command": ["sleep", "3600"]}
    if cell.company == "sidecar":
        spec["containers"] = [sidecar, *spec["containers"]]
    elif cell.company == "native":
        spec["initContainers"] = [{**sidecar, "restartPolicy": "Always"}]
    elif cell.company == "init":
        spec["initContainers"] = [{"name": "fetch", "image": IMAGE, "command": ["true"]}]
    if cell.api == "kubeflow":
        return _of_kubeflow(cell, pod)
    by_name = cell.company in ("sidecar", "init") and (cell.launcher != "stock" or cell.mode in ("elastic", "etcd"))
    fields: dict[str, Any] = {"elastic": 1} if cell.mode in ("elastic", "etcd") else {}
    roles = {"worker": (2, pod), **({"ps": (1, pod)} if cell.mode == "servers" else {})}
    return paddle_job(
        cell.name,
        roles=roles,
        intranet="Service" if by_name else "PodIP",
        cleanPodPolicy="Never" if fails(cell) else "Always",
        runPolicy={"backoffLimit": 0, "activeDeadlineSeconds": LONGEST_S},
        **fields,
    )


def _of_kubeflow(cell: Cell, pod: dict[str, Any]) -> dict[str, Any]:
    roles = {"Worker": {"replicas": 2, "restartPolicy": "Never", "template": pod}}
    if cell.mode == "servers":
        roles["Master"] = {"replicas": 1, "restartPolicy": "Never", "template": pod}
    policy = {"cleanPodPolicy": "None" if fails(cell) else "All", "backoffLimit": 0, "activeDeadlineSeconds": LONGEST_S}
    spec: dict[str, Any] = {"paddleReplicaSpecs": roles, "runPolicy": policy}
    if cell.mode in ("elastic", "etcd"):
        spec["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 2}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PaddleJob", "metadata": {"name": cell.name}, "spec": spec}


def run(cluster: Cluster, cells: Sequence[Cell], shared: Path) -> Iterator[tuple[Cell, Outcome, str]]:
    """Run cells, some at a time; each with its outcome and what its pods wrote and said. Jobs with etcd come last: that is a flag of the operator."""
    (shared / "worker.py").write_text(WORKER)
    jobs = ClusterJobs(cluster, cluster.namespace("matrix"))
    for has_etcd in (False, True):
        part = [cell for cell in cells if (cell.mode == "etcd") is has_etcd]
        if part:
            cluster.deploy_operator("--kubeflow", *(("--etcd_server", _store(jobs)) if has_etcd else ()))
            yield from _run(jobs, part, shared)


def _run(jobs: ClusterJobs, cells: list[Cell], shared: Path) -> Iterator[tuple[Cell, Outcome, str]]:
    waiting, running = list(cells), dict[str, Cell]()
    deadline = time.monotonic() + LONGEST_S
    while waiting or running:
        assert time.monotonic() < deadline, f"not within {LONGEST_S} s: {sorted(running)}\n{jobs.story()}"
        new = waiting[: AT_ONCE - len(running)]
        del waiting[: len(new)]
        for cell in new:
            (shared / cell.name).mkdir()
            (shared / cell.name).chmod(0o777)
        if new:
            items = [manifest(cell, shared / cell.name) for cell in new]
            jobs.kubectl("create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
            running |= {cell.name: cell for cell in new}
        for name, status in _statuses(jobs).items():
            if name in running and status.get("phase") in ENDED:
                cell = running.pop(name)
                logs = _last_words(jobs, name) if status["phase"] == "Failed" else ""
                yield cell, *outcome(cell, status, logs, shared / name)
        time.sleep(0.5)


def _last_words(jobs: ClusterJobs, name: str) -> str:
    """Of containers that failed, and may have been started again since."""
    rows = [pod["status"] for each, pod in jobs.pods().items() if each.startswith(f"{name}-")]
    return json.dumps([row.get("containerStatuses") for row in rows])


def _statuses(jobs: ClusterJobs) -> dict[str, dict[str, Any]]:
    found = {}
    for group in ("batch.paddlepaddle.org", "kubeflow.org"):
        path = f"/apis/{group}/v1/namespaces/{jobs.namespace}/paddlejobs"
        found |= {
            each["metadata"]["name"]: each.get("status", {}) for each in jobs.cluster.request("GET", path)["items"]
        }
    return found


def outcome(cell: Cell, status: dict[str, Any], logs: str, folder: Path) -> tuple[Outcome, str]:
    """What the workers wrote, as one job; 0 of them if they were not one."""
    notes = {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}
    story = json.dumps({"status": status, "notes": notes}, indent=1) + logs
    trainers = [each for name, each in notes.items() if name.startswith("trainer")]
    servers = [each for name, each in notes.items() if name.startswith("server")]
    count = len(trainers)
    is_one = (
        sorted(each["rank"] for each in trainers) == list(range(count))
        and {each["size"] for each in trainers} == {count}
        and next(each["ranks"] for each in trainers if each["rank"] == 0) == list(range(count))
        and {each["trainers"] for each in servers} <= {count}
    )
    said = json.dumps(status.get("conditions")) + logs
    why = EXPECTED[cell[:3]].why
    why = why if why in said else ""
    if status["phase"] != "Completed":
        return Outcome(status["phase"], why=why), story
    return Outcome(status["phase"], count if is_one else 0, len(servers), why), story


def _store(jobs: ClusterJobs) -> str:
    """An etcd in a pod; its name in the cluster's DNS."""
    program = etcd.program("etcd")
    assert program
    address = f"store.{jobs.namespace}.svc.cluster.local:2379"
    words = [program, "--data-dir", "/tmp/data", "--listen-client-urls", "http://0.0.0.0:2379"]
    words += ["--advertise-client-urls", f"http://{address}", "--listen-peer-urls", "http://127.0.0.1:2380"]
    container = {"name": "etcd", "image": IMAGE, "command": words, "resources": {"requests": {"cpu": "100m"}}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "store", "labels": {"app": "store"}}, "spec": spec}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "store"}}
    service |= {"spec": {"selector": {"app": "store"}, "ports": [{"port": 2379}]}}
    jobs.kubectl("create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod, service]}))
    jobs.until(lambda: jobs.pods()["store"]["status"]["phase"] == "Running", "etcd runs")
    return address


# ---- for people

WORDS = {
    "stock": "`python -m paddle.distributed.launch`",
    "umiak": "`umiak launch`",
    "plain": "a script alone",
    "collective": "collective",
    "servers": "`ps` or Master",
    "elastic": "elastic",
    "etcd": "elastic, etcd",
}


def table() -> str:
    """The outcomes, as the guide has them."""
    launchers = FACTORS[1]
    lines = [
        "| job | mode | " + " | ".join(WORDS[each] for each in launchers) + " |",
        "|---" * (2 + len(launchers)) + "|",
    ]
    for api, mode in itertools.product(FACTORS[0], FACTORS[2]):
        cells = [_shown(EXPECTED[api, launcher, mode]) for launcher in launchers]
        name = "PaddleJob" if api == "batch" else "Kubeflow's"
        lines.append(f"| {name} | {WORDS[mode]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _shown(found: Outcome) -> str:
    if found == NO_LAUNCHER:
        return "refused by Paddle; warned: UM-PDJ-071"
    if found.phase == "Failed":
        return f"fails without the package {found.why}"
    parts = [
        f"{found.trainers} trainers",
        *([f"{found.servers} server" + "s" * (found.servers > 1)] * bool(found.servers)),
    ]
    return "one job: " + ", ".join(parts) + (f"; warned: {found.why}" if found.why else "")
