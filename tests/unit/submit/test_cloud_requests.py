"""What a job becomes for ModelArts, AIHC, PAI and BML, and what its containers read back from the cloud's variables."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.support.effort import times
from tests.support.paths import ROOT
from umiak import platforms
from umiak.core.cluster import Role
from umiak.core.devices import DeviceKind
from umiak.core.job import Job, Replicas, Resource, RoleSpec, Transfer
from umiak.core.problem import UmiakError
from umiak.core.value import replace
from umiak.schema.settings import table
from umiak.submit import places, registry
from umiak.submit.backend import SubmitContext
from umiak.submit.backends.aihc import request as aihc
from umiak.submit.backends.bml import request as bml
from umiak.submit.backends.cloud import layout, log_windows
from umiak.submit.backends.cloud.backend import CloudBackend
from umiak.submit.backends.cloud.layout import CloudLayout
from umiak.submit.backends.modelarts import api as modelarts_api
from umiak.submit.backends.modelarts import request as modelarts
from umiak.submit.backends.pai import request as pai
from umiak.submit.payload import cloud_plan, cloud_start, node_plan
from umiak.testing.environments import environment

SETTINGS = {
    "modelarts": 'store = "obs://bucket/umiak"\nproject = "p0"\nflavor = "f1"\nserver_flavor = "f2"\npool = "pool-1"\n'
    'log_path = "obs://bucket/logs"\n',
    "aihc": 'store = "bos://bucket/umiak"\npool = "cce-1"\nqueue = "default"\ndevice = "baidu.com/a800_80g_cgpu"\n',
    "pai": 'store = "oss://bucket/umiak"\nworkspace = "268"\nquota = "quota-1"\n',
    "bml": 'store = "bos://bucket/umiak"\nrepository = "r1"\nresource = "GPU_V100"\n',
}
RESOURCE = Resource(cpus=8, memory_bytes=64 << 30, devices=8, device=DeviceKind.GPU, shared_memory_bytes=16 << 30)
JOB = Job(
    name="ctr",
    command=("train.py", "--lr", "0.1"),
    roles=(RoleSpec(nodes=Replicas(least=2, most=2), resource=RESOURCE),),
    image="/team/paddle:2.6",
    time_limit_s=5400,
)
PS = replace(
    JOB,
    roles=(
        RoleSpec(role=Role.SERVER, nodes=Replicas(least=2, most=2)),
        RoleSpec(role=Role.TRAINER, nodes=Replicas(least=3, most=3)),
    ),
    time_limit_s=None,
)
RUN = "ctr-3f2a9c1b"


def backend(name: str, more: str = "", environ: dict[str, str] | None = None) -> CloudBackend:
    text = f'[place.lab]\nbackend = "{name}"\nregion = "r1"\n{SETTINGS[name]}{more}'
    reading = places.read([("umiak.toml", text)], registry.BackendNames())
    assert not reading.problems
    context = SubmitContext(environ=environ or {}, directory="/work", state_directory="/state")
    made = registry.make(reading.places["lab"], context)
    assert isinstance(made, CloudBackend)
    return made


def planned(place: CloudBackend, job: Job, digest: str = "d" * 64) -> CloudLayout:
    return layout.of(
        job,
        RUN,
        place.settings,
        launcher_sha256="a" * 64,
        digest=digest,
        most_name=place.MOST_NAME,
        is_one_directory=place.IS_ONE_DIRECTORY,
    )


def body(name: str, job: Job) -> dict[str, Any]:
    place = backend(name)
    return json.loads(json.dumps(place.body(job, planned(place, job))))


LAUNCHER, FILES = f"umiak/launchers/{'a' * 64}/", f"umiak/files/{'d' * 64}/"


def command(home: str, *, limit: str = "timeout --kill-after=30 5400 ", launcher: str = "launcher") -> str:
    start = "umiak.submit.payload.cloud_start"
    return f"{limit}python3 {home}/{launcher}/umiak-launcher.pyz -m {start} {home}/run/start.json"


def test_modelarts_job() -> None:
    home = "/home/ma-user/umiak"
    inputs = [
        {
            "name": f"umiak_{name}",
            "local_dir": f"{home}/{name}",
            "access_method": "env",
            "remote": {"obs": {"obs_url": f"/bucket/{key}"}},
        }
        for name, key in (("launcher", LAUNCHER), ("files", FILES))
    ]
    assert body("modelarts", JOB) == {
        "kind": "job",
        "metadata": {"name": RUN, "workspace_id": "0", "description": f"umiak run {RUN}"},
        "algorithm": {
            "code_dir": f"/bucket/umiak/runs/{RUN}/",
            "local_code_dir": f"{home}/run",
            "command": command(home),
            "engine": {"image_url": "/team/paddle:2.6"},
            "inputs": inputs,
        },
        "spec": {
            "resource": {"flavor_id": "f1", "node_count": 2, "pool_id": "pool-1"},
            "log_export_path": {"obs_url": "/bucket/logs/"},
            "auto_stop": {"time_unit": "HOURS", "duration": 2},
        },
    }


def test_modelarts_job_with_servers() -> None:
    made = body("modelarts", PS)
    assert made["kind"] == "hetero_job"
    assert [each["role"] for each in made["tasks"]] == ["ps", "worker"]
    assert [each["task_resource"] for each in made["tasks"]] == [
        {"flavor_id": "f2", "node_count": 2, "pool_id": "pool-1"},
        {"flavor_id": "f1", "node_count": 3, "pool_id": "pool-1"},
    ]
    algorithm = made["tasks"][0]["algorithm"]
    assert algorithm["boot_file"] == f"/bucket/umiak/runs/{RUN}/start.py"
    assert "command" not in algorithm
    assert all("access_method" not in each for each in algorithm["inputs"])


def test_the_boot_file_is_the_command() -> None:
    """It runs with the image's Python: what it executes is what the command would."""
    place = backend("modelarts")
    plan = planned(place, PS)
    text = dict(plan.objects)[f"umiak/runs/{RUN}/start.py"]
    done: list[tuple[str, list[str]]] = []
    fake_os = type("Os", (), {"execv": staticmethod(lambda path, words: done.append((path, words)))})
    fake_sys = type("Sys", (), {"executable": "/usr/bin/python"})
    code = text.replace("import os\nimport sys\n", "")
    exec(compile(code, "start.py", "exec"), {"os": fake_os, "sys": fake_sys})
    assert done == [("/usr/bin/python", ["/usr/bin/python", *plan.words[1:]])]


