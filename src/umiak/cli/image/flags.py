"""The flags of `umiak image`: a table. Values."""

from __future__ import annotations

from umiak.schema.flags import Flag, FlagKind, FlagOrigin
from umiak.submit.images.recipe import CUDNN, PADDLE, REGISTRY, ImageDevice, ImagePlatform

WHAT = "Image"
DOING = "Building"


def _flag(name: str, text: str, metavar: str, **more: object) -> Flag:
    return Flag(name=name, help=text, group=WHAT, origin=FlagOrigin.UMIAK, metavar=metavar, **more)  # type: ignore[arg-type]


_DEVICES = tuple(each.value for each in ImageDevice)
_PLATFORMS = tuple(each.value for each in ImagePlatform)

FLAGS = (
    _flag("device", "Device to compute on.", "|".join(_DEVICES), kind=FlagKind.CHOICE, choices=_DEVICES, default="cpu"),
    _flag("cuda", f"Version of CUDA, with --device cuda: {', '.join(CUDNN)}.", "VERSION"),
    _flag("paddle", "Version of PaddlePaddle; none: leave it out.", "VERSION", default=PADDLE),
    _flag(
        "platform",
        "Platform whose rules for images are followed: user, group and paths.",
        "|".join(_PLATFORMS),
        kind=FlagKind.CHOICE,
        choices=_PLATFORMS,
        default="any",
    ),
    _flag("base", "Begin with this image, and install PaddlePaddle into it.", "IMAGE"),
    _flag("registry", "Registry of Paddle's images.", "HOST", default=REGISTRY),
    _flag("package", "Further packages, as pip takes them, comma-separated.", "NAME,..."),
    _flag("import", "Further modules that the image must have, comma-separated.", "NAME,..."),
    Flag(
        name="tag",
        letter="t",
        help="Build the image under this name. Without it the Dockerfile is printed.",
        group=DOING,
        origin=FlagOrigin.UMIAK,
        metavar="NAME",
    ),
    Flag(
        name="push",
        help="Push it to the registry of its name.",
        group=DOING,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
    Flag(
        name="builder",
        help="Program that builds. Default: docker if it runs, else buildah.",
        group=DOING,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.CHOICE,
        choices=("docker", "buildah"),
        metavar="docker|buildah",
    ),
    Flag(
        name="json",
        help="Print JSON: an object with `dockerfile`, `tag` and `commands`.",
        group=DOING,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
    Flag(
        name="dry_run",
        help="Print the Dockerfile and the commands; run nothing.",
        group=DOING,
        origin=FlagOrigin.UMIAK,
        kind=FlagKind.SWITCH,
        default=False,
    ),
)
