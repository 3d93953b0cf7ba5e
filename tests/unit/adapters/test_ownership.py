"""Whose a file is: every way in which another user could change it or put another in its place. With real files of other users."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from umiak.adapters import ownership
from umiak.adapters.ownership import first_untrusted, private_directory, read_private

SOMEBODY = 4711
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of other users")


def why_not_own(path: str, **more: object) -> str | None:
    found = first_untrusted(path, **more)
    return str(found) if found else None


def made(path: Path, *, uid: int = -1, gid: int = -1, mode: int | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_text("x")
    os.chown(path, uid, gid)
    if mode is not None:
        path.chmod(mode)
    return path


def directory(path: Path, *, uid: int = -1, gid: int = -1, mode: int = 0o755) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)
    os.chown(path, uid, gid)
    return path


def test_an_own_file_in_own_directories_is_own(tmp_path: Path) -> None:
    assert why_not_own(str(made(tmp_path / "a" / "umiak.toml"))) is None
    assert why_not_own("/etc/passwd") is None, "root's are as good"
    assert why_not_own("/dev/null") is None, "everybody writes to it, and it stays empty"
    assert why_not_own(str(tmp_path / "missing" / "umiak.toml")) is None


def test_a_relative_path_begins_at_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(directory(tmp_path / "open", mode=0o777) / "below" / "job.yaml")
    monkeypatch.chdir(tmp_path / "open" / "below")
    assert why_not_own("job.yaml") == f"{tmp_path}/open can be written by everybody (mode 0777)"


@as_root
def test_a_file_of_somebody_else(tmp_path: Path) -> None:
    path = made(tmp_path / "umiak.toml", uid=SOMEBODY, mode=0o644)
    assert why_not_own(str(path)) == f"{path} belongs to uid {SOMEBODY} (mode 0644)"
    assert why_not_own(str(path), uids=(0, SOMEBODY)) is None
    assert why_not_own(str(path), allowed=(str(tmp_path),)) is None


@as_root
def test_a_directory_of_somebody_else_far_above(tmp_path: Path) -> None:
    path = made(tmp_path / "theirs" / "b" / "c" / "umiak.toml")
    directory(tmp_path / "theirs", uid=SOMEBODY)
    assert first_untrusted(str(path)) == ownership.Untrusted(
        path=str(tmp_path / "theirs"), why=f"belongs to uid {SOMEBODY} (mode 0755)", is_directory=True
    )


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o702])
def test_a_directory_that_everybody_can_write(tmp_path: Path, mode: int) -> None:
    path = made(directory(tmp_path / "open", mode=mode) / "mine" / "umiak.toml")
    assert why_not_own(str(path)) == f"{tmp_path}/open can be written by everybody (mode {mode:04o})"


def test_a_file_that_everybody_can_write(tmp_path: Path) -> None:
    path = made(tmp_path / "umiak.toml", mode=0o666)
    assert why_not_own(str(path)) == f"{path} can be written by everybody (mode 0666)"


def test_what_is_own_in_a_sticky_directory_is_own(tmp_path: Path) -> None:
    """As in /tmp: others can't remove or rename it."""
    path = made(directory(tmp_path / "tmp", mode=0o1777) / "umiak.toml", mode=0o644)
    assert why_not_own(str(path)) is None
    assert why_not_own(str(path.parent)) == f"{path.parent} can be written by everybody (mode 1777)"


@as_root
def test_what_is_not_own_in_a_sticky_directory_is_not(tmp_path: Path) -> None:
    path = made(directory(tmp_path / "tmp", mode=0o1777) / "umiak.toml", uid=SOMEBODY, mode=0o644)
    assert f"belongs to uid {SOMEBODY}" in str(why_not_own(str(path)))


@as_root
def test_a_group_of_several_is_others_and_roots_own_is_not(tmp_path: Path) -> None:
    path = made(directory(tmp_path / "shared", gid=100, mode=0o2775) / "umiak.toml")
    assert "can be written by group users (mode 2775)" in str(why_not_own(str(path)))
    directory(tmp_path / "shared", gid=99_999, mode=0o775)
    assert "can be written by group 99999 (mode 0775)" in str(why_not_own(str(path)))
    directory(tmp_path / "shared", gid=0, mode=0o775)
    assert why_not_own(str(path)) is None