def test_aihc_job() -> None:
    sources = [
        {
            "type": "bos",
            "name": "",
            "sourcePath": f"bos:/bucket/{key}",
            "mountPath": f"/mnt/umiak/{name}",
            "options": {"readOnly": True},
        }
        for name, key in (("run", f"umiak/runs/{RUN}/"), ("launcher", LAUNCHER), ("files", FILES))
    ]
    assert body("aihc", JOB) == {
        "name": RUN,
        "command": command("/mnt/umiak"),
        "jobType": "PyTorchJob",
        "priority": "normal",
        "jobSpec": {
            "image": "/team/paddle:2.6",
            "replicas": 2,
            "resources": [
                {"name": "cpu", "quantity": 8},
                {"name": "memory", "quantity": 64},
                {"name": "sharedMemory", "quantity": 16},
                {"name": "baidu.com/a800_80g_cgpu", "quantity": 8},
            ],
            "enableRDMA": False,
        },
        "labels": [{"key": "umiak-run", "value": RUN}, {"key": "umiak-roles", "value": "trainer-2"}],
        "datasources": sources,
    }


def test_pai_jobs() -> None:
    made = body("pai", JOB)
    resource = {"CPU": "8", "Memory": "64Gi", "SharedMemory": "16Gi", "GPU": "8"}
    node = {"PodCount": 1, "Image": "/team/paddle:2.6", "RestartPolicy": "Never", "ResourceConfig": resource}
    assert made["JobSpecs"] == [{"Type": "Master", **node}, {"Type": "Worker", **node}]
    assert (made["JobType"], made["UserCommand"]) == ("PyTorchJob", command("/mnt/umiak"))
    assert (made["ResourceId"], made["JobMaxRunningTimeMinutes"]) == ("quota-1", 90)
    assert made["DataSources"][0] == {
        "Uri": f"oss://bucket/umiak/runs/{RUN}/",
        "MountPath": "/mnt/umiak/run",
        "MountAccess": "RO",
    }
    with_servers = body("pai", PS)
    assert (with_servers["JobType"], with_servers["SuccessPolicy"]) == ("TFJob", "AllWorkers")
    assert [(each["Type"], each["PodCount"]) for each in with_servers["JobSpecs"]] == [("PS", 2), ("Worker", 3)]


