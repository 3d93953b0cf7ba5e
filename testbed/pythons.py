"""Every Python of this machine that umiak supports: on PATH, and among those of pyenv. An adapter.

pythons.found()      {"3.11": "/usr/bin/python3.11", "3.12": "..."}
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

LEAST_MINOR = 10


@cache
def found() -> dict[str, str]:
    """By minor version; this very one comes first."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    named = [shutil.which(f"python3.{minor}") for minor in range(LEAST_MINOR, 20)]
    pythons: dict[str, str] = {}
    for path in [sys.executable, *filter(None, named), *sorted(map(str, root.glob("versions/3.*/bin/python")))]:
        # A shim of pyenv is on PATH also for versions that it does not start.
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        asked = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
        if asked.returncode == 0 and int(asked.stdout.split(".")[1]) >= LEAST_MINOR:
            pythons.setdefault(asked.stdout.strip(), path)
    return pythons
