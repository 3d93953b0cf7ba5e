"""Bodies of pods, Services, ConfigMaps and PodGroups: names, labels and variables are those that the old operators gave."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import pytest

from tests.support import launcher_matrix
from tests.support.operator_cluster import OperatorCluster, manifest
from tests.support.paths import ROOT
from umiak.contracts import paddlejob as contract
from umiak.operator.objects import quantities
from umiak.operator.objects.pod_groups import least_resources, pod_resources
from umiak.operator.values import ClusterFacts, CreateObject
from umiak.paddlejob.reading import read
from umiak.paddlejob.resource import JobPhase
from umiak.platforms import detect


def made(cluster: OperatorCluster) -> dict[tuple[str, str], dict[str, Any]]:
    """Everything that is created until the job runs, as it was sent."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for _ in range(20):
        decision = cluster.decide()
        assert decision
        found |= {(each.kind, each.name): each.body for each in decision.actions if isinstance(each, CreateObject)}
        cluster.operate(is_due=True)
        cluster.kubelets()
    assert cluster.report.phase is JobPhase.RUNNING
    return found


def variables(body: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in body["spec"]["containers"][0]["env"]}


def kubeflow(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "paddle", "image": "demo"}, {"name": "side", "image": "side"}]}}
    role = {"replicas": 2, "template": template}
    specs = {"Worker": role, **spec.pop("more", {})}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": "kf"},
        "spec": {"paddleReplicaSpecs": specs, **spec},
    }


