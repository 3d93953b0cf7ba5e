"""A job on many hosts with real sshd servers on loopback: how soon all launchers run, beside fabric; and how late lines of logs come.

fabric does what the document with its fabfile does: a directory, files, a command in the background. Once as there, host after host
(`fab -H`), and once with fabric's own thread for each host. Both start the same launcher with the same job: as many nodes as there are
hosts, which meet at the first one.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks import cpu_group, measure
from benchmarks.measure import Figure
from testbed import sshd
from umiak.submit.payload import launcher_file

HOSTS = 64
GOAL_S = 3.0
LOGS_GOAL_S = 0.2
PATIENCE_S = 300.0
FABRIC = measure.ROOT / ".venv-fabric" / "bin" / "fab"
FAB = "fab -H, as in the document"
THREADS = "fabric ThreadingGroup"

FABFILE = """
import sys
from fabric import Config, Connection, ThreadingGroup, task

CONFIG = {config!r}
MASTER, COUNT = {master!r}, {count!r}


def begin(c):
    rank = int(c.original_host[4:])
    c.run("mkdir -p fab")
    c.put({launcher!r}, "fab/umiak-launcher.pyz")
    c.put({script!r}, "fab/train.py")
    c.run(
        "cd fab; (date +%%s.%%N > started; UMIAK_TOKEN=0123456789abcdef0123456789abcdef exec setsid python3 umiak-launcher.pyz launch "
        "--nnodes %d --master %s --node_rank %d train.py) > output 2>&1 < /dev/null &" % (COUNT, MASTER, rank),
        hide=True,
    )


@task
def start(c):
    begin(c)


if __name__ == "__main__":
    from concurrent.futures import ThreadPoolExecutor

    config = Config(runtime_ssh_path=CONFIG)
    group = ThreadingGroup(*["node%d" % rank for rank in range(COUNT)], config=config)
    with ThreadPoolExecutor(COUNT) as pool:
        list(pool.map(begin, group))
