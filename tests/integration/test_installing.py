"""Every way of installing umiak that is written anywhere, in fresh virtual environments; and no way to get a stranger's umiak-native.

Third-party packages come from the package index of this machine. What is built from the checkout is compiled once, for all of these
tests, and without optimization: how it is installed is asked here, not how fast it is.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import http.server
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from testbed.pytest_support import require
from tests.support.paths import ROOT

UV = Path(sys.executable).parent / "uv"
VERSION = re.search(r'(?m)^version = "(.+)"', (ROOT / "native" / "Cargo.toml").read_text())[1]
pytestmark = pytest.mark.timeout(1500)  # a build, where the last one was of other sources, and those that wait for it


SHIMS = ("paddlerec", "paddle-launch", "paddle-fluid")
FLUID = """\
import sys, types
sys.modules["paddle"] = types.ModuleType("paddle")  # Paddle itself is 700 MB, and the tables of fluid's names need nothing of it
sys.modules["paddle"].__path__ = []
import paddle.fluid
print(paddle.fluid.layers.__name__)
"""
QUICK_COMPILER = {
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
    "CARGO_PROFILE_RELEASE_DEBUG": "false",
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0",
    "CARGO_TARGET_DIR": str(ROOT / "native" / "target" / "installing"),
}


@pytest.fixture(scope="module", autouse=True)
def quick_compiler() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUICK_COMPILER.items():
            patch.setenv(name, value)
        yield


@contextmanager
def one_build_at_a_time() -> Iterator[None]:
    """maturin writes a wheel to the directory that all builds of a checkout share, and copies it from there: two builds at once give broken ones."""
    shared = Path(QUICK_COMPILER["CARGO_TARGET_DIR"])
    shared.mkdir(parents=True, exist_ok=True)
    with (shared / ".one-build").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Environment:
    """A fresh virtual environment, and a PATH without Rust unless it is asked for."""

    def __init__(self, path: Path) -> None:
        shutil.copytree(_with_pip(), path, symlinks=True)
        self.bin = path / "bin"
        self.elsewhere = path / "elsewhere"
        self.elsewhere.mkdir()

    def run(self, *command: str, rust: bool = False, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        places = [str(self.bin), *(os.environ["PATH"].split(os.pathsep) if rust else ["/usr/bin", "/bin"])]
        environ = {**os.environ, "PATH": os.pathsep.join(places), "VIRTUAL_ENV": str(self.bin.parent)}
        with one_build_at_a_time() if rust else nullcontext():
            return subprocess.run(command, cwd=cwd or self.elsewhere, env=environ, capture_output=True, text=True)

    def does(self, *command: str, rust: bool = False, cwd: Path | None = None) -> str:
        done = self.run(*command, rust=rust, cwd=cwd)
        assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def trains(self) -> None:
        """The native core is there and works, and a config can be read."""
        self.does("python", "-c", "from umiak import data, ps; ps.init(); import umiak_native")
        assert "rank/dnn" in self.does("umiak", "train", "-m", "umiak.models.rank.dnn", "--explain")


@functools.cache
def _with_pip() -> Path:
    """An environment with pip alone, made once: it is found by where it lies, so that copies are environments as well."""
    path = Path(tempfile.mkdtemp(prefix="umiak-venv-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    venv.create(path, with_pip=True)
    for script in (path / "bin").iterdir():  # scripts name the environment that they were made in
        if script.name.startswith(("pip", "activate", "Activate")):
            script.unlink()
    return path


@pytest.fixture
def fresh(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "venv")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels as `make wheels` makes them, but for the tag and the native core's speed."""
    dist = tmp_path_factory.mktemp("wheels")
    for place in (ROOT, *(ROOT / "shims" / name for name in SHIMS), ROOT / "native"):
        command = [str(UV), "build", "--quiet", "--wheel", "--out-dir", str(dist), str(place)]
        with one_build_at_a_time():
            subprocess.run(command, env={**os.environ, "UMIAK_WHEELS": "1"}, check=True)
    return dist


@pytest.mark.parametrize("extra", ["train", "ps"])
def test_pip_from_a_checkout(fresh: Environment, extra: str) -> None:
    fresh.does("python", "-m", "pip", "install", "--quiet", f".[{extra}]", rust=True, cwd=ROOT)
    fresh.does("python", "-c", "from umiak import data, ps; ps.init()")
    if extra == "train":
        fresh.trains()
        shims = (".[train]", *(f"./shims/{name}" for name in SHIMS))
        fresh.does("python", "-m", "pip", "install", "--quiet", *shims, rust=True, cwd=ROOT)
        assert "usage" in fresh.does("python", "-m", "paddlerec.run", "--help").lower()
        assert "usage" in fresh.does("python", "-m", "paddle.distributed.launch", "--help").lower()
        assert fresh.does("python", "-c", FLUID) == "paddle.fluid.layers\n"


def test_uv_from_a_checkout(fresh: Environment) -> None:
    fresh.does(str(UV), "pip", "install", "--quiet", ".[train]", rust=True, cwd=ROOT)
    fresh.trains()


