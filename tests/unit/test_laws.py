"""Laws of the house that can be read off the source: the map leads somewhere, modules say their kind and keep to it.

An exception stands in an allow list of its law with its reason, and has to go when the reason has.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import types
from functools import cache
from pathlib import Path

import grimp
import pytest
from importlinter.api import read_configuration

from tests.support import chance

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "umiak"


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    """The dotted name of a module, as the allow lists write it."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources() -> dict[str, Path]:
    return {name_of(path): path for path in sorted(SOURCE.rglob("*.py"))}


@cache
def generator() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- the map

PLACE = re.compile(r"`([\w./]+\.(?:py|pyi|rs)):(\w+)`")
RUST = r"\b(?:fn|struct|enum|trait|const|static|type|mod|macro_rules!)\s+{}\b"


def rows_of_the_map() -> list[str]:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = page.split("| a line that ... | belongs in |")[1].split("\n\n", maxsplit=1)[0]
    return [row for row in table.splitlines()[2:] if not row.startswith("| **")]


def exists(path: Path, symbol: str) -> bool:
    """Whether a file has a symbol: at the top of a Python module, anywhere in a Rust file."""
    if not path.is_file():
        return False
    if path.suffix == ".rs":
        return re.search(RUST.format(symbol), path.read_text(encoding="utf-8")) is not None
    for node in tree(path).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == symbol:
            return True
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if is_typed(node) else []
        if any(isinstance(target, ast.Name) and target.id == symbol for target in targets):
            return True
    return False


def is_typed(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign)


@pytest.mark.parametrize("row", rows_of_the_map(), ids=lambda row: row.split(" | ")[0].strip("| "))
def test_the_map_leads_somewhere(row: str) -> None:
    places = PLACE.findall(row)
    assert places, f"names no path:symbol: {row}"
    assert [f"{path}:{symbol}" for path, symbol in places if not exists(ROOT / path, symbol)] == []


def test_the_map_is_large_enough() -> None:
    rows = rows_of_the_map()
    assert len(rows) >= 40
    assert len([row for row in rows if "native/src" in row]) >= 8


def test_the_map_has_a_row_in_each_layer() -> None:
    contract = read_configuration(str(ROOT / "pyproject.toml"))["contracts_options"][0]
    layers = {name.strip().removeprefix("umiak.") for row in contract["layers"] for name in row.split("|")}
    named = {
        path.split("/")[2] for row in rows_of_the_map() for path, _ in PLACE.findall(row) if path.startswith("src")
    }
    assert layers - named == set()


def test_the_check_of_the_map_checks() -> None:
    assert exists(SOURCE / "launch" / "plan.py", "plan")
    assert not exists(SOURCE / "launch" / "plan.py", "plans")
    assert not exists(SOURCE / "launch" / "nowhere.py", "plan")
    assert exists(ROOT / "native" / "src" / "wire" / "frame.rs", "Op")
    assert not exists(ROOT / "native" / "src" / "wire" / "frame.rs", "Opera")


# ---- kinds of modules

PURE = ("values", "decider")
NOT_PURE_YET = {
    "umiak.train.run.context": "holds the job, the reporter and mirrors of a run: a value by its form alone"
}
"""Modules that call themselves pure and are not in the contract of import-linter."""


def test_every_module_says_its_kind() -> None:
    """Those that don't end `modules` with an error that names them."""
    generate = generator()
    modules = {module.name: module.kind for module in generate.modules()}
    assert set(modules) == set(sources())
    assert set(modules.values()) == set(generate.KINDS)


@pytest.mark.parametrize(
    ("first", "kind", "text"),
    [
        ("Reads flags. A decider.", "decider", "Reads flags"),
        ("Reads files: it only reads. An adapter; nothing else.", "adapter", "Reads files: it only reads"),
        ("How it ends: a small pure decider inside `x`.", "decider", "How it ends"),
        ("What is it? Values, and more.", "values", "What is it?"),
        ("Values of a table, and a program.", None, "Values of a table, and a program"),
    ],
)
def test_a_kind_is_a_sentence(first: str, kind: str | None, text: str) -> None:
    found, rest = generator()._kind_and_text(first)
    assert found == kind
    assert rest.rstrip("?") == text.rstrip("?")


