"""Data in and out for real: an S3 server that checks signatures, WebHDFS over a socket, a `hadoop` command, directories."""

from __future__ import annotations

import http.server
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from testbed import moto_server
from testbed.pytest_support import require
from umiak.adapters.stores import http_retry
from umiak.adapters.stores.s3 import VENDORS, S3Store
from umiak.core.problem import UmiakError
from umiak.submit.payload import transfer

NAMES = ("part-0", "deep/part 1", "deep/ä+&=#?%", "empty")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait between two attempts, but not for long."""
    repeat = http_retry.repeat
    monkeypatch.setattr(http_retry, "repeat", lambda act, first_delay_s: repeat(act, first_delay_s=0.001))


@pytest.fixture(scope="module")
def s3_of_all() -> Iterator[moto_server.S3Server]:
    require(moto_server.available())
    with moto_server.server() as running:
        yield running


@pytest.fixture
def s3(s3_of_all: moto_server.S3Server) -> moto_server.S3Server:
    s3_of_all.faults.clear()
    return s3_of_all


def make(root: Path) -> dict[str, bytes]:
    """Some files, and what is in them."""
    texts = {name: b"" if name == "empty" else os.urandom(2000) for name in NAMES}
    for name, data in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return texts


def content(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def refused(words: list[str], environ: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "umiak.submit.payload.transfer", *words],
        env={**environ, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3, done
    return done.stderr


def bring_there_and_back(url: str, tmp_path: Path, environ: dict[str, str]) -> None:
    texts = make(tmp_path / "out")
    transfer.bring_out(str(tmp_path / "out"), f"{url}/day1", environ)
    transfer.bring_out(str(tmp_path / "out" / "part-0"), f"{url}/day10", environ)  # no part of day1
    transfer.bring_in(f"{url}/day1", str(tmp_path / "in" / "day1"), environ)
    assert content(tmp_path / "in" / "day1") == texts
    transfer.bring_in(f"{url}/day1/part-0", str(tmp_path / "in" / "one"), environ)
    assert (tmp_path / "in" / "one").read_bytes() == texts["part-0"]
    assert sorted(os.listdir(tmp_path / "in")) == ["day1", "one"]
    # Over what is there: outputs replace, inputs stay.
    (tmp_path / "out" / "part-0").write_bytes(b"newer")
    transfer.bring_out(str(tmp_path / "out"), f"{url}/day1", environ)
    transfer.bring_in(f"{url}/day1", str(tmp_path / "in" / "day1"), environ)
    assert (tmp_path / "in" / "day1" / "part-0").read_bytes() == texts["part-0"]
    transfer.bring_in(f"{url}/day1", str(tmp_path / "again"), environ)
    assert (tmp_path / "again" / "part-0").read_bytes() == b"newer"
    with pytest.raises(UmiakError, match="there is nothing"):
        transfer.bring_in(f"{url}/nowhere", str(tmp_path / "nothing"), environ)
    assert not (tmp_path / "nothing").exists()


# ---- directories


def test_directories(tmp_path: Path) -> None:
    bring_there_and_back(str(tmp_path / "shared"), tmp_path, {})
    assert not list((tmp_path / "shared").rglob("*.part"))


def test_file_urls(tmp_path: Path) -> None:
    bring_there_and_back(f"file://{tmp_path}/shared", tmp_path, {})


def test_other_schemes_through_fsspec(tmp_path: Path) -> None:
    make(tmp_path / "out")
    transfer.bring_out(str(tmp_path / "out"), "memory://transfers/day1", {})
    transfer.bring_in("memory://transfers/day1", str(tmp_path / "in"), {})
    assert content(tmp_path / "in") == content(tmp_path / "out")


# ---- S3


def test_s3_with_checked_signatures(s3: moto_server.S3Server, tmp_path: Path) -> None:
    bring_there_and_back(f"s3://{moto_server.BUCKET}/plain", tmp_path, s3.environ)


@pytest.mark.parametrize("scheme", ["bos", "obs", "oss"])
def test_the_schemes_of_others_have_variables_of_their_own(
    s3: moto_server.S3Server, tmp_path: Path, scheme: str
) -> None:
    vendor = VENDORS[scheme]
    values = [s3.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")]
    environ = {
        **dict(zip(vendor.key_names, values, strict=True)),
        f"{vendor.prefix}_ENDPOINT": s3.environ["AWS_ENDPOINT_URL"],
        f"{vendor.prefix}_REGION": "us-east-1",
    }
    bring_there_and_back(f"{scheme}://{moto_server.BUCKET}/{scheme}", tmp_path, environ)


def test_buckets_are_a_part_of_the_hosts_name() -> None:
    hosts = {scheme: S3Store.of(f"{scheme}://b/k", {})._host for scheme in VENDORS}
    assert hosts == {
        "s3": "b.s3.us-east-1.amazonaws.com",
        "bos": "b.s3.bj.bcebos.com",
        "obs": "b.obs.cn-north-4.myhuaweicloud.com",
        "oss": "b.s3.oss-cn-hangzhou.aliyuncs.com",
    }


def test_more_objects_than_one_answer_has(s3: moto_server.S3Server, tmp_path: Path) -> None:
    store = S3Store.of(f"s3://{moto_server.BUCKET}/x", {**s3.environ, "AWS_ENDPOINT_URL": s3.direct})
    (tmp_path / "file").write_bytes(b"1")
    names = [f"many/{number:04}" for number in range(1100)]
    for name in names:
        store.put(str(tmp_path / "file"), name)
    assert [name for name, _ in store.list("many/")] == names


@pytest.mark.parametrize("fault", ["503", "reset", "cut", "lost"])
def test_what_fails_is_tried_again(s3: moto_server.S3Server, tmp_path: Path, fault: str) -> None:
    texts = make(tmp_path / "out")
    url = f"s3://{moto_server.BUCKET}/{fault}"
    s3.faults.extend([fault, "", fault, fault, ""])
    transfer.bring_out(str(tmp_path / "out"), url, s3.environ)
    s3.faults.extend([fault, "", fault, "", fault, "", fault])
    transfer.bring_in(url, str(tmp_path / "in"), s3.environ)
    assert content(tmp_path / "in") == texts


def test_a_server_that_does_not_answer_in_time_is_asked_again(s3: moto_server.S3Server, tmp_path: Path) -> None:
    keys = (s3.environ["AWS_ACCESS_KEY_ID"], s3.environ["AWS_SECRET_ACCESS_KEY"], "")
    endpoint = s3.environ["AWS_ENDPOINT_URL"]
    (tmp_path / "file").write_bytes(b"1")
    s3.faults.append("hang")
    impatient = S3Store(moto_server.BUCKET, endpoint, "us-east-1", keys, virtual_hosts=True, timeout_s=5)
    impatient.put(str(tmp_path / "file"), "hang/file")
    assert [name for name, _ in impatient.list("hang/")] == ["hang/file"]
    assert s3.faults == []


def test_what_fails_always_leaves_nothing(s3: moto_server.S3Server, tmp_path: Path) -> None:
    make(tmp_path / "out")
    url = f"s3://{moto_server.BUCKET}/torn"
    transfer.bring_out(str(tmp_path / "out"), url, s3.environ)
    s3.faults.extend(["", ""] + ["cut"] * 50)
    with pytest.raises(UmiakError, match="failed") as error:
        transfer.bring_in(url, str(tmp_path / "in"), s3.environ)
    assert "bytes of" in str(error.value.problems[0].why) or "IncompleteRead" in str(error.value.problems[0].why)
    assert sorted(os.listdir(tmp_path)) == ["out"]


def test_large_files_go_in_parts(s3: moto_server.S3Server, tmp_path: Path) -> None:
    keys = (s3.environ["AWS_ACCESS_KEY_ID"], s3.environ["AWS_SECRET_ACCESS_KEY"], "")
    store = S3Store(
        moto_server.BUCKET, s3.environ["AWS_ENDPOINT_URL"], "us-east-1", keys, virtual_hosts=True, part_bytes=5 << 20
    )
    data = os.urandom(12 << 20)
    (tmp_path / "large").write_bytes(data)
    s3.faults.extend(["", "", "503", "reset", ""])
    store.put(str(tmp_path / "large"), "large/file")
    store.get("large/file", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == data
    # One that fails for good: neither the object nor its parts stay.
    s3.faults.extend(["", "", *["503"] * 6])
    with pytest.raises(UmiakError):
        store.put(str(tmp_path / "large"), "large/other")
    assert [name for name, _ in store.list("large/")] == ["large/file"]
    assert b"<Upload>" not in store._ask("GET", "", {"uploads": ""})


def test_a_wrong_key_is_told_without_any_key(s3: moto_server.S3Server, tmp_path: Path) -> None:
    environ = {**s3.environ, "AWS_SECRET_ACCESS_KEY": "wrong-secret"}
    said = refused(["in", f"s3://{moto_server.BUCKET}/x", str(tmp_path / "x")], environ)
    assert "403" in said
    assert "SignatureDoesNotMatch" in said
    for secret in (s3.environ["AWS_ACCESS_KEY_ID"], "wrong-secret", "Signature=", "Credential"):
        assert secret not in said


# ---- WebHDFS: a stand-in that keeps files, with the two steps of the real one


class NameNode(http.server.ThreadingHTTPServer):
    """A name node and a data node in one."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Node)
        self.files: dict[str, bytes] = {}
        self.faults: list[str] = []
        self.users: set[str] = set()
        self.base = f"http://127.0.0.1:{self.server_address[1]}"


