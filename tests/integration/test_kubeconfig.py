"""`umiak kubeconfig`: a downloaded file is checked against its cluster and added to a person's own."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from tests.support import PATIENCE_S
from tests.support.kube_server import TOKEN, KubeServer, strict
from umiak.kube import kubeconfig
from umiak.submit import places
from umiak.submit.backends.kubernetes import settings


@pytest.fixture
def server() -> Iterator[KubeServer]:
    with KubeServer(strict(), {TOKEN}) as made:
        yield made


def umiak(home: Path, *words: str, status: int = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environ = {"PATH": os.environ["PATH"], "HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-m", "umiak", "kubeconfig", *words],
        cwd=home,
        env=environ,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == status, f"{done.returncode}\n{done.stdout}{done.stderr}"
    assert TOKEN not in done.stdout + done.stderr
    return done


def doctor(home: Path, *, status: int) -> str:
    environ = {"PATH": os.environ["PATH"], "HOME": str(home)}
    words = [sys.executable, "-m", "umiak", "doctor", "--only", "place", "--on", "prod"]
    done = subprocess.run(words, cwd=home, env=environ, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == status, f"{done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def own(home: Path) -> dict[str, Any]:
    path = home / ".kube" / "config"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def test_a_file_is_checked_and_added_and_its_place_is_printed(server: KubeServer, tmp_path: Path) -> None:
    server.kubeconfig(tmp_path / "prod.yaml")
    done = umiak(tmp_path, "prod.yaml", "--from", "ack", "--namespace", "jobs")
    assert f"{server.url} answers: Kubernetes v1.37.0, jobs are made into a paddlejob" in done.stderr
    reading = places.read([("umiak.toml", done.stdout)], ["kubernetes"])
    said = settings.read(reading.places["prod"])
    assert (said.context, said.namespace, said.kind) == ("prod", "jobs", settings.WorkloadKind.PADDLEJOB)
    made = own(tmp_path)
    assert made["current-context"] == "prod"
    assert made["users"] == [{"name": "prod", "user": {"token": TOKEN}}]
    assert not list((tmp_path / ".kube").glob(".config*"))
    # Checked with nothing but the context's name.
    data = json.loads(umiak(tmp_path, "--check", "--context", "prod", "--json").stdout)
    assert (data["server"], data["missing"]) == (server.url, [])


def test_contexts_live_side_by_side(server: KubeServer, tmp_path: Path) -> None:
    """As Huawei's file, with two contexts and JSON; and from standard input."""
    config = json.loads(server.kubeconfig(tmp_path / "kubeconfig.json").read_text())
    config["contexts"].append({"name": "external", "context": config["contexts"][0]["context"]})
    del config["current-context"]
    (tmp_path / "kubeconfig.json").write_text(json.dumps(config))
    done = umiak(tmp_path, "kubeconfig.json", "--from", "cce", status=2)
    assert "`--use test` or `--use external`" in done.stderr
    umiak(tmp_path, "kubeconfig.json", "--from", "cce", "--use", "external")
    umiak(tmp_path, "-", "--context", "lab", "--use", "test", stdin=json.dumps({"config": json.dumps(config)}))
    made = own(tmp_path)
    assert [row["name"] for row in made["contexts"]] == ["cce", "lab"]
    with KubeServer(strict(), {TOKEN}) as other:
        other.kubeconfig(tmp_path / "other.yaml")
        done = umiak(tmp_path, "other.yaml", "--context", "lab", status=2)
        assert "UM-SUBMIT-192" in done.stderr
        umiak(tmp_path, "other.yaml", "--context", "lab", "--overwrite")
        assert other.url in json.dumps(own(tmp_path))


def test_missing_rights_are_named(server: KubeServer, tmp_path: Path) -> None:
    server.cluster.groups = ("batch",)
    server.cluster.rights = lambda asked: asked["resource"] != "secrets" and asked["verb"] != "watch"
    server.kubeconfig(tmp_path / "prod.yaml")
    done = umiak(tmp_path, "prod.yaml", "--check", status=3)
    words = "missing in the namespace training: watch pods, create secrets, get secrets, patch secrets, delete secrets"
    assert words in done.stderr
    assert not (tmp_path / ".kube").exists()
    umiak(tmp_path, "prod.yaml")
    assert own(tmp_path)["current-context"] == "prod"


def test_the_doctor_names_missing_rights(server: KubeServer, tmp_path: Path) -> None:
    server.cluster.groups = ("batch",)
    server.kubeconfig(tmp_path / "prod.yaml")
    umiak(tmp_path, "prod.yaml")
    (tmp_path / "umiak.toml").write_text('[place.prod]\nbackend = "kubernetes"\ncontext = "prod"\n')
    assert "all rights that submitting needs" in doctor(tmp_path, status=0)
    server.cluster.rights = lambda asked: asked["resource"] != "secrets"
    told = doctor(tmp_path, status=1)
    assert "create secrets" in told
    assert "UM-SUBMIT-193" in told


def test_a_cluster_that_does_not_let_one_in(server: KubeServer, tmp_path: Path) -> None:
    server.kubeconfig(tmp_path / "prod.yaml")
    server.tokens = set()
    done = umiak(tmp_path, "prod.yaml", status=3)
    assert "401 Unauthorized" in done.stderr
    assert not (tmp_path / ".kube").exists()
    umiak(tmp_path, "prod.yaml", "--offline")
    assert own(tmp_path)["current-context"] == "prod"


def test_certificates_come_along_and_their_end_is_told(server: KubeServer, tmp_path: Path) -> None:
    soon = datetime.now(timezone.utc) + timedelta(days=3, hours=1)
    cert = trustme.CA().issue_cert("person@example.org", not_after=soon)
    pem = cert.cert_chain_pems[0].bytes()
    assert kubeconfig.ends_at(pem) == int(soon.timestamp())
    assert kubeconfig.ends_at(pem[: len(pem) // 2]) is None
    (tmp_path / "down").mkdir()
    (tmp_path / "down" / "me.crt").write_bytes(pem)
    (tmp_path / "down" / "me.key").write_bytes(cert.private_key_pem.bytes())
    user = {"client-certificate": "me.crt", "client-key": "me.key", "token": TOKEN}
    server.kubeconfig(tmp_path / "down" / "prod.yaml", user=user, **{"insecure-skip-tls-verify": True})
    done = umiak(tmp_path, "down/prod.yaml")
    assert "your certificate ends in 3 days" in done.stderr
    assert "the cluster's certificate is not checked" in done.stderr
    made = own(tmp_path)["users"][0]["user"]
    assert base64.b64decode(made["client-key-data"]) == cert.private_key_pem.bytes()
    assert set(made) == {"client-certificate-data", "client-key-data", "token"}


@pytest.mark.parametrize(
    ("words", "text"),
    [((), "no kubeconfig is named"), (("nothing.yaml",), "can't be read"), (("x", "--from", "gke"), "cce, ack, file")],
)
def test_wrong_words(tmp_path: Path, words: tuple[str, ...], text: str) -> None:
    done = umiak(tmp_path, *words, status=3 if "nothing.yaml" in words else 2)
    assert text in done.stderr