def contract(start: str) -> dict[str, list[str]]:
    found = read_configuration(str(ROOT / "pyproject.toml"))["contracts_options"]
    return next(each for each in found if each["name"].startswith(start))


def test_every_pure_module_is_held_to_it() -> None:
    """The list in pyproject.toml is what the docstrings say, so that no new module is forgotten in it."""
    listed = contract("Deciders do no I/O")["source_modules"]
    kinds = {module.name: module.kind for module in generator().modules()}
    covered = {name for name in kinds if any(name == each or name.startswith(f"{each}.") for each in listed)}
    pure = {name for name, kind in kinds.items() if kind in PURE}
    assert sorted(pure - covered - set(NOT_PURE_YET)) == []
    assert sorted(name for name in covered - pure if kinds[name] != "package") == []
    assert sorted(set(NOT_PURE_YET) & covered) == []
    assert sorted(set(NOT_PURE_YET) - pure) == []
    assert sorted(set(listed) - set(kinds)) == []


# ---- circles of imports


def circles(graph: grimp.ImportGraph) -> list[str]:
    """Sets of modules each of which imports, in the end, itself. Also by way of a package's own __init__."""
    below = {module: _below(graph, module) for module in graph.modules}
    inside = [module for module in below if module in below[module]]
    found = {frozenset(each for each in inside if each in below[module] and module in below[each]) for module in inside}
    return sorted(" ".join(sorted(each)) for each in found)


