"""Plays a story: commands after ``$``, and below each one what came of it. Comments and empty lines stay where they are."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator

from tests.support.stories.cluster_story import ClusterStory
from tests.support.stories.master_story import MasterStory
from tests.support.stories.node_story import NodeStory
from tests.support.stories.operator_story import OperatorStory

STORIES: dict[str, type] = {
    "master": MasterStory,
    "node": NodeStory,
    "cluster": ClusterStory,
    "operator": OperatorStory,
}


class Mistake(Exception):
    """A line of a script that makes no sense."""


def play(text: str) -> str:
    """The whole script again, with the output that its commands have now."""
    return "".join(f"{line}\n" for line in _played(text.splitlines()))


def _played(lines: list[str]) -> Iterator[str]:
    story: object | None = None
    below_command = False
    for number, line in enumerate(lines, 1):
        if line.startswith("$ "):
            yield line
            try:
                story, output = _perform(story, line[2:])
            except Exception as error:
                raise Mistake(f"line {number}: {line}: {type(error).__name__}: {error}") from error
            yield from output
            below_command = True
        elif not line.strip() or line.startswith("#"):
            yield line
            below_command = False
        elif not below_command:
            raise Mistake(f"line {number} stands below no command: {line}")


def _perform(story: object | None, command: str) -> tuple[object, list[str]]:
    """The story that goes on (a new one begins with its kind's name), and what the command led to."""
    words = shlex.split(command)
    given = dict(word.split("=", 1) for word in words[1:] if "=" in word)
    plain = [word for word in words[1:] if "=" not in word]
    if words[0] in STORIES:
        story = STORIES[words[0]](*plain, **given)
        return story, list(getattr(story, "beginning", []))
    if story is None:
        raise Mistake("a script begins with master, node, cluster or operator")
    act: Callable[..., list[str]] = getattr(story, f"do_{words[0]}")
    return story, act(*plain, **given)
