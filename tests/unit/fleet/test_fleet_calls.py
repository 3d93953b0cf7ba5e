"""Fleet's calls with servers: places, strategies, what trainers exchange, what is refused; and that collective jobs keep Paddle's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.static_programs import ClickProgram, fleet, older_programs, paddle
from umiak import ps
from umiak.core.problem import BadRequest
from umiak.fleet import calls, job, operations, roles, strategy
from umiak.ps.environment import SeatRole
from umiak.ps.options import SessionOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]
role_maker = fleet.base.role_maker
SERVERS = ["127.0.0.1:36001", "127.0.0.1:36002"]
WORKERS = ["127.0.0.1:36003", "127.0.0.1:36004"]


@pytest.fixture(autouse=True)
def older() -> Iterator[None]:
    with older_programs():
        yield


def user_defined(role: int, current_id: int, **more: Any) -> Any:
    return role_maker.UserDefinedRoleMaker(
        is_collective=False,
        current_id=current_id,
        role=role,
        **{"worker_endpoints": WORKERS, "server_endpoints": SERVERS, **more},
    )


# ---- programs


def test_trainers_do_not_learn_each_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """As PaddleRec's `recall/mind`, whose `create_optimizer` knows nothing of fleet."""
    fleet.init(user_defined(role_maker.Role.WORKER, 0))
    executor = paddle.static.Executor(paddle.CPUPlace())
    program = ClickProgram()
    program.minimize(paddle.optimizer.SGD(0.1))
    executor.run(program.startup)
    for _ in range(2):
        with pytest.raises(BadRequest, match="each trainer would learn alone") as found:
            executor.run(program.main, feed=program.batch(0), fetch_list=[program.loss])
    assert "UM-FLEET-018" in str(found.value)
    assert "sgd" in str(found.value)
    executor.run(program.test, feed=program.batch(0), fetch_list=[program.loss])  # nothing learns
    assert "learn" not in capsys.readouterr().err


def test_one_trainer_that_leaves_its_servers_out_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    fleet.init(user_defined(role_maker.Role.WORKER, 0, worker_endpoints=WORKERS[:1]))
    executor = paddle.static.Executor(paddle.CPUPlace())
    program = ClickProgram()
    program.minimize(paddle.optimizer.SGD(0.1))
    executor.run(program.startup)
    for _ in range(2):
        executor.run(program.main, feed=program.batch(0), fetch_list=[program.loss])
    assert capsys.readouterr().err.count("without the servers") == 1


# ---- places


def test_the_place_of_a_trainer_from_arguments() -> None:
    fleet.init(user_defined(role_maker.Role.WORKER, 1))
    assert fleet.is_worker()
    assert not fleet.is_server()
    assert not fleet.is_first_worker()
    assert (fleet.worker_index(), fleet.worker_num(), fleet.server_num()) == (1, 2, 2)
    assert fleet.server_endpoints() == SERVERS
    assert fleet.server_endpoints(to_string=True) == ",".join(SERVERS)
    assert fleet.worker_endpoints() == WORKERS
    assert fleet.worker_endpoints(to_string=True) == ",".join(WORKERS)
    assert fleet.util.get_file_shard(["a", "b", "c"]) == ["c"]


def test_the_place_of_a_server_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINING_ROLE", "PSERVER")
    monkeypatch.setenv("PADDLE_PSERVERS_IP_PORT_LIST", ",".join(SERVERS))
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    monkeypatch.setenv("POD_IP", "127.0.0.1")
    monkeypatch.setenv("PADDLE_PORT", "36002")
    monkeypatch.setenv("PADDLE_WITH_GLOO", "1")
    fleet.init(role_maker.PaddleCloudRoleMaker())
    assert fleet.is_server()
    assert not fleet.is_worker()
    assert (fleet.server_index(), fleet.server_num(), fleet.worker_num()) == (1, 2, 2)
    begun = job.current()
    assert begun is not None
    assert begun.session.seat.role is SeatRole.SERVER


def test_a_process_that_nobody_gave_a_place_is_alone() -> None:
    fleet.init()
    assert fleet.is_first_worker()
    assert (fleet.worker_num(), fleet.server_num(), fleet.server_endpoints()) == (1, 0, [])


def test_what_a_role_maker_lacks_is_named() -> None:
    maker = user_defined(7, 5, worker_endpoints=[], server_endpoints=[])
    with pytest.raises(BadRequest) as caught:
        fleet.init(maker)
    told = str(caught.value)
    for word in ("role", "server_endpoints", "worker_num", "current_id"):
        assert f"UserDefinedRoleMaker: {word}" in told


def test_job_and_token_are_the_environments() -> None:
    environ = {"UMIAK_TOKEN": "a-token-of-some-length", "UMIAK_JOB_ID": "ads"}
    given = {"role": roles.SERVER, "current_id": 0, "worker_num": 3, "server_endpoints": SERVERS}
    seat = roles.of_arguments(given, environ).seat
    assert (seat.job, seat.token, seat.world, seat.servers) == ("ads", "a-token-of-some-length", 3, tuple(SERVERS))


