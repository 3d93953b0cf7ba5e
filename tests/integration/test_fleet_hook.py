"""How an unchanged script gets umiak's fleet: what the launcher puts into a Python worker, with stand-ins for paddle and `umiak.fleet`."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import umiak
from umiak.adapters import own_modules
from umiak.contracts.injected import fleet_environment

INJECT = str(Path(umiak.__file__).parent / "launch" / "inject")
PADDLE = """
print("paddle begins")
from . import distributed
"""
PATCHING = """
import sys
def install():
    import paddle
    print("installed", "paddle.distributed.fleet" in sys.modules)
"""
QUIET = {name: text for name, text in os.environ.items() if not name.startswith(("UMIAK_", "FLAGS_", "PYTHONPATH"))}


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A directory with a small paddle, and a small umiak that has nothing but fleet."""
    for path, text in {
        "paddle/__init__.py": PADDLE,
        "paddle/distributed/__init__.py": "from . import fleet\n",
        "paddle/distributed/fleet/__init__.py": "",
        "umiak/__init__.py": "",
        "umiak/fleet/__init__.py": "",
        "umiak/fleet/patching.py": PATCHING,
        "umiak_paddle_fluid.py": "",  # in place of the distribution of that name, which finds paddle.fluid itself
    }.items():
        file = tmp_path / "packages" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "packages"


def told(path: object = "", umiak_in: tuple[str, ...] = (), **more: str) -> dict[str, str]:
    """A worker's environment, which has ``path`` as its own PYTHONPATH."""
    environ = QUIET | ({"PYTHONPATH": str(path)} if path else {}) | more
    return environ | fleet_environment(environ, directory=INJECT, umiak_in=umiak_in)


