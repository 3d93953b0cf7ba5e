"""The files of a job: which ones, as git has it; how they are packed; what a node refuses to unpack."""

from __future__ import annotations

import gzip
import io
import os
import random
import socket
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import chance
from tests.support.effort import times
from umiak.core.job import FileSet
from umiak.core.problem import UmiakError
from umiak.submit.payload import file_set, ignore_rules, unpack
from umiak.submit.payload.file_manifest import FileKind, FileManifest, SentFile, is_target_inside

NO_GIT_SETTINGS = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
}


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the git settings of the person who runs the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name, text in NO_GIT_SETTINGS.items():
        if name.startswith("GIT"):
            monkeypatch.setenv(name, text)


@pytest.fixture
def tree(tmp_path: Path) -> Callable[..., Path]:
    """A directory with these files."""

    def make(name: str = "tree", **files: str) -> Path:
        root = tmp_path / name
        root.mkdir(exist_ok=True)
        for path, text in files.items():
            write(root, path.replace("__", "/"), text)
        return root

    return make


def write(root: Path, path: str, text: str = "") -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def git(root: Path, *words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=root, env=NO_GIT_SETTINGS, capture_output=True, check=True)
    return sorted(os.fsdecode(name) for name in done.stdout.split(b"\0") if name)


def found(root: Path, **said: Any) -> list[str]:
    return [each.path for each in file_set.collect(FileSet(**said), str(root)).manifest.files]


def problem_of(act: Callable[[], object]) -> str:
    with pytest.raises(UmiakError) as refused:
        act()
    return "\n".join(line for problem in refused.value.problems for line in problem.lines())


# ---- which files: as git

NAMES = ("a", "b", "ab", "a.log", "b.log", "build", "x y", "é", "[a]", "a*b", "#a", "!b", "Ab")
PARTS = ("a", "b", "*", "**", "?", "a*", "*.log", "[ab]", "[!a]", "[a-b]*", "[[:lower:]]", "build", "x y", "\\#a", "\\!b", "é", "??",
         "[]a]", "[b-a]", "\\[a\\]", "a\\*b", "***", "[^b]*", "[a", "x\\ y")  # fmt: skip


def random_tree(draw: random.Random, root: Path) -> None:
    for _ in range(draw.randrange(5, 25)):
        parts = [draw.choice(NAMES) for _ in range(draw.randrange(1, 5))]
        path = root.joinpath(*parts)
        if not any(each.exists() and not each.is_dir() for each in path.parents) and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
    directories = [root, *(path for path in root.rglob("*") if path.is_dir() and ".git" not in path.parts)]
    for directory in draw.sample(directories, min(len(directories), draw.randrange(1, 4))):
        (directory / ".gitignore").write_text("".join(f"{random_line(draw)}\n" for _ in range(draw.randrange(1, 6))))


def random_line(draw: random.Random) -> str:
    parts = [draw.choice(PARTS) for _ in range(draw.choice((1, 1, 1, 2, 2, 3)))]
    line = draw.choice(("", "", "", "!")) + draw.choice(("", "", "/")) + "/".join(parts) + draw.choice(("", "", "/"))
    return line + draw.choice(("", "", "", " ", "\r", "\\ ", "\t"))


def test_random_trees_give_what_git_gives(tmp_path: Path) -> None:
    draw = chance()
    for number in range(times(120)):
        root = tmp_path / str(number)
        root.mkdir()
        git(root, "init", "-q")
        random_tree(draw, root)
        expected = git(root, "ls-files", "-z", "-co", "--exclude-standard")
        rules = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob(".gitignore")}
        assert sorted(found(root)) == expected, f"{rules} in {root}"


def test_directories_above_and_the_repositorys_own_rules_count(tree: Callable[..., Path]) -> None:
    root = tree(
        **{".gitignore": "*.log\n/job/top\n", "job__a.py": "", "job__a.log": "", "job__top": "", "job__mine": ""}
    )
    git(root, "init", "-q")
    write(root, ".git/info/exclude", "mine\n")
    assert found(root / "job") == ["a.py"] == git(root / "job", "ls-files", "-z", "-co", "--exclude-standard")


