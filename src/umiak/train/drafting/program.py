"""Looks at tables and writes a directory with a config for them: `umiak new`. A program."""

from __future__ import annotations

import os
import shutil
import tempfile

from umiak.adapters.stores import storage
from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.data.tables import TextReading, checking
from umiak.train.drafting import guessing, looking, writing
from umiak.train.drafting.guessing import Draft
from umiak.train.drafting.looking import TablesLook

CONFIG = "config.yaml"


@value
class NewRequest:
    """What was asked for."""

    directory: str
    data: str
    label: str | None = None
    command: str = "umiak new"
    column_names: tuple[str, ...] = ()


@value
class NewConfig:
    """What came of it."""

    path: str
    draft: Draft
    seen: TablesLook


def new(asked: NewRequest) -> NewConfig:
    """UmiakError if there is nothing to begin with, or something is there already."""
    if os.path.lexists(asked.directory):
        what = f"there is something already: {asked.directory}"
        raise UmiakError.of("UM-NEW-005", what, hint="choose another name, or move it away: nothing is overwritten")
    names = checking.names_of([asked.data])
    seen = looking.look_at(names, TextReading(names=asked.column_names or None))
    draft = guessing.drafted(seen.columns, asked.label, are_all=seen.rows >= seen.rows_in_all)
    facts = writing.DataFacts(
        named=asked.data,
        path=_from(asked.directory, asked.data),
        rows=seen.rows_in_all,
        looked_at=seen.rows,
        formats=seen.formats,
        command=asked.command,
        directory=asked.directory,
        column_names=asked.column_names,
    )
    path = _write(asked.directory, writing.config(draft, facts))
    return NewConfig(path=path, draft=draft, seen=seen)


def _from(directory: str, data: str) -> str:
    """A path as it is from the config: it begins at the config's directory, wherever `umiak train` is started."""
    if storage.is_url(data) or os.path.isabs(data):
        return data
    return os.path.relpath(data, directory)


def _write(directory: str, text: str) -> str:
    """The directory with its config, at once or not at all."""
    parent = os.path.dirname(os.path.abspath(directory))
    try:
        os.makedirs(parent, exist_ok=True)
        draft = tempfile.mkdtemp(prefix=".umiak-new-", dir=parent)
        try:
            os.chmod(draft, 0o755)  # noqa: S103 - as mkdir does it
            with open(os.path.join(draft, CONFIG), "w", encoding="utf-8") as file:
                file.write(text)
            os.rename(draft, directory)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    except OSError as error:
        what = f"{error.filename or directory}: {error.strerror}"
        raise UmiakError.refused("UM-NEW-005", what, hint="name a directory that can be made") from error
    return os.path.join(directory, CONFIG)
