"""Ways to start a training in pods of a real cluster: each forms one job of the right size, or the reason why not is told.

Each pair of two factors is tried here; `make matrix` tries all 96.
"""

from __future__ import annotations

import pytest

from testbed.kubernetes.cluster import Cluster
from tests.support import effort, launcher_matrix
from tests.support.launcher_matrix import Cell, Outcome

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.etcd,
    pytest.mark.paddle,
    pytest.mark.timeout(3000),
    pytest.mark.xdist_group("kubernetes"),
]
CELLS = list(launcher_matrix.CELLS) if effort.MATRIX else launcher_matrix.covering()


@pytest.fixture(scope="module")
def outcomes(kube_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[Cell, tuple[Outcome, str]]:
    shared = tmp_path_factory.mktemp("matrix")
    return {cell: (found, story) for cell, found, story in launcher_matrix.run(kube_cluster, CELLS, shared)}


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_a_way_to_start_a_training(cell: Cell, outcomes: dict[Cell, tuple[Outcome, str]]) -> None:
    found, story = outcomes[cell]
    assert found == launcher_matrix.EXPECTED[cell[:3]], story
