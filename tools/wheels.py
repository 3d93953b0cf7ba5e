"""Builds the wheels for machines without Rust into dist/. Called by `make wheels`, in an environment of its own.

    python -m tools.wheels                    for this machine's processor, and for others where that is possible
    python -m tools.wheels --require aarch64  fails where that processor's wheel can't be built
    python -m tools.wheels --only x86_64      for that one alone

One pure wheel each of umiak, umiak-paddlerec, umiak-paddle-launch and umiak-paddle-fluid, and per processor one of umiak-native: for every Python from 3.10 (the
stable ABI) and every Linux with glibc 2.17 or newer (manylinux2014). Such an old glibc is linked against with zig, which
comes from PyPI like maturin; another processor needs nothing more than Rust's standard library for it.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
SHIMS = ("paddlerec", "paddle-launch", "paddle-fluid")
GLIBC = "manylinux2014"
PROCESSORS = ("x86_64", "aarch64")


def main() -> int:
    """Build what can be built, say what can't and why, and show how to install it."""
    asking = argparse.ArgumentParser(description="Build umiak's wheels into dist/.")
    asking.add_argument(
        "--require", action="append", default=[], choices=PROCESSORS, help="fail if this one can't be built"
    )
    asking.add_argument("--only", action="append", default=[], choices=PROCESSORS, help="build for this one alone")
    asked = asking.parse_args()
    required = asked.only or [platform.machine(), *asked.require]
    DIST.mkdir(exist_ok=True)
    for old in DIST.glob("umiak*.whl"):
        old.unlink()
    pure = [str(ROOT), *(str(ROOT / "shims" / name) for name in SHIMS)]
    flags = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(DIST)]
    _run([sys.executable, "-m", "pip", "wheel", *flags, *pure], UMIAK_WHEELS="1")
    for processor in asked.only or PROCESSORS:
        missing = _missing_library(processor)
        if missing and processor in required:
            print(f"wheels: umiak-native for {processor} can't be built: {missing}", file=sys.stderr)
            return 1
        if missing:
            print(f"wheels: SKIPPED umiak-native for {processor}: {missing}", file=sys.stderr)
        else:
            _native(processor)
    _tell()
    return 0


def _native(processor: str) -> None:
    _run([
        sys.executable, "-m", "maturin", "build", "--quiet", "--profile", "wheel", "--zig", "--compatibility", GLIBC,
        "--target", f"{processor}-unknown-linux-gnu", "--manifest-path", str(ROOT / "native" / "Cargo.toml"),
        "--out", str(DIST),
    ])  # fmt: skip


def _missing_library(processor: str) -> str:
    """Why Rust can't build for this processor; empty if it can. rustup is asked for what is missing."""
    target = f"{processor}-unknown-linux-gnu"
    sysroot = subprocess.run(
        ["rustc", "--print", "sysroot"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    library = Path(sysroot, "lib", "rustlib", target, "lib")
    if library.exists():
        return ""
    if not shutil.which("rustup"):
        return f"Rust's standard library for {target} is not installed, and there is no rustup to fetch it"
    print(f"wheels: fetching Rust's standard library for {processor}: rustup target add {target}", file=sys.stderr)
    try:
        asked = subprocess.run(
            ["rustup", "target", "add", target], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
        )
        said = asked.stderr.strip().splitlines()
    except subprocess.TimeoutExpired:
        said = ["no answer within 300 s"]
    if library.exists():
        return ""
    return f"Rust's standard library for {target} could not be fetched: {said[-1] if said else 'rustup gave no reason'}"


def _tell() -> None:
    for wheel in sorted(DIST.glob("umiak*.whl")):
        print(f"wheels: {wheel.relative_to(ROOT)}, {wheel.stat().st_size / 1e6:.1f} MB")
    version = next(DIST.glob("umiak-*.whl")).name.split("-")[1]
    print(f"install them anywhere: python -m pip install --find-links dist 'umiak[train]=={version}'")


def _run(command: list[str], **environ: str) -> None:
    # zig is found as a module of this interpreter, whose directory must be the first on PATH.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(command, cwd=ROOT, env={**os.environ, "PATH": path, **environ}, check=True)


if __name__ == "__main__":
    sys.exit(main())
