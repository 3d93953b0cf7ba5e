"""The flags of `umiak status`, `logs`, `wait`, `cancel`, `list`, `exec` and `fetch`: tables. Values."""

from __future__ import annotations

from umiak.core.cluster import Role
from umiak.schema.flags import Flag, FlagKind, FlagOrigin

WHICH = "Run"
SHOWN = "Output"

JSON = Flag(
    name="json",
    help="Print JSON; if it fails, an object with `problems`.",
    group=SHOWN,
    origin=FlagOrigin.UMIAK,
    kind=FlagKind.SWITCH,
    default=False,
)
WATCH = Flag(
    name="watch",
    letter="w",
    help="Refresh until Ctrl-C; the status of a run until it is over.",
    group=SHOWN,
    origin=FlagOrigin.UMIAK,
    kind=FlagKind.SWITCH,
    default=False,
)
INTERVAL = Flag(
    name="interval",
    help="Time between refreshes.",
    group=SHOWN,
    origin=FlagOrigin.UMIAK,
    kind=FlagKind.SECONDS,
    default=2.0,
    least=0.1,
    metavar="SECONDS",
)

STATUS = (JSON, WATCH, INTERVAL)

LOGS = (
    Flag(
        name="follow",
        letter="f",
        help="Print new lines as they are written, until the job is over.",
        group=WHICH,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
    Flag(
        name="rank",
        help="Print the lines of this worker only: its rank among the trainers, or in its --role.",
        group=WHICH,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.NUMBER,
        least=0,
        metavar="N",
    ),
    Flag(
        name="role",
        help="Print the lines of this role only.",
        group=WHICH,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.CHOICE,
        choices=tuple(role.value for role in Role),
        metavar="ROLE",
    ),
    Flag(
        name="tail",
        letter="n",
        help="Print the last N lines of each worker only.",
        group=WHICH,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.NUMBER,
        least=0,
        metavar="N",
    ),
    Flag(
        name="since",
        help="Print lines since then only: 10m ago, 2h, 1d, or a time such as 2026-11-18T09:30 or 09:30, in your time zone unless it "
        "ends with Z or +08:00.",
        group=WHICH,
        origin=FlagOrigin.UMIAK,
        metavar="TIME",
    ),
    Flag(
        name="raw",
        help="Print lines as they were written, with colours and other sequences that steer a terminal. Default: they are left out, and of "
        "a progress bar the last state is printed.",
        group=SHOWN,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
    Flag(
        name="json",
        help="Print JSON: one object per line.",
        group=SHOWN,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
)

WAIT = (
    Flag(
        name="timeout",
        help="Stop waiting after this long, with exit status 3; the job goes on.",
        group=WHICH,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SECONDS,
        least=0,
        metavar="SECONDS",
    ),
    JSON,
)

CANCEL = (
    Flag(
        name="grace",
        help="Time workers have to exit after SIGTERM; then they are killed.",
        group=WHICH,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SECONDS,
        default=30.0,
        least=0,
        metavar="SECONDS",
    ),
    JSON,
)

LIST = (
    Flag(
        name="on",
        help="List the runs of this place only.",
        group=WHICH,
        origin=FlagOrigin.UMIAK,
        metavar="PLACE",
    ),
    Flag(
        name="everybody",
        help="List all runs that the place itself knows of, also those that others submitted; without --on, of the default place.",
        group=WHICH,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
    Flag(
        name="limit",
        letter="n",
        help="List so many runs.",
        group=WHICH,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.NUMBER,
        default=20,
        least=1,
        metavar="N",
    ),
    Flag(
        name="all",
        letter="a",
        help="List all runs.",
        group=WHICH,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
    JSON,
    WATCH,
    INTERVAL,
)

EXEC = (
    Flag(
        name="node",
        help="Run it on this node: its number or its name in `umiak status`.",
        group=WHICH,
        origin=FlagOrigin.UMIAK,
        metavar="N",
    ),
    Flag(
        name="rank",
        help="Run it beside this worker: its rank among the trainers, or in its --role.",
        group=WHICH,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.NUMBER,
        least=0,
        metavar="R",
    ),
    Flag(
        name="role",
        help="Run it beside a worker of this role.",
        group=WHICH,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.CHOICE,
        choices=tuple(role.value for role in Role),
        metavar="ROLE",
    ),
    Flag(
        name="all",
        letter="a",
        help="Run it on every node at once; each line of output begins with its node.",
        group=WHICH,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
    Flag(
        name="tty",
        letter="t",
        help="Give the command a terminal, as editors and debuggers need; a shell has one.",
        group=SHOWN,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
)

FETCH = (
    Flag(
        name="to",
        help="Put the files into this directory; without it, into one with the run's id.",
        group=WHICH,
        origin=FlagOrigin.UMIAK,
        metavar="DIR",
    ),
    Flag(
        name="node",
        help="Fetch from this node only: its number or its name in `umiak status`.",
        group=WHICH,
        origin=FlagOrigin.UMIAK,
        metavar="N",
    ),
    Flag(
        name="list",
        letter="l",
        help="List the files with their sizes, and fetch nothing.",
        group=SHOWN,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
    Flag(
        name="overwrite",
        help="Replace files here that differ and were not fetched from the run.",
        group=WHICH,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
    JSON,
)
