"""Small runs of `umiak train` that really train: their data, their config, and ways to run them, to disturb them and to compare what they leave.

    with train_runs.opened() as work:           a directory with data, a model and a config
        done = work.here("alone")               in this process: Paddle is imported once
        started = work.fork("alone")            as a process that has imported Paddle before it began, and can be killed
        started = work.start("sync")            as a person starts it
        work.checkpoint("out", "sync", "1")     its tables and optimizer's state, to be compared bit for bit

The config has a runner for each way to train, all on the same data and named for the way.
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import numpy as np

from tests.support import chance, eventually, forked_workers
from tests.support.paths import ROOT
from umiak.ps import export

EPOCHS = 2
SAMPLES = 1200
"""In an epoch, in three files; as many as a third of it are evaluated."""
SLOTS = 4
IDS = 40
EVERY = 4
"""Batches between two checkpoints."""
BATCH = 64
FREE = ("async", "half_async", "geo")
WAIT_S = 300.0
"""How long anything is waited for; a test that passes never waits this long."""
MARK = "TRAIN_RUN"

MODEL = """\
import os
import time

import paddle
from dataclasses import dataclass

from umiak.models import ClickModel


class Model(ClickModel):
    @dataclass
    class Hyper:
        dim: int = 4

    def __init__(self, hyper, slots, tables):
        super().__init__(hyper, slots, tables)
        self.embedding = tables.embedding(hyper.dim)
        width = len(self.features) * hyper.dim + slots.dense_width
        self.top = paddle.nn.Sequential(
            paddle.nn.Linear(width, 8), paddle.nn.ReLU(), paddle.nn.Dropout(0.1), paddle.nn.Linear(8, 1)
        )

    def logit(self, inputs):
        if "PACE" in os.environ and self.training:
            with open("paced", "a") as file:
                file.write(".")
            time.sleep(float(os.environ["PACE"]))
        rows = self.embedding(inputs.ids(*self.features)).flatten(1)
        return self.top(paddle.concat([rows, inputs.dense()], axis=1))
"""

READER = """\
class Reader:
    def init(self):
        pass

    def generate_sample(self, line):
        def samples():
            found = {}
            for each in line.split():
                name, _, number = each.partition(":")
                found.setdefault(name, []).append(float(number) if name == "price" else int(number))
            yield [(name, found[name]) for name in ("click", "1", "2", "3", "4", "price")]
        return samples
"""

COMMON = (
    f"epochs: {EPOCHS}, seed: 1, phases: [train], evaluate_phase: test, print_interval: 5, save_step_interval: {EVERY}"
)
LOCAL = "class: local_cluster_train, worker_num: 2"

CONFIG = f"""\
workspace: "./"
mode: [alone]
runner:
- {{name: alone, class: train, save_checkpoint_path: out/alone, save_step_path: steps/alone, {COMMON}}}
- {{name: collective, {LOCAL}, fleet_mode: collective, save_checkpoint_path: out/collective, save_step_path: steps/collective, {COMMON}}}
{{strategies}}
- {{name: infer, class: infer, init_model_path: out/alone, phases: [test]}}
phase:
- {{name: train, model: "{{workspace}}/model.py", dataset_name: train}}
- {{name: more, model: "{{workspace}}/model.py", dataset_name: test}}
- {{name: other, model: "{{workspace}}/other.py", dataset_name: train}}
- {{name: own, model: "{{workspace}}/model.py", dataset_name: own}}
- {{name: test, model: "{{workspace}}/model.py", dataset_name: test}}
dataset:
- {{name: train, data_path: "data/train", batch_size: {BATCH}, sparse_slots: "click 1 2 3 4", dense_slots: "price:2"}}
- {{name: test, data_path: "data/test", batch_size: 200, sparse_slots: "click 1 2 3 4", dense_slots: "price:2"}}
- {{name: own, data_path: "data/train", batch_size: {BATCH}, data_converter: "{{workspace}}/reader.py", num_workers: 1}}
hyper_parameters:
  dim: 4
  optimizer: {{class: Adam, learning_rate: 0.02, schedule: {{class: constant, warmup_steps: 10}}}}
