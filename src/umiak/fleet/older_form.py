"""Static programs in Paddle's older form, which can be divided among servers, from the moment a script wants static programs. An adapter, for Paddle.

    install()       `paddle.enable_static()` chooses the older form first

Until then nothing changes, so that dynamic scripts of a job with servers keep `paddle.jit.to_static` and the format of
`paddle.jit.save`, which need the newer form. A person who has set FLAGS_enable_pir_api has decided already.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

import paddle

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FLAG = "FLAGS_enable_pir_api"
_FUNCTIONS = ("default_main_program", "default_startup_program", "program_guard")


def install() -> None:
    """Replace Paddle's switch by one that also chooses the form."""
    if FLAG in os.environ:
        return
    for name in _FUNCTIONS:
        setattr(paddle.static, name, _of_the_form(getattr(paddle.static, name), getattr(paddle.base.framework, name)))
    theirs = paddle.enable_static

    @functools.wraps(theirs)
    def enable_static() -> None:
        use()
        theirs()

    paddle.enable_static = paddle.framework.enable_static = enable_static


def use() -> None:
    """The older form from now on."""
    from paddle.pir_utils import _switch_to_old_ir_

    if paddle.framework.use_pir_api():
        paddle.framework.set_flags({FLAG: False})
        _switch_to_old_ir_()


def _of_the_form(newer: Callable[..., Any], older: Callable[..., Any]) -> Callable[..., Any]:
    """For scripts that have imported a function by its name before they chose static programs."""

    @functools.wraps(newer)
    def call(*given: Any, **named: Any) -> Any:
        return (newer if paddle.framework.use_pir_api() else older)(*given, **named)

    return call
