"""What an image for jobs is made of, as a Dockerfile, and as the commands that build, push and check it. A decider."""

from __future__ import annotations

import shlex
from enum import Enum

from umiak.core.value import value

REGISTRY = "ccr-2vdh3abv-pub.cnc.bj.baidubce.com"
"""Paddle's own; older versions are in registry.baidubce.com, and there are mirrors."""
PADDLE = "3.3.1"
OLDEST_PYTHON = (3, 10)


class ImageDevice(str, Enum):
    """What the image computes on."""

    CPU = "cpu"
    CUDA = "cuda"
    NPU = "npu"
    XPU = "xpu"
    DCU = "dcu"


class ImagePlatform(str, Enum):
    """Where it runs, if that place asks something of images."""

    ANY = "any"
    MODELARTS = "modelarts"


CUDNN = {"11.8": "8.9", "12.6": "9.5", "12.9": "9.9"}
"""The versions of CUDA that Paddle has images for, with the cuDNN in their names."""
BASES = {
    ImageDevice.CPU: "paddlepaddle/paddle:{paddle}",
    ImageDevice.CUDA: "paddlepaddle/paddle:{paddle}-gpu-cuda{cuda}-cudnn{cudnn}",
    ImageDevice.NPU: "device/paddle-npu:cann800-ubuntu20-npu-910b-base-x86_64-gcc84",
    ImageDevice.XPU: "device/paddle-xpu:ubuntu20-x86_64-gcc84-py310",
    ImageDevice.DCU: "device/paddle-dcu:3.0.0-dtk24.04.1-kylinv10-gcc82-py310",
}
"""Images to begin with. Those of CPU, CUDA and DCU have Paddle in them."""
PACKAGES = {
    ImageDevice.CPU: ("paddlepaddle=={paddle}",),
    ImageDevice.CUDA: ("paddlepaddle-gpu=={paddle}",),
    ImageDevice.NPU: ("paddlepaddle=={paddle}", "paddle-custom-npu", "numpy==1.26.4"),
    ImageDevice.XPU: ("paddlepaddle-xpu=={paddle}",),
    ImageDevice.DCU: ("paddlepaddle-dcu=={paddle}",),
}
"""What is installed where the base has no Paddle.
Wheels that are not on PyPI: the build argument PIP_EXTRA_INDEX_URL.
"""
HAVE_PADDLE = (ImageDevice.CPU, ImageDevice.CUDA, ImageDevice.DCU)
WITHOUT_DRIVER = (ImageDevice.CPU, ImageDevice.CUDA)
"""Devices whose Paddle can be imported where there is no driver, as when an image is built."""


@value
class ImageRecipe:
    """One image."""

    device: ImageDevice = ImageDevice.CPU
    cuda: str = ""
    """``12.6``."""
    paddle: str = PADDLE
    """Empty: no Paddle."""
    platform: ImagePlatform = ImagePlatform.ANY
    base: str = ""
    """Another image to begin with; Paddle is installed into it."""
    registry: str = REGISTRY
    packages: tuple[str, ...] = ()
    """Further ones, as pip takes them."""
    imports: tuple[str, ...] = ()
    """Further modules that must be found."""

    @property
    def is_installed(self) -> bool:
        """Whether pip must bring Paddle."""
        return bool(self.paddle) and (bool(self.base) or self.device not in HAVE_PADDLE)

    @property
    def modules(self) -> tuple[str, ...]:
        """What the image must be able to import."""
        return (*(("paddle",) if self.paddle else ()), *self.imports)


MODELARTS = """\
# ModelArts runs images as this user and group, and finds code and data below these directories.
USER root
RUN (getent group 100 || groupadd --gid 100 ma-group) \\
    && (getent passwd 1000 || useradd --create-home --uid 1000 --gid 100 --shell /bin/bash ma-user) \\
    && mkdir -p /home/ma-user /home/work/user-job-dir /cache \\
    && chown -R 1000:100 /home/ma-user /home/work /cache
ENV HOME=/home/ma-user
USER 1000:100
WORKDIR /home/ma-user
"""


def base(recipe: ImageRecipe) -> str:
    """The image to begin with."""
    if recipe.base:
        return recipe.base
    name = BASES[recipe.device].format(paddle=recipe.paddle, cuda=recipe.cuda, cudnn=CUDNN.get(recipe.cuda, ""))
    return f"{recipe.registry}/{name}" if recipe.registry else name


def render(recipe: ImageRecipe) -> str:
    """The Dockerfile: the same recipe, the same text."""
    parts = [f"FROM {base(recipe)}\n"]
    wanted = [each.format(paddle=recipe.paddle) for each in PACKAGES[recipe.device]] if recipe.is_installed else []
    wanted += recipe.packages
    if wanted:
        parts.append(
            "# Where packages come from: docker build --build-arg PIP_INDEX_URL=... --build-arg PIP_EXTRA_INDEX_URL=...\n"
            "ARG PIP_INDEX_URL\nARG PIP_EXTRA_INDEX_URL\n"
            f"RUN python3 -m pip install --no-cache-dir {shlex.join(wanted)}\n"
        )
    parts.append("ENV PYTHONUNBUFFERED=1\n")
    if recipe.platform is ImagePlatform.MODELARTS:
        parts.append(MODELARTS)
    parts.append(f"# The build ends here if something is missing.\nRUN {shlex.join(check_words(recipe))}\n")
    return "\n".join(parts)


def check_words(recipe: ImageRecipe) -> tuple[str, ...]:
    """What is run inside the image: Python is new enough for umiak's launcher, and modules are there.

    Without a driver some builds can't be imported; then it is only looked whether they are there.
    """
    is_imported = recipe.device in WITHOUT_DRIVER
    version = ", ".join(str(each) for each in OLDEST_PYTHON)
    # Also two modules that the launcher imports, and that minimal Pythons of distributions leave out.
    lines = [f"import ctypes, json, sys; assert sys.version_info >= ({version}), sys.version"]
    if is_imported:
        lines += [f"import {name}" for name in recipe.modules]
    elif recipe.modules:
        lines.append("from importlib.util import find_spec")
        lines += [f"assert find_spec({name!r}), 'no module {name}'" for name in recipe.modules]
    return "python3", "-c", "; ".join(lines)


def commands(recipe: ImageRecipe, tag: str, builder: str, directory: str, *, push: bool) -> tuple[tuple[str, ...], ...]:
    """What builds it, checks it as a container, and pushes it. The Dockerfile is in the directory, alone."""
    build = ("build", "--file", f"{directory}/Dockerfile", "--tag", tag, directory)
    if builder == "docker":
        commands: list[tuple[str, ...]] = [("docker", *build), ("docker", "run", "--rm", tag, *check_words(recipe))]
    else:
        commands = [(builder, *build)]  # its last RUN is the check
    return (*commands, *(((builder, "push", tag),) if push else ()))


def problems(recipe: ImageRecipe) -> list[tuple[str, str]]:
    """What is wrong with a recipe, each with a hint."""
    problems = []
    if recipe.device is ImageDevice.CUDA and not recipe.base and recipe.cuda not in CUDNN:
        problems.append(
            (
                f"--cuda: no image of Paddle for CUDA {recipe.cuda or '(none was said)'}",
                f"one of {', '.join(CUDNN)}; or --base IMAGE",
            )
        )
    if recipe.cuda and recipe.device is not ImageDevice.CUDA:
        problems.append((f"--cuda with --device {recipe.device.value}", "--device cuda"))
    if not recipe.paddle and not recipe.base:
        problems.append(("--paddle none without --base", "name the image to begin with: --base python:3.11"))
    return problems
