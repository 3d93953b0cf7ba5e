"""Metrics that a config asks for, in real trainings: models of each form, alone and by two trainers in several strategies."""

from __future__ import annotations

import pytest

from tests.support.train_runs import Work

pytestmark = [pytest.mark.paddle]

MEASURED = """
evaluation:
  slices: "2"
  metrics:
  - {name: gauc, group: "1"}
  - {name: hit_rate, group: "1", k: 5}
  - {name: normalised_entropy}
"""


@pytest.mark.parametrize("runner", ["sync", "async", "collective"])
def test_two_trainers_measure_what_one_process_finds_in_their_checkpoint(work: Work, runner: str) -> None:
    work.change("hyper_parameters:", f"{MEASURED.strip()}\nhyper_parameters:")
    done = work.run_forked(
        runner, "-o", f"runner.{runner}.early_stop_metric=gauc_samples", "-o", f"runner.{runner}.early_stop_patience=9"
    )
    assert done.status == 0, done.said
    assert "AUC by 2: " in done.said
    told = work.epochs(runner)[-1]["evaluated"]
    alone = work.here("infer", "-o", f"runner.infer.init_model_path=out/{runner}/1")
    assert alone.status == 0, alone.said
    found = work.metrics("infer")[-1]["evaluated"]
    assert [*told] == [*found]
    for name in ("gauc_samples", "hit_rate@5", "normalised_entropy", "auc_by_2", "gauc_samples.groups"):
        assert told[name] == pytest.approx(found[name], abs=1e-5), name
