"""`umiak serve` under load, and `umiak predict` beside an evaluation: ``python -m benchmarks.serving``. A program.

A click model with 26 slots and 13 numbers, trained for a moment. Requests of 50 rows come at a fixed rate, whether those before are answered or not, over connections that
stay open: as JSON, and with tensors as bytes. What is told: the latency from the moment at which a request was due, and the CPU time of the server, which others on the machine
disturb less. `predict` and an evaluation read the same lines; their CPU times are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

SLOTS = [str(number) for number in range(1, 27)]
WIDTH = 13
CONFIG = """
workspace: "umiak.models.rank.dnn"
mode: [alone]
hyper_parameters: {{optimizer: {{class: adam, learning_rate: 0.001}}, sparse_feature_dim: 9, fc_sizes: [512, 256, 128, 32]}}
runner:
- {{name: alone, class: train, epochs: 1, phases: [train], save_checkpoint_path: out, save_inference_path: served}}
- {{name: infer, class: infer, init_model_path: out, phases: [test]}}
phase:
- {{name: train, model: "{{workspace}}/model.py", dataset_name: train}}
- {{name: test, model: "{{workspace}}/model.py", dataset_name: test}}
dataset:
- {{name: train, type: DataLoader, batch_size: 512, data_path: data/train, sparse_slots: "click {slots}", dense_slots: "dense_var:{width}"}}
- {{name: test, type: DataLoader, batch_size: 512, data_path: data/test, sparse_slots: "click {slots}", dense_slots: "dense_var:{width}"}}
"""


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description="`umiak serve` under load, and `umiak predict` beside an evaluation.")
    parser.add_argument("--rate", type=int, default=500, help="requests a second")
    parser.add_argument("--rows", type=int, default=50, help="rows of a request")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--samples", type=int, default=100_000, help="lines that are predicted")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        make(path, given.samples)
        umiak(path, "train", "-m", "config.yaml")
        for form in ("bytes", "json"):
            tell(form, given, *served(path, form, given))
        predicted = cpu_of(path, "predict", "-m", "config.yaml", "--out", "s.csv", "-q", "--overwrite")
        evaluated = cpu_of(path, "train", "-m", "config.yaml", "-o", "mode=infer")
        print(
            f"predict: {predicted:.1f} s of CPU for {given.samples} rows, an evaluation {evaluated:.1f} s: {evaluated / predicted:.2f} of its rate"
        )
    return 0


def make(path: Path, samples: int) -> None:
    """Lines with an id in each slot."""
    draw = random.Random(1)
    (path / "config.yaml").write_text(CONFIG.format(slots=" ".join(SLOTS), width=WIDTH))
    for name, count in (("train", 20_000), ("test", samples)):
        (path / "data" / name).mkdir(parents=True)
        with (path / "data" / name / "part-0").open("w") as file:
            for _ in range(count):
                words = [f"click:{draw.randrange(2)}", *(f"dense_var:{draw.random():.4f}" for _ in range(WIDTH))]
                words += [f"{slot}:{1000 * int(slot) + draw.randrange(1000)}" for slot in SLOTS]
                file.write(" ".join(words) + "\n")


def umiak(path: Path, *words: str) -> None:
    """Run a command of ours to its end."""
    command = [sys.executable, "-m", "umiak.cli.main", *words]
    subprocess.run(command, cwd=path, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def cpu_of(path: Path, *words: str) -> float:
    """The CPU time that such a command takes, beyond that of a command that only imports Paddle."""
    spent = []
    for each in (words, None):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        if each is None:
            subprocess.run([sys.executable, "-c", "import paddle"], check=True, stderr=subprocess.DEVNULL)
        else:
            umiak(path, *each)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return spent[0] - spent[1]


def body(form: str, rows: int) -> tuple[bytes, int]:
    """A request, and how long its JSON is."""
    draw = np.random.default_rng(2)
    arrays = {slot: 1000 * int(slot) + draw.integers(0, 1000, (rows, 1)) for slot in SLOTS}
    arrays["dense_var"] = draw.random((rows, WIDTH)).astype(np.float32)
    kinds = {"i": "INT64", "f": "FP32"}
    head: list[dict[str, Any]] = [
        {"name": name, "shape": [*array.shape], "datatype": kinds[array.dtype.kind]} for name, array in arrays.items()
    ]
    rest = b""
    for each, array in zip(head, arrays.values(), strict=True):
        if form == "json":
            each["data"] = array.reshape(-1).tolist()
        else:
            rest += array.tobytes()
            each["parameters"] = {"binary_data_size": array.nbytes}
    text = json.dumps({"inputs": head}).encode()
    return text + rest, len(text)


def served(path: Path, form: str, given: argparse.Namespace) -> tuple[list[float], float, float]:
    """Latencies, and the CPU time and the time of the server meanwhile."""
    command = [
        sys.executable,
        "-m",
        "umiak.cli.main",
        "serve",
        "--models",
        "served",
        "--name",
        "ctr",
        "--port",
        "0",
        "-q",
    ]
    process = subprocess.Popen(command, cwd=path, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        asyncio.run(load(port, form, given, 1.0))
        before, began = cpu_s(process.pid), time.monotonic()
        found = asyncio.run(load(port, form, given, given.seconds))
        return found, cpu_s(process.pid) - before, time.monotonic() - began
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def cpu_s(pid: int) -> float:
    """What a process has used."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


async def load(port: int, form: str, given: argparse.Namespace, seconds: float) -> list[float]:
    """Requests at a fixed rate; the latency of each counts from when it was due."""
    text, json_bytes = body(form, given.rows)
    extra = f"Inference-Header-Content-Length: {json_bytes}\r\n" if form == "bytes" else ""
    request = (
        f"POST /v2/models/ctr/infer HTTP/1.1\r\nHost: localhost\r\n{extra}Content-Length: {len(text)}\r\n\r\n".encode()
        + text
    )
    due: asyncio.Queue[float | None] = asyncio.Queue()
    found: list[float] = []

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (began := await due.get()) is not None:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200 "):
                raise RuntimeError(head.decode())
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.split(b":")[1]))
            found.append(time.monotonic() - began)
        writer.close()

    tasks = [asyncio.create_task(connection()) for _ in range(given.connections)]
    begin = time.monotonic()
    for number in range(int(seconds * given.rate)):
        at = begin + number / given.rate
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        due.put_nowait(at)
    for _ in tasks:
        due.put_nowait(None)
    await asyncio.gather(*tasks)
    return found


def tell(form: str, given: argparse.Namespace, found: list[float], cpu: float, took: float) -> None:
    """A line."""
    low, middle, high = np.percentile(found, [50, 90, 99]) * 1000
    load_1 = os.getloadavg()[0]
    print(
        f"serve, {form}: {given.rate} requests/s of {given.rows} rows: p50 {low:.1f}, p90 {middle:.1f}, p99 {high:.1f} ms; "
        f"server {1000 * cpu / len(found):.2f} ms of CPU a request, {cpu / took:.2f} cores; load {load_1:.0f}"
    )


if __name__ == "__main__":
    sys.exit(main())
