"""Tables in few columns: nothing is wider, what matters stays, and without a width all is there."""

from __future__ import annotations

from tests.support import chance
from tests.support.effort import times
from umiak.cli.texts import table_layout

LIST = [
    ["RUN", "STATE", "PLACE", "HANDLE"],
    ["train-3f2a9c10", "running", "lab", "ssh://lab/train-3f2a9c10"],
    ["\u4e2d\u6587", "failed", "", "local://local/x"],
]


def test_columns_are_left_out_in_their_order() -> None:
    assert table_layout.rows(LIST).splitlines()[0].split() == LIST[0]
    kept = {
        width: table_layout.rows(LIST, width, leave_out=("HANDLE", "PLACE")).splitlines()[0].split()
        for width in (80, 40, 24, 12)
    }
    assert kept == {
        80: ["RUN", "STATE", "PLACE", "HANDLE"],
        40: ["RUN", "STATE", "PLACE"],
        24: ["RUN", "STATE"],
        12: ["RUN", "STATE"],
    }


def test_what_is_long_goes_below_its_row() -> None:
    table = [
        ["NODE", "STATE", "REASON"],
        ["node0", "failed", "it ended with 7, as it should not"],
        ["node1", "lost", ""],
    ]
    assert table_layout.rows(table, 20, below="REASON").splitlines() == [
        "NODE   STATE",
        "node0  failed",
        "  it ended with 7,",
        "  as it should not",
        "node1  lost",
    ]


def test_nothing_is_wider_than_the_terminal() -> None:
    draw = chance()
    letters = "ab -/.\u4e2d"
    for _ in range(times(300)):
        width = draw.randrange(8, 60)
        table = [["ONE", "TWO", "THREE"]]
        table += [["".join(draw.choices(letters, k=draw.randrange(40))) for _ in range(3)] for _ in range(4)]
        texts = [
            table_layout.rows(table, width),
            table_layout.rows(table, width, leave_out=("TWO",), below="THREE"),
            table_layout.pairs([row[:2] for row in table], width),
        ]
        for text in texts:
            assert max(map(table_layout.columns_of, text.splitlines())) <= width, (width, table)
