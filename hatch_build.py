"""Where an installation of umiak takes our own distributions from: never from an index (docs/decisions/0014).

Hatchling calls this when it makes the metadata of `umiak` and of what is in `shims`. A requirement on the native core becomes

    umiak-native @ file:///.../native      in a build from a checkout: pip and uv build it from there, whatever an index has
    umiak-native==0.1.0+local              in the wheels of `make wheels` (UMIAK_WHEELS=1), where this path would mean nothing

a requirement on umiak itself becomes `umiak==0.1.0+local`, since it is given in the same command, perhaps as an editable one,
and every other requirement stays as it is.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

NATIVE = Path(__file__).resolve().parent / "native"


class OwnDistributions(MetadataHookInterface):
    """Fills in `dependencies` or `optional-dependencies` from the table of this hook in pyproject.toml."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling with what pyproject.toml says."""
        version = metadata["version"]
        if "needs" in self.config:
            metadata["dependencies"] = [_placed(each, version) for each in self.config["needs"]]
        if "extras" in self.config:
            extras = self.config["extras"]
            metadata["optional-dependencies"] = {
                extra: [_placed(each, version) for each in needed] for extra, needed in extras.items()
            }


def _placed(requirement: str, version: str) -> str:
    name = requirement.partition("[")[0]
    if name == "umiak-native" and os.environ.get("UMIAK_WHEELS") != "1":
        return f"{requirement} @ {NATIVE.as_uri()}"
    return f"{requirement}=={version}" if name in ("umiak", "umiak-native") else requirement
