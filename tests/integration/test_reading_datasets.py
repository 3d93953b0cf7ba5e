"""Reader classes that open files themselves: batches, division among trainers, positions, errors with their places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from umiak.core.problem import UmiakError
from umiak.data.parts import File
from umiak.train import reading
from umiak.train.config.paddlerec.reader_text import reads_one_by_one
from umiak.train.config.values import Dataset, DatasetType, DivideBy
from umiak.train.reading.batches import StackedBatch
from umiak.train.reading.datasets import division, stacking
from umiak.train.reading.pool import UserCodeError

READER = """
import numpy as np

class RecDataset:
    def __init__(self, file_list, config):
        self.file_list = file_list
        self.scale = config.get("hyper_parameters.scale", 1)

    def __iter__(self):
        for file in self.file_list:
            with open(file) as rf:
                for line in rf:
                    number = int(line)
                    yield [np.array([number * self.scale]), np.array([number, 0.5]).astype("float32"), number, "n%d" % number]
"""
MAP_STYLE = """
import random

class RecDataset:
    def __init__(self, file_list, config):
        self.numbers = []
        for file in file_list:
            with open(file) as rf:
                self.numbers += [int(line) for line in rf]
        random.shuffle(self.numbers)

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, at):
        return self.numbers[at]
"""


def made(tmp_path: Path, reader: str = READER, files: int = 1, lines: int = 10, **said: Any) -> tuple[Dataset, Any]:
    (tmp_path / "reader.py").write_text(reader)
    (tmp_path / "data").mkdir()
    for file in range(files):
        numbers = range(file * lines, (file + 1) * lines)
        (tmp_path / "data" / f"part-{file}").write_text("".join(f"{each}\n" for each in numbers))
    dataset = Dataset(
        name="train",
        data_path=str(tmp_path / "data"),
        type=DatasetType.REC_DATASET,
        data_converter=str(tmp_path / "reader.py"),
        reader_class="RecDataset",
        **{"batch_size": 4, **said},
    )
    return dataset, reading.find(dataset)


def read(dataset: Dataset, found: Any, **more: Any) -> list[StackedBatch]:
    with reading.read(dataset, found, **more) as samples:
        return [batch for batch in samples if isinstance(batch, StackedBatch)]


def numbers(batches: list[StackedBatch], field: int = 0) -> list[int]:
    return [int(each) for batch in batches for each in batch.arrays[field].reshape(-1)]


def test_samples_are_stacked_as_the_data_loader_does(tmp_path: Path) -> None:
    dataset, found = made(tmp_path)
    batches = read(dataset, found, config="/x/c.yaml", settings={"hyper_parameters": {"scale": 3}})
    assert [batch.size for batch in batches] == [4, 4, 2]
    first = batches[0].arrays
    assert first[0].tolist() == [[0], [3], [6], [9]]
    assert first[0].dtype == np.int64
    assert first[1].dtype == np.float32
    assert first[1].shape == (4, 2)
    assert first[2].tolist() == [0, 1, 2, 3]
    assert first[3] == ["n0", "n1", "n2", "n3"]


def test_a_batch_that_is_not_full_can_be_left_out(tmp_path: Path) -> None:
    dataset, found = made(tmp_path, drop_last=True)
    assert [batch.size for batch in read(dataset, found)] == [4, 4]


@pytest.mark.parametrize(
    ("divide_by", "files", "processes"),
    [(DivideBy.SAMPLES, 1, 2), (DivideBy.SAMPLES, 5, 1), (DivideBy.FILES, 5, 2), (DivideBy.FILES, 1, 1)],
)
def test_each_sample_is_read_by_one_trainer(tmp_path: Path, divide_by: DivideBy, files: int, processes: int) -> None:
    dataset, found = made(tmp_path, files=files, divide_by=divide_by, reader_processes=processes)
    shares = [numbers(read(dataset, found, rank=rank, world=2)) for rank in range(2)]
    assert all(shares)
    assert sorted(shares[0] + shares[1]) == list(range(files * 10))


def test_several_processes_keep_the_order_of_one(tmp_path: Path) -> None:
    dataset, found = made(tmp_path, reader_processes=3)
    assert numbers(read(dataset, found)) == list(range(10))


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("reader", [READER, MAP_STYLE])
def test_reading_goes_on_from_a_position(tmp_path: Path, reader: str, processes: int) -> None:
    dataset, found = made(tmp_path, reader, files=3, reader_processes=processes)
    field = 2 if reader is READER else 0
    whole = numbers(read(dataset, found, epoch=1, seed=5), field)
    with reading.read(dataset, found, epoch=1, seed=5) as samples:
        before = [next(samples), next(samples), next(samples)]
        position = samples.position()
    after = read(dataset, found, epoch=1, seed=5, position=position)
    assert numbers([*before, *after], field) == whole  # type: ignore[list-item]
    assert sorted(whole) == list(range(30))


def test_map_style_readers_that_shuffle_are_divided_without_loss(tmp_path: Path) -> None:
    dataset, found = made(tmp_path, MAP_STYLE, lines=21)
    shares = [numbers(read(dataset, found, rank=rank, world=2, seed=3)) for rank in range(2)]
    assert sorted(shares[0] + shares[1]) == list(range(21))
    assert sorted(map(len, shares)) == [9, 12]


def test_processes_are_used_again_for_the_next_epoch(tmp_path: Path) -> None:
    dataset, found = made(tmp_path)
    pool = reading.processes(dataset)
    assert pool is not None
    try:
        for epoch in range(3):
            assert numbers(read(dataset, found, epoch=epoch, pool=pool)) == list(range(10))
        assert pool.is_open
    finally:
        pool.close()


def test_a_part_that_was_handed_out(tmp_path: Path) -> None:
    dataset, found = made(tmp_path, files=4, divide_by=DivideBy.FILES)
    parts = division.parts_of(found.files, world=2, divide_by=DivideBy.FILES, handed_out=True)
    assert len(parts) == 4
    seen = []
    for part in parts:
        with reading.read_part(dataset, found, part) as samples:
            seen += numbers(list(samples))  # type: ignore[arg-type]
    assert sorted(seen) == list(range(40))


def test_readers_may_give_whole_batches(tmp_path: Path) -> None:
    reader = """
