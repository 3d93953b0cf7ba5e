"""Adapter: PyTorch for tests on a machine without a GPU, kept in the user's cache beside the programs of other real things.

    python -m testbed.pytorch -m pytest tests/unit/ps/test_ps_torch.py        Python with everything it has here, and PyTorch

A folder of packages, not an environment: what else a test needs is that of the Python which runs it. PyPI's PyTorch for Linux wants 2.5 GB of
CUDA's libraries to be there when it is imported, and on a CPU calls none of them. So in the place of all but one lie libraries without
anything in them, made by the compiler here: 0.6 GB to fetch, 1.2 GB on disk, made once.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PACKAGES = (
    "torch==2.15.0; python_version >= '3.11'",
    "torch==2.11.0; python_version < '3.11'",
    "nvidia-cuda-runtime>=13,<14",
    "filelock==3.20.0",
    "fsspec==2025.9.0",
    "jinja2==3.1.6",
    "markupsafe==3.0.3",
    "mpmath==1.3.0",
    "networkx==3.4.2",
    "sympy==1.14.0",
    "typing-extensions==4.15.0",
)
TOOLS = ("cc", "nm", "readelf")
"""Programs that make libraries and look into them, as compiling the native core needs them."""

_OTHERS = re.compile(r"lib(cu|nv|nccl)")
_THEIR_FUNCTIONS = re.compile(r"(cu|nv|nccl|__cu|__nv)")


class PyTorchError(Exception):
    """PyTorch can't be had here."""


@functools.cache
def available() -> str | None:
    """Why there is no PyTorch for tests on this machine, or `None` where there is."""
    if sys.platform != "linux":
        return f"the testbed's PyTorch needs Linux: {sys.platform}"
    return None if directory().exists() else "the testbed's PyTorch is not there: python -m testbed.prepare"


@functools.cache
def directory() -> Path:
    """Where the packages are when they are there; named after all that goes into them."""
    content = repr((PACKAGES, sys.version_info[:2], os.uname().machine, inspect.getsource(_stand_in)))
    return _cache() / f"pytorch-{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def environ() -> dict[str, str]:
    """The environment of a process that can import it."""
    before = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(directory()), *([before] if before else [])])}


def build() -> None:
    """Fetch it where it is missing; a second caller waits for the first. `PyTorchError` if that can't be done."""
    target = directory()
    if sys.platform != "linux" or target.exists():
        return
    _cache().mkdir(parents=True, exist_ok=True)
    with _only_one(_cache() / "pytorch.lock"):
        if target.exists():
            return
        if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
            raise PyTorchError(f"no {missing[0]} on PATH")
        print("testbed: fetching PyTorch, once: 0.6 GB", file=sys.stderr)
        unfinished = Path(tempfile.mkdtemp(prefix="pytorch-unfinished-", dir=_cache()))
        try:
            uv = str(Path(sys.executable).parent / "uv")
            _run([uv, "pip", "install", "--quiet", "--no-deps", "--target", str(unfinished), *PACKAGES])
            _stand_in(unfinished)
            _run([sys.executable, "-c", "import torch"], environ={**os.environ, "PYTHONPATH": str(unfinished)})
            unfinished.chmod(0o755)
            unfinished.rename(target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    available.cache_clear()


def _stand_in(root: Path) -> None:
    """Libraries without anything in them, in the place of those that PyTorch asks for when it is imported and that are not there."""
    own = sorted((root / "torch" / "lib").glob("*.so*"))
    here = [*own, *root.glob("nvidia/*/lib/*.so*")]
    needed = {file.name: re.findall(r"NEEDED.*\[(.*)\]", _run(["readelf", "-d", str(file)])) for file in own}
    others = {name for names in needed.values() for name in names if _OTHERS.match(name)}
    absent = sorted(others - {file.name for file in here})
    if not absent:
        return
    undefined = {name for file in own for name in _symbols(file, "--undefined-only")}
    defined = {name for file in here for name in _symbols(file, "--defined-only")}
    functions = sorted(name for name in undefined - defined if _THEIR_FUNCTIONS.match(name))
    # The loader looks for a function with a version in any library, but in the one of that version only with it.
    versioned = {name for file in own for name in re.findall(r"File: (\S+)", _run(["readelf", "-V", str(file)]))}
    keeper = next((each for each in absent if each in needed["libtorch_cuda.so"] and each not in versioned), None)
    if keeper is None:
        raise PyTorchError(f"all of these have versions: {', '.join(absent)}")
    source = "".join(f"int {name}(void) {{ __builtin_trap(); }}\n" for name in functions)
    for name in absent:
        command = ["cc", "-w", "-shared", "-fPIC", "-nostdlib", "-fno-builtin", f"-Wl,-soname,{name}", "-x", "c", "-"]
        _run([*command, "-o", str(root / "torch" / "lib" / name)], given=source if name == keeper else "")


def _symbols(file: Path, which: str) -> Iterator[str]:
    for word in _run(["nm", "-D", "--format=just-symbols", which, str(file)]).split():
        yield word.split("@")[0]


def _run(command: Sequence[str], *, given: str = "", environ: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(command, input=given, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PyTorchError(f"{Path(command[0]).name} has failed: {done.stderr[-2000:]}")
    return done.stdout


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "umiak-testbed"


@contextlib.contextmanager
def _only_one(path: Path) -> Iterator[None]:
    with open(path, "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main(words: Sequence[str]) -> int:
    """Python with these words, and PyTorch."""
    try:
        build()
    except PyTorchError as error:
        print(f"testbed: no PyTorch: {error}", file=sys.stderr)
        return 1
    return subprocess.run([sys.executable, *words], env=environ(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
