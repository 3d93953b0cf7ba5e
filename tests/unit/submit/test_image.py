"""`umiak image`: Dockerfiles word for word, and what is asked of the program that builds them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import PATIENCE_S
from umiak.cli import main
from umiak.submit.images import dockerfile
from umiak.submit.images.dockerfile import ImageDevice, ImagePlatform, ImageRecipe

CPU = """\
FROM ccr-2vdh3abv-pub.cnc.bj.baidubce.com/paddlepaddle/paddle:3.3.1

ENV PYTHONUNBUFFERED=1

# The build ends here if something is missing.
RUN python3 -c 'import ctypes, json, sys; assert sys.version_info >= (3, 10), sys.version; import paddle'
"""
CUDA_ON_MODELARTS = """\
FROM mirror/paddlepaddle/paddle:3.2.0-gpu-cuda11.8-cudnn8.9

# Where packages come from: docker build --build-arg PIP_INDEX_URL=... --build-arg PIP_EXTRA_INDEX_URL=...
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
RUN python3 -m pip install --no-cache-dir 'pandas>=2' pyyaml

ENV PYTHONUNBUFFERED=1

# ModelArts runs images as this user and group, and finds code and data below these directories.
USER root
RUN (getent group 100 || groupadd --gid 100 ma-group) \\
    && (getent passwd 1000 || useradd --create-home --uid 1000 --gid 100 --shell /bin/bash ma-user) \\
    && mkdir -p /home/ma-user /home/work/user-job-dir /cache \\
    && chown -R 1000:100 /home/ma-user /home/work /cache
ENV HOME=/home/ma-user
USER 1000:100
WORKDIR /home/ma-user

# The build ends here if something is missing.
RUN python3 -c 'import ctypes, json, sys; assert sys.version_info >= (3, 10), sys.version; import paddle; import pandas'
"""
NPU = """\
FROM ccr-2vdh3abv-pub.cnc.bj.baidubce.com/device/paddle-npu:cann800-ubuntu20-npu-910b-base-x86_64-gcc84

# Where packages come from: docker build --build-arg PIP_INDEX_URL=... --build-arg PIP_EXTRA_INDEX_URL=...
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
RUN python3 -m pip install --no-cache-dir paddlepaddle==3.3.1 paddle-custom-npu numpy==1.26.4

ENV PYTHONUNBUFFERED=1