def test_bml_job() -> None:
    made = body("bml", JOB)
    assert made["train_config"] == {
        "env_type": "CCR",
        "image": "/team/paddle",
        "tag": "2.6",
        "repository_id": "r1",
        "start_cmd": 'mkdir -p /tmp/umiak && ln -sfn "$PWD" /tmp/umiak/run && exec '
        + command("/tmp/umiak", launcher="run"),
        "code_UrlSource": "BOS",
        "code_path": f"bucket/umiak/runs/{RUN}/",
        "output_UrlSource": "BOS",
        "output_path": f"bucket/umiak/runs/{RUN}/output/",
        "distribute_strategy": "PaddleFleet",
    }
    assert made["resource_config"] == {"resource_type": "PUBLIC", "resource_name": "GPU_V100", "node_count": 2}


# ---- the law: what containers find is read back as the placement that was meant

VARIABLES = {"modelarts": "modelarts", "aihc": "aihc", "bml": "paddlejob"}


@pytest.mark.parametrize("name", list(SETTINGS))
@pytest.mark.parametrize("servers", [0, 2])
def test_nodes_are_read_back(name: str, servers: int) -> None:
    job, count = (PS, 5) if servers else (JOB, 2)
    place = backend(name)
    plan = planned(place, job)
    start = cloud_plan.from_text(dict(plan.objects)[f"{plan.run_key}start.json"])
    platform = VARIABLES.get(name) or ("tensorflow" if servers else "torch")
    knows_roles = platform in ("modelarts", "tensorflow", "paddlejob")
    for rank in range(count):
        said = environment(platform, nodes=count, rank=rank, servers=servers if knows_roles else 0)
        mine, added = cloud_start.seat(start, said)
        found = platforms.detect({**said, **added})
        assert found is not None
        expected = None if not servers else Role.SERVER if rank < servers else Role.TRAINER
        assert (found.nodes, found.rank, found.role) == (count, rank, expected)
        assert mine.role is (expected or Role.TRAINER)
        assert f"{plan.run_key}{mine.plan}" in dict(plan.objects)
        if knows_roles or not servers:
            assert added == {}


@pytest.mark.parametrize("rank", range(2))
def test_old_containers_of_modelarts_are_read_back(rank: int) -> None:
    plan = planned(backend("modelarts"), JOB)
    start = cloud_plan.from_text(dict(plan.objects)[f"{plan.run_key}start.json"])
    said = environment("modelarts-old", nodes=2, rank=rank)
    mine, added = cloud_start.seat(start, said)
    found = platforms.detect({**said, **added})
    assert found is not None
    assert (mine.role, found.nodes, found.rank) == (Role.TRAINER, 2, rank)


def test_a_node_that_nobody_knows_is_told() -> None:
    plan = planned(backend("aihc"), PS)
    start = cloud_plan.from_text(dict(plan.objects)[f"{plan.run_key}start.json"])
    with pytest.raises(UmiakError, match="which node"):
        cloud_start.seat(start, {})
    with pytest.raises(UmiakError, match="more nodes than the job has"):
        cloud_start.seat(start, environment("aihc", nodes=7, rank=6))


