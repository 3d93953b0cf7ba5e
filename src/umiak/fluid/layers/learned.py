"""Layers with parameters for tags, many classes, clicks and sequences: they record the parameter's first value in the startup program. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umiak.fluid.layers import rows
from umiak.fluid.layers.parametric import batch_norm
from umiak.fluid.record import naming
from umiak.fluid.record.attributes import ConstantInitializer, NormalInitializer, ParamAttr
from umiak.fluid.record.current import default_main_program
from umiak.fluid.record.problems import bad
from umiak.fluid.record.program import FORWARD
from umiak.fluid.record.recording import activated, append_plain, apply, create_parameter
from umiak.fluid.record.remarks import left_out
from umiak.fluid.record.sites import user_line

if TYPE_CHECKING:
    from umiak.fluid.arguments import Act, Attr, Input, Output, Settings, Value


def linear_chain_crf(input: Input, label: Input, param_attr: Attr = None, length: Input = None) -> Output:
    """For each sequence the negative logarithm of its labels' probability. With a length the input is padded."""
    tags = input.shape[1] if length is None else input.shape[2]
    transition = create_parameter(naming.generate("linear_chain_crf"), param_attr, [tags + 2, tags], input.dtype)
    return apply("linear_chain_crf", {"input": input, "label": label, "transition": transition, "length": length})


def crf_decoding(input: Input, param_attr: Attr, label: Input = None, length: Input = None) -> Output:
    """The best labels of each sequence, by the transitions that `linear_chain_crf` learned under this name."""
    name = (ParamAttr.of(param_attr) or ParamAttr()).name
    block = default_main_program().global_block()
    if name is None or not block.has_var(name):
        what = f"fluid.layers.crf_decoding: this program has no parameter {name or 'without a name'}"
        raise bad("UM-FLUID-002", what, "give linear_chain_crf and crf_decoding the same ParamAttr(name=)", where=user_line())  # fmt: skip
    arguments = {"input": input, "transition": block.var(name), "label": label, "length": length}
    return apply("crf_decoding", arguments)


def ctc_greedy_decoder(input: Input, blank: int, input_length: Input = None, padding_value: int = 0, name: str | None = None) -> Output:  # fmt: skip
    """The most probable classes, merged; of padded input with the new lengths."""
    if input_length is None:
        return apply("ctc_greedy_decoder", {"input": input, "blank": blank}, name=name)
    arguments = {"input": input, "blank": blank, "input_length": input_length, "padding_value": padding_value}
    return apply("ctc_greedy_decoder_padded", arguments, name=name, outputs=2)


def nce(input: Input, label: Input, num_total_classes: int, sample_weight: Input = None, param_attr: Attr = None, bias_attr: Attr = None, num_neg_samples: int | None = None, name: str | None = None, sampler: str = "uniform", custom_dist: Value = None, seed: int = 0, is_sparse: bool = False) -> Output:  # fmt: skip
    """True classes against drawn ones."""
    left_out("layers.nce", is_sparse=is_sparse)
    if sampler not in ("uniform", "log_uniform", "custom_dist"):
        what = f"expected uniform, log_uniform or custom_dist as sampler of nce, got {sampler!r}"
        raise bad("UM-FLUID-002", what, where=user_line())
    layer = name or naming.generate("nce")
    weight = create_parameter(layer, param_attr, [num_total_classes, input.shape[1]], input.dtype)
    bias = create_parameter(layer, bias_attr, [num_total_classes, 1], input.dtype, is_bias=True)
    arguments = {
        "input": input,
        "label": label,
        "weight": weight,
        "bias": bias,
        "sample_weight": sample_weight,
        "num_total_classes": num_total_classes,
        "num_neg_samples": 10 if num_neg_samples is None else int(num_neg_samples),
        "sampler": sampler,
        "custom_dist": None if custom_dist is None else [float(each) for each in custom_dist],
        "seed": seed,
    }
    return apply("nce", arguments, name=layer)


