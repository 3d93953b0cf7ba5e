"""The `umiak` command: dispatch, exit status, and what a person reads when something is wrong."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import types

import pytest

from tests.support import PATIENCE_S
from umiak import __version__
from umiak.cli.main import main
from umiak.cli.output import Printer, wants_colour
from umiak.core.problem import Problem, UmiakError


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("PADDLE_", "UMIAK_", "POD_", "FLAGS_")):
            monkeypatch.delenv(name)


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch):
    """A stand-in for the launcher behind the command line: it keeps what it was asked for."""
    module = types.ModuleType("umiak.launch.program")
    module.asked = []  # type: ignore[attr-defined]
    module.answer = lambda: 7  # type: ignore[attr-defined]

    def run(options, notes, environ) -> int:
        module.asked.append((options, notes, environ))  # type: ignore[attr-defined]
        return module.answer()  # type: ignore[attr-defined]

    module.run = run  # type: ignore[attr-defined]
    import umiak.launch

    monkeypatch.setitem(sys.modules, "umiak.launch.program", module)
    monkeypatch.setattr(umiak.launch, "program", module, raising=False)
    return module


def test_launch_hands_over_what_was_asked_and_passes_the_status_on(launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_NNODES", "3")
    assert main(["launch", "--nnodes", "2", "train.py", "--lr", "0.1"]) == 7
    ((options, notes, environ),) = launcher.asked
    assert options.program == ("train.py", "--lr", "0.1")
    assert options.most_nodes == 2
    assert notes == ("--nnodes 2 is used; the environment says PADDLE_NNODES=3",)
    assert environ["PADDLE_NNODES"] == "3"


def test_a_wrong_request_starts_nothing_and_tells_everything(launcher, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "--nnodes", "0", "--nproc", "2"]) == 2
    assert launcher.asked == []
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "error: unknown flag: --nproc [UM-CLI-001]",
        "  hint: did you mean `--nproc_per_node`? `umiak launch --help` lists all flags",
        "error: fewer than one node: --nnodes 0 [UM-LAUNCH-102]",
        "  hint: write --nnodes 2, or --nnodes 2:4 for a job that may have 2, 3 or 4 nodes",
        "error: nothing to run: a program is missing [UM-LAUNCH-101]",
        "  hint: write it after the flags: `umiak launch --nnodes 2 train.py`",
    ]


def test_an_expected_failure_has_no_traceback(launcher, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> int:
        raise UmiakError(Problem(code="UM-X-001", what="the master is silent", why="nothing listens"), exit_status=3)

    launcher.answer = refuse
    assert main(["launch", "train.py"]) == 3
    assert capsys.readouterr().err == "error: the master is silent [UM-X-001]\n  because: nothing listens\n"


def test_an_interrupt(launcher) -> None:
    def interrupt() -> int:
        raise KeyboardInterrupt

    launcher.answer = interrupt
    assert main(["launch", "train.py"]) == 130


def test_a_bug_of_ours_is_admitted(launcher, capsys: pytest.CaptureFixture[str]) -> None:
    def fall() -> int:
        raise ZeroDivisionError("oh")

    launcher.answer = fall
    assert main(["launch", "train.py"]) == 70
    err = capsys.readouterr().err
    assert "ZeroDivisionError: oh" in err
    assert "this is a bug in umiak" in err
    assert __version__ in err


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--help"], ["-h"], ["help"]):
        assert main(words) == 0
        assert capsys.readouterr().out.startswith("usage: umiak COMMAND")
    for words in (["launch", "--help"], ["launch", "-h"], ["help", "launch"], ["launch", "--rank", "x", "--help"]):
        assert main(words) == 0
        out, err = capsys.readouterr()
        assert out.startswith("usage: umiak launch")
        assert err == ""
    for words in (["--version"], ["launch", "--version"]):
        assert main(words) == 0
        assert capsys.readouterr().out == f"umiak {__version__}\n"


def test_no_command_is_a_wrong_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage: umiak COMMAND")


@pytest.mark.parametrize(
    ("word", "what", "hint"),
    [
        ("lunch", "unknown command: lunch", "did you mean `umiak launch`?"),
        ("train.py", "unknown command: train.py", "to start a script, write `umiak launch train.py`"),
        ("--nnodes", "unknown flag: --nnodes", "`umiak --help` lists all commands"),
    ],
)
def test_an_unknown_command(word: str, what: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 2
    assert capsys.readouterr().err == f"error: {what} [UM-CLI-004]\n  hint: {hint}\n"


@pytest.mark.parametrize("words", [["--help"], ["launch", "--help"], ["token"], ["train", "--version"]])
def test_output_that_can_not_be_written_is_an_error_and_no_bug(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "umiak.cli.main", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
    assert done.returncode == 3
    what, hint = done.stderr.splitlines()
    assert what == "error: the output can't be written: No space left on device [UM-CLI-006]"
    assert hint.startswith("  hint: ")


def test_an_error_that_can_not_be_written_changes_no_exit_status() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "umiak.cli.main", "lunch"]
        assert subprocess.run(command, stderr=full, timeout=PATIENCE_S).returncode == 2


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["--nnodes", "none", "x.py"], []])
def test_the_module_is_the_same_program(words: list[str]) -> None:
    def run(*command: str) -> tuple[int, str, str]:
        done = subprocess.run([sys.executable, *command, *words], capture_output=True, text=True, timeout=PATIENCE_S)
        return done.returncode, done.stdout, done.stderr

    module = run("-m", "umiak.launch")
    assert module == run("-m", "umiak.cli.main", "launch")
    assert module[1] or module[2]


def to_nobody(*words: str, err: bool = False) -> subprocess.CompletedProcess[bytes]:
    """The command with a pipe as stdout, or as stderr too, whose reader has gone."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        return subprocess.run(
            [sys.executable, "-m", *words], stdout=gone, stderr=gone if err else subprocess.PIPE, timeout=PATIENCE_S
        )


