"""``runPolicy.failurePolicy``: its fields in both dialects, read and checked. A decider.

failurePolicy:
  rules:
  - {action: Fail, onExitCodes: {operator: In, values: [42]}}
  - {action: RestartWithoutCounting, roles: [worker], onReasons: [OOMKilled]}
"""

from __future__ import annotations

from umiak.core.nearest import nearest
from umiak.paddlejob.field_reader import shown
from umiak.paddlejob.fields import FieldKind, ResourceField
from umiak.paddlejob.resource import FailureRule, PodRole, RuleAction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from umiak.core.json_types import JsonMapping
    from umiak.paddlejob.field_reader import FieldNotes

PATH = "spec.runPolicy.failurePolicy.rules"
IN, NOT_IN = "In", "NotIn"
REASONS = (
    "BackoffLimitExceeded",
    "ContainerCannotRun",
    "DeadlineExceeded",
    "DeletionByTaintManager",
    "Error",
    "Evicted",
    "EvictionByEvictionAPI",
    "NodeLost",
    "NodeShutdown",
    "OOMKilled",
    "PodDeleted",
    "Preempting",
    "PreemptionByScheduler",
    "StartError",
    "TerminationByKubelet",
    "UnexpectedAdmissionError",
)
"""Common words, to find misspelt ones: the list is open, as nodes and plug-ins have words of their own."""


def field(roles: tuple[str, ...]) -> ResourceField:
    """With the names that roles have in a dialect."""
    codes = ResourceField(
        "onExitCodes",
        "Looks at the exit code of the training, or of an init container that failed.",
        FieldKind.OBJECT,
        fields=(
            ResourceField(
                "operator", "One of the values, or none of them.", words=(IN, NOT_IN), default=IN, is_closed=True
            ),
            ResourceField("values", "Exit codes.", FieldKind.CODES, least=1, most=255, required=True),
        ),
    )
    return ResourceField(
        "failurePolicy",
        "What failures lead to. With rules containers are never restarted in their pods, so that each failure is seen.",
        FieldKind.OBJECT,
        fields=(
            ResourceField(
                "rules",
                "For each pod that failed the first rule counts all of whose parts match. Where none does, pods that the cluster took "
                "away are restarted without being counted, and those that failed by themselves within backoffLimit.",
                FieldKind.LIST,
                fields=(
                    ResourceField(
                        "action",
                        "The job fails at once, or is restarted as restartScope says: within backoffLimit, or without being counted.",
                        words=tuple([word.value for word in RuleAction]),
                        is_closed=True,
                        required=True,
                    ),
                    ResourceField(
                        "roles", "Roles that it is about.", FieldKind.WORDS, default="all", words=roles, is_closed=True
                    ),
                    codes,
                    ResourceField(
                        "onReasons",
                        "Looks at why a pod failed, as `kubectl describe pod` says it: OOMKilled, Evicted, NodeLost, "
                        "Preempting, Error and others. PodDeleted is looked at only if it is named here.",
                        FieldKind.WORDS,
                        default="any",
                    ),
                ),
            ),
        ),
    )


def rules_of(found: JsonMapping, roles: Mapping[str, PodRole], notes: FieldNotes) -> tuple[FailureRule, ...]:
    """Of the run policy, as it was read."""
    rules: list[FailureRule] = []
    for number, each in enumerate((found.get("failurePolicy") or {}).get("rules") or ()):
        path = f"{PATH}[{number}]"
        if "action" not in each:  # has been told
            continue
        codes = each.get("onExitCodes") or {}
        for reason in each.get("onReasons") or ():
            meant = nearest(reason, REASONS) if reason not in REASONS else None
            if meant:
                notes.warning(
                    "UM-PDJ-032",
                    f"{path}.onReasons",
                    f"unusual reason: {shown(reason)}",
                    hint=f"did you mean `{meant}`?",
                )
        for name in ("roles", "onReasons"):
            if each.get(name) == ():
                notes.problem("UM-PDJ-032", f"{path}.{name}", "names nothing that could match")
        if codes.get("values") == ():
            notes.problem("UM-PDJ-032", f"{path}.onExitCodes.values", "names no exit code")
        all_before = next((place for place, rule in enumerate(rules) if rule.is_about_all), None)
        if all_before is not None:
            why = f"{PATH}[{all_before}] is about every failure, and the first rule counts"
            notes.warning("UM-PDJ-032", path, "has no effect", why=why)
        rules.append(
            FailureRule(
                action=RuleAction(each["action"]),
                roles=tuple([roles[word] for word in each.get("roles") or ()]),
                exit_codes=codes.get("values") or (),
                is_not_in=codes.get("operator") == NOT_IN,
                reasons=each.get("onReasons") or (),
            )
        )
    return tuple(rules)
