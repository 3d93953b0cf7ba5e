"""Flags that several commands have, each declared once, and short forms for flags of umiak's own. Values.

    FLAGS = (
        shared(JSON, "Print JSON: one object per line.", OUTPUT),
        flag("to", "Put the files into this directory.", WHICH, metavar="DIR"),
        switch("overwrite", "Replace files here that differ.", WHICH),
    )

A command says in which group a shared flag stands, and what it means there where that differs.
What it is called, the kind of its value and its other names are the same everywhere.
"""

from __future__ import annotations

from umiak.core.cluster import Role
from umiak.core.job import FrameworkName
from umiak.core.value import replace
from umiak.schema import flags
from umiak.schema.flags import FlagKind, FlagOrigin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Unpack

    from umiak.schema.flags import Flag, FlagRow

OUTPUT = "Output"


def flag(name: str, text: str, group: str, **more: Unpack[FlagRow]) -> Flag:
    """A flag of umiak's own."""
    row: FlagRow = {**more, "origin": FlagOrigin.UMIAK}
    return flags.flag(name, text, group, **row)


def switch(name: str, text: str, group: str, **more: Unpack[FlagRow]) -> Flag:
    """One without a value."""
    row: FlagRow = {**more, "kind": FlagKind.SWITCH}
    return flag(name, text, group, **row)


JSON = switch("json", "Print JSON.", OUTPUT)
WATCH = switch("watch", "Refresh until Ctrl-C.", OUTPUT, letter="w")
INTERVAL = flag("interval", "Time between refreshes.", OUTPUT, kind=FlagKind.SECONDS, default=2.0, least=0.1)
QUIET = switch("quiet", "Print notes, warnings and errors only.", OUTPUT, letter="q", elsewhere=("silent",))
SCHEMA = switch("schema", "Print the JSON schema of the file, for editors.", OUTPUT, elsewhere=("json_schema",))

TIMEOUT = flag("timeout", "Stop waiting after this long.", "How", kind=FlagKind.SECONDS, least=0)
FRAMEWORK = flag(
    "framework",
    "Framework that the script imports.",
    "How",
    choices=tuple(name.value for name in FrameworkName),
    default=FrameworkName.NONE.value,
    metavar="NAME",
)

NODE = flag("node", "This node: its number or its name in `umiak status`.", "Run", metavar="N")
RANK = flag(
    "rank",
    "This worker: its rank among the trainers, or in its --role.",
    "Run",
    kind=FlagKind.NUMBER,
    least=0,
)
ROLE = flag("role", "Workers of this role.", "Run", choices=tuple(role.value for role in Role), metavar="ROLE")
ALL = switch("all", "All of them.", "Run", letter="a")

KUBE_CONTEXT = flag("context", "Context of the kubeconfig. Default: the current one.", "Cluster", metavar="NAME")
KUBE_NAMESPACE = flag("namespace", "Namespace.", "Cluster", metavar="NAME")

ON = flag(
    "on", "Place of umiak.toml or your own config.toml.", "Place", metavar="PLACE", elsewhere=("place", "backend")
)
DRY_RUN = switch(
    "dry_run",
    "Print every file and command, secrets masked, every file that would be sent, and what is missing here; start nothing. "
    "Neither an account nor a client of the place is needed.",
    "Place",
    elsewhere=("dryrun",),
)
SUBMISSION = (
    DRY_RUN,
    switch(
        "allow_secret_files",
        "Send files that look like secrets as well, such as .env or private keys. Default: they are an error.",
        "Place",
    ),
    switch(
        "foreground",
        "Follow the logs until the job is over; Ctrl-C cancels it. The exit status is the job's.",
        "Place",
        elsewhere=("follow", "wait", "attach"),
    ),
    flag(
        "key",
        "Name of this submission, for scripts: with the same key again the same run is returned, also if it is over, and nothing is started.",
        "Place",
        metavar="TEXT",
    ),
)
"""Of `umiak submit` and of `umiak train --on`; `umiak.cli.runs.submit.send` obeys them."""


def shared(known: Flag, text: str, group: str) -> Flag:
    """One of the flags above, with what it means here."""
    return replace(known, help=text, group=group)


def of_submission(group: str, before: str = "") -> tuple[Flag, ...]:
    """The flags of a submission in a group, with a condition before what they mean."""
    return tuple(
        shared(known, f"{before}{known.help[0].lower()}{known.help[1:]}" if before else known.help, group)
        for known in SUBMISSION
    )
