"""Which of our strategies a ``fleet.DistributedStrategy`` means. A decider.

a_sync False                        Sync
a_sync True, k_steps 0 or less      Async
a_sync True, k_steps above 0        Geo(every=k_steps)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.core.value import value
from umiak.ps.strategies import Async, Geo, Sync

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from umiak.ps.strategies import Strategy

_WITHOUT_EFFECT = {
    "amp": "mixed precision",
    "recompute": "recomputation",
    "gradient_merge": "merging of gradients",
    "lars": "LARS",
    "lamb": "LAMB",
    "localsgd": "local SGD",
    "dgc": "deep gradient compression",
    "sharding": "sharding",
    "pipeline": "pipeline parallelism",
}


@value
class ChosenStrategy:
    """A strategy of ours, and what of theirs is left out."""

    strategy: Strategy
    remarks: tuple[str, ...] = ()
    tables: Mapping[str, Mapping[str, Any]] = {}
    """What ``sparse_table_configs`` says of each table, by dotted names: ``accessor.embedx_threshold``."""


def chosen(theirs: Any) -> ChosenStrategy:
    """Ours for theirs; None is what ``DistributedStrategy()`` says."""
    if theirs is None:
        return ChosenStrategy(strategy=Async())
    configs = dict(theirs.a_sync_configs)
    steps = int(configs.get("k_steps", 0))
    strategy: Strategy = Async()
    if not theirs.a_sync:
        strategy = Sync()
    elif steps > 0:
        strategy = Geo(every=steps)
    remarks = [
        f"strategy.{name} is ignored: {words} has no part in a job with parameter servers"
        for name, words in _WITHOUT_EFFECT.items()
        if getattr(theirs, name, False) is True
    ]
    if configs.get("use_ps_gpu"):
        remarks.append("a_sync_configs: use_ps_gpu is ignored: tables are in the memory of the servers")
    if configs.get("heter_worker_device_guard", "cpu") not in ("cpu", "CPU"):
        remarks.append("a_sync_configs: heter_worker_device_guard is ignored: every trainer runs the whole program")
    said = getattr(getattr(theirs, "strategy", None), "downpour_table_param", ())
    tables = {each.table_name: dict(_said(each)) for each in said}
    return ChosenStrategy(strategy=strategy, remarks=tuple(remarks), tables=tables)


def _said(message: Any) -> Iterator[tuple[str, Any]]:
    """What a message of protobuf says, by dotted names; defaults that nobody has said are left out."""
    for field, content in message.ListFields():
        if hasattr(content, "ListFields"):
            yield from ((f"{field.name}.{name}", each) for name, each in _said(content))
        elif hasattr(content, "__len__") and not isinstance(content, (str, bytes)):
            yield field.name, [*content]
        else:
            yield field.name, content
