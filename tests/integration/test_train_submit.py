"""`umiak train --on local`: a config is submitted, trains with servers and trainers, and is followed and waited for as any run."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.pytest_support import require
from tests.support import submitting
from tests.support.paddlecloud_story import DATA, DNN
from tests.support.train_helpers import PS_CLUSTER

pytestmark = pytest.mark.paddle


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[submitting.Desk]:
    missing = importlib.util.find_spec("paddle") is None
    require("PaddlePaddle is not installed: pip install paddlepaddle==3.3.1" if missing else None)
    with submitting.opened(tmp_path) as opened:
        yield opened


def test_a_config_trains_on_this_machine(desk: submitting.Desk) -> None:
    (desk.directory / "config.yaml").write_text(PS_CLUSTER)
    shutil.copy(DNN / "model.py", desk.directory)
    (desk.directory / "train_data").mkdir()
    for path in DATA:
        shutil.copy(path, desk.directory / "train_data")
    words = ("train", "-m", "config.yaml", "--on", "local", "--nnodes", "2", "-o", "runner.epochs=1")
    handle = desk.umiak(*words).strip()
    assert handle.startswith("local://local/work-")
    followed = desk.umiak("logs", "-f", handle)
    desk.umiak("wait", handle)
    assert "[trainer.0] epoch 1/1 done  100 samples" in followed
    assert desk.status(handle)["exit_code"] == 0
    assert (desk.directory / "increment_dnn" / "0").is_dir()
    failing = desk.umiak(*words, "-o", "dataset.data_path=nowhere").strip()
    assert failing != handle
    desk.umiak("wait", failing, status=2)
