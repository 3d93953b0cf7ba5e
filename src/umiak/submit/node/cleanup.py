"""Removes what old runs left on a host: an adapter.

The rule: a run's directory goes when the run has been over, or has said nothing, for as long as was asked; files of jobs and launchers
go when no run has used them for as long and none goes on. A run that goes on is never touched, nor what is somebody else's.
"""

from __future__ import annotations

import os
import shutil
import time

from umiak.core.problem import UmiakError
from umiak.submit.node import control
from umiak.submit.node.files import RunFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def clean(directory: str, *, older_than_s: float) -> list[str]:
    """What was removed, by its path below the directory."""
    oldest = time.time() - older_than_s
    removed = []
    is_anything_on = False
    for run in _below(os.path.join(directory, "runs")):
        for part in _below(run):
            is_over = _is_over(part)
            is_anything_on = is_anything_on or not is_over
            if is_over and os.stat(part).st_mtime <= oldest:
                shutil.rmtree(part, ignore_errors=True)
                removed.append(os.path.relpath(part, directory))
        try:
            os.rmdir(run)
        except OSError:
            continue  # a part of it is still needed
    for kind in () if is_anything_on else ("files", "launchers"):
        for path in _below(os.path.join(directory, kind)):
            if os.stat(path).st_mtime > oldest:
                continue
            if os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
            removed.append(os.path.relpath(path, directory))
    return removed


def _is_over(part: str) -> bool:
    files = RunFiles(part)
    try:
        return not files.exists or control.status(files).state.is_over
    except UmiakError:
        return False  # of another host with the same home: that one cleans it


def _below(directory: str) -> Iterator[str]:
    try:
        names = sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        path = os.path.join(directory, name)
        try:
            is_own = os.lstat(path).st_uid == os.geteuid()
        except FileNotFoundError:
            continue  # another host with the same home was faster
        if is_own:
            yield path
