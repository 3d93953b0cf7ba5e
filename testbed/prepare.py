"""What the real clusters need of this machine and it lacks: installed where that is possible, named where it is not.

    python -m testbed.prepare

A step of `make test`. As root on Debian or Ubuntu the missing packages are installed; elsewhere the tests that need them say
why they are skipped (in CI, why they fail).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

PACKAGES = {"ip": "iproute2", "nsenter": "util-linux", "unshare": "util-linux"}
"""The Debian package of each program that the testbed runs."""


def main() -> int:
    """Install what is missing; never fails, the tests themselves tell what they could not have."""
    missing = sorted({package for program, package in PACKAGES.items() if not shutil.which(program)})
    if not missing:
        return 0
    names = " ".join(missing)
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        print(f"testbed: please install {names}; without them tests on real hosts are skipped", file=sys.stderr)
        return 0
    print(f"testbed: installing {names}", file=sys.stderr)
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "--yes", "--no-install-recommends", *missing]):
        subprocess.run(command, env=environ, stdout=subprocess.DEVNULL, check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
