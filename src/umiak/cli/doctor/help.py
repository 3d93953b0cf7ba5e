"""The text of `umiak doctor --help`, and the reference page, made from the tables of checks and flags. A decider."""

from __future__ import annotations

from umiak.cli.doctor.flags import FLAGS
from umiak.cli.texts.help_text import WIDTH, default, entry, spelling, tail, wrapped
from umiak.doctor.checks import CHECKS, GROUPS

USAGE = """\
usage: umiak doctor [flags]

Find out why it does not work: examine this machine, its frameworks and its network, and with --on a place
where jobs run. Nothing is changed. A framework is tried in a process of its own.
"""

EXAMPLES = (
    ("umiak doctor", "everything about this machine"),
    ("umiak doctor --nnodes 2 --master 10.0.0.1:8090", "as part of this job"),
    ("umiak doctor --nnodes 2:4 --master etcd://10.0.0.7", "etcd, and what elastic jobs need"),
    ("umiak doctor --only network,shm", "some checks"),
    ("umiak doctor --on lab", "and the hosts of a place"),
    ("umiak doctor --json", "machine-readable"),
)

ENDING = """\
Exit status: 0 if there is no problem (warnings are none), 1 if there is one, 2 for a wrong command line. Several nodes together are
examined by `umiak launch --check`.
"""

PAGE = """\
<!-- Made by `python docs/generate.py` from umiak.doctor.checks and umiak.cli.doctor. Change these, not this file. -->

# `umiak doctor`

```
umiak doctor [flags]
```

Examines this machine, and with `--on` a place where jobs run. How to use it: [find out why it does not work](../how-to/doctor.md).

```console
$ umiak doctor
$ umiak doctor --nnodes 2:4 --master etcd://10.0.0.7:2379 --job_id ctr
$ umiak doctor --only network,shm --json
```

## Checks

`--only` takes names and groups. All run at the same time, each for its limit at most; `paddle_collective` and `torch_collective` wait for the import of
their framework.

| check | group | what it looks at | limit |
|---|---|---|---|
{checks}

## Flags

| flag | default | meaning |
|---|---|---|
{flags}

The flags about the job are those of [`umiak launch`](launch.md), with the same variables: in the environment of a job its own settings are examined.

## Verdicts

| verdict | meaning |
|---|---|
| `ok` | It works, with what was measured. |
| `warning` | A job may fail or be slow. |
| `problem` | A job will fail, or not do what was asked for. |
| `skipped` | There was nothing to look at. |

Every warning and problem has a [code](errors.md#the-doctor) and a hint.

`--json` prints one object: `healthy`, `conclusion`, `umiak` and `checks`, each of these with `name`, `group`, `verdict`, `findings` (`verdict`, `code`,
`reason`, `hint`), `took_s` and `facts`, which is everything that was measured. There are no secrets in it.

## Exit status

0 if there is no problem, 1 if there is one, 2 for a wrong command line.
"""


def text() -> str:
    """The help of `umiak doctor`."""
    lines = [USAGE, "Examples:"]
    lines += [f"  {example:<58}# {meaning}" for example, meaning in EXAMPLES]
    for group in dict.fromkeys(flag.group for flag in FLAGS):
        lines += ["", f"{group}:"]
        for flag in FLAGS:
            if flag.group == group:
                lines += entry(spelling(flag), flag.help, tail(flag))
    lines += ["", "Checks, by group:"]
    for group in GROUPS:
        lines += entry(group, ", ".join(check.name for check in CHECKS if check.group == group))
    return "\n".join([*lines, "", *wrapped(ENDING, WIDTH)]) + "\n"


def reference() -> str:
    """docs/reference/doctor.md."""
    checks = (f"| `{each.name}` | {each.group} | {each.about} | {each.limit_s:g} s |" for each in CHECKS)
    rows = (f"| {_code(spelling(flag))} | {_code(default(flag)) or '-'} | {flag.help} |" for flag in FLAGS)
    return PAGE.replace("{checks}", "\n".join(checks)).replace("{flags}", "\n".join(rows))


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`" if text else ""