DNN = ("umiak.cli.main", "train", "-m", "umiak.models.rank.dnn")


@pytest.mark.parametrize(
    "words",
    [
        ("umiak.launch", "--help"),
        ("umiak.cli.main", "--help"),
        ("umiak.cli.main", "--version"),
        ("umiak.cli.main", "train", "--help"),
        (*DNN, "--explain"),
        (*DNN, "--explain", "--json"),
    ],
)
def test_a_reader_that_goes_away_is_no_error(words: tuple[str, ...]) -> None:
    done = to_nobody(*words)
    assert (done.returncode, done.stderr) == (0, b"")
    assert to_nobody(*words, err=True).returncode == 0


def test_errors_to_nobody_keep_their_status() -> None:
    assert to_nobody("umiak.cli.main", err=True).returncode == 2
    assert to_nobody(*DNN, "-o", "runner.epocs=1", err=True).returncode == 2
    assert to_nobody(*DNN, "-o", "runner.epocs=1", "--check", "--json").returncode == 2


@pytest.mark.parametrize(
    "words", [("umiak.models.sample", "--list"), ("umiak.models.sample", "--help"), ("umiak.ps.export", "--help")]
)
def test_other_programs_end_without_a_word(words: tuple[str, ...]) -> None:
    done = to_nobody(*words)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")


def test_what_a_file_says_does_not_steer_the_terminal() -> None:
    err = io.StringIO()
    Printer(io.StringIO(), err).problems([Problem(code="UM-X-001", what="not a number: \x1b]0;title\x07\x9b31mé\t1")])
    assert err.getvalue() == "error: not a number: \\x1b]0;title\\x07\\x9b31mé\t1 [UM-X-001]\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_and_never_against_a_persons_wish() -> None:
    assert wants_colour(Terminal(), {"TERM": "xterm"})
    assert not wants_colour(Terminal(), {"NO_COLOR": "1"})
    assert wants_colour(Terminal(), {"NO_COLOR": ""})
    assert not wants_colour(Terminal(), {"TERM": "dumb"})
    assert not wants_colour(io.StringIO(), {"TERM": "xterm"})


def test_colour_repeats_what_the_words_say() -> None:
    def printed(*, colour: bool) -> str:
        err = io.StringIO()
        printer = Printer(io.StringIO(), err, colour=colour)
        printer.problems([Problem(code="UM-X-001", what="w", why="y", hint="h")])
        printer.note("n")
        printer.talk("error-free words")
        return err.getvalue()

    coloured = printed(colour=True)
    assert "\x1b[1;31merror:\x1b[0m w" in coloured
    assert "  \x1b[36mhint:\x1b[0m h" in coloured
    plain = printed(colour=False)
    assert "\x1b" not in plain
    for code in ("\x1b[1;31m", "\x1b[33m", "\x1b[36m", "\x1b[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == plain