def run(*words: str, environ: dict[str, str], python: str = sys.executable, cwd: Path | None = None) -> str:
    """What a worker prints, to either stream."""
    done = subprocess.run(
        [python, *words], env=environ, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_variables() -> None:
    environ = {"PYTHONPATH": "/a::/b"}
    found = fleet_environment(environ, directory="/inject", umiak_in=["/one", "/two"])
    assert found == {
        "PYTHONPATH": "/inject:/a::/b",
        "UMIAK_FLUID": "1",
        "UMIAK_FLEET": "1",
        "UMIAK_FLEET_FROM": "/one:/two",
    }
    assert fleet_environment(found, directory="/inject", umiak_in=[], has_servers=False) == {
        "PYTHONPATH": "/inject:/a::/b",
        "UMIAK_FLUID": "1",
    }


@pytest.mark.parametrize(
    "code",
    [
        "import paddle",
        "import paddle.distributed.fleet as fleet",
        "from paddle.distributed import fleet",
        "import importlib; importlib.import_module('paddle.distributed.fleet')",
        "import paddle, paddle.distributed, importlib; importlib.import_module('paddle')",
    ],
)
def test_as_soon_as_paddle_is_imported_fleet_is_umiaks(packages: Path, code: str) -> None:
    assert run("-c", f"{code}; print('script')", environ=told(packages)) == "paddle begins\ninstalled True\nscript\n"


FLUID = """
import sys
from importlib.machinery import ModuleSpec
class Importer:
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self) if name == "paddle.fluid" else None
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        print("umiak's")
IMPORTER = Importer()
def install():
    if IMPORTER not in sys.meta_path:
        sys.meta_path.append(IMPORTER)
    return IMPORTER
"""


@pytest.mark.parametrize("has_servers", [True, False])
def test_paddle_fluid_is_umiaks_where_paddle_has_none(packages: Path, has_servers: bool) -> None:
    for path, text in {"umiak/fluid/__init__.py": "", "umiak/fluid/installing.py": FLUID}.items():
        (packages / path).parent.mkdir(exist_ok=True)
        (packages / path).write_text(text)
    environ = QUIET | {"PYTHONPATH": str(packages)}
    environ |= fleet_environment(environ, directory=INJECT, umiak_in=(), has_servers=has_servers)
    code = "import paddle; print('script'); import paddle.fluid"
    begins = "paddle begins\n" + ("installed True\n" if has_servers else "")
    assert run("-c", code, environ=environ) == f"{begins}script\numiak's\n"
    # A program of umiak has installed it already, and others look for modules behind it.
    behind = "class Behind: find_spec = staticmethod(lambda *_: None)"
    before = f"import sys; from umiak.fluid import installing; installing.install()\n{behind}\nsys.meta_path.append(Behind)\n"
    assert run("-c", before + code, environ=environ) == f"{begins}script\numiak's\n"
    (packages / "umiak/fluid/installing.py").write_text("raise RuntimeError('broken')")
    said = run("-c", "try:\n import paddle.fluid\nexcept ImportError as error:\n print(error)", environ=environ)
    assert said.endswith(
        "umiak: there is no paddle.fluid in this worker (RuntimeError: broken)\nNo module named 'paddle.fluid'\n"
    )
    (packages / "paddle" / "fluid.py").write_text("print('its own')")
    assert run("-c", code, environ=environ) == f"{begins}script\nits own\n"


def test_every_way_of_starting_python(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import paddle\n")
    console = tmp_path / "train-it"
    console.write_text(f"#!{sys.executable}\nimport paddle\n")
    console.chmod(0o755)
    (tmp_path / "train.sh").write_text(f"#!/bin/sh\nexec '{sys.executable}' train.py\n")
    (tmp_path / "train.sh").chmod(0o755)
    for words in (
        (sys.executable, "-m", "train"),
        (sys.executable, "-u", "train.py"),
        ("./train-it",),
        ("./train.sh",),
    ):
        assert "installed True" in run(*words[1:], python=words[0], environ=told(packages), cwd=tmp_path)
    spawned = "import multiprocessing as m, importlib\nif __name__ == '__main__':\n p = m.get_context('spawn').Process("
    (tmp_path / "spawning.py").write_text(
        f"{spawned}target=importlib.import_module, args=('paddle',)); p.start(); p.join()\n"
    )
    assert "installed True" in run("spawning.py", environ=told(packages), cwd=tmp_path)


def test_a_worker_without_paddle_imports_nothing_of_umiak(packages: Path) -> None:
    code = (
        "import sys, json; print([name for name in sys.modules if name.startswith(('umiak', 'paddle', 'importlib.'))])"
    )
    plain = run("-c", code, environ=QUIET)
    assert run("-c", code, environ=told(packages)) == plain


FORMS = """
import paddle
from paddle.static import default_main_program, program_guard
layer = paddle.jit.to_static(paddle.nn.Linear(2, 1))
print(list(layer(paddle.ones([3, 2])).shape), paddle.framework.use_pir_api())
paddle.enable_static()
print(type(default_main_program()).__module__, paddle.framework.use_pir_api())
with program_guard(paddle.static.Program(), paddle.static.Program()):
    print(type(paddle.static.data("x", [None, 1])).__module__)
"""


@pytest.mark.parametrize(
    ("environ", "forms"),
    [
        ({}, ["[3, 1] True", "paddle.base.framework False", "paddle.base.framework"]),
        ({"FLAGS_enable_pir_api": "1"}, ["[3, 1] True", "paddle.base.libpaddle.pir True", "paddle.base.libpaddle.pir"]),
    ],
    ids=["not said", "said"],
)
def test_the_older_form_of_programs_begins_with_static_programs(environ: dict[str, str], forms: list[str]) -> None:
    """With the real Paddle: a dynamic script keeps what needs the newer form, and a flag that a person has set counts."""
    assert run("-c", FORMS, environ=told(**environ)).splitlines()[-3:] == forms


def test_paddle_is_left_as_it_would_be(packages: Path) -> None:
    """The loader, the spec and the finders are those of an import without the hook, but for the one of `paddle.fluid`, which is the last."""
    code = "import paddle, sys; print(sorted(vars(paddle.__loader__)), type(paddle.__loader__), sorted(vars(paddle.__spec__)), list(map(str, map(type, sys.meta_path))), sys.path)"
    plain = run("-c", code, environ={**QUIET, "PYTHONPATH": str(packages)})
    ours = run("-c", code, environ=told(packages))
    last = ", \"<class 'sitecustomize._FluidOfUmiak'>\"]"
    assert ours.splitlines()[-1].replace(last, "]") == plain.splitlines()[-1]


def test_an_import_that_fails_fails_as_without_the_hook_and_may_be_tried_again(packages: Path) -> None:
    (packages / "paddle" / "__init__.py").write_text(
        "import os\nif not os.environ.pop('READY', ''): raise ImportError('libgomp')\n"
    )
    code = "import os\ntry:\n import paddle\nexcept ImportError as error:\n print(error)\nos.environ['READY'] = '1'\nimport paddle"
    assert run("-c", code, environ=told(packages)) == "libgomp\ninstalled False\n"
    assert "ModuleNotFoundError: No module named 'paddle'" in run(
        "-c",
        "import traceback\ntry:\n import paddle\nexcept ImportError:\n traceback.print_exc()",
        environ=told(),
        python=bare_python(packages.parent),
    )


def test_paddle_with_servers_of_its_own_keeps_them(packages: Path) -> None:
    """Paddle before 3.1."""
    (packages / "paddle" / "__init__.py").write_text(
        "from types import SimpleNamespace as S\nbase = S(core=S(DistFleetWrapper=1))\n"
    )
    said = run("-c", "import paddle", environ=told(packages))
    assert (
        said
        == "umiak: the calls of paddle.distributed.fleet stay Paddle's own in this worker (this Paddle has parameter servers of its own)\n"
    )


def test_umiaks_own_programs_use_no_fleet(packages: Path) -> None:
    (packages / "umiak" / "cli").mkdir()
    (packages / "umiak" / "cli" / "main.py").write_text("import paddle\n")
    assert run("-c", "import umiak.cli.main", environ=told(packages)) == "paddle begins\n"


def test_what_goes_wrong_is_said_once_and_the_worker_goes_on(packages: Path) -> None:
    (packages / "umiak" / "fleet" / "patching.py").write_text("def install():\n raise ValueError('no such\\nthing')\n")
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import paddle'])"
    said = run("-c", f"import paddle; print('goes on', flush=True); {child}", environ=told(packages))
    line = "umiak: the calls of paddle.distributed.fleet stay Paddle's own in this worker (ValueError: no such)"
    assert said.splitlines().count(line) == 1
    assert "goes on\n" in said


# ---- other environments than the launcher's


def bare_python(directory: Path) -> str:
    """A Python of a fresh environment, which has no umiak."""
    venv.create(directory / "bare", symlinks=True)
    return str(directory / "bare" / "bin" / "python")


def apart(packages: Path) -> tuple[Path, Path]:
    """What the worker has, and what only the launcher has."""
    of_launcher = packages.parent / "launcher"
    of_launcher.mkdir()
    (packages / "umiak").rename(of_launcher / "umiak")
    (of_launcher / "other.py").write_text("")
    return packages, of_launcher


def test_a_python_without_umiak_takes_the_launchers_and_nothing_else_of_its_environment(packages: Path) -> None:
    own, of_launcher = apart(packages)
    python = bare_python(packages.parent)
    environ = told(own, (str(of_launcher),))
    assert run("-c", "import paddle", environ=environ, python=python) == "paddle begins\ninstalled True\n"
    code = (
        "import paddle, sys, importlib.util as u; print(u.find_spec('other'), [p for p in sys.path if 'launcher' in p])"
    )
    assert run("-c", code, environ=environ, python=python).endswith("None []\n")


def test_a_python_without_umiak_says_so(packages: Path) -> None:
    own, _ = apart(packages)
    said = run("-c", "import paddle", environ=told(own), python=bare_python(packages.parent))
    assert said.endswith("in this worker (ModuleNotFoundError: No module named 'umiak')\n")


def test_a_worker_with_an_umiak_of_its_own_uses_that(packages: Path) -> None:
    elsewhere = packages.parent / "elsewhere"
    (elsewhere / "umiak" / "fleet").mkdir(parents=True)
    (elsewhere / "umiak" / "fleet" / "patching.py").write_text("raise ImportError('the launcher\\'s')\n")
    assert "installed True" in run("-c", "import paddle", environ=told(packages, (str(elsewhere),)))


def test_the_launchers_own_directories() -> None:
    found = own_modules.directories()
    assert found[0] == str(Path(umiak.__file__).parents[1])
    assert all(os.path.isdir(each) for each in found)
    import umiak_native

    assert any(Path(str(umiak_native.__file__)).is_relative_to(each) for each in found)


def test_another_sitecustomize_runs_as_well(packages: Path) -> None:
    (packages / "sitecustomize.py").write_text("print('own sitecustomize')\n")
    (packages / "usercustomize.py").write_text("print('own usercustomize')\n")
    environ = told(packages)
    python = bare_python(
        packages.parent
    )  # a virtual environment has no usercustomize unless it sees the system's packages
    config = packages.parent / "bare" / "pyvenv.cfg"
    config.write_text(
        config.read_text().replace("include-system-site-packages = false", "include-system-site-packages = true")
    )
    said = run("-c", "import paddle, sitecustomize; print(sitecustomize.__file__)", environ=environ, python=python)
    assert said.splitlines()[:2] == ["own sitecustomize", "own usercustomize"]
    assert said.splitlines()[-1] == str(packages / "sitecustomize.py")


def test_isolated_pythons_are_left_alone(packages: Path) -> None:
    (packages.parent / "train.py").write_text(f"import sys; sys.path.insert(0, {str(packages)!r}); import paddle\n")
    for flag in ("-I", "-E", "-S"):
        assert run(flag, str(packages.parent / "train.py"), environ=told(packages)) == "paddle begins\n"
