"""What a submission would send and run: plans without accounts, the files that travel, keys without effect."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import remember_launcher
from tests.support.paddlecloud_story import MPI
from tests.support.train_helpers import PS_CLUSTER
from umiak.api import places
from umiak.cli import main
from umiak.core.job import FileSet, Job
from umiak.submit import backend_yaml, registry
from umiak.submit.backends.paddlecloud import settings as paddlecloud_settings
from umiak.submit.backends.paddlecloud import upload

PRIVATE_KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n"
JOB = """\
name: ctr
command: train.py
image: registry.example.org/paddle:3.3
secrets: [WANDB_API_KEY]
files: .
roles:
  server: {nodes: 2, cpus: 2}
  trainer: {nodes: 2, cpus: 4, memory: 8GiB}
on:
  local: &bare {image: null}
  lab: *bare
  rented: *bare
  hpc: *bare
  login: *bare
  openmpi: *bare
  mpich: *bare
  hosts: *bare
  ray: {image: null, secrets: []}
  aihc: {cpus: 4, roles: {server: {cpus: null}, trainer: {cpus: null, memory: null}}}
"""
PLACES = """\
[place.lab]
backend = "ssh"
hosts = ["node0.invalid", "node1.invalid"]
passphrase_from = "LAB_PASSPHRASE"
[place.hpc]
backend = "slurm"
directory = "/dev/null/shared"
[place.login]
backend = "slurm"
submit_host = "login.invalid"
[place.openmpi]
backend = "mpi"
family = "openmpi"
hosts = ["node0", "node1", "node2", "node3"]
[place.mpich]
backend = "mpi"
family = "mpich"
hosts = ["node0", "node1", "node2", "node3"]
[place.hosts]
backend = "mpi"
shared = false
hosts = ["node0.invalid", "node1.invalid", "node2.invalid", "node3.invalid"]
[place.ray]
backend = "ray"
address = "http://head.invalid:8265"
[place.paddlejob]
backend = "kubernetes"
kind = "paddlejob"
[place.jobset]
backend = "kubernetes"
kind = "jobset"
namespace = "training"
[place.kubernetes]
backend = "kubernetes"
[place.paddlecloud-mpi]
backend = "paddlecloud"
cluster_type = "mpi"
config = {fs_name = "afs://a.invalid", fs_ugi = "$MY_UGI", train_data_path = "/in", output_path = "/out"}
submit = {ak = "$MY_AK", sk = "$MY_SK", priority = "high", group = "g"}
[place.paddlecloud-k8s]
backend = "paddlecloud"
cluster_type = "k8s"
config = {fs_name = "afs://a.invalid", fs_ugi = "$MY_UGI", output_path = "/out", afs_remote_mount_point = "/user"}
submit = {priority = "high", group = "g"}
[place.modelarts]
backend = "modelarts"
region = "cn-north-4"
store = "obs://bucket/umiak"
flavor = "f1"
[place.aihc]
backend = "aihc"
region = "bj"
store = "bos://bucket/umiak"
pool = "cce-1"
queue = "default"
[place.bml]
backend = "bml"
region = "bj"
store = "bos://bucket/umiak"
repository = "r1"
resource = "CPU_2"
[place.pai]
backend = "pai"
region = "cn-hangzhou"
store = "oss://bucket/umiak"
workspace = "268"
quota = "quota-1"
"""
RENTED = """\
[place.rented]
backend = "ssh"
hosts = ["203.0.113.7", "203.0.113.8"]
user = "root"
known_hosts = "rented.known_hosts"
"""
MISSING = {
    "local": {"UM-SUBMIT-008"},
    "lab": {"UM-SUBMIT-008", "UM-SUBMIT-111", "UM-SUBMIT-114"},
    "rented": {"UM-SUBMIT-008", "UM-SUBMIT-111"},
    "hpc": {"UM-SUBMIT-008", "UM-SUBMIT-140", "UM-SUBMIT-141"},
    "login": {"UM-SUBMIT-008", "UM-SUBMIT-111"},
    "openmpi": {"UM-SUBMIT-008"},
    "mpich": {"UM-SUBMIT-008"},
    "hosts": {"UM-SUBMIT-008", "UM-SUBMIT-111", "UM-SUBMIT-150"},
    "ray": set(),
    "paddlejob": {"UM-SUBMIT-008", "UM-SUBMIT-180"},
    "jobset": {"UM-SUBMIT-008", "UM-SUBMIT-180"},
    "kubernetes": {"UM-SUBMIT-008", "UM-SUBMIT-180"},
    "paddlecloud-mpi": {"UM-SUBMIT-008", "UM-SUBMIT-222", "UM-SUBMIT-227"},
    "paddlecloud-k8s": {"UM-SUBMIT-008", "UM-SUBMIT-222", "UM-SUBMIT-227"},
    "modelarts": {"UM-SUBMIT-008", "UM-SUBMIT-260", "UM-SUBMIT-261", "UM-SUBMIT-272"},
    "aihc": {"UM-SUBMIT-008", "UM-SUBMIT-260", "UM-SUBMIT-261"},
    "bml": {"UM-SUBMIT-008", "UM-SUBMIT-261"},
    "pai": {"UM-SUBMIT-008", "UM-SUBMIT-260", "UM-SUBMIT-261"},
}
"""Every place, and what a machine lacks that has Python and umiak alone."""
PLACEHOLDERS = {
    "lab": "<known at start: free port>",
    "hosts": "<not known here: whose mpirun it is>",
    "ray": "<known at start: hash of the files>",
    "paddlejob": "<not known here: namespace of your kubeconfig>",
    "kubernetes": "<not known here: what a job becomes in this cluster>",
    "modelarts": "<not known here: project>",
}
BARE = """\
import contextlib, io, json, sys

