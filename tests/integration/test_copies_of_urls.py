"""Copies of what lies behind URLs: as new as the store has it, and never somebody else's. With files, HTTP and a real S3 server."""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import moto_server
from testbed.pytest_support import require
from umiak.adapters.stores import storage
from umiak.core.problem import Exit, UmiakError
from umiak.ps import manifest
from umiak.train.checkpoints import mirror
from umiak.train.checkpoints.mirror import Mirror

pytest.importorskip("fsspec")
SOMEBODY = 4711
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of other users")


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory of this machine, as /tmp is."""
    path = tmp_path / "tmp"
    path.mkdir()
    path.chmod(0o1777)
    monkeypatch.setattr("tempfile.tempdir", str(path))
    monkeypatch.setattr(storage, "_fetched_here", {})
    return path


def copied(url: str) -> str:
    return Path(storage.fetch(url)).read_text()


# ---- old and new


def replaced(path: Path, text: str) -> None:
    """As most programs write a file, and with the same time as before."""
    before = path.stat() if path.exists() else None
    new = path.with_name(".new")
    new.write_text(text)
    if before:
        os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    new.rename(path)


def test_a_file_that_was_replaced_by_one_of_the_same_size_is_fetched_again(tmp_path: Path) -> None:
    path = tmp_path / "part-0"
    replaced(path, "old text")
    first = storage.fetch(f"file://{path}")
    assert Path(first).read_text() == "old text"
    assert storage.fetch(f"file://{path}") == first, "what is the same is not fetched again"
    replaced(path, "new text")
    assert copied(f"file://{path}") == "new text"


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a directory; ``marks`` says what is told about versions."""

    marks = "plain"
    gets: list[str] = []

    def do_GET(self) -> None:
        self.gets.append(self.path)
        super().do_GET()

    def send_header(self, keyword: str, value: str) -> None:
        if keyword == "Last-Modified":
            if self.marks == "none":
                return
            if self.marks == "each time another":
                super().send_header("ETag", f'"{os.urandom(6).hex()}"')
                return
        super().send_header(keyword, value)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called there
        pass