import numpy as np
class RecDataset:
    def __init__(self, file_list, config):
        pass
    def __iter__(self):
        for size in (3, 5):
            yield {"x": np.zeros((size, 2)), "y": [np.ones(size)]}
"""
    dataset, found = made(tmp_path, reader, ready_batches=True)
    batches = read(dataset, found)
    assert [batch.size for batch in batches] == [3, 5]
    assert batches[1].arrays[0]["y"][0].shape == (5,)


def test_an_error_names_the_line_of_the_data_and_of_the_reader(tmp_path: Path) -> None:
    dataset, found = made(tmp_path)
    (tmp_path / "data" / "part-0").write_text("1\n2\n3\nfour\n5\n")
    with pytest.raises(UserCodeError) as raised:
        read(dataset, found)
    problem = raised.value.problems[0]
    assert problem.where == f"{tmp_path}/data/part-0:4"
    assert "after sample 3" in problem.what
    assert "reader.py" in problem.what
    assert "number = int(line)" in (problem.why or "")


def test_samples_that_can_not_be_stacked_are_told_with_their_number(tmp_path: Path) -> None:
    reader = READER.replace("np.array([number * self.scale])", "np.zeros(2 if number == 6 else 1)")
    dataset, found = made(tmp_path, reader)
    with pytest.raises(UserCodeError) as raised:
        read(dataset, found)
    problem = raised.value.problems[0]
    assert "sample 7 can't be stacked to a batch: field 0 has the shape (2,)" in problem.what
    assert problem.where is not None
    assert problem.where.startswith(f"{tmp_path}/data/part-0")


@pytest.mark.parametrize(
    ("reader", "told"),
    [
        ("import nothing_like_this\n", "No module named 'nothing_like_this'"),
        ("class RecDatasets: pass\n", "has no class RecDataset"),
        ("class RecDataset: pass\n", "neither __iter__ nor __getitem__"),
        (READER.replace("self.scale = ", "self.scale = 1 / 0 #"), "can't be made: ZeroDivisionError"),
        ("import os\n" + READER.replace("number = int(line)", "os._exit(3)"), "exit status 3"),
    ],
)
def test_classes_that_do_not_work_are_told(tmp_path: Path, reader: str, told: str) -> None:
    dataset, found = made(tmp_path, reader)
    with pytest.raises(UmiakError) as raised:
        read(dataset, found)
    assert told in str(raised.value.problems[0])


def test_directories_and_empty_ones_are_handed_to_the_reader(tmp_path: Path) -> None:
    dataset, _ = made(
        tmp_path,
        "class RecDataset:\n  def __init__(self, f, c): self.f = f\n  def __iter__(self): yield from [str(self.f)]\n",
    )
    (tmp_path / "data" / "part-0").unlink()
    (tmp_path / "data" / "inner").mkdir()
    assert read(dataset, reading.find(dataset))[0].arrays[0] == f"['{tmp_path}/data/inner']"
    (tmp_path / "data" / "inner").rmdir()
    assert read(dataset, reading.find(dataset))[0].arrays[0] == "[]"


def test_a_reader_does_not_divide_what_is_divided_already(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    reader = "import os\n" + READER.replace("= file_list", "= file_list[int(os.environ.get('PADDLE_TRAINER_ID', 0)):]")
    dataset, found = made(tmp_path, reader, files=2)
    shares = [numbers(read(dataset, found, rank=rank, world=2)) for rank in range(2)]
    assert sorted(shares[0] + shares[1]) == list(range(20))


@pytest.mark.parametrize("is_needed", [False, True])
def test_paddle_is_imported_by_readers_that_need_it(tmp_path: Path, *, is_needed: bool) -> None:
    pytest.importorskip("paddle")
    reader = """
