"""The package that talks to hosts over ssh: whether it is installed, and what to do if it is not. An adapter.

It takes half a second to import, so that it is looked for without that.
"""

from __future__ import annotations

from umiak.core.problem import Problem


def missing() -> list[Problem]:
    """Nothing, if asyncssh can be imported."""
    from importlib.util import find_spec

    try:
        is_there = find_spec("asyncssh") is not None
    except (ImportError, ValueError):
        is_there = False
    return [] if is_there else [problem()]


def problem() -> Problem:
    """What is told where it can't be imported."""
    from umiak.adapters import installation

    return Problem(
        code="UM-SUBMIT-111",
        what="a package is missing: asyncssh",
        why="machines that are reached over ssh need it",
        hint=f"install the extra `ssh`: {installation.command('ssh')}",
    )
