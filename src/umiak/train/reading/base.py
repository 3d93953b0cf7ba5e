"""The base of reader classes that were written for PaddleRec, and the modules they import it from. An adapter: it adds modules.

    from paddlerec.core.reader import ReaderBase          # or: from umiak.models import ReaderBase
    from paddlerec.core.utils import envs
    from umiak.models import stable_hash

    class Reader(ReaderBase):
        def init(self):
            self.buckets = envs.get_global_env("hyper_parameters.buckets", 1000)

        def generate_sample(self, line):
            def samples():
                label, *words = line.split()
                yield [("click", [int(label)]), ("words", [stable_hash(word, self.buckets) for word in words])]
            return samples

Where a real ``paddlerec`` is installed, its own modules are used.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

Sample = Iterable[tuple[str, Iterable[Any]]]


class ReaderBase:
    """Turns lines into samples. `init` is called once in each process."""

    def __init__(self, config: str | None = None) -> None:
        self._config = config
        """The path of the config."""

    def init(self) -> None:
        """Get ready."""

    def generate_sample(self, line: str) -> Callable[[], Iterator[Sample | None]]:
        """A function that yields the samples of a line: pairs of a slot's name and its values, always in the same order."""
        raise NotImplementedError(f"{type(self).__name__} has no generate_sample")


_settings: dict[str, Any] = {}


def get_global_env(name: str, default: Any = None, namespace: str | None = None) -> Any:
    """What a config says: ``get_global_env("hyper_parameters.buckets", 1000)``."""
    found: Any = _settings
    for word in (f"{namespace}.{name}" if namespace else name).split("."):
        if not isinstance(found, Mapping) or word not in found:
            return default
        found = found[word]
    return found


def get_runtime_environ(name: str) -> str | None:
    """A variable of the environment."""
    return os.environ.get(name)


def provide_old_modules(settings: Mapping[str, Any]) -> None:
    """Let ``paddlerec.core.reader`` and ``paddlerec.core.utils.envs`` be imported here, unless they are installed.

    Those of ``shims/paddlerec`` are these, too.
    """
    _settings.clear()
    _settings.update(settings)
    if "paddlerec" in sys.modules or importlib.util.find_spec("paddlerec") is not None:
        return
    envs = _module("paddlerec.core.utils.envs", get_global_env=get_global_env, get_runtime_environ=get_runtime_environ)
    utils = _module("paddlerec.core.utils", envs=envs)
    reader = _module("paddlerec.core.reader", ReaderBase=ReaderBase)
    core = _module("paddlerec.core", utils=utils, reader=reader)
    _module("paddlerec", core=core)


def _module(name: str, **contents: Any) -> types.ModuleType:
    module = types.ModuleType(name, "Provided by umiak for reader classes that were written for PaddleRec.")
    module.__path__ = []
    module.__dict__.update(contents)
    sys.modules[name] = module
    return module
