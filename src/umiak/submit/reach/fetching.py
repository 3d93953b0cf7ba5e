"""Brings the files of a run here: lists them on all nodes, decides, then copies from several nodes at once. A program.

    fetch = Fetch(backend, handle, "ctr-3f2a9c", paths=("output",))
    with fetch:
        found = fetch.look()                 what there is; UmiakError if a node can't be asked
        result = fetch.bring(tell)           what has become of each

Nothing is written before everything is known that stands in the way.
A node that is lost keeps no other from being copied.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.shown import one_line
from umiak.core.value import replace, value
from umiak.submit.node.session_frames import is_wanted
from umiak.submit.reach import fetch_plan
from umiak.submit.reach.fetch_files import FetchTarget
from umiak.submit.reach.fetch_plan import FetchVerdict
from umiak.submit.reach.nodes import no_such_node
from umiak.submit.reach.session import ChangedFile, NodeSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from umiak.core.job import Handle
    from umiak.submit.backend import NodeAccess, RunFileRoots
    from umiak.submit.reach.fetch_plan import NodeFile, NodeListing

    MessageToMaster: TypeAlias = Callable[[int, int], None]

AT_ONCE = 8
"""Nodes that are copied from at the same time."""
MOST_NAMED = 20
"""Of what is left out, on each node."""
TRIES = 3
"""For a file that is changed while it is read."""


@value
class FoundFile:
    """One file of one node."""

    node: str
    file: NodeFile
    verdict: FetchVerdict
    waiting_bytes: int = 0
    """Here already, from a fetch that was broken off."""

    @property
    def path(self) -> str:
        """Below the directory into which it is put."""
        return f"{self.node}/{self.file.path}"


@value
class RunListing:
    """What a run has."""

    files: tuple[FoundFile, ...]
    left_out: Mapping[str, tuple[tuple[str, ...], int]]
    """By reason: the first of them, and how many there are."""
    problems: tuple[Problem, ...] = ()
    """Of nodes that can't be asked, and of paths that are not taken."""

    @property
    def size_bytes(self) -> int:
        return sum(each.file.size_bytes for each in self.files)

    @property
    def wanted(self) -> tuple[FoundFile, ...]:
        """Those that are not here yet."""
        return tuple(each for each in self.files if each.verdict is not FetchVerdict.UNCHANGED)


@value
class FetchResult:
    """What has become of all."""

    done: tuple[FoundFile, ...]
    problems: tuple[Problem, ...] = ()
    bytes_copied: int = 0


