"""The page docs/reference/zoo.md: PaddleRec's own models beside plain Paddle, as `tools/zoo_compare.py` has found it. A program, part of `generate`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "zoo.jsonl"
WAYS = ("alone", "1 + 1", "2 + 2")
LISTED = {"dygraph": "## Models in the dynamic form", "static": "## Static programs"}
LAZY = ("lazily", "lazy_mode", "moves when it is used")

HEAD = """\
<!-- Made by `python docs/generate.py` from docs/zoo.jsonl, which `python -m tools.zoo_compare` writes. Change these, not this file. -->

# PaddleRec's models beside plain Paddle

Each model of PaddleRec's repository with its sample data, five steps with [`umiak train --compare plain`](train.md#compare-with-plain-paddle), on Paddle 3.3.1: alone, with one server and one trainer, and with two servers and two
trainers, the latter in sync. Batches have 16 samples at most, unless a model has their size in its code. Tolerance: 1e-5.

| | |
|---|---|
| equal | all parameters, buffers and losses after each step |
| rounding | they differ by what plain Paddle differs from itself if its parameters change in their last digit, usually where a gradient is zero but for rounding and Adam divides it by its own size |
| sparse gradients | plain Paddle agrees if its Adam has one epsilon. With `sparse=True` on CPUs, and without `lazy_mode`, it divides rows that have no gradient in a step by `sqrt(v) + epsilon`, and all others by `sqrt(v) + epsilon * sqrt(1 - beta2 ** t)`, as for dense gradients and on GPUs. umiak divides all rows by the latter |
| not deterministic | plain Paddle differs from itself with the same seed and batches |
| lazy rows | with tables, a row moves in steps that use it, where Paddle's optimizer (`Adam` without `lazy_mode`, `Momentum`) moves all rows in each step; training says so in a remark. `dense_embeddings` keeps a layer a parameter: [what is learned, and where](../how-to/move-from-paddlerec.md#what-is-learned-and-where) |
| **differs** | otherwise, with what is known about it |
| fails in plain Paddle | so there is nothing to compare with |
| not measured | it was not run, or took longer than the limit of five minutes |

`python -m tools.zoo_compare DIRECTORY`, for a directory with PaddleRec's `models`, repeats it, and goes on where it was interrupted.
"""


def zoo_page() -> str:
    """The whole page."""
    known: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for line in RESULTS.read_text(encoding="utf-8").splitlines():
        found = json.loads(line)
        known.setdefault((found["kind"], found["model"]), {})[found["way"]] = found
    return "\n".join([HEAD, *[_section(kind, known) for kind in LISTED]])


def _section(kind: str, known: dict[tuple[str, str], dict[str, dict[str, Any]]]) -> str:
    models = {model: ways for (of, model), ways in sorted(known.items()) if of == kind}
    lines = [
        LISTED[kind],
        "",
        _total(models),
        "",
        "| model | alone | 1 + 1 | 2 + 2 | largest difference | |",
        "|---|---|---|---|---|---|",
    ]
    for model, ways in models.items():
        cells = [_cell(ways.get(way)) for way in WAYS]
        largest = max([each["largest"] for each in ways.values() if each.get("largest") is not None], default=None)
        shown = "" if largest is None else f"{largest:.1e}"
        lines.append(f"| {model} | {' | '.join(cells)} | {shown} | {_reason(ways)} |")
    return "\n".join(lines) + "\n"


def _total(models: dict[str, dict[str, dict[str, Any]]]) -> str:
    """How many of them are what, for each way."""
    told = []
    for way in WAYS:
        counts: dict[str, int] = {}
        for ways in models.values():
            word = _cell(ways.get(way)).strip("*")
            word = "no data, or packages that are missing" if word.startswith(("no data", "needs ")) else word
            counts[word] = counts.get(word, 0) + 1
        told.append(
            f"{way}: "
            + ", ".join(f"{count} {word}" for word, count in sorted(counts.items(), key=lambda each: -each[1]))
        )
    return f"{len(models)} models. " + "; ".join(told) + "."


def _cell(found: dict[str, Any] | None) -> str:
    """The verdict of a way, in a word."""
    if found is None or found["verdict"] in ("timeout", "not measured"):
        return "not measured"
    said = found.get("said", "")
    if missing := re.search(r"(?:No module named '|is not installed here: )([\w.]+)", said):
        return f"needs {missing[1]}"
    if "UM-DATA-006" in said or "FileNotFoundError" in said or "UM-TRAIN-586" in said:
        return "no data"
    if found["verdict"] == "plain fails":
        return "fails in plain Paddle"
    if found["verdict"] == "differs":
        return "lazy rows" if _is_lazy(found) else "**differs**"
    return f"**{found['verdict']}**" if found["verdict"] in ("umiak fails", "refused") else str(found["verdict"])


def _is_lazy(found: dict[str, Any]) -> bool:
    """Whether the first to differ is a table whose rows rest, as training says."""
    remarks = [each for each in found.get("remarks", ()) if any(word in each for word in LAZY)]
    first = found["differing"][0]["name"] if found.get("differing") else ""
    layer = first.removesuffix(".weight")
    return any(each.startswith(f"{layer}:") for each in remarks) or (found["kind"] == "static" and bool(remarks))


def _reason(ways: dict[str, dict[str, Any]]) -> str:
    """What is to be said about a model."""
    for way in WAYS:
        found = ways.get(way)
        if found is None:
            continue
        if found["verdict"] in ("differs", "rounding", "not deterministic", "sparse gradients") and found.get(
            "differing"
        ):
            first = found["differing"][0]
            apart = "no number" if first["largest"] is None else f"{first['largest']:.1e}"
            return f"{way}: `{first['name']}` from step {first['first_step']} on, {apart} of {first['moved']:.1e} moved"
        if found["verdict"] in ("plain fails", "umiak fails", "refused") and not _cell(found).startswith(
            ("no data", "needs ")
        ):
            return f"`{_last_error(found['said'])}`"
    return ""


def _last_error(said: str) -> str:
    """The line of an output that names the error."""
    lines = [
        line.strip()
        for line in said.splitlines()
        if re.match(r"\s*[\w.]*(Error|Exception)\b|.*\[UM-[A-Z]+-\d+\]", line)
    ]
    text = lines[-1] if lines else said.strip().splitlines()[-1] if said.strip() else "it said nothing"
    text = re.sub(r"/\S*/models/", "models/", text).replace("|", "/").replace("`", "'")
    return text if len(text) <= 160 else f"{text[:157]}..."
