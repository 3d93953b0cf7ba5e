"""Finds backends by name: those of umiak, and those that other packages register. An adapter.

A package registers one in its metadata, as an entry point of the group ``umiak.backends``:

    [project.entry-points."umiak.backends"]
    mycloud = "mypackage.backend:make"

``make(place, context)`` returns what `umiak.submit.backend.Backend` describes. Nothing is imported
before a place needs it, and other packages are only looked through for a name that is not one of ours.
"""

from __future__ import annotations

from collections.abc import Collection

from umiak.core.problem import UmiakError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.metadata import EntryPoint

    from umiak.submit.backend import Backend, BackendFactory, SubmitContext
    from umiak.submit.places import NamedPlace

GROUP = "umiak.backends"
OURS = {
    "local": "umiak.submit.backends.local.backend:make",
    "ssh": "umiak.submit.backends.ssh.backend:make",
    "kubernetes": "umiak.submit.backends.kubernetes.backend:make",
    "paddlecloud": "umiak.submit.backends.paddlecloud.backend:make",
    "mpi": "umiak.submit.backends.mpi.backend:make",
    "slurm": "umiak.submit.backends.slurm.backend:make",
    "aihc": "umiak.submit.backends.aihc.backend:make",
    "bml": "umiak.submit.backends.bml.backend:make",
    "modelarts": "umiak.submit.backends.modelarts.backend:make",
    "pai": "umiak.submit.backends.pai.backend:make",
    "ray": "umiak.submit.backends.ray.backend:make",
}


class BackendNames(Collection[str]):
    """The names of all backends. Ours are known without looking through installed packages."""

    def __contains__(self, name: object) -> bool:
        return name in OURS or name in _others()

    def __iter__(self) -> Iterator[str]:
        return iter({**OURS, **_others()})

    def __len__(self) -> int:
        return len({**OURS, **_others()})


def make(place: NamedPlace, context: SubmitContext) -> Backend:
    """The backend of a place."""
    return _factory(place.backend)(place, context)


def _factory(name: str) -> BackendFactory:
    factory: BackendFactory
    if name in OURS:
        module, _, attribute = OURS[name].partition(":")
        factory = getattr(__import__(module, fromlist=[attribute]), attribute)
        return factory
    entry = _others().get(name)
    if entry is None:
        raise UmiakError.of(
            "UM-SUBMIT-003",
            f"unknown backend: {name}",
            hint=f"it is one of {', '.join(sorted(BackendNames()))}; is the package that brings it installed here?",
        )
    try:
        factory = entry.load()
    except Exception as error:
        raise UmiakError.refused(
            "UM-SUBMIT-004",
            f"the backend {name} can't be loaded: {entry.value}",
            why=f"{type(error).__name__}: {error}",
            hint="is everything that the package needs installed?",
        ) from error
    return factory


def _others() -> Mapping[str, EntryPoint]:
    """Registered by other packages. Tens of milliseconds, so only where a name is not ours."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}
