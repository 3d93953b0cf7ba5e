"""Files of another user, where umiak looks for this user's: nothing that they say is done. Real commands, and files of another uid.

Somebody else writes an `umiak.toml` with an ssh place above a directory of ours; its ssh config has a ProxyCommand, which a client
runs as its own user.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

UMIAK = (sys.executable, "-m", "umiak")
SOMEBODY = 4711
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of other users")


class Shared:
    """A directory in which everybody works, with one of ours below it, and what somebody else has put there."""

    def __init__(self, tmp_path: Path) -> None:
        self.top = tmp_path / "scratch"
        self.work = self.top / "ours" / "project"
        self.work.mkdir(parents=True)
        self.touched = tmp_path / "touched"
        self.home = tmp_path / "home"
        self.home.mkdir()
        self.config = self.top / "ssh_config"
        self.config.write_text(f"Host *\n  ProxyCommand touch {self.touched}\n")
        self.toml = self.top / "umiak.toml"
        self.toml.write_text(
            f'default_place = "lab"\n[place.lab]\nbackend = "ssh"\nhosts = ["a"]\nconfig = "{self.config}"\n'
        )
        (self.work / "train.py").write_text("print('trains')\n")
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("UMIAK_", "XDG_", "SUDO_"))}
        self.environ = {**kept, "HOME": str(self.home)}

    def given_to(self, uid: int, *paths: Path) -> None:
        for path in paths:
            os.chown(path, uid, uid, follow_symlinks=False)

    def umiak(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*UMIAK, *words],
            cwd=self.work,
            env={**self.environ, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def refused(self, *words: str, path: Path, why: str, **env: str) -> str:
        done = self.umiak(*words, **env)
        assert done.returncode == 3, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        assert "[UM-SUBMIT-340]" in done.stderr
        assert str(path) in done.stderr
        assert why in done.stderr
        assert not self.touched.exists(), f"{words}: code of somebody else was run"
        return done.stderr


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared(tmp_path)


COMMANDS = (
    ("submit", "--", "train.py"),
    ("hosts", "check"),
    ("hosts", "run", "--", "true"),
    ("status", "ssh://lab/x"),
    ("logs", "ssh://lab/x"),
    ("cancel", "ssh://lab/x"),
    ("wait", "ssh://lab/x"),
    ("machines", "list"),
    ("train", "-m", "umiak.models.rank.dnn", "--on", "lab"),
)


@as_root
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_a_strangers_file_in_a_directory_above_is_not_obeyed(shared: Shared, words: tuple[str, ...]) -> None:
    shared.top.chmod(0o1777)
    shared.given_to(SOMEBODY, shared.toml, shared.config)
    told = shared.refused(*words, path=shared.toml, why=f"{shared.toml} belongs to uid {SOMEBODY} (mode 0644)")
    assert f"export UMIAK_SAFE_DIRECTORIES={shared.top}" in told


@as_root
def test_without_the_rule_their_program_would_run(shared: Shared) -> None:
    """So that the tests above can fail: a user who allows it gets it."""
    shared.top.chmod(0o777)
    shared.given_to(SOMEBODY, shared.toml, shared.config)
    shared.umiak("hosts", "check", UMIAK_SAFE_DIRECTORIES=str(shared.top))
    assert shared.touched.exists()


@as_root
def test_doctor_and_python_refuse_it_as_well(shared: Shared) -> None:
    shared.given_to(SOMEBODY, shared.toml, shared.config)
    shared.top.chmod(0o777)
    done = shared.umiak("doctor", "--on", "lab")
    assert "UM-SUBMIT-340" in done.stdout + done.stderr
    ran = subprocess.run(
        [sys.executable, "-c", "import umiak; umiak.place('lab')"],
        cwd=shared.work, env=shared.environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 1
    assert "this file is not used" in ran.stderr
    assert not shared.touched.exists()


@as_root
def test_a_directory_that_everybody_can_write_is_enough(shared: Shared) -> None:
    """The file may be ours today; in such a directory anybody can put another in its place."""
    shared.top.chmod(0o777)
    shared.refused("hosts", "check", path=shared.toml, why=f"{shared.top} can be written by everybody (mode 0777)")


@as_root
def test_what_a_place_names_is_looked_at_as_well(shared: Shared) -> None:
    """Our own umiak.toml, an ssh config of somebody else."""
    shared.given_to(SOMEBODY, shared.config)
    shared.refused("submit", "--", "train.py", path=shared.config, why=f"belongs to uid {SOMEBODY}")
    shared.refused("hosts", "check", path=shared.config, why=f"belongs to uid {SOMEBODY}")


@as_root
@pytest.mark.parametrize("key", ["key", "known_hosts"])
def test_keys_and_known_hosts_are_not_a_strangers(shared: Shared, key: str) -> None:
    theirs = shared.top / "theirs"
    theirs.write_text("")
    shared.given_to(SOMEBODY, theirs)
    shared.config.write_text("")
    shared.toml.write_text(shared.toml.read_text() + f'{key} = "{theirs}"\n')
    shared.refused("hosts", "check", path=theirs, why=f"belongs to uid {SOMEBODY}")


@as_root
def test_known_hosts_of_the_ssh_config_are_not_a_strangers(shared: Shared) -> None:
    theirs = shared.top / "theirs"
    theirs.write_text("")
    shared.given_to(SOMEBODY, theirs)
    shared.config.write_text(f"Host *\n  UserKnownHostsFile {theirs}\n")
    done = shared.umiak("hosts", "check")
    assert done.returncode != 0
    assert "UM-SUBMIT-340" in done.stdout + done.stderr


@as_root
def test_a_job_file_of_somebody_else_is_not_run(shared: Shared) -> None:
    shared.toml.unlink()
    job = shared.work / "job.yaml"
    job.write_text(f"name: x\ncommand: touch {shared.touched}\nframework: none\n")
    assert shared.umiak("submit", "job.yaml", "--dry_run").returncode == 0
    shared.given_to(SOMEBODY, job)
    for words in (("submit", "job.yaml"), ("submit", "job.yaml", "--dry_run")):
        told = shared.refused(*words, path=Path("job.yaml"), why=f"{job} belongs to uid {SOMEBODY}")
        assert "this job file is not used" in told


@as_root
def test_a_backend_file_of_somebody_else_is_not_used(shared: Shared) -> None:
    shared.toml.unlink()
    backend = shared.work / "backend.yaml"
    backend.write_text('backend: "PaddleCloud"\n')
    shared.given_to(SOMEBODY, backend)
    shared.refused("train", "-m", "umiak.models.rank.dnn", "-b", "backend.yaml", path=backend, why=f"uid {SOMEBODY}")


@as_root
@pytest.mark.parametrize("by", ["place", "variable", "home"])
def test_a_kubeconfig_of_somebody_else_starts_no_program(shared: Shared, by: str) -> None:
    config = shared.top / "kubeconfig"
    plugin = f'{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: touch, args: ["{shared.touched}"], interactiveMode: Never}}}}'
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
        f"clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:1'}}}}]\nusers: [{{name: u, user: {plugin}}}]\n"
    )
    env = {"KUBECONFIG": str(config)} if by == "variable" else {}
    named = f'kubeconfig = "{config}"\n' if by == "place" else ""
    shared.toml.write_text(f'[place.k]\nbackend = "kubernetes"\nimage = "x"\n{named}')
    shared.umiak("doctor", "--on", "k", "--timeout", "5", KUBECONFIG=str(config))
    assert shared.touched.exists(), "it is run if it is ours"
    shared.touched.unlink()
    path = config
    if by == "home":
        path = shared.home / ".kube" / "config"
        path.parent.mkdir()
        config.rename(path)
    shared.given_to(SOMEBODY, path)
    done = shared.umiak("doctor", "--on", "k", **env)
    assert "this kubeconfig is not used" in done.stdout + done.stderr
    assert not shared.touched.exists()


@as_root
def test_what_the_user_allows_is_obeyed(shared: Shared) -> None:
    """As for a checkout that is mounted into a container: its files are another user's, and root works on them."""
    shared.toml.write_text('[place.here]\nbackend = "local"\n')
    shared.given_to(SOMEBODY, shared.top, shared.toml)
    words = ("submit", "--on", "here", "--dry_run", "--", "train.py")
    shared.refused(*words, path=shared.toml, why=f"{shared.top} belongs to uid {SOMEBODY}")
    for allowed in (str(shared.top), f"/elsewhere:{shared.top}", "*"):
        assert shared.umiak(*words, UMIAK_SAFE_DIRECTORIES=allowed).returncode == 0
    shared.refused(*words, path=shared.toml, why="belongs", UMIAK_SAFE_DIRECTORIES=f"{shared.top}x:{shared.work}")
    assert shared.umiak(*words, SUDO_UID=str(SOMEBODY)).returncode == 0, "who calls sudo is trusted"
    listed = shared.home / ".config" / "umiak" / "safe_directories"
    listed.parent.mkdir(parents=True)
    listed.write_text(f"# the lab's\n\n{shared.top}\n")
    assert shared.umiak(*words).returncode == 0
    shared.given_to(SOMEBODY, listed)
    done = shared.umiak(*words)
    assert (done.returncode, "UM-SUBMIT-341" in done.stderr) == (3, True), done.stderr
    shared.given_to(0, listed)
    listed.write_text("scratch\n")
    done = shared.umiak(*words)
    assert (done.returncode, f"{listed}:1: not an absolute path" in done.stderr) == (2, True), done.stderr


