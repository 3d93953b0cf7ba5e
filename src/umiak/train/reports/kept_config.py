"""What a run directory keeps of the config that it was trained with, so that runs can be compared later. A decider.

    kept_config(config="ctr.yaml", runner="alone", written=plan.written, parts=parts_of(run))
    {"config": "/home/ada/ctr.yaml", "runner": "alone", "settings": {"runner.epochs": 4, "hyper_parameters.optimizer.class": "adam", ...}}

Overrides of the command line are in it. What other runners of the same file do is left out, and what looks like a secret is covered, as in logs.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from umiak.contracts.secrets import HIDDEN, redacted
from umiak.core.shown import without_passwords
from umiak.core.value import value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from umiak.core.json_types import JsonObject
    from umiak.train.config.values import Free
    from umiak.train.plan.plan import Run

MOST_SETTINGS = 2000
MOST_LETTERS = 1000
"""Of one setting: a list of slots may be long."""


@value
class UsedParts:
    """The names of what a runner uses of its config."""

    runner: str
    phases: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()


def parts_of(run: Run) -> UsedParts:
    """What a run uses."""
    stages = [*run.stages, *filter(None, [run.evaluation])]
    return UsedParts(
        runner=run.name,
        phases=tuple([each.name for each in stages]),
        datasets=tuple([each.dataset.name for each in stages]),
    )


def kept_config(config: str, written: Free, parts: UsedParts) -> JsonObject:
    """For JSON. Lists of runners, phases and datasets become mappings by name, of those that are used; one runner alone has no name in it."""
    used = {"runner": (parts.runner,), "phase": parts.phases, "dataset": parts.datasets}
    flat: dict[str, object] = {}
    for name, item in written.items():
        if name == "mode":
            continue  # which runners there were beside this one
        if name in used and isinstance(item, (list, tuple)):
            flat.update(_of_used(name, item, used[name]))
        else:
            flat.update(_flat(name, item))
    texts = {name: item if isinstance(item, str) else json.dumps(item, default=str) for name, item in flat.items()}
    covered = redacted(texts)
    kept = {
        name: HIDDEN if covered[name] == HIDDEN else without_passwords(_cut(item))
        for name, item in sorted(flat.items())[:MOST_SETTINGS]
    }
    return {"config": os.path.abspath(config), "runner": parts.runner, "settings": kept}


def _of_used(
    name: str, entries: list[object] | tuple[object, ...], used: tuple[str, ...]
) -> Iterator[tuple[str, object]]:
    for each in entries:
        if not isinstance(each, dict) or str(each.get("name")) not in used:
            continue
        label = name if name == "runner" else f"{name}.{each['name']}"
        yield from _flat(label, {key: item for key, item in each.items() if key != "name"})


def _flat(name: str, item: object) -> Iterator[tuple[str, object]]:
    if isinstance(item, dict) and item:
        for key, each in item.items():
            yield from _flat(f"{name}.{key}", each)
    else:
        yield name, item


def _cut(item: object) -> object:
    """Numbers and short texts as they are; a list as the text of one line."""
    if item is None or isinstance(item, (bool, int, float)):
        return item
    text = item if isinstance(item, str) else json.dumps(item, default=str, ensure_ascii=False)
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 3]}..."
