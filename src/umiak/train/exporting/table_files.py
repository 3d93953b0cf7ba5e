"""Tables of a checkpoint as files of a directory: Parquet or safetensors. An adapter."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from umiak.core.problem import UmiakError
from umiak.ps import export as ps_export
from umiak.schema.findings import choices

if TYPE_CHECKING:
    from collections.abc import Sequence


def write(
    checkpoint: str, directory: str, kind: str, wanted: Sequence[str] = ()
) -> tuple[list[ps_export.Export], list[str]]:
    """A file for each table, or for those that are wanted. Returns them, and dense tables that are left out, since Parquet has no place for their shapes."""
    specs = ps_export.specs_of(checkpoint)
    unknown = [name for name in wanted if name not in specs]
    if unknown:
        what = f"the checkpoint has no table {unknown[0]}"
        raise UmiakError.of("UM-EXPORT-005", what, hint=choices(unknown[0], [*specs]), where=checkpoint)
    names = [*wanted] or [*specs]
    dense = [name for name in names if specs[name]["kind"] == "dense"] if kind == "parquet" else []
    if wanted and dense:
        what = f"table {dense[0]} is dense: it has arrays of several shapes, and Parquet has rows"
        raise UmiakError.of("UM-EXPORT-005", what, hint="--format safetensors", where=checkpoint)
    chosen = [name for name in names if name not in dense]
    if not chosen:
        what = "the checkpoint has no tables with rows by key: all that the model has learned is dense"
        raise UmiakError.of("UM-EXPORT-005", what, hint="--format safetensors", where=checkpoint)
    one = ps_export.to_parquet if kind == "parquet" else ps_export.to_safetensors
    return [one(checkpoint, name, os.path.join(directory, f"{name}.{kind}")) for name in chosen], dense
