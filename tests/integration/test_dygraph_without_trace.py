"""A model whose losses depend on every call of its code and on every generator: `umiak train` comes to the bits of a plain loop, alone and with a server, and after it was stopped."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from testbed.pytest_support import require
from tests.support import dygraph_helpers as models
from tests.support import remembering_models
from tests.support.train_runs import Work

EPOCHS = 3
WAYS: dict[str, tuple[str, ...]] = {
    "alone": (),
    "alone, with an inference model": ("runner.use_inference=true",),
    "a server and a trainer": ("runner.sync_mode=sync", "runner.server_num=1", "runner.worker_num=1"),
}

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def paddle_is_there() -> None:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)


def story(path: Path, **more: Any) -> tuple[Work, list[float]]:
    """A directory, and the losses of a plain loop there."""
    batches = remembering_models.story(path, 0, "runner_result_dump_path: dump", epochs=EPOCHS, **more)
    return Work(path), models.plain_losses(path / "dygraph_model.py", batches, epochs=EPOCHS)[0]


def losses(work: Work, first: int = 0) -> list[float]:
    dumps = [json.loads((work.path / f"dump_epoch_{epoch}").read_text()) for epoch in range(first, EPOCHS)]
    return [each["loss"] for dump in dumps for each in dump]


@pytest.mark.parametrize("way", WAYS)
def test_a_run_is_a_plain_loop(way: str, tmp_path: Path) -> None:
    work, expected = story(tmp_path, sparse=True)
    done = work.run_forked("train", *[word for each in WAYS[way] for word in ("-o", each)])
    assert done.status == 0, done.said
    assert losses(work) == expected


def test_what_is_drawn_after_a_checkpoint_is_drawn_again(tmp_path: Path) -> None:
    work, expected = story(tmp_path, sparse=True, among=remembering_models.GENERATORS)
    done = work.run_forked("train", "-o", "runner.epochs=1")
    assert done.status == 0, done.said
    # What the model seeds when it is made counts before the checkpoint, not after it.
    done = work.run_forked("train", "--resume")
    assert done.status == 0, done.said
    assert "1 of 3 epochs is done" in done.said
    assert losses(work, 1) == expected[len(expected) // EPOCHS :]
