"""Each call of Paddle's datasets in a job with servers, on Paddle's own objects; and the same lines as Paddle's own training prints."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.static_programs import fleet, fleet_program, losses, older_programs, paddle
from umiak.fleet import job as jobs
from umiak.fleet.datasets import calls, settings
from umiak.fleet.datasets.pipes import PipeError
from umiak.ps.environment import PsSeat
from umiak.ps.errors import BadRequest
from umiak.ps.options import SessionOptions
from umiak.ps.sessions import Session
from umiak.ps.specs import DenseTable
from umiak.ps.strategies import Async

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]


class LoneJob:
    """A trainer without others, and programs that have no tables."""

    is_server = False

    def __init__(self) -> None:
        self.session = Session(PsSeat(), Async(), SessionOptions())

    def runner_of(self, _program: Any) -> None:
        return None

    def reader_of(self, _program: Any, _scope: Any = None) -> None:
        return None

    def check_is_trained_together(self, _program: Any) -> None:
        """Nobody else trains."""

    def started(self, _program: Any, _scope: Any) -> None:
        """No program fills rows of tables."""


@pytest.fixture(autouse=True)
def older() -> Iterator[None]:
    calls.install()
    with older_programs(), paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        yield


@pytest.fixture
def in_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = LoneJob()
    monkeypatch.setattr(jobs, "current", lambda: begun)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)  # Paddle's own training writes a file there
    for part, size in enumerate((10, 7)):
        lines = (f"2 {10 * part + i} {i + 1} 2 0.5 {i / 10} 1 {i}\n" for i in range(size))
        (tmp_path / f"part-{part}").write_text("".join(lines))
    return [str(tmp_path / "part-0"), str(tmp_path / "part-1")]


def variables() -> list[Any]:
    return [
        paddle.static.data("ids", [None, 1], "int64", lod_level=1),
        paddle.static.data("dense", [None, 2], "float32"),
        paddle.static.data("label", [None, 1], "float32"),
    ]


def newer(kind: str, use_var: list[Any], files: list[str], **more: Any) -> Any:
    dataset = getattr(paddle.distributed, kind)()
    dataset.init(**{"batch_size": 4, "thread_num": 1, "use_var": use_var, "pipe_command": "cat", **more})
    dataset.set_filelist(files)
    return dataset


def older_kind(kind: str, use_var: list[Any], files: list[str]) -> Any:
    dataset = paddle.base.DatasetFactory().create_dataset(kind)
    dataset.set_batch_size(4)
    dataset.set_thread(1)
    dataset.set_use_var(use_var)
    dataset.set_pipe_command("cat")
    dataset.set_filelist(files)
    return dataset


@pytest.mark.parametrize("kind", ["QueueDataset", "InMemoryDataset"])
def test_both_families_have_the_same_settings(kind: str, files: list[str]) -> None:
    use_var = variables()
    found = settings.of(newer(kind, use_var, files))
    assert found == settings.of(older_kind(kind, use_var, files))
    assert found.files == tuple(files)
    assert [(slot.name, slot.is_float, slot.is_dense, slot.multiple) for slot in found.slots] == [
        ("ids", False, False, 0),
        ("dense", True, True, 2),
        ("label", True, True, 1),
    ]
    assert (found.batch_size, found.threads, found.command) == (4, 1, "cat")
    assert found.is_in_memory == found.drops_zeros == (kind == "InMemoryDataset")


def test_settings_can_be_changed(files: list[str]) -> None:
    dataset = newer("InMemoryDataset", variables(), files)
    dataset.update_settings(batch_size=9, thread_num=3, pipe_command="head", input_type=1, parse_ins_id=True)
    found = settings.of(dataset)
    assert (found.batch_size, found.threads, found.command) == (9, 3, "head")
    assert (found.is_batch_per_line, found.texts) == (True, 1)


@pytest.mark.usefixtures("in_a_job")
@pytest.mark.parametrize(
    "make", [lambda *given: newer("InMemoryDataset", *given), lambda *given: older_kind("InMemoryDataset", *given)]
)
def test_calls_of_a_dataset_in_memory(make: Any, files: list[str]) -> None:
    dataset = make(variables(), files)
    assert dataset.get_memory_data_size() == 0
    dataset.load_into_memory()
    assert (dataset.get_memory_data_size(), dataset.get_shuffle_data_size()) == (17, 0)
    dataset.local_shuffle()
    assert dataset.get_shuffle_data_size(fleet) == dataset.get_memory_data_size(fleet) == 17
    dataset.global_shuffle()
    dataset.global_shuffle(fleet, 3)
    assert dataset.get_memory_data_size() == 17
    dataset.release_memory()
    assert dataset.get_memory_data_size() == 0
    dataset.preload_into_memory(2)
    dataset.wait_preload_done()
    assert dataset.get_memory_data_size() == 17
    dataset.load_into_memory(is_shuffle=True)
    assert dataset.get_shuffle_data_size() == 17


@pytest.mark.usefixtures("in_a_job")
def test_slots_of_other_samples(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = newer("InMemoryDataset", variables(), files)
    dataset.fea_eval = False
    dataset.slots_shuffle(["ids"])
    dataset.update_settings(fea_eval=True, candidate_size=10)
    dataset.load_into_memory()
    monkeypatch.setattr(np.random, "permutation", lambda count: np.arange(count)[::-1])
    dataset.slots_shuffle(["label"])
    assert calls.memory_of(dataset).samples.arrays()[2][0][-1] == 0
    with pytest.raises(BadRequest, match="no such slots: x"):
        dataset.slots_shuffle(["x"])


@pytest.mark.usefixtures("in_a_job")
def test_what_is_wrong_is_told(files: list[str]) -> None:
    executor = paddle.static.Executor(paddle.CPUPlace())
    with pytest.raises(BadRequest, match="without a dataset"):
        executor.train_from_dataset(paddle.static.default_main_program())
    memory = newer("InMemoryDataset", variables(), files)
    with pytest.raises(BadRequest, match="UM-FLEET-048"):
        executor.train_from_dataset(dataset=memory)
    with pytest.raises(BadRequest, match="2 variables and fetch_info 1 names"):
        executor.train_from_dataset(dataset=memory, fetch_list=["a", "b"], fetch_info=["a"])
    memory.update_settings(pipe_command="exit 4")
    with pytest.raises(PipeError, match="exit code 4"):
        memory.load_into_memory()


def without_time(text: str) -> list[str]:
    return re.findall(r"^time: \[.*?\], (batch: .*)$", text, re.MULTILINE)


@pytest.mark.parametrize("kind", ["QueueDataset", "InMemoryDataset"])
def test_the_lines_are_those_that_paddle_prints(
    kind: str, files: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The same program, files and first values, by Paddle's own dataset and training, and by ours."""
    use_var = variables()
    constant = paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.02))
    rows = paddle.static.nn.embedding(use_var[0], [1000, 4], is_sparse=True, param_attr=constant)
    bag = paddle.reshape(paddle.static.nn.sequence_lod.sequence_pool(rows, "sum"), [-1, 4])
    score = paddle.static.nn.fc(paddle.concat([bag, use_var[1]], axis=1), 1, weight_attr=constant)
    loss = paddle.mean(paddle.nn.functional.square_error_cost(score, use_var[2]))
    paddle.optimizer.SGD(0.01).minimize(loss)
    executor = paddle.static.Executor(paddle.CPUPlace())

    def lines() -> list[str]:
        executor.run(paddle.static.default_startup_program())
        dataset = newer(kind, use_var, files)
        if kind == "InMemoryDataset":
            dataset.load_into_memory()
        executor.train_from_dataset(
            paddle.static.default_main_program(),
            dataset,
            fetch_list=[loss, score],
            fetch_info=["the loss", "score"],
            print_period=2,
        )
        return without_time(capfd.readouterr().out)

    theirs = lines()
    begun = LoneJob()
    monkeypatch.setattr(jobs, "current", lambda: begun)
    ours = lines()
    assert len(theirs) == 2
    assert ours == theirs


