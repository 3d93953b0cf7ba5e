"""Reader classes of users, in real processes: order, positions, errors with their lines, processes that die."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from tests.support.reader_helpers import csv, joined, labels, user_class
from tests.support.slot_helpers import packed
from umiak.core.problem import Exit, UmiakError
from umiak.train import reading
from umiak.train.config.values import Dataset
from umiak.train.reading import dividing, lines
from umiak.train.reading.user_samples import UserSamples


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    return directory


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that some lines are enough to keep several processes busy."""
    monkeypatch.setattr(lines, "CHUNK_BYTES", 100)


def opened(dataset: Dataset, **options: object) -> UserSamples:
    samples = reading.read(dataset, reading.find(dataset), **options)  # type: ignore[arg-type]
    assert isinstance(samples, UserSamples)
    return samples


def failure(dataset: Dataset, **options: object) -> UmiakError:
    with pytest.raises(UmiakError) as raised, opened(dataset, **options) as samples:
        list(samples)
    return raised.value


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_batches_look_like_the_native_readers(tmp_path: Path, data: Path) -> None:
    (data / "a").write_text(csv(6))
    with opened(user_class(tmp_path, data)) as samples:
        first, second = samples
    assert (first.size, second.size) == (4, 2)
    assert first.matrix(["click"]).tolist() == [[0], [1], [2], [3]]
    ids, offsets = first.sparse["ids"]
    assert (ids.dtype, offsets.dtype) == (np.int64, np.int64)
    assert offsets.tolist() == [0, 0, 1, 3, 6]
    assert ids.tolist() == [1000, 1000, 1001, 1000, 1001, 1002]
    assert first.dense["price"].dtype == np.float32
    assert first.dense["price"].tolist() == [[number + 0.25, 0.5] for number in range(4)]
    with pytest.raises(ValueError, match="slot ids has not exactly one"):
        first.matrix(["ids"])
    nothing = samples.empty()
    assert nothing.dense["price"].shape == (0, 2)
    assert set(nothing.sparse) == {"click", "ids"}


@pytest.mark.parametrize("how", ["plain", "gzip", "zstd"])
def test_the_order_of_lines_is_kept_and_shares_are_everything(tmp_path: Path, data: Path, how: str) -> None:
    for number in range(3):
        (data / str(number)).write_bytes(packed(csv(200, 200 * number).encode(), how, members=2))
    dataset = user_class(tmp_path, data, batch_size=64, processes=3)
    assert labels(opened(dataset)) == list(range(600))
    assert joined(labels(opened(dataset, rank=rank, world=2)) for rank in range(2)) == list(range(600))


def test_going_on_from_every_position(tmp_path: Path, data: Path) -> None:
    twice = """
        class Reader:
            def generate_sample(self, line):
                number = int(line)
                for times in range(number % 3):
                    yield [("click", [10 * number + times])]
                yield None
    """
    (data / "a").write_text("".join(f"{number}\n" for number in range(1, 20)))
    (data / "b.gz").write_bytes(packed(b"31\n32\n33", "gzip"))
    dataset = user_class(tmp_path, data, twice, batch_size=3, processes=1)
    whole = labels(opened(dataset))
    assert whole[:4] == [10, 20, 21, 40]
    assert whole[-3:] == [310, 320, 321]
    with opened(dataset) as samples:
        positions = [samples.position()]
        positions += [samples.position() for _ in samples]
    for number, position in enumerate(positions):
        assert labels(opened(dataset, position=position)) == whole[3 * number :]
    assert '\\"line\\": 5' in positions[2]
    assert f'{data}/a\\"' in positions[2]


def test_what_the_users_code_raises_has_the_line_of_the_data_and_its_traceback(tmp_path: Path, data: Path) -> None:
    (data / "a").write_text(csv(30))
    (data / "b").write_text(csv(20, 30) + "51,none\n" + csv(20, 60))
    dataset = user_class(tmp_path, data, batch_size=16)
    given = []
    with pytest.raises(reading.UserCodeError) as raised, opened(dataset) as samples:
        given.extend(batch.sparse["click"][0][0] for batch in samples)
    error = raised.value
    assert given == [0, 16, 32][: len(given)]
    assert len(given) >= 2, "what comes before the line is given out"
    assert (error.file, error.line) == (f"{data}/b", 21)
    (problem,) = error.problems
    assert problem.code == "UM-DATA-011"
    assert problem.where == f"{data}/b:21"
    assert "Reader raised ValueError: could not convert string to float: 'none'" in problem.what
    assert 'reader.py", line 13, in samples' in error.trace
    assert "umiak" not in error.trace
    assert error.exit_status == Exit.JOB_FAILED
    # Also where the part of a trainer begins in the middle of a file.
    halves = [opened(dataset, rank=rank, world=2) for rank in range(2)]
    assert len(labels(halves[0])) > 30
    with pytest.raises(reading.UserCodeError) as raised:
        labels(halves[1])
    assert raised.value.line == 21


