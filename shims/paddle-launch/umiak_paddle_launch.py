"""Gives two commands of Paddle to umiak's launcher: ``python -m paddle.distributed.launch`` and ``fleetrun``.

Imported by `umiak_paddle_launch.pth` whenever Python starts in this environment. Unless Python was started by one of these commands
nothing happens: a program that imports ``paddle.distributed.launch`` gets Paddle's own module. In a process that was, the modules on the way to
the command's own are empty ones, so that the launcher does not wait seconds for Paddle, which it does not need.
"""

from __future__ import annotations

import os
import sys
from _frozen_importlib import (
    ModuleSpec,
)  # importlib.machinery takes a millisecond, and every Python of this environment comes here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

MODULES = ("paddle.distributed.launch", "paddle.distributed.fleet.launch")
"""What stands behind ``-m``; the second is the name of Paddle 2.0."""
SCRIPT, MARK = "fleetrun", b"from paddle.distributed.launch"
"""The script that Paddle's wheel installs, and what is written in it."""
TAKE_A_WORD = ("-W", "-X", "--check-hash-based-pycs")

LAUNCH = "import sys\nfrom umiak.cli.main import main\ndef launch():\n    sys.exit(main(['launch', *sys.argv[1:]]))\n"
RUN = f"{LAUNCH}if __name__ == '__main__':\n    launch()\n"
PACKAGES = ("paddle", "paddle.distributed", "paddle.distributed.fleet", "paddle.distributed.launch")
TEXTS = {
    **dict.fromkeys(PACKAGES, ""),
    "paddle.distributed.launch.__main__": RUN,
    "paddle.distributed.launch.main": LAUNCH,
    "paddle.distributed.fleet.launch": RUN,
}


class LaunchModules:
    """Finds and loads these modules: an importer for ``sys.meta_path``."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """A module's place; None if it is none of these."""
        if name not in TEXTS or not self._has_umiak():
            return None
        return ModuleSpec(name, self, origin=__file__, is_package=name in PACKAGES)  # type: ignore[arg-type]

    def _has_umiak(self) -> bool:
        from _frozen_importlib_external import PathFinder

        if "umiak" in sys.modules or PathFinder.find_spec("umiak"):
            return True
        sys.meta_path.remove(self)
        sys.stderr.write("umiak-paddle-launch: umiak is not installed here, so Paddle's own launcher runs\n")
        return False

    def create_module(self, _spec: ModuleSpec) -> None:
        """An ordinary one."""

    def exec_module(self, module: ModuleType) -> None:
        """Run a module's code."""
        exec(self.get_code(module.__name__), module.__dict__)  # noqa: S102 - as every import does

    def get_code(self, name: str) -> CodeType:
        """Also asked for by ``python -m``."""
        return compile(TEXTS[name], __file__, "exec", dont_inherit=True)


def is_command(words: Sequence[str]) -> bool:
    """Whether Python was started, with these words behind its name, by one of the two commands."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in TAKE_A_WORD:
            rest[:1] = []
        elif not word.startswith("-"):
            return os.path.basename(word) == SCRIPT and _is_paddles(word)
        elif not word.startswith("--"):
            # A letter each, as in -um MODULE; what follows these belongs to them.
            letter = next((each for each in word[1:] if each in "mcWX"), "")
            if letter == "m":
                return (word.partition("m")[2] or (rest[:1] or [""])[0]) in MODULES
            if letter == "c" or word == "-":
                return False
    return False


def _is_paddles(script: str) -> bool:
    try:
        with open(script, "rb") as file:
            return MARK in file.read(2000)
    except OSError:
        return False


def install() -> None:
    """Let this process run umiak's launcher, if it was started by one of the commands."""
    if is_command(sys.orig_argv[1:]):
        sys.meta_path.insert(0, LaunchModules())


install()