def hsigmoid(input: Input, label: Input, num_classes: int, param_attr: Attr = None, bias_attr: Attr = None, name: str | None = None, path_table: Input = None, path_code: Input = None, is_custom: bool = False, is_sparse: bool = False) -> Output:  # fmt: skip
    """The way through a tree of classes, 1.8's own or a given one."""
    left_out("layers.hsigmoid", is_sparse=is_sparse)
    if is_custom and (path_table is None or path_code is None):
        what = "hsigmoid(is_custom=True) needs path_table and path_code"
        raise bad("UM-FLUID-002", what, where=user_line())
    if not is_custom and (path_table is not None or path_code is not None):
        raise bad("UM-FLUID-002", "hsigmoid takes path_table and path_code with is_custom=True only", where=user_line())
    layer = name or naming.generate("hierarchical_sigmoid")
    forks = num_classes if is_custom else num_classes - 1
    weight = create_parameter(layer, param_attr, [forks, input.shape[1]], input.dtype)
    bias = create_parameter(layer, bias_attr, [forks, 1], input.dtype, is_bias=True)
    arguments = {"input": input, "label": label, "weight": weight, "bias": bias, "num_classes": num_classes}
    return apply("hsigmoid", {**arguments, "path_table": path_table, "path_code": path_code}, name=layer)


def sampled_softmax_with_cross_entropy(logits: Input, label: Input, num_samples: int, num_true: int = 1, remove_accidental_hits: bool = True, use_customized_samples: bool = False, customized_samples: Input = None, customized_probabilities: Input = None, seed: int = 0) -> Output:  # fmt: skip
    """Cross entropy among the true class and drawn ones."""
    if num_true != 1:
        what = f"sampled_softmax_with_cross_entropy(num_true={num_true}) does not work, nor did it in 1.8"
        raise bad("UM-FLUID-003", what, "use num_true=1", where=user_line())
    arguments = {
        "logits": logits,
        "label": label,
        "num_samples": num_samples,
        "num_true": num_true,
        "remove_accidental_hits": remove_accidental_hits,
        "customized_samples": customized_samples if use_customized_samples else None,
        "customized_probabilities": customized_probabilities if use_customized_samples else None,
        "seed": seed,
    }
    return apply("sampled_softmax_with_cross_entropy", arguments)


def center_loss(input: Input, label: Input, num_classes: int, alpha: Value, param_attr: Attr, update_center: bool = True) -> Output:  # fmt: skip
    """Half the squared distance to the centre of each label; the centres move with every run."""
    layer = naming.generate("center_loss")
    given = ParamAttr.of(param_attr) or ParamAttr()
    given.trainable = False
    centers = create_parameter(layer, given, [num_classes, input.shape[1]], input.dtype)
    block = default_main_program().current_block()
    loss = block.create_var(naming.generate(f"{layer}.tmp"), (), input.dtype)
    arguments = {"input": input, "label": label, "centers": centers, "alpha": alpha, "update_center": update_center}
    return apply("center_loss", arguments, out=[loss, centers])[0]