"""


class _Desk:
    """A directory with a place of all hosts, and a script that does nothing."""

    def __init__(self, directory: Path, cluster: sshd.Cluster, group: cpu_group.CpuGroup) -> None:
        self.directory = directory
        self.group = group
        self.cluster = cluster
        (directory / "train.py").write_text("print('ready')\n")
        (directory / "umiak.toml").write_text(
            f'default_place = "lab"\n[place.lab]\nbackend = "ssh"\nhosts = ["node*"]\nconfig = "{cluster.config}"\n'
        )
        kept = {name: text for name, text in os.environ.items() if not name.startswith((*measure.FOREIGN, "XDG_"))}
        self.environ: Mapping[str, str] = {**kept, "XDG_STATE_HOME": str(directory / "state")}

    def umiak(self, *words: str) -> str:
        argv = [sys.executable, "-m", "umiak", *words]
        done = subprocess.run(
            argv,
            cwd=self.directory,
            env=self.environ,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=PATIENCE_S,
        )
        return done.stdout.strip()


@contextlib.contextmanager
def _desk(count: int) -> Iterator[_Desk]:
    with (
        cpu_group.entered() as group,
        sshd.on_loopback(count) as cluster,
        tempfile.TemporaryDirectory(prefix="umiak-bench-") as directory,
    ):
        yield _Desk(Path(directory), cluster, group)


def start(quick: bool) -> Iterator[Figure]:
    """From the command to the last of all launchers."""
    missing = sshd.available()
    how = f"{HOSTS} sshd on loopback, all on this machine; in turn; the time at which the last launcher begins, and CPU time of client and hosts until then"
    figure = Figure("ssh", f"All launchers of a job on {HOSTS} hosts are started", how, goal=GOAL_S)
    if missing:
        figure.note("umiak submit", missing)
        yield figure
        return
    launcher_file.find()
    with _desk(HOSTS) as desk:
        desk.umiak("hosts", "check")
        for number in range(2 if quick else 5):
            with measure.other_work(figure):
                _ours(desk, figure, "umiak submit", is_first=False)
                _ours(desk, figure, "umiak submit, to hosts that have nothing", is_first=True)
                if FABRIC.exists():
                    _theirs(desk, figure, THREADS, [str(FABRIC.with_name("python")), "fabfile.py"])
                    names = ",".join(machine.name for machine in desk.cluster.machines)
                    if number == 0:  # more than a minute
                        _theirs(desk, figure, FAB, [str(FABRIC), "-S", str(desk.cluster.config), "-H", names, "start"])
                else:
                    figure.note(FAB, "not installed: make bench-fabric")
    yield figure


def _ours(desk: _Desk, figure: Figure, subject: str, *, is_first: bool) -> None:
    if is_first:
        for machine in desk.cluster.machines:
            shutil.rmtree(machine.files / ".umiak", ignore_errors=True)
    began = time.time()
    with desk.group.watched() as watch:
        handle = desk.umiak("submit", "--nnodes", str(len(desk.cluster.machines)), "--", "train.py")
    run = handle.rpartition("/")[2]
    files = [
        path
        for machine in desk.cluster.machines
        for path in machine.files.glob(f".umiak/runs/{run}/*/launchers/node-*")
    ]
    assert len(files) == len(desk.cluster.machines)
    last = max(json.loads(path.read_text())["started_s"] for path in files)
    figure.add(subject, last - began, watch.used_s(began, last))
    desk.umiak("wait", handle)


def _theirs(desk: _Desk, figure: Figure, subject: str, argv: list[str]) -> None:
    count = len(desk.cluster.machines)
    for machine in desk.cluster.machines:
        shutil.rmtree(machine.files / "fab", ignore_errors=True)
    text = FABFILE.format(
        config=str(desk.cluster.config),
        master=f"127.0.0.1:{measure.free_port()}",
        count=count,
        launcher=launcher_file.find().path,
        script=str(desk.directory / "train.py"),
    )
    (desk.directory / "fabfile.py").write_text(text)
    stamps = [machine.files / "fab" / "started" for machine in desk.cluster.machines]
    began = time.time()
    with desk.group.watched() as watch:
        done = subprocess.run(
            argv,
            cwd=desk.directory,
            env=desk.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        if done.returncode:
            figure.note(subject, done.stdout.strip().rpartition("\n")[2][-80:])
            return
        _until(lambda: all(path.exists() and path.read_text().endswith("\n") for path in stamps))
    last = max(float(path.read_text()) for path in stamps)
    figure.add(subject, last - began, watch.used_s(began, last))
    logs = [machine.files / "fab" / "log" / "workerlog.0" for machine in desk.cluster.machines]
    with contextlib.suppress(TimeoutError):  # the job itself is not what is measured
        _until(lambda: all(path.exists() for path in logs), seconds=30)


def following(quick: bool) -> Iterator[Figure]:
    """From a line that a worker writes to the same line at the client."""
    how = "4 hosts, `umiak logs -f`; each worker writes the time every 50 ms; the delay at the reader of the pipe"
    figure = Figure("logs", "A line of a followed log is late by", how, goal=LOGS_GOAL_S)
    missing = sshd.available()
    if missing:
        figure.note("umiak logs -f", missing)
        yield figure
        return
    lines = 40 if quick else 200
    with _desk(4) as desk, measure.other_work(figure):
        (desk.directory / "train.py").write_text(
            f"import time\nfor _ in range({lines}):\n    print('at', time.time(), flush=True)\n    time.sleep(0.05)\n"
        )
        handle = desk.umiak("submit", "--nnodes", "4", "--", "train.py")
        argv = [sys.executable, "-m", "umiak", "logs", "-f", handle]
        with subprocess.Popen(argv, cwd=desk.directory, env=desk.environ, stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout
            opened = None
            for line in reader.stdout:
                now = time.time()
                opened = opened or now
                words = line.split()
                # Lines from before the reader was there are as late as it came.
                if words[1:2] == ["at"] and float(words[2]) > opened:
                    figure.add("umiak logs -f", now - float(words[2]))
        desk.umiak("wait", handle)
    yield figure


def _until(look: object, seconds: float = PATIENCE_S) -> None:
    until = time.monotonic() + seconds
    while not look():  # type: ignore[operator]
        if time.monotonic() > until:
            raise TimeoutError
        time.sleep(0.01)
