"""Which names of `paddle.fluid` there are, and where each is: ``name = module:attribute``. Layers of one row stand in `layer_rows`. Values.

Names are without ``fluid.``; modules without ``umiak.fluid.``, or with a leading ``=`` where they are somebody else's.
"""

from __future__ import annotations

from umiak.fluid.surface.layer_names import BESIDE, LAYERS

PROGRAMS = """
Program = record.program:RecordedProgram
Variable = record.program:Variable
Parameter = record.program:Parameter
default_main_program = record.current:default_main_program
default_startup_program = record.current:default_startup_program
program_guard = record.current:program_guard
switch_main_program = record.current:switch_main_program
switch_startup_program = record.current:switch_startup_program
name_scope = record.current:name_scope
device_guard = record.current:device_guard
in_dygraph_mode = record.current:in_dygraph_mode
enable_dygraph = dygraph.mode:enable_dygraph
disable_dygraph = dygraph.mode:disable_dygraph
enable_imperative = dygraph.mode:enable_dygraph
disable_imperative = dygraph.mode:disable_dygraph
ParamAttr = record.attributes:ParamAttr
param_attr.ParamAttr = record.attributes:ParamAttr
unique_name.generate = record.naming:generate
unique_name.guard = record.naming:guard
unique_name.switch = record.naming:switch
unique_name.UniqueNameGenerator = record.naming:UniqueNameGenerator
layer_helper.LayerHelper = record.recording:LayerHelper
framework.Program = record.program:RecordedProgram
framework.Variable = record.program:Variable
framework.Parameter = record.program:Parameter
framework.default_main_program = record.current:default_main_program
framework.default_startup_program = record.current:default_startup_program
framework.program_guard = record.current:program_guard
framework.switch_main_program = record.current:switch_main_program
framework.switch_startup_program = record.current:switch_startup_program
framework.name_scope = record.current:name_scope
framework.in_dygraph_mode = record.current:in_dygraph_mode
framework.cpu_places = running.places:cpu_places
framework.cuda_places = running.places:cuda_places
initializer.Constant = record.attributes:ConstantInitializer
initializer.Uniform = record.attributes:UniformInitializer
initializer.Normal = record.attributes:NormalInitializer
initializer.TruncatedNormal = record.attributes:TruncatedNormalInitializer
initializer.Xavier = record.attributes:XavierInitializer
initializer.MSRA = record.attributes:MSRAInitializer
initializer.Bilinear = record.attributes:BilinearInitializer
initializer.NumpyArrayInitializer = record.attributes:NumpyArrayInitializer
initializer.ConstantInitializer = record.attributes:ConstantInitializer
initializer.UniformInitializer = record.attributes:UniformInitializer
initializer.NormalInitializer = record.attributes:NormalInitializer
initializer.TruncatedNormalInitializer = record.attributes:TruncatedNormalInitializer
initializer.XavierInitializer = record.attributes:XavierInitializer
initializer.MSRAInitializer = record.attributes:MSRAInitializer
initializer.BilinearInitializer = record.attributes:BilinearInitializer
"""

