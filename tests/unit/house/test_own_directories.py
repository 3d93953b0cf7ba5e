"""What others have a hand in is neither run nor believed: the checks that nodes and shared directories get, with files of another user."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from umiak.core.bundle import Bundle, BundleFile
from umiak.core.problem import BadRequest, UmiakError
from umiak.launch import inject
from umiak.ps.environment import PsSeat
from umiak.ps.options import SessionOptions
from umiak.ps.servers import serving
from umiak.submit.backends.ray import node as ray_node
from umiak.submit.backends.shared import files, layout
from umiak.submit.backends.shared.files import SharedStore
from umiak.submit.node import control, own_directory
from umiak.submit.payload import check_text, launcher_file, launcher_start, node_check

STRANGER = 4711
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def checked(*words: str) -> subprocess.CompletedProcess[str]:
    """As a node does it: with nothing of umiak, and nothing of the directory where it begins."""
    argv = [sys.executable, "-I", "-S", "-c", check_text.command(), *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env={"PATH": os.defpath}, cwd="/")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made = tmp_path / "umiak" / "runs" / "ctr-1"
    made.mkdir(parents=True)
    (made / "umiak-launcher.pyz").write_bytes(b"the launcher")
    (made / "node.sh").write_text('echo "as $1 $2"\n')
    return made


SENT = hashlib.sha256(b"the launcher").hexdigest()


def test_a_node_runs_its_script_if_all_is_well(run: Path) -> None:
    done = checked(str(run), SENT, "-", "--", "node.sh", "trainer", "a b")
    assert (done.returncode, done.stdout, done.stderr) == (0, "as trainer a b\n", "")
    done = checked(str(run), SENT, "-", "--")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_root
@pytest.mark.parametrize("name", ["umiak-launcher.pyz", "node.sh", ".", "..", "../.."])
def test_a_node_runs_nothing_of_somebody_else(run: Path, name: str) -> None:
    os.chown(run / name, STRANGER, STRANGER)
    done = checked(str(run), SENT, "-", "--", "node.sh", "trainer")
    assert (done.returncode, done.stdout) == (3, "")
    where = os.path.normpath(run / name)
    assert f"because: {where} belongs to uid {STRANGER} (mode " in done.stderr
    assert f"others can change what would run here: {run}/" in done.stderr
    assert "[UM-SUBMIT-350]" in done.stderr
    assert f'trusted_directories = ["{where}"]' in done.stderr
    done = checked(str(run), SENT, "-", where, "--", "node.sh", "trainer")
    assert done.stdout == "as trainer \n"


@needs_root
def test_a_node_runs_nothing_in_a_working_directory_of_somebody_else(run: Path, tmp_path: Path) -> None:
    """/tmp/ctr is the user's where the job was submitted, and on a node somebody else's, with a train.py of theirs."""
    work = tmp_path / "ctr"
    work.mkdir()
    assert own_directory.if_own(str(work)) == str(work)
    assert checked(str(run), SENT, str(work), "--", "node.sh", "trainer").stdout == "as trainer \n"
    os.chown(work, STRANGER, STRANGER)
    done = checked(str(run), SENT, str(work), "--", "node.sh", "trainer")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"others can change what would run here: {work} [UM-SUBMIT-350]" in done.stderr
    assert own_directory.if_own(str(work)) == ""  # then it was chosen


def test_a_node_runs_no_launcher_but_the_one_that_was_sent(run: Path) -> None:
    done = checked(str(run), "0" * 64, "-", "--", "node.sh", "trainer")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"its content hash is {SENT}, and {'0' * 64} was sent" in done.stderr
    assert "UM-SUBMIT-351" in done.stderr


def test_a_run_that_is_not_on_a_node_says_so(tmp_path: Path) -> None:
    done = checked(f"{tmp_path}/runs/ctr-1", SENT, "-", "--", "node.sh", "trainer")
    assert done.returncode == 3
    assert "UM-SUBMIT-352" in done.stderr


def test_the_check_is_a_text_without_umiak() -> None:
    assert "import umiak" not in check_text.rule()
    assert "from umiak" not in check_text.rule()
    assert "\n" not in check_text.command()
    assert "'" not in check_text.command()
    assert node_check.REFUSED == 3


# ---- directories


def test_missing_directories_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        own_directory.make(str(tmp_path / "a" / "b"))
    finally:
        os.umask(mask)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b")] == [0o700, 0o700]
    (tmp_path / "a").chmod(0o755)
    own_directory.make(str(tmp_path / "a"))
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_a_directory_for_all_is_not_taken_for_an_own_one_and_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    (tmp_path / "public").mkdir()
    (tmp_path / "public").chmod(mode)
    with pytest.raises(own_directory.NotOwn) as caught:
        own_directory.make(str(tmp_path / "public"), prefix="place lab: ")
    (problem,) = caught.value.problems
    assert caught.value.exit_status == 3
    assert problem.what == f"place lab: others can change what would run there: {tmp_path}/public"
    assert problem.why == f"{tmp_path}/public can be written by everybody (mode {mode:04o})"
    assert (tmp_path / "public").stat().st_mode & 0o7777 == mode


@needs_root
@pytest.mark.parametrize("name", ["", "runs", "launchers", "files"])
def test_a_shared_directory_of_somebody_else_is_a_problem_before_anything_is_written(tmp_path: Path, name: str) -> None:
    root = tmp_path / "umiak"
    (root / name).mkdir(parents=True)
    os.chown(root / name, STRANGER, STRANGER)
    store = SharedStore(str(root), "hpc")
    (problem,) = store.problems()
    assert problem.code == "UM-SUBMIT-350"
    assert f"belongs to uid {STRANGER}" in str(problem.why)
    with pytest.raises(own_directory.NotOwn):
        store.make_directories()
    assert SharedStore(str(root), "hpc", [str(root)]).problems() == []


@needs_root
def test_files_of_a_job_that_somebody_else_has_put_there_are_not_used(tmp_path: Path) -> None:
    store = SharedStore(str(tmp_path / "umiak"), "hpc")
    store.make_directories()
    digest = "a" * 64
    planted = tmp_path / "umiak" / "files" / digest
    planted.mkdir()
    os.chown(planted, STRANGER, STRANGER)
    with pytest.raises(own_directory.NotOwn, match="others can change"):
        store.kept(digest)


def test_a_repeated_submission_keeps_the_launcher_that_its_job_has_begun_with(tmp_path: Path) -> None:
    """Another version of umiak may repeat it; job.sh and the launcher still fit each other."""
    store = SharedStore(str(tmp_path / "umiak"), "hpc")
    run = store.run("ctr-1")
    store.make_directories(run)
    text = f"launcher={layout.LAUNCHER_SHA256}"
    for version in ("1" * 64, "2" * 64):
        store.put(run, [("job.sh", text, 0o700)], {}, f"{store.root}/launchers/{version}.pyz", "")
        assert store.read(run, "job.sh") == f"launcher={'1' * 64}"
    assert os.readlink(run.file(layout.LAUNCHER)) == f"{store.root}/launchers/{'1' * 64}.pyz"


def test_what_is_sent_has_the_check_in_it() -> None:
    run = layout.SharedRun(root="/shared/me", run_id="ctr-1")
    job = BundleFile(path=run.file("job.sh"), text=f"check='{layout.CHECK}'", mode=0o700)
    ((name, text, mode),) = files.filled_texts(Bundle(files=(job,)), run)
    assert (name, text, mode) == ("job.sh", f"check='{check_text.command()}'", 0o700)


@needs_root
def test_cleaning_leaves_alone_what_is_somebody_elses(tmp_path: Path) -> None:
    """Its files could say that a run is over, or name any process."""
    run = tmp_path / "runs" / "ctr-1" / "node0"
    run.mkdir(parents=True)
    os.chown(run, STRANGER, STRANGER)
    own = tmp_path / "runs" / "ctr-2" / "node0"
    own.mkdir(parents=True)
    assert control.clean(str(tmp_path), older_than_s=-10) == ["runs/ctr-2/node0"]
    assert run.exists()


# ---- other names that can be guessed


@needs_root
@pytest.mark.parametrize("is_above", [False, True])
def test_a_cache_of_launchers_in_which_somebody_else_has_a_hand_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_above: bool
) -> None:
    cache = tmp_path / "cache"
    (cache / "umiak" / "launchers").mkdir(parents=True)
    other = cache if is_above else cache / "umiak" / "launchers"
    os.chown(other, STRANGER, STRANGER)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    with pytest.raises(UmiakError) as refused:
        launcher_file.find()
    (problem,) = refused.value.problems
    assert (problem.code, refused.value.exit_status) == ("UM-SUBMIT-051", 3)
    assert f"uid {STRANGER}" in str(problem.why)
    if is_above:  # with sudo, in the home of the user who called it
        monkeypatch.setenv("SUDO_UID", str(STRANGER))
        assert launcher_file.find().path.startswith(str(cache))


@needs_root
@pytest.mark.parametrize("kind", ["own", "above", "link", "everybody"])
def test_sources_of_the_launcher_are_unpacked_where_nobody_else_has_a_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Python imports them from there; elsewhere they are compiled in memory."""
    cache = tmp_path / "cache"
    base = cache / "umiak" / "launcher-sources"
    base.mkdir(parents=True, mode=0o700)
    match kind:
        case "above":
            os.chown(cache, STRANGER, STRANGER)
        case "link":
            (tmp_path / "link").symlink_to(cache)
            os.chown(tmp_path / "link", STRANGER, STRANGER, follow_symlinks=False)
            cache = tmp_path / "link"
        case "everybody":
            (cache / "umiak").chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    packed = zlib.compress(b"umiak\tumiak/__init__.py\t4\n\npass")
    directory = launcher_start._unpacked(launcher_start._Sources(lambda _: packed))
    assert bool(directory) is (kind == "own")
    assert len(list(base.iterdir())) == (kind == "own")


