"""Adapter: machines with a real OpenSSH server, on hosts of the testbed or on loopback, one port for each.

    with hosts.network(5) as net, sshd.on_hosts(net.hosts[1:]) as cluster:
        net.hosts[0].run(["ssh", "-F", cluster.config, "node3", "hostname"])
        cluster.machines[0].change_host_key()
        net.cut(net.hosts[0], net.hosts[2])

    with sshd.on_loopback(64) as cluster:       # node0 ... node63, all at 127.0.0.1
        subprocess.run(["ssh", "-F", cluster.config, "node7", "hostname"])

Needs root, and Debian's openssh-server, openssh-client and openssl; see `available()`. `cluster.config` is an ssh_config with
all machines by their names, with the key of this cluster and the host keys that belong to it; nothing of the person's own
~/.ssh is read or changed.

A machine is an sshd that is process 1 of PIDs of its own, with mounts of its own. So what was started over ssh, in whatever
way it has detached itself, ends with the machine (`kill`), and the machine ends with the process that opened it. The real
accounts are not touched: /etc/passwd and /etc/shadow are the machine's own, with two accounts,
`root` and the unprivileged `trainer`, who has a password as well. Each machine has its own home directory, on a disk of
`disk_kib` that can be filled. /run and /var/log are empty at first; other files are the real machine's.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import os
import random
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from testbed import disks, hosts, processes, workspace

START_TIMEOUT_S = 240
PORTS_TRIED = 20
DISK_KIB = 64 << 10
PASSWORD_USER = "trainer"
PASSWORD_USER_ID = 61500
TOOLS = {"sshd": "openssh-server", "ssh": "openssh-client", "ssh-keygen": "openssh-client", "openssl": "openssl"}


@contextlib.contextmanager
def on_hosts(chosen: Sequence[hosts.Host], *, disk_kib: int = DISK_KIB) -> Iterator[Cluster]:
    """Run an sshd at port 22 of each of these hosts."""
    with workspace.opened("sshd") as work, _Cluster(work) as cluster:
        cluster.add([Machine(cluster, host.name, disk_kib, host=host) for host in chosen])
        yield cluster


@contextlib.contextmanager
def on_loopback(count: int, *, disk_kib: int = DISK_KIB, port: int = 0) -> Iterator[Cluster]:
    """Run machines `node0`, `node1`, ... that are told apart by their ports of 127.0.0.1.

    With a port they all have it, and are told apart by their addresses: 127.0.0.2, 127.0.0.3, ...
    """
    with workspace.opened("sshd") as work, _Cluster(work) as cluster:
        machines = [Machine(cluster, f"node{number}", disk_kib) for number in range(count)]
        for number, machine in enumerate(machines if port else ()):
            machine.address, machine.port = f"127.0.0.{number + 2}", port
        cluster.add(machines)
        yield cluster


@functools.cache
def available() -> str | None:
    """Why there can be no sshd on this machine, or `None` where there can."""
    if sys.platform != "linux":
        return f"the testbed's sshd needs Linux: {sys.platform}"
    if os.geteuid() != 0:
        return "the testbed's sshd needs root"
    for tool, package in {**TOOLS, "unshare": "util-linux"}.items():
        if processes.program(tool) is None:
            return f"the testbed's sshd needs the command `{tool}`: install {package}"
    try:
        with on_loopback(1):
            return None
    except (OSError, subprocess.CalledProcessError, SshdError) as error:
        return f"an sshd cannot be run here: {error}"


class SshdError(Exception):
    """sshd did not start, or is not in the state that was asked of it."""


class Cluster:
    """Machines, and what a client needs to log in to them; see `on_hosts()` and `on_loopback()`."""

    def __init__(self, work: workspace.Workspace) -> None:
        self.work = work
        self.machines: list[Machine] = []
        self.config = work.path / "ssh_config"
        self.known_hosts = work.path / "known_hosts"
        self.identity = work.path / "identity"
        """The private key that all accounts let in."""
        self.password = secrets.token_urlsafe(12)
        """Of the account `trainer`."""
        self.first_host_key = work.path / "host_key"
        """With which all machines begin: making one takes longer than starting a machine."""

    def command(self, machine: Machine, *args: str | os.PathLike[str]) -> list[str]:
        """An ssh command that runs these words there, without asking anything."""
        words = shlex.join(os.fspath(arg) for arg in args)
        return ["ssh", "-F", os.fspath(self.config), "-o", "BatchMode=yes", machine.name, words]


class _Cluster(Cluster):
    """The part that is only for this module: making the keys, starting and ending the machines."""

    def __enter__(self) -> _Cluster:
        _make_key(self.identity)
        _make_key(self.first_host_key)
        hashed = subprocess.run(
            ["openssl", "passwd", "-6", "-stdin"], input=self.password, capture_output=True, text=True, check=True
        ).stdout.strip()
        shells = {"root": ("*", 0), "sshd": ("*", 61501), PASSWORD_USER: (hashed, PASSWORD_USER_ID)}
        self.write("shadow", "".join(f"{name}:{word}:19000:0:99999:7:::\n" for name, (word, _) in shells.items()))
        self.write("group", "".join(f"{name}:x:{number}:\n" for name, (_, number) in shells.items()))
        return self

    def __exit__(self, *_error: object) -> None:
        for machine in self.machines:
            machine.kill()

    def add(self, machines: list[Machine]) -> None:
        self.machines += machines
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for _ in pool.map(Machine.start, machines):
                pass
        self.tell_clients()

    def tell_clients(self) -> None:
        """Write what clients read: where the machines are."""
        common = f"""
  User root
  IdentityFile {self.identity}
  IdentitiesOnly yes
  UserKnownHostsFile {self.known_hosts}
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
"""
        blocks = (f"Host {each.name}\n  HostName {each.address}\n  Port {each.port}" for each in self.machines)
        self.write("ssh_config", "".join(f"{block}{common}\n" for block in blocks))
        self.trust()

    def trust(self) -> None:
        """Let clients know the host keys as they are now."""
        self.write("known_hosts", "".join(f"{each.known_as} {each.host_key}\n" for each in self.machines))

    def write(self, name: str, text: str) -> None:
        path = self.work.path / name
        fresh = path.with_name(f"{name}.new")  # somebody may be reading
        fresh.write_text(text)
        fresh.chmod(0o600)
        fresh.replace(path)


class Machine:
    """One machine of a cluster. Its port, its keys and its disk's place outlast `kill`; the disk's content does not."""

    def __init__(self, cluster: _Cluster, name: str, disk_kib: int, *, host: hosts.Host | None = None) -> None:
        self.name = name
        self.address = "127.0.0.1" if host is None else host.address
        self.port = 22 if host is not None else 0
        self.home = cluster.work.path / name / "home"
        """Where a login finds itself; the same path on the machine and, empty, on the real one. See `files`."""
        self.log = cluster.work.path / f"{name}.log"
        self._directory = cluster.work.path / name
        self._key = self._directory / "host_key"
        self._disk_kib = disk_kib
        self._cluster = cluster
        self._host = host
        self._process: subprocess.Popen[str] | None = None
        self._pid = 0
        for directory in (self._directory, self.home, self._directory / "log", self._directory / "run/sshd"):
            directory.mkdir(mode=0o755, parents=True)
        for name in ("wtmp", "btmp", "lastlog"):
            (self._directory / "log" / name).touch()
        for end in ("", ".pub"):
            shutil.copy(f"{cluster.first_host_key}{end}", f"{self._key}{end}")

    @property
    def pid(self) -> int:
        """The sshd, process 1 of the machine, as the real machine numbers it."""
        if not self.running:
            raise SshdError(f"{self.name} is down")
        return self._pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def files(self) -> Path:
        """The home directory, seen from outside."""
        return Path(f"/proc/{self.pid}/root{self.home}")

    @property
    def disk(self) -> disks.Disk:
        """The disk of the home directory, to fill it."""
        return disks.Disk(self.files)

    @property
    def host_key(self) -> str:
        """The public one, as `ssh-ed25519 AAAA...`."""
        return " ".join(self._key.with_suffix(".pub").read_text().split()[:2])

    @property
    def known_as(self) -> str:
        """What stands for this machine in a known_hosts file."""
        return self.address if self.port == 22 else f"[{self.address}]:{self.port}"

    def start(self) -> None:
        """Start the machine, at the port that it had before, and wait until it takes connections."""
        if self.running:
            raise SshdError(f"{self.name} is already running")
        for _ in range(PORTS_TRIED):
            # Below the range from which the kernel gives ports to clients, so that it is still free after a stop.
            port = self.port or random.randrange(20000, 32000)
            if self._start_on(port):
                self.port = port
                return
        raise SshdError(f"sshd found no free port; the last one tried: {port}")

    def kill(self) -> None:
        """End every process of the machine at once; its connections are closed and new ones refused."""
        if self._process is None:
            return
        if self._process.poll() is None and self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._process = None
        self._pid = 0

    def pause(self) -> None:
        """Let sshd hang: the kernel takes connections, and nobody speaks. What was started goes on."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def change_host_key(self, *, trusted: bool = False) -> None:
        """Show another host key from now on, as a machine that was installed again; sessions go on.

        Clients do not trust it, unless they are told to.
        """
        for path in (self._key, self._key.with_suffix(".pub")):
            path.unlink()
        _make_key(self._key)
        began = self._listens()
        os.kill(self.pid, signal.SIGHUP)
        self._until_listening(began)
        if trusted:
            self._cluster.trust()

    def _start_on(self, port: int) -> bool:
        """Whether the port was free; anything else that goes wrong is an error."""
        self._write_files(port)
        self.log.write_text("")
        namespaces = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        namespaces += ["--uts"] if self._host is None else []
        self._process = self._cluster.work.popen(
            ["unshare", *namespaces, "sh", self._directory / "boot"], log=self.log.name, host=self._host
        )
        return self._until_listening(0)

    def _until_listening(self, before: int) -> bool:
        deadline = time.monotonic() + START_TIMEOUT_S
        assert self._process is not None
        while time.monotonic() < deadline:
            if self._listens() > before:
                self._pid = _only_child(self._process.pid)
                return True
            said = self.log.read_text(errors="replace")
            if self._process.poll() is not None or "Cannot bind any address" in said:
                self.kill()
                if "Address already in use" in said:
                    return False
                raise SshdError(f"sshd on {self.name} ended: {said[-2000:]}")
            time.sleep(0.005)
        self.kill()
        raise SshdError(
            f"sshd on {self.name} did not listen within {START_TIMEOUT_S} s: {self.log.read_text()[-2000:]}"
        )

    def _listens(self) -> int:
        """How often it has said that it listens."""
        return self.log.read_text(errors="replace").count("Server listening on")

    def _write_files(self, port: int) -> None:
        own = self._directory
        (own / "authorized_keys").write_text(self._cluster.identity.with_suffix(".pub").read_text())
        accounts = {"root": 0, PASSWORD_USER: PASSWORD_USER_ID}
        (own / "passwd").write_text(
            "".join(f"{name}:x:{number}:{number}::{self.home}:/bin/bash\n" for name, number in accounts.items())
            + "sshd:x:61501:61501::/run/sshd:/usr/sbin/nologin\n"
        )
        (own / "hosts").write_text(f"127.0.0.1 localhost {self.name}\n::1 localhost ip6-localhost\n")
        settings = {
            "Port": port,
            "ListenAddress": self.address,
            "HostKey": self._key,
            "PidFile": "none",
            "UsePAM": "no",
            "UseDNS": "no",
            "StrictModes": "no",  # the home directory lies below the temporary one
            "AuthorizedKeysFile": own / "authorized_keys",
            "PermitRootLogin": "prohibit-password",
            "PrintMotd": "no",
            "PrintLastLog": "no",
            "MaxStartups": 1000,
            "MaxSessions": 1000,
            "LogLevel": "VERBOSE",
            "Subsystem": "sftp internal-sftp",
        }
        (own / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        (own / "fstab").write_text("".join(f"{line} 0 0\n" for line in self._mounts()))
        lines = ["set -e", f"mount --all --fstab {own / 'fstab'}"]
        lines += [f"echo {self.name} > /proc/sys/kernel/hostname"] if self._host is None else []
        # A session's environment is made by sshd from its own, save what sshd sets itself.
        lines += [f"exec env -i PATH={os.defpath} {processes.program('sshd')} -D -e -f {own / 'sshd_config'}"]
        (own / "boot").write_text("\n".join(lines) + "\n")

    def _mounts(self) -> Iterator[str]:
        """The lines of an fstab. All mounts by one command: 64 machines are to start quickly."""
        work, own = self._cluster.work.path, self._directory
        binds = {own / "passwd": "/etc/passwd", work / "shadow": "/etc/shadow", work / "group": "/etc/group"}
        binds |= {own / "run": "/run", own / "log": "/var/log"}
        if self._host is None:
            binds[own / "hosts"] = "/etc/hosts"
        for source, target in binds.items():
            yield f"{source} {target} none bind"
        yield f"{self.name} {self.home} tmpfs size={self._disk_kib}k,mode=1777"


def _make_key(path: Path) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "testbed", "-f", path],
        check=True,
        stdin=subprocess.DEVNULL,
    )


def _only_child(pid: int) -> int:
    """The one child of a process, by its number here, in whichever namespace it thinks it is."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
