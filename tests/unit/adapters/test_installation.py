"""Hints that name the place umiak came from, versions that are compared, and an audit that does not count silence as soundness."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.support import PATIENCE_S
from tests.support.paths import ROOT
from tools import audit
from umiak.adapters import installation
from umiak.data import native_core


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An umiak 9.9 that was installed from nobody knows where."""
    about = tmp_path / "site packages" / "umiak-9.9+local.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: umiak\nVersion: 9.9+local\n")
    monkeypatch.syspath_prepend(str(about.parent))
    importlib.invalidate_caches()
    return about


def test_from_a_checkout(installed: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "Übung 1" / "umiak"
    (checkout / "native").mkdir(parents=True)
    (checkout / "native" / "Cargo.toml").touch()
    for editable, words in ((False, []), (True, ["--editable"])):
        origin = {"url": checkout.as_uri(), "dir_info": {"editable": True} if editable else {}}
        (installed / "direct_url.json").write_text(json.dumps(origin))
        command = shlex.split(installation.command("train"))
        assert command == ["python", "-m", "pip", "install", *words, f"{checkout}[train]"]


def test_from_a_wheel(installed: Path, tmp_path: Path) -> None:
    dist = tmp_path / "wheels of mine"
    dist.mkdir()
    origin = {"url": (dist / "umiak-9.9+local-py3-none-any.whl").as_uri(), "archive_info": {}}
    (installed / "direct_url.json").write_text(json.dumps(origin))
    assert "--find-links DIR 'umiak[ps]==9.9+local', with DIR the directory" in installation.command("ps")
    (dist / "umiak_native-9.9+local-cp310-abi3-linux_x86_64.whl").touch()
    command = shlex.split(installation.command("ps"))
    assert command == ["python", "-m", "pip", "install", "--find-links", str(dist), "umiak[ps]==9.9+local"]


@pytest.mark.parametrize("origin", [None, "{", "{}", '{"url": "https://example.com/umiak.zip", "archive_info": {}}'])
def test_from_nobody_knows_where(installed: Path, origin: str | None) -> None:
    if origin is not None:
        (installed / "direct_url.json").write_text(origin)
    said = installation.command("train")
    assert "pip install umiak" not in said
    assert "'.[train]'" in said or "--find-links DIR 'umiak[train]==9.9+local'" in said


def test_a_native_core_of_another_version_is_refused(installed: Path) -> None:
    """A real import, of an umiak that was installed as another version than its native core."""
    script = f"import sys; sys.path.insert(0, {str(installed.parent)!r}); import umiak.ps"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    native = metadata.version("umiak-native")
    assert f"different versions: umiak 9.9+local, umiak-native {native} [UM-DATA-073]" in done.stderr
    assert "hint: python -m pip install --find-links DIR 'umiak[ps]==9.9+local'" in done.stderr


def test_it_is_an_import_error_too() -> None:
    with pytest.raises(ImportError, match="UM-DATA-073"):
        native_core.check("1.0", "1.1")
    native_core.check("unknown", "1.1")


def test_the_version_is_written_once() -> None:
    written = [
        line for line in (ROOT / "native" / "Cargo.toml").read_text().splitlines() if line.startswith("version =")
    ]
    (version,) = [line.split('"')[1] for line in written]
    assert version.endswith("+local"), "a version that PyPI would take: docs/decisions/0014"
    assert {metadata.version(name) for name in ("umiak", "umiak-native", "umiak-paddlerec")} == {version}
    for name in ("pyproject.toml", "native/pyproject.toml", "shims/paddlerec/pyproject.toml", "src/umiak/__init__.py"):
        assert version.partition("+")[0] not in (ROOT / name).read_text(), name


def test_nothing_tells_people_to_ask_an_index_for_our_names() -> None:
    places = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile", "docs", "src", "shims", "examples")]
    files = [path for place in places for path in ([place] if place.is_file() else place.rglob("*.*"))]
    read = [path for path in files if path.suffix in (".md", ".py") and "decisions" not in path.parts]
    assert len(read) > 300
    for path in read:
        for line in path.read_text(encoding="utf-8").splitlines():
            # `pip install umiak...` or `'umiak[train]'` with nothing that says from where.
            if re.search(r"pip install (--?\S+ )*['\"]?umiak\b(?!/)", line) and "--find-links" not in line:
                assert "nothing" in line, f"{path}: {line}"


def test_an_index_without_advisories_is_no_clean_bill(capsys: pytest.CaptureFixture[str]) -> None:
    silent = {"dependencies": [{"name": "numpy", "skip_reason": "Dependency not found on PyPI"}]}
    assert audit.judge_python(silent) == []
    assert "SKIPPED Python's dependencies" in capsys.readouterr().err


def test_what_is_known_against_a_dependency_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    report = {
        "dependencies": [
            {"name": "numpy", "version": "2.0", "vulns": []},
            {"name": "pip", "version": "23.2.1", "vulns": [{"id": "PYSEC-2023-228", "fix_versions": ["23.3"]}]},
            {"name": "odd", "skip_reason": "Dependency not found on PyPI"},
        ]
    }
    assert audit.judge_python(report) == ["pip 23.2.1: PYSEC-2023-228, fixed in 23.3"]
    assert "SKIPPED 1 of Python's" in capsys.readouterr().err


def test_a_crate_that_nobody_looks_after_is_told() -> None:
    advisory = {"id": "RUSTSEC-2025-0134", "title": "rustls-pemfile is unmaintained"}
    package = {"name": "rustls-pemfile", "version": "2.2.0"}
    report = {
        "lockfile": {"dependency-count": 70},
        "vulnerabilities": {"list": []},
        "warnings": {
            "unmaintained": [{"kind": "unmaintained", "package": package, "advisory": advisory}],
            "yanked": [{"kind": "yanked", "package": {"name": "x", "version": "1.0"}, "advisory": None}],
        },
    }
    assert audit.judge_rust(report) == [
        "rustls-pemfile 2.2.0: RUSTSEC-2025-0134, rustls-pemfile is unmaintained",
        "x 1.0: yanked, see cargo audit",
    ]


def test_without_a_network_it_says_so_and_does_not_fail(tmp_path: Path) -> None:
    """For real: the index and the proxy are a port of loopback where nobody listens."""
    nobody = "http://127.0.0.1:9/"
    environ = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "UV_CACHE_DIR": str(tmp_path),
        "UV_DEFAULT_INDEX": nobody,
    }
    environ |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), nobody) | {"UV_HTTP_TIMEOUT": "5"}
    done = subprocess.run(
        [sys.executable, "-m", "tools.audit"], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    assert "audit: SKIPPED Python's dependencies: " in done.stderr
    assert "audit: SKIPPED Rust's dependencies: cargo-audit is not installed" in done.stderr
