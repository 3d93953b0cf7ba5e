"""Asks whether a dependency has a known weakness or nobody looks after it any more. A part of `make check`.

    python -m tools.audit

Python's are those of constraints.txt, asked of PyPI's advisories with pip-audit; Rust's those of native/Cargo.lock, asked of
RustSec's with cargo-audit. Both databases are on the network. Where one can't be had this says so in capitals and does not
fail: a check that needs a network to pass would be switched off. A dependency that nobody could be asked about is not
counted as sound.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 25
"""For each of the two: `make check` stays below a minute."""

PIP_AUDIT = "pip-audit==2.10.1"
ACCEPTED: dict[str, str] = {}
"""Advisories that do not concern us, each with the reason."""


def main() -> int:
    """0 if nothing is known against the dependencies, or nothing could be learned; 1 with a line for each finding."""
    found = [*_python(), *_rust()]
    for line in found:
        print(f"audit: {line}", file=sys.stderr)
    return 1 if found else 0


def _python() -> list[str]:
    uv = Path(sys.executable).parent / "uv"
    asked = _ask(
        [
            *(
                str(uv),
                "tool",
                "run",
                "--quiet",
                "--from",
                PIP_AUDIT,
                "pip-audit",
                "--format",
                "json",
                "--timeout",
                "5",
            ),
            *("--progress-spinner", "off", "--no-deps", "--disable-pip", "--requirement", "constraints.txt"),
        ]
    )
    return _skipped("Python", asked) if isinstance(asked, str) else _judged("Python", judge_python, asked)


def _rust() -> list[str]:
    if not shutil.which("cargo-audit"):
        return _skipped("Rust", "cargo-audit is not installed: cargo install --locked cargo-audit")
    asked = _ask(["cargo-audit", "audit", "--json", "--file", "native/Cargo.lock"])
    return _skipped("Rust", asked) if isinstance(asked, str) else _judged("Rust", judge_rust, asked)


def _judged(whose: str, judge: Callable[[dict[str, Any]], list[str]], report: dict[str, Any]) -> list[str]:
    try:
        return judge(report)
    except (KeyError, TypeError, AttributeError) as error:
        return _skipped(whose, f"a report of a form that is not understood ({type(error).__name__}: {error})")


def judge_python(report: dict[str, Any]) -> list[str]:
    """The findings in a report of pip-audit's. Packages that the index knows no advisories of are told as not audited."""
    asked = [each for each in report["dependencies"] if "vulns" in each]
    silent = len(report["dependencies"]) - len(asked)
    if not asked:
        return _skipped("Python", "the package index here has no database of advisories")
    if silent:
        print(
            f"audit: SKIPPED {silent} of Python's dependencies: the package index has nothing about them",
            file=sys.stderr,
        )
    print(f"audit: {len(asked)} Python dependencies looked up")
    return [
        f"{each['name']} {each['version']}: {vuln['id']}, fixed in {', '.join(vuln['fix_versions']) or 'no version'}"
        for each in asked
        for vuln in each["vulns"]
        if vuln["id"] not in ACCEPTED
    ]


def judge_rust(report: dict[str, Any]) -> list[str]:
    """The findings in a report of cargo-audit's, weaknesses and warnings (unmaintained, unsound, yanked) alike."""
    print(f"audit: {report['lockfile']['dependency-count']} Rust dependencies looked up")
    entries = [*report["vulnerabilities"]["list"], *(each for kind in report["warnings"].values() for each in kind)]
    found = []
    for each in entries:
        advisory = each.get("advisory") or {}
        name = advisory.get("id", each.get("kind", "warning"))
        if name not in ACCEPTED:
            package = each["package"]
            found.append(f"{package['name']} {package['version']}: {name}, {advisory.get('title', 'see cargo audit')}")
    return found


def _ask(command: list[str]) -> dict[str, Any] | str:
    """The JSON that a program prints, whatever its exit status; or why there is none."""
    environ = {**os.environ, "NO_COLOR": "1"}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {LIMIT_S} s"
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        return f"its database can't be had: {lines[-1] if lines else 'no reason given'}"
    return answer if isinstance(answer, dict) else "an answer that is not understood"


def _skipped(whose: str, why: str) -> list[str]:
    print(f"audit: SKIPPED {whose}'s dependencies: {why}", file=sys.stderr)
    return []


if __name__ == "__main__":
    sys.exit(main())
