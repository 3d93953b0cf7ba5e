"""A program for pipe_command: sentences on standard input, MultiSlot text on standard output, by a generator that writes strings.

A line is ``words<TAB>label``. A word ends in its number; one without a number is in every sentence, and has the number 1.
"""

import re
from typing import Any

from paddle.distributed import fleet


class Sentences(fleet.MultiSlotStringDataGenerator):  # type: ignore[misc]
    """Two slots: numbers of words, of which a sentence has as many as it likes, and a label."""

    def generate_sample(self, line: str) -> Any:
        def samples() -> Any:
            words, label = line.rstrip("\n").split("\t")
            numbers = [(re.findall(r"[0-9]+$", word) or ["1"])[0] for word in words.split()]
            yield [("ids", numbers), ("label", [label])]

        return samples

    def generate_batch(self, samples: Any) -> Any:
        """Longest first, which changes nothing about what is learned."""

        def ordered() -> Any:
            yield from sorted(samples, key=lambda sample: -len(sample[0][1]))

        return ordered


if __name__ == "__main__":
    program = Sentences()
    program.set_batch(16)
    program.run_from_stdin()
