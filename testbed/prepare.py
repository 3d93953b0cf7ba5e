"""What the real clusters need of this machine and it lacks: installed where that is possible, named where it is not.

    python -m testbed.prepare                 everything
    python -m testbed.prepare --packages      all but Kubernetes and Kueue
    python -m testbed.prepare --kubernetes    these two alone, which `make test` builds while tests run (`testbed.run_tests`)

As root on Debian or Ubuntu the missing packages are installed, and no service of theirs is started;
elsewhere the tests that need them say why they are skipped (in CI, why they fail). All of them take 300 MB, and PyTorch 1.2 GB. Kubernetes is built
from source where there is Go, 13 minutes, once, and so are Helm and Kueue (5 minutes).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from testbed import browser, images, kafka, mpi, processes, pytorch, slurm, sshd
from testbed.kubernetes import programs

PACKAGES = {
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "zsh": "zsh",  # completion is tried in the shells themselves
    "fish": "fish",
    **sshd.TOOLS,
    **slurm.TOOLS,
    **dict(mpi.TOOLS.values()),
    **images.TOOLS,
    **browser.TOOLS,
    **kafka.TOOLS,
    **programs.TOOLS,
}
"""The Debian package of each program that the testbed runs."""

SERVICES = Path("/usr/sbin/policy-rc.d")
"""Asked by Debian's packages whether a service may be started."""


def main(words: Sequence[str] = ()) -> int:
    """Install what is missing; never fails, the tests themselves tell what they could not have."""
    if "--kubernetes" not in words:
        _prepare_packages()
    if "--packages" not in words:
        _prepare_kubernetes()
    return 0


def _prepare_packages() -> None:
    _install()
    try:
        if os.geteuid() == 0:
            images.fetch()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"testbed: no packages for images, so that their tests are skipped: {error}", file=sys.stderr)
    try:
        kafka.build()
    except (OSError, kafka.KafkaError) as error:
        print(f"testbed: no Kafka, so that its tests are skipped: {error}", file=sys.stderr)
    try:
        pytorch.build()
    except (OSError, pytorch.PyTorchError) as error:
        print(f"testbed: no PyTorch, so that its tests are skipped: {error}", file=sys.stderr)
    _build("helm", "the tests of the chart")


def _prepare_kubernetes() -> None:
    _build("kubernetes", "its tests")
    _build("kueue", "the tests with it")


def _build(product: str, tests: str) -> None:
    try:
        programs.build(product)
    except (OSError, programs.BuildError) as error:
        title = programs.PRODUCTS[product].title
        print(f"testbed: no {title}, so that {tests} are skipped: {error}", file=sys.stderr)


def _install() -> None:
    missing = sorted({package for program, package in PACKAGES.items() if processes.program(program) is None})
    if not missing:
        return
    names = " ".join(missing)
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        print(f"testbed: please install {names}; without them tests on real clusters are skipped", file=sys.stderr)
        return
    print(f"testbed: installing {names}", file=sys.stderr)
    apt = ["apt-get", "-o", "DPkg::Lock::Timeout=300"]
    commands = [
        ["dpkg", "--configure", "-a"],  # an installation that was interrupted once would stop this one too
        [*apt, "update"],
        [*apt, "install", "--yes", "--no-install-recommends", *missing],
    ]
    with _services_stay_off():
        for command in commands:
            environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)


@contextlib.contextmanager
def _services_stay_off() -> Iterator[None]:
    """Let no package start its service; a machine that has a policy of its own keeps it."""
    if SERVICES.exists():
        yield
        return
    SERVICES.write_text("#!/bin/sh\nexit 101\n")
    SERVICES.chmod(0o755)
    try:
        yield
    finally:
        SERVICES.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
