"""`make setup` and `make demo` say what goes on and how far, and show an error whole."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import sys
import termios
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tools import setup

UV = """\
Using Python 3.11.7 environment at: .venv
Resolved 97 packages in 1.20s
Downloading paddlepaddle (189.2MiB)
 Downloaded paddlepaddle
Prepared 97 packages in 31.02s
Installed 97 packages in 2.01s
"""
CARGO = """\
DEBUG Running `maturin pep517 build-wheel -i python --compatibility off`
DEBUG    Compiling proc-macro2 v1.0.107
DEBUG    Compiling zstd-sys v2.1.2+zstd.1.5.7
DEBUG    Compiling umiak-native v0.1.0+local (native)
DEBUG    Compiling one-more v1.0.0
"""


def states(heard: object, text: str) -> list[str]:
    return [state for line in text.splitlines() if (state := heard(line)) is not None]  # type: ignore[operator]


def test_how_far_packages_are() -> None:
    assert states(setup.PackagesInstalled().heard, UV) == [
        "97 packages",
        "97 packages, downloading paddlepaddle (189.2MiB)",
        "97 packages, installing",
    ]


def test_how_far_the_compilation_is() -> None:
    assert states(setup.CratesCompiled(3).heard, CARGO) == [
        "crate 1 of 3: proc-macro2",
        "crate 2 of 3: zstd-sys",
        "crate 3 of 3: umiak-native, the last one takes longest",
        "crate 4: one-more",
    ]


def test_a_step_that_fails_is_shown_whole() -> None:
    out = io.StringIO()
    script = "import sys; print('to stdout'); sys.stdout.flush(); print('to stderr', file=sys.stderr); sys.exit(3)"
    assert setup.step("2/4 something", (sys.executable, "-c", script), lambda _line: None, out) == 3
    shown = out.getvalue()
    assert shown.startswith("2/4 something\n    failed after 0:0")
    assert "to stdout\nto stderr\nerror: this command ended with 3: " in shown


def test_a_step_that_goes_well_shows_nothing_else() -> None:
    out = io.StringIO()
    assert setup.step("2/4 something", (sys.executable, "-c", "print('noise')"), lambda _line: None, out) == 0
    assert re.fullmatch(r"2/4 something\n    done after 0:\d\d\n", out.getvalue())


def test_without_a_terminal_there_are_plain_lines_that_never_stop_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    now = [0.0]
    monkeypatch.setattr(setup.time, "monotonic", lambda: now[0])
    shown = setup._Shown("4/4 the native core", out)
    for second in range(130):
        now[0] = float(second)
        shown.state = f"crate {1 + min(second, 75) // 25} of 61: x"
        shown.renew()
    assert out.getvalue().splitlines() == [
        "4/4 the native core",
        "    crate 1 of 61: x, 0:10",
        "    crate 2 of 61: x, 0:25",
        "    crate 3 of 61: x, 0:50",
        "    crate 4 of 61: x, 1:15",
        "    crate 4 of 61: x, 1:45",
    ]


def test_on_a_terminal_one_line_is_renewed_within_its_columns() -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 40, 0, 0))
    with os.fdopen(theirs, "w") as out:
        shown = setup._Shown("4/4 umiak and its native core, in Rust: some minutes", out)
        shown.state = "crate 12 of 61: proc-macro2"
        shown.renew()
        shown.end(failed=False)
        text = ""
        while "\n" not in text:
            text += os.read(ours, 10_000).decode()
    os.close(ours)
    lines = [line for line in re.split(r"[\r\n]+", text.replace("\x1b[2K", "")) if line]
    assert [line[:31] for line in lines] == ["4/4 crate 12 of 61: proc-macro2", lines[1][:31]]
    assert lines[1].startswith("4/4 done after 0:0")
    assert max(map(len, lines)) < 40


def test_what_is_installed_before_our_own_is_what_training_needs() -> None:
    found = re.search(r"(?m)^train = \[(.+)\]$", (ROOT / "pyproject.toml").read_text())
    assert found is not None
    assert {*re.findall(r'"([^"]+)"', found[1])} - {"umiak-native"} == {*setup.TRAIN}


class TestTheWheelOfTheNativeCore:
    """Compiling takes minutes: what `make wheels` has compiled already is used, unless the sources have changed since."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        for name in ("native/Cargo.toml", "native/Cargo.lock", "native/src/ps/table.rs"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
            os.utime(tmp_path / name, (1000, 1000))
        return tmp_path

    def wheel(self, root: Path, machine: str, *, built: int) -> Path:
        path = root / "dist" / f"umiak_native-0.1.0+local-cp310-abi3-manylinux_2_17_{machine}.whl"
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.utime(path, (built, built))
        return path

    def test_is_used_if_it_is_newer_than_its_sources(self, root: Path) -> None:
        wheel = self.wheel(root, os.uname().machine, built=1001)
        assert setup.built_wheel(root) == wheel

    def test_is_not_used_if_a_source_is_newer(self, root: Path) -> None:
        self.wheel(root, os.uname().machine, built=999)
        assert setup.built_wheel(root) is None

    def test_is_not_used_on_another_processor(self, root: Path) -> None:
        self.wheel(root, "riscv64", built=1001)
        assert setup.built_wheel(root) is None

    def test_need_not_be_there(self, root: Path) -> None:
        assert setup.built_wheel(root) is None
