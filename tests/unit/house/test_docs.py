"""The documents say what the code does: pages are fresh, complete and linked, and their commands work."""

from __future__ import annotations

import ast
import inspect
import os
import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import umiak
from tests.support.paths import ROOT
from tests.support.sources import python_files, tree
from tests.support.sources import text_of as text
from tools import site
from umiak import data, ps
from umiak.cli import main, train
from umiak.cli.texts import completion_scripts
from umiak.core.problem import Exit, UmiakError
from umiak.launch import supervisor
from umiak.launch.command_line import reading
from umiak.launch.command_line.own import FLAGS
from umiak.platforms import RULES
from umiak.schema import command_line
from umiak.schema.flags import FlagOrigin

SOURCE = ROOT / "src" / "umiak"
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
CODE = re.compile(r"UM-[A-Z]+-\d+")
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def wrong_pages(check: Callable[[Path], None]) -> list[str]:
    """Each page that fails a check, and why. Pages are not parameters of a test: so many would cost more than what is checked."""
    found = []
    for page in PAGES:
        try:
            check(page)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - of what a page shows, anything may go wrong
            found.append(f"{page_name(page)}: {type(error).__name__}: {error}")
    return found


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


# ---- completeness


@cache
def codes_in_the_source() -> set[str]:
    """Codes that are whole string constants, and those that the platforms' reader puts together."""
    codes = set()
    for path in (each for each in python_files() if "UM-" in text(each) or ".wrong(" in text(each)):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
                codes.add(node.value)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
                codes.update(re.findall(r"\[(UM-[A-Z]+-\d+)\]", node.value))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "wrong":
                number = node.args[0]
                assert isinstance(number, ast.Constant), f"{path}:{node.lineno}: a code that can't be found"
                codes.add(f"UM-PLATFORM-{number.value}")
            elif isinstance(node, ast.JoinedStr):
                codes.update(CODE.findall("".join(str(part.value) for part in node.values if _is_text(part))))
    return codes


def _is_text(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and isinstance(part.value, str)


def test_every_error_code_has_its_heading_and_no_heading_is_spare() -> None:
    headings = re.findall(r"^### (UM-[A-Z]+-\d+)$", text_of("docs/reference/errors.md"), re.MULTILINE)
    assert [code for code, times in Counter(headings).items() if times > 1] == []
    assert set(headings) == codes_in_the_source()
    assert len(headings) > 50


def test_every_error_says_something() -> None:
    sections = re.split(r"^#+ .*$", text_of("docs/reference/errors.md"), flags=re.MULTILINE)
    names = re.findall(r"^(#+ .*)$", text_of("docs/reference/errors.md"), re.MULTILINE)
    empty = [name for name, body in zip(names, sections[1:], strict=True) if "UM-" in name and len(body.strip()) < 30]
    assert empty == []


def test_codes_named_in_the_documents_exist() -> None:
    known = codes_in_the_source()
    for page in PAGES:
        unknown = set(CODE.findall(page.read_text(encoding="utf-8"))) - known
        assert not unknown, f"{page_name(page)}: {unknown}"


def test_every_flag_is_in_the_reference() -> None:
    page = text_of("docs/reference/launch.md")
    missing = [name for flag in FLAGS for name in flag.spellings if not re.search(rf"--{name}\b", page)]
    assert missing == []


def test_every_flag_of_paddle_is_in_the_page_about_moving() -> None:
    page = text_of("docs/how-to/move-from-paddle-launch.md")
    paddles = [flag for flag in FLAGS if flag.origin in (FlagOrigin.PADDLE, FlagOrigin.OLD)]
    missing = [name for flag in paddles for name in flag.spellings if f"`--{name}`" not in page]
    assert missing == []


def torchrun_rows() -> list[tuple[list[str], str]]:
    """The table of torchrun's flags: each with the value that the page shows, and what happens to it."""
    table = text_of("docs/how-to/move-from-torchrun.md").split("## Every flag")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`-.*?`) \| (.*) \|$", table, re.MULTILINE)
    return [(re.findall(r"`(-.*?)`", flags), meaning) for flags, meaning in rows]


