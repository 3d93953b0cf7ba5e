"""A worker that takes no notice of polite signals and has children, grandchildren and orphans that don't either."""

import os
import signal
import subprocess
import sys

import telling

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda number, _frame: telling.tell(f"got {signal.Signals(number).name}"))

deaf = "trap '' TERM INT HUP; echo started; while :; do sleep 1000; done"
daemon = f"import os\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0: os.execvp('sh', ['sh', '-c', {deaf!r}])"
quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
children = [
    subprocess.Popen(["sh", "-c", deaf], **quiet),  # in the worker's own group
    subprocess.Popen(["sh", "-c", f"({deaf}) & wait"], **quiet),  # one below that
    subprocess.Popen(["setsid", "sh", "-c", deaf], **quiet),  # in a session of its own
    subprocess.Popen([sys.executable, "-c", daemon], **quiet),  # forked twice: an orphan
]
for child in children:
    child.stdout.readline()
telling.tell("has a family")
print("has a family", flush=True)
word, _, rest = telling.live().partition(" ")
if word == "signal":
    os.kill(os.getpid(), int(rest))
sys.exit(int(rest) if word == "exit" else 0)
