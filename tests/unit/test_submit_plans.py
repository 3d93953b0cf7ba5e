"""What a submission would send and run: plans without accounts, the files that travel, keys without effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.paddlecloud_story import MPI
from tests.train_helpers import PS_CLUSTER
from umiak.cli import main
from umiak.submit import backend_yaml
from umiak.submit.backends.paddlecloud import settings as paddlecloud_settings
from umiak.submit.backends.paddlecloud import upload

PRIVATE_KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n"
SSH = '[place.lab]\nbackend = "ssh"\nhosts = ["node0.invalid"]\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a script, and a person who has nothing else."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "train.py").write_text("print(1)\n")
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    return work


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
