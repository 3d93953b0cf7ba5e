"""Each platform's environment leads to the right placement; each trap and contradiction is seen for what it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from umiak import platforms
from umiak.core.cluster import Placement, Role
from umiak.core.problem import Problem, UmiakError
from umiak.platforms import RULES, detect
from umiak.platforms.slurm import expand
from umiak.testing.environments import ANYWHERE, IN_A_POD, PER_PROCESS, PLATFORMS, environment, files


def found(environ: dict[str, str], **keywords: object) -> Placement:
    placement = detect(environ, **keywords)  # type: ignore[arg-type]
    assert placement is not None
    return placement


def refused(environ: dict[str, str], only: str | None = None) -> dict[str, str]:
    """The problems of an environment, message by code and variable."""
    with pytest.raises(UmiakError) as caught:
        detect(environ, only=only)
    assert all(problem.hint for problem in caught.value.problems)
    return {f"{problem.code[-3:]} {problem.where}": problem.what for problem in caught.value.problems}


# One row per platform: what node 1 of 2 learns besides its rank.
ROWS = {
    "umiak": {"master": "node0.example:6768", "host": "node1.example", "job_id": "ctr"},
    "torchrun": {"master": "10.0.0.1:23457", "workers": 1, "local_rank": 0, "local_size": 1},
    "paddle-launch": {"master": "10.0.0.1:60755", "host": "10.0.0.2", "workers": 1, "local_rank": 0, "local_size": 1},
    "azureml": {"master": "10.0.0.4:6000", "job_id": "keen_boat_1"},
    "openmpi": {"master": f"10.0.0.1:{20000 + (1949302784 >> 16) % 8192}"},
    "mvapich": {},
    "mpich": {},
    "paddlejob": {"master": "10.1.0.1:41253", "host": "10.1.0.2"},
    "kubeflow-paddlejob": {"master": "wide-worker-0:36543", "job_id": "wide"},
    "modelarts": {
        "master": "modelarts-job-1-worker-0.modelarts-job-1.default.svc.cluster.local:6768",
        "host": "172.16.0.11",
    },
    "modelarts-old": {"master": "job0001-0.job0001:6666", "host": "job0001-1.job0001", "job_id": "job0001"},
    "aihc": {"master": "ctr-master-0:23456", "workers": 8, "job_id": "ctr"},
    "mlp": {"master": "10.128.97.1:2222", "host": "10.128.97.2", "job_id": "t-20210924211641-nznsh"},
    "sagemaker": {"master": "algo-1:6768", "host": "algo-2", "job_id": "ctr-2026-01-01"},
    "vertex": {
        "master": "cmle-training-worker-0a1b2c3d4e-0:2222",
        "host": "cmle-training-worker-0a1b2c3d4e-1",
        "job_id": "8675309",
    },
    "kubeflow-trainer": {"master": "ctr-node-0-0.ctr:29400"},
    "jax": {"master": "ctr-node-0-0.ctr:6666", "workers": 1, "local_rank": 0, "local_size": 1},
    "dmlc": {"master": "ctr-node-0-0.ctr:6768", "workers": 1},
    "skypilot": {"master": "10.0.0.1:6768", "host": "10.0.0.2", "job_id": "sky-2026-01-01-00-00-00-000000_ctr_1"},
    "dstack": {"master": "10.0.0.1:6768", "host": "10.0.0.2", "job_id": "keen-boat-1"},
    "tensorflow": {"master": "ctr-worker-0.default.svc:2222", "host": "ctr-worker-1.default.svc"},
    "volcano": {"master": "ctr-worker-0.ctr:6768", "host": "ctr-worker-1.ctr"},
    "slurm": {"master": "gpu-001:24242", "host": "gpu-002", "job_id": "4242"},
    "pmi": {},
    "lsf": {"master": "c05n01:6768", "host": "c05n02", "job_id": "1234"},
    "pbs": {"master": "r1i0n0:6768", "host": "r1i0n1", "job_id": "1234.head"},
    "jobset": {"master": "ctr-worker-0-0.ctr:6768", "host": "ctr-worker-0-1.ctr", "job_id": "ctr"},
    "indexed-job": {"job_id": "ctr"},
    "torch": {"master": "ctr-master-0:23456", "workers": 8},
}
FIELDS = ("master", "host", "job_id", "workers", "local_rank", "local_size")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_each_platform(platform: str) -> None:
    placement = found(environment(platform, 2, 1), read=files(platform, 2).get)
    assert placement.platform == platform
    assert {field: getattr(placement, field) for field in FIELDS} == dict.fromkeys(FIELDS) | ROWS[platform]
    assert placement.reason


def test_every_rule_has_a_simulated_platform() -> None:
    assert {rule.name for rule in RULES} == {*PLATFORMS, "nested"}
    assert len({rule.name for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("environ", [{}, ANYWHERE, IN_A_POD], ids=["empty", "machine", "pod"])
def test_no_platform(environ: dict[str, str]) -> None:
    """A pod as such, with KUBERNETES_SERVICE_HOST, is no evidence of a training job."""
    assert detect(environ) is None


def test_the_reason_names_the_variables() -> None:
    assert found(environment("modelarts", 2, 1)).reason == "VC_TASK_INDEX=1 of MA_NUM_HOSTS=2"
    assert found(environment("slurm", 2, 1)).reason == "SLURM_NODEID=1 of SLURM_STEP_NUM_NODES=2"
    assert found(environment("umiak", 2, 1)).reason == "UMIAK_NODE_RANK=1 of UMIAK_NNODES=2"
    assert found({"UMIAK_MASTER": "a:1"}).reason == "UMIAK_MASTER=a:1"


class TestForcing:
    def test_none_switches_detection_off(self) -> None:
        assert detect(environment("slurm", 2, 1), only="none") is None

    def test_one_rule_is_asked_and_no_other(self) -> None:
        environ = environment("slurm", 2, 1) | environment("aihc", 4, 3)
        assert found(environ).platform == "aihc"
        assert found(environ, only="slurm").rank == 1

    def test_an_unknown_name_gets_the_nearest(self) -> None:
        with pytest.raises(UmiakError) as caught:
            detect({}, only="slrum")
        assert caught.value.problems[0].lines() == [
            "error: --topology: no such platform: slrum [UM-PLATFORM-001]",
            "  hint: did you mean `--topology slurm`?",
        ]
        assert "known are: " in (_only_problem({}, "xyzzy").hint or "")

    def test_a_platform_that_is_not_there_says_what_it_looks_for(self) -> None:
        problem = _only_problem({"SLURM_PROCID": "0"}, "slurm")
        assert problem.code == "UM-PLATFORM-002"
        assert "SLURM_STEP_NODELIST" in (problem.why or "")
        assert "set here: SLURM_PROCID" in (problem.why or "")


def _only_problem(environ: dict[str, str], only: str) -> Problem:
    with pytest.raises(UmiakError) as caught:
        detect(environ, only=only)
    (problem,) = caught.value.problems
    return problem


class TestPaddleCloud:
    """A collective job as PaddleRec 1.8.5 finds it: no role, and no number of trainers."""

    NODE = {
        "PADDLE_TRAINERS": "10.1.0.1,10.1.0.2",
        "PADDLE_TRAINER_ID": "1",
        "POD_IP": "10.1.0.2",
        "PADDLE_PORT": "6170",
        "PADDLE_PADDLEREC_ROLE": "WORKER",
        "PADDLEREC_CLUSTER_TYPE": "K8S",
    }

    def test_a_node_without_a_role(self) -> None:
        node = found(self.NODE)
        assert (node.platform, node.nodes, node.rank, node.host, node.role) == ("paddlejob", 2, 1, "10.1.0.2", None)
        assert (node.master, node.workers) == ("10.1.0.1:6768", None)
        assert node.reason == "PADDLE_TRAINER_ID=1 of PADDLE_TRAINERS=10.1.0.1,10.1.0.2"

    def test_its_ports_and_its_devices(self) -> None:
        node = found(self.NODE | {"TRAINER_PORTS_NUM": "4", "TRAINER_GPU_CARD_COUNT": "2", "PADDLE_TRAINERS_NUM": "2"})
        assert (node.nodes, node.master, node.workers) == (2, "10.1.0.1:6173", 2)

    @pytest.mark.parametrize("name", ["PADDLE_TRAINERS", "POD_IP", "PADDLE_TRAINER_ID"])
    def test_all_three_are_needed(self, name: str) -> None:
        assert detect({key: text for key, text in self.NODE.items() if key != name}) is None

    def test_with_servers_a_role_is_needed(self) -> None:
        assert detect(self.NODE | {"PADDLE_PSERVERS_IP_PORT_LIST": "10.1.0.1:6170"}) is None


class TestOrder:
    """Who started this very process comes before who owns the machine."""

    def test_a_launcher_inside_a_worker_is_a_job_of_its_own(self) -> None:
        for platform in PLATFORMS:
            if platform == "umiak":
                continue
            environ = environment(platform, 4, 1) | {"UMIAK_JOB_ID": "ctr", "UMIAK_RANK": "5"}
            placement = found(environ, read=files(platform, 4).get)
            assert (placement.platform, placement.nodes, placement.rank) == ("nested", 1, 0)
            assert "ctr" in placement.reason
        assert detect({"UMIAK_RANK": "5"}) is None

    def test_what_is_spelled_out_comes_first(self) -> None:
        inside = {"UMIAK_JOB_ID": "ctr", "UMIAK_RANK": "5"}
        for platform in PLATFORMS:
            placement = found(environment(platform, 4, 1) | environment("umiak", 2, 1) | inside)
            assert (placement.platform, placement.nodes) == ("umiak", 2)

    def test_modelarts_is_volcano(self) -> None:
        environ = environment("modelarts", 3, 2)
        assert found(environ).platform == "modelarts"
        del environ["MA_NUM_HOSTS"], environ["MA_TASK_NAME"]
        assert (found(environ).platform, found(environ).rank) == ("volcano", 2)

    def test_mpirun_inside_a_slurm_allocation(self) -> None:
        """mpirun starts one daemon per node with srun; its processes see the daemons' step (as a real run shows)."""
        step = environment("slurm", 2, 1)
        placement = found(step | environment("openmpi", 2, 3, per_node=2))
        assert (placement.platform, placement.nodes, placement.rank, placement.local_rank) == ("openmpi", 4, 3, 1)
        assert found(step | environment("mpich", 2, 3, per_node=2)).platform == "mpich"

    def test_srun_with_pmi_is_slurm(self) -> None:
        pmi = {"PMI_RANK": "1", "PMI_SIZE": "2", "PMI_FD": "11", "PMI_JOBID": "3.0"}
        assert found(environment("slurm", 2, 1) | pmi).platform == "slurm"

    def test_torchrun_inside_a_pod_counts_processes(self) -> None:
        child = environment("aihc", 2, 1) | environment("torchrun", 2, 9, per_node=8)
        placement = found(child)
        assert (placement.platform, placement.nodes, placement.rank, placement.local_rank) == ("torchrun", 16, 9, 1)

    def test_an_elastic_paddle_job_before_anything_of_kubernetes(self) -> None:
        environ = environment("indexed-job", 2, 1) | environment("paddlejob", 2, 1)
        assert found(environ).platform == "paddlejob"


