"""Laws of the house that can be read off the source: modules say their kind and keep to it, names are said once, and more.

An exception stands in an allow list of its law with its reason, and has to go when the reason has.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import grimp
import pytest

from docs import modules_page
from tests.support import chance
from tests.support.paths import ROOT
from tests.support.sources import SOURCE, definitions, python_files, text_of, tree


def name_of(path: Path) -> str:
    """The dotted name of a module, as the allow lists write it."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources() -> dict[str, Path]:
    return {name_of(path): path for path in python_files()}


# ---- kinds of modules

PURE = ("values", "decider")
NOT_PURE_YET = {
    "umiak.train.run.context": "holds the job, the reporter and mirrors of a run: a value by its form alone"
}
"""Modules that call themselves pure and import what they may not."""


def test_every_module_says_its_kind() -> None:
    """Those that don't end `modules` with an error that names them."""
    modules = {module.name: module.kind for module in modules_page.modules()}
    assert set(modules) == set(sources())
    assert set(modules.values()) == set(modules_page.KINDS)


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
    found, rest = modules_page.kind_and_text(first)
    assert found == kind
    assert rest.rstrip("?") == text.rstrip("?")


FORBIDDEN = {
    "umiak.adapters",
    "asyncio",
    "http",
    "multiprocessing",
    "secrets",
    "select",
    "selectors",
    "shutil",
    "socket",
}
FORBIDDEN |= {"subprocess", "tempfile", "threading", "time"}
"""What neither a value nor a decider imports, nor what it imports in turn: sockets, processes, files, clocks."""
NOT_IMPORTED_BY_PURE_MODULES = {
    ("umiak.data.native_core", "umiak.adapters.installation"): "a hint's command, where an import has failed",
    ("umiak", "umiak.adapters.version"): "an attribute of the package, looked up when it is used",
    ("umiak", "umiak.api"): "an attribute of the package, looked up when it is used",
}
"""Imports that happen elsewhere, or later."""


def pure_modules(modules: Iterable[modules_page.Module]) -> set[str]:
    """Values, deciders, and packages in which there is nothing else."""
    kinds = {module.name: module.kind for module in modules}
    pure = {name for name, kind in kinds.items() if kind in PURE}
    for package in sorted((name for name, kind in kinds.items() if kind == "package"), key=len, reverse=True):
        inside = {name for name in kinds if name.startswith(f"{package}.")}
        if inside and inside <= pure:
            pure.add(package)
    return pure


def ways_out(graph: grimp.ImportGraph, modules: Iterable[str], forbidden: set[str]) -> dict[str, str]:
    """The modules that import something forbidden, in the end, each with the shortest way there."""
    found = {}
    for module in sorted(modules):
        for reached in sorted(graph.find_upstream_modules(module)):
            if reached in forbidden or any(reached.startswith(f"{name}.") for name in forbidden):
                found[module] = " -> ".join(graph.find_shortest_chain(importer=module, imported=reached) or ())
                break
    return found


def graph_of_imports() -> grimp.ImportGraph:
    """With modules of the standard library and of others, by the names of their packages."""
    cache_dir = str(ROOT / ".import_linter_cache")
    return grimp.build_graph("umiak", include_external_packages=True, cache_dir=cache_dir)


def test_values_and_deciders_know_nothing_of_sockets_processes_files_or_clocks() -> None:
    graph = graph_of_imports()
    for importer, below in NOT_IMPORTED_BY_PURE_MODULES:
        direct = graph.find_modules_directly_imported_by(importer)
        later = [name for name in direct if name == below or name.startswith(f"{below}.")]
        assert later, f"not needed any more: {importer} -> {below}"
        for imported in later:
            graph.remove_import(importer=importer, imported=imported)
    found = ways_out(graph, pure_modules(modules_page.modules()), FORBIDDEN)
    assert sorted(name for name in NOT_PURE_YET if name not in found) == []
    assert [way for name, way in found.items() if name not in NOT_PURE_YET] == []


