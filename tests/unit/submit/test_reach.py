"""Frames, paths that a hostile node names, and what becomes of files that are here already."""

from __future__ import annotations

import os
import string
import time
import types
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umiak.core.cluster import Role
from umiak.core.job import Handle
from umiak.core.problem import UmiakError
from umiak.core.status import NodeStatus, State
from umiak.submit.backend import JobNode, RunFileRoots
from umiak.submit.node import session_frames as frames
from umiak.submit.node.session_frames import is_wanted, may_hold
from umiak.submit.reach import command, fetch_plan, nodes, session
from umiak.submit.reach.fetch_files import FetchTarget
from umiak.submit.reach.fetch_plan import FetchedBefore, FetchVerdict, FileHere, NodeFile
from umiak.submit.reach.fetching import Fetch
from umiak.submit.reach.session import NodeGone, NodeSession

KINDS = st.sampled_from([frames.STDOUT, frames.STDERR, frames.DATA, frames.EXIT])
PARTS = st.text(st.sampled_from(string.ascii_lowercase[:3] + "."), min_size=0, max_size=3)
PATHS = st.lists(PARTS, max_size=4).map("/".join)


@given(st.lists(st.tuples(KINDS, st.binary(max_size=50))), st.integers(1, 30))
def test_frames_are_the_same_however_they_are_cut(sent: list[tuple[bytes, bytes]], step: int) -> None:
    data = b"".join(frames.frame(kind, payload) for kind, payload in sent)
    parser = frames.FrameParser()
    assert [each for start in range(0, len(data), step) for each in parser.feed(data[start : start + step])] == sent


def test_a_frame_that_is_too_long_is_none() -> None:
    with pytest.raises(ValueError, match="at most"):
        frames.FrameParser().feed(b"o\xff\xff\xff\xff")


@given(st.lists(st.tuples(PATHS, st.none() | PATHS | PATHS.map("/{}".format) | PATHS.map("../{}".format))))
def test_whatever_a_node_names_stays_in_its_directory(named: list[tuple[str, str | None]]) -> None:
    """Every file that is taken is written for real, with its links: nothing lies, or leads, outside."""
    import tempfile

    files = [NodeFile(path=path, size_bytes=0, target=target) for path, target in named]
    inside, _ = fetch_plan.inside_links(files)
    good, _ = fetch_plan.safe_files("node0", inside)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory, "deep", "er")
        root.mkdir(parents=True)
        target = FetchTarget(str(root))
        for file in good:
            path = f"node0/{file.path}"
            assert target.seen(path) is None
            if file.target is not None:
                target.link(path, file)
            else:
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).touch()
        target.close()
        own = os.path.realpath(root / "node0")
        for below, names, others in os.walk(root / "node0"):
            for name in (*names, *others):
                assert os.path.realpath(os.path.join(below, name)).startswith(f"{own}") or name == ".umiak-fetch.jsonl"
        assert sorted(os.listdir(directory)) == ["deep"]
        assert os.listdir(Path(directory, "deep")) == ["er"]


@pytest.mark.parametrize(
    ("file", "here", "before", "verdict"),
    [
        (NodeFile(path="w/a", size_bytes=3, mtime_ns=5), None, None, FetchVerdict.NEW),
        (
            NodeFile(path="w/a", size_bytes=3, mtime_ns=5),
            FileHere(size_bytes=3, mtime_ns=5),
            None,
            FetchVerdict.UNCHANGED,
        ),
        (
            NodeFile(path="w/a", size_bytes=3, mtime_ns=5),
            FileHere(size_bytes=3, mtime_ns=6),
            None,
            FetchVerdict.CONFLICT,
        ),
        (
            NodeFile(path="w/a", size_bytes=9, mtime_ns=9),
            FileHere(size_bytes=3, mtime_ns=4),
            FetchedBefore(size_bytes=3, there_ns=5, here_ns=4),
            FetchVerdict.UPDATED,
        ),
        (
            NodeFile(path="w/a", size_bytes=9, mtime_ns=9),
            FileHere(size_bytes=3, mtime_ns=7),
            FetchedBefore(size_bytes=3, there_ns=5, here_ns=4),
            FetchVerdict.CONFLICT,
        ),
        (NodeFile(path="w/a", size_bytes=1, target="b"), FileHere(target="b"), None, FetchVerdict.UNCHANGED),
        (NodeFile(path="w/a", size_bytes=1, target="b"), FileHere(target="c"), None, FetchVerdict.CONFLICT),
        (NodeFile(path="w/a", size_bytes=1), FileHere(is_other=True), None, FetchVerdict.CONFLICT),
    ],
)
def test_what_becomes_of_a_file(
    file: NodeFile, here: FileHere | None, before: FetchedBefore | None, verdict: FetchVerdict
) -> None:
    assert fetch_plan.verdict_of(file, here, before) is verdict


