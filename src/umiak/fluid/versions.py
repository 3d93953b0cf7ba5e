"""What programs ask of Paddle's version and of types by number. Values."""

from __future__ import annotations

import sys
from typing import Any


class _Types:
    """`VarDesc.VarType`: types are their names here."""

    BOOL, INT8, UINT8, INT16, INT32, INT64 = "bool", "int8", "uint8", "int16", "int32", "int64"
    FP16, FP32, FP64 = "float16", "float32", "float64"
    LOD_TENSOR, SELECTED_ROWS, LOD_TENSOR_ARRAY, RAW, READER = (
        "lod_tensor",
        "selected_rows",
        "lod_tensor_array",
        "raw",
        "reader",
    )
    STEP_SCOPES, FEED_MINIBATCH, FETCH_LIST = "step_scopes", "feed_minibatch", "fetch_list"


class VarDesc:
    """`fluid.core.VarDesc`, for its types."""

    VarType = _Types


class OpRole:
    """What an operation is for, as numbers. Recorded operations say it as `role`."""

    Forward, Backward, Optimize, RPC, Dist, LRSched, Loss = 0, 1, 2, 4, 8, 16, 256


def role_attribute() -> str:
    """The attribute in which 1.8's operations had their role."""
    return "op_role"


def role_variables_attribute() -> str:
    """The attribute in which 1.8's operations had the parameters and gradients of their role."""
    return "op_role_var"


def program_to_code(prog: Any, skip_op_callstack: bool = True) -> None:
    """Print a program."""
    sys.stdout.write(f"{prog}\n")


def require_version(min_version: str, max_version: str | None = None) -> None:
    """Whether 1.8.5, the version whose programs run here, is between two versions; an Exception if it is not."""
    if _parts(min_version) > (1, 8, 5, 0) or (max_version is not None and _parts(max_version) < (1, 8, 5, 0)):
        upper = f" and {max_version} at most" if max_version else ""
        raise Exception(f"VersionError: {min_version} or later{upper} is wanted, and programs run as 1.8.5 has them")  # noqa: TRY002 - as in 1.8


def _parts(version: Any) -> tuple[int, ...]:
    if not isinstance(version, str):
        raise TypeError(f"expected a version such as '1.8.0', got {version!r}")
    parts = version.split(".")
    if not 1 <= len(parts) <= 4 or not all(part.isdigit() for part in parts):
        raise ValueError(f"expected a version such as '1.8.0', got {version!r}")
    return tuple(int(part) for part in [*parts, *["0"] * (4 - len(parts))])
