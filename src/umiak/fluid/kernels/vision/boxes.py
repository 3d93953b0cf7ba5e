"""Boxes in images: made, coded, matched, judged. Computed by Paddle's functions where it still has them. A program."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle import _C_ops
from paddle.vision import ops

from umiak.fluid.kernels.registry import Frame, Tensor, kernel
from umiak.fluid.kernels.sequences import lengths_of

if TYPE_CHECKING:
    from umiak.fluid.arguments import Results


@kernel()
def prior_box(input: Tensor, image: Tensor, **settings: Any) -> Results:
    """Boxes around each place of a feature map, and their variances."""
    return ops.prior_box(input, image, **settings)


@kernel()
def anchor_generator(input: Tensor, anchor_sizes: list[float], aspect_ratios: list[float], variance: list[float], stride: list[float], offset: float) -> Results:  # fmt: skip
    """Anchors around each place of a feature map, in pixels, and their variances: for each ratio of height to width all sizes."""
    lines, columns = input.shape[2:]
    wide, high = stride
    shapes = []
    for ratio in aspect_ratios:
        width = np.floor(np.sqrt(wide * high / ratio) + 0.5)
        height = np.floor(width * ratio + 0.5)
        shapes += [(size / wide * width, size / high * height) for size in anchor_sizes]
    halves = (np.asarray(shapes) - 1) / 2
    x, y = (np.arange(count) * step + offset * (step - 1) for count, step in ((columns, wide), (lines, high)))
    centres = np.stack(np.meshgrid(x, y), -1)[:, :, None]
    output = np.concatenate([centres - halves, centres + halves], -1).astype(str(input.dtype).rpartition(".")[2])
    spread = np.broadcast_to(np.asarray(variance, output.dtype), output.shape)
    return paddle.to_tensor(output), paddle.to_tensor(spread.copy())


def _coded_shapes(prior_box: Tensor, target_box: Tensor, code_type: str, **_settings: Any) -> Results:
    shape = target_box.shape if code_type.startswith("decode") else (target_box.shape[0], prior_box.shape[0], 4)
    return [(tuple(shape), target_box.dtype)]


@kernel(shapes=_coded_shapes)
def box_coder(prior_box: Tensor, prior_box_var: Any, target_box: Tensor, code_type: str, box_normalized: bool, axis: int) -> Tensor:  # fmt: skip
    """Boxes relative to prior ones, or back."""
    return ops.box_coder(prior_box, prior_box_var, target_box, code_type, box_normalized, axis=axis)


@kernel()
def iou_similarity(x: Tensor, y: Tensor, box_normalized: bool) -> Tensor:
    """What each two boxes share by what either covers."""
    more = 0.0 if box_normalized else 1.0
    left, right = x.unsqueeze(1), y.unsqueeze(0)
    low, high = paddle.maximum(left[..., :2], right[..., :2]), paddle.minimum(left[..., 2:], right[..., 2:])
    sides = paddle.clip(high - low + more, min=0.0)
    both = sides[..., 0] * sides[..., 1]
    areas = [(each[..., 2] - each[..., 0] + more) * (each[..., 3] - each[..., 1] + more) for each in (left, right)]
    either = areas[0] + areas[1] - both
    return paddle.where(
        both > 0, both / paddle.where(either > 0, either, paddle.ones_like(either)), paddle.zeros_like(both)
    )


@kernel()
def box_clip(input: Tensor, im_info: Tensor) -> Tensor:
    """Boxes within their image: height, width and scale of each image."""
    size = paddle.round(im_info[:, :2] / im_info[:, 2:]) - 1
    bounds = paddle.stack([size[:, 1], size[:, 0], size[:, 1], size[:, 0]], 1)
    bounds = bounds.reshape([bounds.shape[0], *[1] * (input.ndim - 2), 4])
    return paddle.maximum(paddle.minimum(input, bounds), paddle.zeros_like(input))


@kernel()
def sigmoid_focal_loss(x: Tensor, label: Tensor, fg_num: Tensor, gamma: float, alpha: float) -> Tensor:
    """Of each class a yes or no in which easy ones count less; label 0 is the background, -1 is ignored."""
    label = label.astype("int64")
    classes = paddle.arange(1, x.shape[1] + 1, dtype="int64").reshape([1, -1])
    right, there = (label == classes).astype(x.dtype), (label >= 0).astype(x.dtype)
    by = paddle.clip(fg_num.reshape([-1])[:1].astype(x.dtype), min=1.0)
    chance = paddle.nn.functional.sigmoid(x)
    yes = -alpha * (1 - chance) ** gamma * paddle.nn.functional.log_sigmoid(x)
    no = -(1 - alpha) * chance**gamma * paddle.nn.functional.log_sigmoid(-x)
    return (right * yes + (1 - right) * there * no) / by


@kernel()
def yolo_box(x: Tensor, img_size: Tensor, anchors: list[int], class_num: int, conf_thresh: float, downsample_ratio: int, clip_bbox: bool, scale_x_y: float) -> Results:  # fmt: skip
    """Boxes and scores of a YOLO head."""
    return ops.yolo_box(x, img_size, anchors, class_num, conf_thresh, downsample_ratio, clip_bbox, scale_x_y=scale_x_y)


@kernel()
def yolov3_loss(x: Tensor, gt_box: Tensor, gt_label: Tensor, anchors: list[int], anchor_mask: list[int], class_num: int, ignore_thresh: float, downsample_ratio: int, gt_score: Tensor, use_label_smooth: bool, scale_x_y: float) -> Tensor:  # fmt: skip
    """The loss of a YOLO head, for each image."""
    labels = gt_label.astype("int32")
    return ops.yolo_loss(x, gt_box, labels, anchors, anchor_mask, class_num, ignore_thresh, downsample_ratio, gt_score, use_label_smooth, scale_x_y=scale_x_y)  # fmt: skip


def _match_shapes(dist_matrix: Tensor, **_settings: Any) -> Results:
    return [((-1, dist_matrix.shape[1]), "int32", 0), ((-1, dist_matrix.shape[1]), dist_matrix.dtype, 0)]


@kernel(sequences=True, shapes=_match_shapes)
def bipartite_match(frame: Frame, dist_matrix: Tensor, match_type: str | None, dist_threshold: float | None) -> Results:
    """For each column the row that it belongs to, or -1: first the best pairs, each row once; with ``per_prediction`` then the best row
    for each column that is left, if it is good enough."""
    values = dist_matrix.numpy()
    offsets = frame.offsets_of("dist_matrix") if frame.all_offsets("dist_matrix") else (0, len(values))
    threshold = 0.5 if dist_threshold is None else dist_threshold
    pairs = [
        _matched(values[begin:end], threshold if match_type == "per_prediction" else None)
        for begin, end in pairwise(offsets)
    ]
    rows, shared = (np.stack(side) for side in zip(*pairs, strict=True))
    return paddle.to_tensor(rows.astype(np.int32)), paddle.to_tensor(shared.astype(values.dtype))


def _matched(values: Any, threshold: float | None) -> tuple[Any, Any]:
    rows, shared = np.full(values.shape[1], -1), np.zeros(values.shape[1])
    left = np.where(values < 1e-6, -1.0, values)
    for _ in range(len(values)):
        row, column = np.unravel_index(left.argmax(), left.shape)
        if left[row, column] < 0:
            break
        rows[column], shared[column] = row, values[row, column]
        left[row], left[:, column] = -1.0, -1.0
    if threshold is not None and len(values):
        best = values.argmax(0)
        value = values[best, range(values.shape[1])]
        more = (rows < 0) & (value >= max(threshold, 1e-6))
        rows[more], shared[more] = best[more], value[more]
    return rows, shared


def _nms_shapes(bboxes: Tensor, **settings: Any) -> Results:
    return [((-1, 6), bboxes.dtype, 1), ((-1, 1), "int32", 1)]


@kernel(sequences=True, shapes=_nms_shapes)
def multiclass_nms(frame: Frame, bboxes: Tensor, scores: Tensor, score_threshold: float, nms_top_k: int, keep_top_k: int, nms_threshold: float, normalized: bool, nms_eta: float, background_label: int) -> Results:  # fmt: skip
    """Of each image the best boxes that do not cover one another: class, score and corners, as sequences; a single -1 if there are none."""
    settings = (score_threshold, nms_top_k, keep_top_k, nms_threshold, normalized, nms_eta, background_label)
    output, index, counts = _C_ops.multiclass_nms3(bboxes, scores, None, *settings)
    offsets = np.cumsum([0, *counts.numpy().reshape(-1).tolist()]).tolist()
    if not offsets[-1]:
        frame.set_offsets([0, 1])
        frame.set_offsets([0, 1], output=1)
        return paddle.full([1, 1], -1.0, bboxes.dtype), paddle.full([1, 1], -1, "int32")
    frame.set_offsets(offsets)
    frame.set_offsets(offsets, output=1)
    return output, index.astype("int32")


def _counts(frame: Frame, rois: Tensor, given: Tensor) -> Tensor:
    """How many regions each image has."""
    if given is not None:
        return given.reshape([-1]).astype("int32")
    return paddle.to_tensor(np.asarray(lengths_of(frame.offsets_of("rois")), np.int32))


def _roi_shapes(input: Tensor, rois: Tensor, size: list[int], **_settings: Any) -> Results:
    return [((-1, input.shape[1], *size), input.dtype, 0)]


@kernel(sequences=True, shapes=_roi_shapes)
def roi_align(frame: Frame, input: Tensor, rois: Tensor, size: list[int], spatial_scale: float, sampling_ratio: int, counts: Tensor) -> Tensor:  # fmt: skip
    """Each region as an image of one size, by interpolation; corners are those of pixels, as in 1.8."""
    frame.set_offsets()
    return ops.roi_align(input, rois, _counts(frame, rois, counts), size, spatial_scale, sampling_ratio, aligned=False)


@kernel(sequences=True, shapes=_roi_shapes)
def roi_pool(
    frame: Frame, input: Tensor, rois: Tensor, size: list[int], spatial_scale: float, counts: Tensor
) -> Tensor:
    """Each region as an image of one size, by the largest elements."""
    frame.set_offsets()
    return ops.roi_pool(input, rois, _counts(frame, rois, counts), size, spatial_scale)
