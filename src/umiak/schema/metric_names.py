"""What the name of a metric tells: whether less of it is better. A value.

is_less_better("log_loss"), is_less_better("auc") == (True, False)
"""

from __future__ import annotations

_LESS_IS_BETTER = ("loss", "entropy", "error", "mae", "mse", "rmse")
"""How the words of such names end."""


def is_less_better(metric: str) -> bool:
    """Also of a curve's name, such as ``evaluated/log_loss``."""
    words = metric.rpartition("/")[2].lower().replace(".", "_").replace("-", "_").split("_")
    return any(word.endswith(_LESS_IS_BETTER) for word in words)
