"""Keys with a passphrase and files that a host does not give, with a real sshd."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from testbed.pytest_support import SshFactory
from tests.integration.test_submit_ssh import Lab, own_lines

pytestmark = [pytest.mark.ssh, pytest.mark.netns]


@pytest.fixture
def lab(tmp_path: Path, ssh_cluster: SshFactory) -> Lab:
    """Two hosts."""
    return Lab(tmp_path, ssh_cluster(2))


def test_what_a_host_does_not_give_is_skipped_and_told(lab: Lab) -> None:
    there = lab.cluster.machines[1].files / "there"
    there.mkdir()
    (there / "a").write_text("x")
    (there / "passwd").symlink_to("/etc/passwd")
    (there / "z").write_text("y")
    os.mkfifo(there / "pipe")  # to open it would wait for somebody who writes
    told = lab.umiak("hosts", "get", "there", "back", "--host", "node1", status=3)
    assert "node1: 2 files were skipped: " in told
    assert "there/passwd (" in told
    assert "there/pipe (not a file)" in told
    assert "[UM-SUBMIT-375]" in told
    assert "1 of 1 hosts failed: node1 in part" in told
    assert sorted(path.name for path in (lab.directory / "back/node1/there").iterdir()) == ["a", "z"]
    (row,) = [
        json.loads(line)
        for line in lab.umiak("hosts", "get", "there", "again", "--json", "--host", "node1", status=3).splitlines()
        if line.startswith("{")
    ]
    assert row["error"] == "UM-SUBMIT-375"


def test_a_key_with_a_passphrase_is_opened_or_it_is_told_what_is_missing(lab: Lab) -> None:
    key = lab.directory.parent / "key"
    shutil.copy(lab.cluster.identity, key)
    subprocess.run(["ssh-keygen", "-q", "-p", "-f", key, "-P", "", "-N", "a secret of mine"], check=True)
    lab.describe(key=f'"{key}"', passphrase_from='"LAB_PASSPHRASE"')
    words = ("hosts", "run", "--host", "node0", "--", "echo in")
    assert own_lines(lab.umiak(*words, env={"LAB_PASSPHRASE": "a secret of mine"}), "node0") == ["in"]
    told = lab.umiak(*words, status=3, env={"LAB_PASSPHRASE": "another one"})
    assert "the key can't be used" in told
    assert "is the passphrase in LAB_PASSPHRASE the one of this key?" in told
    assert "another one" not in told
    hidden = lab.directory.parent / "without"
    hidden.mkdir()
    (hidden / "bcrypt.py").write_text("raise ImportError('not here')\n")
    told = lab.umiak(*words, status=3, env={"LAB_PASSPHRASE": "a secret of mine", "PYTHONPATH": str(hidden)})
    assert "a package is missing: bcrypt [UM-SUBMIT-111]" in told
    assert f"ssh-add {key}" in told
    lab.describe(key=f'"{key}"')
    told = lab.umiak(*words, status=3)
    assert f"the key has a passphrase, and nobody said it: {key} [UM-SUBMIT-115]" in told
    assert "passphrase_from" in told
    config = lab.cluster.config.read_text().replace(str(lab.cluster.identity), str(key))
    (lab.directory / "config").write_text(config)
    lab.describe(config='"config"')
    assert f"the key has a passphrase, and nobody said it: {key} [UM-SUBMIT-115]" in lab.umiak(*words, status=3)
