"""Looks for kubeconfigs, and asks the backend of a place. An adapter."""

from __future__ import annotations

import os
import stat

from umiak.doctor.facts import KubeconfigFacts, PlaceFacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.doctor.asked import Asked

KUBECONFIG = "KUBECONFIG"


def kubernetes(asked: Asked, _limit_s: float) -> KubeconfigFacts:
    """The files that Kubernetes' own tools would read, none of them opened."""
    said = asked.environ.get(KUBECONFIG, "")
    home = asked.environ.get("HOME") or os.path.expanduser("~")
    files = [each for each in said.split(os.pathsep) if each] or [os.path.join(home, ".kube", "config")]
    there = [each for each in files if os.path.isfile(each)]
    return KubeconfigFacts(
        said_by=KUBECONFIG if said else "",
        files=tuple(there),
        missing=tuple(each for each in files if each not in there) if said else (),
        unreadable=tuple(each for each in there if not os.access(each, os.R_OK)),
        open_to_others=tuple(each for each in there if os.stat(each).st_mode & (stat.S_IRWXG | stat.S_IRWXO)),
    )


def place(asked: Asked, _limit_s: float) -> PlaceFacts:
    """What the backend says; the command line brings it."""
    return asked.examine_place() if asked.examine_place else PlaceFacts()
