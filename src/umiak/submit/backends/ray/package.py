"""Packs what travels to a Ray cluster into the zip files that its dashboard takes, named by their content.
An adapter.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile

from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.submit.backends.ray.checks import MOST_PACKAGE_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.submit.payload.file_manifest import FoundFiles

LONG_AGO = (1980, 1, 1, 0, 0, 0)


@value
class Package:
    """One zip file."""

    name: str
    data: bytes


def pack(files: Mapping[str, bytes]) -> Package:
    """The same files give the same bytes, and so the same name."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(files):
            member = zipfile.ZipInfo(path, LONG_AGO)
            member.external_attr = 0o644 << 16
            archive.writestr(member, files[path])
    data = buffer.getvalue()
    return Package(name=f"_umiak_{hashlib.sha256(data).hexdigest()[:32]}.zip", data=data)


def pack_files(found: FoundFiles, archive: str) -> Package:
    """The job's files. UmiakError if Ray would refuse them."""
    import tempfile

    from umiak.submit.payload import file_set

    with tempfile.TemporaryDirectory(prefix="umiak-") as directory:
        path = os.path.join(directory, "files.tar.gz")
        file_set.pack(found, path)
        size = os.path.getsize(path)
        if size > MOST_PACKAGE_BYTES - (1 << 16):
            raise UmiakError.of(
                "UM-SUBMIT-327",
                f"too much to send to Ray: {size >> 20} MiB after compression, from {found.root}",
                why=f"its dashboard takes {MOST_PACKAGE_BYTES >> 20} MiB at once",
                hint="leave files out with .gitignore or `exclude:`; data belongs to `inputs:`",
            )
        with open(path, "rb") as file:
            return pack({archive: file.read()})
