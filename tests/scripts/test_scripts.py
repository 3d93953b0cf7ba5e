"""The stories of this folder, played again: every ``*.txt`` holds commands after ``$`` and what they must lead to.

    $ master nnodes=2
    $ join a b
    -> a b: Form generation 1: a b

`master_story`, `node_story`, `cluster_story` and `operator_story` say which commands there are. ``UMIAK_REWRITE=1 pytest tests/scripts`` writes
down what the commands lead to now; read the difference before you keep it, it is a change of behaviour.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.stories.transcript import Mistake, play

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_story_goes_as_it_is_written(script: Path) -> None:
    written = script.read_text()
    played = play(written)
    if os.environ.get("UMIAK_REWRITE"):
        script.write_text(played)
    else:
        assert played.splitlines() == written.splitlines()


def test_there_are_stories_of_every_kind() -> None:
    assert {script.name.split("-")[0] for script in SCRIPTS} == {"master", "node", "cluster", "operator"}


def test_a_story_that_goes_otherwise_is_noticed() -> None:
    script = "# alone\n\n$ master nnodes=1\n$ join a\n-> a: Finish with 0: the job is done\n"
    assert play(script) == "# alone\n\n$ master nnodes=1\n$ join a\n-> a: Form generation 1: a\n"


@pytest.mark.parametrize(
    "script", ["stray output\n", "$ join a\n", "$ master nnodes=2\n$ dance\n", "$ master colour=red\n"]
)
def test_a_script_that_makes_no_sense_is_told(script: str) -> None:
    with pytest.raises(Mistake):
        play(script)
