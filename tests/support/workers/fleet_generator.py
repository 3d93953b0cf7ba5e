"""A program for pipe_command: ``id label`` on standard input, MultiSlot text on standard output."""

from typing import Any

from paddle.distributed.fleet import data_generator


class Clicks(data_generator.MultiSlotDataGenerator):  # type: ignore[misc]
    """Two slots: ids, of which each sample has its own and one that all share, and a label."""

    def generate_sample(self, line: str) -> Any:
        def samples() -> Any:
            number, label = line.split()
            yield [("ids", [int(number), 1]), ("label", [float(label)])]

        return samples


if __name__ == "__main__":
    Clicks().run_from_stdin()
