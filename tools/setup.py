"""Fills .venv, and says what goes on and how far: `make setup`, `make demo`. Runs in the environment that it fills, with the standard library alone.

    python -m tools.setup          what users and tests need
    python -m tools.setup demo     what `make demo` needs, without what only tests and checks use

On a terminal one line is renewed in place; elsewhere a line says how far it is, every ten seconds where something has changed, every thirty otherwise.
What a command has printed is shown whole if it fails, and not at all otherwise.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parents[1]
PYTHON = sys.executable
PIP = (PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint", "constraints.txt")
UV = (str(Path(PYTHON).parent / "uv"), "pip", "install", "--python", PYTHON, "--constraint", "constraints.txt")
TRAIN = ("numpy>=1.26,<2.4", "pyyaml>=6")
"""What the extra `train` needs of others: installed before our own, whose compilation is a step by itself."""
PACKAGES = {
    "demo": ("Python packages, 0.9 GB, most of it PaddlePaddle", ("--group", "paddle")),
    "all": ("Python packages, 1.3 GB, more than half of it PaddlePaddle", ("--group", "paddle", "--group", "dev")),
}
OWN = (
    *("--reinstall-package", "umiak-native", "--editable", ".[train]", "--editable", "shims/paddlerec"),
    *(
        "--reinstall-package",
        "umiak-paddle-fluid",
        "shims/paddle-fluid",
    ),  # not editable: its .pth file belongs into the environment
)
STEPS = 4
PLAIN_EVERY_S, UNCHANGED_EVERY_S, LIVE_EVERY_S = 10.0, 30.0, 0.2

_DOWNLOAD = re.compile(r"^Downloading (\S+) \((.+)\)$")
_RESOLVED = re.compile(r"^Resolved (\d+) packages?")
_COMPILING = re.compile(r"^(?:DEBUG)?\s*Compiling (\S+) v\S+")


def main(argv: Sequence[str]) -> int:
    """The exit status of the first step that failed, or 0."""
    kind = argv[0] if argv else "all"
    title, groups = PACKAGES[kind]
    crates = CratesCompiled(_crates())
    steps: list[tuple[str, tuple[str, ...], Callable[[str], str | None]]] = [
        ("pip and uv", (*PIP, "pip", "uv"), lambda _line: None),
        (title, (*UV, *groups, *TRAIN), PackagesInstalled().heard),
    ]
    wheel = built_wheel(ROOT)
    if wheel is None:
        what = "umiak and its native core, in Rust: some minutes the first time"
        steps.append((what, (*UV, "--verbose", *OWN), crates.heard))
    else:
        os.environ["UMIAK_WHEELS"] = "1"  # hatch_build.py: the core is what is given here, not what lies in native/
        steps.append(
            (f"umiak, and its native core from {wheel.relative_to(ROOT)}", (*UV, *OWN, str(wheel)), lambda _line: None)
        )
    began = time.monotonic()
    for number, (what, command, heard) in enumerate(steps, start=2):  # the first one was the environment itself
        status = step(f"{number}/{STEPS} {what}", command, heard)
        if status:
            return status
    _put(sys.stderr, f"{VENV_IS_READY} after {_clock(time.monotonic() - began)}\n")
    return 0


VENV_IS_READY = ".venv is ready"


def built_wheel(root: Path) -> Path | None:
    """The native core for this machine that `make wheels` has built, if nothing that it was built from is newer."""
    native = root / "native"
    sources = [*native.glob("*.toml"), native / "Cargo.lock", *native.glob("*.pyi"), *native.glob("src/**/*.rs")]
    newest = max(source.stat().st_mtime for source in sources)
    wheels = (root / "dist").glob(f"umiak_native-*_{platform.machine()}.whl")
    return next((wheel for wheel in wheels if wheel.stat().st_mtime > newest), None)


class PackagesInstalled:
    """How far uv is, from what it prints."""

    def __init__(self) -> None:
        self._known = ""

    def heard(self, line: str) -> str | None:
        if found := _RESOLVED.match(line.strip()):
            self._known = f"{found[1]} packages"
            return self._known
        if found := _DOWNLOAD.match(line.strip()):
            return f"{self._known}, downloading {found[1]} ({found[2]})".lstrip(", ")
        if line.strip().startswith("Prepared"):
            return f"{self._known}, installing".lstrip(", ")
        return None


class CratesCompiled:
    """How far cargo is, from what it prints through uv."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0

    def heard(self, line: str) -> str | None:
        found = _COMPILING.match(line)
        if not found:
            return None
        self._done += 1
        of = f" of {self._total}" if self._done <= self._total else ""
        last = ", the last one takes longest" if found[1] == "umiak-native" else ""
        return f"crate {self._done}{of}: {found[1]}{last}"