""".replace("{workspace}", "{{workspace}}").replace("{{workspace}}", "{workspace}")


@dataclass(frozen=True)
class Done:
    """A run that is over."""

    status: int
    said: str
    """On stderr."""
    out: str = ""


class Work:
    """A directory with everything that a run needs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"

    # ---- running

    def here(self, runner: str, *words: str) -> Done:
        """In this process."""
        return self.command("train", "-o", f"mode={runner}", *words)

    def command(self, name: str, *words: str) -> Done:
        """Any command of umiak with the config, in this process."""
        _import_paddle()
        from umiak.cli.main import main

        err, out = io.StringIO(), io.StringIO()
        with _inside(self.path), contextlib.redirect_stderr(err), contextlib.redirect_stdout(out):
            status = main([name, "-m", "config.yaml", *words])
        return Done(status, err.getvalue(), out.getvalue())

    @contextlib.contextmanager
    def trainer(self, runner: str, *words: str, **context: Any) -> Iterator[Any]:
        """A trainer of this process, as `umiak train` makes it, but for what is said of its context."""
        _import_paddle()
        from umiak import ps
        from umiak.cli import train
        from umiak.ps.clients.local import LocalClient
        from umiak.ps.environment import PsSeat
        from umiak.ps.options import SessionOptions
        from umiak.ps.sessions import Session
        from umiak.ps.strategies import Sync
        from umiak.train.engines import choice
        from umiak.train.reports.reporter import Reporter
        from umiak.train.run.context import Settings, TrainerContext
        from umiak.train.run.epoch_loop import EpochLoop
        from umiak.train.run.peers import Peers
        from umiak.train.run.stop_signal import StopSignal
        from umiak.train.run.stopwatch import Stopwatch
        from umiak.train.run.trainer import Trainer

        with _inside(self.path):
            parsed = train.parse(["-m", "config.yaml", "-o", f"mode={runner}", *words], {})
            plan = train.examined(parsed, {}).plan
            assert plan is not None
            watch = Stopwatch()
            job = Session(PsSeat(), Sync(), SessionOptions(), connect=lambda: watch.timed(LocalClient()))
            ps.use(job)
            common = {
                "framework": choice.framework(),
                "job": job,
                "peers": Peers(job, watch),
                "watch": watch,
                "reporter": Reporter(None, err=io.StringIO()),
                "stopping": StopSignal(),
            }
            settings = Settings(config=plan.config, hyper_parameters=plan.hyper_parameters, learning=plan.learning)
            yield Trainer(plan.runs[0], settings, TrainerContext(**{**common, **context}), EpochLoop)
            job.finish()

    def start(
        self, runner: str, *words: str, before: Sequence[str] = (), env: Mapping[str, str] | None = None
    ) -> Started:
        """As a process of its own."""
        command = [
            *before,
            sys.executable,
            "-m",
            "umiak.cli.main",
            "train",
            "-m",
            "config.yaml",
            "-o",
            f"mode={runner}",
        ]
        return Started([*command, *words], self.path, env or {})

    def fork(self, runner: str, *words: str, env: Mapping[str, str] | None = None) -> Forked:
        """As a process that is there at once: everything is imported."""
        return Forked(self.path, ["train", "-m", "config.yaml", "-o", f"mode={runner}", *words], env or {})

    def run(self, runner: str, *words: str, **more: Any) -> Done:
        """As a process of its own, to its end, which nothing may survive."""
        return self.start(runner, *words, **more).end()

    def run_forked(self, runner: str, *words: str, env: Mapping[str, str] | None = None) -> Done:
        """Like `run`, but launcher, servers and trainers are forks that have imported Paddle already."""
        whole = ["train", "-m", "config.yaml", "-o", f"mode={runner}", *words]
        return Forked(self.path, whole, env or {}, with_workers=True).end()

    # ---- looking

    def metrics(self, runner: str) -> list[dict[str, Any]]:
        text = (self.path / "run" / runner / "metrics.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def epochs(self, runner: str) -> list[dict[str, Any]]:
        """The rows of the epochs that were told last."""
        rows = {row["epoch"]: row for row in self.metrics(runner) if row["event"] == "epoch"}
        return [rows[epoch] for epoch in sorted(rows)]

    def paced(self) -> int:
        """How many batches trainers have begun since they were told to take their time: ``env=slow(...)``."""
        path = self.path / "paced"
        return path.stat().st_size if path.exists() else 0

    def outcome(self, runner: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / "run" / runner / "outcome.json").read_text())
        return found

    def names(self, *below: str) -> list[str]:
        """What is in a directory; nothing if there is none."""
        path = self.path.joinpath(*below)
        return sorted(each.name for each in path.iterdir()) if path.is_dir() else []

    def checkpoint(self, *below: str, zeros_alike: bool = False) -> dict[str, Any]:
        return contents(self.path.joinpath(*below), zeros_alike=zeros_alike)

    # ---- changing

    def change(self, old: str, new: str) -> None:
        """Write the config again."""
        text = self.config.read_text()
        assert old in text, old
        self.config.write_text(text.replace(old, new))

    def forget(self, *names: str) -> None:
        for name in names:
            shutil.rmtree(self.path / name, ignore_errors=True)


