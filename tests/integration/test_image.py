"""`umiak image` with a real buildah: an image for ModelArts is built from Debian's packages, and a job runs in it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import images
from testbed.pytest_support import require
from umiak.submit.payload import launcher_file

BASE = "localhost/python"
SCRIPT = """
import os
print(os.environ["PADDLE_TRAINER_ID"], "of", os.environ["PADDLE_TRAINERS_NUM"], "as", os.getuid(), os.getgid(), os.getcwd())
"""


@pytest.fixture(scope="module")
def store() -> Iterator[images.ImageStore]:
    require(images.available())
    with images.opened() as opened:
        opened.make_base(BASE)
        yield opened


def umiak_image(store: images.ImageStore, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "umiak",
        "image",
        "--builder",
        "buildah",
        "--base",
        BASE,
        "--paddle",
        "none",
        *flags,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=500, env=dict(store.environ))


def test_a_job_runs_in_an_image_that_was_built_here(store: images.ImageStore, tmp_path: Path) -> None:
    done = umiak_image(store, "--platform", "modelarts", "--import", "sqlite3", "--tag", "localhost/ctr:1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "localhost/ctr:1"
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / launcher_file.NAME).write_bytes(launcher_file.build())
    container = store.buildah("from", "localhost/ctr:1")
    for name in ("train.py", launcher_file.NAME):
        store.buildah("copy", "--chown", "1000:100", container, str(tmp_path / name), f"/home/ma-user/{name}")
    flags = ("launch", "--nproc_per_node", "2", "--tee", "all", "--host", "127.0.0.1", "train.py")
    said = store.buildah("run", container, "--", "python3", launcher_file.NAME, *flags)
    for rank in (0, 1):
        assert f"{rank} of 2 as 1000 100 /home/ma-user" in said


def test_an_image_that_misses_a_module_is_not_built(store: images.ImageStore) -> None:
    done = umiak_image(store, "--import", "pandas", "--tag", "localhost/without:1")
    assert done.returncode == 3
    assert "No module named 'pandas'" in done.stderr
    assert "buildah build ended with status 1: localhost/without:1 [UM-IMAGE-003]" in done.stderr
    assert "localhost/without" not in store.buildah("images")
