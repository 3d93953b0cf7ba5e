"""The command that installs what is missing, for the place that this umiak was installed from. An adapter.

    command("train")    python -m pip install '/home/me/umiak[train]'

umiak and umiak-native are on no index, so `pip install umiak[train]` would find nothing there, or something that is not
ours. pip and uv record where they took a distribution from (PEP 610): a checkout or a wheel's directory. Imported for
hints alone.
"""

from __future__ import annotations

import importlib.metadata
import json
import shlex
from pathlib import Path
from urllib.parse import unquote, urlsplit


def command(extra: str, *packages: str) -> str:
    """How to install umiak with this extra, and packages of others, into the environment that this is running in."""
    more = "".join(f" {package}" for package in packages)
    try:
        umiak = importlib.metadata.distribution("umiak")
        origin = json.loads(umiak.read_text("direct_url.json") or "{}")
    except (importlib.metadata.PackageNotFoundError, OSError, ValueError):
        return f"in umiak's checkout: python -m pip install '.[{extra}]'{more}"
    path = Path(unquote(urlsplit(origin["url"]).path)) if origin.get("url", "").startswith("file:") else None
    if path and "dir_info" in origin and (path / "native" / "Cargo.toml").exists():
        flag = "--editable " if origin["dir_info"].get("editable") else ""
        return f"python -m pip install {flag}{shlex.quote(f'{path}[{extra}]')}{more}"
    wanted = shlex.quote(f"umiak[{extra}]=={umiak.version}") + more
    if path and "archive_info" in origin and list(path.parent.glob("umiak_native-*.whl")):
        return f"python -m pip install --find-links {shlex.quote(str(path.parent))} {wanted}"
    return f"python -m pip install --find-links DIR {wanted}, with DIR the directory of umiak's wheels (`make wheels` makes them)"
