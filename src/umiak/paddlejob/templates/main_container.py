"""Which container of a pod is the training: the others are sidecars. A decider.

The one called ``paddle``, as Kubeflow wants it, else the first of the template. It decides how its pod ends.
Pods carry its name in an annotation, since what a cluster injects may stand before it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

CONTAINER = "paddle"


def main_index(containers: Sequence[object]) -> int:
    """The number of the main one in a list of containers."""
    for number, each in enumerate(containers):
        if isinstance(each, dict) and each.get("name") == CONTAINER:
            return number
    return 0


def main_name(containers: Sequence[object]) -> str:
    """Its name; empty if there is none."""
    number = main_index(containers)
    container = containers[number] if number < len(containers) else None
    return str(container.get("name") or "") if isinstance(container, dict) else ""
