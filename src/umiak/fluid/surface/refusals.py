"""What of `paddle.fluid` does not work yet: why, and the nearest thing that does. Values.

A row is a name, or the beginning of names with ``*``; the first that fits counts.
"""

from __future__ import annotations

ROWS: tuple[tuple[str, str, str], ...] = (
    (
        "incubate.fleet.*",
        "it does not work yet",
        "incubate.fleet.collective, incubate.fleet.parameter_server.distribute_transpiler",
    ),
    ("transpiler.*", "it does not work yet", "DistributeTranspiler"),
    ("incubate.data_generator.*", "it does not work yet", "incubate.data_generator.MultiSlotDataGenerator"),
    ("dataset.*", "datasets on GPU servers are gone", "dataset.InMemoryDataset"),
    ("distribute_transpiler*", "it does not work yet", "DistributeTranspiler"),
    (
        "contrib.layers.var_conv_2d",
        "images of different sizes as sequences don't work",
        "layers.conv2d on padded images",
    ),
    (
        "contrib.layers.match_matrix_tensor",
        "images of different sizes as sequences don't work",
        "layers.matmul on layers.sequence_pad",
    ),
    (
        "contrib.layers.sequence_topk_avg_pooling",
        "images of different sizes as sequences don't work",
        "layers.topk and layers.reduce_mean",
    ),
    ("contrib.layers.tree_conv", "trees of features don't work", "layers.gather and layers.fc"),
    ("contrib.layers.search_pyramid_hash", "an inner part of one search engine", "layers.hash and fluid.embedding"),
    (
        "contrib.layers.rank_attention",
        "an inner part of one platform, on GPUs alone",
        "layers.gather and layers.matmul",
    ),
    ("contrib.layers.*", "this layer of contrib does not work", "write it with fluid.layers"),
    ("contrib.*", "contrib does not work yet", "write it with fluid.layers"),
    ("dygraph.TracedLayer*", "layers are not turned into programs", "save_dygraph, and the layer itself"),
    ("dygraph.jit.*", "layers are not turned into programs", "save_dygraph, and the layer itself"),
    ("dygraph.TreeConv*", "convolutions over trees don't work yet", "dygraph.Linear on gathered rows"),
    ("dygraph.*", "this part of dygraph does not work yet", "the names in docs/reference/fluid.md"),
    ("profiler.*", "it does not work yet", "profiler.profiler"),
    ("core.ops.*", "1.8's C++ is gone", "fluid.layers"),
    ("core.*", "1.8's C++ is gone", "core.AnalysisConfig for predictors, fluid.layers for operations"),
    ("proto*", "programs are no protobuf messages here", "proto.framework_pb2.ProgramDesc, or print(program)"),
    ("OpProtoHolder", "1.8's C++ is gone", "fluid.layers"),
    ("load_op_library", "operations in C++ for 1.8 can't be loaded", "layers.py_func, or paddle.utils.cpp_extension"),
    ("optimizer.PipelineOptimizer", "a program runs on one device, as a whole", "the optimizer inside it"),
    ("optimizer.*", "1.8 had no such optimizer", "optimizer.Adam, Momentum, SGD and a dozen more"),
    ("evaluator.*", "this evaluator was old in 1.8", "fluid.metrics"),
    ("clip.append_gradient_clip_ops", "an inner part of 1.8", "minimize(grad_clip=)"),
    ("initializer.*", "this initializer does not work yet", "initializer.NumpyArrayInitializer"),
    (
        "layers._c_*",
        "single exchanges between processes don't work yet",
        "incubate.fleet.collective, which averages gradients",
    ),
    (
        "layers._broadcast",
        "single exchanges between processes don't work yet",
        "incubate.fleet.collective, whose parameters begin alike",
    ),
    ("layers._pull_box_sparse", "it was for a private server", "layers.embedding"),
    ("layers.ParallelDo", "it was gone in 1.8 already", "CompiledProgram"),
    ("layers.get_places", "it was gone in 1.8 already", "cpu_places, cuda_places"),
    (
        "layers.ssd_loss",
        "hard examples are not mined",
        "layers.bipartite_match, layers.smooth_l1 and layers.softmax_with_cross_entropy",
    ),
    ("layers.prroi_pool", "Paddle 3 has no exact integral over regions", "layers.roi_align"),
    ("layers.psroi_pool", "regions by position don't work yet", "layers.roi_align"),
    ("layers.roi_*", "regions of bodies or in perspective don't work", "layers.roi_align"),
    ("layers.deformable_*", "deformed filters don't work yet", "paddle.vision.ops.deform_conv2d"),
    ("layers.*_nms", "only multiclass_nms works", "layers.multiclass_nms"),
    (
        "layers.*_proposals",
        "proposals of regions don't work yet",
        "layers.anchor_generator, layers.box_coder and layers.multiclass_nms",
    ),
    ("layers.*_target_assign", "samples of anchors don't work yet", "layers.iou_similarity and layers.bipartite_match"),
    ("layers.softmax_cross_entropy_with_logits", "1.8 had no such layer", "layers.softmax_with_cross_entropy"),
    ("layers.*", "this layer does not work yet", "the layers in docs/reference/fluid.md"),
    ("nets.*", "this net does not work yet", "fluid.layers"),
    ("metrics.*", "this metric does not work yet", "the metrics in docs/reference/fluid.md"),
    ("io.*", "this part of fluid.io does not work yet", "the parts of io in docs/reference/fluid.md"),
    ("*Place", "devices of other vendors don't work yet", "CPUPlace, CUDAPlace"),
    ("LoDTensorArray", "arrays are made inside programs", "layers.array_write"),
    ("compiler", "a module", "compiler.CompiledProgram"),
    ("*", "it does not work yet", "the names in docs/reference/fluid.md"),
)


def reason(name: str) -> tuple[str, str]:
    """Why a name, without ``fluid.``, does not work, and what does."""
    for pattern, why, instead in ROWS:
        head, star, tail = pattern.partition("*")
        if name == pattern or (star and name.startswith(head) and name.endswith(tail)):
            return why, instead
    raise AssertionError(name)
