"""The files of a dataset: directories, patterns, files, URLs; the same for everybody."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.support.reader_helpers import joined, labels, slots
from tests.support.slot_helpers import packed
from umiak.adapters.stores import storage
from umiak.core.problem import Exit, UmiakError
from umiak.train import reading
from umiak.train.reading import finding


def tree(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"click:1 1:{len(name)}\n")


def names(path: Path | str) -> list[str]:
    return [file.path for file in reading.find(slots(path)).files]


def problem(path: Path | str, **options: Any) -> Any:
    with pytest.raises(UmiakError) as raised:
        reading.find(slots(path), **options)
    return raised.value.problems[0]


def test_a_directory_is_everything_below_it_but_hidden_names(tmp_path: Path) -> None:
    tree(tmp_path, "b", "a/2", "a/10", ".hidden", ".git/x", "a/.DS_Store", "z/y/x")
    assert names(tmp_path) == [f"{tmp_path}/{name}" for name in ("a/10", "a/2", "b", "z/y/x")]


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    tree(tmp_path, "data/a", "elsewhere/b")
    os.symlink(tmp_path / "elsewhere", tmp_path / "data" / "link")
    os.symlink(tmp_path / "data", tmp_path / "data" / "zircle")
    assert names(tmp_path / "data") == [f"{tmp_path}/data/a", f"{tmp_path}/data/link/b"]


def test_patterns_and_files(tmp_path: Path) -> None:
    tree(tmp_path, "day1/part-0", "day1/part-1", "day2/part-0", "day2/other", "day2/deep/part-9")
    assert names(tmp_path / "day1/part-1") == [f"{tmp_path}/day1/part-1"]
    assert names(tmp_path / "day*/part-*") == [
        f"{tmp_path}/{each}" for each in ("day1/part-0", "day1/part-1", "day2/part-0")
    ]
    assert names(tmp_path / "**/part-9") == [f"{tmp_path}/day2/deep/part-9"]
    assert names(tmp_path / "day[2]") == [f"{tmp_path}/day2/{each}" for each in ("deep/part-9", "other", "part-0")]


def test_some_directories_below(tmp_path: Path) -> None:
    tree(tmp_path, "20260101/0000/a", "20260101/0030/b", "20260101/0100/c")
    found = reading.find(slots(tmp_path), below=("20260101/0030", "20260101/0000"))
    assert [Path(file.path).name for file in found.files] == ["b", "a"]


def test_nothing_found_is_an_error_that_knows_better(tmp_path: Path) -> None:
    tree(tmp_path, "train/.hidden", "sample_data/train/a")
    empty = problem(tmp_path / "train", where="config.yaml:7:3")
    assert empty.code == "UM-DATA-006"
    assert empty.lines()[0].startswith("error: config.yaml:7:3: dataset train_data has no files: ")
    assert "hidden" in empty.why
    missing = problem(tmp_path / "sampel_data/train")
    assert f"did you mean `{tmp_path}/sample_data`?" in missing.hint
    assert problem(tmp_path / "train/part-*").why == "nothing fits"
    assert problem(tmp_path / "x/y/z").hint == f"there is {tmp_path}, but not {tmp_path}/x"


def test_the_digest_tells_names_and_sizes_but_not_where_it_is_mounted(tmp_path: Path) -> None:
    tree(tmp_path, "here/a", "here/b", "there/a", "there/b")
    here, there = (reading.find(slots(tmp_path / each)) for each in ("here", "there"))
    assert here.digest == there.digest
    assert here.size == there.size > 0
    assert reading.find(slots(tmp_path / "here/*")).digest == here.digest
    reading.agree([here.digest, there.digest], "d")
    (tmp_path / "there/b").write_text("click:0\nclick:1\n")
    changed = reading.find(slots(tmp_path / "there"))
    (tmp_path / "there/b").rename(tmp_path / "there/c")
    renamed = reading.find(slots(tmp_path / "there"))
    assert len({here.digest, changed.digest, renamed.digest}) == 3
    with pytest.raises(UmiakError, match="trainers do not see the same files: 1, 3 and 0 differ") as raised:
        reading.agree([here.digest, changed.digest, here.digest, renamed.digest], "d")
    assert raised.value.exit_status == Exit.REFUSED


# ---- URLs


class Memory:
    """As much of an fsspec file system as is used, over a dictionary; the real one is tried where it is installed."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.opened: list[str] = []

    def find(self, path: str) -> list[str]:
        return [name for name in self.files if name == path or name.startswith(f"{path.rstrip('/')}/")]

    def glob(self, pattern: str) -> list[str]:
        from fnmatch import fnmatch

        return [name for name in self.files if fnmatch(name, pattern)]

    def isdir(self, path: str) -> bool:
        return path not in self.files

    def unstrip_protocol(self, name: str) -> str:
        return f"mem://{name}"

    def info(self, path: str) -> dict[str, Any]:
        return {"size": len(self.files[path])}

    def invalidate_cache(self) -> None:
        pass

    def cat_file(self, path: str, start: int, end: int) -> bytes:
        return self.files[path][start:end]

    def open(self, path: str, mode: str) -> Any:
        import io

        self.opened.append(path)
        return io.BytesIO(self.files[path])


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Memory:
    system = Memory({})
    core = types.ModuleType("fsspec.core")
    core.url_to_fs = lambda url: (system, url.partition("://")[2])  # type: ignore[attr-defined]
    package = types.ModuleType("fsspec")
    package.core = core  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fsspec", package)
    monkeypatch.setitem(sys.modules, "fsspec.core", core)
    monkeypatch.setattr(storage, "default_directory", lambda: str(tmp_path / "copies"))
    return system


