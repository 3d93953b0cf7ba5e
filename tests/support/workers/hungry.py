"""A worker that eats memory in a control group until the kernel kills it: `hungry.py FILE`, where FILE takes its id."""

import os
import sys

import telling

with open(sys.argv[1], "w", encoding="ascii") as group:
    group.write(str(os.getpid()))
telling.tell("hungry")
eaten = []
while True:
    eaten.append(b"x" * 4_000_000)
    telling.beat()