RUNNING = """
Executor = running.executor:ReplayExecutor
executor.Executor = running.executor:ReplayExecutor
executor.global_scope = running.scope:global_scope
executor.scope_guard = running.scope:scope_guard
ParallelExecutor = running.parallel:ParallelExecutor
CompiledProgram = running.compiled:CompiledProgram
compiler.CompiledProgram = running.compiled:CompiledProgram
compiler.ExecutionStrategy = running.compiled:ExecutionSettings
compiler.BuildStrategy = running.compiled:BuildSettings
ExecutionStrategy = running.compiled:ExecutionSettings
BuildStrategy = running.compiled:BuildSettings
Scope = running.scope:VariableScope
global_scope = running.scope:global_scope
scope_guard = running.scope:scope_guard
LoDTensor = running.scope:LoDTensor
Tensor = running.scope:LoDTensor
create_lod_tensor = running.scope:create_lod_tensor
create_random_int_lodtensor = running.scope:create_random_int_lodtensor
CPUPlace = running.places:CpuPlace
CUDAPlace = running.places:CudaPlace
CUDAPinnedPlace = running.places:PinnedPlace
cpu_places = running.places:cpu_places
cuda_places = running.places:cuda_places
cuda_pinned_places = running.places:cuda_pinned_places
is_compiled_with_cuda = running.places:is_compiled_with_cuda
is_compiled_with_xpu = running.places:is_compiled_with_xpu
require_version = versions:require_version
DataFeeder = running.feeding:DataFeeder
data_feeder.DataFeeder = running.feeding:DataFeeder
convert_dtype = record.recording:dtype_name
data_feeder.convert_dtype = record.recording:dtype_name
core.EOFException = record.problems:EOFException
core.EnforceNotMet = record.problems:FluidError
core.Scope = running.scope:VariableScope
core.LoDTensor = running.scope:LoDTensor
core.CPUPlace = running.places:CpuPlace
core.CUDAPlace = running.places:CudaPlace
core.CUDAPinnedPlace = running.places:PinnedPlace
core.get_cuda_device_count = running.places:cuda_device_count
core.is_compiled_with_cuda = running.places:is_compiled_with_cuda
core.VarDesc = versions:VarDesc
core.AnalysisConfig = saving.predictors:AnalysisConfig
core.PaddleTensor = saving.predictors:PaddleTensor
core.PaddleBuf = saving.predictors:PaddleBuf
core.PaddleDType = saving.predictors:PaddleDType
core.PaddlePredictor = saving.predictors:PaddlePredictor
core.create_paddle_predictor = saving.predictors:create_paddle_predictor
proto.framework_pb2.ProgramDesc = =paddle.base.proto.framework_pb2:ProgramDesc
proto.framework_pb2.BlockDesc = =paddle.base.proto.framework_pb2:BlockDesc
proto.framework_pb2.OpDesc = =paddle.base.proto.framework_pb2:OpDesc
proto.framework_pb2.VarDesc = =paddle.base.proto.framework_pb2:VarDesc
proto.framework_pb2.VarType = =paddle.base.proto.framework_pb2:VarType
proto.framework_pb2.OpProto = =paddle.base.proto.framework_pb2:OpProto
"""

DATA = """
DatasetFactory = data.datasets:DatasetFactory
dataset.DatasetFactory = data.datasets:DatasetFactory
dataset.DatasetBase = data.datasets:FluidDataset
dataset.QueueDataset = data.datasets:QueueDataset
dataset.InMemoryDataset = data.datasets:InMemoryDataset
dataset.FileInstantDataset = data.datasets:FileInstantDataset
FetchHandler = =paddle.base.executor:FetchHandler
executor.FetchHandler = =paddle.base.executor:FetchHandler
DataFeedDesc = =paddle.base.data_feed_desc:DataFeedDesc
data_feed_desc.DataFeedDesc = =paddle.base.data_feed_desc:DataFeedDesc
incubate.data_generator.DataGenerator = =paddle.distributed.fleet.data_generator.data_generator:DataGenerator
incubate.data_generator.MultiSlotDataGenerator = =paddle.distributed.fleet.data_generator.data_generator:MultiSlotDataGenerator
incubate.data_generator.MultiSlotStringDataGenerator = =paddle.distributed.fleet.data_generator.data_generator:MultiSlotStringDataGenerator
profiler.profiler = running.measuring:profiler
profiler.start_profiler = running.measuring:start_profiler
profiler.stop_profiler = running.measuring:stop_profiler
profiler.reset_profiler = running.measuring:reset_profiler
profiler.cuda_profiler = running.measuring:cuda_profiler
incubate.fleet.utils.hdfs.HDFSClient = data.hdfs:HDFSClient
incubate.fleet.utils.fs.LocalFS = =paddle.distributed.fleet.utils.fs:LocalFS
incubate.fleet.utils.fs.HDFSClient = data.hdfs:HDFSClient
contrib.utils.HDFSClient = data.hdfs:HDFSClient
contrib.utils.multi_download = data.hdfs:multi_download
contrib.utils.multi_upload = data.hdfs:multi_upload
contrib.utils.hdfs_utils.HDFSClient = data.hdfs:HDFSClient
contrib.utils.hdfs_utils.multi_download = data.hdfs:multi_download
contrib.utils.hdfs_utils.multi_upload = data.hdfs:multi_upload
"""

