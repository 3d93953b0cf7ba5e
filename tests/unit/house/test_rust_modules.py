"""The native core's modules: those beside one another use each other in one direction only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT

SOURCES = ROOT / "native" / "src"

Module = tuple[str, ...]


def module_of(file: Path, root: Path) -> Module:
    parts = file.relative_to(root).with_suffix("").parts
    return parts[:-1] if parts[-1] in ("mod", "lib") else parts


def without_tests(text: str) -> str:
    """The code without comments, and without what is compiled for tests only."""
    text = re.sub(r"//[^\n]*", "", text)
    kept, *tests = re.split(r"#\[cfg\(test\)\]", text)
    for item in tests:
        brace, end = item.find("{"), item.find(";")
        if end >= 0 and (brace < 0 or end < brace):
            kept += item[end + 1 :]
            continue
        depth = 0
        for at in range(brace, len(item)):
            depth += {"{": 1, "}": -1}.get(item[at], 0)
            if depth == 0:
                kept += item[at + 1 :]
                break
    return kept


def spelled_out(path: str) -> list[str]:
    """`a::{b, c::{d}}` is `a::b` and `a::c::d`."""
    grouped = re.fullmatch(r"(.*?)\{(.*)\}", path.strip(), re.DOTALL)
    if not grouped:
        return [path.strip()]
    parts, depth = [""], 0
    for character in grouped[2]:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [full for part in parts if part.strip() for full in spelled_out(grouped[1].strip() + part.strip())]


def paths_in(text: str) -> list[str]:
    uses = [path for use in re.findall(r"\buse\s+([^;]+);", text) for path in spelled_out(use)]
    return uses + re.findall(r"\b(?:crate|super)(?:::\w+)+", re.sub(r"\buse\s+[^;]+;", "", text))


def uses_between_siblings(root: Path) -> dict[Module, set[Module]]:
    for_tests = re.compile(r"(_test|\btests)\.rs$|\btests/")
    files = [file for file in root.rglob("*.rs") if not for_tests.search(file.relative_to(root).as_posix())]
    texts = {module_of(file, root): without_tests(file.read_text()) for file in files}
    uses: dict[Module, set[Module]] = {module: set() for module in texts}
    for module, text in texts.items():
        for path in paths_in(text):
            words = [word.strip() for word in path.split(" as ")[0].split("::")]
            base = module
            if words[0] == "crate":
                base, words = (), words[1:]
            elif words[0] in ("super", "self"):
                while words and words[0] in ("super", "self"):
                    base = base[:-1] if words[0] == "super" else base
                    words = words[1:]
            target = (*base, *words)
            while target and target not in texts:
                target = target[:-1]
            same = 0
            while same < min(len(module), len(target)) and module[same] == target[same]:
                same += 1
            # A folder and what is in it are one.
            if same < len(module) and same < len(target):
                uses.setdefault(module[: same + 1], set()).add(target[: same + 1])
    return uses


def circles(uses: dict[Module, set[Module]]) -> list[list[str]]:
    """Modules that reach each other, a list for each knot of them."""

    def reached(start: Module) -> set[Module]:
        found: set[Module] = set()
        waiting = [start]
        while waiting:
            for target in uses.get(waiting.pop(), set()) - found:
                found.add(target)
                waiting.append(target)
        return found

    reach = {module: reached(module) for module in uses}
    knots = {frozenset(other for other in reach[module] if module in reach[other]) for module in uses}
    return sorted(sorted("::".join(module) for module in knot) for knot in knots if knot)


def test_no_circle_of_uses() -> None:
    assert circles(uses_between_siblings(SOURCES)) == []


def test_every_module_is_looked_at() -> None:
    uses = uses_between_siblings(SOURCES)
    assert ("server",) in uses[("python",)]
    assert ("wire",) in uses[("server",)]
    assert ("server", "locks") in uses[("server", "engine")]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a.rs": "use crate::b::X;", "b.rs": "use super::a::Y;"}, [["a", "b"]]),
        ({"a.rs": "fn f() { crate::b::x() }", "b.rs": "use crate::{c, a as other};", "c.rs": ""}, [["a", "b"]]),
        ({"a.rs": "use crate::b::X;", "b.rs": "#[cfg(test)]\nmod tests {\n    use crate::a::Y;\n}\n"}, []),
        ({"a.rs": "use crate::b::X; // crate::a", "b.rs": "// use crate::a::Y;"}, []),
        ({"a/mod.rs": "mod b; use b::X;", "a/b.rs": "use super::Y; use crate::c::{self, d::Z};", "c/mod.rs": ""}, []),
        ({"a/b.rs": "use super::c::{X, y::{Z}};", "a/c.rs": "use super::b;"}, [["a::b", "a::c"]]),
    ],
)
def test_circles_are_found(files: dict[str, str], expected: list[list[str]], tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert circles(uses_between_siblings(tmp_path)) == expected