def test_what_is_tracked_is_sent_though_it_is_ignored(tree: Callable[..., Path]) -> None:
    root = tree(**{".gitignore": "*.bin\n", "model.bin": "1", "other.bin": "2", "a.py": ""})
    git(root, "init", "-q")
    git(root, "add", "-f", "model.bin")
    assert found(root) == [".gitignore", "a.py", "model.bin"]
    assert found(root, exclude=("*.bin",)) == [".gitignore", "a.py"]


def test_a_directory_that_is_no_repository(tree: Callable[..., Path]) -> None:
    assert found(tree(**{".gitignore": "*.log\n", "a.log": "", "sub__b.py": ""})) == [".gitignore", "sub/b.py"]


def test_the_files_of_a_repository_inside_are_sent_and_its_history_is_not(tree: Callable[..., Path]) -> None:
    root = tree(a="", lib__b="")
    git(root / "lib", "init", "-q")
    assert found(root) == ["a", "lib/b"]


def test_patterns(tree: Callable[..., Path]) -> None:
    root = tree(
        **{".gitignore": "*.log\n", "a.py": "", "a.log": "", "src__b.py": "", "src__deep__c.txt": "", "d.txt": ""}
    )
    assert found(root, include=("*.py",)) == ["a.py", "src/b.py"]
    assert found(root, include=("*.log", "src/")) == ["a.log", "src/b.py", "src/deep/c.txt"]
    assert found(root, include=("src/**",), exclude=("*.txt",)) == ["src/b.py"]
    assert found(root, exclude=("src",)) == [".gitignore", "a.py", "d.txt"]


def test_a_rule_is_read_as_it_is_written() -> None:
    rules = ignore_rules.parse("/top\ndir/\na/**/z\n", "")
    for path, is_directory, expected in (
        ("top", False, True), ("sub/top", False, False), ("dir", False, False), ("sub/dir", True, True),
        ("a/z", False, True), ("a/b/c/z", False, True), ("b/a/z", False, False),
    ):  # fmt: skip
        assert ignore_rules.is_ignored(rules, path, is_directory=is_directory) is expected, path


# ---- what is refused, and what is warned of


def test_links(tree: Callable[..., Path], tmp_path: Path) -> None:
    root = tree(**{"a.py": "1", "sub__b.py": ""})
    (root / "inside").symlink_to("a.py")
    (root / "sub" / "up").symlink_to("../a.py")
    (root / "absolute").symlink_to(root / "sub" / "b.py")
    (root / "directory").symlink_to("sub")
    (root / "nowhere").symlink_to("missing")
    (root / "detour").symlink_to("sub/../a.py")
    targets = {each.path: each.target for each in file_set.collect(FileSet(), str(root)).manifest.files if each.target}
    assert targets == {
        "absolute": "sub/b.py",
        "detour": "a.py",
        "directory": "sub",
        "inside": "a.py",
        "nowhere": "missing",
        "sub/up": "../a.py",
    }
    (root / "out").symlink_to("/etc/passwd")
    (root / "sub" / "above").symlink_to("../../elsewhere")
    said = problem_of(lambda: file_set.collect(FileSet(), str(root)))
    assert said.count("UM-SUBMIT-056") == 2
    assert "out -> /etc/passwd" in said
    assert "sub/above -> ../../elsewhere" in said
    assert found(root, exclude=("out", "above"))


