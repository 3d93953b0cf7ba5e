"""Writes the directories of runs on a file system that this machine shares with all nodes. An adapter.

store = SharedStore("/shared/me/.umiak", "hpc")
store.write(run, submission, directory)     everything that nodes need, before anything is started
"""

from __future__ import annotations

import os

from umiak.adapters import private_files
from umiak.core.bundle import BundleFile
from umiak.core.problem import Problem, UmiakError
from umiak.submit.backends.shared import layout
from umiak.submit.backends.shared.store import RunStore
from umiak.submit.node import own_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.bundle import Bundle
    from umiak.core.job import FileSet
    from umiak.submit.backend import Submission, SubmitContext
    from umiak.submit.backends.shared.layout import SharedRun
    from umiak.submit.payload.launcher_file import LauncherFile


class SharedStore(RunStore):
    """The directory of a place."""

    @classmethod
    def of(cls, directory: str, context: SubmitContext, place: str, trusted: tuple[str, ...]) -> SharedStore:
        """The directory as a person writes it: from the home directory, or from the working directory."""
        home = context.environ.get("HOME") or os.path.expanduser("~")
        root = f"{home}{directory[1:]}" if directory.split("/", maxsplit=1)[0] == "~" else directory
        return cls(os.path.normpath(os.path.join(context.directory, root)), place, trusted)

    def problems(self) -> list[Problem]:
        """Why nothing can be written here; none if it can."""
        there = self.root
        while not os.path.lexists(there) and there != os.path.dirname(there):
            there = os.path.dirname(there)
        if os.path.isdir(there) and os.access(there, os.W_OK | os.X_OK):
            try:
                for name in ("launchers", "files", "runs"):
                    own_directory.check(f"{self.root}/{name}", self._trusted, self._prefix)
            except own_directory.NotOwn as error:
                return list(error.problems)
            return []
        problem = Problem(
            code="UM-SUBMIT-141",
            what=f"place {self._place}: the directory can't be used: {self.root}",
            why=f"you can't write to {there}" if os.path.isdir(there) else f"{there} is no directory",
            hint="name one of your own that all nodes see: `directory =` of the place",
        )
        return [problem]

    def write(self, run: SharedRun, submission: Submission, directory: str, only: str = "") -> None:
        """All files of a run, or those below ``only``.
        Done again it gives the same, save a new token: what a job has begun with it keeps.
        """
        from umiak.submit.payload import launcher_file

        try:
            self.make_directories(run)
            digest = self._keep_files(submission.job.files, directory) if submission.job.files else ""
            texts = filled_texts(submission.bundle, run, only)
            self.put(run, texts, submission.secrets, self._keep_launcher(launcher_file.find()), digest)
        except OSError as error:
            raise UmiakError.refused(
                "UM-SUBMIT-148",
                f"place {self._place}: can't be written: {error.filename or run.path}",
                why=error.strerror,
                hint="is there room, and may you write there? `df -h`, `quota`",
            ) from None

    def _keep_launcher(self, built: LauncherFile) -> str:
        """One that was damaged is replaced; `NotOwn` if it is somebody else's."""
        kept = f"{self.root}/launchers/{built.sha256}.pyz"
        own_directory.check(kept, self._trusted, self._prefix)
        if _sha256_of(kept) != built.sha256:
            temporary = f"{kept}.{os.urandom(6).hex()}"
            with open(built.path, "rb") as source, open(temporary, "xb", opener=_private) as target:
                target.write(source.read())
            os.replace(temporary, kept)
        return kept

    def _keep_files(self, files: FileSet, directory: str) -> str:
        """The content hash of a job's files, which are then in this directory."""
        from umiak.submit.payload import file_set, unpack

        collected = file_set.collect(files, directory)
        store = f"{self.root}/files"
        digest = collected.manifest.digest
        if not os.path.isdir(self.kept(digest)):
            archive = f"{store}/.{digest}.{os.urandom(6).hex()}.tar.gz"
            try:
                file_set.pack(collected, archive)
                unpack.unpack(digest, store, archive)
            finally:
                private_files.remove(archive)
        return digest


def filled_texts(bundle: Bundle, run: SharedRun, only: str = "") -> list[tuple[str, str, int]]:
    """Names, texts and modes of the files of a run,
    or of those below ``only``, with what is known when they are sent.
    """
    from umiak.submit.payload import check_text

    check = check_text.command()
    return [
        (os.path.relpath(each.path, run.path), each.text.replace(layout.CHECK, check), each.mode)
        for each in bundle.files
        if isinstance(each, BundleFile) and each.path.startswith(only)
    ]


def _sha256_of(path: str) -> str:
    """Empty: it can't be read."""
    import hashlib

    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, private_files.PRIVATE_FILE)
