"""`paddle.io.DataLoader.from_generator` and `DistributedInfer` for static programs on tables: the same as feeding by hand. Real Paddle."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.static_programs import SLOTS, ClickProgram, fleet, fleet_program, older_programs, paddle
from umiak.core.problem import BadRequest
from umiak.fleet import job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

BATCHES, SIZE = 3, 8
NAMES = [*(f"slot{place}" for place in range(SLOTS)), "label"]


@pytest.fixture(autouse=True)
def older() -> Iterator[None]:
    with older_programs():
        yield


def batches() -> Iterator[list[Any]]:
    for number in range(BATCHES):
        found = ClickProgram.batch(number, SIZE)
        yield [found[name] for name in NAMES]


def samples() -> Iterator[tuple[Any, ...]]:
    for arrays in batches():
        yield from (tuple(row) for row in zip(*arrays, strict=True))


def lists() -> Iterator[list[tuple[Any, ...]]]:
    for arrays in batches():
        yield [tuple(row) for row in zip(*arrays, strict=True)]


def sgd() -> Any:
    return paddle.optimizer.SGD(0.5)


def made() -> tuple[ClickProgram, Any]:
    program = fleet_program(sgd)
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(program.startup)
    fleet.init_worker()
    return program, executor


@cache
def by_hand(passes: int = 1) -> list[float]:
    program, executor = made()
    found = []
    for _ in range(passes):
        for number in range(BATCHES):
            fed = program.batch(number, SIZE)
            found.append(float(executor.run(program.main, feed=fed, fetch_list=[program.loss])[0]))
    job.end()
    return found


def loader_of(program: ClickProgram, **options: Any) -> Any:
    with paddle.static.program_guard(program.main, program.startup):
        return paddle.io.DataLoader.from_generator([*program.ids, program.label], capacity=2, **options)


def set_source(loader: Any, kind: str) -> Any:
    place = paddle.CPUPlace()
    if kind == "batch":
        return loader.set_batch_generator(batches, places=place)
    if kind == "list":
        return loader.set_sample_list_generator(lists, places=place)
    return loader.set_sample_generator(samples, batch_size=SIZE, drop_last=True, places=place)


@pytest.mark.parametrize("kind", ["batch", "list", "sample"])
@pytest.mark.parametrize("use_double_buffer", [True, False])
def test_a_loader_that_is_started_and_reset(kind: str, use_double_buffer: bool) -> None:
    expected = by_hand(passes=2)
    program, executor = made()
    loader = set_source(loader_of(program, iterable=False, use_double_buffer=use_double_buffer), kind)
    found = []
    for _ in range(2):
        loader.start()
        try:
            while True:
                found.append(float(executor.run(program.main, fetch_list=[program.loss])[0]))
        except paddle.framework.core.EOFException:
            loader.reset()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", ["batch", "list", "sample"])
@pytest.mark.parametrize("return_list", [True, False])
def test_an_iterable_loader(kind: str, return_list: bool) -> None:
    expected = by_hand(passes=2)
    program, executor = made()
    loader = set_source(loader_of(program, return_list=return_list), kind)
    found = []
    for _ in range(2):
        for batch in loader():
            fed = dict(zip(NAMES, batch[0], strict=True)) if return_list else batch
            found.append(float(executor.run(program.main, feed=fed, fetch_list=[program.loss])[0]))
    np.testing.assert_array_equal(found, expected)


def test_a_dynamic_script_has_it_too() -> None:
    paddle.disable_static()
    try:
        loader = paddle.io.DataLoader.from_generator(capacity=2, return_list=True)
        loader.set_batch_generator(batches, places=paddle.CPUPlace())
        found = [[each.numpy() for each in batch] for batch in loader()]
    finally:
        paddle.enable_static()
    for arrays, expected in zip(found, batches(), strict=True):
        for array, other in zip(arrays, expected, strict=True):
            np.testing.assert_array_equal(array, other)


def test_a_loader_that_is_not_started_says_so() -> None:
    program, executor = made()
    loader = set_source(loader_of(program, iterable=False), "batch")
    with pytest.raises(BadRequest, match="UM-FLEET-063"):
        executor.run(program.main, fetch_list=[program.loss])
    assert executor.run(program.main, feed=program.batch(0, SIZE), fetch_list=[program.loss])
    with pytest.raises(BadRequest, match="UM-FLEET-063"):
        loader_of(program, iterable=False).start()
    del loader


def test_what_a_generator_raises_is_raised_by_the_run() -> None:
    program, executor = made()
    loader = loader_of(program, iterable=False)

    def broken() -> Iterator[list[Any]]:
        yield next(batches())
        raise ZeroDivisionError("in the generator")

    loader.set_batch_generator(broken)
    loader.start()
    executor.run(program.main, fetch_list=[program.loss])
    with pytest.raises(ZeroDivisionError, match="in the generator"):
        executor.run(program.main, fetch_list=[program.loss])
    loader.reset()


def test_reset_in_the_middle_begins_again() -> None:
    program, executor = made()
    loader = set_source(loader_of(program, iterable=False), "batch")
    seen = []
    for _ in range(2):
        loader.start()
        seen.append(executor.run(program.test, fetch_list=[program.label])[0])
        loader.reset()
    np.testing.assert_array_equal(seen[0], seen[1])


# ---- DistributedInfer


def test_inference_in_a_job_that_trains() -> None:
    from paddle.distributed.fleet.utils.ps_util import DistributedInfer

    program, executor = made()
    for number in range(BATCHES):
        executor.run(program.main, feed=program.batch(number, SIZE), fetch_list=[])
    other = ClickProgram()
    infer = DistributedInfer(main_program=other.main, startup_program=other.startup)
    fed = program.batch(9, SIZE)
    found = executor.run(infer.get_dist_infer_program(), feed=fed, fetch_list=[other.predict.name])[0]
    expected = executor.run(program.test, feed=fed, fetch_list=[program.predict])[0]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("make", [sgd, lambda: paddle.optimizer.Adam(0.1, lazy_mode=True)])
def test_inference_in_a_job_that_only_loads(make: Any, tmp_path: Path) -> None:
    program = fleet_program(make, embedding="sparse_embedding")
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(program.startup)
    fleet.init_worker()
    for number in range(BATCHES):
        executor.run(program.main, feed=program.batch(number, SIZE), fetch_list=[])
    fed = program.batch(9, SIZE)
    expected = executor.run(program.test, feed=fed, fetch_list=[program.predict])[0]
    fleet.save_persistables(executor, str(tmp_path / "saved"))
    job.end()
    with paddle.static.scope_guard(paddle.static.Scope()):
        other = ClickProgram(embedding="sparse_embedding")
        infer = fleet.utils.DistributedInfer(main_program=other.main, startup_program=other.startup)
        infer.init_distributed_infer_env(executor, other.loss, dirname=str(tmp_path / "saved"))
        found = executor.run(infer.get_dist_infer_program(), feed=fed, fetch_list=[other.predict.name])[0]
    np.testing.assert_allclose(found, expected, atol=1e-7)


def test_inference_of_another_program_names_its_tables(tmp_path: Path) -> None:
    program, executor = made()
    fleet.save_persistables(executor, str(tmp_path / "saved"))
    job.end()
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        ids = paddle.static.data("ids", [None, 1], "int64")
        rows = paddle.static.nn.sparse_embedding(ids, [9, 4], param_attr=paddle.ParamAttr(name="unknown"))
        infer = fleet.utils.DistributedInfer(main_program=main, startup_program=startup)
        with pytest.raises(BadRequest, match="has no table unknown"):
            infer.init_distributed_infer_env(executor, paddle.mean(rows), dirname=str(tmp_path / "saved"))
    del program
