"""Writes and reads the directories of runs on a shared file system. An adapter.

    store = SharedStore("/shared/me/.umiak", "hpc")
    store.write(run, submission, directory)     everything that nodes need, before anything is started
    store.end(run), store.info(run), store.runs()

The directory of a run is for its owner alone. Everything in it is there as a whole or not at all: nodes may look at any moment.
"""

from __future__ import annotations

import json
import os

from umiak.adapters import private_files, report_file
from umiak.core.bundle import BundleFile
from umiak.core.decode import Malformed
from umiak.core.names import is_digits
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.value import value
from umiak.submit.backends.shared import layout
from umiak.submit.backends.shared.layout import SharedRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.core.job import FileSet, Handle
    from umiak.core.node_report import NodeReport
    from umiak.submit.backend import Submission
    from umiak.submit.backends.shared.layout import RunInfo


@value
class SharedRunEnd:
    """How job.sh ended."""

    exit_code: int
    ended_s: float


class SharedStore:
    """The directory of a place."""

    def __init__(self, root: str, place: str) -> None:
        self.root = root
        self._place = place

    def run(self, run_id: str) -> SharedRun:
        return SharedRun(root=self.root, run_id=run_id)

    def known(self, handle: Handle) -> SharedRun:
        """The run of a handle; UmiakError if it has no directory here."""
        run = self.run(handle.id)
        if not os.path.exists(run.file(layout.RUN)):
            problem = Problem(
                code="UM-SUBMIT-146",
                what=f"unknown run: {handle}",
                why=f"there is no {run.path}",
                hint=f"does this machine see that directory, and is `directory` of the place {self._place} what it was?",
            )
            raise UmiakError(problem)
        return run

    def runs(self) -> list[str]:
        """The ids of all runs."""
        try:
            return sorted(os.listdir(os.path.join(self.root, "runs")))
        except FileNotFoundError:
            return []

    def problem(self) -> Problem | None:
        """Why nothing can be written here; None if it can."""
        there = self.root
        while not os.path.lexists(there) and there != os.path.dirname(there):
            there = os.path.dirname(there)
        if os.path.isdir(there) and os.access(there, os.W_OK | os.X_OK):
            return None
        return Problem(
            code="UM-SUBMIT-141",
            what=f"place {self._place}: the directory can't be used: {self.root}",
            why=f"you can't write to {there}" if os.path.isdir(there) else f"{there} is no directory",
            hint="name one of your own that all nodes see: `directory =` of the place",
        )

    def write(self, run: SharedRun, submission: Submission, directory: str, only: str = "") -> None:
        """All files of a run, or those below ``only``. Done again it gives the same, save a new token: what a job has begun with
        it keeps."""
        try:
            private_files.make_directory(self.root)
            for path in (f"{self.root}/launchers", f"{self.root}/files", f"{self.root}/runs", run.path, run.logs):
                private_files.make_directory(path)
            self._put_launcher(run)
            if submission.job.files:
                self._put_files(run, submission.job.files, directory)
            # A job that was started before reads these secrets; another token would part its nodes.
            private_files.write_once(run.file(layout.SECRETS), json.dumps(dict(submission.secrets)))
            for file in submission.bundle.files:
                if isinstance(file, BundleFile) and file.path.startswith(only):
                    private_files.write(file.path, file.text)
                    os.chmod(file.path, file.mode)
        except OSError as error:
            problem = Problem(
                code="UM-SUBMIT-148",
                what=f"place {self._place}: can't be written: {error.filename or run.path}",
                why=error.strerror,
                hint="is there room, and may you write there? `df -h`, `quota`",
            )
            raise UmiakError(problem, exit_status=Exit.REFUSED) from None

    def info(self, run: SharedRun) -> RunInfo:
        try:
            with open(run.file(layout.RUN), encoding="utf-8") as file:
                return layout.info_from(file.read())
        except (OSError, Malformed) as error:
            problem = Problem(
                code="UM-SUBMIT-148",
                what=f"place {self._place}: the run's files can't be read: {run.path}",
                why=str(error),
                hint="they are from another version, or were changed: submit the job again",
            )
            raise UmiakError(problem, exit_status=Exit.REFUSED) from None

    def end(self, run: SharedRun) -> SharedRunEnd | None:
        """What job.sh wrote as its last; None before that."""
        words = (self.read(run, layout.END) or "").split()
        if len(words) != 2 or not all(map(str.isdecimal, words)):
            return None
        return SharedRunEnd(exit_code=int(words[0]), ended_s=float(words[1]))

    def reports(self, run: SharedRun) -> dict[int, NodeReport]:
        """What launchers have written about themselves, by the number of the node."""
        try:
            names = [name for name in os.listdir(run.logs) if is_digits(name)]
        except FileNotFoundError:
            return {}
        found = {int(name): report_file.read(os.path.join(run.logs, name)) for name in names}
        return {number: each for number, each in found.items() if each}

    def read(self, run: SharedRun, name: str) -> str | None:
        try:
            with open(run.file(name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return None

    def ask_to_cancel(self, run: SharedRun) -> None:
        """Seen by nodes that begin after the signal was sent."""
        private_files.write(run.file(layout.CANCEL), "")

    def is_cancelled(self, run: SharedRun) -> bool:
        return os.path.exists(run.file(layout.CANCEL))

    def forget_secrets(self, run: SharedRun) -> None:
        private_files.remove(run.file(layout.SECRETS))

    def _put_launcher(self, run: SharedRun) -> None:
        import shutil

        from umiak.submit.payload import launcher_file

        built = launcher_file.find()
        kept = f"{self.root}/launchers/{built.sha256}.pyz"
        if not os.path.exists(kept):
            temporary = f"{kept}.{os.urandom(6).hex()}"
            shutil.copyfile(built.path, temporary)
            os.replace(temporary, kept)
        target = run.file(layout.LAUNCHER)
        if not os.path.lexists(target):
            os.symlink(kept, target)

    def _put_files(self, run: SharedRun, files: FileSet, directory: str) -> None:
        from umiak.submit.payload import file_set, unpack

        if os.path.lexists(run.work):
            return  # by an earlier try: the job may work there already
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
        # Copied beside it and renamed: a job never sees a part.
        temporary = f"{run.work}.{os.urandom(6).hex()}"
        unpack.copy(os.path.join(store, digest), temporary)
        os.rename(temporary, run.work)
