"""PaddleCloud with a stand-in for its client: the document's whole path, answers that get lost, and secrets that nobody finds."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.paddlecloud import AK, SK
from testbed.pytest_support import require
from tests.support import PATIENCE_S, eventually, paddlecloud_story
from tests.support.paddlecloud_story import COLLECTIVE, DATA, FS_UGI, MPI, PS_CPU, PaddleCloudDesk
from tests.support.train_helpers import COLLECTIVE_CLUSTER
from umiak import platforms
from umiak.core.cluster import Role
from umiak.submit import configuration
from umiak.submit.flow import Flow
from umiak.testing import backends

SAMPLES = 100


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[PaddleCloudDesk]:
    with paddlecloud_story.opened(tmp_path) as opened:
        yield opened


def command_lines() -> list[bytes]:
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            found.append(Path(f"/proc/{pid}/cmdline").read_bytes())
    return found


def holders(directory: Path, *secrets: str) -> set[str]:
    """The files below a directory that have one of these in them."""
    found = set()
    for path in filter(Path.is_file, directory.rglob("*")):
        if any(secret.encode() in path.read_bytes() for secret in secrets):
            found.add(str(path.relative_to(directory)))
    return found


# ---- the document's path


@pytest.mark.paddle
def test_the_whole_path_of_the_document(desk: PaddleCloudDesk) -> None:
    """A config and a backend.yaml: submitted, followed, trained on two nodes of an mpi cluster, and over."""
    missing = subprocess.run([sys.executable, "-c", "import paddle"], capture_output=True).returncode
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)
    with desk.start("train", "-m", "config.yaml", "-b", "backend.yaml") as client:
        out, err = client.communicate(timeout=PATIENCE_S)
    assert client.returncode == 0, err
    handle, (job_id,) = out.strip(), desk.cloud.jobs()
    assert handle == f"paddlecloud://paddlecloud/{job_id}"
    (folder,) = desk.folders()
    lines = [line for line in err.splitlines() if not re.match(r"warning:|  because:|  hint:|note:|follow it:", line)]
    assert lines == [
        f"The task submission folder is generated at {folder}",
        "before_submit",
        "gen cpu before_hook.sh",
        "gen mpi_config.ini",
        "gen mpi_job.sh",
        "gen end_hook.sh",
        "Start checking your job configuration, please be patient.",
        "Congratulations! Job configuration check passed!",
        "Congratulations! The new job is ready for training.",
        "{",
        '    "groupName": "paddle",',
        f'    "jobId": "{job_id}",',
        '    "userId": "1-2-3-4-5"',
        "}",
        "end submit",
    ]
    assert {path.name for path in folder.iterdir()} == {
        *("backend.yaml", "config.yaml", "before_hook.sh", "config.ini", "end_hook.sh", "job.sh", "model.py"),
        ".gitignore",
    }
    assert desk.status(handle)["state"] == "queued"
    with desk.cloud.run(job_id, DATA, desk.environ) as nodes:
        assert desk.status(handle)["state"] == "running"
        follower = desk.start("logs", "-f", handle)
        for name in nodes.processes:
            eventually(lambda name=name: "End before_hook.sh" in nodes.log(name))
        # While client, launchers and workers run, no key is in an argument.
        secrets = [AK, SK, FS_UGI, desk.cloud.job(job_id)["variables"]["UMIAK_TOKEN"]]
        assert not [line for line in command_lines() if any(secret.encode() in line for secret in secrets)]
        assert nodes.wait(PATIENCE_S) == [0, 0, 0, 0]
        followed, _ = follower.communicate(timeout=PATIENCE_S)
        for name in nodes.processes:
            role, _, rank = name.removeprefix(f"{job_id}-").rpartition("-")
            tag = f"[{'server' if role == 'pserver' else role}.{rank}] "
            own = [line.removeprefix(tag) for line in followed.splitlines() if line.startswith(tag)]
            assert own == nodes.log(name).splitlines(), "each line once, and none left out"
            assert (own[0], own[-1]) == ("Run before_hook.sh ...", "Run end_hook.sh ...")
        again = desk.umiak("logs", handle, "--rank", "0")
        assert "epoch 2/2 done" in again
        assert again.splitlines() == nodes.log(f"{job_id}-trainer-0").splitlines()
    assert f"{SAMPLES} samples" in again, "both nodes' parts"
    desk.umiak("wait", handle)
    assert "succeeded" in desk.umiak("list")
    # On the whole machine room: the person's own backend.yaml, the client's private file, and for the platform config.ini.
    root = desk.directory.parent
    own = {f"work/{folder.name}/config.ini", "work/backend.yaml"}
    (home,) = holders(root / "state", AK, SK)
    assert stat.S_IMODE((root / "state" / home).stat().st_mode) == 0o600
    assert {name for name in holders(root, AK, SK) if name.startswith("work/")} == {"work/backend.yaml"}
    assert {name for name in holders(root, FS_UGI) if name.startswith("work/")} == own
    assert stat.S_IMODE((folder / "config.ini").stat().st_mode) == 0o600
    uploaded = desk.cloud.uploaded(job_id)
    assert not [name for name, data in uploaded.items() if any(secret.encode() in data for secret in secrets)]
    assert not [words for words in desk.cloud.calls() if any(secret in " ".join(words) for secret in secrets)]
    assert b'  sk: "***"' in uploaded["backend.yaml"]
    assert b'priority: "high"' in uploaded["backend.yaml"]


def test_the_folder_is_edited_and_submitted_again(desk: PaddleCloudDesk) -> None:
    desk.train()
    (folder,) = desk.folders()
    (folder / "more.py").write_text("# added by hand\n")
    script = (folder / "job.sh").read_text()
    (folder / "job.sh").write_text(script.replace("mpi_nodes=2", "mpi_nodes=3"))
    done = subprocess.run(["sh", folder / "job.sh"], env=desk.environ, cwd="/", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    second = desk.cloud.jobs()[1]
    assert f'"jobId": "{second}"' in done.stdout
    assert desk.cloud.job(second)["mpi_nodes"] == 3
    assert "more.py" in desk.cloud.uploaded(second)
    (folder / "config.ini").unlink()
    assert subprocess.run(["sh", folder / "job.sh"], env=desk.environ, capture_output=True).returncode == 1


def test_nodes_read_back_what_was_meant(desk: PaddleCloudDesk) -> None:
    """The law of backends, for each of the three shapes."""
    for text, config, expected in (
        (MPI, "ps", [(Role.SERVER, 2), (Role.TRAINER, 2)]),
        (PS_CPU, "ps", [(Role.SERVER, 2), (Role.TRAINER, 2)]),
        (COLLECTIVE, "collective", [(None, 2)]),
    ):
        desk.write("backend.yaml", text)
        if config == "collective":
            desk.write("config.yaml", COLLECTIVE_CLUSTER)
        job_id = desk.train().rpartition("/")[2]
        found = [platforms.detect(environ) for _, environ in desk.cloud.environments(job_id)]
        nodes = sum(count for _, count in expected)
        assert [each.nodes for each in found] == [nodes] * nodes
        assert [each.rank for each in found] == list(range(nodes))
        assert [each.role for each in found] == [role for role, count in expected for _ in range(count)]
        if config == "collective":
            assert {each.workers for each in found} == {1}
        assert {environ["PADDLE_PADDLEREC_ROLE"] for _, environ in desk.cloud.environments(job_id)} == {"WORKER"}


def test_a_node_does_not_submit_again(desk: PaddleCloudDesk) -> None:
    """The start command may have the -b that the person wrote: on a node, it trains."""
    environ = {"PADDLE_PADDLEREC_ROLE": "WORKER"}
    said = desk.umiak("train", "-m", "config.yaml", "-b", "backend.yaml", status=2, env=environ)
    assert "nothing says which node this is" in said
    assert desk.cloud.calls() == []


# ---- answers that get lost


@pytest.mark.parametrize("kind", ["lose", "silent", "wrapped"])
def test_a_job_whose_answer_is_missing_is_found(desk: PaddleCloudDesk, kind: str) -> None:
    desk.cloud.trouble("train", kind)
    handle = desk.train()
    assert [handle] == [f"paddlecloud://paddlecloud/{job_id}" for job_id in desk.cloud.jobs()]


def test_a_job_of_which_nobody_can_tell_is_not_started_twice(desk: PaddleCloudDesk) -> None:
    desk.cloud.trouble("train", "lose")
    desk.cloud.trouble("list", "fail")
    assert "UM-SUBMIT-002" in desk.train(status=3)
    assert desk.train().endswith(desk.cloud.jobs()[0])
    assert len(desk.cloud.jobs()) == len(desk.cloud.calls("train")) == 1
    # A client that hangs is ended in time; whether the platform got the job is looked for before it is sent again.
    desk.write("backend.yaml", MPI.replace("config:", "timeout: 1\nconfig:", 1))
    desk.cloud.trouble("train", "hang before")
    assert "did not answer in time" in desk.train(status=3)
    desk.write("backend.yaml", MPI)
    assert desk.train().endswith(desk.cloud.jobs()[1])
    assert len(desk.cloud.jobs()) == 2


def test_a_submission_that_is_killed_is_completed_by_the_next(desk: PaddleCloudDesk) -> None:
    desk.cloud.trouble("train", "hang")
    killed = desk.start("train", "-m", "config.yaml", "-b", "backend.yaml")
    eventually(desk.cloud.jobs)
    killed.kill()
    killed.communicate()
    eventually(lambda: not desk.left())  # the client does not go on alone
    assert desk.train().endswith(desk.cloud.jobs()[0])
    assert len(desk.cloud.jobs()) == 1


@pytest.mark.parametrize(
    ("trouble", "text", "cause"),
    [
        ("refuse", MPI, "the quota of the group is used up"),
        ("unreachable", MPI, "Connection refused"),
        ("", MPI.replace('group: ""', "group: nobody"), "no such group: nobody"),
        ("", MPI.replace(SK, "wrongkey"), "authentication failed"),
    ],
)
def test_a_refusal_is_told_and_leaves_no_run(desk: PaddleCloudDesk, trouble: str, text: str, cause: str) -> None:
    if trouble:
        desk.cloud.trouble("train", trouble)
    desk.write("backend.yaml", text)
    said = desk.train(status=3)
    assert ("UM-SUBMIT-231" in said or "UM-SUBMIT-002" in said, cause in said) == (True, True)
    assert desk.cloud.jobs() == []
    desk.write("backend.yaml", MPI)
    assert desk.train().endswith(desk.cloud.jobs()[0])


# ---- asking


def test_status_logs_and_cancel(desk: PaddleCloudDesk) -> None:
    handle = desk.train()
    job_id = handle.rpartition("/")[2]
    desk.cloud.say(job_id, "schedule")
    told = desk.status(handle)
    assert (told["state"], told["said"]) == ("starting", "schedule")
    desk.cloud.say(job_id, "asleep")
    assert "UM-SUBMIT-237" in desk.umiak("status", handle, status=3)
    desk.cloud.say(job_id, "running")
    desk.umiak("cancel", handle)
    assert desk.status(handle)["state"] == "cancelled"
    assert "UM-SUBMIT-232" in desk.umiak("status", f"{handle}0", status=3)
    desk.umiak("wait", handle, status=1)
    # From a machine that knows nothing of it: keys from the environment, or those of the client itself.
    other = {"XDG_STATE_HOME": str(desk.state / "other")}
    assert "UM-SUBMIT-232" in desk.umiak("status", handle, status=3, env=other)
    keys = {"PADDLECLOUD_AK": AK, "PADDLECLOUD_SK": SK}
    assert "cancelled" in desk.umiak("status", handle, env={**other, **keys})
    own = desk.directory.parent / ".paddlecli"
    own.mkdir()
    (own / "config").touch(mode=0o600)
    (own / "config").write_text(f"[token]\ntoken_name = me\nuser_ak = {AK}\nuser_sk = {SK}\n")
    assert "cancelled" in desk.umiak("status", handle, env=other)
    # So a backend.yaml needs no keys at all.
    desk.write("backend.yaml", MPI.replace(AK, "").replace(SK, ""))
    assert desk.train().endswith(desk.cloud.jobs()[1])
    assert (
        'client_home="$HOME"'
        in (desk.folders()[-1] / "job.sh").read_text() + (desk.folders()[0] / "job.sh").read_text()
    )


# ---- what is wrong


def test_all_that_is_wrong_is_told_before_anything_is_written(desk: PaddleCloudDesk) -> None:
    desk.write("backup.yaml", f"sk: {SK}\n")
    desk.write("config.ini", "")
    desk.write("backend.yaml", MPI.replace("./*.yaml", "./*.yaml ./*.ini ./no*.txt"))
    said = desk.umiak("train", "-m", "config.yaml", "-b", "backend.yaml", status=2, env={"PATH": "/usr/bin:/bin"})
    for text in ("UM-SUBMIT-227", "UM-SUBMIT-229", "no file is there: ./no*.txt", "umiak makes a file of this name"):
        assert text in said
    assert (desk.folders(), desk.cloud.calls(), SK in said) == ([], [], False)
    desk.write("backend.yaml", MPI.replace("nodes: 2", "nodes: none").replace("mpi #", "yarn #"))
    said = desk.train(status=2)
    assert said.count("[UM-CONFIG-") == 2
    assert "UM-SUBMIT-220" in desk.umiak("train", "-m", "config.yaml", "-b", "nowhere.yaml", status=2)


def test_a_dry_run_shows_everything_and_writes_nothing(desk: PaddleCloudDesk) -> None:
    shown = desk.train("--dry-run")
    for text in ("before_hook.sh", "config.ini, mode 600", "job.sh", "end_hook.sh", "  model.py", 'fs_ugi="***"'):
        assert text in shown
    assert not [secret for secret in (AK, SK, FS_UGI) if secret in shown]
    assert (desk.folders(), desk.cloud.calls()) == ([], [])
    data = json.loads(desk.train("--dry-run", "--json"))
    assert data["commands"][0][0] == "sh"


# ---- a job of any kind


def test_any_job_on_a_place_of_umiak_toml(desk: PaddleCloudDesk) -> None:
    """Without `files` in the settings: the launcher and the job's files travel along, and nodes need no umiak."""
    desk.write(
        "umiak.toml",
        '[place.pc]\nbackend = "paddlecloud"\ncluster_type = "k8s"\n'
        '[place.pc.config]\nfs_name = "afs://x"\nfs_ugi = "$UGI"\n[place.pc.submit]\nak = "$AK"\nsk = "$SK"\n',
    )
    desk.write(
        "hello.py", "import os\nprint('hello', os.environ['UMIAK_ROLE'], os.environ['PASSPORT'][:2], flush=True)\n"
    )
    desk.write(
        "job.yaml",
        "name: hello\ncommand: hello.py\nfiles: .\ninclude: hello.py\nsecrets: [PASSPORT]\nenv: {COLOUR: red}\n"
        "roles: {server: {nodes: 1, cpus: 2}, trainer: {nodes: 2, cpus: 1}}\n",
    )
    environ = {"UGI": "u,p", "AK": AK, "SK": SK, "PASSPORT": "k5-Wq81zTtrr"}
    with desk.start("submit", "job.yaml", "--on", "pc", env=environ) as client:
        out, err = client.communicate(timeout=PATIENCE_S)
    assert client.returncode == 0, err
    handle = out.strip()
    job_id = handle.rpartition("/")[2]
    assert handle == f"paddlecloud://pc/{job_id}"
    kept = desk.cloud.job(job_id)
    assert (kept["k8s_ps_num"], kept["k8s_ps_cores"], kept["k8s_trainers"], kept["k8s_cpu_cores"]) == (1, 2, 2, 1)
    assert kept["variables"]["COLOUR"] == "red"
    assert "backend.yaml" not in desk.cloud.uploaded(job_id)
    with desk.cloud.run(job_id, (), desk.environ) as nodes:
        codes = nodes.wait(PATIENCE_S)
        said = desk.umiak("logs", handle)
        assert codes == [0, 0, 0], said
    assert (said.count("hello server k5"), said.count("hello trainer k5")) == (1, 2)
    assert not [name for name in holders(desk.directory, "k5-Wq81zTtrr") if not name.endswith("/config.ini")]
    assert not [name for name, data in desk.cloud.uploaded(job_id).items() if b"k5-Wq81" in data]


def test_the_laws_of_a_backend(desk: PaddleCloudDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk.directory)
    flow = Flow(configuration.context(desk.environ))
    from umiak.core.job import Job, RoleSpec
    from umiak.submit import backend_yaml

    place = backend_yaml.read(MPI, "backend.yaml", ["paddlecloud"]).place
    assert place is not None
    job = Job(name="ctr", command=("train.py",), roles=(RoleSpec(role=Role.SERVER), RoleSpec()))
    broken = backends.broken_laws(
        lambda: Flow(flow.context).backend(place),
        job,
        finish=lambda handle: desk.cloud.say(handle.id, "success"),
        starts=lambda: len(desk.cloud.jobs()),
        # config.ini is how the platform is told: nobody else can read it.
        searched=[str(path) for path in (desk.directory, desk.state)],
        allowed=lambda path: path.endswith("/config.ini"),
    )
    assert broken == []
