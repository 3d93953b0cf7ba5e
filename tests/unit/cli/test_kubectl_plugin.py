"""`kubectl umiak`: which command of umiak is meant, and which cluster."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import PATIENCE_S
from tests.support.paths import ROOT
from umiak.cli.commands import COMMANDS
from umiak.cli.kubectl import command, words
from umiak.core.problem import UmiakError
from umiak.submit import configuration
from umiak.submit.configuration import VARIABLE

RUN = "kubernetes://kubectl/ctr-1"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("status ctr-1", f"status {RUN}"),
        ("status ctr-1 --json -n ml", f"status {RUN} --json"),
        ("-nml --context=prod logs --tail 5 ctr-1 -f", f"logs --tail 5 {RUN} -f"),
        ("logs --role ctr-1 ctr-1", f"logs --role ctr-1 {RUN}"),
        ("exec ctr-1 -n ml -- tail -n 3 ctr-1", f"exec {RUN} -- tail -n 3 ctr-1"),
        ("fetch ctr-1 log ctr-1", f"fetch {RUN} log ctr-1"),
        ("cancel kubernetes://prod/ctr-1", "cancel kubernetes://prod/ctr-1"),
        ("wait --help", "wait --help"),
        ("list --json", "list --on kubectl --everybody --json"),
        ("deploy --replicas 2", "deploy --replicas 2"),
        ("deploy -n ml --crd", "deploy --namespace ml --crd"),
    ],
)
def test_the_command_that_is_meant(typed: str, meant: str) -> None:
    assert words.translated(typed.split()).words == tuple(meant.split())


def test_the_cluster_that_is_meant(tmp_path: Path) -> None:
    typed = ["list", "--namespace", 'm"l', "--context=a b", "--kubeconfig", "/k/config"]
    environ = {"HOME": str(tmp_path), VARIABLE: words.translated(typed).places}
    reading = configuration.load(configuration.context(environ, str(tmp_path)))
    place = configuration.place(reading, "kubectl")
    assert place.backend == "kubernetes"
    told = {each.key: each.node.text for each in place.settings.entries}  # type: ignore[union-attr]
    assert told == {"namespace": 'm"l', "context": "a b", "kubeconfig": "/k/config"}
    assert "namespace" not in words.translated(["list"]).places


@pytest.mark.parametrize(
    ("typed", "code"),
    [("lsit", "UM-CLI-004"), ("train", "UM-CLI-004"), ("status", "UM-CLI-122"), ("status ctr-1 -n", "UM-CLI-002")],
)
def test_mistakes_are_told(typed: str, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UmiakError) as caught:
        words.translated(typed.split())
    assert caught.value.problems[0].code == code
    assert command.main(typed.split()) == 2
    assert code in capsys.readouterr().err


def test_help_names_every_command_and_umiak_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--help"]) == 0
    told = capsys.readouterr().out
    assert all(f"  {name} " in told for name in words.COMMANDS)
    assert set(words.COMMANDS) <= set(COMMANDS)
    assert command.main([]) == 2


def test_the_wheel_has_it_and_it_imports_little() -> None:
    found = re.search(r'^kubectl-umiak = "(\S+):(\w+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    assert found
    module, name = found.groups()
    code = f"import sys; from {module} import {name}; {name}(['deploy']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert "paddle-controller-manager" in done.stdout
    heavy = {"numpy", "paddle", "torch", "aiohttp", "asyncio", "yaml", "ssl", "dataclasses", "argparse"}
    assert heavy & set(done.stderr.split()) == set()
