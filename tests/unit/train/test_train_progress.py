"""What a checkpoint says of a run's progress: it is read again, also as earlier versions wrote it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from umiak.core.decode import decode
from umiak.train.checkpoints.progress import Progress, from_plain, to_plain, unpacked
from umiak.train.reading.work_queue import WorkQueue

EARLIER = Path(__file__).resolve().parents[2] / "golden" / "train-progress-0.1.json"
OLDER_KEYS = ('"board"', '"board_layout"', '"deal"', r"\"deal\"")


def read_earlier() -> Progress:
    progress = from_plain(json.loads(EARLIER.read_text(encoding="utf-8")))
    assert progress is not None
    return progress


def test_a_checkpoint_of_an_earlier_version_is_read() -> None:
    progress = read_earlier()
    assert progress.metrics_layout == "auc 3"
    assert [np.round(unpacked(state.metrics), 6).tolist() for state in progress.trainers] == [[0, 1, 2], [1, 1, 1]]
    (left,) = json.loads(progress.queue)
    assert left["files"] == "f1"
    assert decode(WorkQueue, left["queue"]) == WorkQueue(trainers=2)


def test_what_is_written_has_the_new_keys_and_is_read_again() -> None:
    progress = read_earlier()
    text = json.dumps(to_plain(progress))
    assert [key for key in OLDER_KEYS if key in text] == []
    assert from_plain(json.loads(text)) == progress


def test_a_queue_that_is_no_json_is_of_no_trainer() -> None:
    plain = json.loads(EARLIER.read_text(encoding="utf-8"))
    plain["umiak_train"]["deal"] = '["deal"'
    assert from_plain(plain) is None
