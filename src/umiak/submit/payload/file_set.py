"""The files of a job, found in a directory and packed into one archive. An adapter.

    found = collect(FileSet(root="."), directory)
    found.manifest.digest
    pack(found, "/tmp/files.tar.gz")

Without patterns it is what git would take: everything that no .gitignore leaves out, and what is tracked all the same.
With `include` it is what those patterns name, whatever a .gitignore says. What a .umiakignore names is never sent, and
files that look like secrets only if somebody says so. The archive has the same bytes for the same files.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
import subprocess
import tarfile

from umiak.core.problem import Problem, UmiakError
from umiak.core.shown import one_line, size_text
from umiak.submit.payload import ignore_rules, secret_files
from umiak.submit.payload.file_manifest import (
    FileKind,
    FileManifest,
    FoundFiles,
    SentFile,
    as_bytes,
    is_target_inside,
    link,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from umiak.core.job import FileSet
    from umiak.submit.payload.ignore_rules import IgnoreRule

MOST_BYTES = 512 * 1024 * 1024
MOST_FILES = 50_000
NAMED = 5
"""How many files a message names."""
IGNORE_FILE = ".umiakignore"
"""In the root: patterns of files that are never sent, tracked by git or not."""


def collect(
    files: FileSet, directory: str, *, most_bytes: int = MOST_BYTES, most_files: int = MOST_FILES
) -> FoundFiles:
    """Find and hash the files of a set, whose root is seen from ``directory``.
    UmiakError has everything that is wrong.
    """
    root = os.path.join(directory, files.root)
    if not os.path.isdir(root):
        hint = "`files:` names a directory, seen from the directory of job.yaml"
        raise UmiakError.of("UM-SUBMIT-053", f"no such directory: {one_line(root)}", hint=hint)
    real_root = os.path.realpath(root)
    paths = sorted(_paths(files, real_root), key=as_bytes)
    _check_amount(real_root, paths, most_bytes, most_files)
    secrets: dict[str, str] = {}
    looked = [_look_at(real_root, path, secrets) for path in paths]
    files_to_send = tuple(each for each in looked if isinstance(each, SentFile))
    problems = [each for each in looked if isinstance(each, Problem)]
    secrets = {path: why for path, why in secrets.items() if not secret_files.is_named_by(files.include, path)}
    if secrets and not files.allow_secret_files:
        problems.append(secret_files.problem(secrets))
    UmiakError.raise_any(problems)
    return FoundFiles(root=real_root, manifest=FileManifest(files=files_to_send))


def pack(found: FoundFiles, target: str) -> None:
    """Write the archive: all of it or nothing. A file that has changed since it was hashed is an error."""
    temporary = f"{target}.{os.getpid()}.tmp"
    try:
        with (
            open(temporary, "wb") as file,
            gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for each in found.manifest.files:
                _add(archive, found.root, each)
        os.replace(temporary, target)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


# ---- finding


def _paths(files: FileSet, root: str) -> set[str]:
    excluded = ignore_rules.parse(_text_of(os.path.join(root, IGNORE_FILE)), "") + ignore_rules.globs(files.exclude)
    if files.include:
        included = ignore_rules.globs(files.include)
        return {path for path in _walk(root, excluded, None) if _is_named(included, path)}
    paths = set(_walk(root, excluded, _outer_rules(root)))
    return paths | {path for path in _tracked_though_ignored(root) if not _is_named(excluded, path)}


def _walk(root: str, excluded: list[IgnoreRule], rules: list[IgnoreRule] | None, below: str = "") -> Iterator[str]:
    """All files and links below a directory, as paths from the root.
    ``rules``: those of .gitignore files; None: don't look.
    """
    if rules is not None:
        rules = [*rules, *ignore_rules.parse(_text_of(os.path.join(root, below, ".gitignore")), below)]
    with os.scandir(os.path.join(root, below)) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            path = below + entry.name
            is_directory = entry.is_dir(follow_symlinks=False)
            if entry.name == ".git" or ignore_rules.is_ignored(excluded, path, is_directory=is_directory):
                continue
            if rules is not None and ignore_rules.is_ignored(rules, path, is_directory=is_directory):
                continue
            if is_directory:
                yield from _walk(root, excluded, rules, f"{path}/")
            elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                yield path


def _is_named(rules: list[IgnoreRule], path: str) -> bool:
    """Whether a pattern names a file, or a directory above it."""
    parts = path.split("/")
    above = ("/".join(parts[:count]) for count in range(1, len(parts)))
    return any(ignore_rules.is_ignored(rules, each, is_directory=True) for each in above) or ignore_rules.is_ignored(
        rules, path, is_directory=False
    )


def _outer_rules(root: str) -> list[IgnoreRule]:
    """What git reads besides the .gitignore files below:
    the user's own file, the repository's, those of directories above.
    """
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    own = _text_of(os.path.join(home, "git", "ignore"))
    top = root
    while not os.path.exists(os.path.join(top, ".git")):
        if top == os.path.dirname(top):
            return ignore_rules.parse(own, "")  # in no repository
        top = os.path.dirname(top)
    parts = root.removeprefix(top).strip("/").split("/") if root != top else []
    way = "".join(f"{part}/" for part in parts)
    rules = ignore_rules.parse(own, "", way)
    rules += ignore_rules.parse(_text_of(os.path.join(top, ".git", "info", "exclude")), "", way)
    for count in range(len(parts)):
        text = _text_of(os.path.join(top, *parts[:count], ".gitignore"))
        rules += ignore_rules.parse(text, "", "".join(f"{part}/" for part in parts[count:]))
    return rules


def _tracked_though_ignored(root: str) -> list[str]:
    """Git has files that were added in spite of a .gitignore. Without git, or outside of a repository: none."""
    words = ["git", "-c", "core.fsmonitor=false", "ls-files", "-z", "--cached", "--ignored", "--exclude-standard"]
    try:
        asked = subprocess.run(words, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    names = [os.fsdecode(name) for name in asked.stdout.split(b"\0") if name]
    return [name for name in names if _is_there(os.path.join(root, name))]


def _is_there(full: str) -> bool:
    """Whether there is a file or a link of this name, and no link on the way to it."""
    directory = os.path.dirname(full)
    return os.path.realpath(directory) == directory and (os.path.islink(full) or os.path.isfile(full))


# ---- looking at files


def _check_amount(root: str, paths: list[str], most_bytes: int, most_files: int) -> None:
    sizes = {path: os.lstat(os.path.join(root, path)).st_size for path in paths}
    total = sum(sizes.values())
    if total <= most_bytes and len(paths) <= most_files:
        return
    largest = sorted(sizes, key=lambda path: (-sizes[path], path))[:NAMED]
    raise UmiakError.of(
        "UM-SUBMIT-054",
        f"too much to send: {len(paths)} files with {size_text(total)} in {one_line(root)}",
        why=f"the limit is {most_files} files and {size_text(most_bytes)}; the largest are "
        + ", ".join(f"{one_line(path)} ({size_text(sizes[path])})" for path in largest),
        hint="leave files out with .gitignore or `exclude:`; data belongs to `inputs:`",
    )


def _look_at(root: str, path: str, secrets: dict[str, str]) -> SentFile | Problem:
    """What a file is; one that looks like a secret also goes to ``secrets``, with what it seems to hold."""
    full = os.path.join(root, path)
    try:
        seen, head = (_link(root, path), None) if os.path.islink(full) else _file(full, path)
    except OSError as error:
        what = f"a file can't be read: {one_line(path)}"
        hint = f"leave it out, with `exclude: {one_line(path)}` or in .gitignore"
        return Problem(code="UM-SUBMIT-055", what=what, why=error.strerror, hint=hint)
    if why := secret_files.why(path, head):
        secrets[path] = why
    return seen


def _file(full: str, path: str) -> tuple[SentFile, bytes]:
    """A file, and its first bytes."""
    total, size, head = hashlib.sha256(), 0, b""
    with _open(full) as file:
        kind = FileKind.PROGRAM if os.fstat(file.fileno()).st_mode & stat.S_IXUSR else FileKind.FILE
        while block := file.read(1 << 20):
            head = head or block[: secret_files.HEAD_BYTES]
            total.update(block)
            size += len(block)
    return SentFile(path=path, kind=kind, sha256=total.hexdigest(), size_bytes=size), head


def _link(root: str, path: str) -> SentFile | Problem:
    full = os.path.join(root, path)
    target = os.readlink(full)
    leads_to = os.path.realpath(full)
    if leads_to != root and not leads_to.startswith(f"{root}/"):
        return Problem(
            code="UM-SUBMIT-056",
            what=f"a symbolic link leads out of the directory: {one_line(path)} -> {one_line(target)}",
            hint=f"copy what it names, or leave it out: `exclude: {one_line(path)}`",
        )
    if not is_target_inside(path, target):
        # Absolute, or by a detour: the same file, said so that it means the same on a node.
        target = os.path.relpath(leads_to, os.path.dirname(full))
    return link(path, target)


def _open(full: str) -> BinaryIO:
    """A file that is no link, also if somebody makes it one at this moment."""
    return os.fdopen(os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            return file.read()
    except OSError:
        return ""


# ---- packing


def _add(archive: tarfile.TarFile, root: str, each: SentFile) -> None:
    member = tarfile.TarInfo(each.path)
    if each.kind is FileKind.LINK:
        member.type = tarfile.SYMTYPE
        member.linkname = each.target
        member.mode = 0o777
        archive.addfile(member)
        return
    member.mode = 0o755 if each.kind is FileKind.PROGRAM else 0o644
    member.size = each.size_bytes
    try:
        with _open(os.path.join(root, each.path)) as file:
            reader = _Hashing(file)
            archive.addfile(member, reader)  # type: ignore[arg-type]
            is_same = not file.read(1) and reader.total.hexdigest() == each.sha256
    except OSError as error:
        raise _changed(each, error) from error
    if not is_same:
        raise _changed(each, None)


class _Hashing:
    """Reads a file and hashes what was read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.total = hashlib.sha256()

    def read(self, count: int) -> bytes:
        data = self._file.read(count)
        self.total.update(data)
        return data


def _changed(each: SentFile, error: OSError | None) -> UmiakError:
    return UmiakError.refused(
        "UM-SUBMIT-058",
        f"a file has changed while it was packed: {one_line(each.path)}",
        why=str(error) if error else None,
        hint="submit again, or leave it out if a program keeps writing to it",
    )
