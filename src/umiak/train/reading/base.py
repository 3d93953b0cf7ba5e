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
from typing import TYPE_CHECKING, Any

from umiak.train.config.paddlerec.dotted import dotted, listed

if TYPE_CHECKING:
    from umiak.core.json_types import JsonMapping, JsonObject

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


_settings: JsonObject = {}
_runtime: dict[str, str] = {}


def get_global_env(name: str, default: Any = None, namespace: str | None = None) -> Any:
    """What a config says: ``get_global_env("hyper_parameters.buckets", 1000)``."""
    found: Any = _settings
    for word in (f"{namespace}.{name}" if namespace else name).split("."):
        if not isinstance(found, Mapping) or word not in found:
            return default
        found = found[word]
    return listed(found)


def settings() -> JsonObject:
    """What `get_global_env` looks into."""
    return dict(_settings)


def get_global_envs() -> JsonObject:
    """All of it in one dictionary with dotted keys."""
    own = ("config_abs_dir", "yaml_path")
    return {name: each for name, each in dotted(_settings, "").items() if name not in own}


def get_runtime_environ(name: str) -> str | None:
    """What the trainer says about the run, such as ``fleet_mode``, or a variable of the environment."""
    return _runtime.get(name, os.environ.get(name))


def get_fleet_mode() -> str:
    """``PS`` or ``COLLECTIVE``."""
    return _runtime.get("fleet_mode", "PS")


def get_trainer() -> str:
    """The kind of trainer: models of PaddleRec 1.8.5 ask whether it is one for clusters."""
    return _runtime.get("train.trainer.trainer", "GeneralTrainer")


def get_platform() -> str:
    """The system."""
    return "LINUX"


def load_yaml(config: str) -> Any:
    """A config as plain data."""
    import yaml  # not before it is needed

    with open(config, encoding="utf-8") as file:
        return yaml.safe_load(file)


def os_path_adapter(path: str) -> str:
    """A path as this system writes it."""
    return path.replace("\\", "/")


def workspace_adapter(path: str) -> str:
    """A path with the workspace in place of ``{workspace}``."""
    return path.replace("{workspace}", str(get_global_env("workspace", "")))


def set_runtime(said: Mapping[str, str]) -> None:
    """What `get_runtime_environ` knows besides the environment."""
    _runtime.clear()
    _runtime.update(said)


ENVS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        get_fleet_mode,
        get_global_env,
        get_global_envs,
        get_platform,
        get_runtime_environ,
        get_trainer,
        load_yaml,
        os_path_adapter,
        workspace_adapter,
    )
}
"""What ``paddlerec.core.utils.envs`` has."""


def provide_old_modules(settings: JsonMapping) -> None:
    """Let ``paddlerec.core.reader`` and ``paddlerec.core.utils.envs`` be imported here, unless they are installed.

    Those of ``shims/paddlerec`` are these, too.
    """
    _settings.clear()
    _settings.update(settings)
    if "paddlerec" in sys.modules or importlib.util.find_spec("paddlerec") is not None:
        return
    envs = provide("paddlerec.core.utils.envs", **ENVS)
    utils = provide("paddlerec.core.utils", envs=envs)
    reader = provide("paddlerec.core.reader", ReaderBase=ReaderBase)
    core = provide("paddlerec.core", utils=utils, reader=reader)
    provide("paddlerec", core=core)


def is_provided() -> bool:
    """Whether ``paddlerec`` is made here, and nothing that is installed."""
    return getattr(sys.modules.get("paddlerec"), "__file__", "") is None


def provide(name: str, **contents: Any) -> types.ModuleType:
    """A module that is made here."""
    module = types.ModuleType(name, "Provided by umiak for code that was written for PaddleRec.")
    module.__path__ = []
    module.__file__ = None
    module.__dict__.update(contents)
    sys.modules[name] = module
    return module