def test_sockets_and_pipes_are_not_sent(tree: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(a="")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as sock:
        monkeypatch.chdir(root)
        sock.bind("socket")
    assert found(root) == ["a"]


def test_a_limit_names_the_largest(tree: Callable[..., Path]) -> None:
    root = tree(small="1", large="x" * 5000, sub__larger="x" * 9000)
    said = problem_of(lambda: file_set.collect(FileSet(), str(root), most_bytes=10_000))
    assert "too much to send: 3 files with 13.7 KiB" in said
    assert "sub/larger (8.8 KiB), large (4.9 KiB), small (1 bytes)" in said
    assert "UM-SUBMIT-054" in problem_of(lambda: file_set.collect(FileSet(), str(root), most_files=2))


PRIVATE_KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNz\n"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
SECRETS = {
    ".env": "PASSWORD=x",
    "sub/.ENV.local": "PASSWORD=x",
    "home/id_rsa": "x",
    ".ssh/deploy": PRIVATE_KEY,
    "certs/server.pem": CERTIFICATE + "-----BEGIN RSA PRIVATE KEY-----\n",
    "tls.key": "-----BEGIN EC PRIVATE KEY-----\n",
    "raw.key": "\x02\x03",
    "store.p12": "x",
    "hdfs.keytab": "x",
    ".netrc": "machine a",
    ".npmrc": "//registry.npmjs.org/:_authToken=npm_x",
    ".pypirc": "[pypi]\npassword = x\n",
    ".git-credentials": "https://a:b@c",
    "a/.aws/credentials": "aws_secret_access_key=x",
    "credentials.json": '{"client_secret": "x"}',
    "sa/ctr-4711.json": '{"private_key": "-----BEGIN PRIVATE KEY-----"}',
    "kubeconfig.yaml": "users: [{user: {client-key-data: x}}]",
    ".kube/config": "users: [{user: {token: x}}]",
    ".docker/config.json": '{"auths": {"a": {"auth": "x"}}}',
}
HARMLESS = {
    ".env.example": "PASSWORD=",
    "empty/.env": "",
    "ca.pem": CERTIFICATE,
    "public.key": "-----BEGIN PUBLIC KEY-----\n",
    "id_rsa.pub": "ssh-rsa AAAA",
    "monkey.py": "KEY = '-----BEGIN PRIVATE KEY-----'",
    "plain/.npmrc": "fund=false",
    "config.json": '{"lr": 0.1}',
    "environment.yml": "x",
    "tokens.txt": "the a an",
    "model.keys": "x",
}


def test_files_that_look_like_secrets_are_an_error_that_names_them_all(tree: Callable[..., Path]) -> None:
    root = tree()
    for path, text in {**SECRETS, **HARMLESS}.items():
        write(root, path, text)
    with pytest.raises(UmiakError) as refused:
        file_set.collect(FileSet(), str(root))
    (problem,) = refused.value.problems
    assert problem.code == "UM-SUBMIT-057"
    named = {each.partition(" (")[0] for each in problem.what.partition("nodes: ")[2].split("), ")}
    assert named == set(SECRETS)
    assert problem.what.startswith(f"{len(SECRETS)} files")
    assert "npm_x" not in problem_of(lambda: file_set.collect(FileSet(), str(root)))


def test_files_that_look_like_secrets_travel_if_somebody_says_so(tree: Callable[..., Path]) -> None:
    root = tree(train="1")
    for path, text in SECRETS.items():
        write(root, path, text)
    assert found(root, allow_secret_files=True) == sorted(["train", *SECRETS])
    assert found(root, include=(".env", "certs/*.pem", "train")) == [".env", "certs/server.pem", "train"]
    for pattern in ("*", "certs/", "certs/*", "**"):  # whatever is there: nobody has named them
        assert "UM-SUBMIT-057" in problem_of(lambda pattern=pattern: found(root, include=(pattern,)))


def test_an_ignore_file_of_umiak_keeps_files_back_also_those_that_git_tracks(tree: Callable[..., Path]) -> None:
    root = tree(a="1", b="2", sub__a="3")
    write(root, ".umiakignore", "/a\n*.pem\n.umiakignore\n")
    write(root, "sub/x.pem", PRIVATE_KEY)
    git(root, "init", "-q")
    git(root, "add", "--all")
    assert found(root) == ["b", "sub/a"]
    assert found(root, include=("a", "*.pem")) == ["sub/a"]


def test_a_missing_directory(tmp_path: Path) -> None:
    assert "UM-SUBMIT-053" in problem_of(lambda: file_set.collect(FileSet(root="nowhere"), str(tmp_path)))


# ---- the hash and the archive


def test_the_hash_is_of_paths_modes_and_bytes(tree: Callable[..., Path]) -> None:
    def digest(change: Callable[[Path], object] = lambda _root: None) -> str:
        root = tree(f"tree{next(numbers)}", a="1", sub__b="2")
        change(root)
        return file_set.collect(FileSet(), str(root)).manifest.digest

    numbers = iter(range(100))
    same = digest()
    assert digest() == same
    assert digest(lambda root: (root / "a").chmod(0o600)) == same
    assert digest(lambda root: os.utime(root / "a", (1, 1))) == same
    others = [
        digest(lambda root: (root / "a").chmod(0o755)),
        digest(lambda root: (root / "a").write_text("2")),
        digest(lambda root: (root / "a").rename(root / "c")),
        digest(lambda root: (root / "sub" / "b").unlink()),
        digest(lambda root: (root / "c").symlink_to("a")),
    ]
    assert len({same, *others}) == 6


def packed(root: Path, target: Path) -> file_set.FoundFiles:
    collected = file_set.collect(FileSet(), str(root))
    file_set.pack(collected, str(target))
    return collected


def test_the_same_files_give_the_same_archive(tree: Callable[..., Path], tmp_path: Path) -> None:
    for name in ("one", "two"):
        root = tree(name, a="1", sub__b="2")
        os.utime(root / "a", (len(name) * 1000, 5))
        packed(root, tmp_path / f"{name}.tar.gz")
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()


@pytest.mark.parametrize("text", ["longer", "2", ""])
def test_a_file_that_changes_meanwhile_is_an_error(tree: Callable[..., Path], tmp_path: Path, text: str) -> None:
    root = tree(a="1")
    collected = file_set.collect(FileSet(), str(root))
    (root / "a").write_text(text)
    assert "UM-SUBMIT-058" in problem_of(lambda: file_set.pack(collected, str(tmp_path / "x.tar.gz")))
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == []


# ---- unpacking


def test_what_arrives_is_what_was_sent(tree: Callable[..., Path], tmp_path: Path) -> None:
    root = tree(**{"a.py": "1", "sub__deep__b": "2", "empty": "", "x" * 120 + "__" + "y" * 120: "long"})
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "sub" / "link").symlink_to("deep/b")
    os.close(os.open(os.fsencode(root) + b"/not-utf8-\xff", os.O_CREAT | os.O_WRONLY))
    sent = packed(root, tmp_path / "x.tar.gz")
    directory = unpack.unpack(sent.manifest.digest, str(tmp_path / "store"), str(tmp_path / "x.tar.gz"))
    assert file_set.collect(FileSet(), directory).manifest == sent.manifest
    assert (tmp_path / "store").stat().st_mode & 0o777 == 0o700
    assert os.listdir(tmp_path / "store") == [sent.manifest.digest]
    # The second time nobody needs the archive.
    (tmp_path / "x.tar.gz").unlink()
    assert unpack.unpack(sent.manifest.digest, str(tmp_path / "store")) == directory
    unpack.copy(directory, str(tmp_path / "run"))
    (tmp_path / "run" / "a.py").write_text("changed by a job")
    assert file_set.collect(FileSet(), directory).manifest == sent.manifest