def _below(graph: grimp.ImportGraph, module: str) -> set[str]:
    """What a module imports, and what that imports, and so on."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        new = graph.find_modules_directly_imported_by(waiting.pop()) - found
        found |= new
        waiting += new
    return found


def test_no_circles_of_imports() -> None:
    graph = grimp.build_graph("umiak", cache_dir=str(ROOT / ".import_linter_cache"))
    assert circles(graph) == []


def test_the_check_of_circles_checks() -> None:
    graph = grimp.ImportGraph()
    for importer, imported in (("a", "a.b"), ("a.b", "c"), ("c", "a"), ("d", "a")):
        graph.add_import(importer=importer, imported=imported)
    assert circles(graph) == ["a a.b c"]


# ---- names of variables

VARIABLE = re.compile(r"(?:UMIAK|PADDLE)_[A-Z][A-Z0-9_]*|TRAINING_ROLE")
WITH_VARIABLES = ("platforms", "contracts", "compat")
"""The packages in which the names of variables are written down; everybody else takes them from there."""
NAMES_ELSEWHERE = {
    "umiak": "umiak.progress is imported by every training script, and imports nothing itself",
    "umiak.launch.inject.sitecustomize": "runs in workers before anything else, and imports nothing of umiak",
    "umiak.adapters.identity": "imported on all hosts of a job at once, before it starts; `contracts` would take milliseconds there",
    "umiak.adapters.trusted_files": "of the person, not of a job; asked by kube, which stands below the packages with variables",
    "umiak.cli.launch_flags": "a table of flags: each row has its variable",
    "umiak.cli.ps_flags": "a table of flags",
    "umiak.cli.train_flags": "a table of flags",
    "umiak.submit.configuration": "of the person, not of a job: places that are in no file",
    "umiak.testing.clouds": "simulated platforms write what platforms read",
    "umiak.testing.pods": "simulated platforms",
    "umiak.testing.processes": "simulated platforms",
}


def variables_in(module: ast.Module) -> set[str]:
    """Names of variables that are whole strings; in a sentence for people they may stand anywhere."""
    texts = [node.value for node in ast.walk(module) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return {text for text in texts if VARIABLE.fullmatch(text)}


def test_names_of_variables_have_one_place() -> None:
    found = {name for name, path in sources().items() if variables_in(tree(path))}
    elsewhere = {name for name in found if name.split(".")[1:2] != [] and name.split(".")[1] not in WITH_VARIABLES}
    elsewhere |= found & {"umiak"}
    assert sorted(elsewhere) == sorted(NAMES_ELSEWHERE)


def test_the_check_of_variables_checks() -> None:
    assert variables_in(ast.parse('x = environ["UMIAK_RANK"]\nsay("set UMIAK_TOKEN")')) == {"UMIAK_RANK"}


# ---- sizes

MOST_MODULES, MOST_CLASS_LINES, MOST_MODULE_LINES = 16, 300, 600
LARGE_FOLDERS = {
    "platforms": "18: one module per family of platforms, found by its name in a table",
}
LARGE_CLASSES = {
    "umiak.launch.agent.Agent": "performs every action of two deciders",
    "umiak.launch.node.machine.NodeMachine": "a state machine: one method per event, over one state",
    "umiak.launch.program._Launch": "the composition root of a launch",
    "umiak.launch.master.rendezvous.Coordinator": "a state machine: one method per event, over one state",
    "umiak.testing.simulation.World": "a whole cluster in memory",
    "umiak.train.run.stage_loop.StageLoop": "steps of a stage in every mode, over one state",
}

LARGE_MODULES = {
    "src/umiak/launch/master/rendezvous.py": "one state machine",
    "src/umiak/launch/node/machine.py": "one state machine",
    "src/umiak/testing/simulation.py": "one cluster in memory",
}


def test_folders_are_of_a_size_to_be_looked_through() -> None:
    folders = [path.parent for path in sources().values() if path.name != "__init__.py"]
    large = {folder.relative_to(SOURCE).as_posix() for folder in folders if folders.count(folder) > MOST_MODULES}
    assert sorted(large) == sorted(LARGE_FOLDERS)


def test_classes_are_of_a_size_to_be_read() -> None:
    classes = [
        (f"{name}.{node.name}", (node.end_lineno or 0) - node.lineno + 1)
        for name, path in sources().items()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
    ]
    large = [name for name, lines in classes if lines > MOST_CLASS_LINES]
    assert sorted(large) == sorted(LARGE_CLASSES)


def test_modules_are_of_a_size_to_be_read() -> None:
    """Those of tests and tools as well: they are split by subject."""
    folders = ("src", "tests", "testbed", "docs", "tools", "benchmarks")
    modules = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    sizes = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in modules}
    assert sorted(name for name, size in sizes.items() if size > MOST_MODULE_LINES) == sorted(LARGE_MODULES)


def test_programs_of_benchmarks_hide_no_module_of_the_standard_library() -> None:
    """They are run by their path, which puts their directory in front of everything that they import."""
    names = {path.stem for path in (ROOT / "benchmarks" / "programs").glob("*.py")}
    assert sorted(names & sys.stdlib_module_names) == []


# ---- printing

PRINTING = {
    "umiak.fleet.job": "a part of people's own scripts: says on stderr what of fleet's calls is otherwise than in Paddle",
    "umiak.ps.checkpoint": "a part of people's own scripts: says on stderr which settings of a table are not as they were saved",
    "umiak.ps.servers.serving": "a server's own process: what it says is its log",
}
"""Modules that call `print`. What a person reads goes through a console: `cli.output`, `launch.reports.talk`, `launch.reports.logs`,
`train.reports.reporter`."""


def test_only_consoles_print() -> None:
    found = {
        name
        for name, path in sources().items()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    }
    assert sorted(found) == sorted(PRINTING)


# ---- one word, one meaning

SAME_NAME = {
    "DenseTable": "ps.oracle is what ps.specs describes, in numpy",
    "Embedding": "the same layer for each framework",
    "Exit": "core: exit statuses; launch.events: the action, a word of the journal",
    "Model": "every model of the zoo is called so: the trainer looks for this name in its file",
    "Optimizer": "the same optimizer for each framework",
    "Probe": "launch.events: an action, a word of the journal; a message of a check",
    "SparseTable": "ps.oracle is what ps.specs describes, in numpy",
}
"""Public classes of several modules with one name."""


def test_no_two_public_classes_have_one_name() -> None:
    names = [
        node.name
        for path in sources().values()
        for node in tree(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert sorted({name for name in names if names.count(name) > 1}) == sorted(SAME_NAME)


# ---- panics in the native core

NO_PANICS = ("expect_used", "panic", "unwrap_used")
"""Lints of clippy. A server does not die of a request; tests may panic."""
MAY_PANIC = {
    "native/src/server/locks.rs": "a lock taken out of order, in debug builds and tests only",
    "native/src/table/index.rs": "memory that the line before has made",
    "native/src/table/slab.rs": "no memory for more rows",
}
"""Clippy itself fails when one of them is not needed any more: they are `#[expect(...)]`, and not `#[allow(...)]`."""
LINT_ATTRIBUTE = re.compile(r"#!?\[(?:cfg_attr\([^]]*?)?(allow|warn|expect)\(([^]]*)\)\]")


def relaxed(source: str) -> list[tuple[str, bool]]:
    """How a Rust file relaxes these lints, each time with whether it gives a reason."""
    found = LINT_ATTRIBUTE.findall(source)
    return [(how, "reason =" in what) for how, what in found if any(f"clippy::{lint}" in what for lint in NO_PANICS)]


def test_the_native_core_does_not_panic() -> None:
    lints = (ROOT / "native" / "Cargo.toml").read_text(encoding="utf-8").split("[lints.clippy]")[1]
    assert [lint for lint in NO_PANICS if f'\n{lint} = "deny"\n' not in lints] == []
    found = {
        path.relative_to(ROOT).as_posix(): relaxed(path.read_text(encoding="utf-8"))
        for path in (ROOT / "native" / "src").rglob("*.rs")
    }
    assert sorted(name for name, places in found.items() if places) == sorted(MAY_PANIC)
    assert {place for places in found.values() for place in places} == {("expect", True)}


def test_the_check_of_panics_checks() -> None:
    text = """
        #![allow(clippy::unwrap_used)]
        #[expect(clippy::panic, reason = "a defect")]
        #[allow(clippy::too_many_arguments)]
        #[allow(
            clippy::mut_from_ref,
            clippy::expect_used
        )]
    """
    assert relaxed(text) == [("allow", False), ("expect", True), ("allow", False)]


# ---- chance

TESTS = sorted((ROOT / "tests").rglob("*.py"))


def unseeded(module: ast.Module) -> list[int]:
    """Lines that draw without a seed: from the module `random`, from numpy's own state, or from a generator without one."""
    imported = {
        alias.name
        for node in ast.walk(module)
        if isinstance(node, ast.Import)
        for alias in node.names
        if not alias.asname
    }
    found = []
    for node in ast.walk(module):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner, name = ast.unparse(node.func.value), node.func.attr
        seeds = ("Random",) if owner == "random" else ("default_rng",)
        if (owner == "random" and "random" in imported) or owner in ("np.random", "numpy.random"):
            words = " ".join(ast.unparse(each) for each in node.args)
            if name == "SystemRandom":  # draws a seed
                continue
            if name not in seeds or not words or "environ" in words or words == "None":
                found.append(node.lineno)
    return found


def test_random_tests_have_a_seed() -> None:
    """`tests.support.chance` takes one and prints it; hypothesis prints its own."""
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in TESTS
        for line in unseeded(tree(path))
        if path != ROOT / "tests" / "support.py"
    }
    assert sorted(found) == []


def test_the_check_of_seeds_checks() -> None:
    text = "import random\nrandom.choice(x)\nrandom.Random()\nrandom.Random(5)\nnp.random.rand(3)\nnp.random.default_rng(1)"
    assert unseeded(ast.parse(text)) == [2, 3, 5]


def test_chance_says_its_seed_and_takes_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("UMIAK_TEST_SEED", raising=False)
    first = [chance().random() for _ in range(2)]
    seed = re.findall(r"UMIAK_TEST_SEED=(\d+)", capsys.readouterr().out)
    assert len(set(seed)) == 2
    monkeypatch.setenv("UMIAK_TEST_SEED", seed[1])
    assert chance().random() == first[1]