class Nothing:
    \"\"\"A machine without packages that talk to other machines.\"\"\"

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in %(refused)r:
            raise ImportError("No module named " + name)

sys.meta_path.insert(0, Nothing())
from umiak.cli import main

found = {}
for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main.main(words)
    found[words[words.index("--on") + 1] + (" json" if "--json" in words else "")] = [status, out.getvalue(), err.getvalue()]
json.dump(found, sys.stdout)
"""
SDKS = (
    *("asyncssh", "bcrypt", "cryptography", "huaweicloudsdkmodelarts", "huaweicloudsdkcore", "baidubce"),
    *("alibabacloud_pai_dlc20201203", "alibabacloud_tea_openapi", "ray", "kubernetes", "paddle", "requests"),
)


def on_a_bare_machine(home: Path, *commands: list[str]) -> dict[str, Any]:
    """What commands print where nothing is installed and nothing is set: status, stdout and stderr of each."""
    environ = {"HOME": str(home.parent), "PATH": str(home.parent / "no-programs"), "LANG": "C.UTF-8"}
    done = subprocess.run(
        [sys.executable, "-c", BARE % {"refused": SDKS}],
        cwd=home,
        env=environ,
        input=json.dumps(commands),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


SSH = '[place.lab]\nbackend = "ssh"\nhosts = ["node0.invalid"]\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a script, and a person who has nothing else."""
    remember_launcher(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    (work / "train.py").write_text("print(1)\n")
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    return work


# ---- plans


def test_one_job_has_a_plan_on_every_place_without_an_account(home: Path) -> None:
    (home / "umiak.toml").write_text(PLACES)
    (home / "job.yaml").write_text(JOB)
    machines = home.parent / ".local/state/umiak/machines"
    machines.mkdir(parents=True)
    (machines / "rented.toml").write_text(RENTED)
    words = ["submit", "job.yaml", "--dry_run", "--on"]
    printed = on_a_bare_machine(home, *([*words, place, *more] for place in MISSING for more in ((), ("--json",))))
    named = {line.partition(" = ")[2].strip('"') for line in PLACES.splitlines() if line.startswith("backend")}
    assert named | {"local"} == set(registry.OURS)
    for place, codes in MISSING.items():
        status, text, told = printed[place]
        assert (status, place, told if status else "") == (0, place, "")
        status, out, again = printed[f"{place} json"]
        assert again == told
        data = json.loads(out)
        assert {each["code"] for each in data["missing"]} == codes, place
        assert {line.rpartition("[")[2][:-1] for line in told.splitlines() if line.startswith("missing: ")} == codes
        marks = [PLACEHOLDERS[place]] if place in PLACEHOLDERS else []
        assert [each for each in marks if each not in data["placeholders"] or each not in text] == []
        if place == "local":  # it works in the directory itself
            assert data["sent"]["count"] == 0
            continue
        assert {"path": "train.py", "size_bytes": 9} in data["sent"]["files"], place
        assert data["sent"]["size_bytes"] == sum(path.stat().st_size for path in home.iterdir())
        assert f"# sent from {home}: 3 files, " in text
        assert "     9 bytes  train.py\n" in text
    assert not list((home.parent / ".local/state/umiak").glob("runs/*"))


def test_a_config_has_a_plan_without_an_account(home: Path) -> None:
    (home / "umiak.toml").write_text(PLACES)
    (home / "config.yaml").write_text(PS_CLUSTER)
    words = ["train", "-m", "config.yaml", "--dry_run", "--json", "--on", "bml"]
    status, out, told = on_a_bare_machine(home, [*words, "-o", "runner.epochs=1"])["bml json"]
    assert "needs a container image" in told
    (home / "umiak.toml").write_text(PLACES.replace('repository = "r1"', 'repository = "r1"\nimage = "/a/b:1"'))
    status, out, told = on_a_bare_machine(home, words)["bml json"]
    assert status == 0, told
    assert [each["code"] for each in json.loads(out)["missing"]] == ["UM-SUBMIT-261"]


def test_a_plan_from_python_lists_what_is_missing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "umiak.toml").write_text(PLACES)
    monkeypatch.delenv("BML_API_KEY", raising=False)
    job = Job(name="ctr", command=("train.py",), image="/a/b:1", files=FileSet())
    text = places.place("bml").dry_run(job)
    assert "  train.py\n" in text
    assert "# missing: the key of bml is not set here: BML_API_KEY, BML_SECRET_KEY [UM-SUBMIT-261]" in text


