"""`HDFSClient` of fluid's utilities, `multi_download` and `multi_upload`: files of Hadoop by its command. A program.

Both clients of 1.8 are this one: what only one of them had, it has as well. As there, a call that fails returns False or an empty list;
what the command said is a warning.
"""

from __future__ import annotations

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from time import sleep
from typing import TYPE_CHECKING, Any

from umiak.fluid.data.hadoop import HadoopCommand
from umiak.fluid.record.problems import bad
from umiak.fluid.record.remarks import left_out
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MISSING = 1
"""How ``hadoop fs -test`` ends where the answer is no."""


class HDFSClient:
    """Files of one cluster. ``time_out`` and ``sleep_inter`` are milliseconds: of one command, and between two tries."""

    def __init__(
        self,
        hadoop_home: str | None,
        configs: Mapping[str, object] | None,
        time_out: int = 300000,
        sleep_inter: int = 1000,
    ) -> None:
        home = os.path.expandvars(hadoop_home) if hadoop_home else None
        self._hadoop = HadoopCommand(home, configs or {}, limit_s=time_out / 1000 if time_out > 0 else None)
        self._pause_s = max(sleep_inter, 0) / 1000

    # ---- what is there

    def is_exist(self, hdfs_path: str) -> bool:
        """Whether there is a file or a directory of this name."""
        return self._test("-e", hdfs_path)

    def is_dir(self, hdfs_path: str) -> bool:
        """Whether it is a directory."""
        return self._test("-d", hdfs_path)

    def is_file(self, hdfs_path: str) -> bool:
        """Whether it is there and no directory."""
        return self.is_exist(hdfs_path) and not self.is_dir(hdfs_path)

    def ls(self, hdfs_path: str) -> list[str]:
        """What is in a directory."""
        return [path for path, _, _ in self._listed(hdfs_path)]

    def lsr(self, hdfs_path: str, only_file: bool = True, sort: bool = True, excludes: Sequence[str] = ()) -> list[str]:
        """The same with everything below it, the oldest first."""
        if not isinstance(only_file, bool):
            only_file, excludes = True, only_file  # one of the two clients has `excludes` in this place
        paths = [each for each in self._listed(hdfs_path, "-R") if not (only_file and each[2])]
        if sort:
            paths.sort(key=lambda each: each[1])
        return [path for path, _, _ in paths if path not in excludes]

    def ls_dir(self, fs_path: str) -> tuple[list[str], list[str]]:
        """The names of the directories in a directory, and of the files."""
        listed = self._listed(fs_path)
        directories = [os.path.basename(path) for path, _, is_directory in listed if is_directory]
        return directories, [os.path.basename(path) for path, _, is_directory in listed if not is_directory]

    def list_dirs(self, fs_path: str) -> list[str]:
        """The names of the directories in a directory."""
        return self.ls_dir(fs_path)[0]

    def cat(self, hdfs_path: str) -> str:
        """What is in a file of text, without space around it."""
        done = self._run("-cat", hdfs_path)
        return done.strip() if done is not None else ""

    # ---- what is changed

    def delete(self, hdfs_path: str) -> bool:
        """Remove a file, or a directory with everything in it; True as well if it is not there."""
        return not self.is_exist(hdfs_path) or self._run("-rm", "-r", hdfs_path) is not None

    def rename(self, hdfs_src_path: str, hdfs_dst_path: str, overwrite: bool = False) -> bool:
        """Give it another name; False if that is taken, unless it is to be overwritten."""
        if self.is_exist(hdfs_dst_path):
            if not overwrite:
                _warn(f"rename: {hdfs_dst_path} exists, and overwrite is False")
                return False
            self.delete(hdfs_dst_path)
        return self._run("-mv", hdfs_src_path, hdfs_dst_path) is not None

    def mv(self, fs_src_path: str, fs_dst_path: str, overwrite: bool = False, test_exists: bool = True) -> bool:
        """`rename`, which asks first whether the name is taken; without ``test_exists`` the command itself finds out."""
        if test_exists:
            return self.rename(fs_src_path, fs_dst_path, overwrite)
        if overwrite:
            self.delete(fs_dst_path)
        return self._run("-mv", fs_src_path, fs_dst_path) is not None

    def makedirs(self, hdfs_path: str) -> bool:
        """A directory, with those above it."""
        return self._run("-mkdir", "-p", hdfs_path) is not None

    mkdirs = makedirs

    def touch(self, fs_path: str, exist_ok: bool = True) -> bool:
        """An empty file, if there is none."""
        if self.is_exist(fs_path):
            return exist_ok
        return self._run("-touchz", fs_path) is not None

    @staticmethod
    def make_local_dirs(local_path: str) -> None:
        """A directory of this machine."""
        os.makedirs(local_path, exist_ok=True)

    @staticmethod
    def split_files(files: Sequence[str], trainer_id: int, trainers: int) -> list[str]:
        """A trainer's part of them: as many as the others have, one behind another."""
        size, more = divmod(len(files), trainers)
        begin = trainer_id * size + min(trainer_id, more)
        return list(files[begin : begin + size + (trainer_id < more)])

    def need_upload_download(self) -> bool:
        """Yes: it is another machine's."""
        return True

    # ---- copies

    def upload(self, hdfs_path: str, local_path: str, multi_processes: int | bool = 5, overwrite: bool = False, retry_times: int = 5) -> bool:  # fmt: skip
        """Copy a file, or the files of a directory, into a directory of the cluster.

        Late versions of 1.8 had the local path first: where only the first names something here, it is taken as that.
        """
        if not os.path.exists(local_path) and os.path.exists(hdfs_path):
            hdfs_path, local_path = local_path, hdfs_path
        if not os.path.exists(local_path):
            raise bad("UM-FLUID-021", f"upload: no such file here: {local_path}", where=user_line())
        if isinstance(multi_processes, bool):
            overwrite, multi_processes = multi_processes, 1  # the client of contrib has `overwrite` in this place
        is_directory = os.path.isdir(local_path)
        names = sorted(os.listdir(local_path)) if is_directory else [""]
        pairs = [(os.path.join(local_path, name) if name else local_path, hdfs_path) for name in names]
        if not pairs:
            _warn(f"upload: nothing is in {local_path}")
            return True
        if is_directory and not self.makedirs(hdfs_path):
            return False
        force = ["-f"] if overwrite else []
        return _at_once(lambda pair: self._tried(retry_times, "-put", *force, *pair), pairs, multi_processes)

    def download(self, hdfs_path: str, local_path: str, multi_processes: int | bool = 5, overwrite: bool = False, retry_times: int = 5, unzip: bool = False) -> bool:  # fmt: skip
        """Copy a file, or what is in a directory, into a directory of this machine."""
        if isinstance(multi_processes, bool):
            overwrite, multi_processes = multi_processes, 1
        if unzip:
            raise bad(
                "UM-FLUID-003", "download(unzip=True) does not work", "unzip the file yourself", where=user_line()
            )
        if not self.is_exist(hdfs_path):
            _warn(f"download: no such file in the cluster: {hdfs_path}")
            return False
        files = self.ls(hdfs_path) if self.is_dir(hdfs_path) else [hdfs_path]
        self.make_local_dirs(local_path)
        taken = [name for name in (os.path.join(local_path, os.path.basename(each)) for each in files) if os.path.exists(name)]  # fmt: skip
        if taken and not overwrite:
            _warn(f"download: there already, and overwrite is False: {', '.join(taken)}")
            return False
        force = ["-f"] if overwrite else []
        return _at_once(lambda path: self._tried(retry_times, "-get", *force, path, local_path), files, multi_processes)

    # ---- the command

    def _tried(self, times: int, *words: str) -> bool:
        for number in range(times + 1):
            if number:
                sleep(self._pause_s)
            if self._run(*words) is not None:
                return True
        return False

    def _test(self, kind: str, path: str) -> bool:
        done = self._hadoop.run("-test", kind, path)
        if done.returncode not in (0, MISSING):
            _warn_of(("-test", kind, path), done.stderr)
        return done.returncode == 0

    def _run(self, *words: str) -> str | None:
        done = self._hadoop.run(*words)
        if done.returncode:
            _warn_of(words, done.stderr)
            return None
        return done.stdout

    def _listed(self, path: str, *flags: str) -> list[tuple[str, str, bool]]:
        """Paths, when they were written, and whether each is a directory."""
        lines = (self._run("-ls", *flags, path) or "").splitlines()
        columns = [line.split(None, 7) for line in lines]
        return [(each[7], f"{each[5]} {each[6]}", each[0].startswith("d")) for each in columns if len(each) == 8]