def test_pip_editable_with_the_shim(fresh: Environment) -> None:
    words = ("--editable", ".[train]", "--editable", "shims/paddlerec")
    fresh.does("python", "-m", "pip", "install", "--quiet", *words, rust=True, cwd=ROOT)
    fresh.trains()


def test_wheels_without_rust_and_without_an_index_for_ours(fresh: Environment, wheels: Path) -> None:
    assert shutil.which("cargo", path=f"{fresh.bin}:/usr/bin:/bin") is None
    fresh.does("python", "-m", "pip", "install", "--quiet", "--find-links", str(wheels), f"umiak[train]=={VERSION}")
    fresh.trains()
    fresh.does("python", "-m", "pip", "uninstall", "--quiet", "--yes", "umiak", "umiak-native")
    fresh.does("python", "-m", "pip", "install", "--quiet", "--no-index", "--find-links", str(wheels), "umiak[train]")
    fresh.trains()
    fresh.does(
        "python", "-m", "pip", "install", "--quiet", "--no-index", "--find-links", str(wheels), "umiak-paddlerec"
    )
    fresh.does("python", "-c", "import paddlerec")
    shim = ("--no-index", "--find-links", str(wheels), "umiak-paddle-launch")
    fresh.does("python", "-m", "pip", "install", "--quiet", *shim)
    assert fresh.does("python", "-m", "paddle.distributed.launch", "--version") == f"umiak {VERSION}\n"
    shim = ("--no-index", "--find-links", str(wheels), "umiak-paddle-fluid")
    fresh.does("python", "-m", "pip", "install", "--quiet", *shim)
    assert fresh.does("python", "-c", FLUID) == "paddle.fluid.layers\n"


def test_uv_with_wheels(fresh: Environment, wheels: Path) -> None:
    fresh.does(str(UV), "pip", "install", "--quiet", "--find-links", str(wheels), f"umiak[train]=={VERSION}")
    fresh.trains()


def test_with_the_pure_wheel_alone_every_hint_is_a_command_that_works(fresh: Environment, wheels: Path) -> None:
    pure = next(wheels.glob("umiak-*.whl"))
    fresh.does("python", "-m", "pip", "install", "--quiet", "--no-index", str(pure))
    assert "usage" in fresh.does("umiak", "launch", "--help").lower()
    assert fresh.does("umiak", "--version") == f"umiak {VERSION}\n"
    assert "kubectl umiak" in fresh.does("kubectl-umiak", "--help")

    imported = fresh.run("python", "-c", "from umiak import ps")
    assert "[UM-DATA-005]" in imported.stderr
    assert hint_in(imported.stderr).startswith("python -m pip install --find-links ")

    (fresh.elsewhere / "script.py").write_text("")
    done = fresh.run("umiak", "train", "-m", "umiak.models.rank.dnn")
    hint = hint_in(done.stderr)
    assert hint.startswith("python -m pip install --find-links ")
    assert hint.endswith(" paddlepaddle"), "one command brings all that is missing"
    fresh.does(*shlex.split(hint.removesuffix(" paddlepaddle")))  # 700 MB that the other tests have
    done = fresh.run("umiak", "train", "-m", "umiak.models.rank.dnn")
    assert hint_in(done.stderr).startswith("python -m pip install paddlepaddle")
    fresh.trains()


ON_HOSTS = '[place.lab]\nbackend = "ssh"\nhosts = ["127.0.0.1:1"]\n'
JOB = "name: hello\nroles:\n  trainer: {nodes: 1, command: [python, hello.py]}\n"
FUNCTION = """\
import umiak
def square():
    return 3**2
if __name__ == "__main__":
    print(*umiak.run(square, nproc_per_node=2))
"""
EXTRAS = {
    "": [("umiak", "launch", "hello.py"), ("umiak", "submit", "--dry_run", "--", "hello.py"), ("umiak", "deploy")],
    "submit": [("umiak", "submit", "job.yaml", "--dry_run")],
    "submit,ssh": [("umiak", "submit", "--on", "lab", "job.yaml", "--dry_run"), ("python", "-c", "import asyncssh")],
    "run": [("python", "function.py")],
    "ps": [("python", "-c", "from umiak import data, ps; ps.init()")],
    "train": [("umiak", "train", "-m", "umiak.models.rank.dnn", "--explain")],
    "operator": [("umiak", "operator", "--help"), ("python", "-c", "import aiohttp")],
}
"""What README.md's table says about each command: what to install for it."""


def test_every_extra_of_the_readme_is_tried() -> None:
    table = (ROOT / "README.md").read_text().split("| to use | in a checkout |")[1].split("\n\n")[0]
    named = re.findall(r"`python -m pip install '?\.(?:\[([\w,]+)\])?'?", table)
    assert sorted(named) == sorted(EXTRAS)


