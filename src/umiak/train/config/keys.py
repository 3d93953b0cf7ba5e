"""Every key of a config in the layout of PaddleRec 1.8.5, one table per section: names, kinds, defaults, meanings. Values.

The reader, the errors' nearest words, the reference page and the tests are made from these rows. Names, kinds and defaults are
PaddleRec's; ``origin`` marks what came with its newer layout (`umiak.train.config.flat_keys`), and what is umiak's own.
"""

from __future__ import annotations

from enum import Enum

from umiak.schema import kinds
from umiak.schema.keys import Key, words
from umiak.schema.sections import UnknownKeys
from umiak.train.config.kinds import DAY, DENSE, DEVICES, SPARSE
from umiak.train.config.values import (
    DatasetType,
    Device,
    EmbeddingTables,
    FleetMode,
    NodeData,
    RunnerClass,
    Strategy,
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

_PLACES = "It replaces a part of PaddleRec's own engine, which is not here."
_SAVED = "-1: after every epoch."

GLOBAL = (
    Key(
        name="workspace",
        meaning="A directory, from the current one, or a model that comes with umiak: `umiak.models.rank.dnn`, or with "
        "`paddlerec` in front. `{workspace}` stands for it in every text.",
        kind=kinds.PATH,
        required=True,
    ),
    Key(name="mode", meaning="The runners to run, one after another.", kind=kinds.NAMES, required=True),
    Key(
        name="debug",
        meaning="Whether every batch tells where its time went.",
        kind=kinds.TRUTH,
        default=False,
    ),
    Key(name="runner", meaning="How to run: [runners](#runner).", kind=kinds.SECTIONS, required=True),
    Key(name="phase", meaning="What to run: [phases](#phase).", kind=kinds.SECTIONS, required=True),
    Key(name="dataset", meaning="On what: [datasets](#dataset).", kind=kinds.SECTIONS, required=True),
    Key(name="hyper_parameters", meaning="Whatever the model reads.", kind=kinds.MAPPING),
    Key(
        name="table_parameters",
        origin=Origin.NEWER,
        meaning="Embedding tables whose rows count shows and clicks: [table parameters](#table-parameters).",
        kind=kinds.MAPPING,
    ),
    Key(
        name="embedding_tables",
        origin=Origin.UMIAK,
        meaning="`shared`: equal ids of slots that the model looks up in one table are one row. `per_slot`: each slot has a "
        "table of its own: [tables and slots](modeling.md#tables-and-slots).",
        kind=kinds.CHOICE,
        default="shared",
        choices=words(EmbeddingTables),
    ),
)

ONLINE_KEYS = (
    Key(name="start_day", origin=Origin.NEWER, meaning="The first day.", kind=DAY),
    Key(name="end_day", origin=Origin.NEWER, meaning="The last day.", kind=DAY),
    Key(
        name="split_interval",
        origin=Origin.NEWER,
        meaning="Minutes of data in one directory `YYYYMMDD/HHMM`; a divisor of a day's 1440.",
        kind=kinds.WHOLE,
        default=60,
        least=1,
    ),
    Key(
        name="split_per_pass",
        origin=Origin.NEWER,
        meaning="Directories in one pass.",
        kind=kinds.WHOLE,
        default=1,
        least=1,
    ),
    Key(
        name="data_donefile",
        origin=Origin.NEWER,
        meaning="A file that says that its directory is complete: it is waited for, and not read. Without it nobody waits, and "
        "a pass without data is an error.",
        kind=kinds.TEXT,
    ),
    Key(
        name="data_sleep_second",
        origin=Origin.NEWER,
        meaning="Seconds between two looks.",
        kind=kinds.WHOLE,
        default=10,
        least=1,
    ),
    Key(
        name="checkpoint_per_pass",
        origin=Origin.NEWER,
        meaning="A checkpoint after so many passes, below `save_checkpoint_path`; the last pass always has one.",
        kind=kinds.WHOLE,
        default=6,
        least=1,
    ),
    Key(
        name="save_delta_frequency",
        origin=Origin.NEWER,
        meaning="A delta for serving after so many passes, below `save_inference_path`; a day ends with a base instead.",
        kind=kinds.WHOLE,
        default=6,
        least=1,
    ),
    Key(
        name="save_first_base",
        origin=Origin.NEWER,
        meaning="Whether a base model is saved before the first pass.",
        kind=kinds.TRUTH,
        default=False,
    ),
    Key(
        name="prefetch",
        origin=Origin.NEWER,
        meaning="Whether the files of the next pass, if it is complete, are fetched while one is trained.",
        kind=kinds.TRUTH,
        default=False,
    ),
)
ONLINE = tuple(key.name for key in ONLINE_KEYS)

RUNNER = (
    Key(name="name", meaning="What `mode` calls it.", kind=kinds.NAME, required=True),
    Key(
        name="class",
        meaning="`train` and `infer` in one process, `local_cluster_train` in several on this machine, `cluster_train` on a "
        "cluster, `online_learning` by day and pass.",
        kind=kinds.CHOICE,
        default="train",
        choices=words(RunnerClass),
    ),
    Key(name="device", meaning="What trainers compute on.", kind=kinds.CHOICE, default="cpu", choices=words(Device)),
    Key(
        name="fleet_mode",
        meaning="How several trainers work together: with parameter servers, or collectively.",
        kind=kinds.CHOICE,
        default_said="`ps`; with `local_cluster_train`, or several devices, on anything but the CPU: `collective`",
        choices=words(FleetMode),
        refused_words=(("pslib", "it is a library inside Baidu; `ps` does the same work with umiak's servers"),),
    ),
    Key(
        name="distribute_strategy",
        meaning="How trainers and parameter servers work together; `hybrid` is umiak's own.",
        kind=kinds.CHOICE,
        default="async",
        choices=words(Strategy),
    ),
    Key(
        name="geo_step",
        origin=Origin.NEWER,
        meaning="With geo: batches between two exchanges.",
        kind=kinds.WHOLE,
        default=100,
        least=1,
    ),
    Key(
        name="selected_gpus",
        meaning='Numbers of devices, as in `"0,1"`: one trainer for each.',
        kind=DEVICES,
    ),
    Key(
        name="worker_num",
        meaning="Trainers on each node.",
        kind=kinds.WHOLE,
        default_said="1, or as many as `selected_gpus` names",
        least=1,
    ),
    Key(name="server_num", meaning="Parameter servers on each node.", kind=kinds.WHOLE, default=1, least=1),
    Key(
        name="alone_allowed",
        meaning="With `cluster_train`: whether one process may do it where there is no cluster.",
        kind=kinds.TRUTH,
        default=False,
        origin=Origin.UMIAK,
    ),
    Key(
        name="node_data",
        meaning="With `cluster_train`: whether every node sees all files of `data_path` (`shared`), or has its own part of them "
        "(`own`), which its trainers divide among themselves.",
        kind=kinds.CHOICE,
        default_said="`own` where `PADDLEREC_CLUSTER_TYPE` is `MPI`, else `shared`",
        choices=words(NodeData),
        origin=Origin.UMIAK,
    ),
    Key(
        name="epochs",
        meaning="How often the data is gone through. Needed for training.",
        kind=kinds.WHOLE,
        default_said="`infer` and `online_learning`: 1",
        least=1,
    ),
    Key(
        name="phases",
        meaning="The phases to run in each epoch, in this order.",
        kind=kinds.NAMES,
        default_said="all, in the order of the file",
    ),
    Key(name="seed", origin=Origin.NEWER, meaning="Of everything that is random.", kind=kinds.WHOLE, least=0),
    Key(
        name="init_model_path",
        meaning="Training goes on from there; `infer` evaluates every checkpoint that is there.",
        kind=kinds.PATH,
    ),
    Key(
        name="infer_start_epoch",
        origin=Origin.NEWER,
        meaning="`infer`: the first checkpoint that is evaluated.",
        kind=kinds.WHOLE,
        default_said="all are evaluated",
        least=0,
    ),
    Key(
        name="infer_end_epoch",
        origin=Origin.NEWER,
        meaning="`infer`: the first one that is not evaluated any more.",
        kind=kinds.WHOLE,
        default_said="all are evaluated",
        least=1,
    ),
    Key(
        name="save_checkpoint_interval",
        meaning=f"Epochs between two checkpoints. {_SAVED}",
        kind=kinds.WHOLE,
        default=-1,
        least=1,
        also=(-1,),
    ),
    Key(
        name="save_checkpoint_path",
        meaning="Where checkpoints are saved, as `PATH/EPOCH/`, counted from 0 as PaddleRec does (`epoch 1/2` on the screen is `PATH/0/`), or with `online_learning` as `PATH/DAY/PASS/`; the last one always is. A directory, or a URL.",
        kind=kinds.PATH,
        default_said="nothing is saved",
    ),
    Key(
        name="save_step_interval",
        meaning="Batches between two checkpoints within an epoch. -1: none.",
        kind=kinds.WHOLE,
        default=-1,
        least=1,
        also=(-1,),
    ),
    Key(
        name="save_step_path",
        meaning="Where these are saved, as `PATH/epoch_E_batch_B/`, or with `online_learning` as `PATH/DAY/PASS_batch_B/`.",
        kind=kinds.PATH,
    ),
    Key(
        name="save_inference_interval",
        meaning=f"Epochs between two models for serving. {_SAVED}",
        kind=kinds.WHOLE,
        default=-1,
        least=1,
        also=(-1,),
    ),
    Key(
        name="save_inference_path",
        meaning="Where these are saved, as `PATH/EPOCH/`, counted from 0; with `online_learning` [base and delta](train.md#online-learning).",
        kind=kinds.PATH,
    ),
    Key(
        name="save_inference_feed_varnames",
        meaning="Inputs of these models.",
        kind=kinds.NAMES,
        default_said="those that the model declares",
    ),
    Key(
        name="save_inference_fetch_varnames",
        meaning="Their outputs.",
        kind=kinds.NAMES,
        default_said="those that the model declares",
    ),
    Key(
        name="save_minutes_interval",
        meaning="Minutes between two checkpoints, wherever training is; they go where those of batches go, or those of epochs.",
        kind=kinds.WHOLE,
        default=-1,
        least=1,
        also=(-1,),
        origin=Origin.UMIAK,
    ),
    Key(
        name="keep_checkpoints",
        meaning="How many checkpoints are kept, the newest.",
        kind=kinds.WHOLE,
        default_said="all of epochs, 3 of batches and minutes",
        least=1,
        origin=Origin.UMIAK,
    ),
    Key(
        name="evaluate_phase",
        meaning="A phase on whose dataset the model is evaluated after every epoch.",
        kind=kinds.NAME,
        origin=Origin.UMIAK,
    ),
    Key(
        name="early_stop_patience",
        meaning="Training ends when so many epochs in a row were no better. Needs `evaluate_phase`.",
        kind=kinds.WHOLE,
        least=1,
        origin=Origin.UMIAK,
    ),
    Key(
        name="early_stop_metric",
        meaning="What better means: a metric of the model, or `loss`.",
        kind=kinds.NAME,
        default_said="`auc` if the model has it, else `loss`",
        origin=Origin.UMIAK,
    ),
    Key(
        name="amp",
        meaning="Whether accelerators compute in bfloat16 where that is safe.",
        kind=kinds.TRUTH,
        default=False,
        origin=Origin.UMIAK,
    ),
    Key(
        name="print_interval",
        meaning="Batches of the first trainer between two lines, and two reports in `metrics.jsonl`.",
        kind=kinds.WHOLE,
        default=20,
        least=1,
    ),
    Key(name="runner_result_dump_path", meaning="A file for the metrics of each batch, as JSON.", kind=kinds.PATH),
    *ONLINE_KEYS,
    Key(
        name="trainer_class",
        meaning="Only `GeneralTrainer` is understood.",
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
    Key(name="name", meaning="What `phases` calls it.", kind=kinds.NAME, required=True),
    Key(name="model", meaning="The Python file that has the model.", kind=kinds.PATH, required=True),
    Key(name="dataset_name", meaning="The dataset that it is run on.", kind=kinds.NAME, required=True),
    Key(name="thread_num", meaning="Threads that read, and that compute.", kind=kinds.WHOLE, default=1, least=1),
    Key(
        name="shuffle_filelist",
        meaning="Whether files are read in another order in each epoch.",
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
    Key(name="name", meaning="What `dataset_name` calls it.", kind=kinds.NAME, required=True),
    Key(
        name="type",
        meaning="Both read in the same way here.",
        kind=kinds.CHOICE,
        default="DataLoader",
        choices=words(DatasetType),
    ),
    Key(name="batch_size", meaning="Samples in a batch of one trainer.", kind=kinds.WHOLE, required=True, least=1),
    Key(
        name="data_path",
        meaning="A directory with all that is below it, a pattern such as `data/part-*`, or a URL. `paddlerec::PATH` and "
        "`umiak::PATH` are relative to the installed package.",
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
    Key(name="padding", meaning="What a slot gets that a line does not have.", kind=kinds.WHOLE, default=0),
    Key(
        name="data_converter",
        meaning="The Python file of a reader class of your own. It is used where no slots are declared.",
        kind=kinds.PATH,
    ),
    Key(
        name="extra_slots_allowed",
        meaning="Whether lines may always have slots that are not declared.",
        kind=kinds.TRUTH,
        default=False,
        origin=Origin.UMIAK,
    ),
    Key(
        name="bad_lines",
        meaning="So many lines of an epoch may be left out because they can't be read.",
        kind=kinds.WHOLE,
        default=0,
        least=0,
        origin=Origin.UMIAK,
    ),
    Key(name="reader_class_name", meaning="The name of that class.", kind=kinds.NAME, default="Reader"),
    Key(
        name="num_workers",
        origin=Origin.NEWER,
        meaning="Processes that run that class; 0: as many as there are cores.",
        kind=kinds.WHOLE,
        default=0,
        least=0,
    ),
)
