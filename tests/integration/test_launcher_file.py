"""The launcher from its one file, on every Python of this machine: it behaves as an installed one, and needs nothing installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from testbed import pythons
from testbed.ports import free_port
from tests.support.launching import WORKERS, Stage
from umiak.core.job import FileSet
from umiak.submit.payload import file_set, launcher_file

POISON = "raise ImportError('an installed umiak was imported')\n"
IMPORT_ALL = """
import sys, zipimport
archive = sys.argv[1]
importer = zipimport.zipimporter(archive)
start = {"__name__": "start"}
exec(importer.get_code("__main__"), start)
names = start["prepare"](archive, importer.get_data)
for name in list(names):
    if not name.endswith(("__main__", ".inject")):
        __import__(name)
assert len(list(names)) > 100
print("\\n".join(sorted({module.__file__ for module in sys.modules.values() if getattr(module, "__file__", None)})))
"""


PYTHONS = pythons.found()


@pytest.fixture(scope="module")
def built() -> bytes:
    return launcher_file.build()


@pytest.fixture
def launcher(built: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file, alone in a directory; importing any other umiak than that in it fails."""
    path = tmp_path / "sent" / launcher_file.NAME
    path.parent.mkdir()
    path.write_bytes(built)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    elsewhere = tmp_path / "elsewhere" / "umiak"
    elsewhere.mkdir(parents=True)
    (elsewhere / "__init__.py").write_text(POISON)
    monkeypatch.setenv("PYTHONPATH", str(elsewhere.parent))
    return path


@pytest.fixture
def foreign(launcher: Path) -> Path:
    """The same, compiled for a version of Python that is not here."""
    other = launcher.with_name("foreign.pyz")
    with zipfile.ZipFile(launcher) as source, zipfile.ZipFile(other, "w") as target:
        for entry in source.infolist():
            name = "codes-ffffffff" if entry.filename.startswith("codes-") else entry.filename
            if name != "__main__.pyc":
                target.writestr(name, source.read(entry))
    return other


@pytest.mark.parametrize("version", PYTHONS)
def test_every_python_launches(stage: Stage, launcher: Path, version: str) -> None:
    command = (PYTHONS[version], str(launcher), "launch")
    run = stage.launch("--nproc_per_node 2", command=command)
    stage.story.until_alive(generation=1, world=2)
    stage.story.order("exit 7", rank=1)
    assert run.wait() == 7
    assert "trainer 1" in run.stderr
    # Again: where the version is another one than the builder's, from the cache this time.
    again = stage.launch("--nproc_per_node 2 --quiet", "echo", "done", command=command)
    assert again.wait() == 0
    assert again.stdout == "[trainer 0] done\n"


