"""What several tests share: waiting for something to become true, terms and nodes with short names, small real programs."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import secrets
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from umiak.adapters.loop import Loop
from umiak.core.cluster import Cluster, Mode, Node
from umiak.launch.events import Discovery, NodeSetting
from umiak.launch.options import TrainerRestart
from umiak.launch.protocol import Offer, Terms

T = TypeVar("T")
PATIENCE_S = 240.0
"""How long a test waits for what must happen. A test that passes never waits this long, however slow the machine."""


def chance() -> random.Random:
    """What a test draws from. It prints its seed, which pytest shows if the test fails: UMIAK_TEST_SEED=... draws the same again."""
    said = os.environ.get("UMIAK_TEST_SEED")
    seed = int(said) if said else 1 if os.environ.get("CI") else secrets.randbelow(2**32)
    print(f"drawn with UMIAK_TEST_SEED={seed}")
    return random.Random(seed)


def eventually(look: Callable[[], T], *, within_s: float = PATIENCE_S) -> T:
    """Look again and again until there is something to see, and return it.

    At least half of the time is left to what is waited for: a look may be a program that is started.
    """
    began = time.monotonic()
    deadline = began + within_s
    while not (seen := look()):
        looked = time.monotonic()
        assert looked < deadline, f"nothing to see after {within_s:g} s"
        time.sleep(min(max(0.005, looked - began), 1.0))
        began = time.monotonic()
    return seen


def run_until(loop: Loop, happened: Callable[[], Any], *, within_s: float = PATIENCE_S) -> None:
    """Run a loop until something has happened."""
    deadline = loop.now() + within_s

    def look() -> None:
        if happened() or loop.now() >= deadline:
            loop.stop()
        else:
            loop.after(0.002, look)

    loop.soon(look)
    loop.run()
    assert happened(), f"it did not happen within {within_s:g} s"


class Program(subprocess.Popen[str]):
    """A process that is ended with its ``with`` block, if that goes wrong."""

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, error, traceback)


def python(code: str, *arguments: str | Path, **more: Any) -> Program:
    """A real Python process that runs this code, with its output in pipes."""
    return Program(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **more},
    )


def output_of(code: str, *arguments: str | Path, **more: Any) -> str:
    """What a piece of Python prints in a process of its own, which must end well."""
    with python(code, *arguments, **more) as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    return out


def is_running(pid: int) -> bool:
    """Whether this process exists and is no zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text[text.rindex(")") + 2] not in "ZX"


class Sink:
    """A console that keeps what it is shown."""

    def __init__(self, *, colours: bool = False, is_terminal: bool = False) -> None:
        self.colours, self.is_terminal = colours, is_terminal
        self.shown = b""

    def write(self, data: bytes) -> None:
        self.shown += data

    def text(self) -> str:
        return self.shown.decode()


def terms(nnodes: str = "2", **more: Any) -> Terms:
    """The terms of a job of so many nodes (``2`` or ``2:4``); a fixed job restarts only if that is asked for."""
    least, _, most = nnodes.partition(":")
    wanted = {"restart_wanted": "max_restart" in more or bool(most), "mode": Mode.COLLECTIVE, **more}
    for name, kind in (("mode", Mode), ("trainer_restart", TrainerRestart)):
        if name in wanted:
            wanted[name] = kind(wanted[name])
    return Terms(job_id="ctr", least=int(least), most=int(most or least), **wanted)


def host_of(name: str) -> str:
    """10.0.0.1 for node a, 10.0.0.2 for node b."""
    return f"10.0.0.{ord(name[0]) - ord('a') + 1}"


def offer(name: str, *, trainers: int = 1, servers: int = 0, **more: Any) -> Offer:
    """What a node of this name brings."""
    first = 20000 + 100 * (ord(name[0]) - ord("a"))
    ports = tuple(range(first, first + trainers + servers + 1))
    return Offer(
        **{
            "name": name,
            "host": host_of(name),
            "ports": ports,
            "trainers": trainers,
            "servers": servers,
            "link_port": 7000,
            **more,
        }
    )


def setting(job: Terms, name: str = "a") -> NodeSetting:
    """What the launcher of this name knows before anything has happened, in a job whose first address is node a's."""
    return NodeSetting(
        terms=job,
        offer=offer(name),
        discovery=Discovery.ADDRESS,
        master_host=host_of("a"),
        master_port=7000,
        callback_key=name,
        lineage=f"of-{name}",
    )


def node_of(given: Offer, home: int) -> Node:
    """The node that an offer becomes."""
    return Node(
        name=given.name,
        host=given.host,
        home=home,
        ports=given.ports,
        trainers=given.trainers,
        servers=given.servers,
        heters=given.heters,
        link_port=given.link_port,
    )


def formation(names: str, *, generation: int = 1, coordinator: str = "", restarts: int = 0, **more: Any) -> Cluster:
    """A cluster of nodes with one-letter names, in this order."""
    nodes = tuple(node_of(offer(name, **more), home) for home, name in enumerate(names))
    return Cluster(
        job_id="ctr",
        generation=generation,
        nodes=nodes,
        coordinator=coordinator or names[0],
        restarts=restarts,
        lineage="of-a",
    )


def remember_launcher(home: Path) -> None:
    """Give this home directory what an earlier submission leaves in its cache: the built launcher. A build takes 3 seconds of a core."""
    directory = home
    directory.mkdir(exist_ok=True)
    for name in (".cache", "umiak", "launchers"):
        directory /= name
        directory.mkdir(mode=0o700, exist_ok=True)
    shutil.copy(_launcher(), directory)


@functools.cache
def _launcher() -> Path:
    from umiak.submit.payload import launcher_file

    path: str = launcher_file.find().path
    return Path(path)


def command_lines() -> dict[Path, bytes]:
    """Of every process of this machine that is there long enough to be asked."""
    return _contents(Path("/proc").glob("[0-9]*/cmdline"))


def contents_below(*directories: Path) -> dict[Path, bytes]:
    """Of every file that is there long enough to be read."""
    return _contents(path for directory in directories for path in directory.rglob("*"))


def _contents(paths: Iterable[Path]) -> dict[Path, bytes]:
    found = {}
    for path in paths:
        with contextlib.suppress(OSError):
            if path.is_file():
                found[path] = path.read_bytes()
    return found
