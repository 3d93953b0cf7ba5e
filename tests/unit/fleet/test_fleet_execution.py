"""Programs that are run again and again: the same as by Paddle's own call, also where something changes between two runs."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.static_programs import older_programs, paddle
from umiak.fleet.programs import feeding
from umiak.fleet.programs.execution import RepeatedRuns

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def older() -> Iterator[None]:
    with older_programs():
        yield


class Doubling:
    """x and its double, in place where Paddle can."""

    def __init__(self) -> None:
        self.main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(self.main, startup):
            self.x = paddle.static.data("x", [None, 2], "float32")
            self.y = paddle.nn.functional.relu(self.x) * 2
        self.executor = paddle.static.Executor(paddle.CPUPlace())
        self.executor.run(startup)
        self.runs = RepeatedRuns()

    def run(self, x: Any, fetch: list[Any] | None = None) -> list[Any]:
        found = self.runs.run(self.executor, self.main, {"x": x}, fetch or [self.y], None)
        return [np.array(each).tolist() for each in found]


def test_batches_of_any_size_one_after_the_other() -> None:
    doubling = Doubling()
    for size in (1, 3, 2):
        x = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
        assert doubling.run(x) == [(2 * x).tolist()]
        assert x.tolist() == np.arange(2 * size).reshape(size, 2).tolist(), "an array that is fed stays as it is"
    assert doubling.run([[1, 2]]) == [[[2.0, 4.0]]]
    assert doubling.run(np.float32([[1, -2]]), [doubling.y, "x"]) == [[[2.0, 0.0]], [[1.0, -2.0]]]


@pytest.mark.parametrize("wrong", [np.zeros((3, 4), np.float32), np.zeros((3, 2), np.int64)])
def test_what_does_not_fit_is_refused_at_any_time(wrong: Any) -> None:
    doubling = Doubling()
    doubling.run(np.zeros((3, 2), np.float32))
    with pytest.raises(ValueError, match="'x'"):
        doubling.run(wrong)
    assert doubling.run(np.float32([[1, 2]])) == [[[2.0, 4.0]]]


def test_a_program_that_grows_is_compiled_again() -> None:
    doubling = Doubling()
    one = np.float32([[1, 2]])
    assert doubling.run(one) == [[[2.0, 4.0]]]
    with paddle.static.program_guard(doubling.main):
        more = doubling.y + 1
    assert doubling.run(one, [more]) == [[[3.0, 5.0]]]
    assert doubling.run(one) == [[[2.0, 4.0]]]


@pytest.mark.parametrize("before", [False, True])
def test_batches_of_a_dataset_are_planned_once(before: bool) -> None:
    """The flags are Paddle's and everybody's: they are as they were after each run, also if that fails."""
    flags = {
        "FLAGS_new_executor_sequential_run": before,
        "FLAGS_new_executor_use_inplace": before,
        "FLAGS_eager_delete_tensor_gb": 1.0 if before else 0.0,
    }
    kept = paddle.get_flags([*flags])
    paddle.set_flags(flags)
    doubling = Doubling()
    try:
        for x, fails in (
            (np.zeros((1, 4), np.float32), True),
            (np.float32([[1, 2]]), False),
            (np.float32([[3, 4], [5, 6]]), False),
            (np.float32([[7, 8]]), False),
        ):
            with pytest.raises(ValueError, match="'x'") if fails else nullcontext():
                (found,) = doubling.runs.run(
                    doubling.executor, doubling.main, {"x": x}, [doubling.y], None, in_order=True
                )
                assert np.array(found).tolist() == (2 * x).tolist()
            assert paddle.get_flags([*flags]) == flags
    finally:
        paddle.set_flags(kept)


def test_through_paddles_own_call_what_is_in_the_scope_is_fed_and_fetched() -> None:
    class Own(paddle.static.Executor):
        """Of a script: nobody knows what else it does."""

    doubling, executor, scope = Doubling(), Own(paddle.CPUPlace()), paddle.static.global_scope()
    rows = feeding.ScopeRows(scope, ["x"])
    for x in (np.float32([[1, 2]]), np.float32([[3, 4], [5, 6]])):
        rows.put(x, [x.shape], [None])
        how = {"given": ["x"], "left": [doubling.y.name]}
        fetched, left = doubling.runs.run(executor, doubling.main, {}, ["x"], scope, **how)
        assert np.array(fetched).tolist() == x.tolist()
        assert np.array(left).tolist() == (2 * x).tolist()


@pytest.mark.parametrize("in_order", [False, True])
def test_what_is_in_the_scope_is_neither_fed_nor_fetched(in_order: bool) -> None:
    doubling = Doubling()
    scope = paddle.static.global_scope()
    rows = feeding.ScopeRows(scope, ["x"])
    for numbers in ([[1, 2]], [[3, 4], [5, -6]], [[7, 8], [9, 1]], [], [[2, 2]]):
        x = np.array(numbers, np.float32).reshape(-1, 2)
        rows.put(x, [x.shape], [None])
        fetched, left = doubling.runs.run(
            doubling.executor, doubling.main, {}, ["x"], scope, given=["x"], left=[doubling.y.name], in_order=in_order
        )
        assert np.array(fetched).tolist() == x.tolist()
        assert np.array(left).tolist() == (2 * np.maximum(x, 0)).tolist()
        assert left._ptr() == scope.find_var(doubling.y.name).get_tensor()._ptr()
    assert not any(doubling.main.global_block().var(name).persistable for name in ("x", doubling.y.name))


def test_rows_of_several_lookups_are_parts_of_one_tensor() -> None:
    scope = paddle.static.Scope()
    rows, other = feeding.ScopeRows(scope, ["a", "b", "c"]), feeding.ScopeRows(scope, ["b"])
    numbers = np.arange(12, dtype=np.float32).reshape(6, 2)
    for shapes in ([(2, 2), (1, 2), (3, 2)], [(0, 2), (3, 1, 2), (3, 2)], [(2, 2), (1, 2), (3, 2)]):
        rows.put(numbers, shapes, [None, None, [0, 1, 3] if shapes[0][0] else None])
        found = [np.array(scope.find_var(name).get_tensor()) for name in "abc"]
        assert [each.shape for each in found] == shapes
        assert np.concatenate([each.reshape(-1, 2) for each in found]).tolist() == numbers.tolist()
    assert scope.find_var("c").get_tensor().lod() == [[0, 1, 3]]
    other.put(numbers, [(6, 2)], [None])
    rows.put(numbers + 1, shapes, [None, None, None])
    assert np.array(scope.find_var("b").get_tensor()).tolist() == [[5.0, 6.0]]


def test_a_closed_executor_refuses() -> None:
    doubling = Doubling()
    doubling.run(np.float32([[1, 2]]))
    doubling.executor.close()
    with pytest.raises(RuntimeError, match="closed"):
        doubling.run(np.float32([[1, 2]]))


def test_fetched_numbers_live_as_long_as_their_array() -> None:
    doubling = Doubling()
    (tensor,) = doubling.runs.run(doubling.executor, doubling.main, {"x": np.ones((300, 2), np.float32)}, ["x"], None)
    array = feeding.floats_of(tensor)
    assert array.ctypes.data == tensor._ptr()
    del tensor
    for _ in range(3):
        doubling.run(np.full((300, 2), 7, np.float32))
    assert array.tolist() == np.ones((300, 2)).tolist()


def test_numbers_are_looked_at_again_where_their_memory_has_moved() -> None:
    views = feeding.FloatViews()
    tensors = [feeding.tensor_of(feeding.FedArray(array=np.ones((2, 3), np.float32))) for _ in range(2)]
    first = views.of(tensors)
    assert all(before is now for before, now in zip(first, views.of(tensors), strict=True))
    for numbers in ([[5.0]], [[1.0, 2.0]] * 900):
        tensors[1].set(np.array(numbers, np.float32), core_place())
        assert [each.tolist() for each in views.of(tensors)] == [[[1.0] * 3] * 2, numbers]
    assert [each.tolist() for each in views.of(tensors[::-1])] == [numbers, [[1.0] * 3] * 2]
    whole = paddle.base.core.DenseTensor()
    whole.set(np.array([[1, 2]], np.float64), core_place())
    for number in (3, 4):
        whole.set(np.array([[number]], np.float64), core_place())
        assert views.of([whole])[0].tolist() == [[number]]


def core_place() -> Any:
    return paddle.base.core.CPUPlace()


def test_what_is_fed_is_not_the_callers_memory() -> None:
    """Paddle's threads could not give it back while an executor that ends waits for them."""
    array = np.ones((300, 2), np.float32)
    tensor = feeding.tensor_of(feeding.FedArray(array=array))
    assert tensor._ptr() != array.ctypes.data
    assert np.array(tensor).tolist() == array.tolist()
