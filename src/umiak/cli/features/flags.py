"""The flags of `umiak features`: a table; and its page. Values."""

from __future__ import annotations

from umiak.cli.data.flags import FLAGS as DATA_FLAGS
from umiak.cli.data.flags import HOW
from umiak.cli.shared_flags import JSON, QUIET, flag, shared, switch
from umiak.cli.texts.command_page import CommandPage
from umiak.schema.flags import FlagKind

WHAT = "What is fitted"
RUN = "Run"

_OF_DATA = {each.name: each for each in DATA_FLAGS}

FLAGS = (
    flag(
        "model",
        "Config with a section `features:`: a file, or a directory with a config.yaml.",
        WHAT,
        letter="m",
        metavar="CONFIG",
    ),
    flag(
        "data",
        "fit: all rows of these are read; check: the first ones. A path, directory, pattern or URL. Repeatable.",
        WHAT,
        many=True,
        metavar="PATH",
        elsewhere=("input",),
    ),
    flag("lock", "The lock. Default: features.lock.json beside the config.", WHAT, metavar="FILE", elsewhere=("out",)),
    switch("fresh", "fit: forget the words of an older lock, so that all numbers are new.", WHAT),
    flag(
        "threads",
        "fit: so many threads.",
        RUN,
        kind=FlagKind.NUMBER,
        default=1,
        least=1,
        most=256,
        elsewhere=("workers",),
    ),
    flag(
        "memory",
        "fit: GiB that the words of vocabularies may take, in each thread.",
        RUN,
        kind=FlagKind.NUMBER,
        default=4,
        least=1,
    ),
    *(_OF_DATA[name] for name in ("delimiter", "no_quotes", "names", "missing")),
    flag("bad_rows", "fit: leave out bad rows, up to this share of them.", HOW, metavar="SHARE"),
    shared(JSON, "Print JSON.", RUN),
    shared(QUIET, "Print no progress.", RUN),
)

PAGE = CommandPage(
    usage=(
        "umiak features fit -m CONFIG --data FILES [flags]",
        "umiak features show -m CONFIG [flags]",
        "umiak features check -m CONFIG [flags]",
    ),
    about="What a config's section `features:` has to learn from data - means, quantiles, vocabularies - is learned by fit in one pass, and written into "
    "features.lock.json beside the config. show prints it; check says whether it belongs to the config, and with --data whether files have "
    "what the features need.",
    examples=(
        ("umiak features fit -m ctr --data 'logs/*.parquet'", "one pass over all rows"),
        ("umiak features fit -m ctr --data monday.csv --threads 2", "again: words keep their numbers"),
        ("umiak features show -m ctr", "kinds, tables, counts, missing values"),
        ("umiak features check -m ctr --data day.jsonl", "the lock, and the first rows"),
    ),
    flags=FLAGS,
    ending="Exit status: 0 if all is well, 2 if something is wrong with the section, the lock or the data, 3 if a file can't be reached.",
)