class TestLevels:
    """RANK may count nodes or processes."""

    def test_local_rank_makes_the_difference(self) -> None:
        node = environment("torch", 2, 1)
        placement = found(node)
        assert (placement.nodes, placement.rank, placement.workers, placement.local_rank) == (2, 1, 8, None)
        process = node | {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
        placement = found(process)
        assert (placement.nodes, placement.rank, placement.workers) == (2, 1, 1)
        assert (placement.local_rank, placement.local_size) == (1, 2)

    @pytest.mark.parametrize("platform", [name for name in PER_PROCESS if name not in ("torchrun", "paddle-launch")])
    def test_one_process_to_a_host_is_a_node(self, platform: str) -> None:
        placement = found(environment(platform, 4, 2), read=files(platform, 4).get)
        assert (placement.nodes, placement.rank, placement.workers, placement.local_rank) == (4, 2, None, None)

    def test_slurm_with_uneven_tasks(self) -> None:
        environ = environment("slurm", 2, 2, per_node=2) | {
            "SLURM_STEP_NUM_TASKS": "3",
            "SLURM_STEP_TASKS_PER_NODE": "2,1",
            "SLURM_NODEID": "1",
            "SLURM_LOCALID": "0",
        }
        placement = found(environ)
        assert (placement.nodes, placement.rank, placement.local_rank, placement.local_size) == (3, 2, 0, 1)
        assert (placement.hosts, placement.master) == ((), "gpu-001:24242")

    def test_a_bare_master_address_is_no_cluster(self) -> None:
        assert detect({"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "23456"}) is None

    def test_no_cards_is_not_no_workers(self) -> None:
        assert found(environment("aihc", 2, 1) | {"NPROC_PER_NODE": "0"}).workers is None


class TestHeterogeneousSlurmJobs:
    """Two trainers on gpu-001 and gpu-002 are component 1, a server on gpu-003 is component 0."""

    @staticmethod
    def unnamed(rank: int) -> dict[str, str]:
        environ = environment("slurm", 3, rank, servers=1)
        del environ["UMIAK_SLURM_GROUPS"]
        return environ

    def test_without_names_all_components_are_one_cluster_in_their_order(self) -> None:
        for rank, host in enumerate(["gpu-003", "gpu-001", "gpu-002"]):
            placement = found(self.unnamed(rank))
            assert (placement.rank, placement.host, placement.role) == (rank, host, None)
            assert placement.hosts == ("gpu-003", "gpu-001", "gpu-002")
            assert placement.master == "gpu-003:24242"

    def test_tasks_are_counted_in_the_order_of_the_node_list(self) -> None:
        tasks = {"SLURM_STEP_NUM_TASKS": "5", "SLURM_STEP_TASKS_PER_NODE": "2(x2),1"}
        assert found(self.unnamed(0) | tasks).local_size == 1
        assert found(self.unnamed(1) | tasks).local_size == 2

    def test_a_step_of_one_component_alone(self) -> None:
        alone = {"SLURM_STEP_NODELIST": "gpu-[001-002]", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NUM_TASKS": "2"}
        alone |= {"SLURM_NODEID": "0", "SLURMD_NODENAME": "gpu-001"}
        assert found(self.unnamed(1) | alone).hosts == ("gpu-001", "gpu-002")
        named = environment("slurm", 3, 1, servers=1) | alone
        assert refused(named) == {
            "005 UMIAK_SLURM_GROUPS": "2 components are named, but this step runs 1: ps,worker",
        }

    def test_roles_have_ports_that_follow_from_the_job(self) -> None:
        placement = found(environment("slurm", 3, 2, servers=1))
        port = 20000 + 8 * 4242 % 8192
        assert placement.master == f"gpu-003:{port}"
        assert placement.server_endpoints == (f"gpu-003:{port + 1}",)
        assert placement.trainer_endpoints == (f"gpu-001:{port + 3}", f"gpu-002:{port + 3}")
        assert placement.reason == "SLURM_NODEID=2 of SLURM_STEP_NUM_NODES=3, component worker"

    def test_components_of_one_name_are_one_group(self) -> None:
        placement = found(environment("slurm", 3, 1, servers=1) | {"UMIAK_SLURM_GROUPS": "worker,worker"})
        assert (placement.role, placement.hosts, placement.rank) == (None, ("gpu-003", "gpu-001", "gpu-002"), 1)

    def test_contradictions(self) -> None:
        named = environment("slurm", 3, 1, servers=1)
        assert set(refused(named | {"UMIAK_SLURM_GROUPS": "ps"})) == {"005 UMIAK_SLURM_GROUPS"}
        assert set(refused(named | {"UMIAK_SLURM_GROUPS": "ps,cooks"})) == {"010 UMIAK_SLURM_GROUPS"}
        assert set(refused(named | {"SLURM_STEP_NUM_TASKS": "6"})) == {"005 SLURM_STEP_NUM_TASKS"}
        assert set(refused(named | {"SLURM_NODEID": "3"})) == {"004 SLURM_NODEID"}
        ordinary = environment("slurm", 2, 1) | {"UMIAK_SLURM_GROUPS": "ps,worker"}
        assert set(refused(ordinary)) == {"005 UMIAK_SLURM_GROUPS"}


class TestSlurm:
    @pytest.mark.parametrize(
        ("text", "hosts"),
        [
            ("n0", "n0"),
            ("n[0-3,7],gpu-[08-10]", "n0 n1 n2 n3 n7 gpu-08 gpu-09 gpu-10"),
            ("a,b[1],c", "a b1 c"),
            ("rack[0-1]n[1-2]", "rack0n1 rack0n2 rack1n1 rack1n2"),
            ("n[001-002]-ib", "n001-ib n002-ib"),
            ("n[9-11]", "n9 n10 n11"),
        ],
    )
    def test_host_lists(self, text: str, hosts: str) -> None:
        assert expand(text) == tuple(hosts.split())

    @pytest.mark.parametrize("text", ["", "n[0-", "n0]", "n[3-1]", "n[a-b]", "n[[1]]", "a,,b", "n[]", "n[0-999999999]"])
    def test_no_host_list(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"\w"):
            expand(text)

    def test_a_batch_script_outside_srun_is_no_step(self) -> None:
        """The variables of a real sbatch script: rank 0 of two, with nothing running on the second node."""
        batch = {
            "SLURM_JOB_ID": "4",
            "SLURM_JOB_NODELIST": "n[0-1]",
            "SLURM_NODELIST": "n[0-1]",
            "SLURM_NNODES": "2",
            "SLURM_NTASKS": "2",
            "SLURM_PROCID": "0",
            "SLURM_NODEID": "0",
            "SLURM_LOCALID": "0",
            "SLURM_TASKS_PER_NODE": "1(x2)",
            "SLURMD_NODENAME": "n0",
        }
        assert detect(batch) is None

    def test_the_port_follows_from_the_job(self) -> None:
        environ = environment("slurm", 2, 0)
        assert found(environ | {"SLURM_JOB_ID": "8192"}).master == "gpu-001:20000"
        assert found(environ | {"SLURM_JOB_ID": "12345678"}).master == f"gpu-001:{20000 + 12345678 % 8192}"


class TestMpi:
    def test_open_mpi_5_names_its_host_in_the_name_space(self) -> None:
        environ = environment("openmpi", 2, 1) | {"PMIX_NAMESPACE": "prterun-login-01-5862@1"}
        del environ["OMPI_MCA_orte_hnp_uri"]
        assert found(environ).master == f"login-01:{20000 + 5862}"

    def test_all_on_one_host_meet_on_loopback(self) -> None:
        assert found(environment("mpich", 1, 3, per_node=4)).master == "127.0.0.1:6768"
        assert (
            found(environment("openmpi", 1, 3, per_node=4)).master == f"127.0.0.1:{20000 + (1949302784 >> 16) % 8192}"
        )
        assert found(environment("mpich", 2, 3, per_node=2)).master is None
        assert found(environment("mpich", 1, 0)).master is None

    def test_a_rank_without_a_count(self) -> None:
        placement = found({"PMIX_RANK": "3"})
        assert (placement.platform, placement.nodes, placement.rank) == ("pmi", None, 3)


class TestPaddle:
    def test_parameter_servers(self) -> None:
        server = found(environment("paddlejob", 4, 1, servers=2))
        trainer = found(environment("paddlejob", 4, 2, servers=2))
        assert (server.role, server.rank, trainer.role, trainer.rank) == (Role.SERVER, 1, Role.TRAINER, 2)
        assert server.server_endpoints == trainer.server_endpoints == ("10.1.0.1:41234", "10.1.0.2:41234")
        assert server.trainer_endpoints == ("10.1.0.3:41234", "10.1.0.4:41234")
        assert server.master == trainer.master == "10.1.0.1:41253"

    def test_heter_workers_come_last(self) -> None:
        environ = environment("paddlejob", 3, 1, servers=1) | {
            "PADDLE_HETER_ENDPOINTS": "10.1.0.9:41234",
            "TRAINING_ROLE": "HETER",
            "PADDLE_TRAINER_ID": "0",
            "POD_IP": "10.1.0.9",
        }
        placement = found(environ)
        assert (placement.role, placement.rank, placement.nodes) == (Role.HETER, 3, 4)
        assert placement.heter_endpoints == ("10.1.0.9:41234",)

    def test_service_mode_takes_ports_from_the_endpoints(self) -> None:
        names = "wide-worker-0:36000,wide-worker-1:36000"
        environ = environment("paddlejob", 2, 1) | {
            "POD_IP": "wide-worker-1",
            "PADDLE_TRAINERS": names.replace(":36000", ""),
            "PADDLE_TRAINER_ENDPOINTS": names,
        }
        assert found(environ).master == "wide-worker-0:36019"

    def test_a_recreated_pod_is_told_so(self) -> None:
        environ = environment("paddlejob", 2, 1) | {"POD_IP": "10.1.0.77"}
        assert refused(environ) == {"007 POD_IP": "this node's address is not in PADDLE_TRAINERS: 10.1.0.77"}

    def test_two_pods_on_one_machine_with_host_network(self) -> None:
        environ = environment("paddlejob", 3, 0, servers=1)
        environ["PADDLE_TRAINER_ENDPOINTS"] = "10.1.0.1:41234,10.1.0.3:41234"
        assert "listed more than once: 10.1.0.1:41234" in refused(environ).values()

    def test_elastic(self) -> None:
        environ = IN_A_POD | {
            "POD_IP": "10.1.0.4",
            "PADDLE_TRAINER_ID": "1",
            "TRAINING_ROLE": "TRAINER",
            "PADDLE_ELASTIC_JOB_ID": "default-resnet",
            "PADDLE_ELASTIC_NP": "2",
            "PADDLE_ELASTIC_TIMEOUT": "60",
            "PADDLE_ELASTIC_SERVER": "etcd-client:2379",
        }
        placement = found(environ)
        assert (placement.platform, placement.nodes, placement.rank) == ("paddlejob", 2, None)
        assert (placement.master, placement.job_id) == ("etcd://etcd-client:2379", "default-resnet")
        del environ["PADDLE_ELASTIC_SERVER"]
        assert found(environ).master is None

    def test_a_server_is_told_by_its_endpoint(self) -> None:
        """Paddle's own launcher gives servers no PADDLE_TRAINER_ID."""
        environ = {
            "TRAINING_ROLE": "PSERVER",
            "POD_IP": "127.0.0.1",
            "PADDLE_PORT": "8002",
            "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:8001,127.0.0.1:8002",
            "PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:8003",
            "PADDLE_TRAINERS_NUM": "1",
        }
        assert (found(environ).rank, found(environ).nodes) == (1, 3)

    def test_half_a_contract_is_none(self) -> None:
        assert detect({"TRAINER_PORTS_NUM": "20", "PADDLE_TRAINER_ID": "0"}) is None
        assert detect({"PADDLE_JOB_ID": "ctr"}) is None

    def test_kubeflow_roles(self) -> None:
        server = found(environment("kubeflow-paddlejob", 3, 0, servers=1))
        trainer = found(environment("kubeflow-paddlejob", 3, 2, servers=1))
        assert (server.role, server.host, server.master) == (Role.SERVER, "10.1.0.4", "10.1.0.4:36543")
        assert (trainer.role, trainer.host, trainer.master) == (Role.TRAINER, None, "wide-master-0:36543")
        assert server.rank is trainer.rank is None


class TestKubeflowTrainer:
    def test_a_range_of_nodes_says_no_number(self) -> None:
        environ = {"PET_NNODES": "2:4", "PET_RDZV_ENDPOINT": "ctr-worker-0:29400", "PET_RDZV_ID": "ctr"}
        placement = found(environ)
        assert (placement.nodes, placement.rank, placement.master) == (None, None, "ctr-worker-0:29400")

    def test_processes_per_node_may_be_a_number(self) -> None:
        assert found(environment("kubeflow-trainer", 2, 1) | {"PET_NPROC_PER_NODE": "4"}).workers == 4
        assert found(environment("kubeflow-trainer", 2, 1) | {"PET_NPROC_PER_NODE": "gpu"}).workers is None

    def test_dmlc_with_servers(self) -> None:
        environ = environment("dmlc", 2, 1) | {"DMLC_NUM_SERVER": "1", "DMLC_ROLE": "server"}
        placement = found(environ)
        assert (placement.nodes, placement.rank, placement.role) == (3, None, Role.SERVER)
        assert "010 DMLC_ROLE" in refused(environ | {"DMLC_ROLE": "scheduler"})


class TestModelArts:
    def test_hosts_follow_from_the_names(self) -> None:
        environ = environment("modelarts", 2, 1)
        del environ["VC_WORKER_HOSTS"]
        names = {"MA_VJ_NAME": "vj", "MA_HJ_NAME": "hj", "MA_NAMESPACE": "ns"}
        assert found(environ | names).hosts == (
            "vj-worker-0.hj.ns.svc.cluster.local",
            "vj-worker-1.hj.ns.svc.cluster.local",
        )
        assert (found(environ).hosts, found(environ).nodes) == ((), 2)

    def test_the_index_means_nothing_on_one_node(self) -> None:
        assert found(environment("modelarts", 1, 0) | {"VC_TASK_INDEX": "7"}).rank == 0

    def test_parameter_servers(self) -> None:
        placement = found(environment("modelarts", 3, 2, servers=1))
        first = "modelarts-job-1-ps-0.modelarts-job-1.default.svc.cluster.local"
        assert (placement.role, placement.rank, placement.server_endpoints) == (Role.TRAINER, 2, (f"{first}:6769",))
        assert placement.master == f"{first}:6768"

    def test_the_old_module_on_one_node(self) -> None:
        placement = found(environment("modelarts-old", 1, 0))
        assert (placement.nodes, placement.rank, placement.hosts, placement.master) == (1, 0, (), None)


class TestRoles:
    def test_the_chief_is_trainer_0(self) -> None:
        chief = found(environment("tensorflow", 4, 1, servers=1))
        assert (chief.role, chief.rank, chief.reason) == (Role.TRAINER, 1, "chief 0 in TF_CONFIG")
        assert chief.trainer_endpoints[0] == "ctr-worker-0.default.svc:2222"

    @pytest.mark.parametrize(("name", "task"), [("TF_CONFIG", "evaluator"), ("CLUSTER_SPEC", "workerpool3")])
    def test_an_evaluator_is_not_part_of_the_job(self, name: str, task: str) -> None:
        worker = "worker" if name == "TF_CONFIG" else "workerpool1"
        cluster = {worker: ["a:1"], task: ["b:1"]}
        environ = {name: json.dumps({"cluster": cluster, "task": {"type": task, "index": 0}})}
        assert refused(environ) == {f"010 {name}": "this node is not part of the training job, its role is: evaluator"}
        environ = {name: json.dumps({"cluster": cluster, "task": {"type": worker, "index": 0}})}
        assert found(environ).nodes == 1

    def test_hosts_on_one_machine_differ_by_port(self) -> None:
        cluster = {"ps": ["127.0.0.1:1"], "worker": ["127.0.0.1:2", "127.0.0.1:3"]}
        environ = {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": "1"}})}
        assert found(environ).rank == 2
        cluster["worker"][1] = "127.0.0.1:2"
        environ = {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 1}})}
        assert refused(environ) == {"006 TF_CONFIG": "listed more than once: 127.0.0.1:2"}

    def test_tf_config_without_a_cluster(self) -> None:
        assert detect({"TF_CONFIG": "{}"}) is None

    def test_volcano_master_and_workers_are_all_trainers(self) -> None:
        environ = environment("volcano", 2, 1) | {"VC_MASTER_HOSTS": "ctr-master-0.ctr", "VC_MASTER_NUM": "1"}
        placement = found(environ)
        assert (placement.nodes, placement.rank, placement.role) == (3, 2, None)
        assert placement.master == "ctr-master-0.ctr:6768"

    def test_volcano_tells_worker_1_from_worker_10(self) -> None:
        for rank in (1, 2, 11, 12):
            placement = found(environment("volcano", 13, rank, servers=1))
            assert (placement.rank, placement.host) == (rank, f"ctr-worker-{rank - 1}.ctr")
        environ = environment("volcano", 13, 2, servers=1) | {"HOSTNAME": "ctr-worker-"}
        assert "007 HOSTNAME" in refused(environ)

    def test_volcano_with_one_task_of_any_name(self) -> None:
        environ = {"VC_TASK_INDEX": "1", "VC_TRAIN_GPT_HOSTS": "a.ctr,b.ctr", "VC_TRAIN_GPT_NUM": "2"}
        assert (found(environ).rank, found(environ).role) == (1, None)

    def test_an_unknown_task_among_others(self) -> None:
        environ = environment("volcano", 2, 0) | {"VC_REDIS_HOSTS": "ctr-redis-0.ctr", "HOSTNAME": "ctr-redis-0"}
        assert "expected a role that umiak knows, got redis" in refused(environ).values()

    def test_volcano_engine_has_chiefs_and_schedulers(self) -> None:
        environ = environment("mlp", 2, 1) | {"MLP_CHIEF_NUM": "1", "MLP_CHIEF_0_HOST": "c", "MLP_CHIEF_0_PORT": "5"}
        assert (found(environ).nodes, found(environ).rank, found(environ).master) == (3, 2, "c:5")
        environ |= {"MLP_ROLE": "SCHEDULER", "MLP_SCHEDULER_NUM": "1", "MLP_SCHEDULER_0_HOST": "s"}
        assert "010 MLP_ROLE" in refused(environ)

    def test_jobset_without_a_layout(self) -> None:
        environ = environment("jobset", 3, 2, servers=1)
        del environ["UMIAK_JOBSET_LAYOUT"]
        placement = found(environ)
        assert (placement.nodes, placement.rank, placement.role) == (None, None, Role.TRAINER)
        alone = found(environ | {"REPLICATED_JOB_REPLICAS": "1", "GLOBAL_REPLICAS": "1"})
        assert (alone.rank, alone.role, alone.master) == (1, None, "ctr-worker-0-0.ctr:6768")

    def test_jobset_of_many_jobs(self) -> None:
        environ = environment("jobset", 2, 1) | {"UMIAK_JOBSET_LAYOUT": "worker=3x2", "JOB_INDEX": "2"}
        placement = found(environ)
        assert (placement.nodes, placement.rank, placement.host) == (6, 5, "ctr-worker-2-1.ctr")
        assert "004 JOB_INDEX" in refused(environ | {"JOB_INDEX": "3"})
        assert "009 UMIAK_JOBSET_LAYOUT" in refused(environ | {"UMIAK_JOBSET_LAYOUT": "worker=3"})


def _with_path(script: str) -> str:
    # Counted up from the file: cutting the path at a word goes wrong in a checkout that has this word in its own path.
    source = Path(platforms.__file__).parents[2]
    return f"import sys; sys.path.insert(0, {str(source)!r}); {script}"
