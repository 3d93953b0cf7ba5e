"""`paddle.dataset` from files that are there already: where each one belongs is said, and nothing is fetched without a network. An adapter.

Paddle's modules parse the files. They ask one function for each, which downloads it, and tries for as long as it takes where there is no
network; `install` puts `local` in its place. A file with another sum than Paddle knows is used with a warning, if it is this user's:
some of these files are pickles, and the directory may be one that others write to.
"""

from __future__ import annotations

import os
import socket
import sys
import urllib.request
import warnings
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from umiak.adapters import trusted_files
from umiak.core.problem import UmiakError

if TYPE_CHECKING:
    from types import ModuleType

PACKAGE = "paddle.dataset"
MODULES = {"conll05st": "conll05"}
"""Modules that are not called as their folders."""
TIMEOUT_S = 5.0
_NOT_DATA = ("MODEL", "PREFIX", "DEV")
"""Constants of Paddle's modules with these in their names are no addresses of data."""


def install() -> None:
    """Give Paddle's modules `local` in place of their download. Twice is fine."""
    common = sys.modules.get(f"{PACKAGE}.common")
    if common is None or getattr(common.download, "is_local", False):
        return
    theirs = common.download

    def download(url: str, module_name: str, md5sum: str, save_name: str | None = None) -> str:
        return local(common, theirs, url, module_name, md5sum, save_name)

    download.is_local = True  # type: ignore[attr-defined]
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{PACKAGE}.") and getattr(module, "download", None) is theirs:
            module.download = download  # type: ignore[attr-defined]


def local(common: Any, theirs: Any, url: str, module_name: str, md5sum: str, save_name: str | None = None) -> str:
    """The path of a file of a dataset."""
    folder = os.path.join(common.DATA_HOME, module_name)
    name = save_name or url.rpartition("/")[2]
    plain = unquote(name).rpartition("/")[2]
    for path in dict.fromkeys((os.path.join(folder, name), os.path.join(folder, plain))):
        if os.path.isfile(path):
            if common.md5file(path) != md5sum:
                trusted_files.check(path, os.environ, "file of a dataset")
                warnings.warn(
                    f"{path}: not the file that Paddle knows by this name (its MD5 sum is another one)", stacklevel=4
                )
            return path
    if _is_reachable(url):
        path = theirs(url, module_name, md5sum, save_name)
        return str(path)
    raise UmiakError.refused(
        "UM-FLUID-022",
        f"{PACKAGE}.{module_name}: its file is not here: {os.path.join(folder, plain)}",
        why="it can't be fetched: there is no way to its host from this machine",
        hint=_hint(sys.modules.get(f"{PACKAGE}.{MODULES.get(module_name, module_name)}"), folder, url),
    )


def _hint(module: ModuleType | None, folder: str, url: str) -> str:
    """Everything that this dataset may ask for, with its place."""
    known = {
        value
        for name, value in vars(module or object).items()
        if "URL" in name and isinstance(value, str) and not any(word in name for word in _NOT_DATA)
    }
    places = [f"{each} -> {os.path.join(folder, unquote(each).rpartition('/')[2])}" for each in sorted({*known, url})]
    return "put there what these addresses have: " + "; ".join(places)


def _is_reachable(url: str) -> bool:
    """Whether the host, or a proxy, takes a connection."""
    parts = urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not urllib.request.proxy_bypass(parts.hostname or ""):
        parts = urlsplit(proxy if "//" in proxy else f"//{proxy}")
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        with socket.create_connection((parts.hostname or "", port), TIMEOUT_S):
            return True
    except (OSError, ValueError):
        return False
