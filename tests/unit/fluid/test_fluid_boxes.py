"""Boxes and regions of images: against numpy. Real Paddle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.fluid_programs import computed, derivative, fluid, of_sequences, paddle, programs

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

layers = fluid.layers
CHANCE = np.random.default_rng(21)


def boxes(count: int) -> Any:
    corners = CHANCE.uniform(0, 0.5, (count, 2))
    return np.concatenate([corners, corners + CHANCE.uniform(0.1, 0.5, (count, 2))], 1).astype(np.float32)


LEFT, RIGHT = boxes(3), boxes(5)
PIXELS, IMAGE = CHANCE.normal(size=(2, 3, 2, 2)).astype(np.float32), CHANCE.normal(size=(2, 3, 8, 8)).astype(np.float32)


def overlap(one: Any, other: Any, more: float = 0.0) -> float:
    sides = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2]) + more
    both = float(max(sides[0], 0) * max(sides[1], 0))
    areas = [float((each[2] - each[0] + more) * (each[3] - each[1] + more)) for each in (one, other)]
    return both / (sum(areas) - both)


@pytest.mark.parametrize("normalized", [True, False])
def test_what_boxes_share(normalized: bool) -> None:
    found = computed(lambda x, y: layers.iou_similarity(x, y, normalized), {"x": LEFT, "y": RIGHT})
    more = 0.0 if normalized else 1.0
    np.testing.assert_allclose(found, [[overlap(one, other, more) for other in RIGHT] for one in LEFT], rtol=1e-4)


def test_prior_boxes() -> None:
    call = lambda x, y: layers.prior_box(x, y, [2.0], [4.0], [1.0, 2.0], flip=True, steps=[4.0, 4.0])  # noqa: E731
    found, variance = computed(call, {"x": PIXELS, "y": IMAGE})
    sizes = [(2, 2), (2 * 2**0.5, 2 / 2**0.5), (2 / 2**0.5, 2 * 2**0.5), (8**0.5, 8**0.5)]
    for line in range(2):
        for column in range(2):
            for number, (width, height) in enumerate(sizes):
                x, y = (column + 0.5) * 4, (line + 0.5) * 4
                expected = np.array([x - width / 2, y - height / 2, x + width / 2, y + height / 2]) / 8
                np.testing.assert_allclose(found[line, column, number], expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(variance[1, 1, 2], [0.1, 0.1, 0.2, 0.2], rtol=1e-6)


def test_anchors() -> None:
    call = lambda x: layers.anchor_generator(x, [16.0, 32.0], [1.0, 2.0], stride=[8.0, 8.0])  # noqa: E731
    found, variance = computed(call, {"x": PIXELS})
    sides = found[0, 0, :, 2:] - found[0, 0, :, :2] + 1
    np.testing.assert_allclose(sides, [[16, 16], [32, 32], [12, 24], [24, 48]])  # 6 is the root of 32, 12 twice that
    np.testing.assert_allclose(found[0, 0, 0], [3.5 - 7.5, 3.5 - 7.5, 3.5 + 7.5, 3.5 + 7.5])
    np.testing.assert_allclose(found[1, 0, 0] - found[0, 0, 0], [0, 8, 0, 8])
    np.testing.assert_allclose(found[0, 1, 0] - found[0, 0, 0], [8, 0, 8, 0])
    np.testing.assert_allclose(variance[0, 0, 0], [0.1, 0.1, 0.2, 0.2], rtol=1e-6)


def test_boxes_are_coded_and_decoded() -> None:
    variance = [0.1, 0.1, 0.2, 0.2]
    coded = computed(lambda x, y: layers.box_coder(x, variance, y), {"x": RIGHT, "y": LEFT})
    for row, box in enumerate(LEFT):
        for column, prior in enumerate(RIGHT):
            size, own = prior[2:] - prior[:2], box[2:] - box[:2]
            away = ((box[2:] + box[:2]) - (prior[2:] + prior[:2])) / 2 / size
            expected = np.concatenate([away, np.log(own / size)]) / variance
            np.testing.assert_allclose(coded[row, column], expected, rtol=1e-3, atol=1e-4)

    def back(x: Any, y: Any) -> Any:
        return layers.box_coder(x, variance, y, "decode_center_size")

    found = computed(back, {"x": RIGHT, "y": coded})
    np.testing.assert_allclose(found, np.repeat(LEFT[:, None], 5, 1), rtol=1e-3, atol=1e-5)


def test_boxes_are_clipped_to_their_image() -> None:
    corners, sizes = (
        np.array([[[-1, 2, 30, 40]], [[3, 4, 5, 60]]], np.float32),
        np.array([[20, 24, 2], [50, 50, 1]], np.float32),
    )
    found = computed(layers.box_clip, {"x": corners, "y": sizes})
    assert found.tolist() == [[[0, 2, 11, 9]], [[3, 4, 5, 49]]]


def test_easy_samples_count_less() -> None:
    x, label, count = (
        CHANCE.normal(size=(4, 2)).astype(np.float32),
        np.array([[1], [2], [0], [-1]], np.int32),
        np.array([2], np.int32),
    )
    chance = 1 / (1 + np.exp(-x))
    right = label == np.array([[1, 2]])
    expected = np.where(right, -0.25 * (1 - chance) ** 2 * np.log(chance), -0.75 * chance**2 * np.log(1 - chance)) / 2
    expected[3] = 0
    arrays = {"x": x, "label": label, "count": count}
    np.testing.assert_allclose(computed(layers.sigmoid_focal_loss, arrays), expected, rtol=1e-4)
    ours, measured = derivative(layers.sigmoid_focal_loss, arrays)
    assert ours == pytest.approx(measured, rel=1e-4)


def test_pairs_are_matched() -> None:
    shared = np.array([[0.9, 0.8, 0.0, 0.6], [0.95, 0.7, 0.0, 0.2], [0.3, 0.1, 0.0, 0.9]], np.float32)

    def call(x: Any) -> Any:
        return layers.bipartite_match(x, "per_prediction", 0.65)

    rows, values = of_sequences(call, {"x": (shared, [[2, 1]])})
    assert np.asarray(rows).tolist() == [[1, 0, -1, -1], [-1, -1, -1, 0]]
    np.testing.assert_allclose(np.asarray(values), [[0.95, 0.8, 0, 0], [0, 0, 0, 0.9]])
    rows, _ = computed(layers.bipartite_match, {"x": shared[2:]})
    assert rows.tolist() == [[-1, -1, -1, 0]]
    rows, _ = computed(lambda x: layers.bipartite_match(x, "per_prediction", 0.2), {"x": shared[2:]})
    assert rows.tolist() == [[0, -1, -1, 0]]


def left_over(corners: Any, scores: Any, threshold: float, least: float, keep: int) -> list[list[float]]:
    """Class by class the best boxes, none of which covers another; then the best of all."""
    found: list[tuple[float, int, int]] = []
    for number in range(1, scores.shape[0]):
        own: list[int] = []
        for place in np.argsort(-scores[number], kind="stable"):
            if scores[number, place] > least and all(
                overlap(corners[place], corners[other]) <= threshold for other in own
            ):
                own.append(int(place))
        found += [(float(scores[number, place]), number, place) for place in own]
    best = sorted(found, key=lambda each: -each[0])[:keep]
    return sorted([number, value, *corners[place].tolist()] for value, number, place in best)


def test_boxes_that_cover_others_are_left_out() -> None:
    corners, scores = np.stack([boxes(6), boxes(6)]), CHANCE.uniform(0, 1, (2, 3, 6)).astype(np.float32)

    def call(x: Any, y: Any) -> Any:
        return [
            layers.multiclass_nms(x, y, 0.2, 10, 5),
            *fluid.contrib.layers.multiclass_nms2(x, y, 0.2, 10, 5, return_index=True),
        ]

    found, again, index = of_sequences(call, {"x": (corners, []), "y": (scores, [])})
    (lengths,) = found.recursive_sequence_lengths()
    parts = np.split(np.asarray(found), np.cumsum(lengths)[:-1])
    for number, part in enumerate(parts):
        np.testing.assert_allclose(
            sorted(part.tolist()), left_over(corners[number], scores[number], 0.3, 0.2, 5), rtol=1e-5
        )
    np.testing.assert_array_equal(np.asarray(again), np.asarray(found))
    np.testing.assert_allclose(corners.reshape(-1, 4)[np.asarray(index)[:, 0]], np.asarray(found)[:, 2:])
    with programs() as made:
        x, y = fluid.data("x", [None, 6, 4]), fluid.data("y", [None, 3, 6])
        none = layers.multiclass_nms(x, y, 2.0, 10, 5)
        assert made.run({"x": corners, "y": scores}, [none])[0].tolist() == [[-1]]
        with pytest.raises(fluid.core.EnforceNotMet, match="other forms"):
            layers.multiclass_nms(fluid.data("z", [None, 6]), y, 0.1, 10, 5)


def test_the_output_of_a_detector() -> None:
    codes, scores = (
        0.1 * CHANCE.normal(size=(1, 5, 4)).astype(np.float32),
        CHANCE.normal(size=(1, 5, 3)).astype(np.float32),
    )
    variance = np.full((5, 4), 0.1, np.float32)

    def call(x: Any, y: Any, prior: Any, spread: Any) -> Any:
        return layers.detection_output(x, y, prior, spread, keep_top_k=4)

    arrays = {"x": (codes, []), "y": (scores, []), "prior": (RIGHT, []), "spread": (variance, [])}
    (found,) = of_sequences(call, arrays)
    size, centre = RIGHT[:, 2:] - RIGHT[:, :2], (RIGHT[:, 2:] + RIGHT[:, :2]) / 2
    middle, own = centre + 0.1 * codes[0, :, :2] * size, np.exp(0.1 * codes[0, :, 2:]) * size
    corners = np.concatenate([middle - own / 2, middle + own / 2], 1)
    chances = (np.exp(scores) / np.exp(scores).sum(2, keepdims=True))[0].T
    np.testing.assert_allclose(sorted(np.asarray(found).tolist()), left_over(corners, chances, 0.3, 0.01, 4), rtol=1e-4)


def test_heads_of_yolo_are_those_of_paddle() -> None:
    x, size = CHANCE.normal(size=(2, 14, 3, 3)).astype(np.float32), np.array([[96, 96], [48, 96]], np.int32)
    anchors = [10, 13, 16, 30]
    found = computed(lambda x, y: layers.yolo_box(x, y, anchors, 2, 0.1, 32), {"x": x, "y": size})
    expected = paddle.vision.ops.yolo_box(paddle.to_tensor(x), paddle.to_tensor(size), anchors, 2, 0.1, 32)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-5)
    truth, label = CHANCE.uniform(0.2, 0.6, (2, 3, 4)).astype(np.float32), np.array([[0, 1, 0], [1, 1, 0]], np.int32)

    def call(x: Any, y: Any, z: Any) -> Any:
        return layers.yolov3_loss(x, y, z, anchors, [0, 1], 2, 0.7, 32)

    loss = computed(call, {"x": x, "y": truth, "z": label})
    plain = paddle.vision.ops.yolo_loss(*map(paddle.to_tensor, (x, truth, label)), anchors, [0, 1], 2, 0.7, 32)
    np.testing.assert_allclose(loss, plain.numpy(), rtol=1e-5)


def test_regions_of_images() -> None:
    regions = np.array([[0, 0, 3, 3], [2, 2, 7, 7], [1, 0, 4, 7]], np.float32)

    def pooled(x: Any, y: Any) -> Any:
        return layers.roi_pool(x, y, 2, 2), layers.roi_align(x, y, 1, 1, sampling_ratio=1)

    largest, middle = of_sequences(pooled, {"x": (IMAGE, []), "y": (regions, [[2, 1]])})
    expected = IMAGE[0, :, :4, :4].reshape(3, 2, 2, 2, 2).max((2, 4))
    np.testing.assert_allclose(np.asarray(largest)[0], expected, rtol=1e-5)
    # the centre of the first region, (1.5, 1.5), lies between four pixels
    np.testing.assert_allclose(np.asarray(middle)[0, :, 0, 0], IMAGE[0, :, 1:3, 1:3].mean((1, 2)), rtol=1e-4)

    def offsets(x: Any, y: Any, z: Any) -> Any:
        return layers.roi_pool(x, y, 2, 2, rois_lod=z)

    (again,) = of_sequences(offsets, {"x": (IMAGE, []), "y": (regions, []), "z": (np.array([0, 2, 3]), [])})
    np.testing.assert_array_equal(np.asarray(again), np.asarray(largest))
