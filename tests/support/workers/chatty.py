"""A worker that says so many lines, and one that does not end."""

import sys

import telling

for number in range(int(sys.argv[1])):
    sys.stdout.write(f"line {number} of {telling.RANK}\n")
sys.stdout.write("no newline")
sys.stdout.flush()
telling.tell("done")
