"""Settings of the config, for models and reader classes."""

from umiak.train.reading.base import (
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

__all__ = [
    "get_fleet_mode",
    "get_global_env",
    "get_global_envs",
    "get_platform",
    "get_runtime_environ",
    "get_trainer",
    "load_yaml",
    "os_path_adapter",
    "workspace_adapter",
]
