"""job.yaml: what it says, and everything that is wrong with it at once."""

from __future__ import annotations

import pytest

from umiak.core.cluster import Mode, Role
from umiak.core.devices import DeviceKind
from umiak.core.job import FileSet, FrameworkName, Job, Replicas, Resource, RoleSpec, Transfer
from umiak.submit import job_file

SMALL = "name: ctr\ncommand: train.py --lr 0.1\n"


def job(text: str) -> Job:
    found = job_file.read(text, "job.yaml")
    assert not found.problems
    assert found.job is not None
    return found.job


def problems(text: str) -> list[str]:
    found = job_file.read(text, "job.yaml")
    assert found.job is None
    return [f"{each.code} {each.where} {each.what}" for each in found.problems]


def test_a_name_and_a_command_are_enough() -> None:
    assert job(SMALL) == Job(name="ctr", command=("train.py", "--lr", "0.1"))


def test_everything() -> None:
    found = job(
        """
name: ctr
framework: Paddle
image: registry.example.org/ctr:1
command: [train.py, --note, two words]
nodes: 2:4
workers: 8
cpus: 16
memory: 64GiB
devices: 8
device: npu
shared_memory: 500 MB
env: {LR: 0.1, FLAG: yes, EMPTY: }
secrets: [HF_TOKEN, DB_PASSWORD]
files: src
include: "*.py"
exclude: [data, "*.log"]
inputs: {train_data: s3://bucket/day1}
outputs: {models: hdfs://nn/models}
restarts: 3
time_limit: 1d12h
"""
    )
    assert found == Job(
        name="ctr",
        command=("train.py", "--note", "two words"),
        roles=(
            RoleSpec(
                nodes=Replicas(least=2, most=4),
                workers=8,
                resource=Resource(
                    cpus=16.0, memory_bytes=64 << 30, devices=8, device=DeviceKind.NPU, shared_memory_bytes=500_000_000
                ),
            ),
        ),
        framework=FrameworkName.PADDLE,
        image="registry.example.org/ctr:1",
        env=(("LR", "0.1"), ("FLAG", "yes"), ("EMPTY", "")),
        secrets=("HF_TOKEN", "DB_PASSWORD"),
        files=FileSet(root="src", include=("*.py",), exclude=("data", "*.log")),
        inputs=(Transfer(url="s3://bucket/day1", path="train_data"),),
        outputs=(Transfer(url="hdfs://nn/models", path="models"),),
        max_restarts=3,
        time_limit_s=36 * 3600,
    )


def test_roles_take_from_the_job_what_they_do_not_say() -> None:
    found = job(
        SMALL
        + """
cpus: 4
env: {A: job, B: job}
roles:
  trainer: {nodes: 4, workers: 2, env: {B: trainer}}
  server: {nodes: 2, cpus: 8, command: serve.py}
"""
    )
    server, trainer = found.roles
    assert found.mode is Mode.PS
    assert (server.role, str(server.nodes), server.resource.cpus) == (Role.SERVER, "2", 8.0)
    assert (trainer.role, str(trainer.nodes), trainer.resource.cpus, trainer.workers) == (Role.TRAINER, "4", 4.0, 2)
    assert found.command_of(server) == ("serve.py",)
    assert found.command_of(trainer) == ("train.py", "--lr", "0.1")
    assert found.environment_of(trainer) == {"A": "job", "B": "trainer"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("60", 60), ("90s", 90), ("15m", 900), ("2h", 7200), ("1h30m", 5400)],
)
def test_time_spans(text: str, expected: int) -> None:
    assert job(f"{SMALL}time_limit: {text}").time_limit_s == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1024", 1024), ("2k", 2000), ("2Ki", 2048), ("1.5GiB", 3 << 29), ("16 GB", 16 * 10**9), ("1t", 10**12)],
)
def test_sizes(text: str, expected: int) -> None:
    assert job(f"{SMALL}memory: {text}").roles[0].resource.memory_bytes == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("nodes: 0", "UM-CONFIG-014 job.yaml:3:8 job: nodes: expected a number of nodes, got 0"),
        ("nodes: 4:2", "UM-CONFIG-014 job.yaml:3:8 job: nodes: expected a number of nodes, got 4:2"),
        ("nodes: [1]", "UM-CONFIG-013 job.yaml:3:8 job: nodes must be a number of nodes, or least:most, not a list"),
        ("workers: 0", "UM-CONFIG-014 job.yaml:3:10 job: workers: less than 1: 0"),
        ("memory: lots", "UM-CONFIG-014 job.yaml:3:9 job: memory: expected a size, got lots"),
        ("time_limit: soon", "UM-CONFIG-014 job.yaml:3:13 job: time_limit: expected a time span, got soon"),
        (
            'command: "train.py \'x"',
            "UM-CONFIG-014 job.yaml:3:10 job: command: expected a command line, got train.py 'x",
        ),
        ("env: {2A: b}", "UM-CONFIG-014 job.yaml:3:6 job: env: expected a name of a variable, got 2A"),
        ("env: {A: [b]}", "UM-CONFIG-014 job.yaml:3:6 job: env: A has a value that is no text"),
        ("secrets: [A-B]", "UM-CONFIG-014 job.yaml:3:10 job: secrets: expected a name of a variable, got A-B"),
        ("inputs: {../x: s3://b}", "UM-CONFIG-014 job.yaml:3:9 job: inputs: outside of the working directory: ../x"),
        ("inputs: {x: 3}", "UM-CONFIG-014 job.yaml:3:9 job: inputs: x needs a place"),
        ("device: tpu", "UM-CONFIG-014 job.yaml:3:9 job: device: unknown value: tpu"),
        ("include: a", "UM-SUBMIT-001 job.yaml:3:1 job: include without files: nothing is sent"),
        ("nnodes: 2", "UM-CONFIG-012 job.yaml:3:1 job: unknown key: nnodes"),
        ("colour: red", "UM-CONFIG-012 job.yaml:3:1 job: unknown key: colour"),
        ("roles: {servr: {}, trainer: {}}", "UM-CONFIG-012 job.yaml:3:9 job: unknown role: servr"),
        ("roles: {trainer: 2}", "UM-CONFIG-013 job.yaml:3:18 role trainer must be a mapping, not the number 2"),
        ("roles: {server: {nodes: 2}}", "UM-CONFIG-011 job.yaml:3:8 job: roles has no trainer"),
        ("roles: {trainer: {node: 2}}", "UM-CONFIG-012 job.yaml:3:19 role trainer: unknown key: node"),
    ],
)
def test_what_is_wrong_has_its_place(line: str, expected: str) -> None:
    assert expected in problems(SMALL + line)


