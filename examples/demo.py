"""`make demo`: the first two examples one after the other, with what they print.

1. two worker processes train a small network together on this machine;
2. two simulated hosts train together, one is killed and brought back.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile

EXAMPLES = pathlib.Path(__file__).resolve().parent


def main() -> int:
    heading("1. Two processes train together: umiak launch --nproc_per_node 2 --tee all train.py")
    with tempfile.TemporaryDirectory(prefix="umiak-demo-") as work:
        script = str(EXAMPLES / "01-hello-launch" / "train.py")
        log_dir = os.path.join(work, "log")
        command = [
            sys.executable,
            "-m",
            "umiak.launch",
            "--nproc_per_node",
            "2",
            "--tee",
            "all",
            "--log_dir",
            log_dir,
            script,
        ]
        status = subprocess.run(command, env=quiet(), check=False).returncode
    if status:
        return status
    heading(
        "2. Two hosts train together, one is killed and comes back: umiak launch --nnodes 1:2 --master ... train.py"
    )
    status = subprocess.run(
        [sys.executable, str(EXAMPLES / "02-lose-a-node" / "run.py")], env=quiet(), check=False
    ).returncode
    heading("done" if status == 0 else f"the second example ended with {status}")
    return status


def quiet() -> dict[str, str]:
    """Without the warnings and log lines that importing Paddle brings."""
    return {**os.environ, "GLOG_minloglevel": "2", "PYTHONWARNINGS": "ignore"}


def heading(text: str) -> None:
    print(f"\n{'=' * 80}\n{text}\n{'=' * 80}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
