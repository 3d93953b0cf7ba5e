"""Puts what a run needs into the store of its place: what is known by its content once, secrets for nobody else.
An adapter.
"""

from __future__ import annotations

import json
import os
import tempfile

from umiak.adapters.stores.s3 import S3Store
from umiak.submit.payload import file_set

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.submit.backend import Secrets
    from umiak.submit.backends.cloud.layout import CloudLayout
    from umiak.submit.payload.file_manifest import FoundFiles
    from umiak.submit.payload.launcher_file import LauncherFile


class Uploads:
    """The store of a place."""

    def __init__(self, url: str, environ: Mapping[str, str], *, first_delay_s: float) -> None:
        self._store = S3Store.of(url, environ, first_delay_s=first_delay_s)

    def bring(self, layout: CloudLayout, launcher: LauncherFile, files: FoundFiles | None, secrets: Secrets) -> None:
        """Everything that the containers of a run find."""
        if not self._has(layout.launcher_key):
            self._store.put(launcher.path, layout.launcher_key)
        if files is not None and not self._has(layout.files_key):
            with tempfile.TemporaryDirectory() as temporary:
                archive = os.path.join(temporary, "files.tar.gz")
                file_set.pack(files, archive)
                self._store.put(archive, layout.files_key)
        for key, text in layout.objects:
            self._store.put_bytes(text.encode(), key)
        self._store.put_bytes(json.dumps(dict(secrets)).encode(), layout.secrets_key, is_private=True)

    def remove(self, key: str) -> None:
        self._store.delete(key)

    def _has(self, key: str) -> bool:
        return any(found == key for found, _ in self._store.list(key))
