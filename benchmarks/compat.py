"""Programs of yesterday as they are: models of PaddleRec 2, and a static program with servers, each beside what ran them before.

    python -m benchmarks.compat --paddlerec CHECKOUT
    python -m benchmarks.compat --paddlerec CHECKOUT --only alone --quick
    python -m benchmarks.compat --only static reader        no checkout needed; static makes .venv-paddle262, 500 MB

``CHECKOUT`` is one of PaddleRec's repository (PaddleRec >= 2), or the variable PADDLEREC names it; its files are copied into a directory of the measurement and not changed,
but for an assertion of its trainer that Paddle 3 can't evaluate. The model is its rank/dnn with the numbers of its config for large data: 1,000,001 rows of 9, 26 slots,
512-256-128-32, batches of 512, Adam; slot text of `benchmarks.clicks`. What counts is the second epoch.

The static program is `benchmarks/programs/ps_fleet.py`, the same file for Paddle 2.6.2 with its own servers and for Paddle 3.3.1 with ours.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import clicks, measure, ps_peer, sections, train
from benchmarks.measure import ROOT, Bench, Figure

LIMIT_S = 580.0
BATCH = 512
MODEL = Path("models", "rank", "dnn")
CONFIG = """\
runner:
  train_data_dir: "data"
  train_reader_path: "criteo_reader"
  use_gpu: False
  use_auc: True
  train_batch_size: 512
  epochs: 2
  print_interval: 20
  model_save_path: "saved"
{more}
hyper_parameters:
  optimizer: {{class: Adam, learning_rate: 0.001}}
  sparse_inputs_slots: 27
  sparse_feature_number: 1000001
  sparse_feature_dim: 9
  dense_input_dim: 13
  fc_sizes: [512, 256, 128, 32]
  distributed_embedding: 0
