"""Baidu AIHC (Baige): PyTorchJob variables at the level of nodes, and a mark of its own. A decider.

RANK and WORLD_SIZE count nodes, NPROC_PER_NODE is the number of cards, MASTER_ADDR is ``<job>-master-0``. There is no
list of hosts: launchers find one another at the master. A TensorFlow job has TF_CONFIG instead, which is left to its
own rule.
"""

from __future__ import annotations

from umiak.platforms import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.cluster import Placement
    from umiak.platforms.reading import Reader


def place(reader: Reader) -> Placement | None:
    """A container of an AIHC job."""
    return torch.read(reader, job_id=reader.text("AIHC_JOB_NAME"))