def step(title: str, command: Sequence[str], heard: Callable[[str], str | None], out: TextIO = sys.stderr) -> int:
    """Run one command and show how far it is. Its exit status; what it printed is shown if that is not 0."""
    shown = _Shown(title, out)
    printed: list[str] = []
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace",
    )  # fmt: skip
    assert process.stdout is not None
    reader = threading.Thread(target=_read, args=(process.stdout, printed, heard, shown), daemon=True)
    reader.start()
    try:
        while process.poll() is None:
            shown.renew()
            try:
                process.wait(LIVE_EVERY_S)
            except subprocess.TimeoutExpired:
                continue
    except BaseException:
        process.terminate()
        process.wait()
        raise
    reader.join()
    shown.end(failed=process.returncode != 0)
    if process.returncode:
        _put(out, "".join(printed))
        _put(out, f"error: this command ended with {process.returncode}: {' '.join(command)}\n")
    return process.returncode


def _read(stream: TextIO, printed: list[str], heard: Callable[[str], str | None], shown: _Shown) -> None:
    with stream:
        for line in stream:
            printed.append(line)
            state = heard(line.rstrip("\n"))
            if state is not None:
                shown.state = state


class _Shown:
    """One step as people see it."""

    def __init__(self, title: str, out: TextIO) -> None:
        self.state = ""
        self._title, self._out = title, out
        self._began = self._said_at = time.monotonic()
        self._said = ""
        self._is_live = out.isatty()
        if not self._is_live:
            _put(out, f"{title}\n")

    def renew(self) -> None:
        now = time.monotonic()
        if self._is_live:
            # How far it is matters more than what it is called, where there is no room for both.
            number = self._title.split()[0]
            self._line(*([f"{self._title}: {self.state}", f"{number} {self.state}"] if self.state else [self._title]))
        elif now - self._said_at >= (PLAIN_EVERY_S if self.state != self._said else UNCHANGED_EVERY_S):
            self._said_at, self._said = now, self.state
            _put(self._out, f"    {self.state or 'begun'}, {_clock(now - self._began)}\n")

    def end(self, *, failed: bool) -> None:
        took = f"{'failed' if failed else 'done'} after {_clock(time.monotonic() - self._began)}"
        if self._is_live:
            self._line(f"{self._title}: {took}", f"{self._title.split()[0]} {took}", clock=False)
            _put(self._out, "\n")
        else:
            _put(self._out, f"    {took}\n")

    def _line(self, *texts: str, clock: bool = True) -> None:
        """In place, with the time at its end: the first text that fits, or as much of the last one as does."""
        tail = f" {_clock(time.monotonic() - self._began)}" if clock else ""
        room = max(10, os.get_terminal_size(self._out.fileno()).columns - 1 - len(tail))
        text = next((text for text in texts if len(text) <= room), texts[-1])
        cut = text if len(text) <= room else f"{text[: room - 3]}..."
        _put(self._out, f"\r\x1b[2K{cut}{tail}")


def _crates() -> int:
    """How many crates the native core consists of; 0 if cargo can't tell."""
    command = ["cargo", "tree", "--manifest-path", "native/Cargo.toml", "--features", "python"]
    words = ["--edges", "normal,build", "--prefix", "none", "--no-dedupe"]
    done = subprocess.run([*command, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return len({" ".join(line.split()[:2]) for line in done.stdout.splitlines() if line.strip()})


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"


def _put(out: TextIO, text: str) -> None:
    out.write(text)
    out.flush()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