# The build ends here if something is missing.
RUN python3 -c 'import ctypes, json, sys; assert sys.version_info >= (3, 10), sys.version; from importlib.util import find_spec; \
assert find_spec('"'"'paddle'"'"'), '"'"'no module paddle'"'"''
"""


@pytest.mark.parametrize(
    ("recipe", "text"),
    [
        (ImageRecipe(), CPU),
        (
            ImageRecipe(
                device=ImageDevice.CUDA,
                cuda="11.8",
                paddle="3.2.0",
                platform=ImagePlatform.MODELARTS,
                registry="mirror",
                packages=("pandas>=2", "pyyaml"),
                imports=("pandas",),
            ),
            CUDA_ON_MODELARTS,
        ),
        (ImageRecipe(device=ImageDevice.NPU), NPU),
    ],
    ids=["cpu", "cuda-modelarts", "npu"],
)
def test_a_dockerfile(recipe: ImageRecipe, text: str) -> None:
    assert dockerfile.render(recipe) == text


@pytest.mark.parametrize(
    ("flags", "first", "installed"),
    [
        ("--device xpu", "device/paddle-xpu:ubuntu20-x86_64-gcc84-py310", "paddlepaddle-xpu==3.3.1"),
        ("--device dcu", "device/paddle-dcu:3.0.0-dtk24.04.1-kylinv10-gcc82-py310", ""),
        ("--device cuda --cuda 12.9", "paddlepaddle/paddle:3.3.1-gpu-cuda12.9-cudnn9.9", ""),
        ("--base python:3.11", "FROM python:3.11\n", "paddlepaddle==3.3.1"),
        ("--base python:3.11 --device cuda", "FROM python:3.11\n", "paddlepaddle-gpu==3.3.1"),
        ("--base python:3.11 --paddle none", "FROM python:3.11\n", ""),
    ],
)
def test_devices_and_bases(flags: str, first: str, installed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["image", *flags.split()]) == 0
    text = capsys.readouterr().out
    assert first in f"{text.splitlines()[0]}\n"
    assert ("pip install" in text) is bool(installed)
    assert installed in text


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--device", "cuda"], "--cuda: no image of Paddle for CUDA (none was said)"),
        (["--device", "cuda", "--cuda", "10.0"], "--cuda: no image of Paddle for CUDA 10.0"),
        (["--cuda", "12.6"], "--cuda with --device cpu"),
        (["--paddle", "none"], "--paddle none without --base"),
        (["--push"], "--push without --tag"),
        (["--base", "x\nRUN evil"], "not one word"),
        (["--import", "os;evil"], "--import: not a module: os;evil"),
    ],
)
def test_a_wrong_request(flags: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["image", *flags]) == 2
    assert f"{told}" in capsys.readouterr().err


def test_a_dry_run_prints_the_commands_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["image", "--tag", "me/ctr:1", "--push", "--dry_run"]) == 0
    out, err = capsys.readouterr()
    assert out == CPU
    build, run, push = err.splitlines()
    assert build == "docker build --file DIR/Dockerfile --tag me/ctr:1 DIR"
    assert run.startswith("docker run --rm me/ctr:1 python3 -c ")
    assert push == "docker push me/ctr:1"


PROGRAM = """#!{python}
import json, os, sys
with open(os.environ["TOLD"], "a") as file:
    words = sys.argv[1:]
    context = sorted(os.listdir(words[-1])) if words[0] == "build" else []
    file.write(json.dumps([os.path.basename(sys.argv[0]), words[0], context]) + "\\n")
if words[0] == os.environ.get("FAILS"):
    sys.exit("it does not work")
"""


def build(
    tmp_path: Path, *flags: str, programs: tuple[str, ...], **environ: str
) -> tuple[int, str, list[list[object]]]:
    for name in programs:
        (tmp_path / name).write_text(PROGRAM.format(python=sys.executable))
        (tmp_path / name).chmod(0o755)
    told = tmp_path / "told"
    told.touch()
    command = [sys.executable, "-m", "umiak", "image", "--tag", "me/ctr:1", *flags]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={"PATH": str(tmp_path), "TOLD": str(told), **environ},
    )
    return done.returncode, done.stderr, [json.loads(line) for line in told.read_text().splitlines()]


def test_docker_builds_checks_and_pushes(tmp_path: Path) -> None:
    status, _, told = build(tmp_path, "--push", programs=("docker", "buildah"))
    assert status == 0
    steps = [
        ["docker", "version", []],
        ["docker", "build", ["Dockerfile"]],
        ["docker", "run", []],
        ["docker", "push", []],
    ]
    assert told == steps


def test_buildah_builds_where_no_docker_daemon_answers(tmp_path: Path) -> None:
    status, _, told = build(tmp_path, programs=("docker", "buildah"), FAILS="version")
    assert status == 0
    assert told == [["docker", "version", []], ["buildah", "build", ["Dockerfile"]]]


def test_a_failure_says_which_step(tmp_path: Path) -> None:
    status, said, _ = build(tmp_path, "--push", programs=("docker",), FAILS="push")
    assert status == 3
    assert (
        "error: docker push ended with status 1: me/ctr:1 [UM-IMAGE-003]\n  hint: log in first: `docker login me`"
        in said
    )


def test_no_program_that_builds(tmp_path: Path) -> None:
    status, said, _ = build(tmp_path, programs=())
    assert status == 3
    assert (
        "no program that builds images [UM-IMAGE-002]\n  because: docker is not installed; buildah is not installed"
        in said
    )