def test_a_pod_with_addresses() -> None:
    body = made(OperatorCluster(manifest(ps=1, worker=2)))[("Pod", "wide-worker-1")]
    uid = body["metadata"]["ownerReferences"][0]["uid"]
    assert body["metadata"] == {
        "name": "wide-worker-1",
        "namespace": "default",
        "labels": {
            "paddle-res-name": "wide-worker-1",
            "paddle-res-type": "worker",
            "batch.paddlepaddle.org/job-name": "wide",
        },
        "annotations": {
            "paddle-resource": "worker",
            "batch.paddlepaddle.org/index": "1",
            "batch.paddlepaddle.org/attempt": "0",
            "batch.paddlepaddle.org/digest": body["metadata"]["annotations"]["batch.paddlepaddle.org/digest"],
            "batch.paddlepaddle.org/main-container": "paddle",
            "kubectl.kubernetes.io/default-container": "paddle",
        },
        "ownerReferences": [
            {
                "apiVersion": "batch.paddlepaddle.org/v1",
                "kind": "PaddleJob",
                "name": "wide",
                "uid": uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    key = f"PADDLEJOB_ATTEMPT_{uid.replace('-', '')[:8]}_0"
    assert body["spec"] == {
        "hostname": "wide-worker-1",
        "subdomain": "wide-worker-1",
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "paddle",
                "image": "demo:v1",
                "envFrom": [{"configMapRef": {"name": "wide"}}],
                "env": [
                    {
                        "name": "POD_IP",
                        "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}},
                    },
                    {"name": "PADDLE_TRAINER_ID", "value": "1"},
                    {"name": "TRAINING_ROLE", "value": "TRAINER"},
                    {"name": "PADDLE_TRAINING_ROLE", "value": "TRAINER"},
                    {"name": "PADDLEJOB_ATTEMPT", "valueFrom": {"configMapKeyRef": {"name": "wide", "key": key}}},
                ],
            }
        ],
    }


def test_a_pod_with_a_name() -> None:
    objects = made(OperatorCluster(manifest(ps=1, worker=1, heter=1, intranet="Service")))
    pod = objects[("Pod", "wide-heter-0")]
    assert variables(pod)["POD_IP"] == "wide-heter-0"
    assert variables(pod)["TRAINING_ROLE"] == "HETER"
    assert pod["spec"]["containers"][0]["ports"] == [{"containerPort": 36000, "protocol": "TCP"}]
    policies = {name: body["spec"]["restartPolicy"] for (kind, name), body in objects.items() if kind == "Pod"}
    assert policies == {"wide-ps-0": "Never", "wide-worker-0": "OnFailure", "wide-heter-0": "Never"}
    service = objects[("Service", "wide-ps-0")]
    assert service["spec"]["selector"] == {"paddle-res-name": "wide-ps-0"}
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == ("None", True)
    assert [(port["name"], port["port"]) for port in service["spec"]["ports"]] == [
        (f"p-{number}", 36000 + number) for number in range(20)
    ]
    told = objects[("ConfigMap", "wide")]
    assert told["metadata"]["labels"]["paddle-res-name"] == "wide"
    assert {name: text for name, text in told["data"].items() if not name.startswith("PADDLEJOB")} == {
        "TRAINER_PORTS_NUM": "20",
        "PADDLE_PORT": "36000",
        "PADDLE_PSERVERS_IP_PORT_LIST": "wide-ps-0:36000",
        "PADDLE_TRAINER_ENDPOINTS": "wide-worker-0:36000",
        "PADDLE_TRAINERS": "wide-worker-0",
        "PADDLE_TRAINERS_NUM": "1",
        "PADDLE_HETER_ENDPOINTS": "wide-heter-0:36000",
        # For Paddle's own launcher, which starts nothing by names and says so, instead of a training for each pod.
        "PADDLE_SERVERS_ENDPOINTS": "wide-ps-0:36000",
        "PADDLE_TRAINERS_ENDPOINTS": "wide-worker-0:36000",
    }


def test_what_a_template_says_stays() -> None:
    body = manifest(worker=1)
    body["spec"]["worker"]["template"] = {
        "metadata": {"labels": {"team": "ctr", "paddle-res-name": "mine"}, "annotations": {"a": "b"}},
        "spec": {
            "restartPolicy": "OnFailure",
            "schedulingGates": [{"name": "later"}],
            "containers": [
                {
                    "name": "paddle",
                    "image": "demo",
                    "env": [{"name": "TRAINING_ROLE", "value": "X"}, {"name": "PADDLE_PORT", "value": "7000"}],
                    "envFrom": [{"secretRef": {"name": "s"}}],
                    "ports": [{"containerPort": 80}],
                },
                {"name": "side", "image": "side", "env": [{"name": "A", "value": "B"}]},
            ],
        },
    }
    decision = OperatorCluster(body).decide()
    assert decision
    pod = next(each.body for each in decision.actions if isinstance(each, CreateObject))
    assert (pod["metadata"]["labels"]["team"], pod["metadata"]["labels"]["paddle-res-name"]) == ("ctr", "wide-worker-0")
    assert pod["spec"]["schedulingGates"] == [{"name": "later"}]
    assert pod["spec"]["restartPolicy"] == "OnFailure"
    first, second = pod["spec"]["containers"]
    assert [each["value"] for each in first["env"] if each["name"] == "TRAINING_ROLE"] == ["TRAINER"]
    assert {"name": "PADDLE_PORT", "value": "7000"} in first["env"]
    assert first["envFrom"] == [{"secretRef": {"name": "s"}}, {"configMapRef": {"name": "wide"}}]
    assert second == {"name": "side", "image": "side", "env": [{"name": "A", "value": "B"}]}
    assert read(body).job.spec.roles[0].template["spec"]["containers"][0]["env"][0]["value"] == "X", "not changed"


def test_a_pod_on_its_host() -> None:
    cluster = OperatorCluster(manifest(worker=2, intranet="Host"))
    pod = made(cluster)[("Pod", "wide-worker-1")]
    port = dict(cluster.report.node_ports)["wide-worker-1"]
    assert variables(pod)["PADDLE_PORT"] == str(port)
    assert pod["spec"]["containers"][0]["ports"] == [{"containerPort": port, "protocol": "TCP", "hostPort": port}]


@pytest.mark.parametrize("etcd", ["", "etcd:2379"])
def test_an_elastic_pod(etcd: str) -> None:
    body = manifest(worker=2, elastic=0)
    body["spec"]["worker"] |= {"requests": 1, "limits": 4}
    objects = made(OperatorCluster(body, facts=ClusterFacts(etcd=etcd)))
    pod = objects[("Pod", "wide-worker-1")]
    assert pod["spec"]["restartPolicy"] == "OnFailure"
    assert "envFrom" not in pod["spec"]["containers"][0]
    found = variables(pod)
    assert found["PADDLE_ELASTIC_JOB_ID"] == "default-wide"
    assert found["PADDLE_ELASTIC_NP"] == "1:4"
    assert found["PADDLE_ELASTIC_TIMEOUT"] == "60"
    assert found.get("PADDLE_ELASTIC_SERVER") == (etcd or None)
    assert ("ConfigMap", "wide") not in objects
    assert (("Service", "wide-worker-0") in objects) is (not etcd)
    # What Paddle's own launcher reads: without it, each pod would train alone.
    assert found["PADDLE_NNODES"] == ("1:4" if etcd else "2"), "without etcd it knows no range"
    assert found["PADDLE_JOB_ID"] == "default-wide"
    assert found["PADDLE_TRAINERS_NUM"] == "2", "Paddle refuses a script without a launcher, instead of training alone"
    port = {} if etcd else {"port": objects[("Service", "wide-worker-0")]["spec"]["ports"][0]["port"]}
    assert found["PADDLE_MASTER"] == ("etcd://etcd:2379" if etcd else f"wide-worker-0:{port['port']}")
    first = variables(objects[("Pod", "wide-worker-0")])
    if not etcd:  # it opens a master only at its own address
        assert first["PADDLE_MASTER"] == f"$(POD_IP_DUMMY):{port['port']}"
        assert list(first).index("POD_IP_DUMMY") < list(first).index("PADDLE_MASTER")


def test_addresses_of_both_families() -> None:
    cluster = OperatorCluster(manifest(worker=2))
    cluster.operate()
    cluster.kubelets()
    cluster.pod("wide-worker-0")["status"]["podIPs"] = [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]
    cluster.pod("wide-worker-1")["status"]["podIPs"] = [{"ip": "fd00::2"}]
    cluster.settle()
    assert cluster.data()["PADDLE_TRAINERS"] == "fd00::1,fd00::2"


@pytest.mark.parametrize("intranet", ["PodIP", "Service", "Host"])
def test_umiaks_launcher_understands_what_pods_are_told(intranet: str) -> None:
    cluster = OperatorCluster(manifest(ps=2, worker=3, intranet=intranet), nodes=2)
    cluster.settle()
    found = {name: detect(cluster.environment(name)) for name in cluster.pods()}
    ranks = {name: each.rank for name, each in found.items() if each}
    assert sorted(rank for rank in ranks.values() if rank is not None) == [0, 1, 2, 3, 4]
    assert {each.nodes for each in found.values() if each} == {5}


@pytest.mark.parametrize(
    ("servers", "workers", "is_told"),
    [
        (["10.0.0.2"], ["10.0.0.3", "10.0.0.4"], True),
        (["10.0.0.1"], ["10.0.0.12", "10.0.0.3"], False),
        (["10.0.0.2"], ["10.0.0.2", "10.0.0.3"], False),
        (["10.0.0.2"], ["0.0.0.0", "0.0.0.0"], True),
    ],
)
def test_paddles_launcher_takes_no_pod_for_another(servers: list[str], workers: list[str], is_told: bool) -> None:
    """It compares beginnings of addresses; where that would be wrong, it finds none, and ends with an error."""
    places = [[(host, 7000) for host in hosts] for hosts in (servers, workers)]
    found = contract.of_job(places[0], places[1], None, port=7000)
    told = f"{found['PADDLE_SERVERS_ENDPOINTS']},{found['PADDLE_TRAINERS_ENDPOINTS']}".split(",")
    begun = {host: [each for each in told if each.startswith(host)] for host in (*servers, *workers) if host[0] == "1"}
    assert all(len(each) == (1 if is_told else 0) for each in begun.values())


class TestPodsThatWaitForAddresses:
    """A kubelet would try again after 10 seconds, but looks at once at a pod that is changed."""

    @staticmethod
    def waiting() -> OperatorCluster:
        cluster = OperatorCluster(manifest(worker=2))
        cluster.operate()
        for _ in range(2):
            cluster.kubelets()
        state = {"waiting": {"reason": "CreateContainerConfigError", "message": 'configmap "wide" not found'}}
        for name in ("wide-worker-0", "wide-worker-1"):
            status = cluster.pod(name)["status"]
            status |= {"phase": "Pending", "containerStatuses": [{"name": "paddle", "state": state}]}
        return cluster

    def test_they_are_woken_when_the_config_map_is_there(self) -> None:
        cluster = self.waiting()
        cluster.operate()
        assert cluster.objects[("ConfigMap", "wide")]
        assert "wake Pod" not in cluster.writes
        cluster.operate()
        assert cluster.writes.count("wake Pod") == 2
        cluster.operate()
        assert cluster.writes.count("wake Pod") == 2, "not twice in a moment"
        assert cluster.decision
        assert cluster.decision.again_in_s == 1.0

    def test_a_few_times_only(self) -> None:
        cluster = self.waiting()
        for _ in range(20):
            cluster.operate()
            cluster.now += 1.5
        assert cluster.writes.count("wake Pod") == 2 * 4
        assert cluster.decision
        assert cluster.decision.again_in_s is None

    def test_pods_that_run_are_left_alone(self) -> None:
        cluster = OperatorCluster(manifest(worker=2))
        cluster.settle(30)
        assert "wake Pod" not in cluster.writes


class TestKubeflow:
    def test_collective(self) -> None:
        objects = made(OperatorCluster(kubeflow()))
        names = ("kf-worker-0", "kf-worker-1")
        assert sorted(objects) == [(kind, name) for kind in ("Pod", "Service") for name in names]
        pod = objects[("Pod", "kf-worker-1")]
        assert pod["metadata"]["ownerReferences"][0]["apiVersion"] == "kubeflow.org/v1"
        assert pod["metadata"]["labels"]["training.kubeflow.org/replica-index"] == "1"
        for number in (0, 1):  # all containers
            env = {each["name"]: each["value"] for each in pod["spec"]["containers"][number]["env"]}
            assert env == {
                "PYTHONUNBUFFERED": "1",
                "PADDLE_JOB_ID": "kf",
                "PADDLE_NNODES": "2",
                "PADDLE_MASTER": "kf-worker-0:36543",
                "PADDLE_TRAINERS_NUM": "2",
            }, "a number of trainers would mean parameter servers to Paddle's launcher"
        (port,) = pod["spec"]["containers"][0]["ports"]
        assert port == {"name": "master", "containerPort": 36543, "protocol": "TCP"}
        (port,) = objects[("Service", "kf-worker-1")]["spec"]["ports"]
        assert (port["name"], port["port"]) == ("master", 36543)
        assert "training.kubeflow.org/job-role" not in pod["metadata"]["labels"]
        first = variables(objects[("Pod", "kf-worker-0")])
        assert first["PADDLE_MASTER"] == "$(POD_IP_DUMMY):36543"
        assert list(first).index("POD_IP_DUMMY") < list(first).index("PADDLE_MASTER")

    def test_servers(self) -> None:
        master = {"replicas": 1, "template": {"spec": {"containers": [{"name": "paddle", "image": "demo"}]}}}
        cluster = OperatorCluster(kubeflow(more={"Master": master}))
        objects = made(cluster)
        assert variables(objects[("Pod", "kf-master-0")])["PADDLE_SERVER_NUM"] == "1"
        assert variables(objects[("Pod", "kf-worker-0")])["PADDLE_TRAINER_NUM"] == "1"
        assert objects[("Pod", "kf-master-0")]["metadata"]["labels"]["training.kubeflow.org/job-role"] == "master"
        assert variables(objects[("Pod", "kf-worker-0")])["PADDLE_MASTER"] == "kf-master-0:36543"
        assert variables(objects[("Pod", "kf-worker-0")])["PADDLE_NNODES"] == "3"
        cluster.finish("kf-master-0")
        cluster.settle()
        assert cluster.report.phase is JobPhase.COMPLETED

    def test_pods_meet_at_the_port_called_master(self) -> None:
        body = kubeflow()
        ports = [{"name": "metrics", "containerPort": 9090}, {"name": "master", "containerPort": 5000}]
        containers = body["spec"]["paddleReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
        next(each for each in containers if each["name"] == "paddle")["ports"] = ports
        objects = made(OperatorCluster(body))
        assert variables(objects[("Pod", "kf-worker-1")])["PADDLE_MASTER"] == "kf-worker-0:5000"
        named = objects[("Service", "kf-worker-0")]["spec"]["ports"]
        assert [(each["name"], each["port"]) for each in named] == [("metrics", 9090), ("master", 5000)]

    def test_the_first_pod_of_an_ipv6_cluster_has_its_address_in_brackets(self) -> None:
        objects = made(OperatorCluster(kubeflow(), six=True, facts=ClusterFacts(is_six=True)))
        assert variables(objects[("Pod", "kf-worker-0")])["PADDLE_MASTER"] == "[$(POD_IP_DUMMY)]:36543"
        assert variables(objects[("Pod", "kf-worker-1")])["PADDLE_MASTER"] == "kf-worker-0:36543"
        assert objects[("Service", "kf-worker-0")]["spec"]["ipFamilyPolicy"] == "PreferDualStack"

    @pytest.mark.parametrize(
        ("policy", "code", "fails"), [("Never", 143, True), ("ExitCode", 1, True), ("ExitCode", 137, False)]
    )
    def test_restart_policies(self, policy: str, code: int, fails: bool) -> None:
        body = kubeflow()
        body["spec"]["paddleReplicaSpecs"]["Worker"]["restartPolicy"] = policy
        cluster = OperatorCluster(body)
        cluster.settle()
        cluster.fail("kf-worker-1", code)
        cluster.settle(30)
        assert cluster.report.phase is (JobPhase.FAILED if fails else JobPhase.RUNNING)


class TestGangs:
    def test_volcano(self) -> None:
        kind = "scheduling.volcano.sh/PodGroup"
        body = manifest(worker=2, schedulingPolicy={"queue": "fast", "priorityClass": "high", "minAvailable": 1})
        body["spec"]["worker"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 1}}
        cluster = OperatorCluster(body, facts=ClusterFacts(gang="volcano", kinds=frozenset([kind])))
        cluster.operate()
        assert cluster.objects[(kind, "wide")]["spec"] == {
            "minMember": 1,
            "minResources": {"nvidia.com/gpu": "2"},
            "queue": "fast",
            "priorityClassName": "high",
        }
        cluster.objects[(kind, "wide")]["status"] = {"phase": "Running"}
        cluster.settle()
        assert cluster.pod("wide-worker-0")["spec"]["schedulerName"] == "volcano"

    @pytest.mark.parametrize(
        ("name", "worker", "ps"),
        [
            ("scheduling.k8s.io/group-name", "wide", "wide"),
            ("volcano.sh/job-name", "wide", "wide"),
            ("volcano.sh/task-spec", "worker", "ps"),
            ("volcano.sh/job-version", "1", "1"),
            ("volcano.sh/queue-name", "fast", "fast"),
        ],
    )
    def test_annotations_that_the_old_operator_gave_volcano(self, name: str, worker: str, ps: str) -> None:
        kind = "scheduling.volcano.sh/PodGroup"
        body = manifest(worker=1, ps=1, schedulingPolicy={"queue": "fast"})
        cluster = OperatorCluster(body, facts=ClusterFacts(gang="volcano", kinds=frozenset([kind])))
        cluster.operate()
        cluster.objects[(kind, "wide")]["status"] = {"phase": "Inqueue"}
        cluster.settle()
        found = [cluster.pod(pod)["metadata"]["annotations"][name] for pod in ("wide-worker-0", "wide-ps-0")]
        assert found == [worker, ps]

    def test_the_annotations_are_volcanos_alone(self) -> None:
        cluster = OperatorCluster(manifest(worker=1, schedulingPolicy={"queue": "fast"}))
        cluster.settle()
        assert not [each for each in cluster.pod("wide-worker-0")["metadata"]["annotations"] if "volcano" in each]

    def test_scheduler_plugins(self) -> None:
        kind = "scheduling.x-k8s.io/PodGroup"
        cluster = OperatorCluster(
            manifest(worker=2), facts=ClusterFacts(gang="scheduler-plugins", kinds=frozenset([kind]))
        )
        cluster.settle()
        assert cluster.report.phase is JobPhase.RUNNING
        assert cluster.objects[(kind, "wide")]["spec"] == {"minMember": 2}
        assert cluster.pod("wide-worker-0")["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "wide"

    def test_native(self) -> None:
        kind = "scheduling.k8s.io/PodGroup"
        cluster = OperatorCluster(manifest(worker=2), facts=ClusterFacts(gang="native", kinds=frozenset([kind])))
        cluster.settle()
        assert cluster.report.phase is JobPhase.RUNNING
        assert cluster.objects[(kind, "wide")]["spec"] == {"schedulingPolicy": {"gang": {"minCount": 2}}}
        assert cluster.pod("wide-worker-0")["spec"]["schedulingGroup"] == {"podGroupName": "wide"}

    def test_another_scheduler_is_left_alone(self) -> None:
        body = manifest(worker=1)
        body["spec"]["worker"]["template"]["spec"]["schedulerName"] = "own"
        cluster = OperatorCluster(body, facts=ClusterFacts(gang="volcano"))
        cluster.settle()
        assert cluster.report.phase is JobPhase.RUNNING


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("500m", Fraction(1, 2)),
        ("2", Fraction(2)),
        (2, Fraction(2)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("1e3", Fraction(1000)),
        ("1E3", Fraction(1000)),
        ("3E", Fraction(3 * 10**18)),
        ("100k", Fraction(100_000)),
        ("", Fraction(0)),
        ("many", Fraction(0)),
        ("1e999999999", Fraction(0)),
        ("1/0", Fraction(0)),
        ("9" * 5000, Fraction(0)),
        (None, Fraction(0)),
    ],
)
def test_quantities(text: object, number: Fraction) -> None:
    assert quantities.read(text) == number


@pytest.mark.parametrize(
    ("number", "text"),
    [(Fraction(1, 2), "500m"), (Fraction(2), "2"), (Fraction(3 * 2**29), "1536Mi"), (Fraction(1, 3), "334m")],
)
def test_quantities_as_they_are_written(number: Fraction, text: str) -> None:
    assert quantities.written(number) == text


def test_what_a_pod_asks_for() -> None:
    def container(cpu: str, **more: Any) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    side = container("1", restartPolicy="Always")
    spec = {"initContainers": [container("2"), side, container("4")], "containers": [container("1")]}
    assert pod_resources(spec) == {"cpu": 5}  # the last init container runs beside the sidecar
    assert pod_resources({"containers": [container("1")], "overhead": {"cpu": "250m"}}) == {"cpu": Fraction(5, 4)}
    job = read(manifest(worker=3, schedulingPolicy={"minResources": {"cpu": "7"}})).job
    assert least_resources(job.spec) == {"cpu": "7"}


def test_the_guide_has_the_outcomes_that_are_tested() -> None:
    guide = ROOT / "docs" / "how-to" / "operator.md"
    assert launcher_matrix.table() in guide.read_text()


def test_every_pair_of_the_matrix_is_tried() -> None:
    chosen = launcher_matrix.covering()
    for first, second in itertools.combinations(range(4), 2):
        pairs = itertools.product(launcher_matrix.FACTORS[first], launcher_matrix.FACTORS[second])
        assert set(pairs) <= {(cell[first], cell[second]) for cell in chosen}
