"""What unit tests share: the launcher file is built once for all of them. Its sources do not change meanwhile, and a build takes 3 seconds of a core."""

from __future__ import annotations

import fcntl
import functools
import os
from collections.abc import Iterator

import pytest

from umiak.submit.payload import launcher_file


@pytest.fixture(scope="session", autouse=True)
def launcher_built_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    own = tmp_path_factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "launcher-file"
    build = launcher_file.build

    @functools.cache
    def build_once() -> bytes:
        with shared.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
            file.seek(0)
            built = file.read() or build()
            if not file.tell():
                file.write(built)
            return built

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launcher_file, "build", build_once)
        yield
