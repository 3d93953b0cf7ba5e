"""The flags of `umiak new`: a table; and its page. Values."""

from __future__ import annotations

from umiak.cli.shared_flags import JSON, flag, shared
from umiak.cli.texts.command_page import CommandPage

WHAT = "What is looked at"

FLAGS = (
    flag("data", "Path, directory, pattern in quotes, or URL of tables.", WHAT, metavar="FILES"),
    flag(
        "label",
        "Column with the label: numbers from 0 to 1. Default: `click`, `label` or another usual name.",
        WHAT,
        metavar="COLUMN",
    ),
    flag("names", "Columns of CSV without a header, with commas between them.", WHAT, metavar="NAME,NAME"),
    shared(JSON, "Print JSON.", WHAT),
)

PAGE = CommandPage(
    usage=("umiak new DIRECTORY --data FILES [--label COLUMN]",),
    about="Look at tables (Parquet, CSV, TSV, JSON lines) and write DIRECTORY/config.yaml: which columns are ids, numbers, sequences and times, "
    "how much is missing, a model and a split into training and evaluation, with comments. Some rows of a few files are read, never whole files; "
    "a directory that is there is never overwritten.",
    examples=(
        ("umiak new ctr --data 'logs/*.parquet' --label click", "writes ctr/config.yaml"),
        ("umiak train -m ctr", "trains with it"),
        ("umiak new ctr --data s3://bucket/logs/", "behind a URL; the label by its name"),
    ),
    flags=FLAGS,
    ending="Exit status: 0 if it is written, 2 if something is wrong with the files or the command line, 3 if a file can't be reached.",
)
