"""The backend paddlecloud without its client: settings, shapes, what is rendered, and what answers mean."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from testbed.paddlecloud import AK, SK, read_config
from tests.support import eventually
from tests.support.paddlecloud_story import COLLECTIVE, FS_UGI, MPI, PS_CPU
from tests.support.paths import GOLDEN
from umiak.core import bundle
from umiak.core.cluster import Role
from umiak.core.devices import DeviceKind
from umiak.core.job import Job, Replicas, Resource, RoleSpec, Transfer
from umiak.core.status import State
from umiak.core.value import replace
from umiak.submit import backend_yaml
from umiak.submit.backend import Secrets
from umiak.submit.backends.paddlecloud import answers, checks, client, logs, rendering, settings
from umiak.submit.backends.paddlecloud.answers import ClientAnswer, ClientOutput
from umiak.submit.backends.paddlecloud.rendering import Folder
from umiak.submit.backends.paddlecloud.settings import PaddleCloudSettings, SettingsReading

TRAIN = ("-m", "umiak", "train", "-m", "config.yaml")
SERVED = Job(name="ctr", command=TRAIN, roles=(RoleSpec(role=Role.SERVER), RoleSpec(role=Role.TRAINER)))
ON_GPUS = Job(name="ctr", command=TRAIN, roles=(RoleSpec(),))


def read(text: str, **environ: str) -> SettingsReading:
    reading = backend_yaml.read(text, "backend.yaml", ["local", "paddlecloud"])
    assert reading.problems == ()
    assert reading.place is not None
    return settings.read(reading.place.settings, environ)


def made(text: str, **environ: str) -> PaddleCloudSettings:
    reading = read(text, **environ)
    assert reading.problems == ()
    assert reading.settings is not None
    return reading.settings


def told(text: str, **environ: str) -> list[str]:
    return [f"{each.code} {each.where} {each.what}" for each in read(text, **environ).problems]


def folder(text: str, job: Job, **more: object) -> Folder:
    said = made(text)
    return Folder(
        **{
            "job": settings.sized(job, said),
            "settings": said,
            "run_id": "PaddleRec_CTR-3f2a9c1b",
            "path": "/home/me/ctr/PaddleRec_CTR-3f2a9c1b",
            "client_home": "/home/me/.local/state/umiak/paddlecloud/home-0123456789abcdef",
            "files": ("backend.yaml", "config.yaml", "model.py"),
            **more,
        }
    )


# ---- backend.yaml


def test_the_documents_whole_example_is_read() -> None:
    """It has every key of all shapes, two of them twice."""
    text = (
        MPI.replace("  nodes: 2\n", "  nodes: 2\n  k8s_trainers: 2\n  k8s-cpu-cores: 4\n  k8s_gpu_card: 1\n")
        + "  k8s_trainers: 3\n  k8s-cpu-cores: 5\n  k8s_ps_num: 2\n  k8s_ps_cores: 4\n"
    )
    text = text.replace(
        "config:\n",
        "config:\n  use_python3: 1\n  communicator:\n    FLAGS_communicator_is_sgd_optimizer: 0\n"
        "    FLAGS_communicator_send_queue_size: 5\n    FLAGS_rpc_retry_times: 3\n",
        1,
    )
    said = made(text)
    assert (said.submit.trainers, said.submit.cpus, said.submit.gpus, said.submit.servers, said.submit.server_cpus) == (
        3,
        5,
        1,
        2,
        4,
    )
    assert (said.config.use_python3, said.submit.group, said.submit.priority, said.submit.nodes) == (
        True,
        "paddle",
        "high",
        2,
    )
    assert dict(said.flags.texts())["FLAGS_communicator_send_queue_size"] == "5"
    assert dict(said.flags.texts())["FLAGS_communicator_max_merge_var_num"] == ""
    assert said.submit.files == ("./*.py", "./*.yaml")
    assert AK not in repr(said)
    assert FS_UGI not in repr(said)


@pytest.mark.parametrize("key", ["k8s-cpu-cores", "k8s_cpu_cores", "k8s_cpu-cores"])
def test_hyphens_and_underscores_are_alike(key: str) -> None:
    assert made(PS_CPU.replace("k8s-cpu-cores: 4", f"{key}: 7")).submit.cpus == 7


def test_all_problems_are_told_at_once_with_their_lines() -> None:
    text = (
        MPI.replace("cluster_type: mpi", "cluster_type: yarn")
        .replace('fs_name: "afs://xxx.com"', 'fs_name: ""')
        .replace('train_data_path: "/user/rec/train"', 'train_data_path: "afs:/user/rec/train"')
        .replace("nodes: 2", "nodes: 0\n  k8s_trainer: 2\n  colour: red")
        .replace('job_name: "PaddleRec_CTR"', 'job_name: "a/b"')
    )
    assert told(text) == [
        "UM-CONFIG-014 backend.yaml:2:15 backend: cluster_type: unknown value: yarn",
        "UM-CONFIG-011 backend.yaml:6:12 config: fs_name is empty",
        "UM-CONFIG-014 backend.yaml:9:20 config: train_data_path: expected a path of the remote file system, got afs:/user/rec/train",
        "UM-CONFIG-014 backend.yaml:17:13 submit: job_name: expected a name, got a/b",
        "UM-CONFIG-014 backend.yaml:21:10 submit: nodes: less than 1: 0",
        "UM-CONFIG-012 backend.yaml:22:3 submit: unknown key: k8s_trainer",
    ]
    (meant,) = [each for each in read(text).problems if "k8s_trainer" in each.what]
    assert meant.hint == "did you mean `k8s_trainers`?"
    unknown = [each for each in read(text).warnings if each.code == "UM-CONFIG-012"]
    assert [each.what for each in unknown] == ["submit: unknown key: colour"]


def test_what_a_cluster_needs_is_missed() -> None:
    text = "backend: paddlecloud\ncluster_type: mpi\nconfig:\n  fs_name: afs://x\n  fs_ugi: $UGI\nsubmit: {files: a}\n"
    assert told(text, UGI="u,p") == [
        "UM-SUBMIT-225 backend.yaml:4:3 config: train_data_path is missing, and an mpi cluster needs it"
    ]
    assert told("backend: paddlecloud\n") == [
        "UM-CONFIG-011 backend.yaml:1:1 backend: cluster_type is missing",
        "UM-CONFIG-011 backend.yaml:1:1 backend: config is missing",
        "UM-CONFIG-011 backend.yaml:1:1 backend: submit is missing",
    ]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("cluster_type: mpi\n", "UM-CONFIG-011"),
        ("backend: hadoop\n", "UM-CONFIG-014"),
        ("- backend: paddlecloud\n", "UM-CONFIG-013"),
        ("backend: [paddlecloud\n", "UM-CONFIG-003"),
    ],
)
def test_a_backend_yaml_says_its_backend(text: str, code: str) -> None:
    assert [each.code for each in backend_yaml.read(text, "b.yaml", ["paddlecloud"]).problems] == [code]


# ---- secrets


def test_secrets_by_reference() -> None:
    text = MPI.replace(f'"{AK}"', "$MY_AK").replace(f'"{SK}"', '"${MY_SK}"').replace(f'"{FS_UGI}"', "$UGI")
    reading = read(text, MY_AK="a1", MY_SK="s1", UGI="u,p")
    assert reading.settings is not None
    assert dict(reading.settings.secrets) == {"ak": "a1", "sk": "s1", "fs_ugi": "u,p"}
    assert reading.settings.plain_secrets == ()
    assert [each.code for each in reading.warnings] == []
    assert told(text, MY_AK="a1") == [
        "UM-SUBMIT-222 backend.yaml:7:11 config: fs_ugi: the variable is not set: UGI",
        "UM-SUBMIT-222 backend.yaml:15:7 submit: sk: the variable is not set: MY_SK",
    ]


def test_secrets_of_the_usual_variables() -> None:
    text = MPI.replace(f'"{AK}"', '""').replace(f'"{SK}"', '""')
    said = made(text, PADDLECLOUD_AK="a1", PADDLECLOUD_SK="s1")
    assert (said.secrets["ak"], said.secrets["sk"]) == ("a1", "s1")


def test_plain_secrets_are_warned_about_and_never_shown() -> None:
    reading = read(MPI)
    assert [each.code for each in reading.warnings] == ["UM-SUBMIT-221"] * 3
    said = "".join(line for each in (*reading.warnings, *reading.problems) for line in each.lines())
    assert not [secret for secret in (AK, SK, FS_UGI) if secret in said]


@pytest.mark.parametrize(
    ("secrets", "own", "codes"),
    [
        ({"ak": AK, "sk": SK}, False, []),
        ({}, True, []),
        ({}, False, ["UM-SUBMIT-222"]),
        ({"ak": AK}, True, ["UM-SUBMIT-222"]),
        ({"ak": AK, "sk": "with blank"}, False, ["UM-SUBMIT-223"]),
        ({"ak": AK, "sk": SK, "fs_ugi": "it's,\n"}, False, ["UM-SUBMIT-230"]),
    ],
)
def test_keys(secrets: dict[str, str], own: bool, codes: list[str]) -> None:
    with_keys = folder(MPI, SERVED)
    with_keys = replace(with_keys, settings=replace(with_keys.settings, secrets=Secrets(secrets)))
    found = [*checks.missing(with_keys.settings, has_client=True, has_own_keys=own), *checks.problems(with_keys)]
    assert [each.code for each in found] == codes
    assert "with blank" not in "".join(line for each in found for line in each.lines())


def test_secrets_of_a_job_must_fit_into_a_line() -> None:
    wanted = folder(MPI, replace(SERVED, secrets=("KEY",)))
    found = checks.problems(wanted, {"KEY": "line\nline"})
    assert [each.what for each in found] == ["can't be written to config.ini: the value of KEY"]


# ---- shapes


def test_a_config_gets_its_sizes_from_the_settings() -> None:
    mpi = settings.sized(SERVED, made(MPI))
    assert (mpi.name, [(each.role, each.nodes.most) for each in mpi.roles]) == (
        "PaddleRec_CTR",
        [(Role.SERVER, 2), (Role.TRAINER, 2)],
    )
    served = settings.sized(SERVED, made(PS_CPU))
    assert [(each.nodes.most, each.resource.cpus) for each in served.roles] == [(2, 4), (2, 4)]
    (trainer,) = settings.sized(ON_GPUS, made(COLLECTIVE)).roles
    assert (trainer.nodes.most, trainer.resource) == (2, Resource(cpus=4, devices=1, device=DeviceKind.GPU))


GPU = Resource(devices=1, device=DeviceKind.GPU)


@pytest.mark.parametrize(
    ("text", "roles", "count"),
    [
        (MPI, SERVED.roles, 0),
        (PS_CPU, SERVED.roles, 0),
        (COLLECTIVE, (RoleSpec(resource=GPU),), 0),
        (MPI, (RoleSpec(),), 1),
        (MPI, (RoleSpec(resource=GPU),), 2),
        (MPI, (SERVED.roles[0], RoleSpec(nodes=Replicas(least=2, most=2))), 1),
        (PS_CPU, (SERVED.roles[0], RoleSpec(resource=GPU)), 1),
        (COLLECTIVE, (RoleSpec(),), 1),
        (PS_CPU, (*SERVED.roles, RoleSpec(role=Role.HETER)), 1),
        (COLLECTIVE, (RoleSpec(nodes=Replicas(least=1, most=2), resource=GPU),), 1),
        (PS_CPU, (SERVED.roles[0], RoleSpec(command=("other.py",))), 1),
    ],
)
def test_shapes_that_the_platform_has(text: str, roles: tuple[RoleSpec, ...], count: int) -> None:
    wanted = replace(folder(text, SERVED), job=replace(SERVED, roles=roles))
    found = checks.problems(wanted)
    assert [each.code for each in found] == ["UM-SUBMIT-224"] * count


def test_what_a_person_has_to_add() -> None:
    bare = folder(MPI, replace(SERVED, inputs=(Transfer(url="s3://a", path="b"),)))
    missing = checks.missing(bare.settings, has_client=False, has_own_keys=False)
    assert [each.code for each in (*missing, *checks.problems(bare))] == ["UM-SUBMIT-227", "UM-SUBMIT-225"]
    unsent = replace(
        bare,
        settings=replace(bare.settings, submit=replace(bare.settings.submit, files=())),
        job=SERVED,
        node_plan="{}\n",
    )
    assert [each.what for each in checks.problems(unsent)] == [
        "submit: start_cmd without files: nothing would be uploaded"
    ]
    assert [each.code for each in checks.warnings(bare)] == ["UM-SUBMIT-236"]


# ---- what is rendered


@pytest.mark.parametrize(
    ("name", "text", "job"),
    [("mpi", MPI, SERVED), ("k8s-collective", COLLECTIVE, ON_GPUS), ("k8s-ps", PS_CPU, SERVED)],
)
def test_the_rendered_folder(name: str, text: str, job: Job) -> None:
    """As it was yesterday; with UMIAK_REWRITE=1 it is written again."""
    made_now = folder(text, job)
    shown = bundle.shown(rendering.bundle_of(made_now))
    assert shown == bundle.shown(rendering.bundle_of(made_now))
    assert not [secret for secret in (AK, SK, FS_UGI) if secret in shown]
    path = GOLDEN / "bundles" / f"paddlecloud-{name}.txt"
    if os.environ.get("UMIAK_REWRITE"):
        path.write_text(shown)
    assert shown == path.read_text()


def test_one_trainer_is_alone() -> None:
    single = rendering.job_sh(folder(COLLECTIVE.replace("k8s_trainers: 2", "k8s_trainers: 1"), ON_GPUS))
    assert "--is-standalone 1" in single
    assert "NCCL2" not in single


def test_images_permissions_and_time_limits() -> None:
    text = PS_CPU.replace("  k8s_ps_num", "  permission: group\n  image_addr: reg/rec:1\n  k8s_ps_num")
    script = rendering.job_sh(folder(text, replace(SERVED, time_limit_s=90061)))
    for line in ("--permission group", "image_addr=reg/rec:1", "job_version=paddle-fluid-custom", "wall_time=25:01:01"):
        assert line in script


def test_start_commands() -> None:
    said = made(MPI.replace("  start_cmd", "  # start_cmd"))
    flat = replace(folder(MPI, SERVED), settings=said)
    assert rendering.start_cmd(flat) == "python -m umiak train -m config.yaml"
    other = replace(flat, job=replace(SERVED, command=("train it.py",)))
    assert rendering.start_cmd(other).startswith("python -m umiak launch --tee all --job_id PaddleRec_CTR-3f2a9c1b")
    assert rendering.start_cmd(other).endswith("-- 'train it.py'")
    packed = replace(flat, node_plan="{}")
    assert rendering.start_cmd(packed) == "python umiak-launcher.pyz -m umiak.submit.payload.node_start node.json"
    assert "import umiak" in rendering.before_hook(flat)
    assert "import umiak" not in rendering.before_hook(packed)
    newer = replace(flat, settings=replace(said, config=replace(said.config, paddle_version="3.3.1")))
    assert "package=paddlepaddle\nversion=3.3.1\n" in rendering.before_hook(newer)


@pytest.mark.parametrize("text", ["plain", "p#w&d", "a$b`c`", 'say "hi"', "back\\slash", "中文", ""])
def test_values_of_config_ini_are_read_back_as_they_were(text: str) -> None:
    assert rendering.is_writable(text)
    secrets = Secrets({"fs_ugi": text, "UMIAK_TOKEN": "t"})
    found = read_config(rendering.config_ini(folder(MPI, replace(SERVED, env=(("A", text),))), secrets))
    assert (found["fs_ugi"], found["A"], found["UMIAK_TOKEN"]) == (text, text, "t")


# ---- the client


def test_a_program_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    script = f"sleep 1000 & echo $! > {tmp_path}/pid; echo begun; wait"
    found = client.run(("sh", "-c", f"{script}"), os.environ, 5.0)
    assert found.status is None
    pid = int((tmp_path / "pid").read_text())
    eventually(lambda: not os.path.exists(f"/proc/{pid}") or "(sleep) Z" in Path(f"/proc/{pid}/stat").read_text())
    assert client.run(("no-such-program",), os.environ, 1.0).status == 127


def test_keys_are_in_a_file_of_their_owner_alone(tmp_path: Path) -> None:
    own = tmp_path / "home" / ".paddlecli"
    own.mkdir(parents=True)
    (own / "config").write_text("[server]\nhost = cloud.example\nport = 80\n")
    environ = {"HOME": str(tmp_path / "home")}
    assert not client.has_own_keys(environ)
    keys = Secrets({"ak": AK, "sk": SK})
    home = client.home_of(str(tmp_path), keys)
    assert (AK in home, client.home_of(str(tmp_path), {"ak": AK})) == (False, "")
    client.prepare_home(home, keys, environ)
    written = Path(home, ".paddlecli", "config")
    assert written.stat().st_mode & 0o777 == 0o600
    assert client.has_own_keys({"HOME": home})
    assert "host = cloud.example" in written.read_text()
    assert client.covered(f"bad key {SK}!", keys) == "bad key ***!"


# ---- answers

OK = '{"groupName": "g", "jobId": "job-1", "userId": "u"}'
WRAPPED = '{"code": 0, "message": "", "data": {"jobId": "job-1"}}'
REFUSED = '{"code": 7, "message": "no quota", "data": null}'


@pytest.mark.parametrize(
    ("status", "out", "err", "answer"),
    [
        (0, f"Congratulations! {{braces}}\n{OK}\n", "", ClientAnswer(job_id="job-1")),
        (0, WRAPPED, "", ClientAnswer(job_id="job-1")),
        (0, REFUSED, "", ClientAnswer(refusal="no quota")),
        (1, "", "Error occurred: no such file\n", ClientAnswer(refusal="Error occurred: no such file")),
        (1, "Oops...The job submission aborted", "", ClientAnswer(refusal="Oops...The job submission aborted")),
        (2, "", "usage: paddlecloud job\nx", ClientAnswer(refusal="usage: paddlecloud job")),
        (1, "", "None\nreset\n", ClientAnswer(unclear="the client ended with 1: reset")),
        (0, "Congratulations!", "", ClientAnswer(unclear="the client ended with 0: Congratulations!")),
        (0, "", "", ClientAnswer(unclear="the client ended with 0")),
        (-9, "", "", ClientAnswer(unclear="the client ended with -9")),
        (None, OK, "", ClientAnswer(unclear="the client did not answer in time")),
    ],
)
def test_answers_of_the_client(status: int | None, out: str, err: str, answer: ClientAnswer) -> None:
    assert answers.submitted(ClientOutput(status=status, out=out, err=err)) == answer


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("running", State.RUNNING),
        ("Success", State.SUCCEEDED),
        ("job killed by user", State.CANCELLED),
        ("killing", State.STOPPING),
        ("in queue", State.QUEUED),
        ("asleep", None),
        ("", None),
    ],
)
def test_states(word: str, state: State | None) -> None:
    assert answers.state(word) is state


def test_addresses_of_logs() -> None:
    found = logs.address("http://10.0.0.1:8080/tree/page/3f2a/log")
    assert found.startswith("http://10.0.0.1:8080/filetree?action=cat&path=/home/work/containers_backup/3f2a/root/")
    assert [logs.address(text) for text in ("", "file:///etc/a/b/c", "http://host/a", "http:///a/b/c")] == [""] * 4