@pytest.fixture
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Path, str, type[Handler]]]:
    pytest.importorskip("aiohttp")
    root = tmp_path / "served"
    root.mkdir()
    kind = type("OwnHandler", (Handler,), {"marks": getattr(request, "param", "plain"), "gets": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(kind, directory=str(root)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield root, f"http://127.0.0.1:{server.server_address[1]}/part-0", kind
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_file_behind_http_is_fetched_again_when_its_time_changes(served: tuple[Path, str, type[Handler]]) -> None:
    root, url, handler = served
    (root / "part-0").write_text("old text")
    os.utime(root / "part-0", (1_700_000_000, 1_700_000_000))
    assert [copied(url), copied(url)] == ["old text", "old text"]
    assert len(handler.gets) == 1
    (root / "part-0").write_text("new text")
    assert copied(url) == "new text"


@pytest.mark.parametrize("served", ["none"], indirect=True)
def test_where_nothing_tells_versions_apart_every_process_fetches(
    served: tuple[Path, str, type[Handler]], temporary: Path
) -> None:
    root, url, handler = served
    (root / "part-0").write_text("old text")
    assert [copied(url), copied(url)] == ["old text", "old text"]
    assert len(handler.gets) == 1
    (root / "part-0").write_text("new text")
    program = "import sys; from umiak.adapters.stores import storage; print(open(storage.fetch(sys.argv[1])).read())"
    environ = {**os.environ, "TMPDIR": str(temporary)}
    ran = subprocess.run([sys.executable, "-c", program, url], env=environ, capture_output=True, text=True, check=True)
    assert ran.stdout == "new text\n"


@pytest.mark.parametrize("served", ["each time another"], indirect=True)
def test_a_server_with_a_new_version_for_each_answer_is_read_twice(served: tuple[Path, str, type[Handler]]) -> None:
    root, url, handler = served
    (root / "part-0").write_text("one text")
    assert copied(url) == "one text"
    assert len(handler.gets) == 2, "the content says that it is the same"


def test_a_file_that_is_replaced_while_it_is_copied_is_copied_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "part-0"
    replaced(path, "old text")
    copies = []

    def copy(source: object, target: object, length: int) -> None:
        copies.append(length)
        target.write(source.read(4))  # type: ignore[attr-defined]
        if len(copies) == 1:
            replaced(path, "new text")
        target.write(source.read())  # type: ignore[attr-defined]

    monkeypatch.setattr("shutil.copyfileobj", copy)
    assert copied(f"file://{path}") == "new text"


def checkpoint(root: Path, name: str, content: str) -> Path:
    path = root / name
    path.mkdir(parents=True, exist_ok=True)
    (path / "shard-00000.umiak").write_text(content)
    (path / manifest.FILE_NAME).write_text("{}")
    return path


def test_a_checkpoint_that_another_machine_has_written_since_is_fetched_again(tmp_path: Path) -> None:
    here, other = (Mirror(url=f"file://{tmp_path}/store", path=str(tmp_path / name)) for name in ("here", "other"))
    shard = Path(here.path, "3", "shard-00000.umiak")
    checkpoint(Path(here.path), "3", "old rows")
    here.send("3")
    before = shard.stat().st_ino
    here.fetch()
    assert shard.stat().st_ino == before, "what was sent from here is not fetched"
    other.fetch()
    checkpoint(Path(other.path), "3", "new rows")
    other.send("3")
    here.fetch()
    assert shard.read_text() == "new rows"
    before = shard.stat().st_ino
    here.fetch()
    assert shard.stat().st_ino == before, "what is the same is not fetched again"


def test_what_was_saved_here_and_never_sent_is_not_taken_for_what_is_there(tmp_path: Path) -> None:
    here = Mirror(url=f"file://{tmp_path}/store", path=str(tmp_path / "here"))
    checkpoint(Path(here.path), "3", "sent")
    here.send("3")
    Path(here.path, "3", manifest.FILE_NAME).unlink()
    checkpoint(Path(here.path), "3", "late")
    here.fetch()
    assert Path(here.path, "3", "shard-00000.umiak").read_text() == "sent"


IN_S3 = """
import os, sys
from pathlib import Path
import s3fs
from umiak.adapters.stores import storage
from umiak.ps import manifest
from umiak.train.checkpoints.mirror import Mirror

def put(text):
    s3fs.S3FileSystem(skip_instance_cache=True).pipe_file("bucket/day/part-0", text)

def copied():
    return Path(storage.fetch("s3://bucket/day/part-0")).read_bytes()

put(b"old text")
assert storage.names_of("s3://bucket/day") == ["s3://bucket/day/part-0"]
assert copied() == b"old text"
first = storage.fetch("s3://bucket/day/part-0")
assert storage.fetch("s3://bucket/day/part-0") == first
assert storage.names_of("s3://bucket/day") == ["s3://bucket/day/part-0"]
put(b"new text")
assert copied() == b"new text", copied()

def checkpoint(root, text):
    path = Path(root, "3")
    path.mkdir(parents=True, exist_ok=True)
    (path / "shard").write_text(text)
    (path / manifest.FILE_NAME).write_text("{}")

here, other = (Mirror(url="s3://bucket/models", path=f"{sys.argv[1]}/{name}") for name in ("here", "other"))
checkpoint(here.path, "old rows")
here.send("3")
shard = Path(here.path, "3", "shard")
inode = shard.stat().st_ino
here.fetch()
assert shard.stat().st_ino == inode, "fetched though it was sent from here"
other.fetch()
assert Path(other.path, "3", "shard").read_text() == "old rows"
checkpoint(other.path, "new rows")
other.send("3")
here.fetch()
assert shard.read_text() == "new rows", shard.read_text()
inode = shard.stat().st_ino
here.fetch()
assert shard.stat().st_ino == inode, "fetched again"
print("done")
"""


def test_objects_in_s3_are_fetched_again_when_they_are_replaced(tmp_path: Path, temporary: Path) -> None:
    require(moto_server.available())
    packages = next(iter(moto_server.VENV.glob("lib/python*/site-packages")))
    require(None if (packages / "s3fs").is_dir() else f"s3fs is not in {moto_server.VENV.name}: make test installs it")
    with moto_server.server() as s3:
        environ = {**os.environ, **s3.environ, "TMPDIR": str(temporary), "AWS_DEFAULT_REGION": "us-east-1"}
        environ["AWS_ENDPOINT_URL"] = s3.direct  # the proxy of its tests answers HEAD without a length
        environ["PYTHONPATH"] = os.pathsep.join([str(packages), *sys.path])
        ran = subprocess.run(
            [sys.executable, "-c", IN_S3, str(tmp_path)], env=environ, capture_output=True, text=True, check=False
        )
    assert ran.stdout == "done\n", ran.stderr


# ---- never somebody else's


def theirs(path: Path, *, uid: int = SOMEBODY, mode: int = 0o755) -> Path:
    """What somebody else has made first, with everything in it."""
    for each in (path, *path.rglob("*")):
        os.chown(each, uid, uid)
    path.chmod(mode)
    return path


def refused(*, path: Path, why: str) -> None:
    for act in (lambda: storage.fetch("file:///etc/hostname"), lambda: mirror._directory("s3://bucket/models")):
        with pytest.raises(UmiakError) as raised:
            act()
        problem = raised.value.problems[0]
        assert problem.code == "UM-DATA-091"
        assert raised.value.exit_status == Exit.REFUSED
        assert str(path.parent) in problem.what
        assert why in str(problem.why)


DIRECTORIES = (f"umiak-data-{os.getuid()}", f"umiak-models-{os.getuid()}")


@as_root
def test_a_directory_that_somebody_else_made_is_not_used(temporary: Path) -> None:
    for name in DIRECTORIES:
        (temporary / name).mkdir()
        theirs(temporary / name, mode=0o777)
    refused(path=temporary / "x", why=f"it belongs to another user (uid {SOMEBODY})")


@as_root
def test_a_link_of_somebody_else_is_not_followed(temporary: Path, tmp_path: Path) -> None:
    (tmp_path / "bait").mkdir(mode=0o700)
    for name in DIRECTORIES:
        (temporary / name).symlink_to(tmp_path / "bait")
        os.chown(temporary / name, SOMEBODY, SOMEBODY, follow_symlinks=False)
    refused(path=temporary / "x", why="it is a symbolic link")


def test_a_directory_that_others_could_write_is_not_used(temporary: Path) -> None:
    for name in DIRECTORIES:
        (temporary / name).mkdir()
        (temporary / name).chmod(0o777)
    refused(path=temporary / "x", why="can be written by everybody (mode 0777)")


def test_a_temporary_directory_without_the_sticky_bit_is_not_used(temporary: Path) -> None:
    """There anybody could put another directory in the place of ours."""
    temporary.chmod(0o777)
    refused(path=temporary / "x", why=f"{temporary} can be written by everybody (mode 0777)")


def test_copies_are_closed_to_others(temporary: Path, tmp_path: Path) -> None:
    replaced(tmp_path / "part-0", "text")
    storage.fetch(f"file://{tmp_path}/part-0")
    assert (temporary / DIRECTORIES[0]).stat().st_mode & 0o077 == 0


@as_root
def test_a_training_reads_no_copy_that_somebody_else_has_put_there(temporary: Path, tmp_path: Path) -> None:
    """The copy's name could be known in advance: a hash of the URL, and the size."""
    replaced(tmp_path / "part-0", "click:1 a:7\n")
    url = f"file://{tmp_path}/part-0"
    copy = Path(storage.fetch(url))
    copy.write_text("click:0 a:9\n")
    theirs(temporary / DIRECTORIES[0])
    with pytest.raises(UmiakError, match="can't be kept here"):
        storage.fetch(url)
