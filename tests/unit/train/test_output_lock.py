"""The lock of an output that is predicted, where somebody else may have put something in its place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from umiak.train.predicting import output_lock


@pytest.mark.parametrize("kind", ["a link", "another name of a file", "a pipe"])
def test_nothing_is_written_into_a_file_of_another_name(tmp_path: Path, kind: str) -> None:
    precious, lock = tmp_path / "precious", tmp_path / "scores.csv.lock"
    precious.write_text("kept")
    match kind:
        case "a link":
            lock.symlink_to(precious)
        case "a pipe":
            os.mkfifo(lock)
        case _:
            lock.hardlink_to(precious)
    with pytest.raises(OSError, match=r"scores\.csv\.lock"), output_lock.held(str(tmp_path / "scores.csv")):
        pass
    assert precious.read_text() == "kept"