@pytest.mark.parametrize(
    ("path", "patterns", "is_meant"),
    [
        ("work/out/model", ("out",), True),
        ("work/out/model", ("work/out",), True),
        ("work/out/model", ("ou",), False),
        ("work/a/b.json", ("*.json",), True),
        ("log/0/workerlog.0", ("log",), True),
        ("work/log/x", ("log",), True),
        ("work/x", (), True),
    ],
)
def test_which_files_a_path_means(path: str, patterns: tuple[str, ...], is_meant: bool) -> None:
    assert is_wanted(path, patterns) is is_meant


@given(PATHS, st.lists(PATHS.filter(bool), min_size=1, max_size=2))
def test_a_directory_that_holds_a_wanted_file_is_looked_through(path: str, patterns: list[str]) -> None:
    parts = f"work/{path}".split("/")
    if is_wanted("/".join(parts), tuple(patterns)):
        assert all(may_hold("/".join(parts[:count]), tuple(patterns)) for count in range(1, len(parts)))


def test_nodes_are_known_by_name_and_number() -> None:
    run = [JobNode(run_id="r", name="node7"), JobNode(run_id="r", name="0")]
    assert nodes.chosen(run, "node7") is run[0]
    assert nodes.chosen(run, "0") is run[1]
    assert nodes.chosen(run, "1") is run[1]
    with pytest.raises(UmiakError, match="node8"):
        nodes.chosen(run, "node8")


@pytest.mark.parametrize("backend", sorted(nodes.INSTEAD))
def test_places_that_can_not_say_what_to_do_instead(backend: str) -> None:
    with pytest.raises(UmiakError) as caught:
        nodes.reachable(object(), Handle(backend=backend, place="there", id="x"))  # type: ignore[arg-type]
    problem = caught.value.problems[0]
    why, hint = nodes.INSTEAD[backend]
    assert (problem.code, problem.why) == ("UM-SUBMIT-390", why)
    assert problem.hint == hint.replace("{handle}", f"{backend}://there/x")


def test_the_node_of_a_link_is_chosen_as_that_of_a_command() -> None:
    found = [
        NodeStatus(name=f"{role.value}.{rank}", role=role, rank=rank, state=State.RUNNING)
        for role, rank in ((Role.SERVER, 0), (Role.TRAINER, 0), (Role.TRAINER, 1))
    ]

    def chosen(node: str = "", role: str = "", rank: int | None = None) -> str:
        return nodes.chosen_status(found, node, role, rank).name

    assert chosen() == "trainer.0"
    assert chosen(rank=1) == "trainer.1"
    assert chosen(role="server") == "server.0"
    assert chosen("trainer.1") == chosen("2") == "trainer.1"
    for node, rank in (("trainer.7", None), ("", 7)):
        with pytest.raises(UmiakError, match="7"):
            chosen(node, rank=rank)


