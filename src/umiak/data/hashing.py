"""A hash of texts that is the same in every process, on every machine and in every version. An adapter to ``umiak_native``.

    stable_hash("user_17")              -> 543681862927398669: 64 bits
    stable_hash("user_17", 1000)        -> 669: from 0 to 999
    stable_hash("user_17", 1000, 1)     -> 752: another hash, of seed 1

It is XXH64 of the text in UTF-8, which C, Java, Go, Python (package `xxhash`) and others have as well, so that a program that serves a model makes the same ids; with buckets, its remainder.
Bytes are hashed as they are, and an integer as the text of its decimal digits: 17 and "17" are the same id.
"""

from __future__ import annotations

from umiak_native import stable_hash

__all__ = ["stable_hash"]
