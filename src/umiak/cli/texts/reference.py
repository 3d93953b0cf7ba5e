"""The reference page of `umiak launch` as Markdown, made from the tables of flags. A decider.

``python -m umiak.cli.texts.reference > docs/reference/launch.md`` writes the page; a test compares the two.
"""

from __future__ import annotations

import sys

from umiak.cli.launch_flags import FLAGS
from umiak.cli.texts.help_text import EXAMPLES, default, groups, old_names, spelling
from umiak.compat.paddle_flags import REFUSED
from umiak.schema.flags import Flag, FlagOrigin

HEAD = """\
<!-- Made by `python -m umiak.cli.texts.reference`. Change the tables of flags, not this file. -->

# `umiak launch`

```
umiak launch [flags] train.py [arguments of the script]
umiak launch [flags] -m package.module [arguments of the module]
umiak launch [flags] program [arguments of the program]
```

`python -m umiak.launch` is the same program.
"""

RULES = """\
## How the command line is read

- `--flag value` and `--flag=value` are the same, and so are `--nproc_per_node` and `--nproc-per-node`.
- A boolean flag may stand alone (`--sort_ip`) or have a value (`--sort_ip False`).
- The first argument that is not a flag is the program, and everything after it belongs to the program. `-m` says that
  it is a module, and `--` ends the flags.
- Nothing may be abbreviated. An unknown flag is an error that names the nearest known one.
- All mistakes are reported at once, each with its code ([errors](errors.md)), and the exit status is 2.
- **The command line overrides the environment**, which is the reverse of Paddle's launcher. Where the two disagree, one line
  says so. A variable that is empty counts as not set.
- Seconds may be written as `90`, `90s`, `10m` or `2h`, sizes as `1048576`, `512K`, `256M` or `1G`.
"""

PADDLE = """\
## Flags of Paddle's launcher

Names, defaults and variables are those of `python -m paddle.distributed.launch` 3.3.
"""

OWN = """\
## Flags of umiak
"""

TORCHRUN = """\
## Flags of torchrun

Names, defaults and variables are those of torchrun 2.15. Where one of them is said, torchrun's defaults hold for all others:
[move from torchrun](../how-to/move-from-torchrun.md).
"""

OLD = """\
## Flags of older launchers

They are understood so that old scripts run unchanged.
"""

REFUSALS = """\
## Known, but refused

These flags of other launchers are errors here, because leaving them out silently would run another job than the one that
was asked for.
"""


def launch_reference() -> str:
    """The whole page."""
    obeyed = [flag for flag in FLAGS if flag.group != REFUSED]
    parts = [HEAD, _examples(), RULES, PADDLE]
    parts += _grouped([flag for flag in obeyed if flag.origin is FlagOrigin.PADDLE])
    parts += [OWN, *_grouped([flag for flag in obeyed if flag.origin is FlagOrigin.UMIAK])]
    parts += [TORCHRUN, _table([flag for flag in obeyed if flag.origin is FlagOrigin.TORCHRUN])]
    parts += [OLD, _table([flag for flag in obeyed if flag.origin is FlagOrigin.OLD]), _old_names()]
    parts += [REFUSALS, _refusals([flag for flag in FLAGS if flag.group == REFUSED])]
    return "\n".join(parts)


def _examples() -> str:
    rows = [f"{example:<58}# {meaning}" for example, meaning in EXAMPLES]
    return "\n".join(["```sh", *rows, "```", ""])


def _grouped(flags: list[Flag]) -> list[str]:
    parts = []
    for group in groups():
        chosen = [flag for flag in flags if flag.group == group]
        if chosen:
            parts.append(f"### {group}\n\n{_table(chosen)}")
    return parts


def _table(flags: list[Flag]) -> str:
    rows = ["| flag | default | environment | meaning |", "|---|---|---|---|"]
    for flag in flags:
        variables = ", ".join(f"`{name}`" for name in flag.env)
        rows.append(f"| {_code(spelling(flag))} | {_code(default(flag))} | {variables} | {_cell(flag.help)} |")
    return "\n".join([*rows, ""])


def _old_names() -> str:
    rows = ["| old name | is now |", "|---|---|"]
    rows += [f"| `--{old}` | `--{flag.name}` |" for old, flag in old_names()]
    return "\n".join([*rows, ""])


def _refusals(flags: list[Flag]) -> str:
    rows = ["| flag | environment | why |", "|---|---|---|"]
    for flag in flags:
        variables = ", ".join(f"`{name}`" for name in flag.env)
        rows.append(f"| {_code(f'--{flag.name}')} | {variables} | {_cell(flag.refused)} |")
    return "\n".join([*rows, ""])


def _code(text: str) -> str:
    return f"`{_cell(text)}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(launch_reference())
