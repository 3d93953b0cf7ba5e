"""Names for what JSON, YAML and TOML hold, so that a signature says which of its arguments are such a document. Values.

    def body_of(job: Job) -> JsonObject: ...      # made here, to be sent or written
    def read(body: JsonMapping) -> Job: ...       # somebody else's: only read

What they hold is not known to a type checker: code that reads a document checks the type of each value before using it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeAlias

    JsonObject: TypeAlias = dict[str, Any]
    JsonMapping: TypeAlias = Mapping[str, Any]
