"""`make demo`: jobs on this machine that lose a server and a trainer and go on, and a model from a config that answers.

1. Two parameter servers and two trainers train a click model. The demo kills one of each with SIGKILL on the way.
2. The same job, undisturbed: the result is the same, bit for bit. Both are drawn against the best AUC that the data allows.
3. `umiak train` trains the zoo's dnn from a config, with servers and trainers of its own, and saves an inference model.
4. `paddle.inference` loads it and answers for three samples that it has never seen.

At a terminal it says where a browser shows all of it while it trains. Everything is made in a directory `demo`, which is emptied first; `demo/report.html`
is what it has said, with both curves. The exit status is not 0 if anything is not as it should be.

    python examples/demo.py              all of it
    python examples/demo.py recovery     the first two steps alone
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import demo_report

PLACE = Path("demo")
EXAMPLES = Path(__file__).resolve().parent
UMIAK = [sys.executable, "-m", "umiak.cli.main"]
MODEL = "rank.dnn"
SAMPLES = 60_000
KILLS = {"server": 0.3, "trainer": 0.6}
"""Which part of the steps is done when one of these is killed."""
CLOSE = 0.03
"""So far from the best AUC a trained model may be."""
SAID: list[str] = []
RUNS: dict[str, Run] = {}
"""Everything that was said, and the two jobs, for the report."""
COLUMNS = max(39, min(79, shutil.get_terminal_size().columns - 1))


class Wrong(Exception):
    """Something is not as it should be."""


def main(words: list[str]) -> int:
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir()
    began = time.monotonic()
    page = demo_report.LivePage(UMIAK, PLACE, say)
    try:
        page.open()
        recovery()
        if words != ["recovery"]:
            from_a_config()
    except Wrong as wrong:
        say(f"\nthe demo failed: {wrong}")
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        page.close()
        report()
    say(f"\nDone in {time.monotonic() - began:.0f} s. What it made is in {PLACE}/.")
    say(f"The report: {PLACE / 'report.html'}")
    say(f"All runs in a browser: umiak dashboard {PLACE}")
    return 0


def report() -> None:
    """What was seen, as a file."""
    kills = [kill for run_ in RUNS.values() for kill in run_.kills]
    best = max((run_.best for run_ in RUNS.values()), default=0.0)
    curves = {name: run_.curve for name, run_ in RUNS.items()}
    demo_report.write(PLACE / "report.html", curves, kills, best, SAID)


# ---- servers and trainers are killed


def recovery() -> None:
    heading("1. Two parameter servers, two trainers; one of each is killed")
    disturbed = Run("with-kills", KILLS).watched()
    heading("2. The same job, and nobody is killed")
    quiet = Run("undisturbed", {}).watched()
    for line in drawing(disturbed, quiet):
        say(line)
    RUNS.update({"with kills": disturbed, "undisturbed": quiet})
    say("")
    if disturbed.weights != quiet.weights:
        raise Wrong(f"the weights differ: {disturbed.weights} with kills, {quiet.weights} without")
    say(f"The weights are the same, bit for bit: sha256 {disturbed.weights}.")
    say("No step was lost, and none counted twice.")
    if quiet.best - quiet.curve[-1][1] > CLOSE:
        raise Wrong(f"the AUC is {quiet.curve[-1][1]:.4f}, and {quiet.best:.4f} can be reached")


class Run:
    """One job of `umiak launch` with `demo_recovery.py`."""

    def __init__(self, name: str, kills: dict[str, float]) -> None:
        self.directory = PLACE / name
        self.directory.mkdir()
        self.curve: list[tuple[float, float]] = []
        """Which part of the steps is done, and the AUC then."""
        self.kills: list[tuple[float, str]] = []
        self.best = 0.0
        self.weights = ""
        self.is_told_whole = bool(kills)
        self._waiting = dict(kills)
        self._restarted: list[str] = []

    def watched(self) -> Run:
        """Run it to its end, and say how it goes."""
        shown = "umiak launch --server_num 2 --trainer_num 2 --trainer_restart alone --max_restart 5 demo_recovery.py"
        say(f"$ {shown}", indent="    ")
        script = str(EXAMPLES / "demo_recovery.py")
        words = [*shown.split()[1:-1], "--log_level", "WARNING", "--tee", "all", script]
        status = run([*UMIAK, *words], self._heard, self.directory)
        if status:
            raise Wrong(f"`umiak launch` ended with {status}; its log is in {self.directory / 'log'}")
        if self._waiting or len(self._restarted) != len(self.kills):
            raise Wrong(f"killed: {self.kills}, started again: {self._restarted}, not killed: {[*self._waiting]}")
        return self

    def _heard(self, line: str) -> None:
        if found := re.search(r"best ([\d.]+)$", line):
            self.best = float(found[1])
            say(f"the best AUC that these data allow: {self.best:.4f}")
        elif found := re.search(r"weights (\w+)$", line):
            self.weights = found[1]
        elif found := re.search(r"step (\d+)/(\d+) auc ([\d.]+)$", line):
            done, score = int(found[1]) / int(found[2]), float(found[3])
            self.curve.append((done, score))
            bar = "#" * round((COLUMNS - 28) * done)
            if self.is_told_whole or done in (0, 1) or len(self.curve) % 5 == 0:
                say(f"step {found[1]:>4}/{found[2]}  auc {score:.4f}  {bar}")
            for kind in [kind for kind, at in self._waiting.items() if done >= at]:
                del self._waiting[kind]
                self._kill(kind, done)
        elif "LAUNCH " in line:
            text = re.sub(r"^.*?LAUNCH \w+ [\d-]+ [\d:,]+ ", "", line)
            say(f"  umiak: {text}", indent="         ")
            if found := re.search(r"restarting (\w+) 1", text):
                self._restarted.append(found[1])

    def _kill(self, kind: str, done: float) -> None:
        process = int((self.directory / f"{kind}.1").read_text())
        say(f"  $ kill -9 {process}    # {kind} 1")
        os.kill(process, signal.SIGKILL)
        self.kills.append((done, kind))


def drawing(disturbed: Run, quiet: Run, height: int = 8) -> list[str]:
    """Both curves over the steps, below the best that the data allow; what came before the first report is left out."""
    width = COLUMNS - 8
    low, high = quiet.curve[1][1], quiet.best
    rows = [[" "] * width for _ in range(height)]
    for run_, letter in ((quiet, "."), (disturbed, "o")):
        for done, score in run_.curve[1:]:
            row = min(height - 1, round((high - score) / (high - low) * height) - 1)
            rows[max(0, row)][round(done * (width - 1))] = letter
    labels = [f"{high - (high - low) * (row + 1) / height:.3f}" for row in range(height)]
    below = [" "] * width
    for done, kind in disturbed.kills:
        mark = f"^ {kind} killed" if width > 50 else f"^ {kind}"
        at = min(round(done * (width - 1)), width - len(mark))
        below[at : at + len(mark)] = mark
    return [
        "",
        "AUC on unseen samples:",
        "  o with kills",
        "  . undisturbed, where it differs",
        "  - the best that the data allow",
        f"{high:.3f} |{'-' * width}",
        *(f"{label} |{''.join(row).rstrip()}" for label, row in zip(labels, rows, strict=True)),
        f"      +{'-' * width}",
        f"       {''.join(below).rstrip()}",
    ]


# ---- from a config


def from_a_config() -> None:
    words = ["-m", "umiak.models.sample", MODEL, "--out", "data", "--samples", str(SAMPLES)]
    heading("3. From a config: sample data, two servers, two trainers")
    say(f"$ python {' '.join(words)}", indent="    ")
    check(run([sys.executable, *words], lambda _line: None, PLACE), "making the data")
    best = json.loads((PLACE / "data" / "best.json").read_text(encoding="utf-8"))["auc"]
    settings = {
        "mode": "ps",
        "runner.ps.save_checkpoint_path": "checkpoints",
        "runner.ps.save_inference_path": "served",
        "dataset.train_data.data_path": "data/train",
        "dataset.test_data.data_path": "data/test",
    }
    words = ["train", "-m", f"umiak.models.{MODEL}"]
    for key, value in settings.items():
        words += ["-o", f"{key}={value}"]
    say(f"$ umiak {' '.join(words)}", indent="    ")
    check(shown([*UMIAK, *words]), "`umiak train`")
    metrics = [json.loads(line) for line in (PLACE / "run" / "ps" / "metrics.jsonl").read_text().splitlines()]
    score = [each["evaluated"]["auc"] for each in metrics if each["event"] == "epoch"][-1]
    say(f"AUC on unseen samples: {score:.4f}; the best that these data allow: {best:.4f}")
    if best - score > CLOSE:
        raise Wrong(f"the AUC is {score:.4f}, and {best:.4f} can be reached")

    heading("4. The saved model answers for three unseen samples")
    lines = (PLACE / "data" / "test" / "part-0000").read_text(encoding="utf-8").splitlines()[:3]
    (PLACE / "three.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    say("$ python examples/serve.py served/1 three.txt", indent="    ")
    answers: list[str] = []
    check(run([sys.executable, str(EXAMPLES / "serve.py"), "served/1", "three.txt"], answers.append, PLACE), "asking")
    for answer in [line for line in answers if line.startswith("probability")]:
        say(answer[:COLUMNS])


def check(status: int, what: str) -> None:
    if status:
        raise Wrong(f"{what} ended with {status}")


# ---- commands, and what is said


def run(words: list[str], heard: Callable[[str], None], directory: Path) -> int:
    """A command whose lines are heard one by one. It has ended when this returns, whatever happens here."""
    process = subprocess.Popen(
        words,
        cwd=directory,
        env=environ(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    last: list[str] = []
    assert process.stdout is not None
    try:
        with process.stdout as lines:
            for line in lines:
                last = [*last[-19:], line]
                heard(line.rstrip("\n"))
        status = process.wait()
    except BaseException:
        ended(process)
        raise
    if status:
        say("".join(last).rstrip("\n"))
    return status


def shown(words: list[str]) -> int:
    """A command that speaks for itself."""
    process = subprocess.Popen(words, cwd=PLACE, env=environ(), stdin=subprocess.DEVNULL)
    try:
        return process.wait()
    except BaseException:
        ended(process)
        raise


def ended(process: subprocess.Popen) -> None:
    """Ask it to end, and wait: a launcher ends its workers first."""
    process.terminate()
    process.wait()


def environ() -> dict[str, str]:
    """Without the noise that importing Paddle brings."""
    return {**os.environ, "GLOG_minloglevel": "2", "PYTHONWARNINGS": "ignore"}


def heading(text: str) -> None:
    rule = "=" * COLUMNS
    say(f"\n{rule}")
    say(text)
    say(rule)


def say(text: str, indent: str = "") -> None:
    """A line, or some, wrapped at the width of the terminal."""
    for line in text.split("\n"):
        SAID.append(line)
        wrapped = textwrap.wrap(line, COLUMNS, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
        fits = len(line) <= COLUMNS
        print(line if fits else "\n".join(wrapped), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
