"""Which launchers one machine of a run starts, and what each is given. Values, and a decider.

    RunPlan(run_id="ctr-3f2a9c", directory="/home/me/ctr", launchers=(PlannedLauncher(name="launcher", argv=(...)),))
    environment(plan, 0, master="127.0.0.1:41234")      what `platforms` reads back

A backend makes the plan; the supervisor of the machine does what it says.
It is read on many hosts at once, so that nothing is imported here that takes milliseconds and is rarely needed.
"""

from __future__ import annotations

from umiak.core.value import fields, replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.core.cluster import Role
    from umiak.core.json_types import JsonMapping, JsonObject

OURS = "UMIAK_"
"""Variables of a launcher around this one say nothing to those of a job."""
PLATFORM = "umiak"
LONGEST_GRACE_S = 600
"""Of launchers under a supervisor, which ends what is left after the grace that was asked for: this is the most."""
PYTHON, LAUNCHER = "{python}", "{launcher}"
"""In a plan that travels: the Python of the machine, and the launcher's file there."""


@value
class PlannedLauncher:
    """One `umiak launch`."""

    name: str
    """Of its log directory as well."""
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    """The job's variables; none of them is secret."""
    role: Role | None = None
    """Its workers' role, if all have the same one."""
    first_rank: int | None = 0
    """Of its workers among all of their role; None if that can't be known before it runs."""
    placement: tuple[tuple[str, str], ...] = ()
    """Variables that say which node of the job it is; empty: the launchers of this plan are the whole job."""
    node: str = ""
    """Of many machines: the name of this one."""


@value
class RunPlan:
    """Everything that a supervisor starts."""

    run_id: str
    directory: str
    launchers: tuple[PlannedLauncher, ...]
    time_limit_s: int | None = None
    machines: tuple[str, ...] = ()
    """Of a job on many machines: the names of all of them, this one too."""
    is_elastic: bool = False
    """Whether the other launchers go on without one that is lost."""

    def text(self) -> str:
        """As JSON, a launcher to a line."""
        import json

        plain = self.to_plain()
        launchers = ",\n  ".join(json.dumps(each) for each in plain.pop("launchers"))
        head = "".join(f" {json.dumps(name)}: {json.dumps(item)},\n" for name, item in plain.items())
        return f'{{\n{head} "launchers": [\n  {launchers}\n ]\n}}\n'

    def to_plain(self) -> JsonObject:
        launchers = [
            {**{name: getattr(each, name) for name in fields(each)}, "role": each.role.value if each.role else None}
            for each in self.launchers
        ]
        return {**{name: getattr(self, name) for name in fields(self)}, "launchers": launchers}

    @classmethod
    def from_plain(cls, data: JsonMapping) -> RunPlan:
        launchers = [
            PlannedLauncher(
                **{
                    **each,
                    "argv": tuple(each["argv"]),
                    **{key: tuple((name, text) for name, text in each.get(key, ())) for key in ("env", "placement")},
                    "role": _role(each["role"]) if each["role"] else None,
                }
            )
            for each in data["launchers"]
        ]
        return cls(**{**data, "launchers": tuple(launchers), "machines": tuple(data.get("machines", ()))})


def environment(plan: RunPlan, index: int, *, inherited: Mapping[str, str], master: str) -> dict[str, str]:
    """The environment of a launcher, without secrets:
    the person's, its place among the others, and the job's variables, which count most, as in `node_start`.
    """
    launcher, count = plan.launchers[index], len(plan.launchers)
    kept = {name: text for name, text in inherited.items() if not name.startswith(OURS)}
    if len(kept) < len(inherited):
        # Milliseconds that a host without such variables does not need.
        from umiak.contracts.native import PASSED_ON

        kept.update({name: text for name, text in inherited.items() if name in PASSED_ON})
    if launcher.placement:
        return {**kept, **dict(launcher.placement), **dict(launcher.env)}
    from umiak.core.cluster import Placement
    from umiak.platforms import native

    placement = Placement(platform=PLATFORM, reason="", nodes=count, rank=index, role=launcher.role)
    if count > 1:
        placement = replace(placement, master=master, host="127.0.0.1")
    return {**kept, **native.environment_of(placement), **dict(launcher.env)}


def _role(word: str) -> Role:
    from umiak.core.cluster import Role

    return Role(word)