def test_a_node_that_does_not_have_it_says_so(tmp_path: Path) -> None:
    assert "UM-SUBMIT-059" in problem_of(lambda: unpack.unpack("0" * 64, str(tmp_path)))
    assert "UM-SUBMIT-060" in problem_of(lambda: unpack.unpack("../x", str(tmp_path)))


def test_a_torn_archive_leaves_nothing(tree: Callable[..., Path], tmp_path: Path) -> None:
    draw = chance()
    root = tree(a="".join(map(chr, (draw.randrange(32, 127) for _ in range(5000)))), b="2" * 3000, c="3")
    digest = packed(root, tmp_path / "x.tar.gz").manifest.digest
    whole = (tmp_path / "x.tar.gz").read_bytes()
    torn = [whole[:count] for count in (0, 1, 10, len(whole) // 2, len(whole) * 3 // 4)]
    position = draw.randrange(300, 3000)  # in the text of the first file
    torn.append(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
    other = tree("other", a="1")
    packed(other, tmp_path / "other.tar.gz")
    torn.append((tmp_path / "other.tar.gz").read_bytes())
    for data in torn:
        (tmp_path / "torn").write_bytes(data)
        said = problem_of(lambda: unpack.unpack(digest, str(tmp_path / "store"), str(tmp_path / "torn")))
        assert "UM-SUBMIT-060" in said
        assert os.listdir(tmp_path / "store") == []


def hostile(*members: tuple[str, bytes, str]) -> bytes:
    made = io.BytesIO()
    with gzip.GzipFile("", "wb", fileobj=made) as zipped, tarfile.open(fileobj=zipped, mode="w") as archive:
        for name, kind, target in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, target, 1 if kind == tarfile.REGTYPE else 0
            archive.addfile(member, io.BytesIO(b"x"))
    return made.getvalue()


FILE, LINK = tarfile.REGTYPE, tarfile.SYMTYPE


@pytest.mark.parametrize(
    "members",
    [
        [("../out", FILE, "")],
        [("/tmp/umiak-out", FILE, "")],
        [("a/../../out", FILE, "")],
        [("./a", FILE, "")],
        [("a", LINK, "/etc")],
        [("a", LINK, "..")],
        [("a/b", LINK, "../../out")],
        [("l", LINK, "d"), ("l/x", FILE, "")],
        [("p/q/l", LINK, ".."), ("m", LINK, "p/q/l/../../..")],
        [("a", tarfile.LNKTYPE, "/etc/passwd")],
        [("a", tarfile.CHRTYPE, "")],
        [("a", tarfile.FIFOTYPE, "")],
        [("a", FILE, ""), ("a", FILE, "")],
        [("a", FILE, ""), ("a/b", FILE, "")],
    ],
    ids=lambda members: " ".join(f"{name}-{target}" for name, _, target in members),
)
def test_hostile_archives(tmp_path: Path, members: list[tuple[str, bytes, str]]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x").write_bytes(hostile(*members))
    store = tmp_path / "in" / "store"
    said = problem_of(lambda: unpack.unpack("0" * 64, str(store), str(tmp_path / "in" / "x")))
    assert "UM-SUBMIT-060" in said or "UM-SUBMIT-061" in said
    assert os.listdir(store) == []
    assert sorted(os.listdir(tmp_path / "in")) == ["store", "x"]
    assert os.listdir(tmp_path) == ["in"]


def test_a_hostile_archive_that_has_its_hash_right(tmp_path: Path) -> None:
    """A path through a link, whose digest the sender gives as well: the hash proves who sent it, not that it is harmless."""
    (tmp_path / "x").write_bytes(hostile(("l", LINK, "d"), ("l/x", FILE, "")))
    entries = (SentFile(path="l/x", kind=FileKind.FILE, sha256="", size_bytes=1),)
    digest = FileManifest(files=entries).digest
    assert problem_of(lambda: unpack.unpack(digest, str(tmp_path / "store"), str(tmp_path / "x")))
    assert os.listdir(tmp_path / "store") == []


def test_targets() -> None:
    assert is_target_inside("a/b/c", "../../x")
    assert is_target_inside("a/b/c", "../..")
    assert not is_target_inside("a/b/c", "../../..")
    assert not is_target_inside("a", "b/../c")
    assert not is_target_inside("a", "")


def test_two_nodes_that_share_a_disk_unpack_at_once(tree: Callable[..., Path], tmp_path: Path) -> None:
    root = tree(**{f"f{number}": str(number) for number in range(200)})
    digest = packed(root, tmp_path / "x.tar.gz").manifest.digest
    command = [sys.executable, "-m", "umiak.submit.payload.unpack", digest, str(tmp_path / "store")]
    nodes = []
    for _ in range(4):
        with open(tmp_path / "x.tar.gz", "rb") as archive:
            nodes.append(subprocess.Popen([*command, "-"], stdin=archive, stdout=subprocess.PIPE, text=True))
    assert {node.communicate()[0] for node in nodes} == {f"{tmp_path}/store/{digest}\n"}
    assert os.listdir(tmp_path / "store") == [digest]
    assert len(os.listdir(tmp_path / "store" / digest)) == 200
