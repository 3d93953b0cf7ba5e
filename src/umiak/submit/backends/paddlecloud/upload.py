"""The submission folder on disk: the user's files, and those that umiak makes. An adapter.

All files go into one directory, as the platform wants them.
The settings' own file is copied without its secrets, and no other file may have them.
"""

from __future__ import annotations

import glob
import os
import shutil

from umiak.adapters import private_files
from umiak.contracts.secrets import HIDDEN
from umiak.core.problem import Problem, UmiakError
from umiak.submit.backends.paddlecloud import rendering
from umiak.submit.backends.paddlecloud.settings import AK, SK
from umiak.submit.payload.file_manifest import FileKind, FileManifest, FoundFiles, SentFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.submit.backend import Secrets
    from umiak.submit.backends.paddlecloud.rendering import Folder
    from umiak.submit.backends.paddlecloud.settings import PaddleCloudSettings

MOST_LOOKED_AT = 32 << 20
"""Bytes of a file that is searched for secrets."""


def find(settings: PaddleCloudSettings, directory: str) -> tuple[dict[str, str], list[Problem]]:
    """The files that the patterns name: where each is, by its name in the folder; and what is wrong with them."""
    found: dict[str, str] = {}
    problems = []
    for pattern in settings.submit.files:
        paths = sorted(filter(os.path.isfile, glob.glob(os.path.join(glob.escape(directory), pattern))))
        if not paths:
            hint = "patterns count from the working directory; directories are left out"
            problems.append(
                Problem(code="UM-SUBMIT-228", what=f"submit: files: no file is there: {pattern}", hint=hint)
            )
        for path in paths:
            name = os.path.basename(path)
            if name in rendering.GENERATED:
                what, hint = f"submit: files: umiak makes a file of this name: {path}", "give it another name"
                problems.append(Problem(code="UM-SUBMIT-228", what=what, hint=hint))
            elif os.path.realpath(found.setdefault(name, path)) != os.path.realpath(path):
                what = f"submit: files: two files with one name: {found[name]} and {path}"
                hint = "all files go into one directory: give one of them another name"
                problems.append(Problem(code="UM-SUBMIT-228", what=what, hint=hint))
    return found, [*problems, *_leaks(found, settings, directory), *_secret_files(found, settings, directory)]


def found(settings: PaddleCloudSettings, directory: str) -> FoundFiles:
    """The same files with their sizes, for those who want to see what travels."""
    files = tuple(
        SentFile(path=os.path.relpath(path, directory), kind=FileKind.FILE, sha256="", size_bytes=os.path.getsize(path))
        for path in sorted(find(settings, directory)[0].values())
    )
    return FoundFiles(root=directory, manifest=FileManifest(files=files))


def write(
    folder: Folder,
    files: Mapping[str, str],
    archive: FoundFiles | None,
    secrets: Secrets,
    directory: str,
) -> None:
    """Make the folder. UmiakError if it can't be written."""
    try:
        private_files.make_directory(folder.path)
        texts = {".gitignore": "*\n", rendering.JOB: rendering.job_sh(folder), rendering.END: rendering.END_HOOK}
        texts[rendering.BEFORE] = rendering.before_hook(folder)
        if folder.node_plan:
            texts[rendering.NODE_PLAN] = folder.node_plan
        for name, text in texts.items():
            _write(os.path.join(folder.path, name), text)
        private_files.write(os.path.join(folder.path, rendering.CONFIG), rendering.config_ini(folder, secrets))
        for name, path in files.items():
            target = os.path.join(folder.path, name)
            if _is_source(path, folder.settings, directory):
                _write(target, without_secrets(path, folder.settings))
            else:
                shutil.copy(path, target)
        if folder.node_plan:
            from umiak.submit.payload import launcher_file  # what builds zip files takes its time to import

            shutil.copy(launcher_file.find().path, os.path.join(folder.path, rendering.LAUNCHER))
        if archive is not None:
            from umiak.submit.payload import file_set

            file_set.pack(archive, os.path.join(folder.path, rendering.ARCHIVE))
    except OSError as error:
        raise UmiakError.refused(
            "UM-SUBMIT-235",
            f"the submission folder can't be written: {error.filename or folder.path}",
            why=error.strerror,
            hint="is there room, and may you write there?",
        ) from None


def without_secrets(path: str, settings: PaddleCloudSettings) -> str:
    """The text of the settings' own file, with secrets covered where they stand."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    for place in settings.plain_secrets:
        if 0 < place.line <= len(lines):
            lines[place.line - 1] = f'{lines[place.line - 1][: place.column - 1]}"{HIDDEN}"'
    text = "\n".join(lines) + "\n"
    for secret in _searched(settings):
        text = text.replace(secret, HIDDEN)
    return text


def _leaks(files: Mapping[str, str], settings: PaddleCloudSettings, directory: str) -> list[Problem]:
    """Files with a key in them: nodes, and everybody who sees the job, could read it."""
    secrets = [secret.encode() for secret in _searched(settings)]
    problems = []
    for path in files.values():
        if secrets and not _is_source(path, settings, directory) and _has_one(path, secrets):
            what = f"a file to upload has ak or sk in it: {path}"
            hint = "take the key out of it, or leave the file out of `files`"
            problems.append(Problem(code="UM-SUBMIT-229", what=what, hint=hint))
    return problems


def _secret_files(files: Mapping[str, str], settings: PaddleCloudSettings, directory: str) -> list[Problem]:
    """Files that look like secrets, unless a pattern names that very file: ``./server.pem``, not ``./*``."""
    from umiak.submit.payload import secret_files

    paths = {}
    for path in files.values():
        name = os.path.relpath(path, directory)
        try:
            with open(path, "rb") as file:
                why = secret_files.why(name, file.read(secret_files.HEAD_BYTES))
        except OSError:
            continue  # to copy it will fail, and say why
        if why and not secret_files.is_named_by([each.removeprefix("./") for each in settings.submit.files], name):
            paths[name] = why
    hint = "leave them out of `files`, or name each of them there if the job needs it"
    return [secret_files.problem(paths, hint)] if paths else []


def _has_one(path: str, secrets: Sequence[bytes]) -> bool:
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_LOOKED_AT)
    except OSError:
        return False  # to copy it will fail, and say why
    return any(secret in data for secret in secrets)


def _searched(settings: PaddleCloudSettings) -> list[str]:
    return [text for name, text in settings.secrets.items() if name in (AK, SK) and len(text) >= 8]


def _is_source(path: str, settings: PaddleCloudSettings, directory: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(os.path.join(directory, settings.source))


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
