"""Tables as wide as their contents, or as a terminal. A decider.

    rows([["RUN", "STATE"], ["ctr-3f2a9c", "running"]])
    rows(table, 40, leave_out=("HANDLE", "RAN"), below="REASON")     in 40 columns
    pairs([["directory", "/home/ann/project"]], 40)

Without a width nothing is left out or cut: that is what pipes and files get.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

GAP = "  "
CUT = ".."
LEAST_CELL = 4


def rows(
    table: Sequence[Sequence[str]], width: int | None = None, *, leave_out: Sequence[str] = (), below: str = ""
) -> str:
    """A table with a head. If it is too wide: first what stands ``below`` goes below its row,
    then empty columns are left out, then those of ``leave_out``, in this order; then the widest cells are cut.
    """
    columns = [list(column) for column in zip(*table, strict=True)]
    notes = [""] * len(table)
    if width is not None:
        if below and _width(columns) > width:
            notes = next((column for column in columns if column[0] == below), notes)
            columns = [column for column in columns if column[0] != below]
        if _width(columns) > width:
            columns = [column for column in columns if any(column[1:]) or len(table) == 1]
        for name in leave_out:
            if _width(columns) > width:
                columns = [column for column in columns if column[0] != name]
        _cut(columns, width)
    widths = [max(map(columns_of, column)) for column in columns]
    lines = []
    for number, row in enumerate(zip(*columns, strict=True)):
        line = GAP.join([_filled(cell, wide) for cell, wide in zip(row, widths, strict=True)]).rstrip()
        lines.append(line if width is None else cut(line, width))
        if number and notes[number]:
            lines += [f"  {part}" for part in wrapped(notes[number], max(LEAST_CELL, (width or 80) - 2))]
    return "".join(f"{line}\n" for line in lines)


def pairs(lines: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Names and values; a value that is too wide goes on in the next line, below its beginning."""
    names = max(columns_of(name) for name, _ in lines)
    shown = []
    for name, text in lines:
        head = _filled(name, names) + GAP
        room = None if width is None else width - columns_of(head)
        if room is None or columns_of(text) <= room:
            shown.append((head + text).rstrip())
        elif room < LEAST_CELL * 3:
            assert width is not None
            shown += [cut(name, width), *(f"  {part}" for part in wrapped(text, max(LEAST_CELL, width - 2)))]
        else:
            first, *rest = wrapped(text, room)
            shown += [head + first, *(" " * columns_of(head) + part for part in rest)]
    return "".join(f"{line}\n" for line in shown)


def cut(text: str, width: int) -> str:
    """At most so wide; what is cut ends with ``..``."""
    if columns_of(text) <= width:
        return text
    room, kept = max(0, width - len(CUT)), ""
    for letter in text:
        if columns_of(kept + letter) > room:
            break
        kept += letter
    return (kept + CUT)[:width] if width >= len(CUT) else kept


def height(lines: Iterable[str], width: int) -> int:
    """How many rows of a terminal lines take that it wraps itself."""
    return sum(max(1, -(-columns_of(line) // width)) for line in lines)


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most this width, broken between words where that is possible."""
    lines, line = [], ""
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if columns_of(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        line = word
        while columns_of(line) > width:
            count = next(n for n in range(len(line), 0, -1) if columns_of(line[:n]) <= width or n == 1)
            lines.append(line[:count])
            line = line[count:]
    return [*lines, line] if line or not lines else lines


def columns_of(text: str) -> int:
    """The columns that a text takes: two for a wide letter."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _filled(text: str, width: int) -> str:
    return text + " " * (width - columns_of(text))


def _width(columns: Sequence[Sequence[str]]) -> int:
    return sum(max(map(columns_of, column)) for column in columns) + len(GAP) * (len(columns) - 1)


def _cut(columns: list[list[str]], width: int) -> None:
    while (over := _width(columns) - width) > 0:
        widest = max(columns, key=lambda column: max(map(columns_of, column)))
        wide = max(map(columns_of, widest))
        if wide <= LEAST_CELL:
            return
        others = [max(map(columns_of, column)) for column in columns if column is not widest]
        room = max(LEAST_CELL, wide - over, min(wide - 1, max(others, default=0)))
        widest[:] = [cut(cell, room) for cell in widest]