def test_everything_that_is_wrong_is_told_at_once() -> None:
    assert problems("name: a b\nnodes: x\nmemroy: 3\n") == [
        "UM-CONFIG-011 job.yaml:1:1 job: command is missing",
        "UM-CONFIG-014 job.yaml:1:7 job: name: expected a name, got a b",
        "UM-CONFIG-014 job.yaml:2:8 job: nodes: expected a number of nodes, got x",
        "UM-CONFIG-012 job.yaml:3:1 job: unknown key: memroy",
    ]
    assert problems("- a\n") == ["UM-CONFIG-013 job.yaml:1:1 a job is a mapping, and this is a list"]
    assert "UM-CONFIG-011 job.yaml:1:1 job: name is missing" in problems("")
    assert "UM-CONFIG-011 job.yaml:1:10 role trainer: command is missing" in problems("roles: { trainer: {}}")


# ---- what differs on a place

OVERRIDDEN = """\
name: ctr
command: train.py
image: paddle:3.3
nodes: 4
secrets: [KEY]
env: {A: 1, B: 2}
roles:
  server: {nodes: 2, cpus: 8}
  trainer: {nodes: 4, cpus: 16, env: {C: 3}}
on:
  lab:
    image: null
    secrets: []
    env: {B: 20, D: 4}
    roles:
      trainer: {nodes: 1, env: {E: 5}}
  laptop: {roles: null, cpus: 2, nodes: 1}
  cluster:
"""


def test_a_place_lays_its_own_keys_over_the_job() -> None:
    reading = job_file.read(OVERRIDDEN, "job.yaml")
    assert reading.problems == ()
    base = reading.job
    assert base is not None
    assert [each.name for each in reading.overrides] == ["lab", "laptop"]
    lab = reading.job_on("lab")
    assert lab is not None
    assert (lab.image, lab.secrets) == ("", ())
    assert lab.env == (("A", "1"), ("B", "20"), ("D", "4"))
    server, trainer = lab.roles
    assert server == base.roles[0]
    assert (trainer.nodes, trainer.resource.cpus) == (Replicas(least=1, most=1), 16)
    assert trainer.env == (("C", "3"), ("E", "5"))
    laptop = reading.job_on("laptop")
    assert laptop is not None
    assert laptop.roles == (RoleSpec(resource=Resource(cpus=2)),)
    assert laptop.image == "paddle:3.3"
    assert reading.job_on("cluster") == reading.job_on("elsewhere") == base


def test_what_is_wrong_for_a_place_is_told_at_its_line_whichever_place_is_asked_for() -> None:
    text = """\
name: ctr
command: train.py
restarts: often
files: .
include: "*.py"
on:
  lab: {nodes: many, name: other}
  hpc:
    cpsu: 2
    files: null
    on: {}
  "a b": {}
  ray: 3
  aihc: {roles: {tainer: {}}}
"""
    assert problems(text) == [
        'UM-CONFIG-013 job.yaml:3:11 job: restarts must be an integer, not the text "often"',
        "UM-SUBMIT-001 job.yaml:5:1 job on hpc: include without files: nothing is sent",
        "UM-CONFIG-014 job.yaml:7:16 job on lab: nodes: expected a number of nodes, got many",
        "UM-CONFIG-014 job.yaml:7:22 job on lab: name is the same on all places",
        "UM-CONFIG-012 job.yaml:9:5 job on hpc: unknown key: cpsu",
        "UM-CONFIG-014 job.yaml:11:5 job on hpc: on is the same on all places",
        "UM-CONFIG-014 job.yaml:12:3 job: on: expected a name of a place, got a b",
        "UM-CONFIG-013 job.yaml:13:8 job: on: ray must be a mapping, not the number 3",
        "UM-CONFIG-012 job.yaml:14:18 job on aihc: unknown role: tainer",
    ]
    assert problems("name: ctr\ncommand: a\non: lab\n") == [
        'UM-CONFIG-013 job.yaml:3:5 job: on must be a mapping, not the text "lab"'
    ]
