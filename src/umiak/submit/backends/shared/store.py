"""The directories of runs as they are used where they lie. An adapter.

    store = RunStore("/shared/me/.umiak", "hpc")
    store.end(run), store.info(run), store.runs(), store.claimed(run)

The directory of a run is for its owner alone. Everything in it is there as a whole or not at all:
nodes may look at any moment.
"""

from __future__ import annotations

import json
import os

from umiak.adapters import private_files, report_file
from umiak.core.decode import Malformed
from umiak.core.names import is_digits
from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.submit.backends.shared import layout
from umiak.submit.backends.shared.layout import SharedRun
from umiak.submit.node import own_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from umiak.core.job import Handle
    from umiak.core.node_report import NodeReport
    from umiak.submit.backends.shared.layout import RunInfo


@value
class SharedRunEnd:
    """How job.sh ended."""

    exit_code: int
    ended_s: float


def end_of(text: str | None) -> SharedRunEnd | None:
    """From what job.sh wrote as its last."""
    words = (text or "").split()
    if len(words) != 2 or not all(map(str.isdecimal, words)):
        return None
    return SharedRunEnd(exit_code=int(words[0]), ended_s=float(words[1]))


class RunStore:
    """The directory of a place."""

    def __init__(self, root: str, place: str, trusted: Iterable[str] = ()) -> None:
        self.root = root
        self._place = place
        self._trusted = tuple(trusted)
        self._checked: set[str] = set()

    def check(self, run: SharedRun | None = None) -> None:
        """`NotOwn` if others can change the directories of runs, or that of one:
        what lies there is then neither run nor believed.
        """
        path = run.path if run else f"{self.root}/runs"
        if path not in self._checked:
            own_directory.check(path, self._trusted, self._prefix)
            self._checked.add(path)

    @property
    def _prefix(self) -> str:
        return f"place {self._place}: " if self._place else ""

    def run(self, run_id: str) -> SharedRun:
        return SharedRun(root=self.root, run_id=run_id)

    def claims(self) -> dict[str, str]:
        """Of each run the job that it belongs to."""
        return {each: self.claimed(self.run(each)) for each in self.runs()}

    def known(self, handle: Handle) -> SharedRun:
        """The run of a handle; UmiakError if it has no directory here."""
        run = self.run(handle.id)
        self.check(run)
        if not os.path.exists(run.file(layout.RUN)):
            raise UmiakError.of(
                "UM-SUBMIT-146",
                f"unknown run: {handle}",
                why=f"there is no {run.path}",
                hint=f"does this machine see that directory, and is `directory` of the place {self._place} what it was?",
            )
        return run

    def runs(self) -> list[str]:
        """The ids of all runs."""
        self.check()
        try:
            return sorted(os.listdir(os.path.join(self.root, "runs")))
        except FileNotFoundError:
            return []

    # ---- the parts of a run

    def make_directories(self, run: SharedRun | None = None) -> None:
        """Those of all runs, and those of one."""
        for path in (self.root, f"{self.root}/launchers", f"{self.root}/files", f"{self.root}/runs"):
            own_directory.make(path, self._trusted, self._prefix)
        for path in (run.path, run.logs) if run else ():
            own_directory.make(path, self._trusted, self._prefix)

    def put(
        self,
        run: SharedRun,
        texts: Iterable[tuple[str, str, int]],
        secrets: Mapping[str, str],
        launcher: str,
        digest: str,
    ) -> None:
        """All that a run needs. ``texts``: names, texts and modes of scripts and plans; ``launcher``:
        its file in this directory; ``digest``: of the kept files, of which the run gets its own copy.
        """
        if not os.path.lexists(run.file(layout.LAUNCHER)):
            os.symlink(launcher, run.file(layout.LAUNCHER))
        # Of an earlier try, perhaps with another version: what that one has started goes on with it.
        sha256 = os.path.basename(os.readlink(run.file(layout.LAUNCHER))).partition(".")[0]
        if digest and not os.path.lexists(run.work):  # else by an earlier try: the job may work there already
            self._copy(run, digest)
        # A job that was started before reads these secrets; another token would part its nodes.
        private_files.write_once(run.file(layout.SECRETS), json.dumps(dict(secrets)))
        for name, text, mode in texts:
            private_files.write(run.file(name), text.replace(layout.LAUNCHER_SHA256, sha256))
            os.chmod(run.file(name), mode)

    def _copy(self, run: SharedRun, digest: str) -> None:
        """Beside it and renamed: a job never sees a part."""
        from umiak.submit.payload import unpack

        temporary = f"{run.work}.{os.urandom(6).hex()}"
        unpack.copy(self.kept(digest), temporary)
        os.rename(temporary, run.work)

    def kept(self, digest: str) -> str:
        """The directory of a job's files, which need not be there. `NotOwn` if others can change it."""
        path = f"{self.root}/files/{digest}"
        own_directory.check(path, self._trusted, self._prefix)
        return path

    def claimed(self, run: SharedRun) -> str:
        """The job of the place that the run belongs to; empty: none yet."""
        try:
            return os.readlink(run.file(layout.CLAIM))
        except OSError:
            return ""

    def claim(self, run: SharedRun, by: str) -> str:
        """The run belongs to this job, unless it belongs to another one; to which it does."""
        try:
            os.symlink(by, run.file(layout.CLAIM))
        except FileExistsError:
            pass
        return os.readlink(run.file(layout.CLAIM))

    # ---- how it is

    def info(self, run: SharedRun) -> RunInfo:
        self.check(run)
        try:
            with open(run.file(layout.RUN), encoding="utf-8") as file:
                return layout.info_from(file.read())
        except (OSError, Malformed) as error:
            raise UmiakError.refused(
                "UM-SUBMIT-148",
                f"place {self._place}: the run's files can't be read: {run.path}",
                why=str(error),
                hint="they are from another version, or were changed: submit the job again",
            ) from None

    def end(self, run: SharedRun) -> SharedRunEnd | None:
        """What job.sh wrote as its last; None before that."""
        return end_of(self.read(run, layout.END))

    def reports(self, run: SharedRun) -> dict[int, NodeReport]:
        """What launchers have written about themselves, by the number of the node."""
        try:
            names = [name for name in os.listdir(run.logs) if is_digits(name)]
        except FileNotFoundError:
            return {}
        by_node = {int(name): report_file.read(os.path.join(run.logs, name)) for name in names}
        return {number: each for number, each in by_node.items() if each}

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