LEARNING = """
append_backward = learning.gradients:append_backward
gradients = learning.gradients:gradients
backward.append_backward = learning.gradients:append_backward
backward.gradients = learning.gradients:gradients
regularizer.L1Decay = learning.penalties:L1DecayRegularizer
regularizer.L2Decay = learning.penalties:L2DecayRegularizer
regularizer.L1DecayRegularizer = learning.penalties:L1DecayRegularizer
regularizer.L2DecayRegularizer = learning.penalties:L2DecayRegularizer
clip.GradientClipByValue = learning.penalties:GradientClipByValue
clip.GradientClipByNorm = learning.penalties:GradientClipByNorm
clip.GradientClipByGlobalNorm = learning.penalties:GradientClipByGlobalNorm
clip.set_gradient_clip = learning.penalties:set_gradient_clip
optimizer.Optimizer = learning.optimizers:FluidOptimizer
optimizer.SGD = learning.optimizers:SGDOptimizer
optimizer.Momentum = learning.optimizers:MomentumOptimizer
optimizer.Adagrad = learning.optimizers:AdagradOptimizer
optimizer.Adam = learning.optimizers:AdamOptimizer
optimizer.Adamax = learning.optimizers:AdamaxOptimizer
optimizer.DecayedAdagrad = learning.optimizers:DecayedAdagradOptimizer
optimizer.Adadelta = learning.optimizers:AdadeltaOptimizer
optimizer.RMSProp = learning.optimizers:RMSPropOptimizer
optimizer.Ftrl = learning.optimizers:FtrlOptimizer
optimizer.Lamb = learning.optimizers:LambOptimizer
optimizer.LarsMomentum = learning.optimizers:LarsMomentumOptimizer
optimizer.SGDOptimizer = learning.optimizers:SGDOptimizer
optimizer.MomentumOptimizer = learning.optimizers:MomentumOptimizer
optimizer.AdagradOptimizer = learning.optimizers:AdagradOptimizer
optimizer.AdamOptimizer = learning.optimizers:AdamOptimizer
optimizer.AdamaxOptimizer = learning.optimizers:AdamaxOptimizer
optimizer.DecayedAdagradOptimizer = learning.optimizers:DecayedAdagradOptimizer
optimizer.AdadeltaOptimizer = learning.optimizers:AdadeltaOptimizer
optimizer.RMSPropOptimizer = learning.optimizers:RMSPropOptimizer
optimizer.FtrlOptimizer = learning.optimizers:FtrlOptimizer
optimizer.LambOptimizer = learning.optimizers:LambOptimizer
optimizer.LarsMomentumOptimizer = learning.optimizers:LarsMomentumOptimizer
metrics.MetricBase = metrics:MetricBase
metrics.CompositeMetric = metrics:CompositeMetric
metrics.Precision = metrics:Precision
metrics.Recall = metrics:Recall
metrics.Accuracy = metrics:MeanAccuracy
metrics.ChunkEvaluator = metrics:ChunkEvaluator
metrics.EditDistance = metrics:EditDistance
metrics.Auc = metrics:HistogramAuc
average.WeightedAverage = metrics:WeightedAverage
"""

FILES = """
save = saving.files:save
load = saving.files:load
load_program_state = saving.files:load_program_state
set_program_state = saving.files:set_program_state
io.save = saving.files:save
io.load = saving.files:load
io.load_program_state = saving.files:load_program_state
io.set_program_state = saving.files:set_program_state
io.save_vars = saving.files:save_vars
io.load_vars = saving.files:load_vars
io.save_params = saving.files:save_params
io.load_params = saving.files:load_params
io.save_persistables = saving.files:save_persistables
io.load_persistables = saving.files:load_persistables
io.save_inference_model = saving.files:save_inference_model
io.load_inference_model = saving.files:load_inference_model
io.is_parameter = saving.files:is_parameter
io.is_persistable = saving.files:is_persistable
io.is_belong_to_optimizer = saving.files:is_belong_to_optimizer
io.get_program_parameter = saving.files:get_program_parameter
io.get_program_persistable_vars = saving.files:get_program_persistable_vars
io.batch = saving.files:batch
io.shuffle = =paddle.reader:shuffle
io.buffered = =paddle.reader:buffered
io.cache = =paddle.reader:cache
io.chain = =paddle.reader:chain
io.compose = =paddle.reader:compose
io.firstn = =paddle.reader:firstn
io.map_readers = =paddle.reader:map_readers
io.xmap_readers = =paddle.reader:xmap_readers
io.multiprocess_reader = =paddle.reader:multiprocess_reader
io.ComposeNotAligned = =paddle.reader:ComposeNotAligned
io.DataLoader = running.loaders:DataLoader
io.PyReader = running.loaders:PyReader
io.DataFeeder = running.feeding:DataFeeder
"""

