"""Where things lie in the checkout: its root, what is compared with files, and the programs that tests start as workers."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
WORKERS = ROOT / "tests" / "support" / "workers"