SAMPLES = {
    "another number of values": ("[('a', [1.5, 2.5] if line != '3' else [1.5])]", "slot a has 1 values"),
    "another slot": ("[('a' if line != '3' else 'b', [1])]", "slot b where the first one has a"),
    "another number of slots": ("[('a', [1])] * (2 if line == '3' else 1)", "2 slots, the first one has 1"),
    "a fraction among ids": ("[('a', [1 if line != '3' else 1.5])]", "slot a has 1.5"),
    "too large": ("[('a', [2**64 if line == '3' else 2**64 - 1])]", "no number of 64 bits"),
    "no pairs": ("[('a', [1])] if line != '3' else 7", "not 7"),
    "no list": ("[('a', [1] if line != '3' else 'abc')]", "not 'abc'"),
    "exit": ("[('a', [1])] if line != '3' else __import__('sys').exit(5)", "SystemExit: 5"),
}


@pytest.mark.parametrize("case", SAMPLES)
def test_samples_that_do_not_fit_have_their_line(tmp_path: Path, data: Path, case: str) -> None:
    expression, words = SAMPLES[case]
    (data / "a").write_text("1\n2\n3\n4\n")
    text = f"class Reader:\n    def generate_sample(self, line):\n        yield {expression}\n"
    error = failure(user_class(tmp_path, data, text, processes=1))
    assert words in error.problems[0].what
    assert error.problems[0].where == f"{data}/a:3"


def test_ids_of_64_bits_and_numbers_of_numpy(tmp_path: Path, data: Path) -> None:
    (data / "a").write_text("\ufeff1\r\n2\n")
    text = """
        import numpy as np

        class Reader:
            def generate_sample(self, line):
                assert line in "12"
                yield [("big", (2**64 - 1, -5)), ("np", np.array([np.int32(7)])), ("x", np.array([[0.5], [1]]))]
    """
    with opened(user_class(tmp_path, data, text)) as samples:
        (batch,) = samples
    assert batch.sparse["big"][0].tolist() == [-1, -5, -1, -5]
    assert batch.sparse["np"][0].tolist() == [7, 7]
    assert batch.dense["x"].tolist() == [[0.5, 1.0]] * 2


CLASSES = {
    "a syntax error": ("class Reader:\n    def x(self:\n", "reader.py:2: not Python"),
    "an import": ("import nosuchmodule\n", "can't be imported: ModuleNotFoundError"),
    "no such class": ("class Raeder:\n    pass\n", "has no class Reader"),
    "no method": ("class Reader:\n    pass\n", "has no method generate_sample"),
    "reads itself": ("class Reader:\n    def __iter__(self):\n        pass\n", "reads files itself"),
    "init raises": (
        "class Reader:\n    generate_sample = print\n    def init(self):\n        1 / 0\n",
        "can't be made: ZeroDivisionError",
    ),
    "exits": ("import os\nos._exit(9)\n", "ended with exit status 9 while its class was being made"),
}


@pytest.mark.parametrize("case", CLASSES)
def test_classes_that_can_not_be_loaded(tmp_path: Path, data: Path, case: str) -> None:
    text, words = CLASSES[case]
    (data / "a").write_text("1\n")
    (problem,) = failure(user_class(tmp_path, data, text)).problems
    assert words in problem.what
    assert problem.code == ("UM-DATA-012" if case == "exits" else "UM-DATA-010")
    if case == "no such class":
        assert "did you mean `Raeder`?" in str(problem.hint)
    if case == "init raises":
        assert 'reader.py", line 4, in init' in str(problem.why)


def test_a_file_that_is_not_there(tmp_path: Path, data: Path) -> None:
    (data / "a").write_text("1\n")
    dataset = user_class(tmp_path, data)
    (tmp_path / "reader.py").unlink()
    assert "there is no Python file" in failure(dataset).problems[0].what


def test_old_classes_find_their_config_and_what_is_beside_them(tmp_path: Path, data: Path) -> None:
    (tmp_path / "beside.py").write_text("NUMBER = 5\n")
    (data / "a").write_text("1\n")
    text = """
        from paddlerec.core.reader import ReaderBase
        from paddlerec.core.utils import envs
        from beside import NUMBER

        class Reader(ReaderBase):
            def init(self):
                self.seen = envs.get_global_env("hyper_parameters.buckets"), envs.get_global_env("none", 3, "x.y")
                print("what is printed does no harm")

            def generate_sample(self, line):
                yield [("click", [NUMBER, *self.seen, len(self._config)])]
    """
    settings = {"hyper_parameters": {"buckets": 77}}
    samples = opened(user_class(tmp_path, data, text), config="c.yaml", settings=settings)
    assert labels(samples) == [5, 77, 3, 6]