@needs_root
@pytest.mark.parametrize("kind", ["own", "run", "link", "base", "default"])
def test_a_node_of_ray_works_where_nobody_else_has_a_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    base = tmp_path / "base"
    base.mkdir()
    match kind:
        case "run":
            (base / "ctr-1").mkdir(mode=0o777)
            os.chown(base / "ctr-1", STRANGER, STRANGER)
        case "link":
            (base / "ctr-1").symlink_to(tmp_path)
        case "base":
            os.chown(base, STRANGER, STRANGER)
        case "default":
            monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
            (tmp_path / f"umiak-ray-{os.geteuid()}").mkdir()
            os.chown(tmp_path / f"umiak-ray-{os.geteuid()}", STRANGER, STRANGER)
    order = {"directory": "" if kind == "default" else str(base), "run_id": "ctr-1", "name": "node-0"}
    if kind == "own":
        assert ray_node._own_directory(order) == f"{base}/ctr-1/node-0"
        return
    with pytest.raises(PermissionError) as refused:
        ray_node._own_directory(order)
    assert kind == "link" or f"uid {STRANGER}" in str(refused.value.strerror)


@needs_root
@pytest.mark.parametrize("name", ["ps", "ps/server.0", "ps/server.0/n0-0"])
def test_a_server_reads_and_clears_no_state_of_somebody_else(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "ps" / "server.0" / "n0-0"
    directory.mkdir(parents=True)
    os.chown(tmp_path / name, STRANGER, STRANGER)
    with pytest.raises(BadRequest, match=f"UM-PS-012(.|\n)*uid {STRANGER}|uid {STRANGER}(.|\n)*UM-PS-012"):
        serving._log(PsSeat(state_dir=str(directory)), SessionOptions(durability_ms=10))


def test_a_server_clears_nothing_behind_a_link(tmp_path: Path) -> None:
    """Of a log directory where others write: the link could lead to anything of the user's."""
    precious = tmp_path / "home" / "thesis"
    precious.mkdir(parents=True)
    (tmp_path / "log" / "ps").mkdir(parents=True)
    (tmp_path / "log" / "ps" / "server.0").symlink_to(tmp_path / "home")
    with pytest.raises(BadRequest, match="UM-PS-012"):
        serving._log(PsSeat(state_dir=f"{tmp_path}/log/ps/server.0/n0-0"), SessionOptions(durability_ms=10))
    assert precious.is_dir()


def test_the_stacks_of_a_worker_are_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "profile").write_text("mine\n")
    (tmp_path / "stacks").symlink_to(tmp_path / "profile")
    environ = {"PYTHONPATH": inject.__path__[0], "UMIAK_STACK_SIGNAL": str(int(signal.SIGUSR2))}
    code = "import faulthandler, signal, sys; sys.exit(faulthandler.unregister(signal.SIGUSR2))"
    for target, is_shown in (("stacks", False), ("new", True)):
        told = {**environ, "UMIAK_STACK_FILE": str(tmp_path / target)}
        assert subprocess.run([sys.executable, "-c", code], env=told, check=False).returncode == is_shown
    assert (tmp_path / "profile").read_text() == "mine\n"
