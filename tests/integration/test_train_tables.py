"""Slots that share a table: equal ids are one row, and with ``embedding_tables: per_slot`` as many as there are slots, in every mode."""

from __future__ import annotations

import importlib.util
import itertools
import re

import numpy as np
import pytest

from testbed.pytest_support import require
from tests.support.train_runs import EPOCHS, IDS, SLOTS, Work

pytestmark = [pytest.mark.paddle, pytest.mark.usefixtures("paddle")]

LAST = str(EPOCHS - 1)
PER_SLOT = ("-o", "embedding_tables=per_slot")
TABLES = [f"embedding.{slot}" for slot in range(1, SLOTS + 1)]


@pytest.fixture
def paddle() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


@pytest.fixture
def equal(work: Work) -> Work:
    """Every slot has the same ids, 0 and up."""
    for path in (work.path / "data").rglob("part*"):
        path.write_text(re.sub(r" (\d):(\d+)", lambda found: f" {found[1]}:{int(found[2]) % 1000}", path.read_text()))
    return work


def rows(work: Work, runner: str) -> dict[str, set[int]]:
    """The ids of each embedding table."""
    from umiak.ps import export

    found = export.contents(str(work.path / "out" / runner / LAST))
    return {name: {*table["rows"]} for name, table in found.items() if "rows" in table}


@pytest.mark.parametrize("runner", ["alone", "sync", "async", "half_async", "geo", "hybrid", "collective"])
def test_equal_ids_of_two_slots_are_one_row_or_two(equal: Work, runner: str) -> None:
    def run(*words: str) -> dict[str, set[int]]:
        equal.forget("out", "steps", "run")
        done = equal.here(runner, *words) if runner == "alone" else equal.run(runner, *words)
        assert done.status == 0, done.said
        return rows(equal, runner)

    ids = {*range(IDS)}
    if runner == "alone":
        assert run() == {"embedding": ids}
    assert run(*PER_SLOT) == dict.fromkeys(TABLES, ids)


def test_rows_of_one_id_go_their_own_ways(equal: Work) -> None:
    from umiak.ps import export

    assert equal.here("alone", *PER_SLOT).status == 0
    found = export.contents(str(equal.path / "out" / "alone" / LAST))
    of_id_7 = [np.asarray(found[name]["rows"][7][1])[:4] for name in TABLES]
    assert all(np.abs(one - other).max() > 1e-3 for one, other in itertools.pairwise(of_id_7))


def test_it_learns_what_a_shared_table_can_not(equal: Work) -> None:
    """What an id means depends on its slot: a linear model needs a row for each."""
    text = (equal.path / "model.py").read_text()
    linear = "        return self.embedding(inputs.ids(*self.features)).sum(axis=[1, 2]).unsqueeze(1)\n"
    (equal.path / "model.py").write_text(text[: text.index("        if ")] + linear)

    def auc(*words: str) -> float:
        equal.forget("out", "steps", "run")
        done = equal.here("alone", "-o", "runner.alone.epochs=6", *words)
        assert done.status == 0, done.said
        return float(equal.epochs("alone")[-1]["evaluated"]["auc"])

    assert auc(*PER_SLOT) > auc() + 0.05


def test_checkpoints_infer_and_models_for_serving(equal: Work) -> None:
    """A model for serving is asked about a batch when it is written, and must answer as the trained one."""
    words = (*PER_SLOT, "-o", "runner.alone.save_inference_path=served")
    assert equal.here("alone", *words).status == 0
    assert (equal.path / "served" / LAST / "signature.json").exists()
    whole = equal.checkpoint("out", "alone", LAST)
    trained = equal.epochs("alone")[-1]["evaluated"]["auc"]
    done = equal.here("infer", *PER_SLOT)
    assert done.status == 0, done.said
    judged = [row for row in equal.metrics("infer") if row["event"] == "epoch"][-1]["evaluated"]["auc"]
    assert judged == pytest.approx(trained, abs=1e-6)
    for name in ("out", "served"):
        equal.forget(f"{name}/{LAST}" if name == "served" else "out")
    done = equal.here("alone", *words, "--resume")
    assert "resuming from" in done.said, done.said
    assert equal.checkpoint("out", "alone", LAST) == whole
    done = equal.here("infer")
    assert done.status != 0
    assert "there is no table embedding in it" in done.said


def test_rows_that_count_shows_and_clicks(equal: Work) -> None:
    counted = "table_parameters={embedding: {accessor: {embedx_threshold: 0}}}"
    assert equal.here("alone", *PER_SLOT, "-o", counted).status == 0
    assert rows(equal, "alone").keys() == {*TABLES}


def test_a_model_may_share_a_table_on_purpose(equal: Work) -> None:
    text = (equal.path / "model.py").read_text()
    (equal.path / "model.py").write_text(
        text.replace("tables.embedding(hyper.dim)", "tables.embedding(hyper.dim, shared=True)")
    )
    assert equal.here("alone", *PER_SLOT).status == 0
    assert rows(equal, "alone") == {"embedding": {*range(IDS)}}


def test_a_slot_that_is_looked_up_in_training_alone_is_refused(equal: Work) -> None:
    text = (equal.path / "model.py").read_text()
    changed = text.replace(
        "inputs.ids(*self.features)", "inputs.ids(*self.features) if self.training else inputs.ids('1', '1', '1', '1')"
    )
    (equal.path / "model.py").write_text(changed)
    done = equal.here("alone", *PER_SLOT)
    assert done.status != 0
    assert "UM-TRAIN-071" in done.said