def test_a_collective_job_is_paddles_own() -> None:
    fleet.init(user_defined(role_maker.Role.WORKER, 0))
    assert job.current() is not None
    fleet.init(role_maker.UserDefinedRoleMaker(is_collective=True, current_id=0, worker_endpoints=WORKERS[:1]))
    assert job.current() is None
    assert fleet.worker_endpoints() == WORKERS[:1]
    with pytest.raises(Exception, match=r"(?i)runtime|init|handle|NoneType"):
        fleet.init_server()


# ---- strategies


@pytest.mark.parametrize(
    ("is_async", "configs", "expected"),
    [
        (False, None, ps.Sync()),
        (True, None, ps.Async()),
        (True, {"k_steps": 0}, ps.Async()),
        (True, {"k_steps": 40}, ps.Geo(every=40)),
    ],
)
def test_a_strategy_is_one_of_ours(is_async: bool, configs: dict[str, int] | None, expected: Any) -> None:
    theirs = fleet.DistributedStrategy()
    theirs.a_sync = is_async
    if configs:
        theirs.a_sync_configs = configs
    assert strategy.chosen(theirs) == strategy.ChosenStrategy(strategy=expected)


def test_what_of_a_strategy_has_no_part_here_is_said() -> None:
    theirs = fleet.DistributedStrategy()
    theirs.amp = True
    theirs.a_sync_configs = {"use_ps_gpu": 1}
    first, second = strategy.chosen(theirs).remarks
    assert "strategy.amp = True is ignored: mixed precision" in first
    assert "strategy.a_sync_configs.use_ps_gpu = 1 is ignored: tables" in second


def test_the_optimizers_strategy_counts() -> None:
    fleet.init()
    theirs = fleet.DistributedStrategy()
    theirs.a_sync = False
    fleet.distributed_optimizer(paddle.optimizer.SGD(0.1), theirs)
    begun = job.current()
    assert begun is not None
    assert begun.session.strategy == ps.Sync()


# ---- what trainers exchange


class Meeting:
    """A client of one of several trainers, of which the others bring the same."""

    def __init__(self, world: int) -> None:
        self.world = world
        self.largest = 0

    def gather(self, _name: str, payload: bytes) -> list[bytes]:
        self.largest = max(self.largest, len(payload))
        return [payload] * self.world


def test_large_arrays_are_exchanged_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.init()
    begun = job.current()
    assert begun is not None
    meeting = Meeting(3)
    monkeypatch.setattr(begun.session, "_client", meeting)
    given = np.arange(500_000, dtype=np.int64).reshape(2, -1)
    found = fleet.util.all_reduce(given)
    assert np.array_equal(found, 3 * given)
    assert found.dtype == np.int64
    assert meeting.largest == calls.PIECE
    assert fleet.util.all_reduce([1.0, 2.0], "max").tolist() == [1.0, 2.0]
    assert fleet.util.all_reduce(np.array([2, 1]), mode="min").tolist() == [2, 1]
    assert fleet.util.all_gather(7) == [7, 7, 7]
    monkeypatch.setattr(begun.session, "_client", None)


def test_alone_everything_is_exchanged_with_oneself(capsys: pytest.CaptureFixture[str]) -> None:
    fleet.init()
    fleet.barrier_worker()
    fleet.util.barrier()
    assert fleet.util.all_reduce(np.ones(2)).tolist() == [1.0, 1.0]
    fleet.util.print_on_rank("hello", 0)
    assert "hello" in capsys.readouterr().out


@pytest.mark.parametrize("world", ["server", "all"])
def test_servers_do_not_meet_trainers(world: str) -> None:
    fleet.init()
    with pytest.raises(BadRequest, match="UM-FLEET-003"):
        fleet.util.barrier(world)


def test_what_cannot_be_exchanged_is_said() -> None:
    fleet.init()
    with pytest.raises(BadRequest, match="no such mode: mean"):
        fleet.util.all_reduce([1], "mean")
    with pytest.raises(BadRequest, match="numbers are exchanged"):
        fleet.util.all_reduce(np.array(["a"]))


# ---- calls


@pytest.mark.parametrize("name", sorted(calls.REFUSED))
def test_what_our_servers_do_not_have_is_refused_by_name(name: str) -> None:
    found = getattr(fleet, name, None) or getattr(fleet.fleet, name)
    fleet.init()
    with pytest.raises(BadRequest, match=re.escape(f"fleet.{name} is not there")):
        found()


def test_every_call_of_ours_is_one_of_paddles() -> None:
    for name in (*calls.TAKEN, *calls.REFUSED):
        assert hasattr(fleet, name) or hasattr(fleet.fleet, name)