def test_every_flag_of_torchrun_is_in_the_page_about_moving() -> None:
    shown = {
        example.split()[0].lstrip("-").replace("-", "_") for examples, _ in torchrun_rows() for example in examples
    }
    theirs = {flag.name for flag in FLAGS if flag.origin is FlagOrigin.TORCHRUN}
    assert theirs | {"nnodes", "nproc_per_node", "log_dir", "tee", "m", "r", "t"} == shown


@pytest.mark.parametrize(
    ("example", "meaning"), [(example, meaning) for examples, meaning in torchrun_rows() for example in examples]
)
def test_what_the_page_says_about_torchruns_flags_is_so(example: str, meaning: str) -> None:
    words = [*shlex.split(example), "train.py"]
    if meaning.startswith("refused"):
        with pytest.raises(UmiakError, match="not supported"):
            reading.read(words, {})
        return
    notes = reading.read(words, {}).notes
    assert any("changes nothing" in note for note in notes) is meaning.startswith("a warning: ")
    if meaning == "as before":
        assert not notes
    name = example.split(maxsplit=1)[0].lstrip("-")
    for ours in re.findall(r"^is `--(\w+)`", meaning):
        flags = {each.name: each for each in FLAGS}
        plain = reading.read([f"--{ours}", *words[1:-1], "train.py"], {}).options
        fields = {"host": "host", "job_id": "job_id", "max_restart": "max_restart", "rank": "rank", "grace": "grace_s"}
        assert ours in flags
        assert getattr(reading.read(words, {}).options, fields[ours]) == getattr(plain, fields[ours]), name


def test_all_defects_are_answered() -> None:
    page = text_of("docs/how-to/move-from-paddle-launch.md")
    assert [int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)] == list(range(1, 23))


def test_every_platform_is_in_its_page() -> None:
    page = text_of("docs/reference/platforms.md")
    assert [rule.name for rule in RULES if f"| `{rule.name}` |" not in page] == []


def test_platforms_named_for_topology_exist() -> None:
    page = text_of("docs/how-to/run-on-a-platform.md")
    clouds = page.split("## Clouds")[1].split("##")[0]
    names = {
        name
        for row in re.findall(r"^\|.*\|(.*)\|$", clouds, re.MULTILINE)
        for name in re.findall(r"`([a-z][a-z-]+)`", row)
    }
    assert len(names) > 8
    assert names <= {rule.name for rule in RULES}


def test_every_exit_status_is_in_its_page() -> None:
    page = text_of("docs/reference/exit-status.md")
    statuses = [number for name, number in vars(Exit).items() if name.isupper()]
    assert len(statuses) == 6
    assert [number for number in statuses if f"| {number} |" not in page] == []


def test_every_kind_of_log_is_in_its_page() -> None:
    page = text_of("docs/reference/files.md")
    assert [name for name in supervisor.LOG_NAMES.values() if f"`{name}.N`" not in page] == []


def test_every_page_is_in_the_index() -> None:
    index = text_of("docs/README.md")
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md") if page != DOCS / "README.md"]
    assert [page for page in pages if f"({page})" not in index] == []


def test_every_term_of_the_glossary_is_defined_once() -> None:
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| (.+?) \| (.+) \|$", text_of("docs/reference/glossary.md"), re.MULTILINE)
    assert len(rows) > 40
    assert [term for term, times in Counter(term.lower() for term, _, _ in rows).items() if times > 1] == []
    assert [term for term, meaning, _ in rows if len(meaning) < 15] == []
    table_lines = [line for line in text_of("docs/reference/glossary.md").splitlines() if line.startswith("| ")]
    assert len([line for line in table_lines if not line.startswith("| word |")]) == len(rows)


