"""Containers of pods in the simulated cluster of `operator_cluster`: JSON of their specs and statuses, as nodes report them."""

from __future__ import annotations

import re
from typing import Any


def expanded(text: str, before: dict[str, str]) -> str:
    """``$(NAME)`` of variables that stand before, as nodes do it."""
    return re.sub(r"\$\((\w+)\)", lambda match: before.get(match[1], match[0]), text)


def main_of(pod: dict[str, Any]) -> str:
    notes = pod["metadata"].get("annotations") or {}  # pods of the old operator have none of ours
    return str(notes.get("batch.paddlepaddle.org/main-container") or pod["spec"]["containers"][0]["name"])


def sidecars_of(pod: dict[str, Any]) -> list[str]:
    return [each["name"] for each in pod["spec"]["containers"] if each["name"] != main_of(pod)]


def with_sidecars(pod: dict[str, Any], row: dict[str, Any]) -> list[dict[str, Any]]:
    """In the order of names, as nodes report them."""
    rows = [row, *({"name": name, "state": {"running": {}}} for name in sidecars_of(pod))]
    return sorted(rows, key=lambda each: str(each["name"]))


def host_ports(pod: dict[str, Any]) -> set[int]:
    containers = pod.get("spec", {}).get("containers") or ()
    return {port["hostPort"] for each in containers for port in each.get("ports") or () if "hostPort" in port}


def break_sidecars(pod: dict[str, Any], code: int, at: str) -> None:
    """The ordinary sidecars of a pod that runs end with an error."""
    names, ended = sidecars_of(pod), {"exitCode": code, "reason": "Error", "finishedAt": at}
    is_again = pod["spec"]["restartPolicy"] != "Never"
    state = {"state": {"running": {}}, "lastState": {"terminated": ended}, "restartCount": 9}
    broken = {each: {"name": each, **(state if is_again else {"state": {"terminated": ended}})} for each in names}
    rows = {row["name"]: row for row in pod["status"].get("containerStatuses") or ()}
    rows = {main_of(pod): {"name": main_of(pod), "state": {"running": {}}}, **rows, **broken}
    pod["status"]["containerStatuses"] = [rows[each] for each in sorted(rows)]
    if names and all("terminated" in row["state"] for row in rows.values()):
        pod["status"]["phase"] = "Failed"


def break_init(pod: dict[str, Any], code: int, at: str) -> None:
    """The init containers of a pod that has not started end with an error; it is started again in its pod, or not at all."""
    names = [each["name"] for each in pod["spec"].get("initContainers") or () if "restartPolicy" not in each]
    ended = {"exitCode": code, "reason": "Error", "finishedAt": at}
    is_again = pod["spec"]["restartPolicy"] != "Never"
    before = {row["name"]: row for row in pod["status"].get("initContainerStatuses") or ()}
    rows = []
    for each in names:
        times = before.get(each, {}).get("restartCount", 0) + is_again
        state = {"waiting": {"reason": "CrashLoopBackOff"}} if is_again else {"terminated": ended}
        rows.append({"name": each, "state": state, "lastState": {"terminated": ended}, "restartCount": times})
    pod["status"]["initContainerStatuses"] = rows
    waits = {"name": main_of(pod), "state": {"waiting": {"reason": "PodInitializing"}}}
    pod["status"]["containerStatuses"] = [waits]
    if names and not is_again:
        pod["status"]["phase"] = "Failed"