class _Node(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: NameNode

    def handle_any(self) -> None:
        self.close_connection = True
        parts, files = urlsplit(self.path), self.server.files
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path = unquote(parts.path).removeprefix("/webhdfs/v1")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.faults.pop(0) if self.server.faults else ""
        op = query["op"]
        self.server.users.add(query.get("user.name", ""))
        if fault == "503":
            return self.answer(503, b'{"RemoteException":{"exception":"StandbyException"}}')
        if fault == "reset":
            return None
        if op in ("OPEN", "CREATE") and "datanode" not in query:
            return self.answer(307, b"", Location=f"{self.server.base}{self.path}&datanode=1")
        if op == "CREATE":
            files[path] = body
            return self.answer(201, b"")
        if op == "OPEN" and path in files:
            return self.answer(200, files[path], cut=fault == "cut")
        if op == "DELETE":
            return self.answer(200, json.dumps({"boolean": files.pop(path, None) is not None}).encode())
        if op == "RENAME":
            can = path in files and query["destination"] not in files
            if can:
                files[query["destination"]] = files.pop(path)
            return self.answer(200, json.dumps({"boolean": can}).encode()) if fault != "lost" else None
        return self.list(path)

    def list(self, path: str) -> None:
        files = self.server.files
        below = {name[len(path) + 1 :] for name in files if name.startswith(f"{path}/")}
        rows = [
            {"pathSuffix": name, "type": "DIRECTORY" if name not in below else "FILE",
             "length": len(files.get(f"{path}/{name}", b""))}
            for name in {each.partition("/")[0] for each in below}
        ]  # fmt: skip
        if path in files:
            rows = [{"pathSuffix": "", "type": "FILE", "length": len(files[path])}]
        if not rows:
            return self.answer(404, b'{"RemoteException":{"exception":"FileNotFoundException"}}')
        return self.answer(200, json.dumps({"FileStatuses": {"FileStatus": rows}}).encode())

    def answer(self, status: int, data: bytes, *, cut: bool = False, **headers: str) -> None:
        self.send_response(status)
        for name, text in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if cut else data)

    do_GET = do_PUT = do_DELETE = handle_any  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def namenode() -> Iterator[NameNode]:
    with NameNode() as node:
        threading.Thread(target=node.serve_forever, daemon=True).start()
        yield node
        node.shutdown()


