"""Platforms: batch systems, and those with a rule of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.unit.platforms.test_platforms import _with_path, found, refused
from umiak import platforms
from umiak.core.cluster import Role
from umiak.platforms import RULES, detect
from umiak.testing.environments import environment


class TestBatchSystems:
    def test_an_unreadable_node_file_is_said(self) -> None:
        assert "012 PBS_NODEFILE" in refused(environment("pbs", 2, 1))

    def test_pbs_tells_a_node_by_its_whole_name(self) -> None:
        environ = {"PBS_JOBID": "1", "PBS_NODEFILE": "f", "HOSTNAME": "worker-1.lab"}
        text = "worker-10.lab\nworker-1.lab\nworker-1.lab\n"
        assert (found(environ, read={"f": text}.get).rank, found(environ, read={"f": text}.get).nodes) == (1, 2)
        assert found(environ | {"HOSTNAME": "worker-10"}, read={"f": text}.get).rank == 0
        assert found(environ | {"HOSTNAME": "worker"}, read={"f": text}.get).rank is None

    def test_lsf_without_jsrun(self) -> None:
        environ = {"LSB_JOBID": "1", "LSB_MCPU_HOSTS": "a 4 b 4", "HOSTNAME": "b"}
        assert (found(environ).hosts, found(environ).rank) == (("a", "b"), 1)

    def test_the_file_is_read_from_disk_by_default(self, tmp_path) -> None:
        path = tmp_path / "nodes"
        path.write_text("a\nb\n")
        assert found({"PBS_JOBID": "1", "PBS_NODEFILE": str(path), "PBS_NODENUM": "1"}).hosts == ("a", "b")
        assert platforms.read_file(str(tmp_path)) is None


class TestOthers:
    def test_azure_with_torch_variables(self) -> None:
        environ = {"AZUREML_RUN_ID": "r", "MASTER_ADDR": "a", "MASTER_PORT": "1", "RANK": "3", "WORLD_SIZE": "4"}
        placement = found(environ | {"LOCAL_RANK": "1", "NODE_RANK": "1"})
        assert (placement.platform, placement.nodes, placement.rank, placement.local_rank) == ("azureml", 4, 3, 1)
        assert detect({"AZUREML_RUN_ID": "r"}) is None
        assert found({"AZUREML_RUN_ID": "r", "NODE_RANK": "1"}).rank == 1

    def test_sagemaker_groups_are_roles_only_with_servers(self) -> None:
        placement = found(environment("sagemaker", 3, 0, servers=1))
        assert (placement.role, placement.server_endpoints) == (Role.SERVER, ("algo-1:6769",))

    def test_older_dstack_gives_the_head_node_alone(self) -> None:
        environ = environment("dstack", 3, 2)
        del environ["DSTACK_NODES_IPS"]
        assert (found(environ).hosts, found(environ).master) == ((), "10.0.0.1:6768")

    def test_ipv6(self) -> None:
        environ = {"UMIAK_HOSTS": "fd00::1,fd00::2", "UMIAK_NODE_RANK": "1", "UMIAK_MASTER": "fd00::1"}
        assert found(environ).master == "[fd00::1]:6768"
        environ = environment("skypilot", 2, 1) | {"SKYPILOT_NODE_IPS": "fd00::1\nfd00::2"}
        assert found(environ).master == "[fd00::1]:6768"

    def test_an_empty_variable_is_not_set(self) -> None:
        assert detect({rule.markers[0]: "" for rule in RULES}) is None


@pytest.mark.parametrize(
    ("platform", "spoiled", "problem"),
    [
        ("slurm", {"SLURM_NODEID": "2"}, "004 SLURM_NODEID"),
        ("slurm", {"SLURM_STEP_NODELIST": "gpu-[001-003]"}, "005 SLURM_STEP_NODELIST"),
        ("slurm", {"SLURM_STEP_NODELIST": "gpu-[001"}, "009 SLURM_STEP_NODELIST"),
        ("slurm", {"SLURMD_NODENAME": "gpu-00"}, "007 SLURMD_NODENAME"),
        ("slurm", {"SLURM_STEP_NUM_TASKS": "two"}, "003 SLURM_STEP_NUM_TASKS"),
        ("slurm", {"SLURM_NODEID": ""}, "011 SLURM_NODEID"),
        ("modelarts", {"MA_NUM_HOSTS": "3"}, "005 VC_WORKER_HOSTS"),
        ("modelarts", {"VC_TASK_INDEX": "2"}, "004 VC_TASK_INDEX"),
        ("modelarts", {"VC_WORKER_HOSTS": "a,a"}, "006 VC_WORKER_HOSTS"),
        ("modelarts-old", {"BATCH_CUSTOM1_HOSTS": ""}, "011 BATCH_CUSTOM1_HOSTS"),
        ("modelarts-old", {"BATCH_CURRENT_HOST": "job0001-0.job0001"}, "007 BATCH_CURRENT_HOST"),
        ("aihc", {"RANK": "-1"}, "003 RANK"),
        ("aihc", {"MASTER_PORT": "70000"}, "003 MASTER_PORT"),
        ("openmpi", {"OMPI_COMM_WORLD_RANK": ""}, "011 OMPI_COMM_WORLD_RANK"),
        ("openmpi", {"OMPI_COMM_WORLD_LOCAL_RANK": "1"}, "004 OMPI_COMM_WORLD_LOCAL_RANK"),
        ("paddlejob", {"PADDLE_TRAINERS_NUM": "3"}, "005 PADDLE_TRAINERS"),
        ("paddlejob", {"TRAINING_ROLE": "BOSS"}, "010 TRAINING_ROLE"),
        ("paddle-launch", {"PADDLE_TRAINERS_NUM": "3"}, "005 PADDLE_TRAINER_ENDPOINTS"),
        ("mlp", {"MLP_WORKER_NUM": "3"}, "005 MLP_WORKER_ALL_HOSTS"),
        ("mlp", {"MLP_ROLE_INDEX": "2"}, "004 MLP_ROLE_INDEX"),
        ("sagemaker", {"SM_CURRENT_HOST": "algo-20"}, "007 SM_CURRENT_HOST"),
        ("sagemaker", {"SM_CURRENT_HOST": ""}, "011 SM_CURRENT_HOST"),
        ("sagemaker", {"SM_HOSTS": "algo-1"}, "008 SM_HOSTS"),
        ("vertex", {"CLUSTER_SPEC": "{"}, "008 CLUSTER_SPEC"),
        ("tensorflow", {"TF_CONFIG": "[]"}, "008 TF_CONFIG"),
        ("tensorflow", {"TF_CONFIG": '{"cluster": {"worker": "a:1"}, "task": {}}'}, "008 TF_CONFIG"),
        ("tensorflow", {"TF_CONFIG": '{"cluster": {"worker": ["a:1"]}, "task": {"type": "ps"}}'}, "010 TF_CONFIG"),
        ("tensorflow", {"TF_CONFIG": '{"cluster": {"worker": ["a:x"]}, "task": {"type": "worker"}}'}, "009 TF_CONFIG"),
        ("volcano", {"VC_WORKER_NUM": "3"}, "005 VC_WORKER_HOSTS"),
        ("skypilot", {"SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.1"}, "006 SKYPILOT_NODE_IPS"),
        ("kubeflow-trainer", {"PET_NNODES": "many"}, "003 PET_NNODES"),
        ("umiak", {"UMIAK_HOST": "node0.example"}, "007 UMIAK_HOST"),
        ("umiak", {"UMIAK_NODE_ROLE": "boss"}, "010 UMIAK_NODE_ROLE"),
        ("umiak", {"UMIAK_SERVER_ENDPOINTS": "a"}, "009 UMIAK_SERVER_ENDPOINTS"),
        ("umiak", {"UMIAK_NODE_LOCAL_RANK": "2", "UMIAK_NODE_LOCAL_SIZE": "2"}, "004 UMIAK_NODE_LOCAL_RANK"),
    ],
)
def test_contradictions(platform: str, spoiled: dict[str, str], problem: str) -> None:
    assert problem in refused(environment(platform, 2, 1) | spoiled)


def test_all_contradictions_are_raised_at_once() -> None:
    environ = {"UMIAK_NNODES": "2", "UMIAK_NODE_RANK": "2", "UMIAK_HOSTS": "a,b,b", "UMIAK_NPROC_PER_NODE": "x"}
    assert set(refused(environ)) == {
        "003 UMIAK_NPROC_PER_NODE",
        "004 UMIAK_NODE_RANK",
        "005 UMIAK_HOSTS",
        "006 UMIAK_HOSTS",
    }


def test_a_launch_on_a_laptop_imports_the_table_only() -> None:
    """Neither rules nor slow modules of the standard library."""
    script = (
        "import sys, umiak.platforms as p; p.detect({'PATH': '/bin'});"
        "print(*sorted(name for name in sys.modules if name.startswith('umiak.platforms.')"
        " or name in ('typing', 're', 'json', 'dataclasses', 'argparse', 'inspect')))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", _with_path(script)], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_no_rule_imports_slow_modules() -> None:
    modules = ", ".join(sorted({f"umiak.platforms.{rule.place.partition(':')[0]}" for rule in RULES}))
    slow = "('typing', 're', 'json', 'dataclasses', 'argparse', 'inspect')"
    script = f"import sys, {modules}; print(*[name for name in sys.modules if name in {slow}])"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", _with_path(script)], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("", "")