class Fetch:
    """One fetch of one run."""

    def __init__(
        self,
        backend: NodeAccess,
        handle: Handle,
        directory: str,
        *,
        paths: Sequence[str] = (),
        node: str = "",
        overwrites: bool = False,
    ) -> None:
        self._paths = tuple(each.removesuffix("/") for each in paths)
        UmiakError.raise_any(fetch_plan.bad_patterns(self._paths))
        self._backend, self._handle, self._node, self._overwrites = backend, handle, node, overwrites
        self.target = FetchTarget(directory)
        self._sessions: dict[str, NodeSession] = {}
        self._found: RunListing | None = None
        self._lock = threading.Lock()
        self._is_over = False
        self._bytes = self._files_done = 0

    def __enter__(self) -> Fetch:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        for session in self._sessions.values():
            session.close()
        self.target.close()

    # ---- what there is

    def look(self) -> RunListing:
        """The files of all nodes, and what would become of each."""
        roots = self._chosen(self._backend.files(self._handle))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(self._listed, roots))
        files: list[FoundFile] = []
        problems: list[Problem] = []
        left_out: dict[str, tuple[tuple[str, ...], int]] = {}
        for root, answer in zip(roots, answers, strict=True):
            if isinstance(answer, UmiakError):
                problems += answer.problems
                continue
            inside, outward = fetch_plan.inside_links(answer.files)
            good, bad = fetch_plan.safe_files(root.name, inside)
            problems += bad
            files += [self._judged(root.name, each) for each in good]
            counts = {**answer.counts, "links": len(outward)}
            for why, count in counts.items():
                before, number = left_out.get(why, ((), 0))
                names = tuple(outward[:MOST_NAMED]) if why == "links" else answer.left_out.get(why, ())
                shown = names if why == "in_place" else tuple(f"{root.name}/{each}" for each in names)
                left_out[why] = (*before, *shown), number + count
        if roots and len(problems) and all(isinstance(each, UmiakError) for each in answers):
            raise UmiakError(*problems, exit_status=Exit.REFUSED)
        missing = [path for path in self._paths if not any(is_wanted(each.file.path, (path,)) for each in files)]
        if missing and not problems:
            raise UmiakError(*fetch_plan.nothing_found(missing, str(self._handle)))
        self._found = RunListing(files=tuple(files), left_out=left_out, problems=tuple(problems))
        return self._found

    def _chosen(self, roots: Sequence[RunFileRoots]) -> Sequence[RunFileRoots]:
        """Those of the node that was asked for. What all nodes share is its own as well, save the parts of others."""
        if not self._node:
            return roots
        of_node = [each for each in roots if fetch_plan.is_of_node(each, self._node)]
        if not of_node:
            raise no_such_node(self._node, [name for each in roots for name in fetch_plan.names_of(each)])
        return of_node

    def _listed(self, roots: RunFileRoots) -> NodeListing | UmiakError:
        try:
            session = NodeSession(roots.name, self._backend.open(roots.node))
            with self._lock:
                self._sessions[roots.name] = session
            found = session.listing(roots, self._paths)
            if not self._node:
                return found
            return replace(found, files=fetch_plan.files_of_node(roots, self._node, found.files))
        except UmiakError as error:
            return error

    def _judged(self, node: str, file: NodeFile) -> FoundFile:
        path = f"{node}/{file.path}"
        verdict = fetch_plan.verdict_of(file, self.target.seen(path), self.target.fetched(path))
        waiting = 0 if verdict is FetchVerdict.UNCHANGED else self.target.waiting_bytes(path, file)
        return FoundFile(node=node, file=file, verdict=verdict, waiting_bytes=waiting)

    # ---- bringing it

    def bring(self, tell: MessageToMaster = lambda _, __: None) -> FetchResult:
        """Copy what is not here. ``tell``: bytes and files so far, called by several threads.
        UmiakError if files here would be lost.
        """
        listing = self._found or self.look()
        conflicts = [each for each in listing.files if each.verdict is FetchVerdict.CONFLICT]
        if conflicts and not self._overwrites:
            raise UmiakError(*_conflicts(conflicts, self.target.path))
        if others := [each for each in conflicts if (here := self.target.seen(each.path)) and here.is_other]:
            raise UmiakError(*_conflicts(others, self.target.path, is_file=False))
        wanted = listing.wanted
        self.target.check_room(sum(each.file.size_bytes - each.waiting_bytes for each in wanted))
        by_node: dict[str, list[FoundFile]] = {}
        for each in wanted:
            by_node.setdefault(each.node, []).append(each)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            jobs = [pool.submit(self._copy, node, several, tell) for node, several in by_node.items()]
            try:
                results = [job.result() for job in jobs]
            except BaseException:
                self._is_over = True  # the threads stop at their next file or piece
                raise
        done = [each for each in listing.files if each.verdict is FetchVerdict.UNCHANGED]
        problems = list(listing.problems)
        for several, wrong in results:
            done += several
            problems += wrong
        return FetchResult(done=tuple(done), problems=tuple(problems), bytes_copied=self._bytes)

    def _copy(
        self, node: str, files: Sequence[FoundFile], tell: MessageToMaster
    ) -> tuple[list[FoundFile], list[Problem]]:
        """All files of one node."""
        done: list[FoundFile] = []
        problems: list[Problem] = []
        for each in files:
            if self._is_over:
                break
            try:
                why = self._one(self._sessions[node], each, tell)
            except UmiakError as error:
                left = len(files) - len(done)
                problems += [_with_rest(problem, left) for problem in error.problems]
                break
            if why:
                problems.append(_unread(each, why))
                continue
            done.append(each)
            self._count(0, 1, tell)
        return done, problems

    def _one(self, session: NodeSession, found: FoundFile, tell: MessageToMaster) -> str:
        """One file; why it could not be read."""
        if found.file.target is not None:
            self.target.link(found.path, found.file)
            return ""
        why, offset = "", found.waiting_bytes
        for _ in range(TRIES):
            opened = session.open(found.file, offset)
            if isinstance(opened, str):
                return opened
            with self.target.part(found.path, found.file, opened) as part:
                try:
                    for piece in session.pieces(opened):
                        part.write(piece)
                        self._count(len(piece), 0, tell)
                except ChangedFile as error:
                    part.discard()
                    why, offset = str(error), 0
                    continue
                part.finish()
            return ""
        return why

    def _count(self, size: int, files: int, tell: MessageToMaster) -> None:
        if self._is_over:
            raise KeyboardInterrupt
        with self._lock:
            self._bytes += size
            self._files_done += files
            tell(self._bytes, self._files_done)


def _conflicts(files: Sequence[FoundFile], directory: str, *, is_file: bool = True) -> list[Problem]:
    hint = "--overwrite replaces them, --to DIR puts all elsewhere" if is_file else "move it away, or use --to DIR"
    why = "it was changed here, or was not fetched from this run" if is_file else "it is a directory or behind a link"
    problems = [
        Problem(
            code="UM-SUBMIT-396",
            what=f"another file is here: {one_line(each.path, 200)} (in {directory})",
            why=why,
            hint=hint,
        )
        for each in files[:10]
    ]
    if len(files) > len(problems):
        problems.append(
            Problem(code="UM-SUBMIT-396", what=f"{len(files) - len(problems)} more files are here and differ")
        )
    return problems


def _unread(found: FoundFile, why: str) -> Problem:
    return Problem(
        code="UM-SUBMIT-399",
        what=f"not fetched: {one_line(found.path, 200)}",
        why=why,
        hint="the job may be writing it: repeat the command in a while",
    )


def _with_rest(problem: Problem, left: int) -> Problem:
    return replace(problem, what=f"{problem.what}; {left} of its files are missing here")