def test_webhdfs(namenode: NameNode, tmp_path: Path) -> None:
    url = namenode.base.replace("http://", "webhdfs://")
    bring_there_and_back(f"{url}/data", tmp_path, {"HADOOP_USER_NAME": "me"})
    assert namenode.users == {"me"}
    assert not [name for name in namenode.files if name.endswith(".part")]


@pytest.mark.parametrize("fault", ["503", "reset", "cut", "lost"])
def test_webhdfs_is_tried_again(namenode: NameNode, tmp_path: Path, fault: str) -> None:
    texts = make(tmp_path / "out")
    url = namenode.base.replace("http://", "webhdfs://") + "/data"
    namenode.faults.extend([fault, "", "", fault, fault, "", fault])
    transfer.bring_out(str(tmp_path / "out"), url, {})
    namenode.faults.extend([fault, "", "", "", fault, "", fault, "", fault])
    transfer.bring_in(url, str(tmp_path / "in"), {})
    assert content(tmp_path / "in") == texts
    assert not [name for name in namenode.files if name.endswith(".part")]


# ---- the hadoop command

HADOOP = """#!/bin/sh
# hadoop fs with files below $HDFS_ROOT
[ "$1" = fs ] || exit 64
shift
op=$1; shift
at() { echo "$HDFS_ROOT/${1#hdfs://nn/}"; }
case $op in
  -test) [ -e "$(at "$2")" ] ;;
  -ls) cd "$HDFS_ROOT" && find "${2#hdfs://nn/}" -type f -exec stat -c '-rw-r--r--   3 me me %s 2026-01-01 00:00 /%n' {} + ;;
  -get) cp "$(at "$1")" "$2" ;;
  -mkdir) mkdir -p "$(at "$2")" ;;
  -put) cp "$2" "$(at "$3")" ;;
  -rm) rm -f "$(at "$3")" ;;
  -mv) mv "$(at "$1")" "$(at "$2")" ;;
  *) exit 64 ;;
esac
"""


def test_hdfs_through_the_hadoop_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "hadoop"
    program.parent.mkdir()
    program.write_text(HADOOP)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "hdfs").mkdir()
    monkeypatch.setenv("HDFS_ROOT", str(tmp_path / "hdfs"))
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    bring_there_and_back("hdfs://nn/data", tmp_path, {})
    assert not list((tmp_path / "hdfs").rglob("*.part"))


def test_hdfs_without_the_command(tmp_path: Path) -> None:
    said = refused(["in", "hdfs://nn/data", str(tmp_path / "x")], {"HOME": str(tmp_path)})
    assert "needs the hadoop command" in said
    assert "webhdfs://" in said
