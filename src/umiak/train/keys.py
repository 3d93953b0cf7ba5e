"""Every key of a config in the layout of PaddleRec 1.8.5, one table per section: names, kinds, defaults, meanings. Values.

The reader, the errors' nearest words, the reference page and the tests are made from these rows. Names, kinds and defaults are
PaddleRec's; ``origin`` marks what came with its newer layout (`umiak.train.flat_keys`), and what is umiak's own.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.value import value
from umiak.train.config import (
    DatasetType,
    Device,
    EmbeddingTables,
    FleetMode,
    NodeData,
    RunnerClass,
    Strategy,
)


class Kind(Enum):
    """What stands after a key; the values are phrases for messages: ``must be ...``."""

    NAME = "a name"
    TEXT = "text"
    PATH = "a path"
    WHOLE = "an integer"
    NUMBER = "a number"
    TRUTH = "a boolean"
    CHOICE = "one of a few words"
    NAMES = "a name or a list of names"
    SPARSE = "slot names, separated by spaces"
    DENSE = "name:width, separated by spaces"
    DEVICES = 'comma-separated indices, as in "0,1"'
    DAY = "a date, as in 20260131"
    BOUNDS = "two numbers, as in [-10, 10]"
    MAPPING = "a mapping"
    SECTIONS = "a list of mappings, each with a name"


class Origin(Enum):
    """Where a key comes from."""

    PADDLEREC = "PaddleRec 1.8.5"
    NEWER = "newer PaddleRec"
    UMIAK = "umiak"


@value
class Key:
    """One key."""

    name: str
    meaning: str
    kind: Kind = Kind.TEXT
    default: str | int | bool | None = None
    default_said: str = ""
    """The default in words, where it depends on something."""
    required: bool = False
    choices: tuple[str, ...] = ()
    synonyms: tuple[tuple[str, str], ...] = ()
    """Other words for a choice."""
    refused_words: tuple[tuple[str, str], ...] = ()
    """Words that PaddleRec knew and that can't be obeyed, with the reason."""
    least: int | None = None
    also: tuple[int, ...] = ()
    """Smaller numbers that are understood as well."""
    refused: str = ""
    """Why a known key can't be obeyed: an error."""
    ignored: str = ""
    """Why a known key has no effect: a warning, if it asks for something."""
    settled: str = ""
    """Why a known key need not be said: what it asks for is done anyway."""
    origin: Origin = Origin.PADDLEREC


def words(kind: type[Enum]) -> tuple[str, ...]:
    """The words of a closed set, for ``choices``."""
    return tuple(str(member.value) for member in kind)


_PLACES = "It replaces a part of PaddleRec's own engine, which umiak does not have."
_SAVED = "-1: after every epoch."

GLOBAL = (
    Key(
        name="workspace",
        meaning="Base directory, relative to the current one, or a model of the zoo: `umiak.models.rank.dnn`, or "
        "`paddlerec.models.rank.dnn`. Replaces `{workspace}` in every text.",
        kind=Kind.PATH,
        required=True,
    ),
    Key(name="mode", meaning="Names of the runners to run, one after another.", kind=Kind.NAMES, required=True),
    Key(
        name="debug",
        meaning="Print the time of each part of every batch.",
        kind=Kind.TRUTH,
        default=False,
    ),
    Key(name="runner", meaning="How to run: [runners](#runner).", kind=Kind.SECTIONS, required=True),
    Key(name="phase", meaning="What to run: [phases](#phase).", kind=Kind.SECTIONS, required=True),
    Key(name="dataset", meaning="Data to run on: [datasets](#dataset).", kind=Kind.SECTIONS, required=True),
    Key(name="hyper_parameters", meaning="Hyper-parameters of the model.", kind=Kind.MAPPING),
    Key(
        name="table_parameters",
        origin=Origin.NEWER,
        meaning="Embedding tables whose rows count shows and clicks: [table parameters](#table-parameters).",
        kind=Kind.MAPPING,
    ),
    Key(
        name="embedding_tables",
        origin=Origin.UMIAK,
        meaning="`shared`: slots that the model looks up in one table share a row for equal ids. `per_slot`: each slot has its "
        "own table: [tables and slots](modeling.md#tables-and-slots).",
        kind=Kind.CHOICE,
        default="shared",
        choices=words(EmbeddingTables),
    ),
)

