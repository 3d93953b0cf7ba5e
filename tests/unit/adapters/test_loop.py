"""The event loop: whatever comes is handled, what was received before what is due, and signals outside their handlers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.support import PATIENCE_S, eventually, output_of, python, run_until
from umiak.adapters.loop import Loop


@pytest.fixture
def loop() -> Iterator[Loop]:
    some = Loop()
    yield some
    some._epoll.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        one.setblocking(False)
        other.setblocking(False)
        yield one, other


def test_timers_fire_in_the_order_of_their_times(loop: Loop) -> None:
    fired: list[str] = []
    now = loop.now()
    loop.at(now + 0.02, lambda: fired.append("third"))
    loop.at(now, lambda: fired.append("first"))
    loop.after(0.01, lambda: fired.append("second"))
    loop.at(now + 0.03, loop.stop)
    loop.run()
    assert fired == ["first", "second", "third"]
    assert loop.now() >= now + 0.03


def test_a_cancelled_timer_does_not_fire(loop: Loop) -> None:
    fired: list[str] = []
    timer = loop.after(0.0, lambda: fired.append("cancelled"))
    other = loop.after(0.001, lambda: fired.append("cancelled by another"))
    loop.after(0.0, other.cancel)
    timer.cancel()
    loop.after(0.005, loop.stop)
    loop.run()
    assert fired == []


def test_a_timer_may_set_the_next_one(loop: Loop) -> None:
    fired: list[int] = []

    def tick() -> None:
        fired.append(len(fired))
        if len(fired) == 5:
            loop.stop()
        else:
            loop.after(0.001, tick)

    loop.after(0.001, tick)
    loop.run()
    assert fired == [0, 1, 2, 3, 4]


def test_soon_comes_before_waiting_and_may_ask_for_more(loop: Loop) -> None:
    seen: list[str] = []
    loop.after(0.0, lambda: (seen.append("timer"), loop.stop()))
    loop.soon(lambda: (seen.append("soon"), loop.soon(lambda: seen.append("then"))))
    loop.run()
    assert seen == ["soon", "then", "timer"]


def test_a_loop_that_was_stopped_can_run_again(loop: Loop) -> None:
    for _ in range(3):
        loop.soon(loop.stop)
        loop.run()
    done: list[int] = []
    loop.soon(loop.stop)
    loop.soon(lambda: done.append(1))
    loop.run()
    assert done == [1], "what was asked for together is done together"


def test_what_can_be_read_is_told_until_it_is_read(loop: Loop, pair: tuple[socket.socket, socket.socket]) -> None:
    here, there = pair
    received: list[bytes] = []
    loop.on_readable(here.fileno(), lambda: received.append(here.recv(2)))
    there.send(b"abcdef")
    run_until(loop, lambda: len(received) == 3)
    assert received == [b"ab", b"cd", b"ef"]


def test_the_other_sides_end_is_something_to_read(loop: Loop, pair: tuple[socket.socket, socket.socket]) -> None:
    here, there = pair
    ended: list[bytes] = []

    def read() -> None:
        ended.append(here.recv(10))
        loop.forget(here.fileno())

    loop.on_readable(here.fileno(), read)
    there.close()
    run_until(loop, lambda: ended)
    assert ended == [b""]


def test_nobody_is_called_after_they_said_no_more(loop: Loop, pair: tuple[socket.socket, socket.socket]) -> None:
    here, there = pair
    calls: list[str] = []
    loop.on_readable(here.fileno(), lambda: calls.append("read"))
    loop.on_writable(here.fileno(), lambda: calls.append("write"))
    loop.forget(here.fileno())
    loop.forget(here.fileno())
    there.send(b"x")
    loop.after(0.005, loop.stop)
    loop.run()
    assert calls == []


def test_reading_and_writing_are_asked_for_apart(loop: Loop, pair: tuple[socket.socket, socket.socket]) -> None:
    here, there = pair
    calls: list[str] = []

    def write() -> None:
        calls.append("write")
        loop.on_writable(here.fileno(), None)

    loop.on_readable(here.fileno(), lambda: calls.append(here.recv(10).decode()))
    loop.on_writable(here.fileno(), write)
    run_until(loop, lambda: calls == ["write"])
    there.send(b"read")
    run_until(loop, lambda: calls == ["write", "read"])


def test_what_was_received_is_handled_before_what_is_due(loop: Loop, pair: tuple[socket.socket, socket.socket]) -> None:
    here, there = pair
    order: list[str] = []
    loop.on_readable(here.fileno(), lambda: order.append(here.recv(10).decode()))
    loop.at(loop.now() - 100, lambda: order.append("long due"))
    there.send(b"heartbeat")
    run_until(loop, lambda: len(order) == 2)
    assert order == ["heartbeat", "long due"]


def test_a_handler_may_forget_another_that_is_ready_as_well(loop: Loop) -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    called: list[int] = []

    def handler(number: int) -> None:
        called.append(number)
        for one, _ in pairs:
            loop.forget(one.fileno())

    for number, (one, other) in enumerate(pairs):
        loop.on_readable(one.fileno(), lambda number=number: handler(number))
        other.send(b"x")
    loop.after(0.005, loop.stop)
    loop.run()
    assert len(called) == 1
    for one, other in pairs:
        one.close()
        other.close()


def test_a_process_that_stood_still_is_told_before_anything_else(
    loop: Loop, pair: tuple[socket.socket, socket.socket]
) -> None:
    here, there = pair
    order: list[str] = []
    # A busy machine lets this process stand still for a moment as well, which is told too.
    loop.on_nap = lambda seconds: order.append("nap") if seconds > 50 else None
    loop.on_readable(here.fileno(), lambda: order.append(here.recv(10).decode()))
    there.send(b"heartbeat")
    loop._turned_at -= 60.0
    loop.at(loop.now() - 60.0, lambda: order.append("due"))
    run_until(loop, lambda: len(order) == 3)
    assert order == ["nap", "heartbeat", "due"]


def test_a_process_that_was_stopped_finds_what_was_sent_meanwhile() -> None:
    """Really stopped, for longer than it wanted to wait: what arrived must be seen before what is due."""
    sleeper = python(
        """
        import os, socket, sys
        from umiak.adapters.loop import Loop
        loop = Loop()
        order = []
        loop.on_nap = lambda seconds: order.append("nap")
        loop.on_readable(0, lambda: order.append(os.read(0, 100).decode().strip()))
        loop.after(1.0, lambda: (order.append("due"), loop.stop()))
        print("waiting", flush=True)
        loop.run()
        print(*order)
        """,
        stdin=subprocess.PIPE,
    )
    with sleeper:
        assert sleeper.stdin is not None
        assert sleeper.stdout is not None
        sleeper.stdout.readline()
        os.kill(sleeper.pid, signal.SIGSTOP)
        sleeper.stdin.write("heartbeat")
        sleeper.stdin.flush()
        started = time.monotonic()
        eventually(lambda: time.monotonic() > started + 1.2)
        os.kill(sleeper.pid, signal.SIGCONT)
        out, _ = sleeper.communicate(timeout=PATIENCE_S)
    assert out.split() == ["nap", "heartbeat", "due"]


def test_signals_are_handled_by_the_loop_in_their_order() -> None:
    seen = output_of(
        """
        import os, signal
        from umiak.adapters.loop import Loop
        loop = Loop()
        seen = []
        loop.on_signal(signal.SIGUSR1, seen.append)
        loop.on_signal(signal.SIGTERM, lambda number: (seen.append(number), loop.stop()))
        os.kill(os.getpid(), signal.SIGUSR1)
        assert seen == [], "not inside the handler"
        loop.soon(lambda: os.kill(os.getpid(), signal.SIGTERM))
        loop.run()
        print(seen == [signal.SIGUSR1, signal.SIGTERM])
        """
    )
    assert seen == "True\n"


SIGNAL_ORDER = """
    import os, signal
    from umiak.adapters.loop import Loop
    loop = Loop()
    order = []
    ended, out = os.pipe()
    os.write(out, b"x")
    def worker_ended():
        order.append("worker")
        loop.forget(ended)
    loop.on_readable(ended, worker_ended)
    loop.on_signal(signal.SIGTERM, lambda number: order.append("signal"))
    loop.after(0.0, lambda: order.append("timer"))
    {moment}
    loop.after(0.05, loop.stop)
    loop.run()
    print(*order)
    """


@pytest.mark.parametrize(
    ("moment", "order"),
    [
        # Both are ready when the loop looks, and what was there first is the worker's end.
        ("os.kill(os.getpid(), signal.SIGTERM)", "signal worker timer"),
        # The signal arrives when the kernel has answered: the answer does not have it.
        (
            "loop._notice_nap = lambda timeout: 'signal' in order or os.kill(os.getpid(), signal.SIGTERM)",
            "signal worker timer",
        ),
        # It arrives while something else is handled.
        ("loop.soon(lambda: os.kill(os.getpid(), signal.SIGTERM)); loop.soon(lambda: order.append('soon'))", ""),
    ],
    ids=["ready at once", "after the kernel's answer", "during a call"],
)
def test_a_signal_that_has_arrived_comes_before_whatever_else_is_ready(moment: str, order: str) -> None:
    assert output_of(SIGNAL_ORDER.replace("{moment}", moment)).strip() == (order or "signal soon worker timer")


def test_a_signal_wakes_a_loop_that_waits_for_nothing_else() -> None:
    seen = output_of(
        """
        import os, signal
        from umiak.adapters.loop import Loop
        loop = Loop()
        loop.on_signal(signal.SIGUSR1, lambda number: loop.stop())
        if os.fork() == 0:
            os.kill(os.getppid(), signal.SIGUSR1)
            os._exit(0)
        loop.run()
        os.wait()
        print("woken")
        """
    )
    assert seen == "woken\n"


def test_descriptors_of_the_loop_are_not_inherited(loop: Loop) -> None:
    assert not os.get_inheritable(loop._epoll.fileno())
