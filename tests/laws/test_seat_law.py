"""For any environment, what `umiak train --explain` says of this process is what the run takes it for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from umiak.ps import environment
from umiak.ps.environment import SeatRole
from umiak.ps.errors import BadRequest
from umiak.train.plan.process_role import process_role

SERVERS = "127.0.0.1:6170,127.0.0.1:6171"
NUMBERS = ["0", "1", "2", "x"]
VALUES = {
    "UMIAK_ROLE": ["server", "trainer", "heter", "boss"],
    "TRAINING_ROLE": ["PSERVER", "TRAINER", "HETER_TRAINER", "boss"],
    "PADDLE_TRAINING_ROLE": ["PSERVER", "TRAINER"],
    "UMIAK_SERVERS": [SERVERS],
    "PADDLE_PSERVERS_IP_PORT_LIST": [SERVERS, "127.0.0.1:6170 [::1]:6171", "127.0.0.1"],
    "UMIAK_RANK": NUMBERS,
    "PADDLE_TRAINER_ID": NUMBERS,
    "PADDLE_PSERVER_ID": NUMBERS,
    "UMIAK_WORLD_SIZE": NUMBERS,
    "PADDLE_TRAINERS_NUM": NUMBERS,
    "PADDLE_CURRENT_ENDPOINT": ["127.0.0.1:6171", "127.0.0.1:9999"],
    "POD_IP": ["127.0.0.1", "[::1]"],
    "PADDLE_PORT": ["6170", "6171", "9999"],
}


@st.composite
def environments(draw: st.DrawFn) -> dict[str, str]:
    """Most of them are jobs with servers, which have most of the names."""
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), unique=True))
    return {name: draw(st.sampled_from(VALUES[name])) for name in names}


@given(environments())
def test_the_plan_and_the_run_agree_about_a_process(environ: dict[str, str]) -> None:
    told = process_role(environ)
    try:
        run = environment.seat(environ)
    except BadRequest as wrong:
        if [problem.code for problem in wrong.problems] != ["UM-PS-005"]:  # the plan knows whether servers are wanted
            assert told.problems
        return
    assert not told.problems or run.role is SeatRole.ALONE
    if run.role is not SeatRole.ALONE:
        assert told.seat is not None
        assert (told.seat.role.value, told.seat.rank) == (run.role.value, run.rank)
        assert (told.seat.trainers, told.seat.servers) == (run.world, run.servers)