# ---- keys that a place can't obey


@pytest.mark.parametrize("name", ["local", "lab", "hpc", "login", "openmpi", "hosts", "ray"])
def test_an_image_is_an_error_where_nothing_runs_in_containers(
    home: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "umiak.toml").write_text(PLACES)
    (home / "job.yaml").write_text("name: ctr\ncommand: train.py\nimage: paddle:3.3\n")
    for more in ((), ("--dry_run",)):
        assert main.main(["submit", "job.yaml", "--on", name, *more]) == 2
        told = capsys.readouterr().err
        assert f"place {name} does not run containers: image: paddle:3.3 [UM-SUBMIT-370]" in told
        assert f"`on: {{{name}: {{image: null}}}}`" in told


def test_keys_without_effect_are_told(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "umiak.toml").write_text(PLACES)
    (home / "job.yaml").write_text(
        "name: ctr\ncommand: train.py\ncpus: 2\nshared_memory: 1GiB\n"
        "roles: {server: {shared_memory: null}, trainer: {workers: 4}}\n"
    )
    assert main.main(["submit", "job.yaml", "--on", "lab", "--dry_run", "--json"]) == 0
    printed = capsys.readouterr()
    what = [each["what"] for each in json.loads(printed.out)["warnings"]]
    assert what == [
        "roles.server.cpus has no effect on ssh",
        "roles.server.shared_memory has no effect on ssh",
        "roles.trainer.cpus has no effect on ssh",
        "roles.trainer.shared_memory has no effect on ssh",
        "roles.trainer.workers has no effect on ssh in a job with parameter servers: each node has one",
    ]
    assert [each for each in what if f"warning: {each} [UM-SUBMIT-371]" not in printed.err] == []
    (home / "job.yaml").write_text("name: ctr\ncommand: train.py\ncpus: 2\nmemory: 1GiB\n")
    assert main.main(["submit", "job.yaml", "--on", "hpc", "--dry_run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"] == []


# ---- files that look like secrets


def test_secret_files_are_not_sent_unless_a_flag_says_so(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "umiak.toml").write_text(SSH)
    (home / "job.yaml").write_text("name: ctr\ncommand: train.py\nfiles: .\n")
    (home / ".env").write_text("PASSWORD=hush")
    (home / "deploy").write_text(PRIVATE_KEY)
    for words in (["submit", "job.yaml", "--on", "lab"], ["submit", "job.yaml", "--on", "lab", "--dry_run"]):
        assert main.main(words) == 2
        told = capsys.readouterr()
        assert "2 files that look like secrets would be sent to the nodes: .env (" in told.err
        assert "deploy (a private key)" in told.err
        assert "--allow_secret_files" in told.err
        assert "hush" not in told.out + told.err
    for flag in ("--allow_secret_files", "--allow-secret-files"):
        assert main.main(["submit", "job.yaml", "--on", "lab", "--dry_run", flag]) == 0


def test_secret_files_of_a_config_are_not_sent(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "umiak.toml").write_text(SSH)
    (home / ".netrc").write_text("machine a password hush")
    (home / "config.yaml").write_text(PS_CLUSTER)
    words = ["train", "-m", "config.yaml", "--on", "lab", "--nnodes", "1", "--dry_run"]
    assert main.main(words) == 2
    assert ".netrc (passwords)" in capsys.readouterr().err
    main.main([*words, "--allow_secret_files"])
    assert ".netrc" not in capsys.readouterr().err


def test_secret_files_of_a_backend_yaml_are_not_uploaded_unless_it_names_them(home: Path) -> None:
    (home / "server.pem").write_text(PRIVATE_KEY)
    for patterns, codes in (("./*", ["UM-SUBMIT-057"]), ("./*.py ./server.pem", [])):
        text = MPI.replace("./*.py ./*.yaml", patterns)
        place = backend_yaml.read(text, "backend.yaml", ["paddlecloud"]).place
        assert place is not None
        said = paddlecloud_settings.read(place.settings, {}).settings
        assert said is not None
        assert [each.code for each in upload.find(said, str(home))[1]] == codes