@as_root
@pytest.mark.parametrize(
    ("name", "members", "other_gid", "listed", "is_own"),
    [
        ("ada", (), 77, False, True),
        ("ada", ("ada",), 77, False, True),
        ("ada", ("bob",), 77, False, False),
        ("ada", (), 4711, False, False),
        ("users", (), 77, True, True),
        ("users", (), 77, False, False),
        ("users", (), 4711, True, False),
    ],
)
def test_the_group_of_one_user_alone_is_not_others(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    members: tuple[str, ...],
    other_gid: int,
    listed: bool,
    is_own: bool,
) -> None:
    """`users` as in containers for notebooks; where users come from a directory service, others may be in it unlisted."""
    import grp
    import pwd

    def user(name: str, uid: int, gid: int) -> pwd.struct_passwd:
        return pwd.struct_passwd((name, "x", uid, gid, "", "/", "/bin/sh"))

    path = made(directory(tmp_path / "home", gid=SOMEBODY, mode=0o775) / "umiak.toml")
    monkeypatch.setattr(ownership, "_are_users_listed", lambda: listed)
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group((name, "x", gid, list(members))))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: user("ada", uid, SOMEBODY))
    monkeypatch.setattr(pwd, "getpwall", lambda: [user("ada", 0, SOMEBODY), user("bob", 5, other_gid)])
    assert (why_not_own(str(path)) is None) == is_own


@as_root
def test_a_link_counts_with_its_own_directory_and_with_where_it_leads(tmp_path: Path) -> None:
    target = made(tmp_path / "good" / "umiak.toml")
    link = tmp_path / "umiak.toml"
    link.symlink_to("good/../good/umiak.toml")
    assert why_not_own(str(link)) is None
    os.chown(link, SOMEBODY, -1, follow_symlinks=False)
    assert why_not_own(str(link)) == f"{link} belongs to uid {SOMEBODY} (mode 0777)"
    other = directory(tmp_path / "open", mode=0o777) / "link"
    other.symlink_to(target)
    assert why_not_own(str(other)) == f"{tmp_path}/open can be written by everybody (mode 0777)"
    third = tmp_path / "to-open"
    third.symlink_to(other)
    assert why_not_own(str(third)) == f"{tmp_path}/open can be written by everybody (mode 0777)"
    (tmp_path / "dots").symlink_to(tmp_path / "open" / "..")
    assert why_not_own(str(tmp_path / "dots" / "good" / "umiak.toml")) is not None, "`open` is on the way"


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert "circle" in str(why_not_own(str(tmp_path / "a")))


def test_a_path_with_two_dots_is_walked_as_the_kernel_walks_it(tmp_path: Path) -> None:
    made(tmp_path / "far" / "umiak.toml", mode=0o666)
    directory(tmp_path / "far" / "below")
    directory(tmp_path / "near")
    (tmp_path / "near" / "link").symlink_to(tmp_path / "far" / "below")
    made(tmp_path / "near" / "umiak.toml")
    assert str(why_not_own(f"{tmp_path}/near/link/../umiak.toml")).startswith(
        f"{tmp_path}/far/umiak.toml can be written"
    )


def test_an_own_socket_is_own_even_if_others_may_connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("socket")
    os.chmod("socket", 0o777)
    assert why_not_own("socket") is None


@as_root
def test_where_root_is_nobody_its_directories_are_still_roots(own_tree: Path) -> None:
    """As in Apptainer: a user namespace that knows one user. Directories of root's look like nobody's, and so do all others."""
    own = made(directory(own_tree / "own", uid=SOMEBODY) / "umiak.toml", uid=SOMEBODY)
    theirs = made(directory(own_tree / "tmp", uid=SOMEBODY, mode=0o1777) / "umiak.toml", uid=4712, mode=0o644)
    their_directory = made(directory(own_tree / "tmp" / "a", uid=4712) / "umiak.toml", uid=SOMEBODY)
    program = "import sys; from umiak.adapters.ownership import first_untrusted; [print(first_untrusted(path)) for path in sys.argv[1:]]"
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM_IN_NAMESPACE, program, *map(str, (own, theirs, their_directory))],
        capture_output=True,
        text=True,
        check=False,
    )
    if "unshare" in ran.stderr:
        pytest.skip(f"no user namespaces here: {ran.stderr}")
    assert ran.stdout.splitlines() == [
        "None",
        f"{theirs} belongs to nobody, uid 65534 (mode 0644)",
        f"{their_directory.parent} belongs to nobody, uid 65534 (mode 0755)",
    ], ran.stderr


