"""What a job says about itself in its log, for ``status.progress``. A decider.

    progress {"percent": 42, "etaSeconds": 120, "loss": 0.31}     a line that any program can print; percent and etaSeconds are numbers
    epoch 3/4  batch 120  31,200 samples/s  auc 0.7812  12s left  how `umiak train` says it

The last such line of the first worker's log counts. Words in front of it, as a launcher puts them there, don't matter.
"""

from __future__ import annotations

import json
import math
import re

from umiak.core.shown import one_line
from umiak.paddlejob.resource import PodRole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.paddlejob.resource import PaddleJob

ASKED_BY = "batch.paddlepaddle.org/progress"
"""An annotation of a job: ``log`` reads its log, ``none`` does not."""
PERCENT, ETA = "percent", "etaSeconds"
MOST_VALUES = 12
LONGEST_NAME, LONGEST_VALUE = 40, 40
_MARKED = re.compile(r"(?:^|\s)progress (\{.{1,2000}\})\s*$")
_TRAINER = re.compile(r"(?:^|\s)epoch (\d{1,9})/(\d{1,9})  batch [\d,]{1,20}  ([\d,]{1,20}) samples/s  (.{1,2000})$")
_METRIC = re.compile(r"([A-Za-z_][\w/@-]*) (-?\d+\.\d+)")
_LEFT = re.compile(r"(?:(\d+)h )?(?:(\d+)m ?)?(?:(\d+(?:\.\d+)?)s)? ?left")


def is_asked_for(job: PaddleJob) -> bool:
    """Whether the log is read: the job says so, or its workers run umiak."""
    asker = dict(job.annotations).get(ASKED_BY)
    if asker is not None:
        return asker == "log"
    worker = job.spec.role(PodRole.WORKER)
    containers = ((worker.template.get("spec") or {}).get("containers") or ()) if worker else ()
    first = containers[0] if containers and isinstance(containers[0], dict) else {}
    words = [*(first.get("command") or ()), *(first.get("args") or ())]
    return any("umiak" in word for word in words if isinstance(word, str))


def read(log: str) -> tuple[tuple[str, str], ...]:
    """The last word of a log about progress; empty: it says nothing."""
    for line in reversed(log.splitlines()):
        progress = _marked(line) or _of_trainer(line)
        if progress:
            return tuple(sorted(progress.items())[:MOST_VALUES])
    return ()


def done(progress: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The same of a job that has ended well."""
    numbers = {**dict(progress), **({PERCENT: "100", ETA: "0"} if progress else {})}
    return tuple(sorted(numbers.items()))


def _marked(line: str) -> dict[str, str]:
    match = _MARKED.search(line)
    if not match:
        return {}
    try:
        data = json.loads(match[1])
    except (ValueError, RecursionError):
        return {}
    return {one_line(name, LONGEST_NAME): text for name, each in data.items() if (text := _text(each))}


def _of_trainer(line: str) -> dict[str, str]:
    match = _TRAINER.search(line)
    if not match:
        return {}
    epoch, epochs = int(match[1]), max(1, int(match[2]))
    progress = {"epoch": f"{epoch}/{epochs}", PERCENT: str(max(0, min(100, (epoch - 1) * 100 // epochs)))}
    progress["samplesPerSecond"] = match[3].replace(",", "")
    for part in match[4].split("  "):
        if metric := _METRIC.fullmatch(part):
            progress[metric[1][:LONGEST_NAME]] = metric[2][:LONGEST_VALUE]
        elif left := _LEFT.fullmatch(part):
            hours, minutes, seconds = [float(each or 0) for each in left.groups()]
            progress[ETA] = str(round(hours * 3600 + minutes * 60 + seconds))
    return progress


def _text(each: object) -> str:
    if isinstance(each, str):
        return one_line(each, LONGEST_VALUE)
    if isinstance(each, bool) or not isinstance(each, (int, float)):
        return ""
    if isinstance(each, float):
        return f"{each:.6g}" if math.isfinite(each) else "NaN"
    return str(each) if abs(each) < 2**63 else ""