class Whole:
    """What runs come to that nobody disturbs."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self._done: dict[str, Done] = {}

    def of(self, runner: str) -> Work:
        """The directory, with this runner's run in it. Nobody changes it."""
        if runner not in self._done:
            self._done[runner] = self.work.here(runner) if runner == "alone" else self.work.run_forked(runner)
        assert self._done[runner].status == 0, self._done[runner].said
        return self.work

    def said(self, runner: str) -> str:
        self.of(runner)
        return self._done[runner].said


class Process:
    """A run that goes on beside the test."""

    said: str

    def is_over(self) -> bool:
        return self.status() is not None

    def status(self) -> int | None:
        """How it has ended; None if it has not."""
        raise NotImplementedError

    def signal(self, number: int) -> None:
        raise NotImplementedError

    def end(self) -> Done:
        """Wait for it."""
        raise NotImplementedError

    def until(self, happened: Callable[[], object], what: str) -> bool:
        """Wait until something has happened; False if the run ends before."""

        def look() -> str:
            ended = self.is_over()
            return "yes" if happened() else "no" if ended else ""

        return eventually(look, within_s=WAIT_S) == "yes"


class Forked(Process):
    """A run in one process; or ``with_workers``, which are forks as well."""

    def __init__(self, cwd: Path, words: list[str], env: Mapping[str, str], *, with_workers: bool = False) -> None:
        self._err = cwd / f"err.{secrets.token_hex(8)}"
        context = with_paddle_imported()
        arguments = (str(cwd), str(self._err), words, dict(env), with_workers)
        self.process = context.Process(target=_forked, args=arguments, daemon=True)
        self.process.start()

    @property
    def said(self) -> str:  # type: ignore[override]
        return self._err.read_text(errors="replace") if self._err.exists() else ""

    def status(self) -> int | None:
        return self.process.exitcode

    def signal(self, number: int) -> None:
        assert self.process.pid
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    def end(self) -> Done:
        self.process.join(WAIT_S)
        status = self.process.exitcode
        if status is None:
            self.process.kill()
            raise AssertionError(f"it has not ended:\n{self.said}")
        return Done(status if status >= 0 else 128 - status, self.said)


def with_paddle_imported() -> ForkServerContext:
    """Processes that are forks of one which has imported Paddle. Its modules are looked for below the directory in which it is started."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.train_imports"])
    with _inside(ROOT):
        forkserver.ensure_running()
    return context


class Started(Process):
    """A run as a process, and everything that it has started."""

    def __init__(self, command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        self._mark = f"{cwd}#{secrets.token_hex(8)}"
        kept = ("PATH", "PYTHONPATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH")
        environ = {name: os.environ[name] for name in kept if name in os.environ}
        self._err = cwd / f"err.{secrets.token_hex(8)}"
        with open(self._err, "wb") as err:
            self.process = subprocess.Popen(
                command,
                cwd=cwd,
                env={**environ, "OMP_NUM_THREADS": "1", MARK: self._mark, **env},
                stdin=subprocess.DEVNULL,
                stdout=err,
                stderr=err,
                start_new_session=True,
            )

    @property
    def said(self) -> str:  # type: ignore[override]
        return self._err.read_text(errors="replace")

    def status(self) -> int | None:
        return self.process.poll()

    def signal(self, number: int) -> None:
        """To the process that was started."""
        self.process.send_signal(number)

    def family(self) -> dict[int, dict[str, str]]:
        """All that lives of it, and the variables of each."""
        found = {}
        wanted = f"{MARK}={self._mark}".encode()
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                variables = Path("/proc", entry, "environ").read_bytes().split(b"\0")
                state = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if wanted in variables and state not in "ZX":
                found[int(entry)] = dict(
                    each.decode(errors="replace").partition("=")[::2] for each in variables if each
                )
        return found

    def workers(self, role: str) -> list[int]:
        """Processes of trainers or servers."""
        return [pid for pid, env in self.family().items() if env.get("UMIAK_ROLE") == role]

    def kill(self, whom: str) -> None:
        """SIGKILL to ``trainer`` or ``server``: one of them; ``launcher``; ``everything``."""
        match whom:
            case "everything":
                pids = [*self.family()]
            case "launcher":
                pids = [self.process.pid]
            case _:
                pids = self.workers(whom)
                chance().shuffle(pids)
                pids = pids[:1]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def end(self) -> Done:
        """Wait for it; nothing that it has started may be left."""
        try:
            status = self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.kill("everything")
            raise AssertionError(f"it has not ended:\n{self.said}") from None
        # One that was killed can't see to it that the others end before it does.
        if status == -signal.SIGKILL:
            eventually(lambda: not self.family())
        left = self.family()
        self.kill("everything")
        assert not left, f"left behind: {left}\n{self.said}"
        return Done(status if status >= 0 else 128 - status, self.said)


@contextlib.contextmanager
def opened() -> Iterator[Work]:
    """A directory for a test, in memory where there is such a thing: a checkpoint is hundreds of small files, each made to last."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="train-run-", dir=memory) as path:
        yield made(Path(path))


