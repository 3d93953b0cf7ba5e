"""Reads and writes the report of a launcher in its log directory, and leaves its last words in its pod. An adapter.

Written as a whole or not at all: who asks for a run's status may look at any moment.
"""

from __future__ import annotations

import os

from umiak.adapters import private_files
from umiak.core import node_report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.node_report import NodeReport


def write(directory: str, report: NodeReport, *, mode: int = 0o600, group: int | None = None) -> None:
    """If it can be: a full disk must not stop a job."""
    try:
        path = os.path.join(directory, node_report.FILE)
        private_files.write(path, node_report.text_of(report), mode=mode, group=group)
    except OSError:
        pass


def read(directory: str) -> NodeReport | None:
    """None if there is none."""
    try:
        with open(os.path.join(directory, node_report.FILE), encoding="utf-8") as file:
            return node_report.from_text(file.read())
    except (OSError, UnicodeDecodeError):
        return None


def leave(code: str, words: str, path: str = node_report.LAST_WORDS_FILE) -> None:
    """Last words for the status of this pod, if this is one: in a file that is there and empty.
    What a program has written stays.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_size == 0:
                os.write(descriptor, node_report.last_words(code, words).encode())
        finally:
            os.close(descriptor)
    except OSError:
        pass
