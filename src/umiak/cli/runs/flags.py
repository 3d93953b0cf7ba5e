"""The flags of `umiak status`, `logs`, `wait`, `cancel`, `list`, `exec` and `fetch`: tables. Values."""

from __future__ import annotations

from umiak.cli.shared_flags import (
    ALL,
    INTERVAL,
    JSON,
    NODE,
    ON,
    OUTPUT,
    RANK,
    ROLE,
    TIMEOUT,
    WATCH,
    flag,
    shared,
    switch,
)
from umiak.schema.flags import FlagKind

WHICH = "Run"

_JSON = shared(JSON, "Print JSON; if it fails, an object with `problems`.", OUTPUT)
_WATCH = shared(WATCH, "Refresh until Ctrl-C; the status of a run until it is over.", OUTPUT)

STATUS = (_JSON, _WATCH, INTERVAL)

LOGS = (
    switch("follow", "Print new lines as they are written, until the job is over.", WHICH, letter="f"),
    shared(RANK, "Print the lines of this worker only: its rank among the trainers, or in its --role.", WHICH),
    shared(ROLE, "Print the lines of this role only.", WHICH),
    flag(
        "tail",
        "Print the last N lines of each worker only.",
        WHICH,
        letter="n",
        kind=FlagKind.NUMBER,
        least=0,
    ),
    flag(
        "since",
        "Print lines since then only: 10m ago, 2h, 1d, or a time such as 2026-11-18T09:30 or 09:30, in your time zone unless it "
        "ends with Z or +08:00.",
        WHICH,
        metavar="TIME",
    ),
    switch(
        "raw",
        "Print lines as they were written, with colours and other sequences that steer a terminal. Default: they are left out, and of "
        "a progress bar the last state is printed.",
        OUTPUT,
    ),
    shared(JSON, "Print JSON: one object per line.", OUTPUT),
)

WAIT = (
    shared(TIMEOUT, "Stop waiting after this long, with exit status 3; the job goes on.", WHICH),
    _JSON,
)

CANCEL = (
    flag(
        "grace",
        "Time workers have to exit after SIGTERM; then they are killed.",
        WHICH,
        kind=FlagKind.SECONDS,
        default=30.0,
        least=0,
    ),
    _JSON,
)

LIST = (
    shared(ON, "List the runs of this place only.", WHICH),
    switch(
        "everybody",
        "List all runs that the place itself knows of, also those that others submitted; without --on, of the default place.",
        WHICH,
    ),
    flag("limit", "List so many runs.", WHICH, letter="n", kind=FlagKind.NUMBER, default=20, least=1),
    shared(ALL, "List all runs.", WHICH),
    _JSON,
    _WATCH,
    INTERVAL,
)

EXEC = (
    shared(NODE, "Run it on this node: its number or its name in `umiak status`.", WHICH),
    shared(RANK, "Run it beside this worker: its rank among the trainers, or in its --role.", WHICH),
    shared(ROLE, "Run it beside a worker of this role.", WHICH),
    shared(ALL, "Run it on every node at once; each line of output begins with its node.", WHICH),
    switch("tty", "Give the command a terminal, as editors and debuggers need; a shell has one.", OUTPUT, letter="t"),
)

FETCH = (
    flag("to", "Put the files into this directory; without it, into one with the run's id.", WHICH, metavar="DIR"),
    shared(NODE, "Fetch from this node only: its number or its name in `umiak status`.", WHICH),
    switch("list", "List the files with their sizes, and fetch nothing.", OUTPUT, letter="l"),
    switch("overwrite", "Replace files here that differ and were not fetched from the run.", WHICH),
    _JSON,
)
