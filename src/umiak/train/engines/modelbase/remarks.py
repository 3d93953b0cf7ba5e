"""What a config or a model in the form of PaddleRec 1.8.5 asks for and what comes of it, where that is something else. A decider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from umiak.core.json_types import JsonMapping


FEEDS, FETCHES = "save_inference_feed_varnames", "save_inference_fetch_varnames"


def names_to_export(settings: JsonMapping) -> list[str]:
    """Variables that the runner names for inference models."""
    return [each for key in (FEEDS, FETCHES) for each in _names(settings, key)]


def answers_to_export(settings: JsonMapping) -> list[str]:
    """Those of them that inference models answer with."""
    return _names(settings, FETCHES)


def remarks_of(settings: JsonMapping, *, learns: bool, gradient_scale: int, is_mixed: bool) -> list[str]:
    """Sentences for warnings."""
    found = []
    if gradient_scale and learns:
        found.append(
            f"gradient_scale_strategy {gradient_scale} has no effect on one device, as in PaddleRec: gradients are those of the model's cost"
        )
    if is_mixed:
        found.append("use_amp has no effect: a program of paddle.fluid computes in the types that it names")
    runner: Any = settings.get("runner") or {}
    names = (FEEDS, FETCHES)
    if learns and runner.get("save_inference_path") and not all(runner.get(name) for name in names):
        found.append(
            f"save_inference_path: no inference model is written without {' and '.join(names)}, as in PaddleRec"
        )
    return found


def _names(settings: JsonMapping, key: str) -> list[str]:
    """A name or a list of names."""
    runner: Any = settings.get("runner") or {}
    said = runner.get(key) or ()
    return [str(each) for each in ((said,) if isinstance(said, str) else said)]