"""
SLOTS = '  sparse_slots: "{names}"\n  dense_slots: "dense_feature:13"\n'
LAZY = "  lazy_embeddings: true\n"
UNEVALUATED = re.compile(r"^ +assert any\(train_dataloader\(.*?\n.*?\n", re.MULTILINE)
"""It asks a whole batch whether it is true."""
EPOCH = re.compile(r"epoch: 1 done, .* epoch time: ([\d.]+) s")


@dataclass(frozen=True)
class Run:
    """What was asked for."""

    quick: bool
    checkout: Path

    @property
    def rounds(self) -> int:
        return 1 if self.quick else 3

    @property
    def files_per_trainer(self) -> int:
        """Of a static program; the first one is its warm-up."""
        return 3 if self.quick else 4

    @property
    def lines(self) -> int:
        return 5_120 if self.quick else clicks.LINES_PER_FILE


def main() -> int:
    """Measure and print: `sections.run`."""
    parser = sections.parser("benchmarks.compat", __doc__ or "", SECTIONS)
    parser.add_argument("--paddlerec", metavar="CHECKOUT", default=os.environ.get("PADDLEREC", ""))
    asked = parser.parse_args()
    checkout = Path(asked.paddlerec).resolve()
    needs_checkout = not asked.only or not {*asked.only} <= {"static", "reader"}
    if needs_checkout and (not asked.paddlerec or not (checkout / MODEL).is_dir()):
        parser.error(f"--paddlerec: no checkout of PaddleRec: {asked.paddlerec or 'not said'}")
    return sections.run(SECTIONS, Run(asked.quick, checkout), asked)


# ---- one measurement


def prepared(bench: Bench, run: Run, more: str = "", *, files: int = 0) -> None:
    """The model, a config and data in the directory of a measurement: a file of its own, or so many of those that all have."""
    shutil.copytree(run.checkout / MODEL, bench.directory, dirs_exist_ok=True, ignore=shutil.ignore_patterns("data"))
    data = bench.directory / "data"
    data.mkdir()
    for path in clicks.files(files):
        (data / path.name).symlink_to(path)
    if not files:
        clicks.write(data / "part-0", run.lines, seed=1)
    (bench.directory / "config.yaml").write_text(CONFIG.format(more=more))


def own_trainer(bench: Bench, run: Run) -> float | str:
    """Samples per second of PaddleRec's trainer, or why there are none."""
    tools = bench.directory / "paddlerec" / "tools"
    shutil.copytree(run.checkout / "tools", tools)
    trainer = tools / "trainer.py"
    trainer.write_text(UNEVALUATED.sub("", trainer.read_text()))
    argv = [sys.executable, "-u", str(trainer), "-m", "config.yaml"]
    # It needs the package six, which may be anywhere.
    environ = {"PYTHONWARNINGS": "ignore", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    ended = bench.start(argv, environ).wait(LIMIT_S)
    if ended is None or ended.status:
        return f"failed: {bench.last_words()}"
    text = max(bench.directory.glob("output.*")).read_text(errors="replace")
    took = EPOCH.findall(text)
    # It leaves out what is not a whole batch.
    return run.lines // 512 * 512 / float(took[-1]) if took else f"no second epoch: {bench.last_words()}"


def ours(bench: Bench, *words: str) -> train.Epoch | str:
    """The second epoch of `umiak train`, or why there is none."""
    argv = [sys.executable, "-m", "umiak.cli.main", "train", "-m", "config.yaml", *words]
    ended = bench.start(argv, {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"}).wait(LIMIT_S)
    if ended is None or ended.status:
        return f"failed: {bench.last_words()}"
    (written,) = bench.directory.rglob("metrics.jsonl")
    events = [json.loads(line) for line in written.read_text().splitlines()]
    row = [event for event in events if event["event"] == "epoch"][-1]
    return train.Epoch(row["samples"], row["seconds"], row["cpu_s"], row["trained"].get("auc", 0.0), {})


def static_ours(reader: str, run: Run) -> ps_peer.Outcome:
    """The static program under `umiak launch`."""
    paths = clicks.files(ps_peer.TRAINERS * run.files_per_trainer, plain=reader == "plain")
    with measure.bench() as bench:
        told = bench.directory / "told"
        roles = ["--server_num", str(ps_peer.SERVERS), "--trainer_num", str(ps_peer.TRAINERS)]
        launch = [sys.executable, "-m", "umiak.launch", "--log_dir", "log", *roles]
        environ = {"BENCH_TOLD": str(told), "PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"}
        program = bench.start([*launch, str(ps_peer.PROGRAM), reader, str(BATCH), *map(str, paths)], environ)
        ended = program.wait(LIMIT_S)
        if ended is None or ended.status:
            return ps_peer.Outcome(None, f"failed: {bench.last_words()[:160]}")
        return ps_peer.outcome(told, BATCH, run.files_per_trainer)


# ---- sections


def alone(run: Run) -> Iterator[Figure]:
    """One process of each."""
    rate = Figure(
        "compat-alone",
        "rank/dnn of PaddleRec 2, unchanged, in one process: samples per second",
        "second epoch; lazy: with `lazy_embeddings: true`, slots: its reader replaced by our slot reader",
        unit="samples/s",
        more_is_better=True,
    )
    ratios = {
        "own reader": Figure(
            "compat-reader",
            "The same with its own reader: times PaddleRec's trainer",
            "",
            "x",
            1.0,
            more_is_better=True,
        ),
        "slots, lazy": Figure(
            "compat-slots", "The same with slots: times PaddleRec's trainer", "", "x", 3.0, more_is_better=True
        ),
    }
    slots = SLOTS.format(names=" ".join(["click", *(str(slot) for slot in range(1, clicks.SLOTS + 1))]))
    kinds = {"own reader": "", "own reader, lazy": LAZY, "slots": slots, "slots, lazy": slots + LAZY}
    for _ in range(run.rounds):
        with measure.other_work(rate):
            found: dict[str, float] = {}
            for name, more in kinds.items():
                with measure.bench() as bench:
                    prepared(bench, run, more)
                    epoch = ours(bench)
                if isinstance(epoch, str):
                    rate.note(f"umiak, {name}", epoch)
                    continue
                found[name] = epoch.rate
                rate.add(f"umiak, {name}", epoch.rate, epoch.cpu_s)
            with measure.bench() as bench:
                prepared(bench, run)
                theirs = own_trainer(bench, run)
            if isinstance(theirs, str):
                rate.note("PaddleRec's trainer", theirs)
                continue
            rate.add("PaddleRec's trainer", theirs)
            for name, figure in ratios.items():
                if name in found:
                    figure.add("umiak", found[name] / theirs)
    yield from (rate, *ratios.values())


def job(run: Run) -> Iterator[Figure]:
    """Two servers and two trainers, beside our own model."""
    ratio = Figure(
        "compat-job",
        "rank/dnn of PaddleRec 2 with 2 trainers and 2 servers, async: part of the samples per second of umiak.models.rank.dnn",
        "second epoch, both with the slot reader; all processes share this machine's cores",
        unit="x",
        goal=0.85,
        more_is_better=True,
    )
    slots = SLOTS.format(names=" ".join(["click", *(str(slot) for slot in range(1, clicks.SLOTS + 1))]))
    words = ["-o", "runner.sync_mode=async"]
    for _ in range(run.rounds):
        with measure.other_work(ratio):
            with measure.bench() as bench:
                prepared(bench, run, slots, files=2)
                argv = ["-m", "umiak.cli.main", "train", "-m", "config.yaml", *words]
                launch = ["-m", "umiak.launch", "--server_num", "2", "--trainer_num", "2", *argv]
                ended = bench.start(
                    [sys.executable, *launch], {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"}
                ).wait(LIMIT_S)
                if ended is None or ended.status:
                    ratio.note("umiak", f"failed: {bench.last_words()}")
                    continue
                (written,) = bench.directory.rglob("metrics.jsonl")
                rows = [json.loads(line) for line in written.read_text().splitlines()]
                row = [event for event in rows if event["event"] == "epoch"][-1]
            with measure.bench() as bench:
                train.prepared(bench, 2)
                if why := train.trained(bench, "-o", "mode=ps", "-o", "runner.ps.distribute_strategy=async"):
                    ratio.note("umiak", why)
                    continue
                own = train.last_epoch(bench, "ps")
            ratio.add("umiak", row["samples"] / row["seconds"] / own.rate)
    yield ratio


def static(run: Run) -> Iterator[Figure]:
    """A static program with two servers and two trainers, beside Paddle 2.6.2 and its own servers."""
    readers = {"slots": "slot text through a Python program", "plain": "text converted before"}
    rate = Figure(
        "compat-static",
        "Static program with paddle.distributed.fleet, 2 trainers and 2 servers, async: samples per second of both trainers",
        "benchmarks/programs/ps_fleet.py: 26 sparse_embeddings of 16, 13 numbers, 400-400-400, Adam, batches of 512, QueueDataset; the first file "
        "of each trainer is the warm-up; all processes share this machine's cores",
        unit="samples/s",
        more_is_better=True,
    )
    cpu = Figure(
        "compat-static-cpu",
        "The same: CPU time for one batch, of a trainer with its reader, and of the servers",
        "all threads, after the warm-up; other work on the machine changes it much less than the time on the clock",
        unit="ms",
    )
    ratios = {
        reader: Figure(
            f"compat-static-{reader}",
            f"The same, {words}: times Paddle 2.6.2",
            "pairs of runs, one after the other",
            unit="x",
            goal=2.0,
            more_is_better=True,
        )
        for reader, words in readers.items()
    }
    cpu_ratio = Figure(
        "compat-static-cpu-ratio",
        "The same: samples per second of CPU time, times Paddle 2.6.2",
        "trainers, their readers and servers together; the pipe program is the same for both",
        unit="x",
        more_is_better=True,
    )
    missing = ps_peer.install()
    for _ in range(run.rounds):
        for reader, words in readers.items():
            with measure.other_work(rate):
                ours_found = static_ours(reader, run)
                theirs = ps_peer.Outcome(None, missing)
                if not missing:
                    theirs = ps_peer.run(reader, BATCH, run.files_per_trainer, LIMIT_S)
            for subject, found in (("umiak", ours_found), ("Paddle 2.6.2", theirs)):
                if found.samples_per_s is None:
                    rate.note(f"{subject}, {words}", found.note)
                    continue
                rate.add(f"{subject}, {words}", found.samples_per_s)
                cpu.add(f"{subject}, {words}: trainer", found.trainer_ms)
                cpu.add(f"{subject}, {words}: servers", found.server_ms)
            if ours_found.samples_per_s and theirs.samples_per_s:
                ratios[reader].add("umiak", ours_found.samples_per_s / theirs.samples_per_s)
                cpu_ratio.add(f"umiak, {words}", theirs.cpu_ms / ours_found.cpu_ms)
    yield from (rate, cpu, *ratios.values(), cpu_ratio)


def reader(run: Run) -> Iterator[Figure]:
    """A reader class alone, without a model, in one process beside."""
    rate = Figure(
        "compat-rec-dataset",
        "RecDataset in one reader process, batches of 512 as tensors: samples per second",
        "benchmarks/programs/rec_reader.py, a reader in PaddleRec's form, on slot text; the first batch is not counted; paddle: paddle.io.DataLoader with "
        "num_workers=1; CPU s: of both processes, which other work on the machine changes less",
        unit="samples/s",
        more_is_better=True,
    )
    ratio = Figure(
        "compat-rec-dataset-ratio",
        "The same: times Paddle's DataLoader",
        "pairs of runs, one after the other",
        unit="x",
        goal=1.0,
        more_is_better=True,
    )
    paths = [str(path) for path in clicks.files(1 if run.quick else 2)]
    for _ in range(run.rounds):
        found: dict[str, float] = {}
        with measure.other_work(rate):
            for subject in ("umiak", "paddle"):
                with measure.bench() as bench:
                    argv = [sys.executable, "-m", "benchmarks.rec_reading", subject, *paths]
                    environ = {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYTHONWARNINGS": "ignore"}
                    ended = bench.start(argv, environ).wait(LIMIT_S)
                    said = bench.last_words()
                if ended is None or ended.status:
                    rate.note(subject, f"failed: {said[:160]}")
                    continue
                told = json.loads(said)
                found[subject] = told["samples"] / told["seconds"]
                rate.add(subject, found[subject], told["cpu_s"])
        if len(found) == 2:
            ratio.add("umiak", found["umiak"] / found["paddle"])
    yield from (rate, ratio)


SECTIONS = {"alone": alone, "job": job, "static": static, "reader": reader}

if __name__ == "__main__":
    sys.exit(main())
