"""Keeps the report of this launcher in its log directory up to date. An adapter."""

from __future__ import annotations

import os
import time

from umiak.adapters import report_file
from umiak.core.cluster import join_host_port
from umiak.core.names import is_loopback
from umiak.core.value import replace
from umiak.launch.events import Exit
from umiak.launch.node.reporting import NodeReporting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from umiak.launch.events import NodeSetting
    from umiak.launch.node.phases import NodePhase
    from umiak.launch.reports.logfiles import Access


class ReportWriter:
    """Writes whenever something has changed."""

    def __init__(self, directory: str, access: Access, setting: NodeSetting) -> None:
        self._directory = directory
        self._access = access
        host = setting.offer.host
        if not host or is_loopback(host):  # who reads it may be on another machine
            host = os.uname().nodename
        offer = setting.offer
        address = join_host_port(offer.host, offer.link_port) if offer.host and offer.link_port else ""
        self._reporting = NodeReporting(host=host, restarts=setting.terms.restarts_workers, address=address)

    def step(self, phase: NodePhase, event: object, actions: Iterable[object]) -> None:
        """After the machine has taken an event, before its actions are performed."""
        report = self._reporting.step(phase, event, actions)
        if report:
            dated = replace(report, changed_s=time.time())
            report_file.write(self._directory, dated, mode=self._access.mode, group=self._access.group)
        for action in actions:
            if isinstance(action, Exit) and action.status and action.code:
                report_file.leave(action.code, action.words)