@pytest.mark.usefixtures("in_a_job")
def test_inference_and_a_handler(files: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    use_var = variables()
    total = paddle.sum(use_var[2])
    told: list[Any] = []
    handler = SimpleNamespace(var_dict={"sum": total}, period_secs=0, handler=told.append)
    executor = paddle.static.Executor(paddle.CPUPlace())
    dataset = newer("QueueDataset", use_var, files, batch_size=10)
    main = paddle.static.default_main_program()
    executor.infer_from_dataset(main, dataset, thread=2, fetch_list=[total], print_period=1, fetch_handler=handler)
    assert without_time(capfd.readouterr().out) == [
        f"batch: [1], {total.name}[1]:[45]",
        f"batch: [2], {total.name}[1]:[21]",
    ]
    assert [float(each["sum"]) for each in told] == [45, 21]


def test_inference_sees_what_others_have_pushed_since_the_last_step(tmp_path: Path) -> None:
    program = fleet_program(lambda: paddle.optimizer.SGD(0.1))
    losses(program, 1)
    batch = program.batch(7, size=4)
    names = [*batch]
    lines = (" ".join(f"1 {batch[name][row, 0]}" for name in names) + "\n" for row in range(4))
    (tmp_path / "part-0").write_text("".join(lines))
    dataset = newer("QueueDataset", [*program.ids, program.label], [str(tmp_path / "part-0")])
    executor = paddle.static.Executor(paddle.CPUPlace())

    def predicted() -> Any:
        return executor.run(program.test, feed=batch, fetch_list=[program.predict])[0]

    before, told = predicted(), []
    session = jobs.current().session
    for optimizer in session.optimizers:
        for opened in optimizer.tables().values():
            if isinstance(opened.spec, DenseTable):
                values = session.client.pull_dense(opened.number)
                session.client.set_dense(opened.number, np.full_like(values, 0.5))
    assert np.array_equal(predicted(), before)
    handler = SimpleNamespace(var_dict={"predict": program.predict}, period_secs=0, handler=told.append)
    executor.infer_from_dataset(program.test, dataset, fetch_handler=handler)
    assert not np.allclose(told[0]["predict"], before, atol=0.01)
    assert np.array_equal(told[0]["predict"], predicted())
