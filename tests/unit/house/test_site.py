"""`make site`: every page is in it once, in the order of the index, and mkdocs finds nothing to complain about."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT
from tools import site

PYTHON = ROOT / ".venv-site" / "bin" / "python"


def paths(nav: Any) -> list[str]:
    """Every page of a navigation, in its order."""
    found = []
    for entry in nav:
        for inner in entry.values():
            found += [inner] if isinstance(inner, str) else paths(inner)
    return found


def test_every_page_is_gathered_and_has_its_place(tmp_path: Path) -> None:
    shown = paths(site.gather(tmp_path))
    assert len(shown) == len({*shown}) > 60
    assert {*shown} == {page.relative_to(tmp_path).as_posix() for page in tmp_path.rglob("*.md")}
    written = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    assert {page.relative_to(ROOT).as_posix() for page in written} <= {*shown}
    assert "| `umiak.launch.plan` | decider |" in (tmp_path / site.MODULES).read_text(encoding="utf-8")
    assert (tmp_path / "docs" / "architecture.svg").read_bytes() == (ROOT / "docs" / "architecture.svg").read_bytes()


def test_the_faces_of_the_api_exist() -> None:
    for name in site.API:
        path = ROOT / "src" / name.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def python() -> str:
    """One that has mkdocs."""
    if PYTHON.exists():
        return str(PYTHON)
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed: make site")
    return sys.executable


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python(), *words], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def test_the_site_is_made_without_a_warning_and_a_broken_link_is_one(tmp_path: Path) -> None:
    done = run("-m", "tools.site", "--into", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    made = tmp_path / "site"
    _check_api(made)
    _check_search(made)
    _check_nothing_is_loaded_from_elsewhere(made)

    page = tmp_path / "pages" / "SECURITY.md"
    page.write_text(page.read_text() + "\n[a](docs/nowhere.md) [b](README.md#nowhere)\n")
    done = run(
        "-c", f"import sys, pathlib; from tools import site; sys.exit(site.build(pathlib.Path({str(tmp_path)!r})))"
    )
    assert done.returncode != 0
    assert "docs/nowhere.md" in done.stderr
    assert "#nowhere" in done.stderr


def _check_api(made: Path) -> None:
    """Names of the public faces are there, with their anchors."""
    page = (made / "docs" / "api" / "umiak.ps.html").read_text(encoding="utf-8")
    source = (ROOT / "src" / "umiak" / "ps" / "__init__.py").read_text(encoding="utf-8")
    names = re.findall(r'^    "(\w+)",$', source.split("__all__ = [")[1].split("]")[0], re.MULTILINE)
    assert len(names) > 20
    assert [name for name in names if f'id="umiak.ps.{name}"' not in page] == []
    models = (made / "docs" / "api" / "umiak.models.html").read_text(encoding="utf-8")
    assert 'id="umiak.models.ClickModel"' in models


def _check_search(made: Path) -> None:
    index = json.loads((made / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {each["location"].partition("#")[0] for each in index["docs"]}
    assert {"docs/reference/launch.html", "README.zh.html", "docs/api/umiak.ps.html"} <= found
    assert any("--nproc_per_node" in each["text"] for each in index["docs"])


def _check_nothing_is_loaded_from_elsewhere(made: Path) -> None:
    for page in made.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="?(?:https?:)?//[^">]*', text) == [], page
