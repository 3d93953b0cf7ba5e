"""The launcher file, built in processes: the same bytes everywhere, also by several at once; and all of its sources without docstrings."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import umiak
from umiak.submit.payload import launcher_file, launcher_modules

SOURCE = Path(umiak.__file__).parent
PRINT_FOUND = "from umiak.submit.payload import launcher_file as f; found = f.find(); print(found.path, found.sha256)"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "umiak" / "launchers"


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    built = launcher_file.build()
    code = "import sys; from umiak.submit.payload import launcher_file as f; sys.stdout.buffer.write(f.build())"
    for seed in ("1", "2"):
        environ = {**os.environ, "PYTHONHASHSEED": seed, "TZ": f"UTC{seed}"}
        again = subprocess.run([sys.executable, "-c", code], env=environ, cwd=tmp_path, capture_output=True, check=True)
        assert again.stdout == built


def test_several_builders_at_once(cache: Path) -> None:
    builders = [
        subprocess.Popen([sys.executable, "-c", PRINT_FOUND], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    said = {builder.communicate()[0] for builder in builders}
    assert [builder.returncode for builder in builders] == [0] * 4
    assert len(said) == 1
    assert len(list(cache.iterdir())) == 1


class WithoutDocstrings(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            node.value.value = ""
            # Where a string of many lines ends is the one thing that changes.
            node.value.end_lineno = node.end_lineno = node.lineno
            node.value.end_col_offset = node.end_col_offset = node.col_offset + 2
        return node


def test_code_and_its_lines_stay() -> None:
    for name in launcher_file.modules():
        path = SOURCE.parent.joinpath(*name.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        text = path.read_text(encoding="utf-8")
        expected, found = (
            ast.dump(WithoutDocstrings().visit(ast.parse(each)), include_attributes=True)
            for each in (text, launcher_modules.stripped(text))
        )
        assert _lines(found) == _lines(expected), path


def _lines(dump: str) -> str:
    """Without the ends of classes and functions, which a docstring of many lines may move."""
    return re.sub(r", end_lineno=\d+, end_col_offset=\d+", "", dump)
