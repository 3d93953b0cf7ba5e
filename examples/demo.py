"""`make demo`: a click-through model, trained on this machine by two trainers with two parameter servers, then asked.

1. sample data with a planted signal, so that the best possible AUC is known;
2. `umiak train` with the zoo's dnn: live progress, evaluation, checkpoints, a table and a plot;
3. the inference model that it saved, loaded with `paddle.inference`, answers three samples that it has never seen.

Everything is made in a directory `demo`, which is emptied first.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

PLACE = Path("demo")
MODEL = "rank.dnn"
SAMPLES = 120_000


def main() -> int:
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir()
    for number, step in enumerate((sample_data, train, ask), start=1):
        status = step(number)
        if status:
            heading(f"step {number} ended with {status}")
            return status
    heading(f"done; the plot is {PLACE / 'run' / 'ps' / 'curve.svg'}")
    return 0


def sample_data(number: int) -> int:
    words = ["-m", "umiak.models.sample", MODEL, "--out", "data", "--samples", str(SAMPLES)]
    heading(f"{number}. Sample data: python {' '.join(words)}")
    return run(words)


def train(number: int) -> int:
    said = {
        "mode": "ps",
        "runner.ps.save_checkpoint_path": "checkpoints",
        "runner.ps.save_inference_path": "served",
        "dataset.train_data.data_path": "data/train",
        "dataset.test_data.data_path": "data/test",
    }
    words = ["train", "-m", f"umiak.models.{MODEL}"]
    for key, value in said.items():
        words += ["-o", f"{key}={value}"]
    heading(f"{number}. Two servers, two trainers: umiak {' '.join(words)}")
    return run(["-m", "umiak.cli.main", *words])


def ask(number: int) -> int:
    heading(
        f"{number}. The inference model answers: paddle.inference on {PLACE}/served/1, of the second epoch: names count from 0"
    )
    best = json.loads((PLACE / "data" / "best.json").read_text(encoding="utf-8"))["auc"]
    print(f"the best AUC that the hidden chances allow is {best:.4f}", flush=True)
    lines = (PLACE / "data" / "test" / "part-0000").read_text(encoding="utf-8").splitlines()[:3]
    (PLACE / "three.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return run([str(Path(__file__).resolve().parent / "serve.py"), "served/1", "three.txt"])


def run(words: list[str]) -> int:
    """Python with these words, in the demo's directory, without the noise that importing Paddle brings."""
    environ = {**os.environ, "GLOG_minloglevel": "2", "PYTHONWARNINGS": "ignore"}
    return subprocess.run([sys.executable, *words], cwd=PLACE, env=environ, check=False).returncode


def heading(text: str) -> None:
    print(f"\n{'=' * 80}\n{text}\n{'=' * 80}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
