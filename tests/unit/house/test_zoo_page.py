"""The page about PaddleRec's models: every verdict has its word, and a difference its parameter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from docs import zoo_page


def line(model: str, way: str, verdict: str, **more: Any) -> str:
    return json.dumps({"kind": "dygraph", "model": model, "way": way, "verdict": verdict, **more})


def differing(name: str) -> list[dict[str, Any]]:
    return [{"name": name, "first_step": 2, "largest": 1.5e-3, "moved": 4e-3}]


def test_words_and_reasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = "embedding: rows learn lazily, only in steps that use them"
    (tmp_path / "zoo.jsonl").write_text(
        "\n".join(
            [
                line("rank/a", "alone", "equal", largest=1e-8),
                line(
                    "rank/a",
                    "1 + 1",
                    "differs",
                    largest=1.5e-3,
                    differing=differing("embedding.weight"),
                    remarks=[lazy],
                ),
                line("rank/a", "2 + 2", "differs", largest=1.5e-3, differing=differing("fc.weight"), remarks=[lazy]),
                line("rank/b", "alone", "plain fails", said="Traceback\nValueError: shapes /x/models/rank/b | 3\n"),
                line("rank/c", "alone", "umiak fails", said="ModuleNotFoundError: No module named 'nltk'\n"),
                line(
                    "rank/c", "1 + 1", "refused", said="error: imports what is not installed here: six [UM-TRAIN-540]"
                ),
                line("rank/d", "alone", "umiak fails", said="error: no files [UM-DATA-006]\n"),
                line("rank/e", "alone", "timeout"),
                line("rank/e", "1 + 1", "memory"),
                line("rank/f", "alone", "equal", largest=1e-8, rows=131101),
                line("rank/f", "1 + 1", "not measured"),
            ]
        )
    )
    monkeypatch.setattr(zoo_page, "RESULTS", tmp_path / "zoo.jsonl")
    rows = [text for text in zoo_page.models("dygraph").splitlines() if text.startswith("| rank/")]
    assert rows == [
        "| rank/a | equal | lazy rows | **differs** | 1.5e-03 | 1 + 1: `embedding.weight` from step 2 on, 1.5e-03 of 4.0e-03 moved |",
        "| rank/b | fails in plain Paddle | not measured | not measured |  | `ValueError: shapes models/rank/b / 3` |",
        "| rank/c | needs nltk | needs six | not measured |  |  |",
        "| rank/d | no data | not measured | not measured |  | `error: no files [UM-DATA-006]` |",
        "| rank/e | over 5 min | over 8 GB | not measured |  |  |",
        "| rank/f | equal | not measured | not measured | 1.0e-08 | 131,101 rows (alone) |",
    ]