def test_secrets_reach_a_file_for_their_owner_alone(tmp_path: Path) -> None:
    (tmp_path / "secrets.json").write_text('{"UMIAK_TOKEN": "x"}')
    (tmp_path / "secrets.json").chmod(0o644)
    roles = (cloud_plan.RolePlan(role=Role.TRAINER, nodes=1, plan="node-trainer.json"),)
    target = tmp_path / "private" / "secrets.json"
    start = cloud_plan.CloudStart(roles=roles, secrets="secrets.json", private=str(target))
    (tmp_path / "start.json").write_text(cloud_plan.as_text(start))
    for _ in range(2):  # a container that is started again finds the copy there
        words, added = cloud_start.prepared(str(tmp_path / "start.json"), {})
        assert words[-1] == str(tmp_path / "node-trainer.json")
        assert added == {}
        assert target.stat().st_mode & 0o777 == 0o600
        assert target.parent.stat().st_mode & 0o777 == 0o700
    (tmp_path / "secrets.json").unlink()
    with pytest.raises(UmiakError, match=r"secrets\.json"):
        cloud_start.prepared(str(tmp_path / "start.json"), {})


# ---- data, names, checks


def test_data_of_the_own_store_is_brought_by_the_cloud() -> None:
    inputs = (Transfer(url="obs://data/day1/", path="train"), Transfer(url="s3://other/day1/", path="more"))
    outputs = (Transfer(url="obs://data/models", path="out"), Transfer(url="obs://data/logs/{rank}", path="log"))
    job = replace(JOB, inputs=inputs, outputs=outputs)
    place = backend("modelarts")
    made = body("modelarts", job)["algorithm"]
    assert made["inputs"][-1]["remote"] == {"obs": {"obs_url": "/data/day1/"}}
    assert made["inputs"][-1]["local_dir"] == "/home/ma-user/umiak/work/train"
    assert [each["remote"]["obs"]["obs_url"] for each in made["outputs"]] == ["/data/models/"]
    plan = planned(place, job)
    node = node_plan.from_text(dict(plan.objects)[f"{plan.run_key}node-trainer.json"])
    assert (node.inputs, node.outputs) == (inputs[1:], outputs[1:])


@pytest.mark.parametrize(
    ("run_id", "most", "name"),
    [
        ("ctr-3f2a9c1b", 63, "ctr-3f2a9c1b"),
        ("Ctr_v1.2-3f2a9c1b", 63, "ctr-v1-2-3f2a9c1b"),
        ("7days-3f2a9c1b", 63, "u-7days-3f2a9c1b"),
        ("a" * 48 + "-0123456789ab", 50, "a" * 37 + "-0123456789ab"),
    ],
)
def test_names_that_every_cloud_takes(run_id: str, most: int, name: str) -> None:
    assert layout.cloud_name(run_id, most) == name
    assert len(name) <= most


@pytest.mark.parametrize("name", list(SETTINGS))
def test_all_problems_at_once(name: str) -> None:
    job = replace(JOB, image="", roles=(RoleSpec(nodes=Replicas(least=1, most=9)),))
    codes = {each.code for each in backend(name).check(job)}
    assert {"UM-SUBMIT-261", "UM-SUBMIT-264", "UM-SUBMIT-265"} <= codes
    wrong = "oss://bucket/x" if name != "pai" else "obs://bucket/x"
    text = f'[place.lab]\nbackend = "{name}"\nregion = "r1"\n{SETTINGS[name]}'
    text = "\n".join(f'store = "{wrong}"' if line.startswith("store") else line for line in text.splitlines())
    reading = places.read([("umiak.toml", text)], registry.BackendNames())
    context = SubmitContext(environ={}, directory="/work", state_directory="/state")
    place = registry.make(reading.places["lab"], context)
    assert "UM-SUBMIT-271" in {each.code for each in place.check(JOB)}


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "bml"])
def test_a_missing_sdk_is_told_with_its_extra(name: str) -> None:
    place = backend(name, environ=dict.fromkeys(backend(name).KEYS, "x" * 8))
    place.SDK = f"{place.SDK}_not_here"
    (problem,) = [each for each in place.check(JOB) if each.code == "UM-SUBMIT-260"]
    assert f"[{place.EXTRA}]" in str(
        problem.hint
    )  # of umiak, or of the checkout that it was installed from, whatever that is called


