"""Plans: who runs what, alone, on this machine, on every kind of node; and how a plan is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.train_helpers import ASYNC_CLUSTER, COLLECTIVE_CLUSTER, FLAT, PS_CLUSTER, SINGLE, config, runner_text
from umiak import platforms
from umiak.core.cluster import StrategyName
from umiak.core.decode import encode
from umiak.core.problem import UmiakError
from umiak.testing import environments
from umiak.train.config.values import FleetMode
from umiak.train.plan import explain
from umiak.train.plan.plan import Plan, Run, RunRole, WorkerGroup, obstacles, plan
from umiak.train.plan.process_role import process_role

SERVERS = "10.0.0.1:36000,10.0.0.2:36000"
COUNTED = {"PADDLE_TRAINER_ID": "0", "PADDLE_TRAINERS_NUM": "2"}
LOCAL = {"class": "local_cluster_train"}


def planned(text: str, environ: dict[str, str] | None = None) -> Plan:
    environ = environ or {}
    return plan(config(text), process_role(environ, platforms.detect(environ)), "config.yaml")


def group(text: str, environ: dict[str, str] | None = None) -> WorkerGroup:
    return planned(text, environ).runs[0].group


def refused(text: str, environ: dict[str, str]) -> list[str]:
    with pytest.raises(UmiakError) as caught:
        planned(text, environ)
    assert {problem.code for problem in caught.value.problems} == {"UM-TRAIN-003"}
    return [problem.what for problem in caught.value.problems]


def worker(role: str, rank: int, *, trainers: int = 2, servers: str = SERVERS) -> dict[str, str]:
    """What `umiak launch` gives a worker beside parameter servers."""
    made = {
        "UMIAK_JOB_ID": "ctr",
        "UMIAK_ROLE": role,
        "UMIAK_RANK": str(rank),
        "UMIAK_WORLD_SIZE": str(trainers if role == "trainer" else len(servers.split(","))),
        "PADDLE_TRAINERS_NUM": str(trainers),
    }
    return {**made, **({"UMIAK_SERVERS": servers} if servers else {})}


def pod(role: str, rank: int, **more: str) -> dict[str, str]:
    """What PaddleCloud gives a node of a job with parameter servers."""
    return {
        "PADDLE_PADDLEREC_ROLE": "WORKER",
        "TRAINING_ROLE": role,
        "PADDLE_PSERVERS_IP_PORT_LIST": SERVERS,
        "PADDLE_TRAINERS_NUM": "2",
        "PADDLE_TRAINER_ID": str(rank),
        "POD_IP": f"10.0.0.{rank + 1}",
        "PADDLE_PORT": "36000",
        **more,
    }


# ---- who


def test_alone() -> None:
    assert group(SINGLE) == WorkerGroup(role=RunRole.ALONE, why="class train")
    assert group(runner_text(class_="infer", init_model_path="m")) == WorkerGroup(role=RunRole.ALONE, why="class infer")


def test_on_this_machine_with_servers() -> None:
    assert group(
        runner_text(**LOCAL, worker_num=3, server_num=2, distribute_strategy="geo", geo_step=9)
    ) == WorkerGroup(
        role=RunRole.LAUNCHER,
        fleet_mode=FleetMode.PS,
        strategy=StrategyName.GEO,
        geo_steps=9,
        trainers=3,
        servers=2,
        trainers_here=3,
        servers_here=2,
        why="class local_cluster_train",
    )


def test_on_this_machine_collectively() -> None:
    made = group(runner_text(**LOCAL, device="gpu", selected_gpus='"0,1"'))
    assert (made.role, made.fleet_mode, made.strategy) == (RunRole.LAUNCHER, FleetMode.COLLECTIVE, None)
    assert (made.trainers, made.trainers_here, made.servers, made.servers_here) == (2, 2, 0, 0)
    assert group(runner_text(device="gpu", selected_gpus='"0,1"')).trainers_here == 2
    one = group(runner_text(**LOCAL, device="gpu"))
    assert (one.trainers, one.trainers_here) == (1, 1)
    on_cpu = group(runner_text(**LOCAL, fleet_mode="collective", worker_num=2))
    assert (on_cpu.fleet_mode, on_cpu.trainers, on_cpu.servers) == (FleetMode.COLLECTIVE, 2, 0)


def test_a_cluster_is_needed() -> None:
    made = planned(PS_CLUSTER)
    assert made.runs[0].group.role is RunRole.OUTSIDE
    (problem,) = obstacles(made)
    assert problem.code == "UM-TRAIN-004"
    assert problem.what == "runner ps_cluster has class cluster_train, and this is not a node of a cluster"
    assert obstacles(planned(SINGLE)) == ()


@pytest.mark.parametrize("text", [ASYNC_CLUSTER, PS_CLUSTER, runner_text(**LOCAL)])
def test_workers_of_our_launcher(text: str) -> None:
    made = group(text, worker("trainer", 1))
    assert (made.role, made.rank, made.trainers, made.servers) == (RunRole.TRAINER, 1, 2, 2)
    assert made.strategy is StrategyName.ASYNC
    made = group(text, worker("server", 1))
    assert (made.role, made.rank, made.trainers, made.servers) == (RunRole.SERVER, 1, 2, 2)


def test_a_config_that_does_not_say_where_it_is_run() -> None:
    text = FLAT.replace("  epochs: 3", "  epochs: 3\n  sync_mode: geo")
    assert group(text) == WorkerGroup(role=RunRole.ALONE, why="no cluster")
    made = group(text, worker("trainer", 1))
    assert (made.role, made.rank, made.strategy) == (RunRole.TRAINER, 1, StrategyName.GEO)
    assert group(text, environments.environment("slurm", nodes=2, rank=1)).role is RunRole.LAUNCHER


def test_workers_without_servers() -> None:
    made = group(COLLECTIVE_CLUSTER, worker("trainer", 1, servers=""))
    assert (made.role, made.rank, made.trainers, made.servers, made.strategy) == (RunRole.TRAINER, 1, 2, 0, None)
    assert (
        group(runner_text(device="gpu", selected_gpus='"0,1"'), worker("trainer", 0, servers="")).role
        is RunRole.TRAINER
    )
    assert group(PS_CLUSTER, worker("trainer", 0, trainers=1, servers="")).role is RunRole.ALONE
    assert group(SINGLE, worker("trainer", 0, trainers=1, servers="")).role is RunRole.ALONE


def test_children_of_paddles_launcher() -> None:
    environ = {
        "PADDLE_CURRENT_ENDPOINT": "10.0.0.1:6171",
        "PADDLE_TRAINER_ID": "1",
        "PADDLE_TRAINERS_NUM": "2",
        "PADDLE_TRAINER_ENDPOINTS": "10.0.0.1:6170,10.0.0.1:6171",
    }
    made = group(COLLECTIVE_CLUSTER, environ)
    assert (made.role, made.rank, made.trainers) == (RunRole.TRAINER, 1, 2)


def test_nodes_of_paddlecloud() -> None:
    made = group(PS_CLUSTER, pod("TRAINER", 1))
    assert (made.role, made.rank, made.trainers, made.servers) == (RunRole.TRAINER, 1, 2, 2)
    made = group(PS_CLUSTER, pod("PSERVER", 1))
    assert (made.role, made.rank) == (RunRole.SERVER, 1)
    older = {
        "PADDLE_TRAINING_ROLE" if name == "TRAINING_ROLE" else name: item for name, item in pod("PSERVER", 0).items()
    }
    assert group(PS_CLUSTER, older).role is RunRole.SERVER


@pytest.mark.parametrize("platform", ["slurm", "openmpi", "modelarts", "umiak"])
def test_nodes_of_a_platform(platform: str) -> None:
    environ = environments.environment(platform, nodes=2, rank=1)
    made = group(PS_CLUSTER, environ)
    assert made.role is RunRole.LAUNCHER
    assert (made.trainers, made.servers, made.trainers_here, made.servers_here) == (2, 2, 1, 1)
    assert made.why.startswith(f"{platform}: ")
    made = group(COLLECTIVE_CLUSTER, environ)
    assert (made.role, made.trainers_here, made.servers_here) == (RunRole.LAUNCHER, None, 0)


def test_a_node_with_a_role() -> None:
    environ = {"UMIAK_NNODES": "3", "UMIAK_NODE_RANK": "0", "UMIAK_NODE_ROLE": "server"}
    made = group(PS_CLUSTER, environ)
    assert (made.role, made.trainers_here, made.servers_here) == (RunRole.LAUNCHER, 0, 1)
    made = group(PS_CLUSTER, {**environ, "UMIAK_NODE_ROLE": "trainer"})
    assert (made.role, made.trainers_here, made.servers_here) == (RunRole.LAUNCHER, 1, 0)


def test_infer_is_done_by_one() -> None:
    text = runner_text(class_="infer", init_model_path="m")
    assert group(text, worker("trainer", 0)).role is RunRole.ALONE
    assert group(text, worker("trainer", 1)).role is RunRole.IDLE
    assert group(text, worker("server", 0)).role is RunRole.IDLE
    assert group(text, environments.environment("slurm", nodes=2, rank=1)).role is RunRole.IDLE
    assert group(text, environments.environment("slurm", nodes=2, rank=0)).role is RunRole.ALONE


def test_online_learning() -> None:
    given: dict[str, Any] = {"class": "online_learning", "start_day": 20260101, "end_day": 20260102}
    assert group(runner_text(**given)).role is RunRole.ALONE
    assert group(runner_text(**given, worker_num=2)).role is RunRole.LAUNCHER
    assert group(runner_text(**given), worker("trainer", 1)).role is RunRole.TRAINER


# ---- what can't be


@pytest.mark.parametrize(
    ("text", "environ", "expected"),
    [
        (
            SINGLE,
            worker("trainer", 1),
            "runner single_cpu_train: class train is for one process, and this is trainer 1 of 2 (UMIAK_ROLE=trainer)",
        ),
        (
            SINGLE,
            worker("server", 0),
            "runner single_cpu_train: class train is for one process, and this is a parameter server (UMIAK_ROLE=server)",
        ),
        (
            COLLECTIVE_CLUSTER,
            worker("server", 0),
            "runner collective_cluster: fleet_mode is collective, and this is a parameter server (UMIAK_ROLE=server)",
        ),
        (
            PS_CLUSTER,
            worker("trainer", 0, servers=""),
            "runner ps_cluster: fleet_mode is ps, and there is no parameter server for 2 trainers",
        ),
        (
            PS_CLUSTER,
            {"PADDLE_PADDLEREC_ROLE": "WORKER"},
            "runner ps_cluster: nothing says which node this is, though PADDLE_PADDLEREC_ROLE is WORKER",
        ),
        (PS_CLUSTER, {"TRAINING_ROLE": "BOSS"}, "TRAINING_ROLE: neither PSERVER nor TRAINER: BOSS"),
        (PS_CLUSTER, {"UMIAK_SERVERS": SERVERS, **COUNTED}, "TRAINING_ROLE: neither PSERVER nor TRAINER: not set"),
        (
            PS_CLUSTER,
            worker("heter", 0),
            "UMIAK_ROLE: there are no heter workers in training from a config: heter",
        ),
        (PS_CLUSTER, worker("trainer", 2), "trainer 2 is out of range: UMIAK_WORLD_SIZE says that there are 2"),
        (PS_CLUSTER, {**worker("trainer", 0), "UMIAK_RANK": "x"}, "UMIAK_RANK: expected an integer, 0 or more: x"),
        (
            PS_CLUSTER,
            {**worker("trainer", 0), "UMIAK_WORLD_SIZE": "0"},
            "UMIAK_WORLD_SIZE: expected an integer, 1 or more: 0",
        ),
        (
            PS_CLUSTER,
            {"TRAINING_ROLE": "PSERVER", "PADDLE_CURRENT_ENDPOINT": "10.0.0.9:1", "UMIAK_SERVERS": SERVERS, **COUNTED},
            "this server's address is not in PADDLE_PSERVERS_IP_PORT_LIST: 10.0.0.9:1",
        ),
    ],
)
def test_what_can_not_be_done_here(text: str, environ: dict[str, str], expected: str) -> None:
    with pytest.raises(UmiakError) as caught:
        plan(config(text), process_role(environ), "config.yaml")
    assert [problem.what for problem in caught.value.problems] == [expected]
    assert {problem.code for problem in caught.value.problems} == {"UM-TRAIN-003"}


def test_all_runners_are_looked_at() -> None:
    text = runner_text().replace("mode: r", "mode: [r, s]").replace("phase:", "- name: s\n  epochs: 1\nphase:", 1)
    assert [what.split(":")[0] for what in refused(text, worker("trainer", 0))] == ["runner r", "runner s"]


# ---- what


def test_a_plan_has_everything() -> None:
    found = config(FLAT, "mode=[train, infer]", directory="ctr")
    made = plan(found, process_role({}), "ctr/config.yaml")
    train, infer = made.runs
    assert [run.name for run in made.runs] == ["train", "infer"]
    assert (made.config, made.workspace) == ("ctr/config.yaml", "ctr")
    assert made.hyper_parameters["fc_sizes"] == (512, 256, 128, 32)
    assert (train.runner.epochs, train.runner.print_interval, train.runner.seed) == (3, 10, 12345)
    assert train.runner is found.runner("train"), "nothing of a runner is copied"
    (stage,) = train.stages
    assert (stage.name, stage.model, stage.threads, stage.shuffle_files) == ("train", "ctr/model.py", 1, False)
    assert stage.dataset is found.dataset("train")
    assert infer.runner.init_model_path == "output_model_dnn"
    assert infer.runner.infer_epochs == (0, 3)
    assert (train.is_training, infer.is_training) == (True, False)


def test_a_plan_is_the_same_for_the_same_config_and_place() -> None:
    assert planned(PS_CLUSTER, pod("TRAINER", 1)) == planned(PS_CLUSTER, pod("TRAINER", 1))


def test_a_plan_is_plain_data() -> None:
    plain = encode(planned(FLAT, {}))
    assert json.loads(json.dumps(plain)) == plain
    assert plain["runs"][0]["stages"][0]["dataset"]["batch_size"] == 512
    assert {*plain["runs"][0]} == {*Run.__annotations__}


# ---- in words

TREE = """\
config.yaml, workspace ./
└─ ps_cluster: cluster_train on cpu
   ├─ who: trainer 1 of 2 with 2 parameter servers, async (TRAINING_ROLE=TRAINER)
   ├─ epochs: 4; a line every 10 batches
   ├─ phase1: ./model.py, 1 thread
   │  ├─ dataloader_train: ./train_data, batches of 2, DataLoader
   │  │  ├─ 1 dense slot: dense_var:13
   │  │  └─ 27 sparse slots: click 1 2 3 4 5 6 ... 26
   │  └─ embedding tables: shared, equal ids of slots click 1 2 3 4 5 6 ... 26 are one row where the model looks these up in one table; `embedding_tables: per_slot` keeps slots apart
   ├─ data: handed out in parts to the trainers, each part to one that is free, each sample goes to one of them
   └─ saves: increment_dnn/EPOCH (from 0), every 2 epochs and the last one"""


def test_the_tree() -> None:
    made = planned(ASYNC_CLUSTER, pod("TRAINER", 1))
    assert explain.text(made) == TREE
    plain = explain.text(made, plain=True)
    assert plain.isascii()
    assert plain == TREE.replace("├─", "|-").replace("└─", "`-").replace("│", "|")


def lines(text: str, environ: dict[str, str] | None = None) -> str:
    return explain.text(planned(text, environ))


@pytest.mark.parametrize(
    ("text", "environ", "expected"),
    [
        (SINGLE, {}, "who: this process, alone (class train)"),
        (PS_CLUSTER, {}, "who: all trainers and all parameter servers, async; needs a cluster (no cluster)"),
        (PS_CLUSTER, pod("PSERVER", 0), "who: parameter server 0 of 2 for 2 trainers, async (TRAINING_ROLE=PSERVER)"),
        (COLLECTIVE_CLUSTER, worker("trainer", 0, servers=""), "who: trainer 0 of 2, collective (UMIAK_ROLE=trainer)"),
        (
            runner_text(**LOCAL, worker_num=2, distribute_strategy="geo"),
            {},
            (
                "who: 2 trainers and 1 parameter server, geo, an exchange every 100 batches; started on this node: "
                "1 parameter server, then 2 trainers (class local_cluster_train)"
            ),
        ),
        (
            runner_text(**LOCAL, distribute_strategy="sync", wire="bfloat16"),
            {},
            (
                "who: 1 trainer and 1 parameter server, sync, bfloat16 on the wire; started on this node: "
                "1 parameter server, then 1 trainer (class local_cluster_train)"
            ),
        ),
        (
            runner_text(**LOCAL, distribute_strategy="sync", prefetch_rows=0),
            {},
            (
                "who: 1 trainer and 1 parameter server, sync, rows are not prefetched; started on this node: "
                "1 parameter server, then 1 trainer (class local_cluster_train)"
            ),
        ),
        (
            COLLECTIVE_CLUSTER,
            {"UMIAK_NNODES": "2", "UMIAK_NODE_RANK": "1"},
            (
                "who: all trainers, collective; started on this node: a trainer for each device "
                "(umiak: UMIAK_NODE_RANK=1 of UMIAK_NNODES=2)"
            ),
        ),
        (runner_text(**LOCAL, device="gpu", selected_gpus='"0,2"'), {}, "r: local_cluster_train on gpu 0, 2"),
        (
            runner_text(class_="infer", init_model_path="m"),
            worker("trainer", 1),
            "who: another process; this one has nothing to do (trainer 0 evaluates)",
        ),
        (runner_text(class_="infer", init_model_path="m"), {}, "evaluates: m, every checkpoint that is there"),
        (runner_text(class_="infer", init_model_path="m", infer_end_epoch=3), {}, "evaluates: m, epochs 0 to 2"),
        (runner_text(class_="infer", init_model_path="m", infer_end_epoch=1), {}, "evaluates: m, epoch 0"),
        (runner_text(init_model_path="m"), {}, "starts from: m"),
        (runner_text(), {}, "saves: nothing"),
        (runner_text(save_checkpoint_path="o"), {}, "saves: o/EPOCH (from 0), every epoch and the last one"),
        (runner_text(save_step_path="o", save_step_interval=5), {}, "saves: o/epoch_E_batch_B, every 5 batches"),
        (
            runner_text(save_inference_path="o"),
            {},
            "saves: inference models o/EPOCH (from 0), every epoch and the last one",
        ),
        (runner_text(runner_result_dump_path="m.json"), {}, "saves: m.json, the metrics of each batch"),
        (FLAT, {}, "read by: RecDataset of ./criteo_reader.py"),
        (
            runner_text(
                class_="online_learning", start_day=20260101, end_day=20260103, split_per_pass=2, data_donefile="ok"
            ),
            {},
            "days: 20260101 to 20260103, 12 passes of 120 minutes a day, waiting for ok; a line every 20 batches",
        ),
        (
            runner_text(
                class_="online_learning",
                start_day=20260101,
                end_day=20260101,
                split_interval=1440,
                save_checkpoint_path="o",
            ),
            {},
            "days: 20260101, one pass a day; a line every 20 batches",
        ),
        (
            runner_text(class_="online_learning", start_day=20260101, end_day=20260101, save_checkpoint_path="o"),
            {},
            "saves: o/DAY/PASS, every 6 passes and the last one",
        ),
        (
            runner_text(class_="online_learning", start_day=20260101, end_day=20260101, save_inference_path="o"),
            {},
            "saves: inference models o: a delta every 6 passes, a base at the end of a day",
        ),
        (runner_text(print_interval=1), {}, "epochs: 1; a line every batch"),
        (runner_text(shuffle=5000), {}, "epochs: 1; shuffled in windows of 5,000 samples; a line every 20 batches"),
        (
            ASYNC_CLUSTER + "embedding_tables: per_slot\n",
            {},
            "embedding tables: one for each slot, equal ids of two slots are two rows",
        ),
        (
            ASYNC_CLUSTER,
            pod("TRAINER", 1) | {"PADDLEREC_CLUSTER_TYPE": "MPI"},
            (
                "data: each node's own part is handed out in parts to its trainers, each part to one that is free, each node reads "
                "all that it has (PADDLEREC_CLUSTER_TYPE=MPI); one that runs out waits for the others"
            ),
        ),
        (
            ASYNC_CLUSTER.replace("distribute_strategy: async", "distribute_strategy: sync\n  node_data: own"),
            pod("TRAINER", 1),
            (
                "data: each node's own part is divided among its trainers, each node reads all that it has (node_data: own); "
                "one that runs out takes part in the others' steps without samples"
            ),
        ),
        (
            COLLECTIVE_CLUSTER,
            worker("trainer", 0, servers="") | {"PADDLEREC_CLUSTER_TYPE": "K8S"},
            (
                "data: divided among the trainers, each sample goes to one of them; one that runs out takes part in the others' "
                "steps without samples"
            ),
        ),
    ],
)
def test_lines_of_the_tree(text: str, environ: dict[str, str], expected: str) -> None:
    assert expected in [line.lstrip("├└─│ ") for line in lines(text, environ).splitlines()]


def test_a_server_is_not_told_about_data() -> None:
    assert "model.py" not in lines(PS_CLUSTER, pod("PSERVER", 0))
