"""The launcher as one file: what is in it, the same bytes from the same sources, and where it is kept."""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import umiak
from umiak.core.problem import UmiakError
from umiak.submit.payload import launcher_file, launcher_modules

SOURCE = Path(umiak.__file__).parent
PRINT_FOUND = "from umiak.submit.payload import launcher_file as f; found = f.find(); print(found.path, found.sha256)"


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


def test_nothing_but_the_launcher_is_in_it() -> None:
    names = launcher_file.modules()
    packages = {name.split(".")[1] for name in names if "." in name}
    assert packages == {
        "__main__", "adapters", "cli", "compat", "contracts", "core", "launch", "platforms", "schema", "submit",
    }  # fmt: skip
    assert "umiak.schema.yaml_tree" not in names
    outside = {
        name.partition(".")[0]
        for source in names.values()
        for name in launcher_modules._imported(ast.parse(source.text).body)
    }
    # fsspec: for data behind URLs that the launcher can't read itself, and imported only then.
    # ray: by the driver of a run on a Ray cluster.
    assert outside - sys.stdlib_module_names == {"umiak", "fsspec", "ray"}


BY_NAME = {
    "umiak": "attributes of the package that the launcher does not use",
    "umiak.cli.main": "commands: the launcher's start says which of them are there",
    "umiak.platforms": "rules: roots of their own",
    "umiak.submit.node.agent": "families of questions: roots of their own",
}


def test_every_import_by_a_name_made_at_run_time_is_known() -> None:
    found = {
        name
        for name, source in launcher_file.modules().items()
        for node in ast.walk(ast.parse(source.text))
        if isinstance(node, ast.Call)
        and (getattr(node.func, "id", "") or getattr(node.func, "attr", "")) in ("import_module", "__import__")
    }
    assert found == set(BY_NAME)


# ---- sources without docstrings


class WithoutDocstrings(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            node.value.value = ""
            # Where a string of many lines ends is the one thing that changes.
            node.value.end_lineno = node.end_lineno = node.lineno
            node.value.end_col_offset = node.end_col_offset = node.col_offset + 2
        return node


def test_code_and_its_lines_stay() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        expected, found = (
            ast.dump(WithoutDocstrings().visit(ast.parse(each)), include_attributes=True)
            for each in (text, launcher_modules.stripped(text))
        )
        assert _lines(found) == _lines(expected), path


def _lines(dump: str) -> str:
    """Without the ends of classes and functions, which a docstring of many lines may move."""
    return re.sub(r", end_lineno=\d+, end_col_offset=\d+", "", dump)


def test_comments_and_docstrings_go() -> None:
    text = '"""Doc\nof two lines."""\nX = "kept"  # why\ndef f():\n    """One."""\n    # no\n    return """a\n# b"""\n'
    assert launcher_modules.stripped(text) == ('""\n\nX = "kept"\ndef f():\n    ""\n\n    return """a\n# b"""\n')


# ---- the file


def test_the_same_sources_give_the_same_bytes(built: bytes, tmp_path: Path) -> None:
    code = "import sys; from umiak.submit.payload import launcher_file as f; sys.stdout.buffer.write(f.build())"
    for seed in ("1", "2"):
        environ = {**os.environ, "PYTHONHASHSEED": seed, "TZ": f"UTC{seed}"}
        again = subprocess.run([sys.executable, "-c", code], env=environ, cwd=tmp_path, capture_output=True, check=True)
        assert again.stdout == built


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


def test_several_builders_at_once(cache: Path) -> None:
    builders = [
        subprocess.Popen([sys.executable, "-c", PRINT_FOUND], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    said = {builder.communicate()[0] for builder in builders}
    assert [builder.returncode for builder in builders] == [0] * 4
    assert len(said) == 1
    assert len(list(cache.iterdir())) == 1


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
