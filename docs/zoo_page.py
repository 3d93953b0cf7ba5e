"""The tables of docs/reference/zoo.md: PaddleRec's own models beside plain Paddle, as `tools/zoo_compare.py` has found it. A program, part of `generate`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "zoo.jsonl"
WAYS = ("alone", "1 + 1", "2 + 2")
NOTES = {
    ("dygraph", "rank/sign"): "pgl has no release for Python 3.11, and its sources do not compile with numpy 2",
    ("dygraph", "match/kim"): "alone it was ended after 300 s on a machine with ten times its load",
    ("static", "treebased/tdm"): "its reader has no class `RecDataset`: PaddleRec's trainer fails as well",
    ("static", "recall/word2vec/benchmark"): "Paddle 3 has no `paddle.initializer`",
    ("static", "rank/slot_dnn"): "its config names no reader beside it",
}
"""What is known beyond the numbers."""
OWN_FAULTS = {("static", "treebased/tdm"), ("static", "recall/word2vec/benchmark")}
"""Models that fail before anything is trained, wherever they run: umiak's side is the first that says so."""
LIMITS = {"timeout": "over 5 min", "memory": "over 8 GB", "not measured": "not measured"}
LAZY = ("lazily", "lazy_mode", "moves when it is used")


def models(kind: str) -> str:
    """The models of a kind: how many are what, and a table."""
    known: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for line in RESULTS.read_text(encoding="utf-8").splitlines():
        result = json.loads(line)
        known.setdefault((result["kind"], result["model"]), {})[result["way"]] = result
    return _section(kind, known)


def _section(kind: str, known: dict[tuple[str, str], dict[str, dict[str, Any]]]) -> str:
    models = {model: ways for (of, model), ways in sorted(known.items()) if of == kind}
    lines = [
        _total(models),
        "",
        "| model | alone | 1 + 1 | 2 + 2 | largest difference | |",
        "|---|---|---|---|---|---|",
    ]
    for model, ways in models.items():
        cells = [_cell(ways.get(way)) for way in WAYS]
        largest = max([each["largest"] for each in ways.values() if each.get("largest") is not None], default=None)
        shown = "" if largest is None else f"{largest:.1e}"
        smaller = [way for way in WAYS if "rows" in ways.get(way, {})]
        rows = [f"{ways[smaller[0]]['rows']:,} rows ({', '.join(smaller)})"] if smaller else []
        notes = [NOTES[kind, model]] if (kind, model) in NOTES else []
        remark = "; ".join([*rows, *([reason] if (reason := _reason(ways)) else []), *notes])
        lines.append(f"| {model} | {' | '.join(cells)} | {shown} | {remark} |")
    return "\n".join(lines)


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
    if found is None or found["verdict"] in LIMITS:
        return LIMITS[found["verdict"]] if found else "not measured"
    said = found.get("said", "")
    if missing := re.search(r"(?:No module named '|is not installed here: )([\w.]+)", said):
        return f"needs {missing[1]}"
    if "nltk.download(" in said:
        return "needs NLTK's data"
    if "UM-FLEET-018" in said:
        return "refused"
    if "UM-DATA-006" in said or "FileNotFoundError" in said or "UM-TRAIN-586" in said:
        return "no data"
    if found["verdict"] == "plain fails" or (found["kind"], found["model"]) in OWN_FAULTS:
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
        if found["verdict"] in (
            "differs",
            "lazy rows",
            "rounding",
            "not deterministic",
            "sparse gradients",
            "clipped apart",
        ) and found.get("differing"):
            first = found["differing"][0]
            apart = "no number" if first["largest"] is None else f"{first['largest']:.1e}"
            remarks = found.get("remarks", ()) if _cell(found) == "**differs**" else ()
            told = f"{way}: `{first['name']}` from step {first['first_step']} on, {apart} of {first['moved']:.1e} moved"
            return "; ".join([told, *remarks[:1]])
        if found["verdict"] in ("plain fails", "umiak fails", "refused") and not _cell(found).startswith("needs "):
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
