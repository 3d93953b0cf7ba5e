"""One table of commands: what can be called, what help lists and what shells complete are the same."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from tests.support import PATIENCE_S
from umiak.cli import main
from umiak.cli.commands import COMMANDS
from umiak.cli.texts import completion_scripts
from umiak.launch.command_line.paddle_flags import OLDER, REFUSED
from umiak.schema.flags import FlagOrigin


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_of_the_table_is_there_and_helps(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert callable(importlib.import_module(COMMANDS[name].module).main)
    assert main.main([name, "--help"]) == 0
    assert f"umiak {name}" in capsys.readouterr().out
    assert main.main(["--help"]) == 0
    assert f"  {name} " in capsys.readouterr().out


@pytest.mark.parametrize("shell", COMMANDS["completion"].words)
def test_a_script_knows_every_command_and_every_flag_that_is_ours_to_offer(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for command in COMMANDS.values():
        assert command.name in script
        for flag in completion_scripts.flags(command):
            if flag.origin in (FlagOrigin.PADDLE, FlagOrigin.UMIAK) and flag.group not in (OLDER, REFUSED):
                assert (f"-l {flag.name} " if shell == "fish" else f"--{flag.name}") in script


def test_refused_and_foreign_flags_are_not_offered() -> None:
    names = {name for name, _ in completion_scripts.offered(COMMANDS["launch"])}
    assert {"--nnodes", "--gpus", "-m", "--help", "--version"} <= names
    assert names & {"--auto_tuner_json", "--rdzv_backend", "--np", "--legacy"} == set()
    assert {"--rdzv_backend", "--np"} <= set(completion_scripts.with_value(COMMANDS["launch"]))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["fsh"], "unknown shell: fsh [UM-CLI-003]\n  hint: did you mean `fish`? it is one of bash, zsh, fish"),
        (["bash", "now"], "unexpected argument: now [UM-CLI-005]"),
        ([], "usage: umiak completion bash|zsh|fish"),
    ],
)
def test_a_wrong_request_says_what_is_right(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["completion", *words]) == 2
    out, err = capsys.readouterr()
    assert text in err
    assert out == ""


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["token", "now"], [], ["launch", "--nnodes", "none", "x.py"]]
)
def test_the_package_is_the_same_program(words: list[str]) -> None:
    def run(*command: str) -> tuple[int, str, str]:
        done = subprocess.run([sys.executable, *command, *words], capture_output=True, text=True, timeout=PATIENCE_S)
        return done.returncode, done.stdout, done.stderr

    package = run("-m", "umiak")
    assert package == run("-m", "umiak.cli.main")
    assert package[1] or package[2]
