"""Files divided among trainers: in order, evenly, and without a gap."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.slot_helpers import packed
from umiak.core.problem import UmiakError
from umiak.data import Part, split
from umiak.data.parts import pieces, weigh


def files(directory: Path, **sizes: int) -> list[str]:
    for name, size in sizes.items():
        (directory / name).write_bytes(b"x" * size)
    return [str(directory / name) for name in sizes]


def test_large_files_are_cut_and_small_ones_are_not(tmp_path: Path) -> None:
    a, b, c = files(tmp_path, a=10, b=80, c=10)
    assert split([a, b, c], 1) == [(Part(path=a), Part(path=b), Part(path=c))]
    assert split([a, b, c], 2) == [
        (Part(path=a), Part(path=b, start=0, end=40)),
        (Part(path=b, start=40, end=80), Part(path=c)),
    ]
    sizes = [
        sum((part.end or Path(part.path).stat().st_size) - part.start for part in share)
        for share in split([a, b, c], 7)
    ]
    assert sum(sizes) == 100
    assert max(sizes) - min(sizes) <= 1


def test_there_may_be_more_readers_than_bytes(tmp_path: Path) -> None:
    (a,) = files(tmp_path, a=3)
    shares = split([a], 5)
    assert [part for share in shares for part in share] == [Part(path=a, start=at, end=at + 1) for at in range(3)]
    assert len(shares) == 5


def test_nothing_to_divide(tmp_path: Path) -> None:
    assert split([], 3) == [(), (), ()]
    assert split(files(tmp_path, empty=0), 2) == [(), ()]


def test_compressed_files_stay_whole(tmp_path: Path) -> None:
    paths = []
    for number in range(6):
        paths.append(str(tmp_path / f"{number}"))
        Path(paths[-1]).write_bytes(packed(b"click:1\n" * 100, "gzip" if number % 2 else "zstd"))
    shares = split(paths, 3)
    assert [part for share in shares for part in share] == [Part(path=path) for path in paths]
    assert [len(share) for share in shares] == [2, 2, 2]


def test_what_is_impossible(tmp_path: Path) -> None:
    with pytest.raises(UmiakError, match="0 parts"):
        split([], 0)
    with pytest.raises(UmiakError, match="No such file"):
        split([tmp_path / "none"], 1)


def test_pieces_for_handing_out(tmp_path: Path) -> None:
    small, large, nothing = (weigh(path) for path in files(tmp_path, small=10, large=25, nothing=0))
    (tmp_path / "packed").write_bytes(packed(b"click:1\n" * 100, "gzip"))
    whole = weigh(tmp_path / "packed")
    assert whole.packed
    assert whole.weight > whole.size
    assert pieces([small, large, nothing, whole], 10) == (
        Part(path=small.path),
        Part(path=large.path, start=0, end=8),
        Part(path=large.path, start=8, end=16),
        Part(path=large.path, start=16, end=25),
        Part(path=whole.path),
    )
