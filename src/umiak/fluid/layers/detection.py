"""Layers for detection: boxes, their codes and matches, what is left of them, and regions of images. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.fluid.layers import rows
from umiak.fluid.record.problems import bad
from umiak.fluid.record.program import Variable
from umiak.fluid.record.recording import apply
from umiak.fluid.record.remarks import left_out
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from umiak.fluid.arguments import Input, Output, Outputs, Sizes, Value


def _floats(given: Value) -> list[float]:
    return [float(each) for each in given] if isinstance(given, list | tuple) else [float(given)]


def _still(found: Outputs) -> Output:
    for each in found:
        each.stop_gradient = True
    return tuple(found)


def prior_box(input: Input, image: Input, min_sizes: Sizes, max_sizes: Sizes = None, aspect_ratios: Sizes = (1.0,), variance: Sizes = (0.1, 0.1, 0.2, 0.2), flip: bool = False, clip: bool = False, steps: Sizes = (0.0, 0.0), offset: float = 0.5, name: str | None = None, min_max_aspect_ratios_order: bool = False) -> Output:  # fmt: skip
    """Boxes around each place of a feature map, and their variances."""
    largest = None if max_sizes is None or not _floats(max_sizes) or _floats(max_sizes)[0] <= 0 else _floats(max_sizes)
    arguments = {
        "input": input,
        "image": image,
        "min_sizes": _floats(min_sizes),
        "max_sizes": largest,
        "aspect_ratios": _floats(aspect_ratios),
        "variance": _floats(variance),
        "flip": flip,
        "clip": clip,
        "steps": _floats(steps),
        "offset": offset,
        "min_max_aspect_ratios_order": min_max_aspect_ratios_order,
    }
    return _still(apply("prior_box", arguments, name=name, outputs=2))


def anchor_generator(input: Input, anchor_sizes: Sizes = None, aspect_ratios: Sizes = None, variance: Sizes = (0.1, 0.1, 0.2, 0.2), stride: Sizes = None, offset: float = 0.5, name: str | None = None) -> Output:  # fmt: skip
    """Anchors around each place of a feature map, and their variances."""
    arguments = {
        "input": input,
        "anchor_sizes": _floats(anchor_sizes),
        "aspect_ratios": _floats(aspect_ratios),
        "variance": _floats(variance),
        "stride": _floats(stride),
        "offset": offset,
    }
    return _still(apply("anchor_generator", arguments, name=name, outputs=2))


def box_coder(prior_box: Input, prior_box_var: Value, target_box: Input, code_type: str = "encode_center_size", box_normalized: bool = True, name: str | None = None, axis: int = 0) -> Output:  # fmt: skip
    """Boxes relative to prior ones, or back."""
    variance = prior_box_var if isinstance(prior_box_var, Variable) else _floats(prior_box_var)
    arguments = {
        "prior_box": prior_box,
        "prior_box_var": variance,
        "target_box": target_box,
        "code_type": code_type,
        "box_normalized": box_normalized,
        "axis": axis,
    }
    return apply("box_coder", arguments, name=name)


def _suppressed(name: str | None, boxes: Input, scores: Input, threshold: float, top: tuple[int, int], overlap: float, normalized: bool, eta: float, background: int) -> Output:  # fmt: skip
    arguments = {
        "bboxes": boxes,
        "scores": scores,
        "score_threshold": threshold,
        "nms_top_k": top[0],
        "keep_top_k": top[1],
        "nms_threshold": overlap,
        "normalized": normalized,
        "nms_eta": eta,
        "background_label": background,
    }
    return _still(apply("multiclass_nms", arguments, name=name, outputs=2))


def multiclass_nms(bboxes: Input, scores: Input, score_threshold: float, nms_top_k: int, keep_top_k: int, nms_threshold: float = 0.3, normalized: bool = True, nms_eta: float = 1.0, background_label: int = 0, name: str | None = None) -> Output:  # fmt: skip
    """Of each image the best boxes that do not cover one another: class, score and corners."""
    _batched(bboxes)
    top = (nms_top_k, keep_top_k)
    return _suppressed(
        name, bboxes, scores, score_threshold, top, nms_threshold, normalized, nms_eta, background_label
    )[0]


def multiclass_nms2(bboxes: Input, scores: Input, score_threshold: float, nms_top_k: int, keep_top_k: int, nms_threshold: float = 0.3, normalized: bool = True, nms_eta: float = 1.0, background_label: int = 0, return_index: bool = False, name: str | None = None) -> Output:  # fmt: skip
    """The same, with the numbers of the boxes if they are asked for."""
    _batched(bboxes)
    top = (nms_top_k, keep_top_k)
    boxes_kept = _suppressed(
        name, bboxes, scores, score_threshold, top, nms_threshold, normalized, nms_eta, background_label
    )
    return boxes_kept if return_index else boxes_kept[0]


def _batched(boxes: Input) -> None:
    if len(boxes.shape) != 3 or boxes.shape[2] != 4:
        what = f"boxes of other forms than [images, boxes, 4] do not work in multiclass_nms yet, got {boxes}"
        raise bad("UM-FLUID-003", what, "pad them to [images, boxes, 4]", where=user_line())


def detection_output(loc: Input, scores: Input, prior_box: Input, prior_box_var: Input, background_label: int = 0, nms_threshold: float = 0.3, nms_top_k: int = 400, keep_top_k: int = 200, score_threshold: float = 0.01, nms_eta: float = 1.0, return_index: bool = False) -> Output:  # fmt: skip
    """Codes and scores of a network as boxes. As in 1.8 the background is class 0 and eta is 1."""
    left_out("layers.detection_output", background_label=background_label, nms_eta=nms_eta)
    boxes = box_coder(prior_box, prior_box_var, loc, "decode_center_size")
    chances = rows.call("transpose", rows.call("softmax", scores), [0, 2, 1])
    chances.stop_gradient = True
    top = (nms_top_k, keep_top_k)
    boxes_kept = _suppressed(None, boxes, chances, score_threshold, top, nms_threshold, True, 1.0, 0)
    return boxes_kept if return_index else boxes_kept[0]


def _pooled(type_: str, name: str | None, input: Input, rois: Input, size: list[int], scale: float, counts: Input, more: dict[str, int]) -> Output:  # fmt: skip
    arguments = {"input": input, "rois": rois, "size": size, "spatial_scale": float(scale), "counts": counts, **more}
    return apply(type_, arguments, name=name)


def roi_pool(input: Input, rois: Input, pooled_height: int = 1, pooled_width: int = 1, spatial_scale: float = 1.0, rois_lod: Input = None) -> Output:  # fmt: skip
    """Each region as an image of one size, by the largest elements."""
    counts = _counted(rois_lod)
    return _pooled("roi_pool", None, input, rois, [pooled_height, pooled_width], spatial_scale, counts, {})


def roi_align(input: Input, rois: Input, pooled_height: int = 1, pooled_width: int = 1, spatial_scale: float = 1.0, sampling_ratio: int = -1, name: str | None = None, rois_lod: Input = None) -> Output:  # fmt: skip
    """Each region as an image of one size, by interpolation."""
    size, more = [pooled_height, pooled_width], {"sampling_ratio": sampling_ratio}
    return _pooled("roi_align", name, input, rois, size, spatial_scale, _counted(rois_lod), more)


def _counted(rois_lod: Input) -> Output:
    """How many regions each image has, from offsets in a tensor."""
    if rois_lod is None:
        return None
    after = rows.call("slice", rois_lod, [0], [1], [1 << 30])
    return after - rows.call("slice", rois_lod, [0], [0], [-1])
