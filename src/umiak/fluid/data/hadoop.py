"""Runs the `hadoop` command with a cluster's settings: passwords among them reach no argument list. An adapter.

    hadoop = HadoopCommand("/opt/hadoop", {"fs.default.name": "hdfs://name:9000", "hadoop.job.ugi": "user,password"})
    hadoop.run("-ls", "/data")        status, output and errors of `hadoop fs -conf FILE -ls /data`

The settings stand in a file that only this user can read, and that is gone when this process ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import weakref
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from umiak.adapters import private_files
from umiak.core.problem import UmiakError

if TYPE_CHECKING:
    from collections.abc import Mapping


LIMIT_STATUS = 124
"""Of a command that took too long, as `timeout` has it."""


class HadoopCommand:
    """`hadoop fs` with the settings of one cluster."""

    def __init__(self, home: str | None, settings: Mapping[str, object], *, limit_s: float | None = None) -> None:
        """``limit_s``: of one command, which is ended then."""
        self._limit_s = limit_s
        self._program = os.path.join(home, "bin", "hadoop") if home else "hadoop"
        self._settings = {str(name): str(value) for name, value in settings.items()}
        self._file: str | None = None

    @property
    def words(self) -> list[str]:
        """The command, to be followed by what it shall do; an error if there is no such program."""
        if shutil.which(self._program) is None:
            raise UmiakError.refused(
                "UM-FLUID-020",
                f"files of Hadoop need its command, which is not there: {self._program}",
                hint="install Hadoop's client, or copy the files to a directory",
            )
        return [self._program, "fs", *(["-conf", self._settings_file()] if self._settings else [])]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """What it does, says and ends with."""
        command = [*self.words, *words]
        try:
            return subprocess.run(
                command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, timeout=self._limit_s
            )
        except subprocess.TimeoutExpired:
            reason = f"it took more than time_out, {self._limit_s:g} s, and was ended"
            return subprocess.CompletedProcess(command, LIMIT_STATUS, "", reason)

    def _settings_file(self) -> str:
        if self._file is None or not os.path.exists(self._file):
            properties = "".join(
                f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
                for name, value in self._settings.items()
            )
            directory = tempfile.mkdtemp(prefix="umiak-hadoop-")
            weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
            self._file = os.path.join(directory, "settings.xml")
            private_files.write(self._file, f"<configuration>\n{properties}</configuration>\n")
        return self._file