ONLINE_KEYS = (
    Key(name="start_day", origin=Origin.NEWER, meaning="First day.", kind=Kind.DAY),
    Key(name="end_day", origin=Origin.NEWER, meaning="Last day.", kind=Kind.DAY),
    Key(
        name="split_interval",
        origin=Origin.NEWER,
        meaning="Minutes of data per directory `YYYYMMDD/HHMM`; a divisor of 1440.",
        kind=Kind.WHOLE,
        default=60,
        least=1,
    ),
    Key(
        name="split_per_pass",
        origin=Origin.NEWER,
        meaning="Number of directories per pass.",
        kind=Kind.WHOLE,
        default=1,
        least=1,
    ),
    Key(
        name="data_donefile",
        origin=Origin.NEWER,
        meaning="File that marks a directory as complete; the trainer waits for it and does not read it. Without it there is "
        "no waiting, and a pass without data is an error.",
        kind=Kind.TEXT,
    ),
    Key(
        name="data_sleep_second",
        origin=Origin.NEWER,
        meaning="Seconds between checks for new data.",
        kind=Kind.WHOLE,
        default=10,
        least=1,
    ),
    Key(
        name="checkpoint_per_pass",
        origin=Origin.NEWER,
        meaning="Save a checkpoint every N passes, below `save_checkpoint_path`, and after the last pass.",
        kind=Kind.WHOLE,
        default=6,
        least=1,
    ),
    Key(
        name="save_delta_frequency",
        origin=Origin.NEWER,
        meaning="Save a delta model for inference every N passes, below `save_inference_path`; a day ends with a base model "
        "instead.",
        kind=Kind.WHOLE,
        default=6,
        least=1,
    ),
    Key(
        name="save_first_base",
        origin=Origin.NEWER,
        meaning="Save a base model before the first pass.",
        kind=Kind.TRUTH,
        default=False,
    ),
    Key(
        name="prefetch",
        origin=Origin.NEWER,
        meaning="Fetch the files of the next pass, if it is complete, while training on the current one.",
        kind=Kind.TRUTH,
        default=False,
    ),
)
ONLINE = tuple(key.name for key in ONLINE_KEYS)

