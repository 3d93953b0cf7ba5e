"""Chooses the framework of a run, and imports it: the only way from `umiak.train.run` to a framework. An adapter.

There is one, PaddlePaddle. Importing it takes seconds, so it is asked for when a process is about to train.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from umiak.core.problem import Exit, Problem, UmiakError

if TYPE_CHECKING:
    from umiak.train.engines.engine import Framework


def framework() -> Framework:
    """The framework that models are written with. UmiakError if it can't be imported."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="No ccache found")  # for compiling operators, which nobody does here
        try:
            import paddle  # noqa: F401
        except ImportError as error:
            problem = Problem(
                code="UM-TRAIN-006",
                what="PaddlePaddle can't be imported",
                why=str(error),
                hint="`python -c 'import paddle'` says more; reinstall it, in the build for this machine",
            )
            raise UmiakError(problem, exit_status=Exit.REFUSED) from error
        from umiak.train.engines.paddle import PaddleFramework

    return PaddleFramework()
