"""Each optional argument of a layer that is one operation changes what comes out for some input, or stands in a table. Real Paddle.

That an argument is read says nothing: here each is given another value. A row is ``layer(arguments) | argument=value; argument=value``, with the arrays below by their names.
"""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest

from tests.support.fluid_programs import fluid, paddle, programs
from umiak.fluid.kernels.registry import KERNELS, Frame, level_of
from umiak.fluid.record.program import FORWARD, RecordedOperation, Ref
from umiak.fluid.record.recording import DTYPES
from umiak.fluid.record.signatures import ABOUT_THE_CALL, LAYERS, REQUIRED
from umiak.fluid.surface.without_effect import REMARKED, SILENT

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

assert DTYPES, "the table of kernels is filled by then"
CHANCE = np.random.default_rng(2)


def normal(*shape: int) -> Any:
    return CHANCE.normal(size=shape).astype("float32")


ARRAYS: dict[str, Any] = {
    "rows": normal(4, 6),
    "other": normal(4, 6),
    "square": normal(4, 4),
    "vector": np.abs(normal(4)) + 0.5,
    "powers": np.abs(normal(4, 4)) + 0.5,
    "threes": normal(3, 3),
    "turned": normal(3, 3),
    "picture": normal(2, 4, 7, 7),
    "grid": normal(2, 4, 4, 4),
    "volume": normal(2, 4, 5, 5, 5),
    "three": normal(2, 3, 6),
    "frames": normal(5, 2, 4),
    "spelled": np.array([[1, 2], [3, 1]], "int32"),
    "lasting": np.array([5, 5]),
    "shorter": np.array([4, 5]),
    "long": np.array([2, 2]),
    "short": np.array([1, 2]),
    "teachers": np.array([[0.3], [-2.0], [1.4], [-1.0]], "float32"),
    "chances": np.full((40, 6), 1 / 6, "float32"),
    "likely": CHANCE.uniform(0.02, 0.9, (3, 6)).astype("float32"),
    "column": CHANCE.uniform(0.05, 0.95, (4, 1)).astype("float32"),
    "ids": np.array([[1], [0], [3], [1]]),
    "outside": np.array([[1], [9], [3], [-2]]),
    "labels": np.array([1, 0, 1, 2]),
    "bits": CHANCE.integers(0, 2, (4, 6)).astype("float32"),
    "whole": CHANCE.integers(1, 9, (4, 4)),
    "counts": np.array([2, 3, 4, 5]),
    "sizes": np.array([3, 3], "int32"),
    "holes": np.array([1.0, np.nan], "float32"),
    "words": np.array([[1], [2], [0], [1], [2], [3]]),
    "found": normal(6, 2),
    "steps": normal(3, 2),
    "gaps": normal(6, 2),
    "nested": np.array([[1], [2], [0], [1], [2], [3]]),
    "zero": np.zeros(1, "float32"),
    "chunks": np.array([[0], [1], [3], [0], [1], [3]]),
    "guessed": np.array([[0], [1], [2], [0], [3], [3]]),
    "scores": normal(6, 5),
    "text": np.array([[1], [2], [3]]),
    "one": np.array([3], "int32"),
    "classes": np.array([[1], [0], [2], [6]], "int32"),
    "predicted": np.random.default_rng(6).normal(size=(1, 14, 2, 2)).astype("float32"),
    "image": np.array([[16, 12]], "int32"),
    "boxes": np.array([[[0.4, 0.4, 0.3, 0.4], [0.7, 0.2, 0.2, 0.3]]], "float32"),
    "kinds": np.array([[0, 1]], "int32"),
    "sure": np.array([[0.3, 0.9]], "float32"),
}
LEVELS = {
    **{name: [[0, 2, 5, 6]] for name in ("words", "found", "chunks", "guessed", "scores")},
    **{name: [[0, 1, 2, 3]] for name in ("text", "steps")},
    "gaps": [[0, 2, 2, 6]],
    "nested": [[0, 1, 3], [0, 2, 5, 6]],
}
"""Where the sequences of some begin and end."""
ROWS = """
relu6(rows) | threshold=0.3
elu(rows) | alpha=2.1
selu(rows) | scale=2.0; alpha=1.0
gelu(rows) | approximate=True
leaky_relu(rows) | alpha=0.14
swish(rows) | beta=2.1
hard_sigmoid(rows) | slope=0.5; offset=1.1
hard_swish(rows) | threshold=0.3; scale=12.1; offset=6.1
brelu(rows) | t_min=0.1; t_max=0.3
soft_relu(rows) | threshold=0.3
thresholded_relu(rows) | threshold=0.1
hard_shrink(rows) | threshold=1.1
softshrink(rows) | alpha=1.1
stanh(rows) | scale_a=1.4; scale_b=3.5
pow(vector) | factor=2.1
scale(rows, 2.0, 1.0) | scale=2.1; bias=0.1; bias_after_scale=False
cumsum(rows) | axis=0; exclusive=True; reverse=True
elementwise_add(square, vector) | axis=0
elementwise_sub(square, vector) | axis=0
elementwise_mul(square, vector) | axis=0
elementwise_div(square, vector) | axis=0
elementwise_max(square, vector) | axis=0
elementwise_min(square, vector) | axis=0
elementwise_pow(powers, vector) | axis=0
elementwise_mod(whole, counts) | axis=0
elementwise_floordiv(whole, counts) | axis=0
reduce_sum(rows) | dim=1; keep_dim=True
reduce_mean(rows) | dim=1; keep_dim=True
reduce_max(rows) | dim=1; keep_dim=True
reduce_min(rows) | dim=1; keep_dim=True
reduce_prod(rows) | dim=1; keep_dim=True
reduce_all(bits) | dim=1; keep_dim=True
reduce_any(bits) | dim=1; keep_dim=True
matmul(square, rows) | transpose_x=True; alpha=2.1
matmul(square, powers) | transpose_y=True
mul(square, column) | y_num_col_dims=2; x_num_col_dims=2
argmax(rows) | axis=1
argmin(rows) | axis=1
argsort(rows) | axis=0; descending=True
l2_normalize(rows, 1) | epsilon=0.1
concat([square, powers]) | axis=1
reshape(rows, [2, 12]) | actual_shape=[3, 8]
flatten(rows) | axis=2
stack([rows, other]) | axis=1
scatter(rows, ids, other) | overwrite=False
one_hot(outside, 4) | allow_out_of_range=True
fill_constant_batch_size_like(rows, [7, 7], 'float32', 1.0) | input_dim_idx=1; output_dim_idx=1
linspace(0.0, 1.0, 3) | dtype='float64'
eye(2) | num_columns=3; batch_shape=[2]; dtype='float64'
pad(rows, [1, 1, 0, 0]) | pad_value=0.1
pad2d(picture, [1, 1, 1, 1]) | paddings=(1, 2, 1, 1); mode='reflect'; pad_value=1.0; data_format='NHWC'
pad_constant_like(rows, square) | pad_value=0.1
crop_tensor(rows, [2, 2]) | shape=[2, 3]; offsets=[1, 2]
crop(rows, [2, 2]) | shape=[2, 3]; offsets=[1, 2]
sequence_mask(counts) | maxlen=9; dtype='float64'
uniform_random([4]) | dtype='float64'; min=-1.9; max=2.1; seed=1
gaussian_random([4]) | mean=0.1; std=2.1; seed=1; dtype='float64'
uniform_random_batch_size_like(rows, [7, 7]) | dtype='float64'; input_dim_idx=1; output_dim_idx=1; min=-1.9; max=2.1; seed=1
gaussian_random_batch_size_like(rows, [7, 7]) | input_dim_idx=1; output_dim_idx=1; mean=0.1; std=2.1; seed=1; dtype='float64'
sampling_id(chances) | min=0.9; max=9.0; seed=1
softmax(rows) | axis=0
log_softmax(rows) | axis=0; dtype='float64'
dropout(rows, 0.5) | is_test=True; seed=1; dropout_implementation='upscale_in_train'
cross_entropy(powers, ids) | ignore_index=1; soft_label=True
sigmoid_cross_entropy_with_logits(rows, bits) | ignore_index=1; normalize=True
log_loss(column, column) | epsilon=0.1
smooth_l1(rows, other) | inside_weight=other; outside_weight=other; sigma=2.0
kldiv_loss(rows, bits) | reduction='sum'
margin_rank_loss(column, column, column) | margin=0.3
dice_loss(powers, ids) | epsilon=0.1
label_smooth(bits) | prior_dist=rows; epsilon=0.3
accuracy(powers, ids) | k=3
pool2d(picture, 2, 'max', 2) | pool_size=3; pool_type='avg'; pool_stride=1; pool_padding=1; global_pooling=True; ceil_mode=True; data_format='NHWC'
pool2d(picture, 3, 'avg', 1, 1) | exclusive=False
pool3d(volume, 2, 'max', 2) | pool_size=3; pool_type='avg'; pool_stride=1; pool_padding=1; global_pooling=True; ceil_mode=True; data_format='NDHWC'
pool3d(volume, 3, 'avg', 1, 1) | exclusive=False
resize_bilinear(picture, [5, 5]) | out_shape=[4, 5]; actual_shape=sizes; align_corners=False; data_format='NHWC'
resize_bilinear(picture, None, 2.0) | scale=3.0
resize_bilinear(picture, [5, 5], None, None, None, False) | align_mode=0
resize_nearest(picture, [5, 5]) | out_shape=[4, 5]; actual_shape=sizes; align_corners=False; data_format='NHWC'
resize_nearest(picture, None, 2.0) | scale=3.0
image_resize(picture, [5, 5]) | out_shape=[4, 5]; resample='NEAREST'; actual_shape=sizes; align_corners=False; data_format='NHWC'
image_resize(picture, None, 2.0) | scale=3.0
image_resize(picture, [5, 5], None, None, 'BILINEAR', None, False) | align_mode=0
interpolate(picture, [5, 5]) | out_shape=[4, 5]; resample='NEAREST'; actual_shape=sizes; align_corners=False; data_format='NHWC'
interpolate(picture, None, 2.0) | scale=3.0
interpolate(picture, [5, 5], None, None, 'BILINEAR', None, False) | align_mode=0
resize_trilinear(volume, [3, 3, 3]) | out_shape=[4, 3, 3]; actual_shape=[2, 3, 3]; align_corners=False; data_format='NDHWC'
resize_trilinear(volume, None, 2.0) | scale=3.0
resize_trilinear(volume, [3, 3, 3], None, None, None, False) | align_mode=0
temporal_shift(picture, 2) | shift_ratio=0.5
affine_channel(grid, vector, vector) | scale=counts; bias=counts; data_layout='NHWC'
maxout(grid, 2) | axis=3
sequence_pool(gaps, 'sum') | pad_value=1.0
sequence_expand(steps, nested) | ref_level=0
sequence_pad(found, zero) | maxlen=5
sequence_enumerate(words, 2) | pad_value=7
lod_reset(found) | y=words; target_lod=[0, 1, 6]
mish(rows) | threshold=0
logsumexp(rows) | dim=1; keepdim=True
clamp(rows, -0.5, 0.5) | min=0.0; max=0.1
addmm(rows, square, other) | alpha=2.1; beta=2.1
addcmul(rows, other, bits) | value=2.1
dist(rows, other) | p=3
cross(threes, turned) | dim=1
tril(rows) | diagonal=1
triu(rows) | diagonal=1
trace(rows) | offset=1
trace(three) | dim1=2; dim2=2
trace(three) | dim2=2
diag_embed(rows) | offset=1; dim1=0; dim2=0
allclose(rows, other) | rtol=1e9; atol=1e9
allclose(holes, holes) | equal_nan=True
full([2], 1) | dtype='float64'
full_like(rows, 1) | dtype='float64'
arange(0, 6) | step=2; dtype='float64'
randint(3) | high=9; shape=[2]; dtype='int32'
randint(3, 900, [4]) | seed=2
randn([2]) | dtype='float64'
randperm(9) | dtype='int32'; seed=1
index_select(square, ids) | dim=1
roll(rows, 1) | dims=1
shard_index(ids, 20, 2, 1) | ignore_value=7
unique(labels) | dtype='int64'
unique_with_counts(labels) | dtype='int64'
hash(ids, 1000) | num_hash=2
lrn(picture) | n=3; k=2.1; alpha=0.1; data_format='NHWC'
lrn(picture, 5, 1.0, 0.1) | beta=1.6
unfold(picture, 2) | strides=2; paddings=1; dilations=2
chunk_eval(guessed, chunks, 'IOB', 2) | excluded_chunk_types=[0]; seq_length=labels
warpctc(scores, text) | blank=4; norm_by_times=True
warpctc(frames, spelled, 0, False, lasting, long) | input_length=shorter; label_length=short
edit_distance(words, chunks) | normalized=False; ignored_tokens=[3]; input_length=labels; label_length=labels
teacher_student_sigmoid_loss(column, teachers) | soft_max_up_bound=0.1; soft_max_lower_bound=0.5
npair_loss(rows, other, labels) | l2_reg=0.1
continuous_value_model(powers, column) | use_cvm=False
iou_similarity(powers, square) | box_normalized=False
sigmoid_focal_loss(rows, classes, one) | gamma=1.0; alpha=0.5
bipartite_match(likely) | match_type='per_prediction'
bipartite_match(likely, 'per_prediction') | dist_threshold=0.95
yolo_box(predicted, image, [2, 3, 14, 15], 2, 0.01, 8) | clip_bbox=False; scale_x_y=1.2
yolov3_loss(predicted, boxes, kinds, [2, 3, 14, 15], [0, 1], 2, 0.5, 8) | gt_score=sure; use_label_smooth=False
yolov3_loss(predicted, boxes, kinds, [8, 8, 9, 9], [0, 1], 2, 0.3, 8) | scale_x_y=3.0
"""
OF_GRADIENTS = ("warpctc", "teacher_student_sigmoid_loss")
"""Layers some of whose arguments change their gradients alone."""
BUILT = {("full", "stop_gradient"), ("full_like", "stop_gradient"), ("randn", "stop_gradient")}
"""What the program has, and not its numbers: below."""
GATHERED = np.array([1, 0, 1])