RUNNER = (
    Key(name="name", meaning="Name, used in `mode`.", kind=Kind.NAME, required=True),
    Key(
        name="class",
        meaning="`train` and `infer`: one process; `local_cluster_train`: several processes on this machine; `cluster_train`: "
        "on a cluster; `online_learning`: by day and pass.",
        kind=Kind.CHOICE,
        default="train",
        choices=words(RunnerClass),
    ),
    Key(name="device", meaning="Device of the trainers.", kind=Kind.CHOICE, default="cpu", choices=words(Device)),
    Key(
        name="fleet_mode",
        meaning="Parameter servers (`ps`), or data parallel with all-reduce (`collective`).",
        kind=Kind.CHOICE,
        default_said="`ps`; with `local_cluster_train`, or several devices, on anything but the CPU: `collective`",
        choices=words(FleetMode),
        refused_words=(("pslib", "it is a library inside Baidu; `ps` does the same work with umiak's servers"),),
    ),
    Key(
        name="distribute_strategy",
        meaning="Update strategy of the parameter servers; `hybrid` is umiak's own.",
        kind=Kind.CHOICE,
        default="async",
        choices=words(Strategy),
    ),
    Key(
        name="geo_step",
        origin=Origin.NEWER,
        meaning="With geo: number of batches between synchronizations.",
        kind=Kind.WHOLE,
        default=100,
        least=1,
    ),
    Key(
        name="selected_gpus",
        meaning='Device indices, as in `"0,1"`: one trainer per device.',
        kind=Kind.DEVICES,
    ),
    Key(
        name="worker_num",
        meaning="Number of trainers per node.",
        kind=Kind.WHOLE,
        default_said="1, or as many as `selected_gpus` names",
        least=1,
    ),
    Key(name="server_num", meaning="Number of parameter servers per node.", kind=Kind.WHOLE, default=1, least=1),
    Key(
        name="alone_allowed",
        meaning="With `cluster_train`: allow training in one process if there is no cluster.",
        kind=Kind.TRUTH,
        default=False,
        origin=Origin.UMIAK,
    ),
    Key(
        name="node_data",
        meaning="With `cluster_train`: every node sees all files of `data_path` (`shared`), or only its own part (`own`), "
        "divided among its trainers.",
        kind=Kind.CHOICE,
        default_said="`own` where `PADDLEREC_CLUSTER_TYPE` is `MPI`, else `shared`",
        choices=words(NodeData),
        origin=Origin.UMIAK,
    ),
    Key(
        name="epochs",
        meaning="Number of passes over the data. Required for training.",
        kind=Kind.WHOLE,
        default_said="`infer` and `online_learning`: 1",
        least=1,
    ),
    Key(
        name="phases",
        meaning="Phases to run in each epoch, in this order.",
        kind=Kind.NAMES,
        default_said="all, in the order of the file",
    ),
    Key(name="seed", origin=Origin.NEWER, meaning="Random seed.", kind=Kind.WHOLE, least=0),
    Key(
        name="init_model_path",
        meaning="Checkpoint to start training from; `infer` evaluates every checkpoint in it.",
        kind=Kind.PATH,
    ),
    Key(
        name="infer_start_epoch",
        origin=Origin.NEWER,
        meaning="`infer`: first checkpoint to evaluate.",
        kind=Kind.WHOLE,
        default_said="all checkpoints",
        least=0,
    ),
    Key(
        name="infer_end_epoch",
        origin=Origin.NEWER,
        meaning="`infer`: end of the range of checkpoints to evaluate, exclusive.",
        kind=Kind.WHOLE,
        default_said="all checkpoints",
        least=1,
    ),
    Key(
        name="save_checkpoint_interval",
        meaning=f"Number of epochs between checkpoints. {_SAVED}",
        kind=Kind.WHOLE,
        default=-1,
        least=1,
        also=(-1,),
    ),
    Key(
        name="save_checkpoint_path",
        meaning="Directory or URL for checkpoints, saved as `PATH/EPOCH/`, counted from 0 as in PaddleRec (`epoch 1/2` on the "
        "screen is `PATH/0/`), or with `online_learning` as `PATH/DAY/PASS/`. The last epoch or pass is always saved.",
        kind=Kind.PATH,
        default_said="nothing is saved",
    ),
    Key(
        name="save_step_interval",
        meaning="Number of batches between checkpoints within an epoch. -1: none.",
        kind=Kind.WHOLE,
        default=-1,
        least=1,
        also=(-1,),
    ),
    Key(
        name="save_step_path",
        meaning="Directory for checkpoints within an epoch, saved as `PATH/epoch_E_batch_B/`, or with `online_learning` as "
        "`PATH/DAY/PASS_batch_B/`.",
        kind=Kind.PATH,
    ),
    Key(
        name="save_inference_interval",
        meaning=f"Number of epochs between inference models. {_SAVED}",
        kind=Kind.WHOLE,
        default=-1,
        least=1,
        also=(-1,),
    ),
    Key(
        name="save_inference_path",
        meaning="Directory for inference models, saved as `PATH/EPOCH/`, counted from 0; with `online_learning` [base and "
        "delta](train.md#online-learning).",
        kind=Kind.PATH,
    ),
    Key(
        name="save_inference_feed_varnames",
        meaning="Inputs of the inference models.",
        kind=Kind.NAMES,
        default_said="those that the model declares",
    ),
    Key(
        name="save_inference_fetch_varnames",
        meaning="Outputs of the inference models.",
        kind=Kind.NAMES,
        default_said="those that the model declares",
    ),
    Key(
        name="save_minutes_interval",
        meaning="Minutes between checkpoints, saved below `save_step_path`, or `save_checkpoint_path` without it. -1: none.",
        kind=Kind.WHOLE,
        default=-1,
        least=1,
        also=(-1,),
        origin=Origin.UMIAK,
    ),
    Key(
        name="keep_checkpoints",
        meaning="Number of latest checkpoints to keep.",
        kind=Kind.WHOLE,
        default_said="all of epochs, 3 of batches and minutes",
        least=1,
        origin=Origin.UMIAK,
    ),
    Key(
        name="evaluate_phase",
        meaning="Phase whose dataset is used for evaluation after every epoch.",
        kind=Kind.NAME,
        origin=Origin.UMIAK,
    ),
    Key(
        name="early_stop_patience",
        meaning="Stop training after this many epochs without improvement. Requires `evaluate_phase`.",
        kind=Kind.WHOLE,
        least=1,
        origin=Origin.UMIAK,
    ),
    Key(
        name="early_stop_metric",
        meaning="Metric to watch for early stopping: a metric of the model, or `loss`.",
        kind=Kind.NAME,
        default_said="`auc` if the model has it, else `loss`",
        origin=Origin.UMIAK,
    ),
    Key(
        name="amp",
        meaning="Use automatic mixed precision (bfloat16) on accelerators.",
        kind=Kind.TRUTH,
        default=False,
        origin=Origin.UMIAK,
    ),
    Key(
        name="print_interval",
        meaning="Number of batches of the first trainer between log lines, and between reports in `metrics.jsonl`.",
        kind=Kind.WHOLE,
        default=20,
        least=1,
    ),
    Key(name="runner_result_dump_path", meaning="File for the metrics of each batch, as JSON.", kind=Kind.PATH),
    *ONLINE_KEYS,
    Key(
        name="trainer_class",
        meaning="Only `GeneralTrainer` is supported.",
        kind=Kind.CHOICE,
        default="GeneralTrainer",
        choices=("GeneralTrainer",),
    ),
    *(
        Key(name=f"{stage}_class_path", meaning="", kind=Kind.PATH, refused=_PLACES)
        for stage in ("instance", "network", "startup", "runner", "terminal")
    ),
    Key(
        name="init_pretraining_model_path",
        meaning="",
        kind=Kind.PATH,
        refused="It belongs to PaddleRec's fine-tuning trainer; `init_model_path` starts from another model.",
    ),
    Key(
        name="finetuning_aspect_varnames",
        meaning="",
        kind=Kind.NAMES,
        refused="It belongs to PaddleRec's fine-tuning trainer; `init_model_path` starts from another model.",
    ),
)

