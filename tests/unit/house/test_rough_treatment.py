"""What a launcher must bear: strangers who say anything, full disks, odd consoles, ends at the wrong moment."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import threading

import pytest

from tests.support import Sink, offer, output_of, simulated_cluster, terms
from tests.support.simulated_cluster import World
from tests.support.stories.transcript import play
from tests.unit.launch.test_http import OK, Asked, says, serve, sized
from tests.unit.launch.test_link import Listening, loop
from tests.unit.launch.test_link_strangers import HELLO, frame, knock
from tests.unit.launch.test_logs import lines_of, pipe, worker_log
from umiak.adapters.ports import HeldPorts
from umiak.launch import events
from umiak.launch.events import Discovery, NodeSetting
from umiak.launch.node.machine import NodeMachine
from umiak.launch.reports.logs import Console

__all__ = ["knock", "loop", "pipe", "serve"]  # fixtures


def test_nodes_that_stand_by_do_not_each_go_on_alone():
    world = World(terms("1:2"), seed=1)
    for name in "abcd":
        world.start(name)
        world.run(1)
    world.kill("a")
    world.kill("b")
    world.run(60)


def test_a_returned_master_and_a_newcomer_do_not_form_a_second_job():
    world = World(terms("1:2"), seed=1)
    world.start("a")
    world.start("b")
    world.run(2)
    world.kill("a")
    world.run(5)
    world.start("a")
    world.start("c")
    world.run(20)  # would raise TwoHalves
    assert {cluster.coordinator for cluster in world.running().values()} == {"b"}


def test_in_a_job_of_fixed_size_a_returned_master_and_a_newcomer_leave_nobody_behind():
    world = World(terms("2", max_restart=3), seed=1)
    world.start("a")
    world.start("b")
    world.run(2)
    world.kill("a")
    world.run(5)
    world.start("a")
    world.start("c")
    world.run(20)
    formed = {(cluster.generation, cluster.coordinator, len(cluster.nodes)) for cluster in world.running().values()}
    assert formed == {(2, "b", 2)}


@pytest.mark.parametrize("seed", range(20))
def test_a_masters_death_that_is_heard_of_late_leaves_workers_less_time_to_end(seed, monkeypatch):
    """A node is cut off just when the master dies; its workers, which ignore SIGTERM, are gone before the others go on."""
    world = World(terms("1:4"), seed=seed)
    for name in "abcd":
        world.start(name)
    world.run(30)
    late = world.nodes["a"].cluster.names[1]  # whom the others ask first
    world.nodes[late].stubborn = True
    world.cut({late}, {*world.nodes})
    world.kill("a")
    world.run(3.47)
    monkeypatch.setattr(simulated_cluster, "LONGEST_RETRY_S", 0.0)
    world.heal()
    world.run(30)  # TwoHalves if workers of two formations ever live at once
    assert {*world.running()} >= {*"bcd"} - {late}


def test_no_worker_is_started_again_on_a_node_that_was_told_to_stop():
    story = "$ node b nnodes=2 mode=ps servers=1 trainers=1\n$ link up\n$ form 1 ab\n$ listening server.0\n$ go 1\n$ fail server.0\n$ signal 15\n$ restart server.0\n"
    assert "StartWorkers" not in play(story).split("$ restart server.0")[1]


def test_a_held_port_cannot_be_taken_with_reuse():
    held = HeldPorts()
    held.hold_any(1)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            sock.bind(("", held.numbers[0]))
    held.close()


@pytest.mark.parametrize("hello", [{**HELLO, "nonce": "\ud800"}, HELLO], ids=["nonce", "proof"])
def test_half_a_character_does_not_bring_the_launcher_down(loop, knock, hello):
    stranger = knock(Listening(loop, token=b"secret"))
    stranger.say(frame(hello))
    stranger.hear(loop)
    stranger.say(frame({"proof": "\ud800"}))
    assert "refused" in stranger.hear(loop)


def test_a_chunk_of_negative_size_is_no_http(serve):
    asked = Asked(serve(says(OK + b"Transfer-Encoding: chunked\r\n\r\n-6\r\n")).address).wait()
    assert asked.failures == ["a chunk that is not HTTP"]


def test_an_answer_that_is_too_deep_is_no_json(serve):
    asked = Asked(serve(says(sized(b"[" * 100_000))).address).wait()
    assert asked.failures == ["an answer that is not JSON"]


def test_a_rotation_that_fails_closes_nobody_elses_file(tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    log = worker_log(folder / "workerlog.0", most_bytes=100)
    log.feed(b"x" * 90)
    shutil.rmtree(folder)
    assert log.feed(b"y" * 90) != ""
    other = os.open(tmp_path / "other", os.O_WRONLY | os.O_CREAT)
    log.feed(b"z" * 90)
    os.write(other, b"still open")


def test_what_was_left_out_is_told_also_if_nothing_comes_after_it(pipe):
    read_end, write_end = pipe
    console = Console(write_end, {}, lambda _fd, _call: None)
    lines_of(console, 30_000)
    seen = []

    def read():
        while b"left out" not in b"".join(seen[-2:]) and (data := os.read(read_end, 65536)):
            seen.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    console.drain(5.0)
    os.close(write_end)
    os.close(console._fd)
    reader.join()
    assert b"lines left out" in b"".join(seen)


def test_a_line_end_that_comes_in_two_pieces_is_one(tmp_path):
    sink = Sink()
    log = worker_log(tmp_path / "workerlog.0", console=sink)
    log.feed(b"one\r")
    log.feed(b"\ntwo\n")
    log.close()
    assert sink.shown in (b"[trainer 3] one\r\n[trainer 3] two\n", b"[trainer 3] one\n[trainer 3] two\n")


def test_half_a_line_is_not_put_in_the_next_workers_mouth(tmp_path):
    sink = Sink()
    log = worker_log(tmp_path / "workerlog.0", console=sink)
    log.feed(b"dying wo")
    log.begin("trainer 4", 4)
    log.feed(b"hello\n")
    log.close()
    assert sink.shown == b"[trainer 3] dying wo\n[trainer 4] hello\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a network namespace")
def test_a_second_address_of_an_interface_is_found():
    out = subprocess.run(
        [
            "unshare",
            "-n",
            "sh",
            "-c",
            f"ip link set lo up && ip addr add 10.9.9.9/32 dev lo && {shlex.quote(sys.executable)} -c 'from umiak.adapters import hostinfo; print(hostinfo.addresses())'",
        ],
        capture_output=True,
        text=True,
    )
    assert "10.9.9.9" in out.stdout, out.stderr


def test_a_journal_that_a_full_disk_cut_short_can_be_replayed_as_far_as_it_goes(tmp_path):
    output_of(
        """
        import resource, sys
        from tests.support import offer, terms
        from umiak.launch import events
        from umiak.launch.journal import Journal, Start
        from umiak.launch.node.machine import NodeMachine
        setting = events.NodeSetting(terms=terms("1"), offer=offer("a"))
        journal = Journal(sys.argv[1])
        journal.begin("run", 0.0, setting)
        node = NodeMachine(setting)
        journal.record(0.0, "node", Start(), node.start(0.0))
        size = __import__("os").stat(sys.argv[1]).st_size + 20
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        for n in range(3):
            journal.record(0.1, "node", events.Tick(), ())
        """,
        tmp_path / "events.jsonl",
        env={**os.environ, "PYTHONPATH": "."},
    )
    from umiak.launch.journal import replay

    assert len(list(replay((tmp_path / "events.jsonl").read_text().splitlines()))) == 1


def test_a_replacement_that_comes_while_the_failed_node_still_stops_is_not_sent_away():
    story = "$ master nnodes=3 elastic_level=0\n$ join a b c\n$ say b failed code=5\n$ join d\n"
    assert "Refuse" not in play(story)


def test_a_node_whose_master_dies_after_a_long_wait_does_not_look_for_it_for_ever():
    node = NodeMachine(
        NodeSetting(
            terms=terms("2", join_timeout_s=60.0),
            offer=offer("b"),
            discovery=Discovery.ADDRESS,
            leads=False,
            master_host="10.0.0.1",
            master_port=7000,
        )
    )
    node.start(0.0)
    node.step(50.0, events.LinkUp(host="10.0.0.2"))
    node.step(60.0, events.Tick())  # its own --join_timeout passes while it waits at the master
    node.step(100.0, events.LinkClosed())  # the master dies before anything was formed
    now = 100.0
    while now < 1000.0:
        now = node.next_deadline
        actions = node.step(now, events.Tick())
        if any(isinstance(action, events.Exit) for action in actions):
            return
        if any(isinstance(action, events.Dial) for action in actions):
            node.step(now, events.LinkFailed(refused=True, why="Connection refused"))
    pytest.fail("it dials for ever")