@pytest.mark.parametrize("name", list(SETTINGS))
def test_settings_that_are_wrong_are_told_together(name: str) -> None:
    text = f'[place.lab]\nbackend = "{name}"\nstore = "/tmp/x"\nendpoint = "nowhere"\nregoin = "r1"\n'
    reading = places.read([("umiak.toml", text)], registry.BackendNames())
    context = SubmitContext(environ={}, directory="/work", state_directory="/state")
    with pytest.raises(UmiakError) as caught:
        registry.make(reading.places["lab"], context)
    told = [each.what for each in caught.value.problems]
    assert any("regoin" in each for each in told)
    assert any("store" in each for each in told)
    assert any("endpoint" in each for each in told)
    assert all("umiak.toml:" in str(each.where) for each in caught.value.problems)


@pytest.mark.parametrize(
    ("own", "settings"),
    [
        (modelarts, modelarts.ModelArtsSettings),
        (aihc, aihc.AihcSettings),
        (bml, bml.BmlSettings),
        (pai, pai.PaiSettings),
    ],
)
def test_every_key_is_on_its_page(own: Any, settings: type) -> None:
    text = (ROOT / own.PAGE).read_text()
    assert [key.name for key in table(settings) if f"`{key.name}`" not in text] == []


# ---- logs


def test_logs_by_time_have_no_duplicates_and_no_holes() -> None:
    """Lines of any density, told in any portions, to a reader that stops and goes on anywhere."""
    for seed in range(times(60)):
        chance = random.Random(seed)
        log: list[tuple[float, str]] = []

        def fetch(start_s: int, end_s: int, log: list[tuple[float, str]] = log) -> list[str]:
            return [text for at_s, text in log if start_s <= at_s < end_s][:20]

        now, at = 1000.0, log_windows.start_of(1000.0)
        seen: list[str] = []
        for round_number in range(40):
            count = chance.choice([0, 0, 1, 5, 60])
            log += [(now + number * 0.2, f"{round_number}.{number}") for number in range(count)]
            now = max(now, log[-1][0] if log else now) + chance.choice([0.5, 10, 500, 5000, 90000])
            has_more = True
            while has_more:
                page = log_windows.read(at, fetch, now_s=now, most=20)
                lines, position, has_more = list(page.lines), page.position, page.has_more
                if lines and chance.random() < 0.3:  # it stops here, and goes on at the position of the last line
                    lines = lines[: chance.randrange(len(lines)) + 1]
                    position, has_more = lines[-1][1], True
                seen += [text for text, _ in lines]
                after = log_windows.from_text(position)
                assert after is not None
                at = after
        assert seen == [text for _, text in log], f"seed {seed}"


def test_lines_that_appear_late_are_told() -> None:
    log = ["one"]
    page = log_windows.read(log_windows.start_of(1000), lambda *_: log, now_s=1010, most=20)
    log.append("two")
    at = log_windows.from_text(page.position)
    assert at is not None
    assert [text for text, _ in log_windows.read(at, lambda *_: log, now_s=1060, most=20).lines] == ["two"]


def test_a_second_with_too_many_lines_is_told() -> None:
    at = log_windows.Window(start_s=1000, span_s=1)
    page = log_windows.read(at, lambda *_: ["x"] * 5, now_s=2000, most=5)
    assert "more lines" in page.lines[-1][0]
    assert page.position == "1001+2/0"


def test_a_preview_gives_whole_lines() -> None:
    text = "eins\nzwei ä\ndrei"
    size = len(text.encode())
    page = modelarts_api.tail(text, size, "", is_over=False)
    assert [line for line, _ in page.lines] == ["eins", "zwei ä"]
    rest = modelarts_api.tail(text + "\nvier\n", size + 6, page.position, is_over=False)
    assert [line for line, _ in rest.lines] == ["drei", "vier"]
    assert [line for line, _ in modelarts_api.tail(text, size, page.position, is_over=True).lines] == ["drei"]