@pytest.fixture
def own_tree() -> Iterator[Path]:
    """A directory of somebody's; pytest's own are below one of root's in a sticky one, which such a user can't trust."""
    with tempfile.TemporaryDirectory() as path:
        yield directory(Path(path), uid=SOMEBODY)


PROGRAM_IN_NAMESPACE = f"""
import ctypes, os, sys
import grp, pwd, umiak.adapters.ownership  # before this process is a user who may not read where Python is
libc = ctypes.CDLL(None, use_errno=True)
os.chdir("/"); os.setgroups([]); os.setresgid(*[{SOMEBODY}] * 3); os.setresuid(*[{SOMEBODY}] * 3)
libc.prctl(4, 1)  # PR_SET_DUMPABLE: /proc/self is the new user's
if libc.unshare(0x10000000):
    sys.exit(f"unshare: {{os.strerror(ctypes.get_errno())}}")
try:
    open("/proc/self/setgroups", "w").write("deny")
    open("/proc/self/uid_map", "w").write("{SOMEBODY} {SOMEBODY} 1")
except OSError as error:
    sys.exit(f"unshare: {{error}}")
program, *sys.argv[1:] = sys.argv[1:]
exec(program)
"""


def test_a_private_directory_is_made_and_found_again(tmp_path: Path) -> None:
    path = directory(tmp_path / "tmp", mode=0o1777) / "umiak-data-0"
    for _ in range(2):
        private_directory(str(path))
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_a_private_directory_that_others_could_read_is_closed(tmp_path: Path) -> None:
    private_directory(str(directory(tmp_path / "cache", mode=0o755)))
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700


def test_a_private_directory_is_not_one_that_others_could_write(tmp_path: Path) -> None:
    with pytest.raises(PermissionError, match="can be written by everybody") as raised:
        private_directory(str(directory(tmp_path / "cache", mode=0o757)))
    assert raised.value.filename == str(tmp_path / "cache")


def test_a_private_directory_is_no_link_and_no_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(directory(tmp_path / "cache", mode=0o700))
    with pytest.raises(PermissionError, match="it is a symbolic link"):
        private_directory(str(tmp_path / "link"))
    with pytest.raises(PermissionError, match="it is not a directory"):
        private_directory(str(made(tmp_path / "file")))


@as_root
def test_a_private_directory_is_not_somebody_elses_nor_one_they_can_exchange(tmp_path: Path) -> None:
    theirs = directory(tmp_path / "theirs", uid=SOMEBODY, mode=0o700)
    with pytest.raises(PermissionError, match=f"it belongs to another user .uid {SOMEBODY}"):
        private_directory(str(theirs))
    with pytest.raises(PermissionError, match=f"theirs belongs to uid {SOMEBODY}"):
        private_directory(str(theirs / "below"))
    with pytest.raises(PermissionError, match="open can be written by everybody"):
        private_directory(str(directory(tmp_path / "open", mode=0o777) / "below"))


def test_a_private_file_is_read_only_from_a_private_directory(tmp_path: Path) -> None:
    folder = directory(tmp_path / "call", mode=0o700)
    made(folder / "result", mode=0o600)
    assert read_private(str(folder), "result") == b"x"
    made(folder / "result", mode=0o640)
    with pytest.raises(PermissionError, match=r"others may use it .mode 0640"):
        read_private(str(folder), "result")
    folder.chmod(0o750)
    with pytest.raises(PermissionError, match=r"others may use it .mode 0750"):
        read_private(str(folder), "result")