class FakeNode:
    """A node that says what a test wants."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = [frames.HELLO, *answers]

    def read(self) -> bytes:
        return self.answers.pop(0) if self.answers else b""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...

    def last_words(self) -> str:
        return "srun: error: node0"


class QuietNode(FakeNode):
    """Half an hour in which a command prints nothing, and the node answers pings."""

    now_s = 0.0

    def read(self) -> bytes:
        QuietNode.now_s += 100
        if len(self.answers) == 1:
            time.sleep(1.5)  # the other thread looks once a second whether anybody is there
        return super().read()


def test_a_command_that_prints_nothing_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = types.SimpleNamespace(monotonic=lambda: QuietNode.now_s)
    monkeypatch.setattr(command, "time", quiet)
    monkeypatch.setattr(session, "time", quiet)
    pongs = [frames.frame(frames.PONG)] * 18
    end = frames.json_frame(frames.EXIT, {"code": 5})
    node = QuietNode(frames.json_frame(frames.STARTED, {"pid": 1}), *pongs, end)
    assert command.NodeCommand(NodeSession("node0", node), lambda _, __: None).run({"words": ["true"]}).code == 5


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"garbage that is no frame",
        frames.frame(frames.ANSWER, b"[]"),
        frames.json_frame(frames.ANSWER, {"workers": 3}),
    ],
)
def test_a_node_that_talks_nonsense_is_lost(answer: bytes) -> None:
    with pytest.raises(NodeGone) as caught:
        NodeSession("node0", FakeNode(answer)).workers("run")
    assert caught.value.problems[0].code == "UM-SUBMIT-392"


def test_what_is_printed_before_the_program_begins_is_told_if_it_does_not() -> None:
    fake = FakeNode()
    fake.answers = [b"module: command not found\n"]
    with pytest.raises(NodeGone) as caught:
        NodeSession("node0", fake)
    problem = caught.value.problems[0]
    assert problem.code == "UM-SUBMIT-403"
    assert "srun: error: node0; module: command not found" in str(problem.why)


class HostileBackend:
    """A node that lists what it should not, and sends more than it said."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = answers

    def nodes(self, _: Handle) -> list[JobNode]:
        return []

    def files(self, _: Handle) -> list[RunFileRoots]:
        return [RunFileRoots(name="node0", node=JobNode(run_id="r", name="node0"))]

    def open(self, _: JobNode) -> FakeNode:
        return FakeNode(*self.answers)


END = frames.json_frame(frames.END, {"left_out": {}, "counts": {}})
HANDLE = Handle(backend="ssh", place="lab", id="r")


def test_a_hostile_listing_leaves_the_good_files(tmp_path: Path) -> None:
    bad = ["/etc/cron.d/x", "../x", "work/../../x", "work//x", "work/a", "work/a", "work/a/b", "x", "work/" + "n" * 300]
    rows = [[path, 0, 0, 0o644, None] for path in bad]
    opened = frames.json_frame(frames.OPENED, {"size": 0, "mtime_ns": 10**30, "offset": 0})
    backend = HostileBackend(frames.json_frame(frames.ENTRIES, rows), END, opened, frames.json_frame(frames.END, {}))
    with Fetch(backend, HANDLE, str(tmp_path / "here")) as fetch:
        result = fetch.bring()
    assert [each.file.path for each in result.done] == ["work/a"]
    assert {each.code for each in result.problems} == {"UM-SUBMIT-395"}
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == [
        "here/.umiak-fetch.jsonl",
        "here/node0/work/a",
    ]


def test_a_node_that_sends_too_much_leaves_no_file(tmp_path: Path) -> None:
    rows = frames.json_frame(frames.ENTRIES, [["work/a", 3, 1, 0o600, None]])
    opened = frames.json_frame(frames.OPENED, {"size": 3, "mtime_ns": 1, "offset": 0})
    backend = HostileBackend(rows, END, opened, frames.frame(frames.DATA, b"12345"))
    with Fetch(backend, HANDLE, str(tmp_path / "here")) as fetch:
        result = fetch.bring()
    assert [each.code for each in result.problems] == ["UM-SUBMIT-392"]
    assert not (tmp_path / "here" / "node0" / "work" / "a").exists()


def test_a_private_file_stays_private(tmp_path: Path) -> None:
    rows = frames.json_frame(frames.ENTRIES, [["work/a", 3, 1, 0o600, None]])
    opened = frames.json_frame(frames.OPENED, {"size": 3, "mtime_ns": 1, "offset": 0})
    backend = HostileBackend(rows, END, opened, frames.frame(frames.DATA, b"123"), frames.json_frame(frames.END, {}))
    with Fetch(backend, HANDLE, str(tmp_path / "here")) as fetch:
        assert not fetch.bring().problems
    seen = (tmp_path / "here" / "node0" / "work" / "a").stat()
    assert (seen.st_mode & 0o777, seen.st_mtime_ns) == (0o600, 1)


def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here" / "node0").symlink_to(tmp_path / "elsewhere")
    rows = frames.json_frame(frames.ENTRIES, [["work/a", 3, 1, 0o600, None]])
    with (
        Fetch(HostileBackend(rows, END), HANDLE, str(tmp_path / "here"), overwrites=True) as fetch,
        pytest.raises(UmiakError, match="another file is here"),
    ):
        fetch.bring()
    assert not list((tmp_path / "elsewhere").iterdir())
