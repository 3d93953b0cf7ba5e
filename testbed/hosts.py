"""Adapter: hosts on one machine, each with its own name, addresses, processes and interfaces, joined by a switch.

    with hosts.network(3) as net:
        a, b, c = net.hosts
        server = a.popen(["python", "server.py"])
        b.run(["python", "client.py", a.name], timeout=10)
        net.cut(a, b)
        c.kill()

Needs root and Linux, `ip` from iproute2 and `nsenter` from util-linux. See `available()`.

A host is a set of namespaces (network, PIDs, mounts, host name, IPC), all held by its process 1 (`testbed.host_init`) and by
nothing else: no name under /run, no file, no interface or mount that the machine itself would see. Process 1 ends when the
process that opened the network does, and the kernel then kills all that ran on the host. The real machine's files are shared,
save /etc/hosts, /etc/hostname, /proc, /sys and /dev/shm. There is no route out, and none from the machine to the hosts.

/etc/hosts is what Debian's installer writes: a host's own name is 127.0.1.1, and its peers' names are their IPv4 addresses.
A peer's IPv6 address is called `node1-v6`.

The switch is a namespace too. Every host is plugged into a bridge of its own, and each two bridges are joined by a trunk;
trunks do not forward to one another, so there are no loops and each trunk carries the traffic of one pair of hosts alone:

    node0 eth0 --- p0 [bridge b0] t0-1 --- t1-0 [bridge b1] p1 --- eth0 node1
                              t0-2 --- t2-0 [bridge b2] p2 --- eth0 node2

To cut a pair is to take its trunk down. Both hosts still have their link, and they know one another's hardware address for
good, so nothing tells a sender: packets vanish, as when a router between two racks has failed.

To slow a pair down is to put a trunk with a delay and a rate (`testbed.delay_line`) in place of the fast one.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeAlias

from testbed import namespaces, processes

Stream: TypeAlias = "int | IO[str] | IO[bytes] | None"

MOST_HOSTS = 64


@contextlib.contextmanager
def network(count: int = 2, *, own_name_is_loopback: bool = True) -> Iterator[Network]:
    """Open a network of hosts `node0`, `node1`, ... and take it down on leaving.

    With `own_name_is_loopback=False` a host's own name is its address, as administrators of clusters often arrange it.
    """
    if not 1 <= count <= MOST_HOSTS:
        raise ValueError(f"a network has 1 to {MOST_HOSTS} hosts: {count}")
    opened = Network(count, own_name_is_loopback=own_name_is_loopback)
    try:
        opened.open()
        yield opened
    finally:
        opened.close()


@functools.cache
def available() -> str | None:
    """Why there can be no hosts on this machine, or `None` where there can. The trial is a network of two."""
    if sys.platform != "linux":
        return f"testbed hosts need Linux: {sys.platform}"
    if os.geteuid() != 0:
        return "testbed hosts need root"
    for tool, package in {"ip": "iproute2", "nsenter": "util-linux", "env": "coreutils"}.items():
        if shutil.which(tool) is None:
            return f"testbed hosts need the command `{tool}`: install {package}"
    try:
        with network(2):
            return None
    except (OSError, NetworkError) as error:
        return f"testbed hosts cannot be made here: {error}"


class NetworkError(Exception):
    """The network cannot be set up, or a host is not in the state that was asked of it."""


class Network:
    """Hosts on a switch; see `network()`. Which pairs are cut outlasts the reboot of a host."""

    def __init__(self, count: int, *, own_name_is_loopback: bool) -> None:
        self.switch = Machine("switch")
        self.hosts = tuple(Host(self, number) for number in range(count))
        self._own_name_is_loopback = own_name_is_loopback
        self._slow_trunks: dict[tuple[int, int], subprocess.Popen[str]] = {}

    def open(self) -> None:
        """Boot the switch and all hosts, side by side, and lay the cables."""
        self.switch.begin_boot("")
        for host in self.hosts:
            host.begin_boot(self.hosts_file(host))
        self.switch.finish_boot()
        self.switch.ip(_bridges_and_trunks(len(self.hosts)))
        for host in self.hosts:
            host.finish_boot()
            host.plug_in()

    def close(self) -> None:
        """End every process of every host, and the hosts."""
        for trunk in self._slow_trunks.values():
            _hang_up(trunk)
        self._slow_trunks.clear()
        machines: list[Machine] = [*self.hosts, self.switch]
        for machine in machines:
            machine.begin_end()
        for machine in machines:
            machine.finish_end()
        for machine in machines:
            machine.forget_network()

    def cut(self, one: Host, other: Host) -> None:
        """Let every packet between the two vanish, both ways, until `heal`."""
        self._set_trunks([(one, other)], "down")

    def heal(self, one: Host, other: Host) -> None:
        """Undo `cut`. What TCP still has to send arrives when it tries again, and it tries less and less often."""
        self._set_trunks([(one, other)], "up")

    def cut_one_way(self, sender: Host, receiver: Host) -> None:
        """Let every packet from one host to the other vanish, but not those the other way, until `heal_one_way`."""
        nobody = "02:00:00:58:ff:ff"
        sender.ip([f"neigh replace {receiver.address} lladdr {nobody} dev eth0 nud permanent"])

    def heal_one_way(self, sender: Host, receiver: Host) -> None:
        """Undo `cut_one_way`."""
        sender.ip([f"neigh del {receiver.address} dev eth0"])

    def slow_down(self, one: Host, other: Host, *, delay_s: float = 0.0, bits_per_s: float = 0.0) -> None:
        """Let packets between the two take so much longer each way, and not more bits pass in a second each way; 0: as many as can."""
        self._tell_slow_trunk(one, other, f"{delay_s} {bits_per_s}")

    def stall(self, one: Host, other: Host) -> None:
        """Keep all packets between the two back until the next `slow_down` or `speed_up`, which loses none that were kept back."""
        self._tell_slow_trunk(one, other, "stall")

    def speed_up(self, one: Host, other: Host) -> None:
        """Undo `slow_down`; packets go over a trunk of the same kind, without a delay and a rate."""
        self._tell_slow_trunk(one, other, "0 0")

    def isolate(self, host: Host) -> None:
        """Cut a host from all others. It keeps its link and can talk to itself."""
        self._set_trunks([(host, other) for other in self.hosts if other is not host], "down")

    def rejoin(self, host: Host) -> None:
        """Heal all of a host's cuts."""
        self._set_trunks([(host, other) for other in self.hosts if other is not host], "up")

    def hosts_file(self, reader: Host) -> str:
        """/etc/hosts as that host has it."""
        lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
        for host in self.hosts:
            loopback = host is reader and self._own_name_is_loopback
            lines.append(f"{'127.0.1.1' if loopback else host.address} {host.name}")
            lines.append(f"{host.address6} {host.name}-v6")
        return "\n".join(lines) + "\n"

    def _pair(self, one: Host, other: Host) -> tuple[int, int]:
        if one is other or one not in self.hosts or other not in self.hosts:
            raise ValueError(f"not two hosts of this network: {one.name}, {other.name}")
        return min(one.number, other.number), max(one.number, other.number)

    def _set_trunks(self, pairs: Sequence[tuple[Host, Host]], state: str) -> None:
        changes = []
        for low, high in [self._pair(one, other) for one, other in pairs]:
            kind = "s" if (low, high) in self._slow_trunks else "t"
            changes.append(f"link set {kind}{low}-{high} {state}")  # a trunk is down when one of its ends is
        self.switch.ip(changes)

    def _tell_slow_trunk(self, one: Host, other: Host, line: str) -> None:
        pair = self._pair(one, other)
        trunk = self._slow_trunks.get(pair)
        if trunk is None:
            trunk = self._slow_trunk(*pair)
            self._slow_trunks[pair] = trunk
        assert trunk.stdin is not None
        assert trunk.stdout is not None
        trunk.stdin.write(f"{line}\n")
        trunk.stdin.flush()
        if trunk.stdout.readline() != "ok\n":
            raise NetworkError(f"the slow trunk between {one.name} and {other.name} has ended: {_hang_up(trunk)}")

    def _slow_trunk(self, low: int, high: int) -> subprocess.Popen[str]:
        """Put it in the place of the fast one, which is up or down as before."""
        ends = (f"s{low}-{high}", f"s{high}-{low}")
        command = [sys.executable, "-E", "-s", "-S", "-m", "testbed.delay_line", *ends]
        pipe = subprocess.PIPE
        here = Path(__file__).parent.parent
        trunk = self.switch.popen(command, cwd=here, stdin=pipe, stdout=pipe, stderr=pipe)
        assert trunk.stdout is not None
        if trunk.stdout.readline() != "ready\n":
            raise NetworkError(f"a slow trunk can't be made: {_hang_up(trunk)}")
        was_cut = "state DOWN" in self.switch.shown(f"t{low}-{high}")
        changes = [f"link set t{low}-{high} down"]
        for end, bridge in zip(ends, (low, high), strict=True):
            changes += [f"link set {end} master b{bridge}", f"link set {end} type bridge_slave isolated on"]
        if was_cut:
            changes.append(f"link set {ends[0]} down")
        self.switch.ip(changes)
        return trunk


