"""What a job is made of on this machine, as one content hash. An adapter.

    content_hash(job, directory)      "9f31..."

Of a job with `files:` these are its files, else the scripts that its commands name.
"""

from __future__ import annotations

import hashlib
import os

from umiak.core.problem import UmiakError
from umiak.core.value import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.job import Job

BLOCK = 1 << 20


def content_hash(job: Job, directory: str) -> str:
    """The same for the same bytes under the same names."""
    if job.files:
        from umiak.submit.payload import file_set

        try:
            # Whether files that look like secrets may be sent is for the place to refuse; here they are only hashed.
            return file_set.collect(replace(job.files, allow_secret_files=True), directory).manifest.digest
        except UmiakError:
            pass  # what is too much to be sent, on a place that sends nothing: the scripts count
        directory = os.path.join(directory, job.files.root)
    total = hashlib.sha256()
    for name in sorted(job.scripts):
        total.update(f"{name}\0{_hash(os.path.join(directory, name))}\0".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def _hash(path: str) -> str:
    total = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while block := file.read(BLOCK):
                total.update(block)
    except OSError:
        return ""  # whether it is missed, the place decides
    return total.hexdigest()
