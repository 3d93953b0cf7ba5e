"""The table of PaddleRec 1.8.5's training runners in docs/reference/zoo.md, as `tools/zoo_1_8.py` has found them. A program, part of `generate`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "zoo_1_8.jsonl"
WAYS = ("alone", "2 + 2")
WORDS = (
    ("UM-DATA-006", "no data"),
    ("No such file or directory", "no data"),
    ("UM-CONFIG-017", "refused"),
    ("UM-DATA-009", "slots"),
    ("UM-TRAIN-014", "diverges"),
)
"""What an output has, and the word for it; the first that fits counts."""
LIMITS = {"timeout": "over time", "memory": "over 6 GB"}
NOTES = {
    "recall/fasttext/config.yaml": "`data/dict/word_ngrams_id.txt` is missing in the snapshot of the repository that was used",
    "contentunderstanding/textcnn_pretrain/config.yaml": "`startup_class_path`; its pretrained model is not in the repository either",
    "treebased/tdm/config.yaml": "`startup_class_path`",
    "recall/look-alike_recall/config.yaml": "it takes the logarithm of a cosine, which is NaN below -0.0001: by seed. Of twelve seeds five begin so, in umiak and in the same network by hand with plain Paddle, which agree in score and loss of each step",
    "rank/fgcnn/config.yaml": "it learns, but a step has some 40,000 operations: four for each of 9,870 pairs of features",
}
"""What is known beyond the output."""


def word(found: dict[str, Any] | None) -> str:
    """The verdict of a run."""
    if found is None:
        return "not measured"
    if found["verdict"] == "fails":
        return next((each for code, each in WORDS if code in found.get("said", "")), "**fails**")
    return LIMITS.get(found["verdict"], str(found["verdict"]))


def runners() -> str:
    """How many runners come to what, and a row for each."""
    known: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for line in RESULTS.read_text(encoding="utf-8").splitlines():
        result = json.loads(line)
        known.setdefault((result["config"], result["runner"]), {})[result["way"]] = result
    rows = ["| config | runner | alone | 2 + 2 | seconds | |", "|---|---|---|---|---|---|"]
    for (config, runner), ways in sorted(known.items()):
        cells = [word(ways.get(way)) for way in WAYS]
        seconds = ", ".join(f"{ways[way]['seconds']:.0f}" for way in WAYS if way in ways and ways[way]["seconds"])
        rows.append(
            f"| {config.removesuffix('/config.yaml')} | {runner} | {' | '.join(cells)} | {seconds} | {_remark(config, ways)} |"
        )
    return "\n".join([_total(known), "", *rows])


def _total(known: dict[tuple[str, str], dict[str, dict[str, Any]]]) -> str:
    told = []
    for way in WAYS:
        words = [word(ways.get(way)).strip("*") for ways in known.values()]
        counts = sorted({each: words.count(each) for each in words}.items(), key=lambda each: -each[1])
        told.append(f"{way}: " + ", ".join(f"{count} {each}" for each, count in counts))
    configs = {config for config, _ in known}
    fully = {config for config in configs if any(_is_fine(ways) for (of, _), ways in known.items() if of == config)}
    return (
        f"{len(known)} runners of {len(configs)} configs; {len(fully)} of the configs have one that trains both ways. "
        + "; ".join(told)
        + "."
    )


def _is_fine(ways: dict[str, dict[str, Any]]) -> bool:
    return all(word(ways.get(way)) == "trains" for way in WAYS)


def _remark(config: str, ways: dict[str, dict[str, Any]]) -> str:
    """What was overridden, what is known, or the error."""
    found = [
        f"`-o {each}`" for each in dict.fromkeys(each for way in ways.values() for each in way.get("overrides", ()))
    ]
    if config in NOTES and not _is_fine(ways):
        return "; ".join([*found, NOTES[config]])
    errors = [
        _error(way["said"]) for way in ways.values() if word(way) not in ("trains", *LIMITS.values()) and "said" in way
    ]
    return "; ".join([*found, *dict.fromkeys(f"`{each}`" for each in errors if each)][:2])


def _error(said: str) -> str:
    lines = [each.strip() for each in said.splitlines() if re.search(r"error: .*\[UM-[A-Z]+-\d+\]", each)]
    text = lines[-1].partition("error: ")[2] if lines else ""
    text = text.replace("|", "/").replace("`", "'")
    return text if len(text) <= 120 else f"{text[:117]}..."
