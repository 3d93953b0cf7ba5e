"""Private keys with a passphrase: known by their files, and told where they were passed over."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from umiak.core.value import replace
from umiak.submit.backends.ssh import keys
from umiak.submit.backends.ssh.settings import SshAccess, SshHost, SshSettings

SETTINGS = SshSettings(hosts=(SshHost(label="node0", host="node0"),))


@pytest.mark.parametrize("kind", ["ed25519", "rsa"])
def test_keys_that_have_a_passphrase_are_known_by_their_files(tmp_path: Path, kind: str) -> None:
    size = ("-b", "1024") if kind == "rsa" else ()  # those of today's size take half a second of a core each
    for name, passphrase, words in (
        ("plain", "", ()),
        ("secret", "a secret of mine", ()),
        ("pem", "a secret of mine", ("-m", "PEM")),
    ):
        if words and kind == "ed25519":
            continue  # OpenSSH writes those in its own format alone
        path = tmp_path / name
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-f", path, "-N", passphrase, *size, *words], check=True)
        assert keys.has_passphrase(str(path)) is bool(passphrase)
        assert not keys.has_passphrase(f"{path}.pub")
    assert not keys.has_passphrase(str(tmp_path / "none"))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / "secret").rename(tmp_path / ".ssh" / f"id_{kind}")
    told = keys.passed_over(SETTINGS, {"HOME": str(tmp_path)})
    assert told == [f"not tried, since it has a passphrase: ~/.ssh/id_{kind}"]
    named = replace(SETTINGS, access=SshAccess(passphrase_from="LAB"))
    assert keys.passed_over(named, {"HOME": str(tmp_path)}) == []
