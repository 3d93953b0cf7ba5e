"""Program: a registry of images that has an image for every name that a manifest can say.

    python -m testbed.kubernetes.registry DIRECTORY ADDRESS PORT PAUSE

All images have one layer with the folders and symbolic links that a small Linux has, made here from the real machine's; its programs, the
interpreter, Paddle and umiak come in through read-only mounts of every container (`mounts`). `DIRECTORY/images.json` can give an image
a configuration of its own: its entry point, its command, its user. A name that contains `missing` is not there. `PAUSE` is the program
that holds a pod's namespaces; its container gets no mounts.
"""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import os
import re
import socket
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

ROOT = Path(__file__).resolve().parents[2]
PAUSE = "testbed.local/pause:1"
"""The image of the container that holds a pod's namespaces."""
MISSING = "missing"
CONFIGURATIONS = "images.json"
_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
_COPIED = ("etc/ld.so.cache", "etc/nsswitch.conf", "etc/services", "etc/protocols", "etc/mime.types")
_FOLDERS = {"tmp": 0o1777, "var/tmp": 0o1777, "root": 0o755, "home": 0o755, "run": 0o755, "etc": 0o755, "mnt": 0o755}
_USERS = "root:x:0:0:root:/root:/bin/sh\nnonroot:x:65532:65532:nonroot:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n"
_GROUPS = "root:x:0:\nnonroot:x:65532:\nnogroup:x:65534:\n"
_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"
_LAYER = "application/vnd.docker.image.rootfs.diff.tar"


def mounts() -> list[dict[str, object]]:
    """The read-only mounts of every container, as the OCI's runtime specification writes them."""
    system = [Path("/", name) for name in _SYSTEM if Path("/", name).is_dir() and not Path("/", name).is_symlink()]
    folders = [*system, Path("/etc/alternatives"), Path("/etc/ssl"), Path(sys.base_prefix), Path(sys.prefix), ROOT]
    chosen: list[Path] = []
    for folder in sorted({each.resolve() for each in folders if each.exists()}):
        if not any(folder.is_relative_to(other) for other in chosen):
            chosen.append(folder)
    return [
        {"destination": str(folder), "type": "bind", "source": str(folder), "options": ["rbind", "ro"]}
        for folder in chosen
    ]


def normal_name(image: str) -> str:
    """An image's name with everything that may be left out: `python` is `docker.io/library/python:latest`."""
    name, _, tag = image.rpartition(":") if ":" in image.rsplit("/", 1)[-1] else (image, "", "latest")
    first = name.split("/", 1)[0]
    if "/" not in name:
        name = f"docker.io/library/{name}"
    elif not ("." in first or ":" in first or first == "localhost"):
        name = f"docker.io/{name}"
    return f"{name}:{tag}"


class Images:
    """What the registry gives out, by digest; made when it is asked for."""

    def __init__(self, directory: Path, pause: Path) -> None:
        self._configurations = directory / CONFIGURATIONS
        self._layer = _layer(pause.read_bytes())
        self.blobs: dict[str, tuple[str, bytes]] = {}
        self._keep(_LAYER, self._layer)

    def manifest(self, name: str) -> tuple[str, bytes] | None:
        """The manifest of an image, whose other parts can be had from now on."""
        if MISSING in name:
            return None
        digest = _digest(self._layer)
        own = {"Entrypoint": ["/pause"], "Cmd": []} if name == PAUSE else self._read().get(name, {})
        config = {
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine),
            "os": "linux",
            "rootfs": {"type": "layers", "diff_ids": [digest]},
            "config": {"Env": _ENVIRONMENT, "Cmd": ["sleep", "infinity"], "WorkingDir": "/", **own},
        }
        content = json.dumps(config).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": {"mediaType": _CONFIG, "size": len(content), "digest": self._keep(_CONFIG, content)},
            "layers": [{"mediaType": _LAYER, "size": len(self._layer), "digest": digest}],
        }
        made = json.dumps(manifest).encode()
        self._keep(_MANIFEST, made)
        return _MANIFEST, made

    def _keep(self, kind: str, content: bytes) -> str:
        digest = _digest(content)
        self.blobs[digest] = kind, content
        return digest

    def _read(self) -> Mapping[str, Any]:
        try:
            found = json.loads(self._configurations.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        assert isinstance(found, dict)
        return found


_PATH = [str(Path(sys.prefix) / "bin"), "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
_ENVIRONMENT = [f"PATH={':'.join(_PATH)}", "PYTHONDONTWRITEBYTECODE=1"]


def _layer(pause: bytes) -> bytes:
    files = {"pause": pause, "etc/passwd": _USERS.encode(), "etc/group": _GROUPS.encode()}
    for name in _COPIED:
        if Path("/", name).is_file():
            files[name] = Path("/", name).read_bytes()
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w") as archive:
        for folder, mode in sorted(_FOLDERS.items()):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            archive.addfile(entry)
        for name in _SYSTEM:
            if Path("/", name).is_symlink():
                entry = tarfile.TarInfo(name)
                entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(Path("/", name))
                archive.addfile(entry)
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755 if name == "pause" else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return output.getvalue()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    images: Images

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if asked.path == "/v2/":
            return self._answer(200, "application/json", b"{}")
        parts = re.fullmatch(r"/v2/(.+)/(manifests|blobs)/([^/]+)", asked.path)
        if parts is None:
            return self._answer(404, "application/json", b"{}")
        name, kind, reference = parts.groups()
        found = self.images.blobs.get(reference)
        if found is None and kind == "manifests" and not reference.startswith("sha256:"):
            registry = parse_qs(asked.query).get("ns", [""])[0]
            found = self.images.manifest(f"{registry}/{name}:{reference}")
        if found is None:
            return self._answer(404, "application/json", b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}')
        return self._answer(200, *found)

    do_HEAD = do_GET  # noqa: N815 - as http.server calls it

    def _answer(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Docker-Content-Digest", _digest(content))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


class _Server(http.server.ThreadingHTTPServer):
    def server_bind(self) -> None:
        """Without the look for this machine's name that Python's own does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])


def main(directory: str, address: str, port: str, pause: str) -> None:
    """Serve until killed."""
    _Handler.images = Images(Path(directory), Path(pause))
    _Server((address, int(port)), _Handler).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
