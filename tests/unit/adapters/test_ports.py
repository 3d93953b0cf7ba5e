"""Held ports: nobody else gets them until their worker does, and two launchers of one host never hold the same."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from tests.support import python
from umiak.adapters import ports
from umiak.adapters.ports import HeldPorts, listener_of
from umiak.core.problem import UmiakError


@pytest.fixture
def held() -> Iterator[HeldPorts]:
    some = HeldPorts()
    yield some
    some.close()


@pytest.fixture
def others() -> Iterator[HeldPorts]:
    some = HeldPorts()
    yield some
    some.close()


def can_be_bound(number: int, host: str = "") -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        try:
            sock.bind((host, number))
            sock.listen()
        except OSError:
            return False
        return True


def free_ports(count: int) -> tuple[int, ...]:
    """Ports that were free a moment ago, in the range that the launcher uses."""
    some = HeldPorts()
    some.hold_any(count)
    numbers = some.numbers
    some.close()
    return numbers


def test_so_many_different_ports_are_held_below_the_range_for_outgoing_connections(held: HeldPorts) -> None:
    held.hold_any(20)
    assert len(set(held.numbers)) == 20
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        lowest_outgoing = int(file.read().split()[0])
    if lowest_outgoing >= ports.FIRST + 2000:
        assert max(held.numbers) < lowest_outgoing
    assert min(held.numbers) >= ports.FIRST


def test_a_held_port_cannot_be_taken_on_any_address(held: HeldPorts) -> None:
    held.hold_any(3)
    for number in held.numbers:
        assert not can_be_bound(number)
        assert not can_be_bound(number, "127.0.0.1")


def test_a_held_port_does_not_look_as_if_somebody_listened(held: HeldPorts) -> None:
    held.hold_any(1)
    with socket.socket() as sock:
        assert sock.connect_ex(("127.0.0.1", held.numbers[0])) != 0


def test_a_released_port_is_its_workers_and_still_no_other_launchers(held: HeldPorts, others: HeldPorts) -> None:
    held.hold_any(2)
    first, second = held.numbers
    held.release(first)
    assert can_be_bound(first)
    assert not can_be_bound(second)
    with pytest.raises(UmiakError):
        others.hold_these([first])
    assert held.numbers == (first, second)
    held.release(first)  # a worker that is started again in its place


def test_two_launchers_never_hold_the_same_port(held: HeldPorts, others: HeldPorts) -> None:
    held.hold_any(200)
    others.hold_any(200)
    assert not {*held.numbers} & {*others.numbers}


def test_two_launchers_that_start_looking_at_the_same_place_never_hold_the_same_port(
    held: HeldPorts, others: HeldPorts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports.os, "urandom", lambda _count: b"\x07\x07")
    held.hold_any(50)
    others.hold_any(50)
    assert not {*held.numbers} & {*others.numbers}


def test_the_end_of_the_range_is_no_end(held: HeldPorts, monkeypatch: pytest.MonkeyPatch) -> None:
    first = free_ports(1)[0]
    monkeypatch.setattr(ports, "usable_range", lambda: (first, first + 10))
    monkeypatch.setattr(ports.os, "urandom", lambda _count: (9).to_bytes(2, "big"))
    held.hold_any(2)
    assert all(first <= number < first + 10 for number in held.numbers)


def test_closed_ports_are_free_again(held: HeldPorts, others: HeldPorts) -> None:
    held.hold_any(3)
    numbers = held.numbers
    held.close()
    assert held.numbers == ()
    others.hold_these(numbers)
    assert others.numbers == numbers


def test_ports_are_free_again_however_their_launcher_ends(held: HeldPorts) -> None:
    holder = python(
        """
        from umiak.adapters.ports import HeldPorts
        held = HeldPorts()
        held.hold_any(2)
        print(*held.numbers, flush=True)
        input()
        """,
        stdin=-1,
    )
    with holder:
        assert holder.stdout is not None
        numbers = [int(word) for word in holder.stdout.readline().split()]
        with pytest.raises(UmiakError):
            held.hold_these(numbers)
        holder.kill()
        holder.wait()
    held.hold_these(numbers)
    assert held.numbers == tuple(numbers)


def test_ports_that_were_asked_for_are_held_in_their_order(held: HeldPorts) -> None:
    one, other, third = free_ports(3)
    held.hold_these([third, one, other])
    assert held.numbers == (third, one, other)


def test_all_taken_ports_are_reported_together_and_nothing_is_kept(held: HeldPorts) -> None:
    numbers = free_ports(3)
    with socket.create_server(("", numbers[0])), socket.create_server(("127.0.0.1", numbers[2])):
        with pytest.raises(UmiakError) as error:
            held.hold_these(numbers)
        assert [problem.code for problem in error.value.problems] == ["UM-PORT-001", "UM-PORT-001"]
        assert [problem.what for problem in error.value.problems] == [
            f"port {numbers[0]} is taken",
            f"port {numbers[2]} is taken",
        ]
        assert error.value.exit_status == 3
        assert all(problem.hint for problem in error.value.problems)
        assert held.numbers == ()
        assert can_be_bound(numbers[1])


def test_no_free_ports_at_all_is_a_problem_with_a_code(held: HeldPorts, monkeypatch: pytest.MonkeyPatch) -> None:
    first = free_ports(1)[0]
    monkeypatch.setattr(ports, "usable_range", lambda: (first, first + 1))
    with pytest.raises(UmiakError) as error:
        held.hold_any(2)
    assert [problem.code for problem in error.value.problems] == ["UM-PORT-002"]
    assert error.value.exit_status == 3


def test_a_port_whose_last_worker_just_ended_can_be_held_again(held: HeldPorts) -> None:
    number = free_ports(1)[0]
    with (
        socket.create_server(("127.0.0.1", number)) as server,
        socket.create_connection(("127.0.0.1", number)) as client,
    ):
        accepted, _ = server.accept()
        accepted.close()  # this side closes first: its end of the connection lingers
        client.recv(1)
    held.hold_these([number])
    assert held.numbers == (number,)


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_who_listens_is_named(family: int, host: str) -> None:
    with socket.socket(family) as sock:
        try:
            sock.bind((host, 0))
        except OSError:
            pytest.skip(f"no {host} on this machine")
        port = sock.getsockname()[1]
        assert listener_of(port) is None  # it is bound, and does not listen
        sock.listen()
        assert (listener_of(port) or "").endswith(f" (process {os.getpid()})")
    assert listener_of(port) is None
