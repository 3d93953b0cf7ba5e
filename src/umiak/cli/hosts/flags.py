"""The flags of `umiak hosts`: a table. Values."""

from __future__ import annotations

from umiak.core.job import FrameworkName
from umiak.schema.flags import Flag, FlagKind, FlagOrigin

WHERE = "Hosts"
HOW = "How"

FLAGS = (
    Flag(
        name="on",
        help='Place with `backend = "ssh"`, as umiak.toml or your own config.toml name it. Default: default_place.',
        group=WHERE,
        origin=FlagOrigin.UMIAK,
        metavar="PLACE",
        elsewhere=("place",),
    ),
    Flag(
        name="host",
        help="Only this host of the place. Repeatable.",
        group=WHERE,
        origin=FlagOrigin.UMIAK,
        many=True,
        metavar="HOST",
    ),
    Flag(
        name="timeout",
        help="run: stop waiting for the command after this long.",
        group=HOW,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SECONDS,
        least=0.1,
        metavar="SECONDS",
    ),
    Flag(
        name="framework",
        help="check: framework that must be importable.",
        group=HOW,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.CHOICE,
        choices=tuple(each.value for each in FrameworkName),
        default=FrameworkName.NONE.value,
        metavar="NAME",
    ),
    Flag(
        name="older_than",
        help="clean: remove ended runs, sent files and launchers not used for this long. Default: keep_days of the place.",
        group=HOW,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SECONDS,
        least=0,
        metavar="SECONDS",
    ),
    Flag(
        name="json",
        help="Print JSON: one object per line of output, and one per host.",
        group=HOW,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
)
