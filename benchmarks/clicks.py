"""Click records as slot text, the same for everybody who is measured with them. An adapter, and the one rule of the data.

    python -m benchmarks.clicks DIRECTORY --files 8 --lines 25600

A line is `click:0`, thirteen `dense_feature:0.123` and one id for each of the slots `1` to `26`. Ids follow a Zipf law with
exponent 1.15 over one million, each slot with its own common ids; 512 lines have about 7,500 different ones. Labels
follow the sum of a hidden weight per id, so that a model has something to learn.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

SLOTS = 26
DENSE = 13
IDS = 1_000_000
EXPONENT = 1.15
LINES_PER_FILE = 25_600
RULE = 1
"""Grows with every change of the data, so that nobody is measured with an old cache."""

_TEMPLATE = " ".join(
    ["click:%d", *["dense_feature:%.6f"] * DENSE, *(f"{slot}:%d" for slot in range(1, SLOTS + 1))]
).encode()
_PLAIN = " ".join(["1 %d", " ".join([str(DENSE), *["%.6f"] * DENSE]), *["1 %d"] * SLOTS]).encode()
"""The same sample as counts and values, the only text that Paddle's own datasets read without a program in between."""


def ids(lines: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """One id for every line and slot."""
    drawn = random.zipf(EXPONENT, size=(lines, SLOTS)) % IDS
    return (drawn + np.arange(SLOTS) * 38_461) % IDS


def samples(lines: int, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Labels, dense features and ids."""
    random = np.random.default_rng(seed)
    sparse = ids(lines, random)
    dense = np.round(random.random((lines, DENSE)) ** 2, 6)
    hidden = ((sparse.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)).astype(
        np.float64
    ) / 2**23 - 1
    score = hidden.sum(axis=1) * 0.6 + dense[:, 0] - 1.5
    labels = (random.random(lines) < 1 / (1 + np.exp(-score))).astype(np.int64)
    return labels, dense, sparse


def write(path: Path, lines: int, seed: int, *, plain: bool = False) -> None:
    """One file; `plain` writes counts and values instead of names and values."""
    labels, dense, sparse = samples(lines, seed)
    template = _PLAIN if plain else _TEMPLATE
    rows = zip(labels.tolist(), dense.tolist(), sparse.tolist(), strict=True)
    text = b"\n".join(template % (label, *floats, *keys) for label, floats, keys in rows) + b"\n"
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    beside.write_bytes(text)
    beside.rename(path)


def files(count: int, lines: int = LINES_PER_FILE, *, plain: bool = False) -> list[Path]:
    """Paths of this many files, made unless an earlier run has left them in the temporary directory."""
    kind = "plain" if plain else "slots"
    place = Path(tempfile.gettempdir()) / f"umiak-clicks-{os.getuid()}" / f"{kind}-{RULE}-{lines}"
    place.mkdir(parents=True, exist_ok=True)
    paths = [place / f"part-{number:03d}" for number in range(count)]
    for number, path in enumerate(paths):
        if not path.exists():
            write(path, lines, seed=number, plain=plain)
    return paths


def main() -> int:
    """Write files where somebody wants them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clicks", description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--lines", type=int, default=LINES_PER_FILE)
    asked = parser.parse_args()
    asked.directory.mkdir(parents=True, exist_ok=True)
    for number in range(asked.files):
        write(asked.directory / f"part-{number:03d}", asked.lines, seed=number)
    return 0


if __name__ == "__main__":
    sys.exit(main())
