"""What an image is made for: a device, a version of Paddle, a platform. Values.

Nothing of umiak is put into an image: the launcher travels with each job, and needs Python 3.10 or newer.
"""

from __future__ import annotations

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
"""What is installed where the base has no Paddle. Wheels that are not on PyPI: the build argument PIP_EXTRA_INDEX_URL."""
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
