"""What a job.yaml says for one place alone: `on: {lab: {...}}` laid over the rest of the file. A decider.

    merged(tree, override)      the job as the place gets it

A key of the override takes the place of the job's; ``null`` takes it away. `env` is merged variable by variable, `roles` role by role and
key by key. Every value keeps its line, so that what is wrong with it is told where it stands.
"""

from __future__ import annotations

from umiak.core.value import replace
from umiak.schema.yaml_tree import Section

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.yaml_tree import Entry

KEY = "on"
KEPT = ("name", KEY)
"""Keys of a job that no place changes: the name is the job's own."""
_MERGED = {"env": False, "roles": True}
"""Keys that are merged, and whether their own mappings are merged as well."""


def merged(tree: Section, override: Section) -> Section:
    """The job of one place. What no place may change is left as it is."""
    made = replace(tree, entries=tuple([each for each in tree.entries if each.key != KEY]))
    for entry in override.entries:
        if entry.key not in KEPT:
            made = made.put(_laid_over(made.get(entry.key), entry))
    return made


def _laid_over(below: Entry | None, above: Entry) -> Entry:
    if above.key not in _MERGED or below is None:
        return above
    if not isinstance(below.node, Section) or not isinstance(above.node, Section):
        return above
    node = replace(above.node, entries=below.node.entries)
    for entry in above.node.entries:
        old = node.get(entry.key)
        if _MERGED[above.key] and old is not None and isinstance(old.node, Section) and isinstance(entry.node, Section):
            entry = replace(entry, node=merged(old.node, entry.node))  # noqa: PLW2901 - a role, whose keys are the job's
        node = node.put(entry)
    return replace(above, node=node)
