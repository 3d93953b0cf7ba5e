"""Adapter: images without a registry. A base image with Python from Debian's packages, and a place of its own for buildah to keep images in.

    with images.opened() as store:
        store.make_base("localhost/python")
        subprocess.run(["umiak", "image", "--base", "localhost/python", ...], env=store.environ)

Needs root and buildah. The packages are fetched once, by `python -m testbed.prepare`, and kept in the user's cache; nothing of
them is installed, and all images go away on leaving.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from testbed import workspace

TOOLS = {"buildah": "buildah"}
PACKAGES = ("python3", "passwd", "coreutils", "dash", "libc-bin")
"""What the base has, with all that these depend on."""
COMPLETE = "complete"
"""A file beside them, when all are there."""
_WITHOUT = ("perl", "libperl")
_DEPENDS = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")


@functools.cache
def available() -> str | None:
    """Why there can be no images on this machine, or `None` where there can."""
    if os.geteuid() != 0:
        return "images need root"
    for tool in ("buildah", "dpkg-deb"):
        if shutil.which(tool) is None:
            return f"images need the command `{tool}`"
    if not (packages_directory() / COMPLETE).exists():
        return "images need Debian's packages: python -m testbed.prepare"
    return None


def packages_directory() -> Path:
    """Where the packages of the base image are kept."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "umiak-testbed" / "image-packages"


def fetch() -> None:
    """Fetch the packages of the base image, unless they are here. CalledProcessError or OSError if that can't be done."""
    directory = packages_directory()
    if (directory / COMPLETE).exists():
        return
    directory.mkdir(parents=True, exist_ok=True)
    asked = ["apt-cache", "depends", "--recurse", *(f"--no-{each}" for each in _DEPENDS), *PACKAGES]
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    wanted = [line for line in told.splitlines() if line[:1].isalnum() and not line.startswith(_WITHOUT)]
    subprocess.run(["apt-get", "download", *wanted], cwd=directory, capture_output=True, check=True)
    (directory / COMPLETE).touch()


@contextlib.contextmanager
def opened() -> Iterator[ImageStore]:
    """A place for images, as long as this lasts."""
    with workspace.opened("images") as work:
        yield ImageStore(work.path)


class ImageStore:
    """Images that no other program sees."""

    def __init__(self, path: Path) -> None:
        self._path = path
        configuration = path / "storage.conf"
        lines = ["[storage]", 'driver = "vfs"', f'graphroot = "{path}/images"', f'runroot = "{path}/run"', ""]
        configuration.write_text("\n".join(lines), encoding="utf-8")
        self.environ: Mapping[str, str] = {
            "PATH": os.environ["PATH"],
            "HOME": str(path),
            "CONTAINERS_STORAGE_CONF": str(configuration),
            "BUILDAH_ISOLATION": "chroot",
        }

    def make_base(self, name: str) -> None:
        """An image with Python and a shell, from Debian's packages as they are."""
        root = self._path / "root"
        root.mkdir()
        for package in sorted(packages_directory().glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", str(package), str(root)], check=True)
        shutil.rmtree(
            root / "usr" / "share"
        )  # each step of a build copies everything, so leave out what only people read
        if not (root / "bin" / "sh").exists():
            (root / "bin" / "sh").symlink_to("dash")
        for file, text in {"passwd": "root:x:0:0:root:/root:/bin/sh\n", "group": "root:x:0:\n"}.items():
            (root / "etc" / file).write_text(text, encoding="utf-8")
        container = self.buildah("from", "scratch")
        self.buildah("add", "--quiet", container, str(root), "/")
        self.buildah("commit", "--quiet", "--rm", container, name)

    def buildah(self, *words: str) -> str:
        """What it prints."""
        done = subprocess.run(["buildah", *words], env=dict(self.environ), capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"buildah {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout.strip()
