"""A name for arrays of numpy whose type of numbers is not known before they are there: of files, of models, of Paddle. Values."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from numpy.typing import NDArray

    AnyArray: TypeAlias = NDArray[Any]