DYNAMIC = """
dygraph.guard = dygraph.mode:guard
dygraph.no_grad = dygraph.mode:no_grad
dygraph.enabled = record.current:in_dygraph_mode
dygraph.enable_dygraph = dygraph.mode:enable_dygraph
dygraph.disable_dygraph = dygraph.mode:disable_dygraph
dygraph.to_variable = record.dynamic:to_variable
dygraph.BackwardStrategy = dygraph.tensors:BackwardStrategy
dygraph.grad = dygraph.tensors:grad
dygraph.Layer = dygraph.layer:Layer
dygraph.Sequential = dygraph.containers:Sequential
dygraph.LayerList = dygraph.containers:LayerList
dygraph.ParameterList = dygraph.containers:ParameterList
dygraph.Linear = dygraph.layers:Linear
dygraph.Embedding = dygraph.layers:Embedding
dygraph.Conv2D = dygraph.layers:Conv2D
dygraph.Conv3D = dygraph.layers:Conv3D
dygraph.Conv2DTranspose = dygraph.layers:Conv2DTranspose
dygraph.Conv3DTranspose = dygraph.layers:Conv3DTranspose
dygraph.Pool2D = dygraph.layers:Pool2D
dygraph.Dropout = dygraph.layers:Dropout
dygraph.GRUUnit = dygraph.layers:GRUUnit
dygraph.PRelu = dygraph.layers:PRelu
dygraph.BilinearTensorProduct = dygraph.layers:BilinearTensorProduct
dygraph.NCE = dygraph.layers:NCE
dygraph.SpectralNorm = dygraph.norms:SpectralNorm
dygraph.BatchNorm = dygraph.norms:BatchNorm
dygraph.LayerNorm = dygraph.norms:LayerNorm
dygraph.InstanceNorm = dygraph.norms:InstanceNorm
dygraph.GroupNorm = dygraph.norms:GroupNorm
dygraph.ParallelEnv = dygraph.parallel:ParallelEnv
dygraph.prepare_context = dygraph.parallel:prepare_context
dygraph.DataParallel = dygraph.parallel:DataParallel
dygraph.Env = dygraph.parallel:ParallelEnv
dygraph.LearningRateDecay = learning.dynamic_rates:LearningRateDecay
dygraph.PiecewiseDecay = learning.dynamic_rates:PiecewiseDecay
dygraph.NaturalExpDecay = learning.dynamic_rates:NaturalExpDecay
dygraph.ExponentialDecay = learning.dynamic_rates:ExponentialDecay
dygraph.InverseTimeDecay = learning.dynamic_rates:InverseTimeDecay
dygraph.PolynomialDecay = learning.dynamic_rates:PolynomialDecay
dygraph.CosineDecay = learning.dynamic_rates:CosineDecay
dygraph.NoamDecay = learning.dynamic_rates:NoamDecay
dygraph.LinearLrWarmup = learning.dynamic_rates:LinearLrWarmup
dygraph.ReduceLROnPlateau = learning.dynamic_rates:ReduceLROnPlateau
dygraph.StepDecay = learning.dynamic_rates:StepDecay
dygraph.MultiStepDecay = learning.dynamic_rates:MultiStepDecay
dygraph.LambdaDecay = learning.dynamic_rates:LambdaDecay
dygraph.save_dygraph = saving.state_files:save_dygraph
dygraph.load_dygraph = saving.state_files:load_dygraph
dygraph.declarative = dygraph.helpers:declarative
dygraph.to_static = dygraph.helpers:declarative
dygraph.jit.declarative = dygraph.helpers:declarative
dygraph.base.guard = dygraph.mode:guard
dygraph.base.no_grad = dygraph.mode:no_grad
dygraph.base.to_variable = record.dynamic:to_variable
dygraph.base.grad = dygraph.tensors:grad
dygraph.base.enabled = record.current:in_dygraph_mode
dygraph.layers.Layer = dygraph.layer:Layer
dygraph.container.Sequential = dygraph.containers:Sequential
dygraph.container.LayerList = dygraph.containers:LayerList
dygraph.container.ParameterList = dygraph.containers:ParameterList
dygraph.nn.Linear = dygraph.layers:Linear
dygraph.nn.Embedding = dygraph.layers:Embedding
dygraph.nn.Conv2D = dygraph.layers:Conv2D
dygraph.nn.Conv3D = dygraph.layers:Conv3D
dygraph.nn.Conv2DTranspose = dygraph.layers:Conv2DTranspose
dygraph.nn.Conv3DTranspose = dygraph.layers:Conv3DTranspose
dygraph.nn.Pool2D = dygraph.layers:Pool2D
dygraph.nn.Dropout = dygraph.layers:Dropout
dygraph.nn.GRUUnit = dygraph.layers:GRUUnit
dygraph.nn.PRelu = dygraph.layers:PRelu
dygraph.nn.BilinearTensorProduct = dygraph.layers:BilinearTensorProduct
dygraph.nn.NCE = dygraph.layers:NCE
dygraph.nn.SpectralNorm = dygraph.norms:SpectralNorm
dygraph.nn.BatchNorm = dygraph.norms:BatchNorm
dygraph.nn.LayerNorm = dygraph.norms:LayerNorm
dygraph.nn.InstanceNorm = dygraph.norms:InstanceNorm
dygraph.nn.GroupNorm = dygraph.norms:GroupNorm
dygraph.learning_rate_scheduler.LearningRateDecay = learning.dynamic_rates:LearningRateDecay
dygraph.learning_rate_scheduler.PiecewiseDecay = learning.dynamic_rates:PiecewiseDecay
dygraph.learning_rate_scheduler.NaturalExpDecay = learning.dynamic_rates:NaturalExpDecay
dygraph.learning_rate_scheduler.ExponentialDecay = learning.dynamic_rates:ExponentialDecay
dygraph.learning_rate_scheduler.InverseTimeDecay = learning.dynamic_rates:InverseTimeDecay
dygraph.learning_rate_scheduler.PolynomialDecay = learning.dynamic_rates:PolynomialDecay
dygraph.learning_rate_scheduler.CosineDecay = learning.dynamic_rates:CosineDecay
dygraph.learning_rate_scheduler.NoamDecay = learning.dynamic_rates:NoamDecay
dygraph.learning_rate_scheduler.LinearLrWarmup = learning.dynamic_rates:LinearLrWarmup
dygraph.learning_rate_scheduler.ReduceLROnPlateau = learning.dynamic_rates:ReduceLROnPlateau
dygraph.learning_rate_scheduler.StepDecay = learning.dynamic_rates:StepDecay
dygraph.learning_rate_scheduler.MultiStepDecay = learning.dynamic_rates:MultiStepDecay
dygraph.learning_rate_scheduler.LambdaDecay = learning.dynamic_rates:LambdaDecay
dygraph.parallel.ParallelEnv = dygraph.parallel:ParallelEnv
dygraph.parallel.prepare_context = dygraph.parallel:prepare_context
dygraph.parallel.DataParallel = dygraph.parallel:DataParallel
dygraph.parallel.ParallelStrategy = dygraph.parallel:ParallelStrategy
dygraph.parallel.Env = dygraph.parallel:ParallelEnv
dygraph.checkpoint.save_dygraph = saving.state_files:save_dygraph
dygraph.checkpoint.load_dygraph = saving.state_files:load_dygraph
dygraph.backward_strategy.BackwardStrategy = dygraph.tensors:BackwardStrategy
dygraph.layer_object_helper.LayerObjectHelper = dygraph.layer:LayerObjectHelper
dygraph.dygraph_utils._append_activation_in_dygraph = dygraph.helpers:append_activation
dygraph.dygraph_utils._append_bias_in_dygraph = dygraph.helpers:append_bias
dygraph_utils._append_activation_in_dygraph = dygraph.helpers:append_activation
dygraph_utils._append_bias_in_dygraph = dygraph.helpers:append_bias
Layer = dygraph.layer:Layer
save_dygraph = saving.state_files:save_dygraph
load_dygraph = saving.state_files:load_dygraph
framework._dygraph_tracer = dygraph.mode:dygraph_tracer
core.BackwardStrategy = dygraph.tensors:BackwardStrategy
core.VarBase = =paddle:Tensor
"""


