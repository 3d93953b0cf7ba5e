"""Checkpoints and models behind URLs: kept in a local directory, sent from there and fetched to there. An adapter.

    run, mirrors = mirrored(run)          paths of the run that are URLs become local ones
    mirrors.fetch()                       before a run looks for what is there
    mirrors.send("/tmp/.../3")            after something was saved; its last file is the one that says that it is whole
    mirrors.prune("/tmp/.../")            what is gone here goes there, too

What is saved is written by many: trainers, servers, Paddle. They write files, and one process sends them through fsspec. So all processes that save must see
the local directory: one machine, or a `TMPDIR` that is shared. Weights are unpickled by Paddle, so nobody else can enter it.

A directory of the same name that another machine has sent since is fetched again: beside the copies lies which version of each is here, in the
words of the store (`storage.version_of`).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from umiak.adapters import private_files
from umiak.adapters.stores import storage
from umiak.core.problem import UmiakError
from umiak.core.shown import without_password
from umiak.core.value import replace, value
from umiak.ps import manifest
from umiak.train.plan.plan import Run

LAST = (manifest.FILE_NAME, "signature.json")
"""The files that say that a directory is whole: sent last, removed first."""


@value
class Mirror:
    """A URL and the directory that stands for it here."""

    url: str
    path: str

    def fetch(self) -> None:
        """Everything that is whole there, and nothing else that was here."""
        root = Path(self.path)
        storage.make_private(self.path)
        there = self._whole()
        for old in [path.parent for last in LAST for path in root.rglob(last)]:
            if old.relative_to(root).as_posix() not in there:
                shutil.rmtree(old, ignore_errors=True)
        for name in there:
            version = self._version(name)
            if not version or not _is_whole(root / name) or self._kept_version(name) != [version, _state(root / name)]:
                self._fetch(name, version)

    def send(self, name: str) -> None:
        """A directory of this name, whole: one that is there is replaced."""
        source = Path(self.path, name)
        files = sorted((path for path in source.rglob("*") if path.is_file()), key=lambda path: path.name in LAST)
        with _refusals(self.url):
            system, root = storage.system(self.url)
            self._remove(name)
            for path in files:
                target = f"{root}/{name}/{path.relative_to(source).as_posix()}"
                system.makedirs(target.rpartition("/")[0], exist_ok=True)
                system.put_file(str(path), target)
        self._keep_version(name, self._version(name))

    def prune(self) -> None:
        """Remove there what is not here any more."""
        for name in self._whole():
            if not Path(self.path, name).is_dir():
                with _refusals(self.url):
                    self._remove(name)

    def _whole(self) -> list[str]:
        with _refusals(self.url):
            system, root = storage.system(self.url)
            try:
                files = [str(each) for each in system.find(root)]
            except FileNotFoundError:
                return []
            whole = {file.rpartition("/")[0] for file in files if file.rpartition("/")[2] in LAST}
            beginning = root.strip("/") + "/"
            return sorted(name.strip("/").removeprefix(beginning) for name in whole)

    def _version(self, name: str) -> str:
        """What the store says that tells this directory from a later one of the same name; empty if it says nothing."""
        with _refusals(self.url):
            system, root = storage.system(self.url)
            storage.forget_listings(system)
            found = system.find(f"{root}/{name}", detail=True)
            versions = {path: storage.version_of(info) for path, info in found.items()}
        if not all(versions.values()):
            return ""
        return hashlib.sha256(json.dumps(versions, sort_keys=True).encode()).hexdigest()

    def _kept_version(self, name: str) -> object:
        try:
            return json.loads(self._version_file(name).read_text())
        except (OSError, ValueError):
            return None

    def _keep_version(self, name: str, version: str) -> None:
        file = self._version_file(name)
        storage.make_private(str(file.parent))
        private_files.write(str(file), json.dumps([version, _state(Path(self.path, name))]))

    def _version_file(self, name: str) -> Path:
        return Path(f"{self.path}.versions", hashlib.sha256(name.encode()).hexdigest()[:24])

    def _fetch(self, name: str, version: str) -> None:
        partial = Path(self.path, f"{name}.partial")
        partial.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(partial, ignore_errors=True)
        with _refusals(self.url):
            system, root = storage.system(self.url)
            for file in system.find(f"{root}/{name}"):
                below = str(file).rpartition(f"/{name}/")[2]
                if os.pardir in below.split("/"):
                    raise OSError(f"a name that leads elsewhere: {below}")
                target = partial / below
                target.parent.mkdir(parents=True, exist_ok=True)
                system.get_file(file, str(target))
        target = Path(self.path, name)
        shutil.rmtree(target, ignore_errors=True)
        os.rename(partial, target)
        self._keep_version(name, version)

    def _remove(self, name: str) -> None:
        system, root = storage.system(self.url)
        for last in LAST:
            if system.exists(f"{root}/{name}/{last}"):
                system.rm_file(f"{root}/{name}/{last}")
        if system.exists(f"{root}/{name}"):
            system.rm(f"{root}/{name}", recursive=True)


class Mirrors:
    """All mirrors of a run. Where no path is a URL, nothing happens."""

    def __init__(self, mirrors: tuple[Mirror, ...] = ()) -> None:
        self.all = mirrors

    def fetch(self) -> None:
        for mirror in self.all:
            mirror.fetch()

    def send(self, path: str) -> None:
        """Something was saved at a local path."""
        for mirror in self.all:
            name = os.path.relpath(path, mirror.path)
            if not name.startswith(".."):
                mirror.send(name)

    def prune(self, path: str) -> None:
        """Something was removed below a local path."""
        for mirror in self.all:
            if os.path.abspath(path) == os.path.abspath(mirror.path):
                mirror.prune()

    def spoken(self, path: str) -> str:
        """A local path as a person knows it."""
        for mirror in self.all:
            name = os.path.relpath(path, mirror.path)
            if not name.startswith(".."):
                return f"{without_password(mirror.url).rstrip('/')}/{name}"
        return path


def mirrored(run: Run) -> tuple[Run, Mirrors]:
    """The run with local paths in the place of URLs, and what connects the two."""
    if run.runner.online and run.runner.inference and storage.is_url(run.runner.inference.path):
        what = f"online learning publishes models in a directory, not behind a URL: {without_password(run.runner.inference.path)}"
        raise UmiakError.of("UM-TRAIN-040", what, hint="let save_inference_path be a local or a mounted directory")
    mirrors: dict[str, Mirror] = {}

    def local(path: str) -> str:
        if not storage.is_url(path):
            return path
        mirror = mirrors.setdefault(path, Mirror(url=path, path=_directory(path)))
        return mirror.path

    runner = run.runner
    local_runner = replace(
        runner,
        init_model_path=local(runner.init_model_path) if runner.init_model_path else None,
        checkpoint=replace(runner.checkpoint, path=local(runner.checkpoint.path)) if runner.checkpoint else None,
        step_checkpoint=replace(runner.step_checkpoint, path=local(runner.step_checkpoint.path))
        if runner.step_checkpoint
        else None,
        inference=replace(runner.inference, path=local(runner.inference.path)) if runner.inference else None,
    )
    return replace(run, runner=local_runner), Mirrors(tuple(mirrors.values()))


def default_directory() -> str:
    """Where copies of checkpoints and models lie; each user has a place of their own."""
    return os.path.join(tempfile.gettempdir(), f"umiak-models-{os.getuid()}")


def _directory(url: str) -> str:
    storage.make_private(default_directory())
    digest = hashlib.sha256(url.encode()).hexdigest()[:24]
    return os.path.join(default_directory(), digest)


def _is_whole(path: Path) -> bool:
    return any((path / last).is_file() for last in LAST)


def _state(path: Path) -> list[list[int]]:
    """What is here, so that a later one of the same name that was not sent is not taken for it."""
    seen = [(path / last).stat() for last in LAST if (path / last).is_file()]
    return [[each.st_size, each.st_mtime_ns, each.st_ino] for each in seen]


@contextmanager
def _refusals(url: str) -> Iterator[None]:
    """What a store refuses, said as a problem."""
    try:
        yield
    except UmiakError:
        raise
    except Exception as error:
        what = f"{without_password(url)}: checkpoints can't be kept there"
        raise UmiakError.refused("UM-TRAIN-040", what, why=f"{type(error).__name__}: {error}") from error