def data_norm(input: Input, act: Act = None, epsilon: float = 1e-05, param_attr: Settings = None, data_layout: str = "NCHW", in_place: bool = False, name: str | None = None, moving_mean_name: str | None = None, moving_variance_name: str | None = None, do_model_average_for_mean_and_var: bool = True, slot_dim: int = -1, sync_stats: bool = False, summary_decay_rate: float = 0.9999999, enable_scale_and_shift: bool = False) -> Output:  # fmt: skip
    """Normalized by sums over all data so far, which grow while the program learns."""
    left_out("layers.data_norm", sync_stats=sync_stats)
    name = name or "dn"
    first = param_attr if isinstance(param_attr, dict) else {}
    channels = input.shape[1]

    def made(suffix: str, key: str, value: float, *, trainable: bool) -> Output:
        start = ConstantInitializer(float(first.get(key, value)))
        given = ParamAttr(name=f"{name}.{suffix}", initializer=start, trainable=trainable)
        return create_parameter(name, given, [channels], input.dtype)

    learns = enable_scale_and_shift
    scale = made("scale_w", "scale_w", 1.0, trainable=True) if learns else None
    bias = made("bias", "bias", 0.0, trainable=True) if learns else None
    size = made("batch_size", "batch_size", 1e4, trainable=False)
    total = made("batch_sum", "batch_sum", 0.0, trainable=False)
    squares = made("batch_square_sum", "batch_square", 1e4, trainable=False)
    sums = {"input": input, "size": size, "total": total, "squares": squares}
    output = apply("data_norm", {**sums, "scale": scale, "bias": bias, "slot_dim": slot_dim})
    counted = {**sums, "slot_dim": slot_dim, "decay": summary_decay_rate, "epsilon": epsilon}
    append_plain("data_norm_counted", counted, [size, total, squares], role=FORWARD)
    return activated(output, act)


def row_conv(input: Input, future_context_size: int, param_attr: Attr = None, act: Act = None) -> Output:
    """Each item with weighted ones that follow it in its sequence."""
    layer = naming.generate("row_conv")
    weight = create_parameter(layer, param_attr, [future_context_size + 1, input.shape[-1]], input.dtype)
    return activated(apply("row_conv", {"input": input, "weight": weight}, name=layer), act)


def spectral_norm(weight: Input, dim: int = 0, power_iters: int = 1, eps: float = 1e-12, name: str | None = None) -> Output:  # fmt: skip
    """By its largest singular value, which is looked for from two drawn vectors."""
    layer = name or naming.generate("spectral_norm")
    rest = 1
    for place, size in enumerate(weight.shape):
        rest *= 1 if place == dim else size
    u, v = (
        create_parameter(layer, ParamAttr(trainable=False), [size], weight.dtype, default=NormalInitializer(0.0, 1.0))
        for size in (weight.shape[dim], rest)
    )
    return apply(
        "spectral_norm", {"weight": weight, "u": u, "v": v, "dim": dim, "power_iters": power_iters, "eps": eps}
    )


def bilinear_tensor_product(x: Input, y: Input, size: int, act: Act = None, name: str | None = None, param_attr: Attr = None, bias_attr: Attr = None) -> Output:  # fmt: skip
    """x W y with a matrix for each output."""
    layer = name or naming.generate("bilinear_tensor_product")
    weight = create_parameter(layer, param_attr, [size, x.shape[1], y.shape[1]], x.dtype)
    bias = create_parameter(layer, bias_attr, [1, size], x.dtype, is_bias=True)
    return apply("bilinear_tensor_product", {"x": x, "y": y, "weight": weight, "bias": bias}, name=layer, act=act)


def inplace_abn(input: Input, act: Act = None, is_test: bool = False, momentum: float = 0.9, epsilon: float = 1e-05, param_attr: Attr = None, bias_attr: Attr = None, data_layout: str = "NCHW", name: str | None = None, moving_mean_name: str | None = None, moving_variance_name: str | None = None, do_model_average_for_mean_and_var: bool = True, use_global_stats: bool = False, act_alpha: float = 1.0) -> Output:  # fmt: skip
    """`batch_norm` with identity, leaky_relu or elu behind it, whose setting is `act_alpha`."""
    if act not in (None, "identity", "leaky_relu", "elu"):
        what = f"expected identity, leaky_relu or elu as inplace_abn's act, got {act!r}"
        raise bad("UM-FLUID-002", what, where=user_line())
    output = batch_norm(
        input, None, is_test, momentum, epsilon, param_attr, bias_attr, data_layout, False, name,
        moving_mean_name, moving_variance_name, do_model_average_for_mean_and_var, use_global_stats,
    )  # fmt: skip
    return output if act in (None, "identity") else rows.call(act, output, act_alpha)
