"""Arguments of 1.8 that have no effect here, each with the reason. Values.

A test goes over all functions and methods of the surface: an argument that nothing reads and that stands in none of the two tables fails it. Names are without
``fluid.``; several stand in one row, with spaces between them.
"""

from __future__ import annotations

from typing import Any

LIBRARY = "which library computes it; the numbers are the same"
DEVICE = "a program runs on one device, as a whole"
MEMORY = "only saves memory or time; the numbers are the same"
ENDS = "the names of inner variables that nobody asks for"
NOT_IN_1_8 = "1.8 itself took it and did nothing with it"
FILES = "files are read and written without a program"

SILENT: tuple[tuple[str, str, str], ...] = (
    (
        "layers.conv2d layers.conv3d layers.conv2d_transpose layers.conv3d_transpose layers.pool2d layers.pool3d layers.softmax layers.sequence_softmax",
        "use_cudnn",
        LIBRARY,
    ),
    (
        "nets.simple_img_conv_pool nets.img_conv_group dygraph.Conv2D dygraph.Conv3D dygraph.Conv2DTranspose dygraph.Conv3DTranspose",
        "use_cudnn",
        LIBRARY,
    ),
    (
        "dygraph_utils._append_activation_in_dygraph dygraph.layer_object_helper.LayerObjectHelper.append_activation",
        "use_cudnn",
        LIBRARY,
    ),
    (
        "layers.less_than layers.fill_constant layers.fill_constant_batch_size_like layers.zeros layers.ones layers.create_global_var initializer.Constant",
        "force_cpu",
        DEVICE,
    ),
    ("layers.reshape", "inplace", MEMORY),
    ("layers.batch_norm layers.data_norm dygraph.BatchNorm", "in_place", MEMORY),
    (
        "layers.batch_norm dygraph.BatchNorm",
        "do_model_average_for_mean_and_var",
        "`ModelAverage` averages what learns, and leaves running means and variances as they are",
    ),
    ("layers.data_norm", "data_layout", "inputs have two dimensions, as 1.8's operation wants them"),
    ("layers.data_norm", "moving_mean_name moving_variance_name do_model_average_for_mean_and_var", NOT_IN_1_8),
    (
        "layers.gather",
        "overwrite",
        "gradients of a row that is taken twice are added up; 1.8's default kept one of them",
    ),
    ("layers.label_smooth layers.sampling_id", "dtype", "the result has the type that 1.8's operation gave it as well"),
    ("layers.sequence_pool", "is_test", MEMORY),
    ("layers.randint layers.randperm", "stop_gradient", "integers have no gradient"),
    (
        "layers.softmax_with_cross_entropy",
        "numeric_stable_mode",
        "it is always computed in the way that does not overflow",
    ),
    ("layers.auc", "topk", NOT_IN_1_8),
    ("layers.sequence_conv", "padding", NOT_IN_1_8),
    ("layers.create_global_var", "persistable", "it lasts from the startup program to the next one, always"),
    ("layers.py_func", "skip_vars_in_backward_input", "`backward_func` is refused"),
    ("contrib.layers.fused_elemwise_activation", "save_intermediate_out", MEMORY),
    ("layers.beam_search_decode", "beam_size", "it is found from what each step selected"),
    (
        "layers.While layers.while_loop",
        "is_test",
        "values for a gradient are kept as long as one is asked for, no longer",
    ),
    (
        "layers.While layers.cond layers.while_loop layers.DynamicRNN layers.IfElse layers.create_py_reader_by_data",
        "name",
        ENDS,
    ),
    ("layers.double_buffer dygraph.BilinearTensorProduct", "name", ENDS),
    ("layers.double_buffer", "place", DEVICE),
    ("Executor.run", "feed_var_name fetch_var_name", ENDS),
    ("Executor.run", "use_program_cache", MEMORY),
    ("CompiledProgram.with_data_parallel ParallelExecutor", "loss_name", DEVICE),
    ("CompiledProgram.with_data_parallel ParallelExecutor", "exec_strategy", DEVICE),
    ("ParallelExecutor", "build_strategy", DEVICE),
    (
        "CompiledProgram.with_data_parallel ParallelExecutor",
        "share_vars_from",
        "programs that run in one scope share their variables",
    ),
    ("CompiledProgram.with_inference_optimize", "config", MEMORY),
    (
        "io.PyReader layers.py_reader layers.create_py_reader_by_data io.DataLoader.from_generator",
        "capacity use_double_buffer",
        "batches are read when they are asked for",
    ),
    ("io.DataLoader.from_generator", "use_multiprocess", "batches are read in this process, the same ones"),
    (
        "io.DataLoader.from_dataset io.PyReader.set_sample_generator io.PyReader.set_sample_list_generator io.PyReader.set_batch_generator",
        "places",
        DEVICE,
    ),
    ("LoDTensor.set", "place", DEVICE),
    (
        "io.save_vars io.load_vars io.load evaluator.ChunkEvaluator.reset evaluator.ChunkEvaluator.eval evaluator.EditDistance.eval",
        "executor",
        FILES,
    ),
    ("evaluator.ChunkEvaluator.reset", "reset_program", "states are set where they are"),
    ("evaluator.ChunkEvaluator.eval evaluator.EditDistance.eval", "eval_program", "states are read where they are"),
    ("optimizer.ModelAverage.restore", "executor", FILES),
    ("optimizer.ModelAverage", "regularization", NOT_IN_1_8),
    ("append_backward", "checkpoints", MEMORY),
    ("Variable.to_string Program.to_string", "throw_on_error with_details", "there is one form, with all there is"),
    ("details.program_to_code", "skip_op_callstack", "each operation is printed with its line in your file"),
    (
        "core.AnalysisConfig.switch_specify_input_names",
        "x",
        "tensors with names are taken by them, others in their order",
    ),
    ("dygraph.to_variable", "zero_copy", "the array is always copied"),
    ("dygraph.Dropout dygraph.BatchNorm", "is_test", "`eval()` says it, as in 1.8"),
    ("dygraph.grad", "backward_strategy", "the order in which gradients are added up"),
    ("dataset.InMemoryDataset.global_shuffle", "thread_num", MEMORY),
    ("dataset.InMemoryDataset.set_generate_unique_feasigns", "shard_num", "it is refused, if it is wanted"),
    (
        "incubate.fleet.parameter_server.pslib.fleet.shrink_dense_table",
        "emb_dim scope table_id",
        "a remark says that nothing is shrunk",
    ),
    ("incubate.fleet.collective.fleet.init_server", "model_dir", "there are no servers"),
    ("incubate.fleet.parameter_server.distribute_transpiler.fleet.save_persistables", "executor", FILES),
    (
        "DistributeTranspiler.get_startup_program",
        "endpoint pserver_program startup_program",
        "servers begin with what the first trainer's startup program has drawn",
    ),
    ("DistributeTranspiler.get_trainer_program", "wait_port", "connections are retried until the servers are there"),
    ("dygraph.declarative", "_settings", MEMORY),
    ("memory_optimize release_memory", "input_program _given _settings", "1.8 did nothing either; a warning says it"),
)
"""Functions, arguments and why these have no effect, which nobody needs to be told in a run."""