def test_nothing_to_read(tmp_path: Path, data: Path) -> None:
    (data / "a").write_text("")
    assert labels(opened(user_class(tmp_path, data))) == []
    (data / "b").write_text(csv(1))
    dataset = user_class(tmp_path, data)
    shares = [opened(dataset, rank=rank, world=3) for rank in range(3)]
    assert all(set(each.empty().sparse) == {"click", "ids"} for each in shares), (
        "also a trainer that has nothing knows the slots"
    )
    assert sorted(joined(labels(each) for each in shares)) == [0]


def test_a_process_that_is_killed_is_an_error_and_never_a_wait(tmp_path: Path, data: Path) -> None:
    (data / "a").write_text(csv(2000))
    with opened(user_class(tmp_path, data)) as samples:
        next(samples)
        pids = samples.pids
        assert len(pids) == 2
        os.kill(pids[0], signal.SIGKILL)
        with pytest.raises(UmiakError) as raised:
            list(samples)
    (problem,) = raised.value.problems
    assert problem.code == "UM-DATA-012"
    assert f"was ended by SIGKILL while it read {data}/a, somewhere after line " in problem.what
    assert "memory" in str(problem.hint)
    assert not any(is_alive(pid) for pid in pids)


def test_a_process_that_is_killed_in_the_users_code(tmp_path: Path, data: Path) -> None:
    text = """
        import os, signal, time

        class Reader:
            def generate_sample(self, line):
                if line == "7":
                    os.kill(os.getpid(), signal.SIGKILL)
                yield [("click", [int(line)])]
    """
    (data / "a").write_text("".join(f"{number}\n" for number in range(20)))
    assert "SIGKILL" in failure(user_class(tmp_path, data, text)).problems[0].what


def test_processes_are_used_again_for_epochs_and_parts(tmp_path: Path, data: Path) -> None:
    (data / "a").write_text(csv(300))
    dataset = user_class(tmp_path, data)
    found = reading.find(dataset)
    pool = reading.processes(dataset)
    assert pool
    for epoch in range(2):
        assert labels(opened(dataset, epoch=epoch, pool=pool)) == list(range(300))
    parts = dividing.hand(found.files, world=1, piece_bytes=500)
    assert len(parts) > 3
    assert joined(labels(reading.read_part(dataset, found, part, pool=pool)) for part in parts) == list(range(300))
    pids = pool.pids
    assert len(pids) == 2
    assert all(is_alive(pid) for pid in pids)
    with opened(dataset, pool=pool) as samples:
        next(samples)
    assert not any(is_alive(pid) for pid in pids), "given up amid the data: what they were doing is not wanted"
    assert labels(opened(dataset, pool=pool)) == list(range(300))


def test_signals_for_the_whole_group_are_left_to_the_trainer(tmp_path: Path, data: Path) -> None:
    (data / "a").write_text(csv(300))
    with opened(user_class(tmp_path, data)) as samples:
        for pid in samples.pids:
            os.kill(pid, signal.SIGTERM)
            os.kill(pid, signal.SIGINT)
        assert labels(samples) == list(range(300))


def test_closing_ends_processes_that_are_stuck(tmp_path: Path, data: Path) -> None:
    text = """
        import time

        class Reader:
            def generate_sample(self, line):
                if line != "0":
                    time.sleep(1000)
                yield [("click", [int(line)])]
    """
    (data / "a").write_text("0\n" + "0\n" * 80 + "1\n" * 80)
    samples = opened(user_class(tmp_path, data, text))
    next(samples)
    pids = samples.pids
    samples.close()
    assert not any(is_alive(pid) for pid in pids)


def test_processes_do_not_outlive_a_trainer_that_is_killed(tmp_path: Path, data: Path) -> None:
    stuck = """
        import os, time

        class Reader:
            def generate_sample(self, line):
                if line != "0":
                    os.write(2, f"stuck {os.getpid()}\\n".encode())  # at once: two processes write here
                    time.sleep(1000)
                yield [("click", [int(line)])]
    """
    for name, line in {"a": "0", "b": "1", "c": "1"}.items():
        (data / name).write_text(f"{line}\n")
    user_class(tmp_path, data, stuck)
    program = f"""
        from umiak.train import reading
        from umiak.train.config.values import Dataset

        reader = {str(tmp_path / "reader.py")!r}
        dataset = Dataset(name="d", data_path={str(data)!r}, batch_size=1, data_converter=reader, reader_processes=2)
        samples = reading.read(dataset, reading.find(dataset))
        next(samples)
        next(samples)
    """
    trainer = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert trainer.stderr
    pids = [int(trainer.stderr.readline().removeprefix("stuck ")) for _ in range(2)]
    ends = [os.pidfd_open(pid) for pid in pids]
    trainer.kill()
    trainer.wait()
    for end in ends:
        select.select([end], [], [])  # the test's own time limit ends this
        os.close(end)
    trainer.stderr.close()
