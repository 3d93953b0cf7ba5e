"""The testbed keeps its word: hosts are like machines, cuts are silent, servers come back, and nothing is left behind."""

from __future__ import annotations

import base64
import http.client
import json
import os
import random
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed import etcd, hosts, processes, pytest_support, workspace
from testbed.pytest_support import NetworkFactory
from tests.support import PATIENCE_S
from tests.support.paths import ROOT

PORT = 5000

ECHO = f"""
import socket, threading
def serve(connection):
    while data := connection.recv(4096):
        connection.sendall(data)
server = socket.create_server(("", {PORT}), family=socket.AF_INET6, dualstack_ipv6=True)
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=[server.accept()[0]], daemon=True).start()
"""

CALL = f"""
import socket, sys
with socket.create_connection((sys.argv[1], {PORT}), timeout=10) as connection:
    connection.sendall(b"hello")
    print(connection.recv(100).decode(), connection.getpeername()[0])
"""


def start_echo(host: hosts.Host) -> subprocess.Popen[str]:
    process = host.popen([sys.executable, "-c", ECHO], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as output:
        assert output.readline() == "ready\n"
    return process


def call(host: hosts.Host, name: str) -> str:
    return host.run([sys.executable, "-c", CALL, name], timeout=PATIENCE_S, check=True).stdout.strip()


def connect(host: hosts.Host, address: str, timeout: float = 10) -> socket.socket:
    with host.inside():
        return socket.create_connection((address, PORT), timeout=timeout)


def echo(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    return connection.recv(100)


def is_silent(connection: socket.socket, seconds: float = 1.0) -> bool:
    """Whether neither data, nor an end, nor an error comes from a connection for a while."""
    return not select.select([connection], [], [], seconds)[0]


def eventually(what: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def processes_in(namespaces: set[str]) -> set[int]:
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.readlink(entry / "ns/net") in namespaces:
                    found.add(int(entry.name))
            except OSError:
                pass
    return found


@pytest.fixture
def killed_owner() -> Iterator[Callable[[str], dict[str, str]]]:
    """Run a program that uses the testbed, and kill it with SIGKILL once it has printed what it has, as JSON."""
    owners: list[subprocess.Popen[str]] = []

    def run(program: str) -> dict[str, str]:
        owner = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        owners.append(owner)
        assert owner.stdout is not None
        with owner.stdout as output:
            told: dict[str, str] = json.loads(output.readline())
        owner.kill()
        owner.wait()
        return told

    yield run
    for owner in owners:
        owner.kill()
        owner.wait()


# ---- hosts


@pytest.mark.netns
def test_hosts_reach_one_another_by_address_and_by_name(network: NetworkFactory) -> None:
    a, b, c = network(3).hosts
    start_echo(b)
    assert call(a, b.address) == "hello 10.88.0.2"
    assert call(a, b.address6) == "hello fd00:88::2"
    assert call(a, "node1") == "hello 10.88.0.2"
    assert call(c, "node1-v6") == "hello fd00:88::2"


@pytest.mark.netns
@pytest.mark.parametrize(("own_name_is_loopback", "address"), [(True, "127.0.1.1"), (False, "10.88.0.1")])
def test_own_name_is_loopback_as_on_debian(network: NetworkFactory, own_name_is_loopback: bool, address: str) -> None:
    a, _ = network(2, own_name_is_loopback=own_name_is_loopback).hosts
    ask = "import socket; print(socket.gethostname(), socket.gethostbyname(socket.gethostname()))"
    assert a.run([sys.executable, "-c", ask], check=True).stdout.split() == ["node0", address]
    assert a.run(["cat", "/etc/hostname"], check=True).stdout == "node0\n"


@pytest.mark.netns
def test_a_host_sees_its_own_processes_and_interfaces_and_the_real_files(
    network: NetworkFactory, tmp_path: Path
) -> None:
    (a,) = network(1).hosts
    assert sorted(a.run(["ls", "/sys/class/net"], check=True).stdout.split()) == ["eth0", "lo"]
    seen = a.run(["sh", "-c", "echo /proc/[0-9]*; echo /proc/$$"], check=True).stdout.split()
    assert seen == ["/proc/1", seen[-1], seen[-1]]
    (tmp_path / "here").touch()
    assert a.run(["ls"], cwd=tmp_path, check=True).stdout == "here\n"
    assert a.run(["pwd"], check=True).stdout.strip() == os.getcwd()
    a.run(["touch", "/dev/shm/umiak-testbed"], check=True)
    assert not Path("/dev/shm/umiak-testbed").exists()


@pytest.mark.netns
def test_run_is_like_subprocess_run(network: NetworkFactory) -> None:
    (a,) = network(1).hosts
    done = a.run(
        ["sh", "-c", "cat; echo $WORD >&2; exit 3"], input="in", env={"WORD": "err", "PATH": os.environ["PATH"]}
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "in", "err\n")
    with pytest.raises(subprocess.CalledProcessError):
        a.run(["false"], check=True)
    with pytest.raises(subprocess.TimeoutExpired):
        a.run(["sleep", "60"], timeout=0.1)
    assert a.run(["no-such-program"]).returncode == 127


@pytest.mark.netns
def test_signals_reach_the_program_itself(network: NetworkFactory) -> None:
    (a,) = network(1).hosts
    polite = "import signal, sys; signal.signal(15, lambda *_: sys.exit(7)); print('ready', flush=True); signal.pause()"
    process = a.popen([sys.executable, "-c", polite], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as output:
        assert output.readline() == "ready\n"
    processes.pause(process)
    assert "State:\tT" in Path(f"/proc/{process.pid}/status").read_text()
    processes.resume(process)
    process.terminate()
    assert process.wait(timeout=PATIENCE_S) == 7


@pytest.mark.netns
def test_a_cut_is_silent_and_heals(network: NetworkFactory) -> None:
    net = network(3)
    a, b, c = net.hosts
    start_echo(b)
    with connect(a, b.address, 60) as from_a, connect(a, b.address6, 60) as from_a_v6, connect(c, b.address) as from_c:
        assert echo(from_a, b"1") == b"1"
        assert echo(from_a_v6, b"1") == b"1"
        net.cut(b, a)
        from_a.sendall(b"2")
        from_a_v6.sendall(b"2")
        assert is_silent(from_a)
        assert is_silent(from_a_v6)
        assert echo(from_c, b"2") == b"2"
        net.heal(a, b)
        assert from_a.recv(100) == b"2"
        assert from_a_v6.recv(100) == b"2"
    assert call(a, b.name) == "hello 10.88.0.2"


@pytest.mark.netns
def test_connecting_over_a_cut_times_out(network: NetworkFactory) -> None:
    net = network(2)
    a, b = net.hosts
    start_echo(b)
    net.cut(a, b)
    with pytest.raises(TimeoutError):  # not "no route to host", which comes when ARP has had no answer for 3 s
        connect(a, b.address, timeout=4)


@pytest.mark.netns
def test_a_cut_is_silent_in_the_other_direction_too(network: NetworkFactory) -> None:
    net = network(2)
    a, b = net.hosts
    server = start_echo(b)
    with connect(a, b.address, 60) as connection:
        assert echo(connection, b"1") == b"1"
        net.cut(a, b)
        server.kill()
        assert is_silent(connection)
        net.heal(b, a)
        assert connection.recv(100) == b""


@pytest.mark.netns
def test_a_slow_link_delays_all_that_passes_it_and_changes_nothing(network: NetworkFactory) -> None:
    net = network(3)
    a, b, c = net.hosts
    for host in net.hosts:
        start_echo(host)
    data = random.Random(1).randbytes(3_000_000)

    def round_trip_s(connection: socket.socket) -> float:
        began = time.monotonic()
        assert echo(connection, b"1") == b"1"
        return time.monotonic() - began

    def sent_and_back(connection: socket.socket) -> bytes:
        sender = threading.Thread(target=connection.sendall, args=[data])
        sender.start()
        back = bytearray()
        while len(back) < len(data):
            back += connection.recv(1 << 16)
        sender.join()
        return bytes(back)

    with connect(a, b.address, 60) as to_b, connect(a, b.address6, 60) as to_b_v6, connect(a, c.address) as to_c:
        net.slow_down(a, b, delay_s=0.05)
        assert min(round_trip_s(to_b), round_trip_s(to_b_v6)) >= 0.1
        net.slow_down(b, a, delay_s=0.001, bits_per_s=100e6)
        began = time.monotonic()
        assert sent_and_back(to_b) == data
        assert time.monotonic() - began > 8 * len(data) / 100e6
        net.speed_up(a, b)
        assert sent_and_back(to_b) == sent_and_back(to_c) == data


@pytest.mark.netns
def test_a_stalled_link_loses_nothing_and_a_slow_one_can_be_cut(network: NetworkFactory) -> None:
    net = network(3)
    a, b, c = net.hosts
    start_echo(b)
    start_echo(c)
    with connect(a, b.address, 60) as connection, connect(a, c.address) as to_c:
        net.stall(a, b)
        connection.sendall(b"1")
        assert is_silent(connection)
        assert echo(to_c, b"1") == b"1"
        net.slow_down(a, b, delay_s=0.001)
        assert connection.recv(100) == b"1"
        net.cut(a, b)
        connection.sendall(b"2")
        assert is_silent(connection)
        net.heal(a, b)
        assert connection.recv(100) == b"2"
    net.cut(a, b)
    with pytest.raises(TimeoutError):
        connect(a, b.address, timeout=0.3)


@pytest.mark.netns
def test_a_link_that_is_cut_stays_so_when_it_becomes_slow(network: NetworkFactory) -> None:
    net = network(2)
    a, b = net.hosts
    start_echo(b)
    net.cut(a, b)
    net.slow_down(a, b, delay_s=0.001)
    with pytest.raises(TimeoutError):
        connect(a, b.address, timeout=0.3)
    net.heal(a, b)
    assert call(a, b.name) == "hello 10.88.0.2"


@pytest.mark.netns
def test_an_isolated_host_reaches_nobody_but_itself(network: NetworkFactory) -> None:
    net = network(3)
    a, b, c = net.hosts
    for host in net.hosts:
        start_echo(host)
    net.isolate(b)
    for one, other in [(a, b), (b, a), (b, c), (c, b)]:
        with pytest.raises(TimeoutError):
            connect(one, other.address, timeout=0.3)
    assert call(b, b.address) == "hello 10.88.0.2"
    assert call(a, c.name) == "hello 10.88.0.3"
    net.rejoin(b)
    assert call(a, b.name) == call(c, b.name) == "hello 10.88.0.2"
    with pytest.raises(ValueError, match="not two hosts of this network: node0, node0"):
        net.cut(a, a)


@pytest.mark.netns
def test_killed_host_closes_its_connections_and_refuses_new_ones(network: NetworkFactory) -> None:
    a, b = network(2).hosts
    server = start_echo(b)
    daemon = b.run(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & readlink /proc/$!/ns/net"], check=True)
    namespace = daemon.stdout.strip()
    assert len(processes_in({namespace})) == 3
    with connect(a, b.address) as connection:
        assert echo(connection, b"1") == b"1"
        b.kill()
        assert processes_in({namespace}) == set()
        assert server.returncode == -signal.SIGKILL
        assert connection.recv(100) == b""
    with pytest.raises(ConnectionRefusedError):
        connect(a, b.address)
    with pytest.raises(hosts.NetworkError, match="node1 is down"):
        b.run(["true"])

    b.start()
    with pytest.raises(hosts.NetworkError, match="node1 is already running"):
        b.start()
    start_echo(b)
    assert call(a, "node1") == "hello 10.88.0.2"
    assert call(b, "node1") == "hello 127.0.1.1"


@pytest.mark.netns
def test_power_off_is_silent(network: NetworkFactory) -> None:
    a, b = network(2).hosts
    start_echo(b)
    with connect(a, b.address) as connection:
        assert echo(connection, b"1") == b"1"
        b.power_off()
        assert is_silent(connection)
        with pytest.raises(TimeoutError):
            connect(a, b.address, timeout=0.3)
        b.start()
        connection.sendall(b"2")
        with pytest.raises(ConnectionResetError):  # the rebooted host knows nothing of it
            connection.recv(100)
    start_echo(b)
    assert call(a, "node1") == "hello 10.88.0.2"


@pytest.mark.netns
def test_two_networks_do_not_disturb_each_other(network: NetworkFactory) -> None:
    one, other = network(2), network(2)
    for net in (one, other):
        start_echo(net.hosts[1])
    one.cut(*one.hosts)
    assert call(other.hosts[0], "node1") == "hello 10.88.0.2"
    with pytest.raises(TimeoutError):
        connect(one.hosts[0], "10.88.0.2", timeout=0.3)
    with pytest.raises(ValueError, match="not two hosts of this network"):
        one.cut(one.hosts[0], other.hosts[1])


@pytest.mark.netns
def test_a_network_outlives_the_thread_that_opened_it(network: NetworkFactory) -> None:
    opened: list[hosts.Network] = []
    thread = threading.Thread(target=lambda: opened.append(network(2)))
    thread.start()
    thread.join()
    a, b = opened[0].hosts
    start_echo(b)
    assert call(a, "node1") == "hello 10.88.0.2"


def machine_state() -> tuple[str, str]:
    """What the machine itself has of interfaces and mounts."""
    links = subprocess.run(["ip", "-oneline", "link"], capture_output=True, text=True, check=True).stdout
    return re.sub(r"qlen \d+", "", links), Path("/proc/self/mountinfo").read_text()


@pytest.mark.netns
def test_an_open_network_changes_nothing_on_the_machine_itself(network: NetworkFactory) -> None:
    before = machine_state()
    network(3)
    assert machine_state() == before


OWNER_OF_HOSTS = f"""
import json, os, subprocess, sys, time
from testbed import hosts
with hosts.network(3) as net:
    a, b, c = net.hosts
    server = b.popen([sys.executable, "-c", '''{ECHO}'''], stdout=subprocess.PIPE)
    server.stdout.readline()
    stubborn = "trap '' TERM HUP INT; setsid sh -c 'sleep 1000 & sleep 1000' & echo ready; sleep 1000"
    a.popen(["sh", "-c", stubborn], stdout=subprocess.PIPE).stdout.readline()
    net.cut(a, c)
    c.kill()
    machines = [net.switch, a, b]
    print(json.dumps({{machine.name: os.readlink(f"/proc/{{machine.pid}}/ns/net") for machine in machines}}), flush=True)
    time.sleep(1000)
"""


@pytest.mark.netns
def test_nothing_is_left_when_the_owner_of_a_network_is_killed(
    killed_owner: Callable[[str], dict[str, str]],
) -> None:
    pytest_support.require(hosts.available())
    before = machine_state()
    namespaces = set(killed_owner(OWNER_OF_HOSTS).values())
    assert len(namespaces) == 3
    assert eventually(lambda: processes_in(namespaces) == set())
    assert machine_state() == before


@pytest.mark.netns
def test_shell_beside_a_network() -> None:
    pytest_support.require(hosts.available())
    typed = "node1 hostname\nnode0 getent hosts node1\ncut node1 node0\nheal node0 node1\nexit 5\n"
    command = [sys.executable, "-m", "testbed", "hosts", "2"]
    done = subprocess.run(command, cwd=ROOT, input=typed, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 5
    assert done.stdout.split() == ["node1", "10.88.0.2", "node1"]
    assert "10.88.0.1" in done.stderr


# ---- etcd


def ask(store: etcd.Server, method: str, body: dict[str, object], timeout: float = 10) -> dict[str, object]:
    connection = http.client.HTTPConnection(store.endpoint, timeout=timeout)
    try:
        connection.request("POST", f"/v3/kv/{method}", json.dumps(body))
        answer: dict[str, object] = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return answer


def put(store: etcd.Server, key: str, value: str) -> None:
    ask(store, "put", {"key": in_base64(key), "value": in_base64(value)})


def get(store: etcd.Server, key: str) -> str | None:
    found = ask(store, "range", {"key": in_base64(key)}).get("kvs")
    return base64.b64decode(found[0]["value"]).decode() if isinstance(found, list) else None


def in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.etcd
def test_etcd_keeps_its_data_over_stops_and_loses_it_when_wiped(etcd_server: etcd.Server) -> None:
    endpoint = etcd_server.endpoint
    put(etcd_server, "crew", "four")
    assert get(etcd_server, "crew") == "four"
    for graceful in (False, True):
        etcd_server.stop(graceful=graceful)
        with pytest.raises(ConnectionRefusedError):
            get(etcd_server, "crew")
        etcd_server.start()
        assert get(etcd_server, "crew") == "four"
    etcd_server.restart()
    assert get(etcd_server, "crew") == "four"
    etcd_server.wipe()
    assert get(etcd_server, "crew") is None
    assert etcd_server.endpoint == endpoint


@pytest.mark.etcd
def test_paused_etcd_hangs(etcd_server: etcd.Server) -> None:
    put(etcd_server, "crew", "four")
    etcd_server.pause()
    with pytest.raises(TimeoutError):
        ask(etcd_server, "range", {"key": in_base64("crew")}, timeout=0.3)
    etcd_server.resume()
    assert get(etcd_server, "crew") == "four"


@pytest.mark.etcd
def test_etcd_takes_another_port_when_one_is_taken(etcd_server: etcd.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = int(etcd_server.endpoint.split(":")[1])
    picked = iter([taken])
    really_random = random.randrange
    monkeypatch.setattr(random, "randrange", lambda *limits: next(picked, None) or really_random(*limits))
    with etcd.server() as other:
        assert other.endpoint != etcd_server.endpoint
        put(other, "crew", "two")
        assert get(etcd_server, "crew") is None
    assert next(picked, None) is None
    monkeypatch.setattr(etcd, "PORTS_TRIED", 2)
    with pytest.raises(etcd.EtcdError, match=f"no free port; the last one tried: {taken}"), etcd.server(port=taken):
        pass


@pytest.mark.etcd
@pytest.mark.netns
def test_etcd_on_a_host_comes_back_with_its_data(network: NetworkFactory) -> None:
    pytest_support.require(etcd.available())
    a, b = network(2).hosts
    with etcd.server(a) as store:
        assert store.endpoint.startswith("10.88.0.1:")
        with b.inside():
            put(store, "crew", "four")
        a.kill()
        assert not store.running
        a.start()
        store.start()
        with b.inside():
            assert get(store, "crew") == "four"


OWNER_OF_ETCD = """
import json, time
from testbed import etcd
with etcd.server() as store:
    print(json.dumps({"endpoint": store.endpoint, "log": str(store.log)}), flush=True)
    time.sleep(1000)
"""


@pytest.mark.etcd
def test_nothing_is_left_when_the_owner_of_an_etcd_is_killed(
    killed_owner: Callable[[str], dict[str, str]],
) -> None:
    pytest_support.require(etcd.available())
    told = killed_owner(OWNER_OF_ETCD)
    work = Path(told["log"]).parent
    assert eventually(lambda: not work.exists())
    address, port = told["endpoint"].split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address, int(port)), timeout=10)


@pytest.mark.etcd
def test_etcd_for_a_person() -> None:
    pytest_support.require(etcd.available())
    command = [sys.executable, "-m", "testbed", "etcd"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as person:
        assert person.stdout is not None
        assert person.stderr is not None
        address, port = person.stdout.readline().strip().split(":")
        socket.create_connection((address, int(port)), timeout=10).close()
        assert person.stderr.readline() == "etcd runs; Ctrl-C ends it\n"
        person.send_signal(signal.SIGINT)
        assert person.wait(timeout=PATIENCE_S) == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address, int(port)), timeout=10)


# ---- what both stand on


def test_workspace_ends_daemons_and_leaves_no_directory() -> None:
    with workspace.opened("test") as work:
        shell = work.popen(["sh", "-c", "setsid sleep 1000 & echo $!; exit 3"], log="log")
        assert shell.wait() == 3
        daemon = int((work.path / "log").read_text())
        os.kill(daemon, 0)
    assert not work.path.exists()
    # It was killed; until it has noticed, the system still shows it as running.
    assert eventually(lambda: _has_ended(daemon))


def _has_ended(pid: int) -> bool:
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_what_a_machine_lacks_is_skipped_but_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest_support.require(None)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no root"):
        pytest_support.require("no root")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no root"):
        pytest_support.require("no root")
