"""The flags of `umiak machines`: a table. Values."""

from __future__ import annotations

from umiak.core.value import replace
from umiak.schema.flags import Flag, FlagKind, FlagOrigin
from umiak.submit.machines.settings import RELEASE_FLAG

WHAT = "Machines"
HOW = "How"

FLAGS = (
    Flag(
        name="count",
        help="up: number of machines that there shall be; only what is missing is created. Default: count of the table.",
        group=WHAT,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.NUMBER,
        least=1,
        most=1000,
        metavar="N",
    ),
    replace(RELEASE_FLAG, group=WHAT, origin=FlagOrigin.UMIAK),
    Flag(
        name="image_name",
        help="image: name of the image; letters, digits and _.",
        group=WHAT,
        origin=FlagOrigin.UMIAK,
        metavar="NAME",
    ),
    Flag(
        name="id",
        help="image: machine to make it of. Default: the first one.",
        group=WHAT,
        origin=FlagOrigin.UMIAK,
        metavar="ID",
    ),
    Flag(
        name="all",
        help="list: machines of others in the same account as well.",
        group=WHAT,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
    Flag(
        name="render",
        help="up: print the machines as Terraform's JSON (alibaba, huawei); create nothing.",
        group=HOW,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.CHOICE,
        choices=("terraform",),
        metavar="terraform",
    ),
    Flag(
        name="yes",
        help="Do not ask. Without a terminal, `up` creates nothing unless this is said.",
        group=HOW,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
        letter="y",
    ),
    Flag(
        name="timeout",
        help="Stop waiting for machines or an image after this long.",
        group=HOW,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SECONDS,
        least=1,
        default=900,
        metavar="TIME",
    ),
    Flag(
        name="json",
        help="Print JSON: one object per machine, or one for an image.",
        group=HOW,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
)
