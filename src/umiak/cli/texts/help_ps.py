"""The text of `umiak ps --help`, and the reference page, made from the table of flags. A decider."""

from __future__ import annotations

from umiak.cli.ps_flags import FLAGS
from umiak.cli.texts.help_text import WIDTH, default, entry, spelling, tail, wrapped

USAGE = """\
usage: umiak ps status [flags]

Show the status of the parameter servers of a running job: rows, memory, pulls and pushes per second, and
which trainer waits for which. Read-only; the job is not affected.
"""

EXAMPLES = (
    ("umiak ps status", "your job on this machine"),
    ("umiak ps status --watch", "refresh every second"),
    ("umiak ps status --json", "machine-readable"),
    ("umiak ps status --quiet", "exit status only: do all servers answer?"),
    ("umiak ps status --servers 10.0.0.1:8200,10.0.0.2:8200", "with UMIAK_TOKEN_FILE set"),
)

ENDING = """\
The job's token is read from UMIAK_TOKEN or UMIAK_TOKEN_FILE; on the machine of a server that you started, it is found without them. Exit status: 0 if
every server answered, 2 for a wrong command line, 3 if a server did not answer.
"""

PAGE = """\
<!-- Made by `python docs/generate.py` from umiak.cli.ps_flags and umiak.cli.texts.help_ps. Change these, not this file. -->

# `umiak ps status`

```
umiak ps status [flags]
```

Shows the status of the parameter servers of a running job. It is read-only: the job is not affected, and a server that is busy with a snapshot answers as well.

```console
$ umiak ps status
$ umiak ps status --watch
$ umiak ps status --servers 10.0.0.1:8200,10.0.0.2:8200
```

## Flags

| flag | default | meaning |
|---|---|---|
{rows}

The job's token is read from `UMIAK_TOKEN` or `UMIAK_TOKEN_FILE`. On the machine of a server that you started, addresses, job and token are found without
any of them, in the environment of the server's process, which only you can read.

## What it prints

A line for each server: how long it is up, its rows, the memory of its tables, its log (`none` without `durability_ms`), and per second requests to
pull and to push rows, the rows in them, and requests for dense parameters. A line for each table, added up over all servers. A line for each
trainer: `expected` (not yet there), `here`, `lost` or `done`, the step that it does next in a sync job, and what it waits for, if it has waited for a second or more.

`--json` prints one object per refresh: `job`, `step`, `step_waits_for`, `servers`, `tables` and `trainers`. Rates are `null` for a server that was
restarted between two refreshes. A server that does not answer has `reachable: false` and `why`.

## Exit status

0 if every server answered, 2 for a wrong command line, 3 if a server did not answer or none was found.

The same numbers for Prometheus: [metrics of servers](ps.md#metrics-of-servers).
"""


def status() -> str:
    """The help of `umiak ps status`."""
    lines = [USAGE, "Examples:"]
    lines += [f"  {example:<56}# {meaning}" for example, meaning in EXAMPLES]
    for group in dict.fromkeys(flag.group for flag in FLAGS):
        lines += ["", f"{group}:"]
        for flag in FLAGS:
            if flag.group == group:
                lines += entry(spelling(flag), flag.help, tail(flag))
    return "\n".join([*lines, "", *wrapped(ENDING, WIDTH)]) + "\n"


def reference() -> str:
    """docs/reference/ps-status.md."""
    rows = (f"| `{spelling(flag)}` | {default(flag) or '-'} | {flag.help} |" for flag in FLAGS)
    return PAGE.replace("{rows}", "\n".join(rows))
