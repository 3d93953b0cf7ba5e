"""Writes the directories of runs on a file system that this machine shares with all nodes. An adapter.

store = SharedStore("/shared/me/.umiak", "hpc")
store.write(run, submission, directory)     everything that nodes need, before anything is started
"""

from __future__ import annotations

import os

from umiak.adapters import private_files
from umiak.core.bundle import BundleFile
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.submit.backends.shared.store import RunStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.job import FileSet
    from umiak.submit.backend import Submission
    from umiak.submit.backends.shared.layout import SharedRun
    from umiak.submit.payload.launcher_file import LauncherFile


class SharedStore(RunStore):
    """The directory of a place."""

    def problems(self) -> list[Problem]:
        """Why nothing can be written here; none if it can."""
        there = self.root
        while not os.path.lexists(there) and there != os.path.dirname(there):
            there = os.path.dirname(there)
        if os.path.isdir(there) and os.access(there, os.W_OK | os.X_OK):
            return []
        problem = Problem(
            code="UM-SUBMIT-141",
            what=f"place {self._place}: the directory can't be used: {self.root}",
            why=f"you can't write to {there}" if os.path.isdir(there) else f"{there} is no directory",
            hint="name one of your own that all nodes see: `directory =` of the place",
        )
        return [problem]

    def write(self, run: SharedRun, submission: Submission, directory: str, only: str = "") -> None:
        """All files of a run, or those below ``only``. Done again it gives the same, save a new token: what a job has begun with
        it keeps."""
        from umiak.submit.payload import launcher_file

        try:
            self.make_directories(run)
            digest = self._keep_files(submission.job.files, directory) if submission.job.files else ""
            texts = [
                (os.path.relpath(each.path, run.path), each.text, each.mode)
                for each in submission.bundle.files
                if isinstance(each, BundleFile) and each.path.startswith(only)
            ]
            self.put(run, texts, submission.secrets, self._keep_launcher(launcher_file.find()), digest)
        except OSError as error:
            problem = Problem(
                code="UM-SUBMIT-148",
                what=f"place {self._place}: can't be written: {error.filename or run.path}",
                why=error.strerror,
                hint="is there room, and may you write there? `df -h`, `quota`",
            )
            raise UmiakError(problem, exit_status=Exit.REFUSED) from None

    def _keep_launcher(self, built: LauncherFile) -> str:
        import shutil

        kept = f"{self.root}/launchers/{built.sha256}.pyz"
        if not os.path.exists(kept):
            temporary = f"{kept}.{os.urandom(6).hex()}"
            shutil.copyfile(built.path, temporary)
            os.replace(temporary, kept)
        return kept

    def _keep_files(self, files: FileSet, directory: str) -> str:
        """The content hash of a job's files, which are then in this directory."""
        from umiak.submit.payload import file_set, unpack

        found = file_set.collect(files, directory)
        store = f"{self.root}/files"
        digest = found.manifest.digest
        if not os.path.isdir(os.path.join(store, digest)):
            archive = f"{store}/.{digest}.{os.urandom(6).hex()}.tar.gz"
            try:
                file_set.pack(found, archive)
                unpack.unpack(digest, store, archive)
            finally:
                private_files.remove(archive)
        return digest