DISTRIBUTED = """
DistributeTranspiler = distributed.transpiling:ProgramTranspiler
DistributeTranspilerConfig = distributed.strategies:TranspilerConfig
memory_optimize = distributed.transpiling:memory_optimize
release_memory = distributed.transpiling:release_memory
transpiler.DistributeTranspiler = distributed.transpiling:ProgramTranspiler
transpiler.DistributeTranspilerConfig = distributed.strategies:TranspilerConfig
transpiler.memory_optimize = distributed.transpiling:memory_optimize
transpiler.release_memory = distributed.transpiling:release_memory
transpiler.distribute_transpiler.DistributeTranspiler = distributed.transpiling:ProgramTranspiler
transpiler.distribute_transpiler.DistributeTranspilerConfig = distributed.strategies:TranspilerConfig
distribute_transpiler.distributed_strategy.StrategyFactory = distributed.strategies:StrategyFactory
incubate.fleet.base.role_maker.Role = distributed.role_makers:FluidRole
incubate.fleet.base.role_maker.RoleMakerBase = distributed.role_makers:FluidRoleMaker
incubate.fleet.base.role_maker.PaddleCloudRoleMaker = distributed.role_makers:CloudRoleMaker
incubate.fleet.base.role_maker.GeneralRoleMaker = distributed.role_makers:GeneralRoleMaker
incubate.fleet.base.role_maker.UserDefinedRoleMaker = distributed.role_makers:HandmadeRoleMaker
incubate.fleet.base.role_maker.UserDefinedCollectiveRoleMaker = distributed.role_makers:HandmadeCollectiveRoleMaker
incubate.fleet.base.role_maker.MPISymetricRoleMaker = distributed.role_makers:MpiRoleMaker
incubate.fleet.collective.fleet = distributed.collective_fleet:collective_fleet
incubate.fleet.collective.DistributedStrategy = distributed.collective_fleet:CollectiveStrategy
incubate.fleet.collective.CollectiveOptimizer = distributed.collective_fleet:CollectiveOptimizer
incubate.fleet.parameter_server.distribute_transpiler.fleet = distributed.server_fleet:transpiler_fleet
incubate.fleet.parameter_server.distribute_transpiler.DistributeTranspilerConfig = distributed.strategies:TranspilerConfig
incubate.fleet.parameter_server.distribute_transpiler.StrategyFactory = distributed.strategies:StrategyFactory
incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy.StrategyFactory = distributed.strategies:StrategyFactory
incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy.DistributedStrategy = distributed.strategies:ServerStrategy
incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy.TrainerRuntimeConfig = distributed.strategies:RuntimeConfig
incubate.fleet.parameter_server.pslib.fleet = distributed.server_fleet:pslib_fleet
contrib.reader.distributed_batch_reader = distributed.fleets:distributed_batch_reader
entry_attr.ProbabilityEntry = layers.entries:ProbabilityEntry
entry_attr.CountFilterEntry = layers.entries:CountFilterEntry
"""