def test_the_check_of_pure_modules_checks() -> None:
    said = {"a": "package", "a.b": "values", "a.c": "decider", "d": "package", "d.e": "adapter", "d.f": "decider"}
    modules = [modules_page.Module(name, kind, "") for name, kind in said.items()]
    assert pure_modules(modules) == {"a", "a.b", "a.c", "d.f"}
    graph = grimp.ImportGraph()
    for importer, imported in (("a.b", "a.c"), ("a.c", "d.e"), ("d.e", "socket"), ("d.f", "timeless")):
        graph.add_import(importer=importer, imported=imported)
    assert ways_out(graph, ("a.b", "d.f"), {"socket", "time"}) == {"a.b": "a.b -> a.c -> d.e -> socket"}


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
WITH_VARIABLES = ("umiak.platforms.", "umiak.contracts.", "umiak.launch.command_line.")
"""The packages in which the names of variables are written down; everybody else takes them from there."""
NAMES_ELSEWHERE = {
    "umiak": "umiak.progress is imported by every training script, and imports nothing itself",
    "umiak.launch.inject.sitecustomize": "runs in workers before anything else, and imports nothing of umiak",
    "umiak.adapters.identity": "imported on all hosts of a job at once, before it starts; `contracts` would take milliseconds there",
    "umiak.adapters.trusted_files": "of the person, not of a job; asked by kube, which stands below the packages with variables",
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
    found = {name for name, path in sources().items() if VARIABLE.search(text_of(path)) and variables_in(tree(path))}
    elsewhere = {name for name in found if not f"{name}.".startswith(WITH_VARIABLES)}
    assert sorted(elsewhere) == sorted(NAMES_ELSEWHERE)


def test_the_check_of_variables_checks() -> None:
    assert variables_in(ast.parse('x = environ["UMIAK_RANK"]\nsay("set UMIAK_TOKEN")')) == {"UMIAK_RANK"}


# ---- sizes

MOST_MODULES, MOST_CLASS_LINES, MOST_FUNCTION_LINES, MOST_MODULE_LINES = 16, 300, 60, 600


def test_folders_are_of_a_size_to_be_looked_through() -> None:
    folders = [path.parent for path in sources().values() if path.name != "__init__.py"]
    large = {folder.relative_to(SOURCE).as_posix() for folder in folders if folders.count(folder) > MOST_MODULES}
    assert sorted(large) == []


def larger(most: int, *kinds: type[ast.AST]) -> list[str]:
    return sorted(
        f"{name}.{each.name}"
        for name, path in sources().items()
        for each in definitions(path)
        if each.kind in kinds and each.lines > most
    )


def test_classes_are_of_a_size_to_be_read() -> None:
    assert larger(MOST_CLASS_LINES, ast.ClassDef) == []


def test_functions_are_of_a_size_to_be_read() -> None:
    assert larger(MOST_FUNCTION_LINES, ast.FunctionDef, ast.AsyncFunctionDef) == []


def test_the_check_of_sizes_checks() -> None:
    assert "umiak.core.value.value" in larger(1, ast.FunctionDef)
    assert "umiak.core.problem.Problem" in larger(1, ast.ClassDef)


def test_modules_are_of_a_size_to_be_read() -> None:
    """Those of tests and tools as well: they are split by subject."""
    folders = ("src", "tests", "testbed", "docs", "tools", "benchmarks")
    modules = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    sizes = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in modules}
    assert sorted(name for name, size in sizes.items() if size > MOST_MODULE_LINES) == []


def test_programs_of_benchmarks_hide_no_module_of_the_standard_library() -> None:
    """They are run by their path, which puts their directory in front of everything that they import."""
    names = {path.stem for path in (ROOT / "benchmarks" / "programs").glob("*.py")}
    assert sorted(names & sys.stdlib_module_names) == []


# ---- printing

PRINTING = {
    "umiak.fluid.running.measuring": "a part of people's own scripts: prints the table of a profile that they ask for, as 1.8 does",
    "umiak.fleet.job": "a part of people's own scripts: says on stderr what of fleet's calls is otherwise than in Paddle",
    "umiak.ps.checkpoint": "a part of people's own scripts: says on stderr which settings of a table are not as they were saved",
    "umiak.ps.servers.serving": "a server's own process: what it says is its log",
}
"""Modules that call `print`. What a person reads goes through a console: `cli.output`, `launch.reports.output`, `launch.reports.logs`,
`train.reports.reporter`."""


def test_only_consoles_print() -> None:
    found = {
        name
        for name, path in sources().items()
        if "print(" in text_of(path)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    }
    assert sorted(found) == sorted(PRINTING)


# ---- one word, one meaning

SAME_NAME = {
    "Embedding": "the same layer for each framework",
    "Exit": "core: exit statuses; launch.events: the action, a word of the journal",
    "Model": "every model of the zoo is called so: the trainer looks for this name in its file",
    "Optimizer": "the same optimizer for each framework",
    "Probe": "launch.events: an action, a word of the journal; a message of a check",
}
"""Public classes of several modules with one name."""


def public_classes(path: Path) -> list[str]:
    return [node.name for node in tree(path).body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def test_no_two_public_classes_have_one_name() -> None:
    """Lines that look like the beginning of a class say which modules to parse: all of them would take seconds."""
    looks = {path: re.findall(r"^class ([A-Za-z]\w*)", text_of(path), re.MULTILINE) for path in sources().values()}
    count = Counter(name for names in looks.values() for name in names)
    parsed = [path for path, names in looks.items() if any(count[name] > 1 for name in names)]
    names = Counter(name for path in parsed for name in public_classes(path))
    assert sorted(name for name, times in names.items() if times > 1) == sorted(SAME_NAME)


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
    nodes = list(ast.walk(module))
    imported = {
        alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names if not alias.asname
    }
    found = []
    for node in nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner, name = owner_of(node.func), node.func.attr
        seeds = ("Random",) if owner == "random" else ("default_rng",)
        if (owner == "random" and "random" in imported) or owner in ("np.random", "numpy.random"):
            words = " ".join(ast.unparse(each) for each in node.args)
            if name == "SystemRandom":  # draws a seed
                continue
            if name not in seeds or not words or "environ" in words or words == "None":
                found.append(node.lineno)
    return found


def owner_of(attribute: ast.Attribute) -> str:
    """``np.random`` of ``np.random.rand``; of anything longer or computed, nothing."""
    owner = attribute.value
    if isinstance(owner, ast.Attribute) and isinstance(owner.value, ast.Name):
        return f"{owner.value.id}.{owner.attr}"
    return owner.id if isinstance(owner, ast.Name) else ""


def test_random_tests_have_a_seed() -> None:
    """`tests.support.chance` takes one and prints it; hypothesis prints its own."""
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in TESTS
        if re.search(r"\brandom\.", text_of(path))
        for line in unseeded(tree(path))
        if path != ROOT / "tests" / "support" / "__init__.py"
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