def slow(seconds: float) -> dict[str, str]:
    """Variables for trainers that take so long for a batch, and count them in a file."""
    return {"PACE": str(seconds)}


def made(path: Path) -> Work:
    """Data, model and config in a directory."""
    strategies = "\n".join(
        f"- {{name: {name}, {LOCAL}, server_num: 2, distribute_strategy: {name}, geo_step: 3, "
        f"save_checkpoint_path: out/{name}, save_step_path: steps/{name}, {COMMON}}}"
        for name in ("sync", *FREE, "hybrid")
    )
    (path / "config.yaml").write_text(CONFIG.replace("{strategies}", strategies))
    (path / "model.py").write_text(MODEL)
    (path / "other.py").write_text(MODEL.replace("dim: int = 4", "dim: int = 4\n        deep: int = 0"))
    (path / "reader.py").write_text(READER)
    for part, text in enumerate(lines(SAMPLES, 3)):
        file = path / "data" / "train" / f"part-{part}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (path / "data" / "test").mkdir()
    (path / "data" / "test" / "part").write_text(lines(SAMPLES // 3, 1, seed=9)[0])
    return Work(path)


def lines(count: int, files: int, *, seed: int = 3) -> list[str]:
    """Samples that can be learned, as the texts of so many files."""
    weights = np.random.default_rng(1).normal(0, 1.0, (SLOTS, IDS))
    draw = np.random.default_rng(seed)
    ids = draw.integers(0, IDS, (count, SLOTS))
    prices = draw.random((count, 2))
    clicks = draw.random(count) < 1 / (1 + np.exp(-weights[np.arange(SLOTS), ids].sum(1) - prices @ [1, -1]))
    samples = [
        f"click:{int(clicks[at])} "
        + " ".join(f"price:{price:.4f}" for price in prices[at])
        + "".join(f" {slot + 1}:{1000 * slot + ids[at, slot]}" for slot in range(SLOTS))
        + "\n"
        for at in range(count)
    ]
    return ["".join(samples[part * count // files : (part + 1) * count // files]) for part in range(files)]


def contents(path: Path, *, zeros_alike: bool = False) -> dict[str, Any]:
    """Everything in the tables of a checkpoint, with the optimizer's state; compare with ``==``.

    ``zeros_alike``: whether 0 and -0 are the same, which is what they become when nothing is added to them.
    """
    found: dict[str, Any] = {}

    def bits(numbers: Any) -> bytes:
        return (np.asarray(numbers) + np.float32(0) if zeros_alike else np.asarray(numbers)).tobytes()

    for name, table in export.contents(str(path)).items():
        if "rows" in table:
            found[name] = {key: (flags, bits(row)) for key, (flags, row) in table["rows"].items()}
        else:
            extra = {each: bits(numbers) for each, numbers in table["extra"].items()}
            found[name] = {"values": bits(table["values"]), **extra}
    return found


def _forked(cwd: str, err: str, words: list[str], env: dict[str, str], with_workers: bool) -> None:
    from umiak.cli.main import main

    if with_workers:
        forked_workers.install()
    os.setsid()
    handle = os.open(err, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.chdir(cwd)
    os.environ.update(env)
    sys.exit(main(words))


@contextlib.contextmanager
def _inside(path: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


def _import_paddle() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Paddle asks for a compiler's cache
        import paddle  # noqa: F401