CONFIG = """
workspace: "."
mode: [one]
runner:
- {name: one, class: train, epochs: 1, device: cpu, phases: [p]}
dataset:
- {name: d, batch_size: 2, data_path: "data", sparse_slots: "click a", type: DataLoader}
hyper_parameters: {optimizer: {class: Adam, learning_rate: 0.1}}
phase:
- {name: p, model: "{workspace}/model.py", dataset_name: d, thread_num: 1}
"""


@as_root
def test_a_config_that_a_person_names_is_that_persons_choice(shared: Shared) -> None:
    """`umiak train -m` is as `python train.py`: whose it is, was chosen. What everybody could have put there was not."""
    shared.toml.unlink()
    config, model = shared.work / "config.yaml", shared.work / "model.py"
    config.write_text(CONFIG)
    model.write_text(f"open({str(shared.touched)!r}, 'w')\n")
    words = ("train", "-m", "config.yaml", "--explain")
    shared.given_to(SOMEBODY, config, model)
    assert "UM-SUBMIT-340" not in shared.umiak(*words).stderr
    model.chmod(0o666)
    shared.refused(*words, path=model, why="can be written by everybody (mode 0666)")
    shared.refused("train", "-m", "config.yaml", path=model, why="can be written by everybody (mode 0666)")
    model.chmod(0o644)
    shared.work.chmod(0o1777)
    told = shared.refused(*words, path=shared.work, why=f"{shared.work} can be written by everybody (mode 1777)")
    assert "directory of code" in told, "anybody could put a module beside the model"
    assert "this file" not in told, "both belong to the same user"
    shared.given_to(4712, model)
    shared.refused(*words, path=model, why="belongs to uid 4712")
    assert "UM-SUBMIT-340" not in shared.umiak(*words, UMIAK_SAFE_DIRECTORIES=str(shared.work)).stderr
    shared.work.chmod(0o777)
    shared.refused(*words, path=Path("config.yaml"), why=f"{shared.work} can be written by everybody (mode 0777)")
    assert "UM-SUBMIT-340" not in shared.umiak(*words, KUBERNETES_SERVICE_HOST="10.0.0.1").stderr, "alone in a pod"


@as_root
def test_a_name_that_steers_the_terminal_is_spelled_out(shared: Shared) -> None:
    shared.toml.unlink()
    job = shared.work / "j\x1b]0;x\x07.yaml"
    job.write_text("name: x\n")
    shared.given_to(SOMEBODY, job)
    done = shared.umiak("submit", job.name)
    assert "UM-SUBMIT-340" in done.stderr
    assert "\x1b" not in done.stderr