@pytest.mark.parametrize("version", PYTHONS)
def test_every_module_of_it_can_be_imported_without_site_packages(launcher: Path, tmp_path: Path, version: str) -> None:
    command = [PYTHONS[version], "-S", "-E", "-c", IMPORT_ALL, str(launcher)]
    done = subprocess.run(command, env={"HOME": str(tmp_path / "home")}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    files = [file for file in done.stdout.splitlines() if "umiak" in file]
    assert len(files) > 100
    assert all(str(launcher) in file or str(tmp_path / "home") in file for file in files)
    assert "site-packages" not in done.stdout


@pytest.mark.parametrize("version", PYTHONS)
def test_every_python_waits_for_paddle_in_jobs_with_servers(launcher: Path, tmp_path: Path, version: str) -> None:
    """What a worker imports first lies in the file, and Pythons of all versions find it there."""
    script = tmp_path / "train.py"
    script.write_text("import sys; print(type(sys.meta_path[0]).__name__, sys.modules['sitecustomize'].__file__)\n")
    counts = ("--server_num", "1", "--trainer_num", "1", "--tee", "all", "--log_dir", str(tmp_path / "log"))
    command = [sys.executable, str(launcher), "launch", *counts, PYTHONS[version], str(script)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for worker in ("server 0", "trainer 0"):
        assert f"[{worker}] _WaitForPaddle {launcher}/umiak/launch/inject/sitecustomize.py" in done.stdout


@pytest.mark.parametrize("version", PYTHONS)
def test_every_python_unpacks_the_files_of_a_job(launcher: Path, tmp_path: Path, version: str) -> None:
    root = tmp_path / "files"
    (root / "sub").mkdir(parents=True)
    (root / "train.py").write_text("print('trained')\n")
    (root / "sub" / "link").symlink_to("../train.py")
    sent = file_set.collect(FileSet(), str(root))
    file_set.pack(sent, str(tmp_path / "files.tar.gz"))
    command = [PYTHONS[version], str(launcher), "-m", "umiak.submit.payload.unpack", sent.manifest.digest]
    words = [str(tmp_path / "store"), "-", "--into", str(tmp_path / "run")]
    with open(tmp_path / "files.tar.gz", "rb") as archive:
        done = subprocess.run([*command, *words], stdin=archive, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{tmp_path / 'run'}\n", "")
    assert file_set.collect(FileSet(), str(tmp_path / "run")).manifest == sent.manifest
    # Another job finds them there; a node that does not have them says so by its status.
    again = subprocess.run([*command, str(tmp_path / "store")], capture_output=True, text=True)
    assert again.stdout == f"{tmp_path / 'store' / sent.manifest.digest}\n"
    missing = subprocess.run([*command, str(tmp_path / "elsewhere")], capture_output=True, text=True)
    assert missing.returncode == 1
    assert "UM-SUBMIT-059" in missing.stderr


@pytest.mark.parametrize("version", PYTHONS)
def test_every_python_brings_data_in_and_out(launcher: Path, tmp_path: Path, version: str) -> None:
    command = [PYTHONS[version], str(launcher), "-m", "umiak.submit.payload.transfer"]
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "part-0").write_text("1 2 3\n")
    data, results = tmp_path / "run" / "data", tmp_path / "results"
    subprocess.run([*command, "in", str(tmp_path / "shared"), str(data)], check=True)
    subprocess.run([*command, "out", str(data), f"file://{results}"], check=True)
    assert (results / "part-0").read_text() == "1 2 3\n"


def test_two_nodes_meet(stage: Stage, launcher: Path) -> None:
    flags = f"--nnodes 2 --master 127.0.0.1:{free_port()}"
    env = {"UMIAK_TOKEN": "a secret of all nodes"}
    installed = {"PYTHONPATH": os.environ["PYTHONPATH"].replace(str(launcher.parents[1] / "elsewhere"), "")}
    first = stage.launch(flags, command=(sys.executable, str(launcher), "launch"), env=env)
    second = stage.launch(flags, env={**env, **installed})
    stage.story.until_alive(generation=1, world=2)
    for rank in range(2):
        stage.story.order("exit 0", rank=rank)
    assert first.wait() == second.wait() == 0


@pytest.mark.parametrize("kind", ["launcher", "foreign"])
def test_a_check_starts_its_own_processes(stage: Stage, kind: str, request: pytest.FixtureRequest) -> None:
    file = request.getfixturevalue(kind)
    flags = f"--check --nnodes 2 --nproc_per_node 2 --master 127.0.0.1:{free_port()}"
    command = (sys.executable, str(file), "launch")
    env = {"UMIAK_TOKEN": "a secret of all nodes"}
    nodes = [stage.launch(flags, "echo", command=command, env=env) for _ in range(2)]
    assert [node.wait() for node in nodes] == [0, 0]
    assert [node for node in nodes if "verdict: ready" in node.stdout]


@pytest.mark.parametrize("kind", ["launcher", "foreign"])
def test_a_hang_shows_the_stacks(stage: Stage, kind: str, request: pytest.FixtureRequest) -> None:
    """The module that a worker imports for this comes out of the file as well."""
    file = request.getfixturevalue(kind)
    run = stage.launch(
        "--hang_timeout 2", WORKERS / "silent.py", command=(sys.executable, str(file), "launch"), env={"PYTHONPATH": ""}
    )
    assert run.wait() != 0
    assert "silent.py" in run.log("stacks.trainer.0")


def test_the_command_for_other_nodes_names_the_file(stage: Stage, launcher: Path) -> None:
    # From its own directory: the path that is printed is a whole one all the same.
    command = (sys.executable, launcher.name, "launch")
    run = stage.launch("--nnodes 2 --join_timeout 60", command=command, cwd=launcher.parent)
    said = run.expect("--master")
    assert re.search(rf"python {re.escape(str(launcher))} launch --master \S+ ", said)


def test_another_version_unpacks_it_once_where_nobody_else_can_write(foreign: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(foreign), "launch", "--quiet", "echo"]
    running = [subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [each.wait() for each in running] == [0, 0, 0]
    base = tmp_path / "home" / ".cache" / "umiak" / "launcher-sources"
    assert base.stat().st_mode & 0o777 == 0o700
    assert len(list(base.iterdir())) == 1
    (unpacked,) = base.iterdir()
    removed = unpacked / "umiak" / "launch" / "agent.py"
    assert removed.exists()
    # A cache that somebody has tidied up is no reason to fail.
    removed.unlink()
    shutil.rmtree(removed.parent / "__pycache__", ignore_errors=True)
    assert subprocess.run(command, cwd=tmp_path, stdout=subprocess.DEVNULL).returncode == 0


def test_a_cache_of_others_is_not_used(foreign: Path, tmp_path: Path) -> None:
    base = tmp_path / "home" / ".cache" / "umiak" / "launcher-sources"
    base.mkdir(parents=True)
    base.chmod(0o777)
    command = [sys.executable, str(foreign), "launch", "--quiet", "echo"]
    assert subprocess.run(command, cwd=tmp_path, stdout=subprocess.DEVNULL).returncode == 0
    assert list(base.iterdir()) == []


def test_what_it_does_not_have_is_said(launcher: Path) -> None:
    done = subprocess.run([sys.executable, str(launcher), "train"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "umiak train [UM-SUBMIT-052]" in done.stderr
    version = subprocess.run([sys.executable, str(launcher), "--version"], capture_output=True, text=True)
    assert re.fullmatch(r"umiak \d+\.\d+\.\d+\S*\n", version.stdout)


def test_a_python_that_is_too_old_is_told_so(launcher: Path) -> None:
    code = "import runpy, sys; sys.version_info = (3, 9, 1); sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code, str(launcher), "launch", "x"], capture_output=True, text=True)
    assert done.returncode == 3
    assert "UM-SUBMIT-050" in done.stderr


def test_tracebacks_have_lines(launcher: Path) -> None:
    code = (
        IMPORT_ALL
        + """
import traceback
try:
    sys.modules["umiak.launch.preflight.task"].read_task("nonsense")
except ValueError:
    traceback.print_exc()
"""
    )
    done = subprocess.run([sys.executable, "-S", "-E", "-c", code, str(launcher)], capture_output=True, text=True)
    assert re.search(r'File "umiak/launch/preflight/task.py", line \d+, in read_task\n +\w', done.stderr)
