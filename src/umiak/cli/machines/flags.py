"""The flags of `umiak machines`: a table; and its page. Values."""

from __future__ import annotations

from umiak.cli.shared_flags import ALL, JSON, TIMEOUT, flag, shared, switch
from umiak.cli.texts.command_page import CommandPage
from umiak.core.value import replace
from umiak.schema.flags import FlagKind, FlagOrigin
from umiak.submit.machines.settings import RELEASE_FLAG

WHAT = "Machines"
HOW = "How"

FLAGS = (
    flag(
        "count",
        "up: number of machines that there shall be; only what is missing is created. Default: count of the table.",
        WHAT,
        kind=FlagKind.NUMBER,
        least=1,
        most=1000,
    ),
    replace(RELEASE_FLAG, group=WHAT, origin=FlagOrigin.UMIAK),
    flag("image_name", "image: name of the image; letters, digits and _.", WHAT, metavar="NAME"),
    flag("id", "image: machine to make it of. Default: the first one.", WHAT, metavar="ID"),
    shared(ALL, "list: machines of others in the same account as well.", WHAT),
    flag(
        "render",
        "up: print the machines as Terraform's JSON (alibaba, huawei); create nothing.",
        HOW,
        choices=("terraform",),
    ),
    switch("yes", "Do not ask. Without a terminal, `up` creates nothing unless this is said.", HOW, letter="y"),
    replace(TIMEOUT, help="Stop waiting for machines or an image after this long.", group=HOW, least=1, default=900),
    shared(JSON, "Print JSON: one object per machine, or one for an image.", HOW),
)

PAGE = CommandPage(
    usage=(
        "umiak machines up NAME [flags]",
        "umiak machines list [NAME] [flags]",
        "umiak machines image NAME --image_name IMAGE [flags]",
        "umiak machines down NAME [flags]",
    ),
    about="Rent machines of a cloud as `[machines.NAME]` of umiak.toml describes them, run jobs on them with `umiak submit --on "
    "NAME`, and release them. Baidu BCC is built in; for Alibaba and Huawei, Terraform's JSON is printed.",
    examples=(
        ("umiak machines up gpu", "shows the price, asks, creates"),
        ("umiak machines up gpu --count 4", "two more, if there are two"),
        ("umiak submit --on gpu --nnodes 4 -- train.py", "a job on them"),
        ("umiak machines list", "what runs, its price and release"),
        ("umiak machines image gpu --image_name ctr_1", "an image of the first one"),
        ("umiak machines down gpu", "releases all, with their disks"),
        ("umiak machines up ali --render terraform > main.tf.json", "for terraform apply"),
    ),
    flags=FLAGS,
    ending="Exit status: 0 if it worked, 2 for a wrong request or no `yes`, 3 if the cloud refused, did not answer, or was too "
    "slow.",
)