def multi_download(client: Any, hdfs_path: str, local_path: str, trainer_id: int, trainers: int, multi_processes: int = 5) -> list[str]:  # fmt: skip
    """A trainer's part of the files below a path of the cluster, copied into a local directory; their names there."""
    mine = client.lsr(hdfs_path, sort=True)[trainer_id::trainers]
    base = hdfs_path.rstrip("/")

    def target(path: str) -> str:
        below = os.path.relpath(os.path.dirname(path), base) if path.startswith(f"{base}/") else os.curdir
        return os.path.normpath(os.path.join(local_path, below))

    client.make_local_dirs(local_path)
    _at_once(lambda path: client.download(path, target(path), overwrite=True), mine, multi_processes)
    wanted = [os.path.join(target(path), os.path.basename(path)) for path in mine]
    return [path for path in wanted if os.path.exists(path)]


def multi_upload(client: Any, hdfs_path: str, local_path: str, multi_processes: int = 5, overwrite: bool = False, sync: bool = True) -> bool:  # fmt: skip
    """All files below a local directory, copied into a directory of the cluster with the same names below it."""
    left_out("contrib.utils.multi_upload", sync=sync)
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(local_path) for name in names]

    def send(path: str) -> bool:
        below = os.path.relpath(os.path.dirname(path), local_path)
        folder = hdfs_path if below == os.curdir else f"{hdfs_path.rstrip('/')}/{below}"
        sent: bool = client.makedirs(folder) and client.upload(folder, path, overwrite=overwrite)
        return sent

    return _at_once(send, sorted(paths), multi_processes)


def _at_once(work: Callable[[Any], bool], items: Sequence[Any], count: int) -> bool:
    """Do it with each, several at a time; whether all went well."""
    with ThreadPoolExecutor(max(int(count), 1)) as pool:
        return all(list(pool.map(work, items)))


def _warn_of(words: Sequence[str], errors: str) -> None:
    lines = errors.strip().splitlines()
    _warn(f"hadoop fs {' '.join(words)} failed: {lines[-1][:300] if lines else 'it says nothing'}")


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=3)
