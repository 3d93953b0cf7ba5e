"""`make demo`: the examples one after the other, with what they print.

1. two worker processes train a small network together on this machine;
2. two simulated hosts train together, one is killed and brought back;
3. two parameter servers and two trainers learn a click-through model, with a picture of how they got on;
4. to 7. the programs of Paddle's guides: an MLP, a network for digits, wide and deep, a ResNet.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile

EXAMPLES = pathlib.Path(__file__).resolve().parent
WIDTH, HEIGHT = 68, 12


def main() -> int:
    for number, example in enumerate(
        (hello, lose_a_node, parameter_servers, mlp, digits, wide_and_deep, resnet), start=1
    ):
        status = example(number)
        if status:
            heading(f"example {number} ended with {status}")
            return status
    heading("done")
    return 0


def hello(number: int) -> int:
    heading(f"{number}. Two processes train together: umiak launch --nproc_per_node 2 --tee all train.py")
    return launch("01-hello-launch/train.py", "--nproc_per_node", "2", "--tee", "all")


def lose_a_node(number: int) -> int:
    heading(
        f"{number}. Two hosts train together, one is killed and comes back: umiak launch --nnodes 1:2 --master ... train.py"
    )
    script = str(EXAMPLES / "02-lose-a-node" / "run.py")
    return subprocess.run([sys.executable, script], env=quiet(), check=False).returncode


def parameter_servers(number: int) -> int:
    heading(
        f"{number}. Two parameter servers, two trainers: umiak launch --server_num 2 --trainer_num 2 train.py --strategy sync"
    )
    with tempfile.TemporaryDirectory(prefix="umiak-demo-") as work:
        progress = os.path.join(work, "progress.jsonl")
        flags = ["--server_num", "2", "--trainer_num", "2"]
        status = launch(
            "03-parameter-server/train.py", *flags, arguments=["--strategy", "sync", "--progress", progress]
        )
        if status == 0:
            with open(progress, encoding="utf-8") as file:
                print(picture([json.loads(line) for line in file]), flush=True)
    return status


def mlp(number: int) -> int:
    heading(f"{number}. An MLP, collectively: umiak launch --nproc_per_node 2 train.py")
    return launch("04-collective-mlp/train.py", "--nproc_per_node", "2", arguments=["--at_least", "0.9"])


def digits(number: int) -> int:
    heading(f"{number}. Handwritten digits: umiak launch --nproc_per_node 2 train.py")
    return launch("05-digits/train.py", "--nproc_per_node", "2", arguments=["--at_least", "0.95"])


def wide_and_deep(number: int) -> int:
    heading(f"{number}. Wide and deep: umiak launch --server_num 2 --trainer_num 2 train.py")
    flags = ["--server_num", "2", "--trainer_num", "2"]
    return launch("06-wide-and-deep/train.py", *flags, arguments=["--at_least", "0.84"])


def resnet(number: int) -> int:
    heading(f"{number}. A small ResNet: umiak launch --nproc_per_node 2 train.py")
    return launch("07-resnet/train.py", "--nproc_per_node", "2", arguments=["--at_least", "0.95"])


def launch(script: str, *flags: str, arguments: list[str] | None = None) -> int:
    with tempfile.TemporaryDirectory(prefix="umiak-demo-") as work:
        command = [sys.executable, "-m", "umiak.launch", *flags, "--log_dir", os.path.join(work, "log")]
        command += [str(EXAMPLES / script), *(arguments or [])]
        return subprocess.run(command, env=quiet(), check=False).returncode


def picture(points: list[dict[str, float]]) -> str:
    """AUC by step, drawn with characters; the line above is the best that any model could reach."""
    points = points[1:]  # the first one is far below, and would flatten the others
    best = points[-1]["best"]
    low = min(point["auc"] for point in points)
    steps = points[-1]["step"]
    rows = [[" "] * WIDTH for _ in range(HEIGHT)]

    def row_of(auc: float) -> int:
        return round((best - auc) / max(best - low, 1e-9) * (HEIGHT - 1))

    rows[0] = ["-"] * WIDTH
    for point in points:
        rows[row_of(point["auc"])][round((point["step"] / steps) * (WIDTH - 1))] = "*"
    labels = [f"{best - (best - low) * row / (HEIGHT - 1):.3f}" for row in range(HEIGHT)]
    lines = [f"  {label} |{''.join(row)}" for label, row in zip(labels, rows, strict=True)]
    title = f"\n  AUC on unseen samples; {best:.3f} is the best that the hidden chances allow\n"
    return "\n".join([title, *lines, f"        +{'-' * WIDTH}", f"         step 0{f'step {steps:g}':>{WIDTH - 6}}"])


def quiet() -> dict[str, str]:
    """Without the warnings and log lines that importing Paddle brings."""
    return {**os.environ, "GLOG_minloglevel": "2", "PYTHONWARNINGS": "ignore"}


def heading(text: str) -> None:
    print(f"\n{'=' * 80}\n{text}\n{'=' * 80}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
