"""The flags of `umiak image`: a table; and its page. Values."""

from __future__ import annotations

from umiak.cli.shared_flags import DRY_RUN, JSON, flag, shared, switch
from umiak.cli.texts.command_page import CommandPage
from umiak.submit.images.dockerfile import CUDNN, PADDLE, REGISTRY, ImageDevice, ImagePlatform

WHAT = "Image"
DOING = "Building"


_DEVICES = tuple(each.value for each in ImageDevice)
_PLATFORMS = tuple(each.value for each in ImagePlatform)

FLAGS = (
    flag("device", "Device to compute on.", WHAT, choices=_DEVICES, default="cpu"),
    flag("cuda", f"Version of CUDA, with --device cuda: {', '.join(CUDNN)}.", WHAT, metavar="VERSION"),
    flag("paddle", "Version of PaddlePaddle; none: leave it out.", WHAT, metavar="VERSION", default=PADDLE),
    flag(
        "platform",
        "Platform whose rules for images are followed: user, group and paths.",
        WHAT,
        choices=_PLATFORMS,
        default="any",
    ),
    flag("base", "Begin with this image, and install PaddlePaddle into it.", WHAT, metavar="IMAGE"),
    flag("registry", "Registry of Paddle's images.", WHAT, metavar="HOST", default=REGISTRY),
    flag("package", "Further packages, as pip takes them, comma-separated.", WHAT, metavar="NAME,..."),
    flag("import", "Further modules that the image must have, comma-separated.", WHAT, metavar="NAME,..."),
    flag(
        "tag",
        "Build the image under this name. Without it the Dockerfile is printed.",
        DOING,
        letter="t",
        metavar="NAME",
    ),
    switch("push", "Push it to the registry of its name.", DOING),
    flag(
        "builder",
        "Program that builds. Default: docker if it runs, else buildah.",
        DOING,
        choices=("docker", "buildah"),
    ),
    shared(JSON, "Print JSON: an object with `dockerfile`, `tag` and `commands`.", DOING),
    shared(DRY_RUN, "Print the Dockerfile and the commands; run nothing.", DOING),
)

PAGE = CommandPage(
    usage=("umiak image [flags]",),
    about="Make a container image for jobs: print its Dockerfile, or build and push it with docker or buildah. The build fails "
    "if the image can't import what it must. umiak itself travels with each job.",
    examples=(
        ("umiak image --device cuda --cuda 12.6 > Dockerfile", "the Dockerfile alone"),
        ("umiak image --device cuda --cuda 12.6 -t me/ctr:1 --push", "builds, checks, pushes"),
        ("umiak image --platform modelarts -t swr.example.com/me/ctr:1", "user and paths of ModelArts"),
        ("umiak image --base python:3.11 --package pandas -t ctr", "into another image"),
    ),
    flags=FLAGS,
    ending="Exit status: 0 if it worked, 2 for a wrong command line, 3 if the image could not be built or pushed.",
)
