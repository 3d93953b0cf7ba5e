"""Settings of the config, for reader classes."""

from umiak.train.reading.base import get_global_env, get_runtime_environ

__all__ = ["get_global_env", "get_runtime_environ"]