DENSE = "its gradient is a whole tensor: other numbers with `Adam(lazy_mode=True)` only"
SERVERS = "umiak's servers have no such setting"

REMARKED: tuple[tuple[str, str, Any, str], ...] = (
    ("layers.Print", "print_tensor_layout", True, "tensors have no layout"),
    ("layers.nce", "is_sparse", False, DENSE),
    ("layers.hsigmoid", "is_sparse", False, DENSE),
    ("dygraph.NCE", "is_sparse", False, DENSE),
    ("dygraph.Embedding", "is_distributed", False, "it is a layer of this process"),
    ("layers.data_norm", "sync_stats", False, "each trainer counts its own batches"),
    ("contrib.layers.shuffle_batch", "seed", None, "the order is drawn by the program's random_seed"),
    ("layers.random_crop", "seed", None, "places are drawn by the program's random_seed"),
    ("layers.detection_output", "background_label", 0, NOT_IN_1_8),
    ("layers.detection_output", "nms_eta", 1.0, NOT_IN_1_8),
    ("contrib.layers.fused_embedding_seq_pool", "is_sparse", False, DENSE),
    ("layers.full", "device", None, DEVICE),
    ("layers.full_like", "device", None, DEVICE),
    ("layers.randn", "device", None, DEVICE),
    ("layers.randint", "device", None, DEVICE),
    ("layers.randperm", "device", None, DEVICE),
    ("contrib.layers.sparse_embedding", "is_test", False, "an id that is new gets a row in any case"),
    ("contrib.layers.sparse_embedding", "table_class", "CommonSparseTable", SERVERS),
    ("clip.GradientClipByGlobalNorm", "group_name", "default_group", "all parameters of a call are one group"),
    ("metrics.Auc", "curve", "ROC", "the area is that under ROC, as 1.8 itself computed it"),
    ("contrib.mixed_precision.decorate", "amp_lists", None, "everything is computed in float32"),
    ("io.load_inference_model", "pserver_endpoints", None, "rows of tables are read from the files"),
    ("fleet.save_inference_model", "export_for_deployment", True, "it is written for deployment in any case"),
    ("dataset.set_queue_num", "queue_num", ..., "samples are in one place"),
    ("dataset.set_fleet_send_batch_size", "fleet_send_batch_size", ..., "a shuffle sends as much at a time as fits"),
    (
        "dataset.set_fleet_send_sleep_seconds",
        "fleet_send_sleep_seconds",
        ...,
        "a shuffle waits for the others as long as it must",
    ),
    ("dataset.set_fea_eval", "record_candidate_size", ..., "all samples are candidates of slots_shuffle"),
    ("contrib.utils.multi_upload", "sync", True, "it returns when all files are there"),
    ("core.AnalysisConfig.enable_memory_optim", "x", ..., "Paddle 3.3 can't run its own pass"),
    ("optimizer.DGCMomentumOptimizer", "rampup_begin_step", ..., "gradients are whole, as Momentum has them"),
    ("optimizer.DGCMomentumOptimizer", "rampup_step", 1, "gradients are whole, as Momentum has them"),
    ("optimizer.DGCMomentumOptimizer", "sparsity", None, "gradients are whole, as Momentum has them"),
    ("optimizer.DGCMomentumOptimizer", "num_trainers", None, "gradients are whole, as Momentum has them"),
    ("fleet.shrink_dense_table", "decay", ..., "dense parameters have no statistics that could decay"),
    ("fleet.init_server", "settings", None, SERVERS),
    ("fleet.save_persistables", "settings", None, "everything that was learned is saved"),
    ("fleet.load_model", "settings", None, "everything that was saved is loaded"),
    ("fleet.save_model", "settings", None, "everything that was learned is saved"),
    ("fleet.set_server_runtime_config", "config", ..., SERVERS),
)
"""Functions, arguments, what they are usually (``...``: nothing is usual), and why another value has no effect. A warning says it once."""


def remarked() -> dict[tuple[str, str], tuple[Any, str]]:
    """The second table by functions and arguments."""
    return {(name, argument): (usual, why) for name, argument, usual, why in REMARKED}