def test_urls_are_read_like_files(memory: Memory, tmp_path: Path) -> None:
    text = "".join(f"click:{number} 1:7\n" for number in range(10, 50)).encode()
    memory.files |= {
        "bucket/day/b.gz": packed(text[260:], "gzip"),
        "bucket/day/a": text[:260],
        "bucket/day/.tmp": b"?",
        "bucket/other": b"?",
    }
    dataset = slots("mem://bucket/day")
    found = reading.find(dataset)
    assert [file.path for file in found.files] == ["mem://bucket/day/a", "mem://bucket/day/b.gz"]
    assert [file.packed for file in found.files] == [False, True]
    assert names("mem://bucket/day/*.gz") == ["mem://bucket/day/b.gz"]
    reading.check(dataset, found)
    shares = [labels(reading.read(dataset, found, rank=rank, world=3)) for rank in range(3)]
    assert joined(shares) == list(range(10, 50))
    assert memory.opened == ["bucket/day/a", "bucket/day/b.gz"], "each is fetched once"
    assert sorted(path.name for path in (tmp_path / "copies").glob("*/*")) == ["a", "b.gz"]


def test_a_copy_that_is_cut_off_is_not_kept(memory: Memory, tmp_path: Path) -> None:
    memory.files["bucket/a"] = b"click:1 1:2\n"
    memory.info = lambda path: {"size": 1000}  # type: ignore[method-assign]
    with pytest.raises(UmiakError) as raised:
        storage.fetch("mem://bucket/a")
    assert raised.value.problems[0].code == "UM-DATA-008"
    assert "12 bytes of 1000" in str(raised.value.problems[0].why)
    assert list((tmp_path / "copies").glob("*/*")) == []


def test_nothing_behind_a_url_and_a_refusal(memory: Memory) -> None:
    assert problem("mem://bucket/none").code == "UM-DATA-006"

    def refuse(path: str) -> list[str]:
        raise PermissionError("no key")

    memory.find = refuse  # type: ignore[method-assign]
    with pytest.raises(UmiakError) as raised:
        reading.find(slots("s3://me:secret@bucket/x"))
    assert raised.value.exit_status == Exit.REFUSED
    assert "secret" not in "\n".join(raised.value.problems[0].lines())


def test_without_fsspec_the_error_has_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    said = problem("s3://bucket/day")
    assert said.code == "UM-DATA-007"
    assert said.hint == "python -m pip install fsspec"


def test_the_real_fsspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.setattr(storage, "default_directory", lambda: str(tmp_path / "copies"))
    tree(tmp_path, "data/a", "data/b/c", "data/.hidden")
    dataset = slots(f"file://{tmp_path}/data")
    found = reading.find(dataset)
    assert [file.path for file in found.files] == [f"file://{tmp_path}/data/a", f"file://{tmp_path}/data/b/c"]
    assert labels(reading.read(dataset, found)) == [1, 1]
    assert names(f"file://{tmp_path}/data/*") == [f"file://{tmp_path}/data/a"]
    assert problem(f"file://{tmp_path}/none").code == "UM-DATA-006"
    assert problem("nosuchscheme://x").code == "UM-DATA-007"
    assert finding.digest([]) != found.digest


def test_sample_data_of_a_model_that_comes_with_umiak_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UmiakError) as caught:
        finding.names_of("umiak_data/rank/dnn/train", "train")
    assert caught.value.problems[0].hint == "`python -m umiak.models.sample rank.dnn` makes it"


def test_who_sees_the_very_same_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part").write_text("1:2\n")
    (tmp_path / "link").symlink_to("one")
    one, two, link = (reading.find(slots(tmp_path / name)) for name in ("one", "two", "link"))
    assert one.digest == two.digest == link.digest
    assert finding.held(one) == finding.held(link) != finding.held(two)
