"""Adapter: the programs of a Kubernetes cluster, built from Go modules and kept in the user's cache.

Each folder of `go/` is a Go module. All but `pause` have no code of their own: `go.mod` and `go.sum` name the exact sources. They are built once
per content of these files and version of Go, which takes about 13 minutes on two cores, and 6 GB of Go's caches. Helm, which needs no cluster,
and Kueue have directories of their own: another Helm is built without building Kubernetes again.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

TOOLS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "nft": "nftables",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
}
"""What nodes need besides, and the Debian package of each."""
MODULES = Path(__file__).parent / "go"
KUBERNETES_VERSION = "1.37.0"
_STAMP = f"-X k8s.io/component-base/version.gitVersion=v{KUBERNETES_VERSION}"
_STAMP += "".join(
    f" -X k8s.io/component-base/version.git{part}={number}"
    for part, number in zip(("Major", "Minor"), KUBERNETES_VERSION.split("."), strict=False)
)


@dataclass(frozen=True)
class ProgramGroup:
    """Programs that one Go module builds."""

    folder: str
    packages: Mapping[str, str]
    """The Go package of each program."""
    cost: str
    linker: str = "-s -w"


GROUPS = (
    ProgramGroup("pause", {"pause": "umiak-testbed/pause"}, "a second"),
    ProgramGroup("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}, "half a minute"),
    ProgramGroup("kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}, "a minute and a half"),
    ProgramGroup("coredns", {"coredns": "github.com/coredns/coredns"}, "two and a half minutes"),
    ProgramGroup(
        "apiextensions-1.20",
        {"apiextensions-apiserver": "k8s.io/apiextensions-apiserver"},
        "a minute",
        linker="-checklinkname=0 -s -w",  # it was written for a Go that allowed more
    ),
    ProgramGroup(
        "kubernetes",
        {
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in (
                "kube-apiserver",
                "kube-controller-manager",
                "kube-scheduler",
                "kubelet",
                "kube-proxy",
                "kubectl",
            )
        },
        "eight minutes",
        linker=f"-s -w {_STAMP}",
    ),
)


@dataclass(frozen=True)
class Product:
    """Programs that are built and kept together."""

    title: str
    groups: tuple[ProgramGroup, ...]
    cost: str


PRODUCTS = {
    "kubernetes": Product("Kubernetes", GROUPS, "about 13 minutes the first time"),
    "helm": Product(
        "Helm", (ProgramGroup("helm", {"helm": "helm.sh/helm/v3/cmd/helm"}, "two minutes"),), "about two minutes"
    ),
    "kueue": Product(
        "Kueue",
        (ProgramGroup("kueue", {"kueue": "sigs.k8s.io/kueue/cmd/kueue"}, "five minutes"),),
        "about five minutes",
    ),
}
KUEUE_MODULE = "sigs.k8s.io/kueue"


class BuildError(Exception):
    """A program could not be built."""


@functools.cache
def available(product: str = "kubernetes") -> str | None:
    """Why there are no programs of this product on this machine, or `None` where there are."""
    title = PRODUCTS[product].title
    if sys.platform != "linux":
        return f"the testbed's {title} needs Linux: {sys.platform}"
    try:
        is_built = directory(product).exists()
    except BuildError as error:
        return str(error)
    return None if is_built else f"the testbed's {title} is not built: python -m testbed.prepare"


def is_missing(product: str = "kubernetes") -> bool:
    """Whether `build` has something to do here, and can."""
    try:
        return sys.platform == "linux" and not directory(product).exists()
    except BuildError:
        return False


def program(name: str, product: str = "kubernetes") -> str:
    """The path of a program, such as `kubectl`."""
    return str(directory(product) / name)


@functools.cache
def directory(product: str = "kubernetes") -> Path:
    """Where the programs are when they are built; named after all that goes into them."""
    content = hashlib.sha256(_go_version().encode())
    for group in PRODUCTS[product].groups:
        content.update(repr((sorted(group.packages.items()), group.linker)).encode())
        for file in sorted((MODULES / group.folder).iterdir()):
            content.update(file.read_bytes() if file.name != "tools.go" else b"")
    return _cache() / f"{product}-{content.hexdigest()[:16]}"


def build(product: str = "kubernetes") -> None:
    """Build what is missing; a second caller waits for the first. `BuildError` if that can't be done."""
    target = directory(product)
    if target.exists():
        return
    _cache().mkdir(parents=True, exist_ok=True)
    with _only_one(_cache() / f"{product}.lock"):
        if target.exists():
            return
        wanted = PRODUCTS[product]
        print(f"testbed: building {wanted.title} from source, once: {wanted.cost}", file=sys.stderr)
        unfinished = Path(tempfile.mkdtemp(prefix=f"{product}-unfinished-", dir=_cache()))
        try:
            for group in wanted.groups:
                _build(group, unfinished)
            unfinished.chmod(0o755)
            unfinished.rename(target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    available.cache_clear()


@functools.cache
def sources(product: str, module: str) -> Path:
    """Where Go keeps the source of a module that a product is built from: its manifests lie there. `BuildError` if it can't be had."""
    folder = MODULES / PRODUCTS[product].groups[0].folder
    told = subprocess.run(
        ["go", "mod", "download", "-json", module],
        cwd=folder,
        env=_go_environ(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if told.returncode != 0:
        raise BuildError(f"{module} cannot be downloaded: {told.stderr[-2000:]}{told.stdout[-2000:]}")
    return Path(json.loads(told.stdout)["Dir"])


def _build(group: ProgramGroup, into: Path) -> None:
    names = ", ".join(group.packages)
    print(f"testbed: building {names}: about {group.cost} on two cores", file=sys.stderr)
    started = time.monotonic()
    output = into / "output"
    output.mkdir()
    command = ["go", "build", "-mod=readonly", "-buildvcs=false", "-ldflags", group.linker, "-o", f"{output}/"]
    done = subprocess.run(
        [*command, *group.packages.values()],
        cwd=MODULES / group.folder,
        env=_go_environ(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(f"{names} cannot be built:\n{done.stdout[-2000:]}")
    built = list(output.iterdir())
    if len(group.packages) == 1:  # Go names a program after its package's folder, and etcd's is called `server`
        built = [built[0].rename(output / next(iter(group.packages)))]
    for file in built:
        file.rename(into / file.name)
    output.rmdir()
    print(f"testbed: built {names} in {time.monotonic() - started:.0f} s", file=sys.stderr)


@functools.cache
def _go_version() -> str:
    try:
        told = subprocess.run(
            ["go", "env", "GOVERSION", "GOARCH"], cwd=MODULES / "kubernetes", capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        raise BuildError("the testbed's Kubernetes needs Go 1.26 or newer: no go on PATH") from None
    except subprocess.CalledProcessError as error:
        raise BuildError(f"the testbed's Kubernetes needs Go 1.26 or newer: {error.stderr.strip()}") from None
    return told.stdout


def _go_environ() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "umiak-testbed"


@contextlib.contextmanager
def _only_one(path: Path) -> Iterator[None]:
    with open(path, "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