import sys
import paddle
from paddle.io import IterableDataset
class RecDataset(IterableDataset):
    def __init__(self, file_list, config):
        super(RecDataset, self).__init__()
    def __iter__(self):
        if IS_NEEDED:
            import paddle.nn.functional as F
            yield [F.relu(paddle.to_tensor([-1.0, 2.0])), int("paddle.base" in sys.modules)]
        else:
            yield [1.0, int("paddle.base" in sys.modules)]
""".replace("IS_NEEDED", str(is_needed))
    dataset, found = made(tmp_path, reader)
    fields = read(dataset, found)[0].arrays
    assert fields[1].tolist() == [int(is_needed)]
    assert fields[0].tolist() == ([[0.0, 2.0]] if is_needed else [1.0])


def test_a_reader_that_is_not_there_is_told(tmp_path: Path) -> None:
    dataset, found = made(tmp_path)
    (tmp_path / "reader.py").unlink()
    with pytest.raises(UmiakError, match="there is no Python file"):
        read(dataset, found)


def test_other_batches_do_not_go_on_from_a_position(tmp_path: Path) -> None:
    dataset, found = made(tmp_path)
    with reading.read(dataset, found) as samples:
        next(samples)
        position = samples.position()
    other, _ = (
        Dataset(
            **{
                name: getattr(dataset, name) for name in ("name", "data_path", "type", "data_converter", "reader_class")
            },
            batch_size=2,
        ),
        0,
    )
    with pytest.raises(UmiakError, match="batches of 2, it was"):
        reading.read(other, found, position=position)


ONE_BY_ONE = """
class RecDataset(IterableDataset):
    def __init__(self, file_list, config):
        super(RecDataset, self).__init__()
        self.file_list = file_list
        self.init()
    def init(self):
        self.x = 1
    def __iter__(self):
        for file in self.file_list:
            yield file
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", True),
        ("self.x = 1", "self.x = len(self.file_list)", False),
        ("self.x = 1", "for f in self.file_list: pass", False),
        ("for file in self.file_list", "for file in self.file_list[:1]", False),
        ("self.file_list = file_list", "self.file_list = file_list; self.first = file_list[0]", False),
        ("for file in self.file_list", "for file in open('other')", False),
        ("__iter__", "__getitem__", False),
        ("(IterableDataset)", "(Base)", False),
    ],
)
def test_the_text_of_a_reader_says_whether_files_can_be_divided(old: str, new: str, *, expected: bool) -> None:
    assert reads_one_by_one(ONE_BY_ONE.replace(old, new) if old else ONE_BY_ONE) is expected


def test_uneven_files_are_divided_by_samples() -> None:
    files = [File(path="a", size=100), File(path="b", size=10)]
    parts = division.parts_of(files, world=2, divide_by=DivideBy.FILES)
    assert [(part.first, part.step) for part in parts] == [(0, 2), (1, 2)]
    even = [File(path=name, size=100) for name in "abcd"]
    assert [part.files for part in division.parts_of(even, world=2, divide_by=DivideBy.FILES)] == [
        ("a", "c"),
        ("b", "d"),
    ]


@pytest.mark.parametrize(
    "batch",
    [
        [np.zeros((0, 3)), np.array(2.5), np.arange(4, dtype="int32")[::2]],
        {"a": [np.ones((2, 2), bool)], "b": ["x", "y"]},
        [],
    ],
)
def test_a_batch_comes_out_as_it_went_in(batch: Any) -> None:
    tree, blocks = stacking.packed(batch)
    again = stacking.unpacked(tree, [bytes(block) for block in blocks])
    np.testing.assert_equal(again, batch)
