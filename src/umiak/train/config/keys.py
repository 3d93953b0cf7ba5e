"""Every key of a config in the layout of PaddleRec 1.8.5, one table per section: names, kinds, defaults, meanings. Values.

The reader, the errors' nearest words, the reference page and the tests are made from these rows. Names, kinds and defaults are
PaddleRec's; ``origin`` marks what came with its newer layout (`umiak.train.config.flat_keys`), and what is umiak's own.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.strategy_name import StrategyName
from umiak.schema import kinds
from umiak.schema.keys import Key, words
from umiak.schema.sections import UnknownKeys
from umiak.train.config.kinds import DAY, DENSE, DEVICES, SPARSE
from umiak.train.config.values import (
    DatasetType,
    Device,
    DivideBy,
    EmbeddingTables,
    FleetMode,
    NodeData,
    RunnerClass,
)


class Origin(Enum):
    """Where a key comes from that PaddleRec 1.8.5 did not have."""

    NEWER = "newer PaddleRec"
    UMIAK = "umiak"


UNKNOWN = UnknownKeys(
    why="it is passed on: a reader class or a model may ask for it with envs.get_global_env",  # PaddleRec's do
    page="docs/reference/config.md",
    short={"lr": "learning_rate", "rate": "learning_rate", "bs": "batch_size"},
)

OPEN = UnknownKeys(
    why="it is passed on to the model and its reader",
    page="docs/reference/config.md",
    short={},
    is_open=True,
)
"""Beside a model of PaddleRec 2: its code reads any key of any section."""

_PLACES = "It replaces a part of PaddleRec's own engine, which umiak does not have."
_SAVED = "-1: after every epoch."

GLOBAL = (
    Key(
        name="workspace",
        meaning="Base directory, relative to the current one, or a model of the zoo: `umiak.models.rank.dnn`, or "
        "`paddlerec.models.rank.dnn`. Replaces `{workspace}` in every text.",
        kind=kinds.PATH,
        required=True,
    ),
    Key(name="mode", meaning="Names of the runners to run, one after another.", kind=kinds.NAMES, required=True),
    Key(
        name="debug",
        meaning="Print the time of each part of every batch.",
        kind=kinds.TRUTH,
        default=False,
    ),
    Key(name="runner", meaning="How to run: [runners](#runner).", kind=kinds.SECTIONS, required=True),
    Key(name="phase", meaning="What to run: [phases](#phase).", kind=kinds.SECTIONS, required=True),
    Key(name="dataset", meaning="Data to run on: [datasets](#dataset).", kind=kinds.SECTIONS, required=True),
    Key(name="hyper_parameters", meaning="Hyper-parameters of the model.", kind=kinds.MAPPING),
    Key(
        name="table_parameters",
        origin=Origin.NEWER,
        meaning="Embedding tables whose rows count shows and clicks: [table parameters](#table-parameters).",
        kind=kinds.MAPPING,
    ),
    Key(
        name="embedding_tables",
        origin=Origin.UMIAK,
        meaning="`shared`: slots that the model looks up in one table share a row for equal ids. `per_slot`: each slot has its "
        "own table: [tables and slots](modeling.md#tables-and-slots).",
        kind=kinds.CHOICE,
        default="shared",
        choices=words(EmbeddingTables),
    ),
)

ONLINE_KEYS = (
    Key(name="start_day", origin=Origin.NEWER, meaning="First day.", kind=DAY),
    Key(name="end_day", origin=Origin.NEWER, meaning="Last day.", kind=DAY),
    Key(
        name="split_interval",
        origin=Origin.NEWER,
        meaning="Minutes of data per directory `YYYYMMDD/HHMM`; a divisor of 1440.",
        kind=kinds.WHOLE,
        default=60,
        least=1,
    ),
    Key(
        name="split_per_pass",
        origin=Origin.NEWER,
        meaning="Number of directories per pass.",
        kind=kinds.WHOLE,
        default=1,
        least=1,
    ),
    Key(
        name="data_donefile",
        origin=Origin.NEWER,
        meaning="File that marks a directory as complete; the trainer waits for it and does not read it. Without it there is "
        "no waiting, and a pass without data is an error.",
        kind=kinds.TEXT,
    ),
    Key(
        name="data_sleep_second",
        origin=Origin.NEWER,
        meaning="Seconds between checks for new data.",
        kind=kinds.WHOLE,
        default=10,
        least=1,
    ),
    Key(
        name="checkpoint_per_pass",
        origin=Origin.NEWER,
        meaning="Save a checkpoint every N passes, below `save_checkpoint_path`, and after the last pass.",
        kind=kinds.WHOLE,
        default=6,
        least=1,
    ),
    Key(
        name="save_delta_frequency",
        origin=Origin.NEWER,
        meaning="Save a delta model for inference every N passes, below `save_inference_path`; a day ends with a base model "
        "instead.",
        kind=kinds.WHOLE,
        default=6,
        least=1,
    ),
    Key(
        name="save_first_base",
        origin=Origin.NEWER,
        meaning="Save a base model before the first pass.",
        kind=kinds.TRUTH,
        default=False,
    ),
    Key(
        name="prefetch",
        origin=Origin.NEWER,
        meaning="Fetch the files of the next pass, if it is complete, while training on the current one.",
        kind=kinds.TRUTH,
        default=False,
    ),
)
ONLINE = tuple(key.name for key in ONLINE_KEYS)

RUNNER = (
    Key(name="name", meaning="Name, used in `mode`.", kind=kinds.NAME, required=True),
    Key(
        name="class",
        meaning="`train` and `infer`: one process; `local_cluster_train`: several processes on this machine; `cluster_train`: "
        "on a cluster; `online_learning`: by day and pass.",
        kind=kinds.CHOICE,
        default="train",
        choices=words(RunnerClass),
    ),
    Key(name="device", meaning="Device of the trainers.", kind=kinds.CHOICE, default="cpu", choices=words(Device)),
    Key(
        name="fleet_mode",
        meaning="Parameter servers (`ps`), or data parallel with all-reduce (`collective`).",
        kind=kinds.CHOICE,
        default_said="`ps`; with `local_cluster_train`, or several devices, on anything but the CPU: `collective`",
        choices=words(FleetMode),
        refused_words=(("pslib", "it is a library inside Baidu; `ps` does the same work with umiak's servers"),),
    ),
    Key(
        name="distribute_strategy",
        meaning="Update strategy of the parameter servers; `hybrid` is umiak's own.",
        kind=kinds.CHOICE,
        default="async",
        choices=words(StrategyName),
    ),
    Key(
        name="geo_step",
        origin=Origin.NEWER,
        meaning="With geo: number of batches between synchronizations.",
        kind=kinds.WHOLE,
        default=100,
        least=1,
    ),
    Key(
        name="selected_gpus",
        meaning='Device indices, as in `"0,1"`: one trainer per device.',
        kind=DEVICES,
    ),
    Key(
        name="worker_num",
        meaning="Number of trainers per node.",
        kind=kinds.WHOLE,
        default_said="1, or as many as `selected_gpus` names",
        least=1,
    ),
    Key(name="server_num", meaning="Number of parameter servers per node.", kind=kinds.WHOLE, default=1, least=1),
    Key(
        name="alone_allowed",
        meaning="With `cluster_train`: allow training in one process if there is no cluster.",
        kind=kinds.TRUTH,
        default=False,
        origin=Origin.UMIAK,
    ),
    Key(
        name="node_data",
        meaning="With `cluster_train`: every node sees all files of `data_path` (`shared`), or only its own part (`own`), "
        "divided among its trainers.",
        kind=kinds.CHOICE,
        default_said="`own` where `PADDLEREC_CLUSTER_TYPE` is `MPI`, else `shared`",
        choices=words(NodeData),
        origin=Origin.UMIAK,
    ),
    Key(
        name="epochs",
        meaning="Number of passes over the data. Required for training.",
        kind=kinds.WHOLE,
        default_said="`infer` and `online_learning`: 1",
        least=1,
    ),
    Key(
        name="phases",
        meaning="Phases to run in each epoch, in this order.",
        kind=kinds.NAMES,
        default_said="all, in the order of the file",
    ),
    Key(name="seed", origin=Origin.NEWER, meaning="Random seed.", kind=kinds.WHOLE, least=0),
    Key(
        name="shuffle",
        meaning="Shuffle the training data in each epoch: pieces of the files in random order, then samples in windows of this "
        "many ([shuffling](training-data.md#shuffling)). 0: samples come in the order of the files, as in PaddleRec.",
        kind=kinds.WHOLE,
        default=0,
        least=0,
        origin=Origin.UMIAK,
    ),
    Key(
        name="init_model_path",
        meaning="Checkpoint to start training from; `infer` evaluates every checkpoint in it.",
        kind=kinds.PATH,
    ),
    Key(
        name="infer_start_epoch",
        origin=Origin.NEWER,
        meaning="`infer`: first checkpoint to evaluate.",
        kind=kinds.WHOLE,
        default_said="all checkpoints",
        least=0,
    ),
    Key(
        name="infer_end_epoch",
        origin=Origin.NEWER,
        meaning="`infer`: end of the range of checkpoints to evaluate, exclusive.",
        kind=kinds.WHOLE,
        default_said="all checkpoints",
        least=1,
    ),
    Key(
        name="save_checkpoint_interval",
        meaning=f"Number of epochs between checkpoints. {_SAVED}",
        kind=kinds.WHOLE,
        default=-1,
        least=1,
        also=(-1,),
    ),
    Key(
        name="save_checkpoint_path",
        meaning="Directory or URL for checkpoints, saved as `PATH/EPOCH/`, counted from 0 as in PaddleRec (`epoch 1/2` on the "
        "screen is `PATH/0/`), or with `online_learning` as `PATH/DAY/PASS/`. The last epoch or pass is always saved.",
        kind=kinds.PATH,
        default_said="nothing is saved",
    ),
    Key(
        name="save_step_interval",
        meaning="Number of batches between checkpoints within an epoch. -1: none.",
        kind=kinds.WHOLE,
        default=-1,
        least=1,
        also=(-1,),
    ),
    Key(
        name="save_step_path",
        meaning="Directory for checkpoints within an epoch, saved as `PATH/epoch_E_batch_B/`, or with `online_learning` as "
        "`PATH/DAY/PASS_batch_B/`.",
        kind=kinds.PATH,
    ),
    Key(
        name="save_inference_interval",
        meaning=f"Number of epochs between inference models. {_SAVED}",
        kind=kinds.WHOLE,
        default=-1,
        least=1,
        also=(-1,),
    ),
    Key(
        name="save_inference_path",
        meaning="Directory for inference models, saved as `PATH/EPOCH/`, counted from 0; with `online_learning` [base and "
        "delta](train.md#online-learning).",
        kind=kinds.PATH,
    ),
    Key(
        name="save_inference_feed_varnames",
        meaning="Inputs of the inference models.",
        kind=kinds.NAMES,
        default_said="those that the model declares",
    ),
    Key(
        name="save_inference_fetch_varnames",
        meaning="Outputs of the inference models.",
        kind=kinds.NAMES,
        default_said="those that the model declares",
    ),
    Key(
        name="save_minutes_interval",
        meaning="Minutes between checkpoints, saved below `save_step_path`, or `save_checkpoint_path` without it. -1: none.",
        kind=kinds.WHOLE,
        default=-1,
        least=1,
        also=(-1,),
        origin=Origin.UMIAK,
    ),
    Key(
        name="keep_checkpoints",
        meaning="Number of latest checkpoints to keep.",
        kind=kinds.WHOLE,
        default_said="all of epochs, 3 of batches and minutes",
        least=1,
        origin=Origin.UMIAK,
    ),
    Key(
        name="evaluate_phase",
        meaning="Phase whose dataset is used for evaluation after every epoch.",
        kind=kinds.NAME,
        origin=Origin.UMIAK,
    ),
    Key(
        name="early_stop_patience",
        meaning="Stop training after this many epochs without improvement. Requires `evaluate_phase`.",
        kind=kinds.WHOLE,
        least=1,
        origin=Origin.UMIAK,
    ),
    Key(
        name="early_stop_metric",
        meaning="Metric to watch for early stopping: a metric of the model, or `loss`.",
        kind=kinds.NAME,
        default_said="`auc` if the model has it, else `loss`",
        origin=Origin.UMIAK,
    ),
    Key(
        name="amp",
        meaning="Use automatic mixed precision (bfloat16) on accelerators.",
        kind=kinds.TRUTH,
        default=False,
        origin=Origin.UMIAK,
    ),
    Key(
        name="print_interval",
        meaning="Number of batches of the first trainer between log lines, and between reports in `metrics.jsonl`.",
        kind=kinds.WHOLE,
        default=20,
        least=1,
    ),
    Key(name="runner_result_dump_path", meaning="File for the metrics of each batch, as JSON.", kind=kinds.PATH),
    *ONLINE_KEYS,
    Key(
        name="trainer_class",
        meaning="Only `GeneralTrainer` is supported.",
        kind=kinds.CHOICE,
        default="GeneralTrainer",
        choices=("GeneralTrainer",),
    ),
    *(
        Key(name=f"{stage}_class_path", meaning="", kind=kinds.PATH, refused=_PLACES)
        for stage in ("instance", "network", "startup", "runner", "terminal")
    ),
    Key(
        name="init_pretraining_model_path",
        meaning="",
        kind=kinds.PATH,
        refused="It belongs to PaddleRec's fine-tuning trainer; `init_model_path` starts from another model.",
    ),
    Key(
        name="finetuning_aspect_varnames",
        meaning="",
        kind=kinds.NAMES,
        refused="It belongs to PaddleRec's fine-tuning trainer; `init_model_path` starts from another model.",
    ),
)

PHASE = (
    Key(name="name", meaning="Name, used in `phases`.", kind=kinds.NAME, required=True),
    Key(name="model", meaning="Python file with the model.", kind=kinds.PATH, required=True),
    Key(name="dataset_name", meaning="Name of the dataset to run on.", kind=kinds.NAME, required=True),
    Key(
        name="thread_num",
        meaning="Number of threads for reading and for computing.",
        kind=kinds.WHOLE,
        default=1,
        least=1,
    ),
    Key(
        name="shuffle_filelist",
        meaning="Shuffle the order of files in each epoch.",
        kind=kinds.TRUTH,
        default=False,
    ),
    Key(
        name="gradient_scale_strategy",
        meaning="Gradients of a batch are 0: averaged, 1: summed, 2: left to the model.",
        kind=kinds.CHOICE,
        default=0,
        choices=("0", "1", "2"),
    ),
)

DATASET = (
    Key(name="name", meaning="Name, used in `dataset_name`.", kind=kinds.NAME, required=True),
    Key(
        name="type",
        meaning="Type of the reader. `DataLoader` and `QueueDataset` are read in the same way; `RecDataset`: the reader class "
        "opens the files itself, as PaddleRec 2's do (only for models of PaddleRec 2).",
        kind=kinds.CHOICE,
        default="DataLoader",
        choices=words(DatasetType),
    ),
    Key(
        name="batch_size", meaning="Number of samples per batch and trainer.", kind=kinds.WHOLE, required=True, least=1
    ),
    Key(
        name="data_path",
        meaning="Directory (read recursively), pattern such as `data/part-*`, or URL. `paddlerec::PATH` and `umiak::PATH` are "
        "relative to the installed package.",
        kind=kinds.PATH,
        required=True,
    ),
    Key(
        name="sparse_slots",
        meaning='Slots with any number of ids: `"click 1 2 3"`.',
        kind=SPARSE,
        default_said="none",
    ),
    Key(
        name="dense_slots",
        meaning='Slots with a fixed number of values: `"price:1 image:[8,8]"`.',
        kind=DENSE,
        default_said="none",
    ),
    Key(name="padding", meaning="Value for slots that are missing in a line.", kind=kinds.WHOLE, default=0),
    Key(
        name="data_converter",
        meaning="Python file of a custom reader class. Used if no slots are declared.",
        kind=kinds.PATH,
    ),
    Key(
        name="extra_slots_allowed",
        meaning="Accept lines with slots that are not declared.",
        kind=kinds.TRUTH,
        default=False,
        origin=Origin.UMIAK,
    ),
    Key(
        name="bad_lines",
        meaning="Maximum number of unreadable lines to skip per epoch.",
        kind=kinds.WHOLE,
        default=0,
        least=0,
        origin=Origin.UMIAK,
    ),
    Key(
        name="drop_last",
        meaning="With `type: RecDataset`: leave out a batch that is not full.",
        kind=kinds.TRUTH,
        default=False,
        origin=Origin.UMIAK,
    ),
    Key(
        name="divide_by",
        meaning="With `type: RecDataset`: trainers divide the data by whole `files`, where these make even shares, or each runs "
        "the reader on all files and takes every N-th batch of its `samples`.",
        kind=kinds.CHOICE,
        default="samples",
        choices=words(DivideBy),
        origin=Origin.UMIAK,
    ),
    Key(
        name="ready_batches",
        meaning="With `type: RecDataset`: the reader class gives whole batches, which are trained on as they are.",
        kind=kinds.TRUTH,
        default=False,
        origin=Origin.UMIAK,
    ),
    Key(name="reader_class_name", meaning="Name of the custom reader class.", kind=kinds.NAME, default="Reader"),
    Key(
        name="num_workers",
        origin=Origin.NEWER,
        meaning="Number of processes that run the reader class; 0: one per core, with `type: RecDataset` one.",
        kind=kinds.WHOLE,
        default=0,
        least=0,
    ),
)