def _dynamic_losses(*, with_fleet: bool) -> list[float]:
    paddle.seed(4)
    model = paddle.nn.Sequential(paddle.nn.Embedding(20, 4, sparse=True), paddle.nn.Linear(4, 1))
    optimizer: Any = paddle.optimizer.SGD(0.5, parameters=model.parameters())
    if with_fleet:
        fleet.init()
        model = fleet.distributed_model(model)
        optimizer = fleet.distributed_optimizer(optimizer)
    found = []
    for step in range(6):
        ids = np.random.default_rng(step).integers(0, 20, (8, 1))
        loss = ((model(paddle.to_tensor(ids)).reshape([-1, 1]) - paddle.to_tensor(ids / 10.0, "float32")) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        found.append(float(loss))
    return found


def test_a_dynamic_model_learns_as_in_plain_paddle() -> None:
    paddle.disable_static()
    try:
        assert _dynamic_losses(with_fleet=True) == pytest.approx(_dynamic_losses(with_fleet=False), abs=1e-6)
        begun = job.current()
        assert begun is not None
        assert begun.model is not None
    finally:
        paddle.enable_static()


def test_a_dynamic_optimizer_without_its_model_says_so() -> None:
    fleet.init()
    paddle.disable_static()
    try:
        alone = paddle.optimizer.SGD(0.1, parameters=paddle.nn.Linear(1, 1).parameters())
        with pytest.raises(BadRequest, match=r"fleet\.distributed_model"):
            fleet.distributed_optimizer(alone).step()
    finally:
        paddle.enable_static()


# ---- functions in older programs


def _computed(build: Any, *arrays: Any) -> Any:
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        given = [paddle.static.data(f"x{place}", each.shape, str(each.dtype)) for place, each in enumerate(arrays)]
        out = build(*given)
    feed = {f"x{place}": each for place, each in enumerate(arrays)}
    return paddle.static.Executor(paddle.CPUPlace()).run(main, feed=feed, fetch_list=[out])[0]


_MATRIX = np.array([[0.25, -0.5, 0.75], [0.125, 0.5, -0.25]], np.float32)
_POSITIVE = np.abs(_MATRIX) + 1
_CALLS: dict[str, tuple[Any, ...]] = {
    "matmul": (_MATRIX, _MATRIX.T.copy()),
    "dot": (_MATRIX[0].copy(), _MATRIX[1].copy()),
    "bmm": (_MATRIX[None].copy(), _MATRIX.T[None].copy()),
    "expand_as": (_MATRIX[:1].copy(), _MATRIX),
    "all": (_MATRIX > 0,),
    "any": (_MATRIX > 0,),
    "logical_not": (_MATRIX > 0,),
    "acosh": (_POSITIVE,),
    **dict.fromkeys(("log", "log2", "log10", "log1p", "sqrt", "rsqrt"), (_POSITIVE,)),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), (_MATRIX > 0, _MATRIX < 0.5)),
    **dict.fromkeys(("multiply", "maximum", "minimum", "greater_than", "isclose"), (_MATRIX, _POSITIVE)),
}


@pytest.mark.parametrize("name", sorted(operations.OLDER))
def test_functions_give_the_same_in_older_programs(name: str) -> None:
    function = getattr(paddle, name, None) or getattr(paddle.nn.functional, name)
    arrays = _CALLS.get(name, (_MATRIX,))
    more = {"roll": {"shifts": 1, "axis": 1}}.get(name, {})
    found = _computed(lambda *given: function(*given, **more), *arrays)
    paddle.disable_static()
    try:
        expected = function(*(paddle.to_tensor(each) for each in arrays), **more).numpy()
    finally:
        paddle.enable_static()
    assert found.dtype == expected.dtype
    assert found.reshape(expected.shape) == pytest.approx(expected, abs=1e-6)


def test_reductions_along_axes_and_methods_of_variables() -> None:
    assert _computed(lambda x: paddle.sum(x, axis=[0, 1]), _MATRIX) == pytest.approx(_MATRIX.sum())
    assert _computed(lambda x: x.sum(axis=-1, keepdim=True), _MATRIX) == pytest.approx(_MATRIX.sum(1, keepdims=True))
    assert _computed(lambda x: paddle.argmax(x, axis=1), _MATRIX).tolist() == [2, 1]
    assert _computed(lambda x: x.matmul(x, transpose_y=True), _MATRIX) == pytest.approx(_MATRIX @ _MATRIX.T)
    assert _computed(lambda x: paddle.sum(paddle.cast(x, "int32")), _POSITIVE).dtype == np.int64


def test_what_the_person_says_who_starts_the_job() -> None:
    assert roles.session_options({}) == SessionOptions()
    said = {"UMIAK_PS_DURABILITY_MS": "20", "UMIAK_PS_WIRE": "bfloat16"}
    assert roles.session_options(said) == SessionOptions(durability_ms=20, wire="bfloat16")
    for name in said:
        with pytest.raises(BadRequest, match=f"{name}: expected .*: half"):
            roles.session_options({name: "half"})
