"""The flags of `umiak data`: a table; and its page. Values."""

from __future__ import annotations

from umiak.cli.shared_flags import JSON, flag, shared, switch
from umiak.cli.texts.command_page import CommandPage
from umiak.schema.flags import FlagKind

HOW = "How texts are read"
WHAT = "What is looked at"

FLAGS = (
    flag("rows", "show: so many of the first rows.", WHAT, kind=FlagKind.NUMBER, default=5, least=0),
    flag("column", "show: only this column. Repeatable.", WHAT, many=True, metavar="NAME"),
    switch("whole", "check: read all rows, not only the first ones of each file.", WHAT),
    flag("number", "check: this column must be numbers. Repeatable.", WHAT, many=True, metavar="NAME"),
    flag(
        "delimiter", "Between fields of CSV. Default: found in the first row. \\t is a tab.", HOW, metavar="CHARACTER"
    ),
    switch("no_quotes", "Quotes in CSV are letters as others.", HOW),
    flag("names", "Columns of CSV without a header, with commas between them.", HOW, metavar="NAME,NAME"),
    flag("missing", "A text that means that nothing is there. Repeatable.", HOW, many=True, metavar="TEXT"),
    shared(JSON, "Print JSON.", WHAT),
)

PAGE = CommandPage(
    usage=("umiak data show FILE [flags]", "umiak data check FILES [flags]"),
    about="Look into tables: Parquet, CSV, TSV and JSON lines, also compressed with gzip or zstd, here or behind URLs. show prints the columns "
    "and first rows of a file; check says whether the columns of all files fit together, and whether they can be read.",
    examples=(
        ("umiak data show day.parquet", "columns, their types, first rows"),
        ("umiak data show s3://bucket/day.parquet --rows 0", "the columns alone: the footer is read"),
        ("umiak data check 'logs/*.parquet'", "footers, and first rows of each file"),
        ("umiak data check clicks.csv.gz --whole --number price", "all rows; prices are numbers"),
        ("umiak data show raw.tsv --names label,user,item", "a file without a header"),
    ),
    flags=FLAGS,
    ending="FILES are paths, directories, patterns in quotes and URLs. Exit status: 0 if all is well, 2 if something is wrong with the "
    "files or the command line, 3 if a file can't be reached.",
)
