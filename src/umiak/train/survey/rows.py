"""What a survey has found: one row for each config, and the total. Values, and a decider that writes them as lines.

models/rank/dnn/config.yaml: runs
models/rank/din/config.yaml: runs, with remarks: it wants a gpu ...
models/match/kim/config.yaml: does not run: package nltk is not installed
"""

from __future__ import annotations

from enum import Enum

from umiak.core.value import value
from umiak.train.survey.packages import command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class SurveyVerdict(str, Enum):
    """Whether a config runs."""

    RUNS = "runs"
    REMARKS = "runs with remarks"
    NOT = "does not run"


class SurveyReason(str, Enum):
    """Why a config does not run."""

    CONFIG = "the config is wrong"
    STATIC = "static program"
    FLUID = "written for paddle.fluid"
    CODE = "the model or the reader is wrong"
    PACKAGE = "a package is missing"
    DATA = "data is missing"


@value
class SurveyRow:
    """One config."""

    path: str
    reasons: tuple[tuple[SurveyReason, str], ...] = ()
    """Everything that is in the way, with words of its own."""
    remarks: tuple[str, ...] = ()

    @property
    def verdict(self) -> SurveyVerdict:
        if self.reasons:
            return SurveyVerdict.NOT
        return SurveyVerdict.REMARKS if self.remarks else SurveyVerdict.RUNS

    @property
    def line(self) -> str:
        if self.reasons:
            return f"{self.path}: does not run: {'; '.join(what for _, what in self.reasons)}"
        return f"{self.path}: runs" + (f", with remarks: {'; '.join(self.remarks)}" if self.remarks else "")


@value
class Survey:
    """Everything below a directory."""

    directory: str
    rows: tuple[SurveyRow, ...] = ()
    others: int = 0
    """YAML files that are no configs."""
    packages: tuple[str, ...] = ()
    """All that any of them needs and that is not installed, as Python calls it."""

    def count(self, verdict: SurveyVerdict) -> int:
        return sum(row.verdict is verdict for row in self.rows)

    @property
    def total(self) -> str:
        """All of them, counted, in one line."""
        failed = self.count(SurveyVerdict.NOT)
        counts = [f"{self.count(SurveyVerdict.RUNS)} run", f"{self.count(SurveyVerdict.REMARKS)} run with remarks"]
        why = ", ".join(f"{reason.value}: {number}" for reason, number in reasons(self.rows))
        counts.append(f"{failed} do not run{f' ({why})' if why else ''}")
        others = f"; other YAML files: {self.others}" if self.others else ""
        return f"{len(self.rows)} config{'' if len(self.rows) == 1 else 's'}: {', '.join(counts)}{others}"


def reasons(rows: Sequence[SurveyRow]) -> tuple[tuple[SurveyReason, int], ...]:
    """How many configs do not run for each reason, by the first that each has; the most frequent first."""
    firsts = [row.reasons[0][0] for row in rows if row.reasons]
    counted = [(reason, firsts.count(reason)) for reason in SurveyReason if reason in firsts]
    return tuple(sorted(counted, key=lambda each: -each[1]))


def text(made: Survey) -> str:
    """One line for each config, what installs all that is missing, and the total."""
    return "\n".join([*(row.line for row in made.rows), *_install(made), made.total])


def _install(made: Survey) -> list[str]:
    if not made.packages:
        return []
    return [f"packages that are not installed: {', '.join(made.packages)}", f"  hint: {command(made.packages)}"]


def data(made: Survey) -> dict[str, object]:
    """The same as plain data."""
    return {
        "directory": made.directory,
        "configs": [
            {
                "config": row.path,
                "verdict": row.verdict.value,
                "reasons": [{"kind": reason.name.lower(), "what": what} for reason, what in row.reasons],
                "remarks": list(row.remarks),
            }
            for row in made.rows
        ],
        "total": {
            "configs": len(made.rows),
            **{verdict.name.lower(): made.count(verdict) for verdict in SurveyVerdict},
            "reasons": {reason.name.lower(): number for reason, number in reasons(made.rows)},
            "other_yaml_files": made.others,
            "packages": list(made.packages),
            "install": command(made.packages) if made.packages else None,
        },
    }
