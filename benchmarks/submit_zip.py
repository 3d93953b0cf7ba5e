"""The launcher from its one file: how soon a worker's first line runs, beside the installed launcher and other ways to send it.

The other ways are built from the same sources here: a zip of sources, and a zip of compiled modules that Python's own zipimport
reads. Pythons of other versions take part twice: with an empty cache, and with what the first start left there.
"""

from __future__ import annotations

import importlib.util
import io
import marshal
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import measure
from benchmarks.measure import Bench, Figure
from testbed import pythons
from umiak.submit.payload import launcher_file

WORKER = str(measure.ROOT / "benchmarks" / "programs" / "worker.py")
GOAL_S = 0.15
PATIENCE_S = 60.0
START = "import sys\nfrom umiak.cli.main import main\nsys.exit(main())\n"


def first_line(quick: bool) -> Iterator[Figure]:
    """From the command to the first line of a worker."""
    how = "`launch worker.py` with one worker; in turn, files of the launcher in a fresh directory, an empty cache for the first start"
    figure = Figure("first line", "First line of a worker, from the launcher's file", how, goal=GOAL_S)
    other = {version: path for version, path in pythons.found().items() if path != sys.executable}
    for number in range(5 if quick else 25):
        with measure.other_work(figure), measure.bench() as place:
            ours = str(_written(place, launcher_file.NAME, _built()))
            subjects = {
                "file, the builder's Python": [sys.executable, ours],
                "installed, umiak launch": [str(Path(sys.executable).with_name("umiak"))],
                "installed, python -m": [sys.executable, "-m", "umiak"],
            }
            for name, data in _others().items():
                subjects[name] = [sys.executable, str(_written(place, f"{name}.pyz", data))]
            for subject in subjects:
                figure.row(subject)
            # The first of a round meets what the round before has left: so each of them is first, in turn.
            names = [*subjects]
            first = number % len(names)
            for subject in names[first:] + names[:first]:
                _once(place, figure, subject, subjects[subject])
            for version, python in other.items():
                cache = place.directory / f"cache-{version}"
                for which in ("first start", "later"):
                    _once(place, figure, f"file, Python {version}, {which}", [python, ours], cache)
    yield figure
    yield _sizes()


def _written(place: Bench, name: str, data: bytes) -> Path:
    path = place.directory / name
    path.write_bytes(data)
    return path


def _once(place: Bench, figure: Figure, subject: str, command: list[str], cache: Path | None = None) -> None:
    environ = {"XDG_CACHE_HOME": str(cache)} if cache else {}
    program = place.start([*command, "launch", "--log_dir", str(place.directory / "log"), WORKER], environ)
    reports = place.reports(1, PATIENCE_S)
    ended = program.wait(PATIENCE_S)
    if not reports or ended is None or ended.status != 0:
        figure.note(subject, place.last_words()[-80:])
        return
    figure.add(subject, reports[0].at - program.began, ended.cpu_s)


def _sizes() -> Figure:
    figure = Figure("size", "Size of the launcher's file", "once per version, in the user's cache", unit="kB")
    figure.add("file: compiled for one version, and sources", len(_built()) / 1000)
    for name, data in _others().items():
        figure.add(name, len(data) / 1000)
    return figure


_kept: dict[str, bytes] = {}


def _built() -> bytes:
    if "own" not in _kept:
        _kept["own"] = launcher_file.build()
    return _kept["own"]


def _others() -> dict[str, bytes]:
    """The same modules by other ways."""
    if "zip of sources" not in _kept:
        _kept["zip of sources"] = _zipped(zipfile.ZIP_DEFLATED, compiled=False)
        _kept["zip of .pyc, deflated"] = _zipped(zipfile.ZIP_DEFLATED, compiled=True)
        _kept["zip of .pyc, stored"] = _zipped(zipfile.ZIP_STORED, compiled=True)
    return {name: data for name, data in _kept.items() if name != "own"}


def _zipped(method: int, *, compiled: bool) -> bytes:
    made = io.BytesIO()
    texts = {"__main__.py": START} | {each.path: each.text for each in launcher_file.modules().values()}
    with zipfile.ZipFile(made, "w", method) as archive:
        for path, text in texts.items():
            if compiled:
                code = marshal.dumps(compile(text, path, "exec", dont_inherit=True))
                archive.writestr(f"{path}c", importlib.util.MAGIC_NUMBER + b"\x01\0\0\0" + bytes(8) + code)
            else:
                archive.writestr(path, text)
    return made.getvalue()
