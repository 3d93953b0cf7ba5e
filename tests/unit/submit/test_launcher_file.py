"""The launcher as one file: what is in it, the same bytes from the same sources, and where it is kept."""

from __future__ import annotations

import ast
import functools
import io
import os
import sys
import zipfile
from pathlib import Path

import pytest

import umiak
from umiak.core.problem import UmiakError
from umiak.submit.payload import launcher_file, launcher_modules

SOURCE = Path(umiak.__file__).parent


@pytest.fixture(scope="module")
def built() -> bytes:
    return launcher_file.build()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "umiak" / "launchers"


# ---- which modules


def closure(**texts: str) -> list[str]:
    files = {name.replace("__", "/") + ".py": text for name, text in texts.items()}
    files |= {"umiak/__init__.py": "", "umiak/core/__init__.py": ""}
    return list(launcher_modules.closure(["umiak.start"], files.get))


def test_imports_are_followed_also_those_inside_of_functions() -> None:
    found = closure(
        umiak__start="import os\ndef f():\n    from umiak.core import late\n",
        umiak__core__late="from umiak.core.name import VALUE\n",
        umiak__core__name="VALUE = 1\n",
        umiak__core__other="",
    )
    assert found == ["umiak", "umiak.core", "umiak.core.late", "umiak.core.name", "umiak.start"]


def test_imports_for_types_alone_are_not_followed() -> None:
    text = "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    import umiak.core.a\nelse:\n    import umiak.core.b\n"
    assert closure(umiak__start=text, umiak__core__a="", umiak__core__b="") == [
        "umiak",
        "umiak.core",
        "umiak.core.b",
        "umiak.start",
    ]


def test_a_root_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"umiak\.nowhere"):
        launcher_modules.closure(["umiak.nowhere"], lambda _path: None)


@functools.cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(source.text) for name, source in launcher_file.modules().items()}


def test_nothing_but_the_launcher_is_in_it() -> None:
    names = trees()
    packages = {name.split(".")[1] for name in names if "." in name}
    assert packages == {
        "__main__", "adapters", "cli", "contracts", "core", "launch", "platforms", "schema", "submit",
    }  # fmt: skip
    assert "umiak.schema.yaml_tree" not in names
    outside = {name.partition(".")[0] for tree in names.values() for name in launcher_modules._imported(tree.body)}
    # fsspec: for data behind URLs that the launcher can't read itself, and imported only then.
    # ray: by the driver of a run on a Ray cluster.
    assert outside - sys.stdlib_module_names == {"umiak", "fsspec", "ray"}


BY_NAME = {
    "umiak": "attributes of the package that the launcher does not use",
    "umiak.cli.main": "commands: the launcher's start says which of them are there",
    "umiak.cli.texts.help_text": "pages of commands: the launcher imports its own by its name",
    "umiak.platforms": "rules: roots of their own",
    "umiak.submit.node.agent": "families of questions: roots of their own",
}


def test_the_help_of_the_launcher_is_in_it() -> None:
    assert "umiak.cli.texts.help_launch" in trees()


def test_every_import_by_a_name_made_at_run_time_is_known() -> None:
    found = {
        name
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (getattr(node.func, "id", "") or getattr(node.func, "attr", "")) in ("import_module", "__import__")
    }
    assert found == set(BY_NAME)


# ---- sources without docstrings


def test_comments_and_docstrings_go() -> None:
    text = '"""Doc\nof two lines."""\nX = "kept"  # why\ndef f():\n    """One."""\n    # no\n    return """a\n# b"""\n'
    assert launcher_modules.stripped(text) == ('""\n\nX = "kept"\ndef f():\n    ""\n\n    return """a\n# b"""\n')


# ---- the file


def test_it_says_nothing_of_the_machine_that_built_it(built: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(built)) as archive:
        for entry in archive.infolist():
            assert entry.date_time == launcher_file.LONG_AGO
    assert str(SOURCE).encode() not in built


def test_it_is_small(built: bytes) -> None:
    assert len(built) < 750_000  # a ConfigMap of Kubernetes takes 1 MiB


def test_it_is_built_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = launcher_file.find()
    assert Path(first.path).stat().st_size == first.size_bytes
    monkeypatch.setattr(launcher_file, "build", lambda: pytest.fail("built again"))
    assert launcher_file.find() == first
    assert [path.suffix for path in cache.iterdir()] == [".pyz"]


def test_old_builds_are_removed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher_file, "build", lambda: b"zip")
    for number in range(launcher_file.KEPT_BUILDS + 3):
        monkeypatch.setattr(launcher_file, "FORMAT", f"test {number}")
        last = launcher_file.find()
        os.utime(last.path, (number, number))
    assert len(list(cache.iterdir())) == launcher_file.KEPT_BUILDS
    assert Path(last.path).exists()


def test_a_cache_that_others_can_write_to_is_refused(cache: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    with pytest.raises(UmiakError) as refused:
        launcher_file.find()
    assert refused.value.problems[0].code == "UM-SUBMIT-051"


def test_a_cache_that_can_not_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(UmiakError) as refused:
        launcher_file.find()
    assert refused.value.problems[0].code == "UM-SUBMIT-051"
