"""Handwritten digits, 8 by 8 pixels. Where they come from is said in README.md.

(images, labels), (test_images, test_labels) = digits.load()
"""

from pathlib import Path

import numpy as np

TEST_IMAGES = 360


def load(*, strangers: bool = False):
    """Images [n, 1, 8, 8] from 0 to 1 with their labels, twice: those to train with, and those to test with.

    Test images are drawn by chance, always the same ones. They are not every fifth of the file, in which the digits come in
    turn. With ``strangers`` they are the last ones, which other people seem to have written.
    """
    with np.load(Path(__file__).with_name("digits.npz")) as file:
        images = file["images"].reshape(-1, 1, 8, 8).astype("float32") / 16
        labels = file["labels"].astype("int64")
    order = np.arange(len(labels)) if strangers else np.random.default_rng(0).permutation(len(labels))
    training, test = order[:-TEST_IMAGES], order[-TEST_IMAGES:]
    return (images[training], labels[training]), (images[test], labels[test])


def batches(count: int, size: int, rank: int, world: int, seed: int):
    """An epoch's steps: how many samples the step has over all workers, and which of them are this worker's.

    Every sample is some worker's exactly once, and all workers have equally many steps. Nobody's part is empty.
    """
    order = np.random.default_rng(seed).permutation(count)  # the same on every worker
    for batch in np.array_split(order, max(1, count // max(size, world))):
        yield len(batch), batch[rank::world]