def value_of(node: ast.expr) -> Any:
    """An array by its name, or what Python's text says."""
    if isinstance(node, ast.Name):
        return ("array", node.id)
    if isinstance(node, ast.List) and all(isinstance(each, ast.Name) for each in node.elts) and node.elts:
        return [value_of(each) for each in node.elts]
    return ast.literal_eval(node)


def parsed(row: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A layer, all of its arguments, and other values of some."""
    call, _, others = row.partition(" | ")
    made = ast.parse(call, mode="eval").body
    assert isinstance(made, ast.Call), row
    assert isinstance(made.func, ast.Name), row
    bound = LAYERS[made.func.id].bound(tuple(map(value_of, made.args)), {})
    given = {name: each for name, each in bound.items() if name not in ABOUT_THE_CALL}
    changes = [each.partition("=") for each in others.split("; ")]
    return made.func.id, given, {name: value_of(ast.parse(text, mode="eval").body) for name, _, text in changes}


def outcome(name: str, arguments: dict[str, Any], *, backwards: bool = False) -> Any:
    """What a kernel gives: numbers, types and sequences, or gradients; the error's type where it refuses."""
    kernel = KERNELS[name]
    frame = Frame({})
    referring: dict[str, Any] = {}
    made: dict[str, Any] = {}
    for key, given in arguments.items():
        is_array = isinstance(given, tuple) and given[:1] == ("array",)
        several = isinstance(given, list) and bool(given) and isinstance(given[0], tuple)
        if is_array:
            referring[key] = Ref(name=given[1])
            frame.values[given[1]] = made[key] = paddle.to_tensor(ARRAYS[given[1]], stop_gradient=not backwards)
            if given[1] in LEVELS:
                frame.offsets[given[1]] = tuple(level_of(each) for each in LEVELS[given[1]])
        elif several:
            made[key] = referring[key] = [paddle.to_tensor(ARRAYS[each[1]]) for each in given]
        else:
            made[key] = referring[key] = given
    outputs = tuple(f"output {number}" for number in range(LAYERS[name].outputs))
    frame.operation = RecordedOperation(type=name, arguments=referring, outputs=outputs, site="", role=FORWARD)
    paddle.seed(3)
    try:
        results = kernel.function(frame, **made) if kernel.frame else kernel.function(**made)
    except Exception as error:  # noqa: BLE001 - that it refuses is an effect
        return type(error).__name__
    results = results if isinstance(results, list | tuple) else [results]
    if backwards:
        real = [each for each in frame.values.values() if each.dtype == paddle.float32]
        loss = paddle.add_n([(each * each).sum() for each in results if not each.stop_gradient])
        return [None if each is None else each.numpy().tobytes() for each in paddle.grad([loss], real, allow_unused=True)]  # fmt: skip
    numbers = [(str(each.dtype), tuple(each.shape), np.array(each.numpy()).tobytes()) for each in results]
    return numbers, [frame.offsets.get(each) for each in outputs]


@pytest.mark.parametrize("row", ROWS.strip().splitlines(), ids=lambda row: row.partition(" | ")[0])
def test_another_value_changes_what_comes_out(row: str) -> None:
    name, given, changes = parsed(row)
    usual = outcome(name, given)
    assert usual == outcome(name, given), "it is drawn again each time"
    same = []
    for argument, value in changes.items():
        found = outcome(name, {**given, argument: value})
        assert not isinstance(usual, str) or not isinstance(found, str), (argument, usual, found)
        if found == usual and (name not in OF_GRADIENTS or outcome(name, given, backwards=True) == outcome(name, {**given, argument: value}, backwards=True)):  # fmt: skip
            same.append(argument)
    assert same == []


def test_each_optional_argument_of_a_row_is_tried_or_in_a_table() -> None:
    tried = {(name, argument) for name, _, changes in map(parsed, ROWS.strip().splitlines()) for argument in changes}
    silent = {(name, argument) for names, arguments, _ in SILENT for name in names.split() for argument in arguments.split()}  # fmt: skip
    told = {(name, argument) for name, argument, _, _ in REMARKED}
    known = {(name.removeprefix("layers."), argument) for name, argument in silent | told}
    optional = {
        (name, argument)
        for name, signature in LAYERS.items()
        for argument, default in signature.arguments.items()
        if default is not REQUIRED and argument not in ABOUT_THE_CALL
    }
    assert optional - known - BUILT - tried == set()
    assert tried & known == set()


@pytest.mark.parametrize(("layer", "arguments"), [("full", ([2], 1.0)), ("full_like", (None, 1.0)), ("randn", ([2],))])
def test_stop_gradient_is_that_of_the_variable(layer: str, arguments: tuple[Any, ...]) -> None:
    with programs():
        given = [fluid.data("x", [2], "float32") if each is None else each for each in arguments]
        for stops in (True, False):
            assert getattr(fluid.layers, layer)(*given, stop_gradient=stops).stop_gradient is stops


@pytest.mark.parametrize("overwrite", [True, False])
def test_gathers_gradient_is_that_of_plain_paddle(overwrite: bool) -> None:
    """Of a row that is taken twice it is the sum, whatever ``overwrite`` says: the table tells how 1.8's default differs."""
    weights = normal(3, 6)
    with programs() as made:
        x = fluid.data("x", [None, 6], "float32")
        x.stop_gradient = False
        taken = fluid.layers.gather(x, fluid.layers.assign(GATHERED), overwrite=overwrite)
        loss = fluid.layers.reduce_sum(taken * fluid.layers.assign(weights))
        (gradient,) = fluid.gradients([loss], [x])
        (found,) = made.run({"x": ARRAYS["rows"]}, [gradient])
    plain = paddle.to_tensor(ARRAYS["rows"], stop_gradient=False)
    (paddle.gather(plain, paddle.to_tensor(GATHERED)) * paddle.to_tensor(weights)).sum().backward()
    np.testing.assert_array_equal(found, plain.grad.numpy())