def parsed(texts: tuple[str, ...]) -> dict[str, str]:
    """Where each name is."""
    rows = [line.partition(" = ") for text in texts for line in text.strip().splitlines()]
    return {name: place for name, _, place in rows}


NAMES = parsed((PROGRAMS, RUNNING, DATA, LEARNING, FILES, DYNAMIC, LAYERS, BESIDE, DISTRIBUTED))
"""All but the layers of one row."""

_SHARED = ("init", "is_first_worker", "is_worker", "is_server", "worker_index", "worker_num", "split_files", "main_program", "startup_program")  # fmt: skip
_OF_BOTH = ("distributed_optimizer", "save_persistables", "save_inference_model", "barrier_worker")
_OF_SERVERS = ("init_server", "run_server", "init_worker", "stop_worker")
METHODS = {
    "incubate.fleet.collective.fleet": (*_SHARED, *_OF_BOTH, "_origin_program"),
    "incubate.fleet.parameter_server.distribute_transpiler.fleet": (*_SHARED, *_OF_BOTH, *_OF_SERVERS),
    "incubate.fleet.parameter_server.pslib.fleet": (
        *_SHARED,
        *_OF_BOTH,
        *_OF_SERVERS,
        *("save_model", "shrink_sparse_table", "shrink_dense_table", "_set_client_communication_config"),
    ),
}
"""What the objects called `fleet` can be asked."""
