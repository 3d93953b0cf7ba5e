"""A person with a config, a backend.yaml and the stand-in of PaddleCloud."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from testbed.paddlecloud import AK, SK, PaddleCloud
from tests.support.submitting import Desk
from tests.support.train_helpers import PS_CLUSTER

DNN = Path(importlib.util.find_spec("umiak").submodule_search_locations[0]) / "models" / "rank" / "dnn"
DATA = sorted((DNN / "data" / "sample_data" / "train").iterdir())
FS_UGI = "rec,p#w&d-9$x"
"""PaddleRec's templates broke at each of these signs."""

# The document's backend.yaml, key by key.
MPI = f"""\
backend: "PaddleCloud"
cluster_type: mpi # k8s可选

config:
  paddle_version: "1.7.2"
  fs_name: "afs://xxx.com"
  fs_ugi: "{FS_UGI}"
  output_path: "/user/rec/output"
  train_data_path: "/user/rec/train"
  test_data_path: ""
  thirdparty_path: ""

submit:
  ak: "{AK}"
  sk: "{SK}"
  priority: "high"
  job_name: "PaddleRec_CTR"
  group: ""
  start_cmd: "python -m paddlerec.run -m ./config.yaml"
  files: ./*.py ./*.yaml
  nodes: 2
"""

COLLECTIVE = (
    MPI.replace("mpi # k8s可选", "k8s # mpi 可选")
    .replace('  train_data_path: "/user/rec/train"\n  test_data_path: ""\n  thirdparty_path: ""\n', "")
    .replace('output_path: "/user/rec/output"\n', 'output_path: ""\n  afs_remote_mount_point: "/user/rec"\n')
    .replace("  nodes: 2\n", "  k8s_trainers: 2\n  k8s-cpu-cores: 4\n  k8s_gpu_card: 1\n")
)
PS_CPU = COLLECTIVE.replace("  k8s_gpu_card: 1\n", "  k8s_ps_num: 2\n  k8s_ps_cores: 4\n")


class PaddleCloudDesk(Desk):
    """One person with the client."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.cloud = PaddleCloud(directory)
        (self.directory / "train.py").unlink()
        # `python` of a node is the one that runs the tests.
        search = f"{self.cloud.bin}{os.pathsep}{os.path.dirname(sys.executable)}{os.pathsep}{self.environ['PATH']}"
        self.environ |= {"PATH": search, "OMP_NUM_THREADS": "1", "GLOG_minloglevel": "2", "PYTHONWARNINGS": "ignore"}
        self.write("config.yaml", PS_CLUSTER)
        self.write("backend.yaml", MPI)
        shutil.copy(DNN / "model.py", self.directory)

    def write(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text)

    def train(self, *words: str, status: int = 0) -> str:
        """Submit the config; the handle."""
        return self.umiak("train", "-m", "config.yaml", "-b", "backend.yaml", *words, status=status).strip()

    def folders(self) -> list[Path]:
        return sorted(path.parent for path in self.directory.glob("*/job.sh"))


@contextlib.contextmanager
def opened(directory: Path) -> Iterator[PaddleCloudDesk]:
    """A desk for one test; nothing of it is left when that is over."""
    desk = PaddleCloudDesk(directory)
    try:
        yield desk
    finally:
        desk.close()