class Machine:
    """A set of namespaces, held by a process 1. The switch is one; a `Host` is one that a person can use."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._init: subprocess.Popen[str] | None = None
        self._network_namespace: int | None = None
        self._processes: list[subprocess.Popen[str]] = []

    @property
    def pid(self) -> int:
        """The machine's process 1, as the real machine numbers it."""
        if self._init is None:
            raise NetworkError(f"{self.name} is down")
        return self._init.pid

    @property
    def running(self) -> bool:
        return self._init is not None

    def begin_boot(self, hosts_file: str) -> None:
        """Start process 1. A second call makes it a machine, so that many can boot at a time."""
        if self._init is not None:
            raise NetworkError(f"{self.name} is already running")
        with namespaces.children_in_pid_namespace(None):
            self._init = processes.worker_supervisor("testbed.host_init", self.name, talks=True)
        assert self._init.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._init.stdin as pipe:
            pipe.write(hosts_file)

    def finish_boot(self) -> None:
        """Wait until process 1 has made the namespaces."""
        assert self._init is not None
        assert self._init.stdout is not None
        assert self._init.stderr is not None
        with self._init.stdout as answer, self._init.stderr as complaint:
            if answer.readline() != "ready\n":
                raise NetworkError(f"{self.name} did not boot: {complaint.read().strip()}")
        self.forget_network()
        self._network_namespace = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    def begin_end(self) -> None:
        """Kill process 1, and so all others."""
        if self._init is not None:
            self._init.kill()

    def finish_end(self) -> None:
        """Wait until every process is gone."""
        if self._init is None:
            return
        # Process 1 ends after all others have been reaped, and our own children are ours to reap.
        for process in self._processes:
            process.wait()
        self._init.wait()
        for stream in (self._init.stdout, self._init.stderr):
            if stream is not None:
                stream.close()
        self._init = None
        self._processes.clear()

    def forget_network(self) -> None:
        """Let go of the network namespace, which vanishes with the last process and the last unfinished connection."""
        if self._network_namespace is not None:
            with namespaces.in_network_namespace(self._network_namespace):
                namespaces.abandon_connections()
            os.close(self._network_namespace)
            self._network_namespace = None

    def popen(
        self,
        args: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        stdin: Stream = None,
        stdout: Stream = None,
        stderr: Stream = None,
        start_new_session: bool = False,
    ) -> subprocess.Popen[str]:
        """Start a program on the machine, as `subprocess.Popen` does with `text=True`.

        The handle is that of the program itself: `pid` is its id on the real machine, and signals go to it. A program that
        cannot be started ends with status 126 or 127, as in a shell.
        """
        enter = [f"--{kind}=/proc/{self.pid}/ns/{file}" for kind, file in _ENTERED.items()]
        # nsenter and env replace themselves, so no process stands between. The directory is entered last, by its path,
        # because a directory of the real machine's mounts has no name on it.
        command = ["nsenter", *enter, "env", "-C", os.path.abspath(cwd or os.getcwd()), *args]
        with namespaces.children_in_pid_namespace(self.pid):
            process = subprocess.Popen(
                command,
                env=env,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=start_new_session,
                text=True,
            )
        self._processes = [known for known in self._processes if known.returncode is None]
        self._processes.append(process)
        return process

    def ip(self, commands: Sequence[str]) -> None:
        """Run commands of `ip` in the network namespace."""
        done = subprocess.run(
            ["nsenter", f"--net=/proc/{self.pid}/ns/net", "ip", "-batch", "-"],
            input="\n".join(commands),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise NetworkError(f"ip failed on {self.name}: {done.stderr.strip()}")

    def shown(self, interface: str) -> str:
        """What `ip` says about an interface."""
        command = ["nsenter", f"--net=/proc/{self.pid}/ns/net", "ip", "link", "show", interface]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class Host(Machine):
    """A computer of the network, up from the start; it has the same name and addresses after each boot."""

    def __init__(self, network: Network, number: int) -> None:
        super().__init__(f"node{number}")
        self.number = number
        self.address = f"10.88.0.{number + 1}"
        self.address6 = f"fd00:88::{number + 1:x}"
        self.hardware_address = f"02:00:00:58:00:{number + 1:02x}"
        self._network = network
        self._plugged_in = False

    def run(
        self,
        args: Sequence[str | os.PathLike[str]],
        *,
        timeout: float | None = None,
        check: bool = False,
        input: str | None = None,  # noqa: A002 - as in subprocess.run
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on the host to its end, as `subprocess.run` does with `capture_output=True, text=True`."""
        pipe = subprocess.PIPE
        stdin = subprocess.DEVNULL if input is None else pipe
        with self.popen(args, env=env, cwd=cwd, stdin=stdin, stdout=pipe, stderr=pipe) as process:
            try:
                output, errors = process.communicate(input, timeout)
            except BaseException:
                process.kill()
                raise
        done = subprocess.CompletedProcess(args, process.returncode, output, errors)
        if check:
            done.check_returncode()
        return done

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Open this thread's sockets on the host: no program is needed to talk from there.

        A socket stays there after the block, and is the caller's: killing the host does not close it. Names are
        resolved as on the real machine, so give addresses.
        """
        if self._network_namespace is None:
            raise NetworkError(f"{self.name} has no network: it was powered off")
        with namespaces.in_network_namespace(self._network_namespace):
            yield

    def kill(self) -> None:
        """End every process of the host at once, and leave its kernel alone.

        Peers see their connections closed or reset, and new ones refused.
        """
        self.begin_end()
        self.finish_end()

    def power_off(self) -> None:
        """Pull the plug: peers hear nothing more of the host, not even that their connections are gone."""
        self.unplug()
        self.kill()
        self.forget_network()

    def start(self) -> None:
        """Boot the host again after `kill` or `power_off`."""
        if self.running:
            raise NetworkError(f"{self.name} is already running")
        self.unplug()
        self.begin_boot(self._network.hosts_file(self))
        self.finish_boot()
        self.plug_in()

    def plug_in(self) -> None:
        """Connect the host to the switch, and set its addresses."""
        port = f"p{self.number}"
        cable = f"type veth peer name eth0 address {self.hardware_address} netns {self.pid}"
        self._network.switch.ip([f"link add {port} {cable}", f"link set {port} master b{self.number} up"])
        self._plugged_in = True
        commands = [
            "link set lo up",
            "link set eth0 up",
            f"addr add {self.address}/24 broadcast + dev eth0",
            f"addr add {self.address6}/64 dev eth0 nodad",
        ]
        for peer in self._network.hosts:
            known = f"lladdr {peer.hardware_address} dev eth0 nud permanent"
            if peer is not self:
                commands += [f"neigh add {address} {known}" for address in (peer.address, peer.address6)]
        self.ip(commands)

    def unplug(self) -> None:
        """Take the cable away, with both its ends."""
        if self._plugged_in:
            self._network.switch.ip([f"link del p{self.number}"])
            self._plugged_in = False

    def __repr__(self) -> str:
        return f"<Host {self.name} {self.address}>"


def _hang_up(trunk: subprocess.Popen[str]) -> str:
    """End a slow trunk. What it has complained about."""
    _, complaint = trunk.communicate()
    return complaint.strip()


_ENTERED = {"net": "net", "uts": "uts", "ipc": "ipc", "mount": "mnt"}


def _bridges_and_trunks(count: int) -> list[str]:
    commands = []
    for number in range(count):
        commands.append(f"link add b{number} type bridge mcast_snooping 0")
        commands.append(f"link set b{number} up")
    for low, high in itertools.combinations(range(count), 2):
        commands.append(f"link add t{low}-{high} type veth peer name t{high}-{low}")
        for end, bridge in ((f"t{low}-{high}", low), (f"t{high}-{low}", high)):
            commands.append(f"link set {end} master b{bridge} up")
            commands.append(f"link set {end} type bridge_slave isolated on")
    return commands