@pytest.mark.parametrize(
    "word",
    [
        "split-brain",
        "fault tolerance",
        "exactly-once",
        "write-ahead log",
        "two-phase commit",
        "preemption",
        "all-reduce",
        "data parallel",
        "mixed precision",
        "straggler",
        "thread pool",
        "heartbeat",
        "failover",
        "network partition",
    ],
)
def test_what_people_search_for_is_found(word: str) -> None:
    """In the glossary, and where the thing itself is explained."""
    assert word in text_of("docs/reference/glossary.md").lower()
    pages = [path for path in DOCS.rglob("*.md") if path.name != "glossary.md"]
    assert [path.name for path in pages if word in " ".join(path.read_text(encoding="utf-8").lower().split())] != []


def test_decisions_have_their_four_parts() -> None:
    decisions = sorted((DOCS / "decisions").glob("*.md"))
    assert [int(path.name[:4]) for path in decisions] == list(range(1, len(decisions) + 1))
    for path in decisions:
        headings = re.findall(r"^## (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert headings == ["Context", "Choice", "Non-goals", "Alternatives"], path.name


# ---- links


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, made as GitHub makes them."""
    found: Counter[str] = Counter()
    names = set()
    for heading in re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        names.add(f"{slug}-{found[slug]}" if found[slug] else slug)
        found[slug] += 1
    return names


def check_links(page: Path) -> None:
    # Links may have code as their text, so only fences are left out here.
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("https://", "http://")):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), f"no such file: {target}"
        assert path.is_relative_to(ROOT), f"outside of the checkout: {target}"
        if anchor:
            assert anchor in anchors(path), f"no such heading: {target}"


def test_links_lead_somewhere() -> None:
    assert wrong_pages(check_links) == []


# ---- the README in two languages

COMMENT = re.compile(r"\s*#.*$", re.MULTILINE)
LANGUAGES = {"README.md": "README.zh.md", "README.zh.md": "README.md"}


def readme_parts(name: str) -> dict[str, list[str]]:
    """What both must have in common: everything but the sentences."""
    text = text_of(name)
    outside = FENCE.sub("", text)
    links = [target for target in re.findall(r"\]\(([^)\s]+)\)", outside) if target not in LANGUAGES]
    return {
        "levels of headings": re.findall(r"^(#+) ", outside, re.MULTILINE),
        "code blocks": [f"{language}: {COMMENT.sub('', body)}" for language, body in FENCE.findall(text)],
        "marks of blocks": re.findall(r"^<!-- .* -->$", text, re.MULTILINE),
        "commands": re.findall(r"`([^`\n]+)`", outside),
        "links": links,
        "rows of tables": [str(line.count("|")) for line in outside.splitlines() if line.startswith("|")],
    }


def test_the_readmes_say_the_same() -> None:
    english, chinese = (readme_parts(name) for name in LANGUAGES)
    for part, found in english.items():
        if part in ("commands", "links"):  # whose order in a sentence is the language's
            assert Counter(chinese[part]) == Counter(found), part
        else:
            assert chinese[part] == found, part
    assert len(english["commands"]) > 30
    assert len(english["links"]) > 20


@pytest.mark.parametrize("name", LANGUAGES)
def test_the_readmes_lead_to_each_other_at_the_top(name: str) -> None:
    assert f"]({LANGUAGES[name]})" in "\n".join(text_of(name).splitlines()[:4])


@pytest.mark.parametrize("name", [*LANGUAGES, "docs/how-to/install.md", "tools/setup.py"])
def test_the_size_of_the_environment_is_what_is_said(name: str) -> None:
    """Between what `make setup` installs and what it is once every module was imported, and has its bytecode beside it."""
    if not (ROOT / ".venv" / ".made-from").exists():
        pytest.skip("the tests run in another environment")
    bytecode = whole = 0
    for directory, _, files in os.walk(ROOT / ".venv"):
        size = sum(os.lstat(os.path.join(directory, file)).st_blocks for file in files) * 512
        whole += size
        bytecode += size if directory.endswith("__pycache__") else 0
    said = max(float(number) for number in re.findall(r"([\d.]+) GB", text_of(name)))
    assert whole - bytecode <= (said + 0.05) * 1e9, f"{(whole - bytecode) / 1e9:.2f} GB before anything runs"
    assert whole >= (said - 0.15) * 1e9, f"{whole / 1e9:.2f} GB"


def test_the_check_of_pages_names_the_wrong_ones() -> None:
    def refuses_one(page: Path) -> None:
        assert page != DOCS / "README.md", "not this one"

    (wrong,) = wrong_pages(refuses_one)
    assert wrong.startswith("docs/README.md: AssertionError: not this one")


def test_the_check_of_links_checks() -> None:
    assert "um-cli-001" in anchors(DOCS / "reference" / "errors.md")
    assert "umiak-launch" in anchors(DOCS / "reference" / "launch.md")


# ---- words


IN_CONTAINERS = ("`/home/ma-user/umiak`", "`/tmp/umiak`")
"""Defaults of places, in their containers."""


def check_words(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for inside in IN_CONTAINERS:
        text = text.replace(inside, "")
    for word in ("/root", "/tmp/", "/home/"):
        assert word not in text.lower(), word


def test_nothing_of_this_machine_is_in_a_page() -> None:
    assert wrong_pages(check_words) == []


# ---- commands


def commands(page: Path) -> Iterator[str]:
    """What a page tells people to type; not where it shows what a mistake leads to (exit status 2)."""
    text = re.sub(
        r"^<!-- run: 2 -->\n```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    for language, body in FENCE.findall(text):
        if language == "console":
            yield from (line[2:] for line in body.splitlines() if line.startswith("$ "))
        elif language == "sh":
            yield from re.findall(r"umiak (?:launch|train|submit) [^'&|#\n)]*", body)
    yield from re.findall(r"`((?:umiak|python -m umiak\.launch)\b[^`\n]*)`", FENCE.sub("", text))


def umiak_words(command: str) -> list[str]:
    """The words after `umiak`, or none if it is another program's command."""
    words = [word for word in shlex.split(command, comments=True) if word != "..."]
    if ">" in words:
        words = words[: words.index(">")]  # the shell's
    while words and re.fullmatch(r"\w+=.*", words[0]):
        words.pop(0)
    if words[:3] == ["python", "-m", "umiak.launch"]:
        return ["launch", *words[3:]]
    return words[1:] if words and words[0].removeprefix(".venv/bin/") == "umiak" else []


OWN_COMMANDS = tuple(
    f"umiak.cli.{name}."
    for name in (
        "dashboard",
        "deploy",
        "doctor",
        "export",
        "image",
        "kubeconfig",
        "machines",
        "operator",
        "predict",
        "runs",
        "serve",
    )
)
"""Packages of commands that have neither the flags of a launch nor a training's."""


def check_commands(page: Path) -> None:
    for command in commands(page):
        words = umiak_words(command)
        if not words or words[0] == "COMMAND" or words[0] in ("--help", "--version"):
            continue
        assert words[0] in main.COMMANDS, command
        if "<" in command or len(words) == 1 or words[0] in ("token", "completion") or words[1].startswith("["):
            continue
        if main.COMMANDS[words[0]].module.startswith(OWN_COMMANDS):
            flags = completion_scripts.flags(main.COMMANDS[words[0]])
            begin = 2 if words[1] in main.COMMANDS[words[0]].words else 1
            most = main.COMMANDS[words[0]].most_arguments
            parsed = command_line.parse(flags, words[begin:], {}, starts_program=False, arguments=most)
            named = [
                problem for problem in parsed.problems if problem.code != "UM-CLI-002"
            ]  # `--timeout`: the flag alone
            assert not [problem.what for problem in named], command
            continue
        parsed = train.parse(words[1:], {}) if words[0] == "train" else reading.parsed(words[1:], {})[0]
        assert not [problem.what for problem in parsed.problems], command
        if words[0] == "train":
            continue
        if parsed.program or parsed.truth("check"):
            reading.read(words[1:], {})


def test_commands_are_understood() -> None:
    assert wrong_pages(check_commands) == []


def test_the_check_of_commands_checks() -> None:
    found = [command for page in PAGES for command in commands(page) if umiak_words(command)[:1] == ["launch"]]
    assert len(found) > 40
    parsed, _ = reading.parsed(umiak_words("X=1 umiak launch --nnods 2 train.py")[1:], {})
    assert parsed.problems


# ---- Python in tables and blocks

CALL = re.compile(r"`([A-Za-z_][\w.]*\([^`]*\))`")


def calls_in_tables(page: Path) -> list[ast.Call]:
    """Every call that a row of a table shows, and those among its arguments. ``...`` stands for arguments that are left out."""
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    shown = [ast.parse(text.replace(", ...)", ")"), mode="eval") for row in rows for text in CALL.findall(row)]
    return [node for each in shown for node in ast.walk(each) if isinstance(node, ast.Call)]


def meant(call: ast.Call, page: Path) -> object | None:
    """What a call of `ps.x` or `umiak.x` calls; in the page about `umiak.ps` its classes are written without `ps.`."""
    owner, _, name = ast.unparse(call.func).rpartition(".")
    if owner in ("umiak", "data"):
        return getattr({"umiak": umiak, "data": data}[owner], name)
    if owner == "ps" or (owner == "" and page.name == "ps.md" and name in ps.__all__):
        return getattr(ps, name)
    return None


def check_calls(page: Path) -> None:
    """Values are made, for functions the arguments are compared with the signature."""
    for call in calls_in_tables(page):
        function = meant(call, page)
        if function is None:
            continue
        given = [each for each in call.args if ast.unparse(each) != "..."]
        if isinstance(function, type):
            call.args = given
            eval(compile(ast.fix_missing_locations(ast.Expression(call)), page.name, "eval"), {**vars(ps), "ps": ps})
        else:
            inspect.signature(function).bind_partial(*given, **{each.arg: each.value for each in call.keywords})


def test_calls_in_tables_can_be_made() -> None:
    assert wrong_pages(check_calls) == []


def test_the_check_of_calls_checks(tmp_path: Path) -> None:
    page = tmp_path / "x.md"
    page.write_text("| `ps.Uniform(least=-0.1)` |\n| `umiak.progress(now=1)` |\n`ps.nothing()`\n")
    for call in calls_in_tables(page):
        page.write_text(f"| `{ast.unparse(call)}` |")
        with pytest.raises(TypeError):
            check_calls(page)
    assert len([call for page in PAGES for call in calls_in_tables(page) if meant(call, page)]) > 30


LESSONS = sorted([*(DOCS / "tutorials").glob("*.md"), *(ROOT / "examples").rglob("*.py"), ROOT / "README.md"])


@pytest.mark.parametrize("page", LESSONS, ids=page_name)
def test_what_people_are_shown_to_import_is_public(page: Path) -> None:
    """A face of the API, or a name in its `__all__`."""
    text = page.read_text(encoding="utf-8")
    blocks = (
        [text] if page.suffix == ".py" else [body for language, body in FENCE.findall(text) if language == "python"]
    )
    for node in (node for block in blocks for node in ast.walk(ast.parse(textwrap.dedent(block)))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.split(".")[0] == "umiak"]
            assert set(names) <= set(site.API), page
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "umiak":
            assert node.module in site.API, ast.unparse(node)
            public = public_names(node.module) | {name.rpartition(".")[2] for name in site.API}
            assert {alias.name for alias in node.names} <= public, ast.unparse(node)


def public_names(face: str) -> set[str]:
    path = SOURCE.parent / face.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()
