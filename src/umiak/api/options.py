"""Keyword options of `umiak.run` to flags of `umiak launch`. A decider: the tables of flags say what there is.

    values({"nproc_per_node": 2, "gpus": [0, 1]}, for_function=False)   {"nproc_per_node": 2, "devices": [0, 1]}, []

A script takes every flag but those that start nothing. A function runs on this node alone,
so what says which nodes take part is no option of it, and its variables in the caller's environment are not for it.
"""

from __future__ import annotations

from types import MappingProxyType

from umiak.core.nearest import nearest
from umiak.core.problem import Problem
from umiak.launch.command_line import paddle_flags
from umiak.launch.command_line.own import FLAGS
from umiak.schema.flags import Flag, FlagOrigin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

QUIET = "WARNING"
"""The launcher's own messages are for terminals; of a call only what goes wrong is told."""
START_NOTHING = ("check", "json")
ONE_NODE = MappingProxyType({"nnodes": 1, "topology": "none", "run_mode": "collective"})
_ABOUT_NODES = (paddle_flags.NODES, paddle_flags.SERVERS)
_NOT_FOR_FUNCTIONS = ("run_mode", "elastic_level", "elastic_timeout", "trainer_restart")


def known(*, for_function: bool) -> dict[str, Flag]:
    """Every option with its flag, also under its other names."""
    return {name: flag for flag in FLAGS if _is_option(flag, for_function) for name in (flag.name, *flag.aliases)}


def values(options: Mapping[str, object], *, for_function: bool) -> tuple[dict[str, object], list[Problem]]:
    """Values by the names of flags, and what is wrong with the options."""
    there = known(for_function=for_function)
    flags: dict[str, object] = {**ONE_NODE} if for_function else {}
    if options.get("log_level") is None and not options.get("verbose"):
        flags["log_level"] = QUIET
    problems = []
    for name, given in options.items():
        if name not in there:
            problems.append(_unknown(name, there, for_function=for_function))
        elif given is not None:
            flags[there[name].name] = given
    return flags, problems


def environment(environ: Mapping[str, str], *, for_function: bool) -> dict[str, str]:
    """The launcher's environment: for a function without what says that other nodes take part."""
    if not for_function:
        return dict(environ)
    there = known(for_function=True)
    others = {variable for flag in FLAGS if flag.name not in there for variable in flag.env}
    return {name: text for name, text in environ.items() if name not in others}


def _is_option(flag: Flag, for_function: bool) -> bool:
    if (
        flag.refused
        or flag.ignored
        or flag.name in START_NOTHING
        or flag.origin not in (FlagOrigin.PADDLE, FlagOrigin.UMIAK)
    ):
        return False
    if flag.group == paddle_flags.OLDER:
        return False
    return not for_function or (
        flag.name == "job_id" or (flag.group not in _ABOUT_NODES and flag.name not in _NOT_FOR_FUNCTIONS)
    )


def _unknown(name: str, there: Mapping[str, Flag], *, for_function: bool) -> Problem:
    flag = f"--{name}"
    if for_function and name in known(for_function=False):
        return Problem(
            code="UM-RUN-002",
            what=f"not for a function: {name}",
            why="a function runs on this node alone, without parameter servers",
            hint=f"put it into a script: `umiak launch {flag} ... train.py`, or umiak.run('train.py', {name}=...)",
        )
    meant = nearest(name.lower(), there)
    hint = f"did you mean {meant}? " if meant else ""
    own = " Keyword arguments of the function go into kwargs={...}." if for_function else ""
    return Problem(
        code="UM-RUN-001",
        what=f"unknown option: {name}",
        hint=f"{hint}options are the flags of `umiak launch --help`, without the dashes.{own}",
    )
