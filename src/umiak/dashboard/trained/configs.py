"""The configs that runs of `umiak train` keep, and of the earlier runs of the same config the best. An adapter.

    config_of("/home/ada/run/ctr")                 what that run was trained with; None: it keeps none
    EarlierRuns().best(rows, sources, row)          a finished run that began before it, with the same metric

Two runs have the same config if they are the same runner of the same file, whatever was overridden, or have the same settings.
"""

from __future__ import annotations

import hashlib
import os
import threading

from umiak.core import light_json
from umiak.core.shown import one_line
from umiak.core.value import value
from umiak.dashboard import files
from umiak.schema.metric_names import is_less_better

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from umiak.core.json_types import JsonObject
    from umiak.dashboard.rows import RunRow, RunSource

CONFIG = "config.json"
LARGEST = 4 << 20


@value
class KeptConfig:
    """What a run was trained with."""

    file: str
    runner: str
    settings: JsonObject = {}
    digest: str = ""
    """The same for the same settings."""

    @property
    def data(self) -> JsonObject:
        return {"file": self.file, "runner": self.runner, "settings": self.settings}

    def is_same(self, other: KeptConfig) -> bool:
        """Whether runs with these may be compared without a second thought."""
        return (self.file, self.runner) == (other.file, other.runner) or self.digest == other.digest


def config_of(directory: str) -> KeptConfig | None:
    """None if there is none that can be understood."""
    try:
        text = files.head(os.path.join(directory, CONFIG), LARGEST)
        told = light_json.loads(text)
        settings = {str(name): item for name, item in dict(told["settings"]).items()}
        file, runner = one_line(str(told["config"])), one_line(str(told["runner"]))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    digest = hashlib.sha256(repr(sorted(settings.items())).encode(errors="replace")).hexdigest()
    return KeptConfig(file=file, runner=runner, settings=settings, digest=digest)


class EarlierRuns:
    """Remembers whose config is whose, as long as the files are the same."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int], KeptConfig | None]] = {}
        self._lock = threading.Lock()

    def best(
        self, rows: Iterable[RunRow], source_of: Callable[[str], RunSource | None], row: RunRow
    ) -> tuple[RunRow | None, int]:
        """The one whose metric ended best, and how many there are. Reads what is not known yet."""
        source = source_of(row.id)
        if source is None or not source.metrics_directory or row.started_s is None:
            return None, 0
        with self._lock:
            own = self._look(source.metrics_directory)
            if own is None:
                return None, 0
            found = []
            for other in rows:
                if other.id == row.id or other.metric_value is None or not _is_earlier(other, row):
                    continue
                there = source_of(other.id)
                config = self._look(there.metrics_directory) if there and there.metrics_directory else None
                if config is not None and config.is_same(own):
                    found.append(other)
        sign = -1 if is_less_better(row.metric) else 1
        comparable = [each for each in found if each.metric == row.metric]
        return max(comparable, key=lambda each: sign * (each.metric_value or 0.0), default=None), len(found)

    def _look(self, directory: str) -> KeptConfig | None:
        try:
            seen = os.lstat(os.path.join(directory, CONFIG))
            stamp = (seen.st_mtime_ns, seen.st_ino)
        except OSError:
            self._known.pop(directory, None)
            return None
        known = self._known.get(directory)
        if known is None or known[0] != stamp:
            config = config_of(directory)
            bare = None if config is None else KeptConfig(file=config.file, runner=config.runner, digest=config.digest)
            known = self._known[directory] = (stamp, bare)
        return known[1]


def _is_earlier(other: RunRow, row: RunRow) -> bool:
    began = row.started_s or 0.0
    return other.ended_s is not None and other.started_s is not None and other.started_s < began
