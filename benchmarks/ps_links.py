"""Servers and trainers on two hosts, with a network between them that takes its time.

    python -m benchmarks.ps_links               async and sync, at 0 to 5 ms each way, 10 and 1 Gbit/s: ten minutes
    python -m benchmarks.ps_links --only async --quick --json figures.json

The job is that of the `train` figures of `benchmarks.ps`: two servers, two trainers, the same network, files and batches. The hosts
are network namespaces of this machine (Linux, root), so both share its cores; what is between them is the testbed's delay line, which
takes a little CPU time itself, with no delay too. So the first subject of each figure is the line without a delay, and the others are
told as shares of it.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import clicks, measure, ps_job, ps_net, sections
from benchmarks.measure import ROOT, Figure
from benchmarks.ps_job import SERVERS, TRAINERS, WARM_UP, Outcome
from testbed import hosts
from umiak.ps.options import BFLOAT16, FLOAT32

DELAYS_MS = (0.0, 0.2, 1.0, 5.0)
DELAYS_WITHOUT_MS = (0.0, 1.0)
"""Those at which rows are pulled when their batch is there, too."""
RATES = {"10 Gbit/s": 10e9, "1 Gbit/s": 1e9}
PORT = 6170


@dataclass(frozen=True)
class Run:
    """What was asked for."""

    quick: bool

    @property
    def steps(self) -> int:
        return 100 if self.quick else 300

    @property
    def rounds(self) -> int:
        return 1 if self.quick else 2


def main() -> int:
    """Measure and print: `sections.run`."""
    asked = sections.parser("benchmarks.ps_links", __doc__ or "", SECTIONS).parse_args()
    why_not = hosts.available()
    if why_not:
        print(f"hosts of the testbed can't be had here: {why_not}", file=sys.stderr)
        return 2
    return sections.run(SECTIONS, Run(asked.quick), asked)


def job(
    strategy: str, steps: int, *, delay_s: float = 0.0, bits_per_s: float = 0.0, wire: str = FLOAT32, prefetch: int = 1
) -> Outcome:
    """One training with the servers on one host and the trainers on the other."""
    per_trainer = -(-(steps + WARM_UP) * ps_net.BATCH // clicks.LINES_PER_FILE)
    paths = clicks.files(TRAINERS * per_trainer)
    with measure.bench() as bench, hosts.network(2) as network:
        serving, training = network.hosts
        network.slow_down(serving, training, delay_s=delay_s, bits_per_s=bits_per_s)
        told = bench.directory / "told"
        servers = ",".join(f"{serving.address}:{PORT + number}" for number in range(SERVERS))
        trainers = ",".join(f"{training.address}:{PORT + number}" for number in range(TRAINERS))
        umiak = str(Path(sys.executable).with_name("umiak"))
        words = ["--strategy", strategy, "--wire", wire, "--prefetch", str(prefetch), "--steps", str(steps)]
        script = [str(ps_job.SCRIPT), *words, *map(str, paths)]
        environ = {
            **bench.environ(),
            "BENCH_TOLD": str(told),
            "PYTHONPATH": str(ROOT),
            "UMIAK_TOKEN": secrets.token_hex(16),
        }
        launchers = []
        for host in (serving, training):
            place = bench.directory / host.name
            place.mkdir()
            launch = [umiak, "launch", "--log_dir", str(place / "log"), "--servers", servers, "--trainers", trainers]
            with open(place / "output", "w") as output:
                launchers.append(host.popen([*launch, *script], env=environ, cwd=place, stdout=output, stderr=output))
        for host, process in zip(network.hosts, launchers, strict=True):
            status = process.wait(ps_job.LIMIT_S)
            if status:
                last = (bench.directory / host.name / "output").read_text().strip().rpartition("\n")[2]
                return Outcome(None, f"{host.name} ended with {status}: {last[:200]}", {})
        return ps_job.outcome(told.read_text(), steps)


def over_delays(strategy: str, run: Run) -> Iterator[Figure]:
    """The same job behind longer and longer ways."""
    figure = Figure(
        f"links-{strategy}",
        f"Click-through model, {TRAINERS} trainers and {SERVERS} servers on two hosts, {strategy}: samples per second of both trainers",
        "Paddle 3.3, as the figure `train` of benchmarks.ps; delays are one way, so that an exchange takes twice as long",
        unit="samples/s",
        more_is_better=True,
    )
    for _ in range(run.rounds):
        for delay_ms in DELAYS_MS:
            with measure.other_work(figure):
                outcome = job(strategy, run.steps, delay_s=delay_ms / 1e3)
            ps_job.add(figure, f"{delay_ms:g} ms", outcome)
        for delay_ms in DELAYS_WITHOUT_MS:
            with measure.other_work(figure):
                without = job(strategy, run.steps, delay_s=delay_ms / 1e3, prefetch=0)
            ps_job.add(figure, f"{delay_ms:g} ms, without prefetch", without)
        for name, bits_per_s in RATES.items():
            with measure.other_work(figure):
                outcome = job(strategy, run.steps, bits_per_s=bits_per_s)
                narrow = job(strategy, run.steps, bits_per_s=bits_per_s, wire=BFLOAT16)
            ps_job.add(figure, name, outcome)
            ps_job.add(figure, f"{name}, bfloat16", narrow)
    yield figure


SECTIONS = {strategy: partial(over_delays, strategy) for strategy in ("async", "sync")}

if __name__ == "__main__":
    sys.exit(main())
