"""Writes how the nodes of a run are, beside the driver's log. An adapter.

    trainer.0 {"ray_node": "5d1c..."}
    trainer.0 {"state": "restarting", "host": "10.0.0.2", ...}

Ray's dashboard gives the files of that directory to everybody who may ask for logs, so that the client finds it there.
A line is added for every change; the last one of a node counts.
"""

from __future__ import annotations

import json
import os
import time

from umiak.core import node_report
from umiak.core.node_report import NodeReport
from umiak.core.shown import one_line
from umiak.core.status import State
from umiak.core.value import replace
from umiak.submit.backends.ray import plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.submit.backends.ray.plan import RayRun


class StatusFile:
    """Of one run."""

    def __init__(self, run: RayRun) -> None:
        self._names = [node.name for node in run.nodes]
        self.known: dict[int, NodeReport] = {}
        """By rank: what a node has said last."""
        directory = log_directory()
        self._path = os.path.join(directory, plan.status_file(run.run_id)) if directory else ""

    def heard(self, rank: int, text: str) -> None:
        """A launcher has written something about itself; an empty text says nothing."""
        report = node_report.from_text(text) if text else None
        if report:
            self._put(rank, report)

    def lost(self, rank: int, why: str) -> None:
        """A node is gone, and can't say so."""
        before = self.known.get(rank) or NodeReport(state=State.LOST)
        lost = replace(before, state=State.LOST, reason=one_line(why, 500), changed_s=time.time())
        self._put(rank, lost)

    def placed(self, rank: int, ray_node: str) -> None:
        """Ray's id of the node on which it is: there its files are, also after the end."""
        self._write(rank, f"{json.dumps({plan.PLACE: ray_node})}\n")

    def _put(self, rank: int, report: NodeReport) -> None:
        self.known[rank] = report
        self._write(rank, node_report.text_of(report))

    def _write(self, rank: int, text: str) -> None:
        if not self._path:
            return
        try:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(f"{self._names[rank]} {text}")
        except OSError:
            self._path = ""  # a full disk must not end the job


def log_directory() -> str:
    """Where Ray keeps what this driver prints; empty if that is no file of Ray's."""
    try:
        path = os.readlink("/proc/self/fd/1")
    except OSError:
        return ""
    return os.path.dirname(path) if os.path.basename(path).startswith("job-driver-") else ""
