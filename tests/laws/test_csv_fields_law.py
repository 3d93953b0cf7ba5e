"""Whatever bytes a file of CSV has, its fields are those that Python's own `csv` finds: many rows at once, one by one and by the rules, with quotes at
every place of the blocks that are looked at together, and wherever the file is cut."""

from __future__ import annotations

import csv
import io
import itertools
import random
from collections.abc import Sequence

import pytest
import umiak_native

from tests.support import chance
from tests.support.effort import times

NAMES = ("a", "b", "c")
PIECES = (
    b"x",
    b"yy",
    b",",
    b",",
    b"\n",
    b"\r\n",
    b'"',
    b'""',
    b'"q"',
    b'"a,b"',
    b'"a\nb"',
    b'"",',
    b',"',
    b'"\n',
    b"\0",
    b"\xff",
    b"\xc3",
    b" ",
)
BORDERS = (64, 128, 64 << 10, (64 << 10) + 64, 256 << 10, 512 << 10)
"""Of the blocks, of what is looked at together, and of what is read at once."""


def by_python(content: bytes, columns: int) -> list[list[bytes]]:
    """The rows with so many fields; each byte is a character."""
    csv.field_size_limit(1 << 30)
    rows = csv.reader(io.StringIO(content.decode("latin-1"), newline=""))
    return [[field.encode("latin-1") for field in row] for row in rows if len(row) == columns]


def by_umiak(content: bytes, columns: int, batch_rows: int, ends: Sequence[int | None] = (None,)) -> list[list[bytes]]:
    """The same, part after part."""
    found: list[list[bytes]] = []
    wants = [(name, "values") for name in NAMES[:columns]]
    dialect, start = (ord(","), ord('"'), list(NAMES[:columns])), 0
    for end in ends:
        source = (len(content), lambda at, count: content[at : at + count])
        rows = umiak_native.text_rows("t", source, wants, dialect, start, end, pass_bad=True)
        while (batch := rows.next_batch(batch_rows)) is not None:
            texts = []
            for (offsets, text), _, _, _ in batch[4]:  # type: ignore[misc]
                places = offsets.tolist()
                raw = text.tobytes()
                texts.append([raw[one:other] for one, other in itertools.pairwise(places)])
            found += [list(row) for row in zip(*texts, strict=True)]
        start = end or 0
    return found


def soup(dice: random.Random, most: int) -> bytes:
    """Anything, often with as many fields in a row as there should be."""
    words = dice.choice([PIECES, PIECES[:6], PIECES[:6] + PIECES[8:11], (b"x", b'"q"', b'"a""b"', b'"\n"', b"")])
    if words is not PIECES and dice.random() < 0.8:
        end = dice.choice([b"\n", b"\r\n"])
        fields = [word.strip(b",\r\n") if word in PIECES[:6] else word for word in words]
        return b"".join(b",".join(dice.choices(fields, k=3)) + end for _ in range(dice.randrange(most)))
    return b"".join(dice.choices(words, k=dice.randrange(4 * most)))


def test_fields_of_any_bytes_are_those_of_pythons_csv() -> None:
    dice = chance()
    for _ in range(times(2_000)):
        content, columns = soup(dice, 60), dice.choice([1, 2, 3, 3])
        expected = by_python(content, columns)
        assert by_umiak(content, columns, dice.choice([1, 3, 1000])) == expected, content


def test_a_quote_may_be_at_any_border_of_a_block() -> None:
    dice = chance()
    for _ in range(times(60)):
        border = dice.choice(BORDERS)
        long = b"y" * dice.choice([1, 60, 64, 300, 70_000, 300_000])
        even = b"x,%d,z\n" % dice.randrange(10**6)
        before = even * (max(0, border - dice.randrange(80)) // len(even))
        before += b"p" * (border - len(before) - dice.randrange(8)) if len(before) < border else b""
        odd = dice.choice(
            [
                b'"q",1,2\r\n',
                b'"a,\n""b",1,"2"\n',
                b',"' + long + b'",""\n',
                b'5" pipe,1,\n',
                b'"a"b,1,2\n',
                b'"",,\n',
                b"\n\n",
            ]
        )
        content = before + odd + soup(dice, 20)
        assert by_umiak(content, 3, dice.choice([7, 500, 100_000])) == by_python(content, 3), content[border - 100 :]


def test_cuts_are_where_rows_begin() -> None:
    dice = chance()
    for _ in range(times(200)):
        content = soup(dice, 200)
        every = dice.choice([1, 10, 64, 500])
        source = (len(content), lambda at, count, raw=content: raw[at : at + count])
        cuts = umiak_native.csv_cuts("t", source, ord(","), ord('"'), every)
        assert sorted(set(cuts)) == cuts
        assert by_umiak(content, 3, 1000, [*cuts, None]) == by_python(content, 3), (content, cuts)
        rows = content.split(b"\n")
        if b'"' not in content:
            begins = [sum(len(row) + 1 for row in rows[:number]) for number in range(1, len(rows))]
            wanted, following = [], every
            for place in begins:
                if place >= following and place < len(content):
                    wanted.append(place)
                    following = place - place % every + every
            assert cuts == wanted


def test_lines_are_counted_through_quoted_newlines() -> None:
    dice = chance()
    for _ in range(times(100)):
        rows = [
            dice.choice([b'1,"a\n\nb",c\n', b'2,"d",e\n', b"3,f,g\n", b"\n", b'"4",h,i\r\n'])
            for _ in range(dice.randrange(400))
        ]
        content = b"".join(rows) + b"bad,k,l\n" + soup(dice, 5)
        source = (len(content), lambda at, count, raw=content: raw[at : at + count])
        reader = umiak_native.text_rows("t", source, [("a", "numbers")], (44, 34, list(NAMES)))
        batches = iter(lambda reader=reader: reader.next_batch(dice.choice([1, 50, 1000])), None)
        with pytest.raises(umiak_native.TableError) as caught:
            list(batches)
        assert caught.value.line == b"".join(rows).count(b"\n") + 1


def test_numbers_of_all_lengths_are_pythons() -> None:
    dice = chance()
    for _ in range(times(50)):
        texts = []
        for _ in range(dice.randrange(1, 200)):
            digits = "".join(dice.choices("0123456789", k=dice.randrange(1, 20)))
            texts.append(dice.choice(["", "-", "+"]) + dice.choice([digits, digits + ".5", digits, f"{digits}e3"]))
        content = "".join(f"{text},{text}\n" for text in texts).encode()
        source = (len(content), lambda at, count, raw=content: raw[at : at + count])
        wants = [("a", "numbers"), ("b", "numbers")]
        batch = umiak_native.text_rows("t", source, wants, (44, 34, ["a", "b"])).next_batch(1000)
        assert batch is not None
        for column in batch[4]:
            assert [repr(float(value)) for value in column[0]] == [repr(float(text)) for text in texts]  # type: ignore[union-attr]