@pytest.mark.parametrize("extra", EXTRAS, ids=lambda extra: extra or "none")
def test_what_the_readme_names_for_a_command_is_enough_for_it(fresh: Environment, extra: str) -> None:
    fresh.does(str(UV), "pip", "install", "--quiet", f".[{extra}]" if extra else ".", rust=True, cwd=ROOT)
    for name, text in {
        "hello.py": "print(1)",
        "umiak.toml": ON_HOSTS,
        "job.yaml": JOB,
        "function.py": FUNCTION,
    }.items():
        (fresh.elsewhere / name).write_text(text)
    for command in EXTRAS[extra]:
        fresh.does(*command)


SEEN = """\
import os, pathlib, sys
pathlib.Path(sys.argv[1], os.environ["PADDLE_TRAINER_ID"]).write_text(sys.argv[0])
"""


def test_directories_with_spaces_and_letters_of_other_languages(tmp_path: Path, wheels: Path) -> None:
    """The environment, the script, the logs: nothing cuts a path at a space, or wants ASCII."""
    place = tmp_path / "Übungen zu 推荐 (neu)"
    place.mkdir()
    fresh = Environment(place / "virtual env")
    fresh.does("python", "-m", "pip", "install", "--quiet", "--find-links", str(wheels), f"umiak[train]=={VERSION}")
    fresh.trains()
    script = place / "my scrîpt.py"
    script.write_text(SEEN)
    fresh.does("umiak", "launch", "--nproc_per_node", "2", "--log_dir", "the lögs", str(script), str(place), cwd=place)
    assert [(place / rank).read_text() for rank in "01"] == [str(script)] * 2
    assert (place / "the lögs" / "workerlog.1").is_file()
    fresh.does("python", "-m", "umiak.launch", "my scrîpt.py", ".", cwd=place)
    assert (place / "0").read_text() == "my scrîpt.py"


def hint_in(text: str) -> str:
    found = re.search(r"(?m)^\s*hint: (.+)$", text)
    assert found, text
    return found[1]


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[str]:
    """An index where somebody has registered our names, with a version like ours and with a higher one."""
    for name in ("umiak", "umiak-native"):
        for version in (VERSION.partition("+")[0], "99.0"):
            file = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
            page = tmp_path / "index" / name
            page.mkdir(parents=True, exist_ok=True)
            about = f"{name.replace('-', '_')}-{version}.dist-info"
            with zipfile.ZipFile(page / file, "w") as wheel:
                wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
                wheel.writestr(
                    f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
                )
                wheel.writestr(f"{about}/RECORD", "")
            with (page / "index.html").open("a") as listing:
                listing.write(f'<a href="{file}">{file}</a>\n')
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "index"))
    handler.log_message = lambda *_: None  # type: ignore[attr-defined]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def resolved(fresh: Environment, *words: str) -> dict[str, str]:
    """What pip would install, and from where."""
    report = fresh.bin / "report.json"
    command = ("python", "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", str(report))
    fresh.does(*command, *words, rust=True, cwd=ROOT)
    found = json.loads(report.read_text())["install"]
    return {each["metadata"]["name"]: each["download_info"]["url"] for each in found}


def test_nobody_elses_umiak_native_is_installed(fresh: Environment, wheels: Path, stranger: str) -> None:
    index = ("--extra-index-url", stranger)
    assert resolved(fresh, *index, "umiak-native")["umiak-native"].startswith(stranger)  # so the index works
    checkout = resolved(fresh, *index, ".[ps]")
    assert checkout["umiak-native"] == (ROOT / "native").as_uri()
    shipped = resolved(fresh, *index, "--find-links", str(wheels), f"umiak[ps]=={VERSION}")
    assert {shipped[name].rpartition("/")[0] for name in ("umiak", "umiak-native")} == {wheels.as_uri()}

    pure = next(wheels.glob("umiak-*.whl"))
    forgotten = fresh.run("python", "-m", "pip", "install", "--dry-run", *index, f"{pure}[ps]")
    assert f"No matching distribution found for umiak-native=={VERSION}" in forgotten.stderr
    forgotten = fresh.run("python", "-m", "pip", "install", "--dry-run", *index, "./shims/paddlerec", cwd=ROOT)
    assert f"No matching distribution found for umiak[train]=={VERSION}" in forgotten.stderr


def test_wheels_that_make_wheels_made(fresh: Environment) -> None:
    """Of this very source, small, for every Linux of the last ten years, and good for training."""
    built = [*(ROOT / "dist").glob("umiak_native-*manylinux2014_x86_64*.whl")]
    require(None if built else "no wheels in dist: make wheels")
    newest = max(
        path.stat().st_mtime for path in [*(ROOT / "native" / "src").rglob("*.rs"), ROOT / "native" / "Cargo.toml"]
    )
    require(None if built[0].stat().st_mtime > newest else "the wheels in dist are older than the sources: make wheels")
    assert built[0].name.startswith(f"umiak_native-{VERSION}-cp310-abi3-manylinux2014_x86_64")
    with zipfile.ZipFile(built[0]) as wheel:
        module = next(each for each in wheel.infolist() if each.filename.endswith(".so"))
        assert module.file_size < 10e6  # 31 MB with what debuggers need
    fresh.does(
        "python", "-m", "pip", "install", "--quiet", "--find-links", str(ROOT / "dist"), f"umiak[train]=={VERSION}"
    )
    fresh.trains()