PHASE = (
    Key(name="name", meaning="Name, used in `phases`.", kind=Kind.NAME, required=True),
    Key(name="model", meaning="Python file with the model.", kind=Kind.PATH, required=True),
    Key(name="dataset_name", meaning="Name of the dataset to run on.", kind=Kind.NAME, required=True),
    Key(
        name="thread_num",
        meaning="Number of threads for reading and for computing.",
        kind=Kind.WHOLE,
        default=1,
        least=1,
    ),
    Key(
        name="shuffle_filelist",
        meaning="Shuffle the order of files in each epoch.",
        kind=Kind.TRUTH,
        default=False,
    ),
    Key(
        name="gradient_scale_strategy",
        meaning="Gradients of a batch are 0: averaged, 1: summed, 2: left to the model.",
        kind=Kind.CHOICE,
        default=0,
        choices=("0", "1", "2"),
    ),
)

DATASET = (
    Key(name="name", meaning="Name, used in `dataset_name`.", kind=Kind.NAME, required=True),
    Key(
        name="type",
        meaning="Type of the reader. Both are read in the same way.",
        kind=Kind.CHOICE,
        default="DataLoader",
        choices=words(DatasetType),
    ),
    Key(name="batch_size", meaning="Number of samples per batch and trainer.", kind=Kind.WHOLE, required=True, least=1),
    Key(
        name="data_path",
        meaning="Directory (read recursively), pattern such as `data/part-*`, or URL. `paddlerec::PATH` and `umiak::PATH` are "
        "relative to the installed package.",
        kind=Kind.PATH,
        required=True,
    ),
    Key(
        name="sparse_slots",
        meaning='Slots with any number of ids: `"click 1 2 3"`.',
        kind=Kind.SPARSE,
        default_said="none",
    ),
    Key(
        name="dense_slots",
        meaning='Slots with a fixed number of values: `"price:1 image:[8,8]"`.',
        kind=Kind.DENSE,
        default_said="none",
    ),
    Key(name="padding", meaning="Value for slots that are missing in a line.", kind=Kind.WHOLE, default=0),
    Key(
        name="data_converter",
        meaning="Python file of a custom reader class. Used if no slots are declared.",
        kind=Kind.PATH,
    ),
    Key(
        name="extra_slots_allowed",
        meaning="Accept lines with slots that are not declared.",
        kind=Kind.TRUTH,
        default=False,
        origin=Origin.UMIAK,
    ),
    Key(
        name="bad_lines",
        meaning="Maximum number of unreadable lines to skip per epoch.",
        kind=Kind.WHOLE,
        default=0,
        least=0,
        origin=Origin.UMIAK,
    ),
    Key(name="reader_class_name", meaning="Name of the custom reader class.", kind=Kind.NAME, default="Reader"),
    Key(
        name="num_workers",
        origin=Origin.NEWER,
        meaning="Number of processes that run the reader class; 0: one per core.",
        kind=Kind.WHOLE,
        default=0,
        least=0,
    ),
)


def known(key: Key) -> bool:
    """Whether a key is obeyed: the others are not suggested."""
    return not (key.refused or key.ignored or key.settled)
