"""Virtual environments that are fresh, and see the large packages of this one: Paddle, numpy, and umiak if they should."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tests.support.paths import ROOT

SHIM = ROOT / "shims" / "paddle-launch"
UV = Path(sys.executable).parent / "uv"
FLEETRUN = Path(sys.executable).parent / "fleetrun"


def built_shim(directory: Path) -> str:
    """The wheel of shims/paddle-launch."""
    subprocess.run([str(UV), "build", "--quiet", "--wheel", "--out-dir", str(directory), str(SHIM)], check=True)
    return str(next(directory.glob("umiak_paddle_launch-*.whl")))


class FreshEnvironment:
    """A fresh one that sees the packages of this one, and has Paddle's script."""

    def __init__(self, path: Path, *, with_umiak: bool = True) -> None:
        venv.create(path, with_pip=False, symlinks=True)
        self.bin, self.site = path / "bin", next(path.glob("lib/python*/site-packages"))
        packages = sysconfig.get_path("purelib")
        # umiak is installed editable, by a .pth file in that directory, which is read in this way alone.
        whole = f"import site; site.addsitedir({packages!r})"
        (self.site / "of_tests.pth").write_text(f"{whole if with_umiak else packages}\n")
        script = FLEETRUN.read_text().partition("\n")[2]
        (self.bin / "fleetrun").write_text(f"#!{self.bin / 'python'}\n{script}")
        (self.bin / "fleetrun").chmod(0o755)

    def pip(self, *words: str) -> None:
        command = [str(UV), "pip", *words, "--quiet", "--python", str(self.bin / "python")]
        subprocess.run(command, check=True, capture_output=True)

    def says(self, *words: str, **environ: str) -> str:
        """What a command prints to either stream."""
        command = [str(self.bin / words[0]), *words[1:]]
        environ = {**os.environ, **environ}
        return subprocess.run(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
