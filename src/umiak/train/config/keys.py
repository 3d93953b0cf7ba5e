"""Every key of a config in the layout of PaddleRec 1.8.5, one table per section: names, kinds, defaults, meanings. Values.

The reader, the errors' nearest words, the reference page and the tests are made from these rows. Names, kinds and defaults are
PaddleRec's; ``origin`` marks what came with its newer layout (`umiak.train.config.flat_keys`), and what is umiak's own.
"""

from __future__ import annotations

from umiak.core.cluster import StrategyName
from umiak.schema import kinds
from umiak.schema.keys import words
from umiak.schema.sections import UnknownKeys
from umiak.schema.settings import table
from umiak.train.config.kinds import DEVICES, newer, ours, row
from umiak.train.config.streams.settings import DATASET_KEY
from umiak.train.config.values import (
    Dataset,
    Device,
    EmbeddingTables,
    FleetMode,
    NodeData,
    Online,
    Phase,
    Runner,
    RunnerClass,
    Wire,
)

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
    row(
        "workspace",
        kinds.PATH,
        "Base directory, relative to the current one, or a model of the zoo: `umiak.models.rank.dnn`, or "
        "`paddlerec.models.rank.dnn`. Replaces `{workspace}` in every text.",
        required=True,
    ),
    row("mode", kinds.NAMES, "Names of the runners to run, one after another.", required=True),
    row("debug", kinds.TRUTH, "Print the time of each part of every batch.", default=False),
    row("runner", kinds.SECTIONS, "How to run: [runners](#runner).", required=True),
    row("phase", kinds.SECTIONS, "What to run: [phases](#phase).", required=True),
    row("dataset", kinds.SECTIONS, "Data to run on: [datasets](#dataset).", required=True),
    row("hyper_parameters", kinds.MAPPING, "Hyper-parameters of the model."),
    ours(
        "features",
        kinds.MAPPING,
        "How rows of tables become samples, for every dataset without slots and without a reader class: [features](features.md).",
    ),
    newer(
        "table_parameters",
        kinds.MAPPING,
        "Embedding tables whose rows count shows and clicks: [table parameters](#table-parameters).",
    ),
    ours(
        "evaluation",
        kinds.MAPPING,
        "What evaluations measure besides the model's own metrics: [evaluation](#evaluation).",
    ),
    ours(
        "objective",
        kinds.MAPPING,
        "What training makes small besides the model's own loss: weights of classes, decay and dropout of embeddings: [objective](#objective).",
    ),
    ours(
        "retrieval",
        kinds.MAPPING,
        "A catalogue of items, of which negatives are drawn, and in which evaluations look for what was chosen: [retrieval](#retrieval).",
    ),
    ours(
        "embedding_tables",
        kinds.CHOICE,
        "`shared`: slots that the model looks up in one table share a row for equal ids. `per_slot`: each slot has its "
        "own table: [tables and slots](modeling.md#tables-and-slots).",
        default="shared",
        choices=words(EmbeddingTables),
    ),
)

ONLINE_KEYS = table(Online)
ONLINE = tuple(key.name for key in ONLINE_KEYS)

RUNNER = (
    row("name", kinds.NAME, "Name, used in `mode`.", required=True),
    row(
        "class",
        kinds.CHOICE,
        "`train` and `infer`: one process; `local_cluster_train`: several processes on this machine; `cluster_train`: "
        "on a cluster; `online_learning`: by day and pass, or on a [stream](#streams).",
        default="train",
        choices=words(RunnerClass),
    ),
    row("device", kinds.CHOICE, "Device of the trainers.", default="cpu", choices=words(Device)),
    row(
        "fleet_mode",
        kinds.CHOICE,
        "Parameter servers (`ps`), or data parallel with all-reduce (`collective`).",
        default_said="`ps`; with `local_cluster_train`, or several devices, on anything but the CPU: `collective`",
        choices=words(FleetMode),
        refused_words=(("pslib", "it is a library inside Baidu; `ps` does the same work with umiak's servers"),),
    ),
    row(
        "distribute_strategy",
        kinds.CHOICE,
        "Update strategy of the parameter servers; `hybrid` is umiak's own.",
        default="async",
        choices=words(StrategyName),
    ),
    newer("geo_step", kinds.WHOLE, "With geo: number of batches between synchronizations.", default=100, least=1),
    row("selected_gpus", DEVICES, 'Device indices, as in `"0,1"`: one trainer per device.'),
    row(
        "worker_num",
        kinds.WHOLE,
        "Number of trainers per node.",
        default_said="1, or as many as `selected_gpus` names",
        least=1,
    ),
    row("server_num", kinds.WHOLE, "Number of parameter servers per node.", default=1, least=1),
    ours(
        "wire",
        kinds.CHOICE,
        "Rows and gradients between trainers and parameter servers: as they are, or rounded to `bfloat16`, half the bytes.",
        default="float32",
        choices=words(Wire),
    ),
    ours(
        "prefetch_rows",
        kinds.CHOICE,
        "Number of batches ahead that rows are asked for. With `1` those of the next batch come with the end of this step, in sync, async and hybrid: an exchange with the parameter servers less, and the same results.",
        default=1,
        choices=("0", "1"),
    ),
    ours(
        "alone_allowed",
        kinds.TRUTH,
        "With `cluster_train`: allow training in one process if there is no cluster.",
        default=False,
    ),
    ours(
        "node_data",
        kinds.CHOICE,
        "With `cluster_train`: every node sees all files of `data_path` (`shared`), or only its own part (`own`), "
        "divided among its trainers.",
        default_said="`own` where `PADDLEREC_CLUSTER_TYPE` is `MPI`, else `shared`",
        choices=words(NodeData),
    ),
    row(
        "epochs",
        kinds.WHOLE,
        "Number of passes over the data. Required for training.",
        default_said="`infer` and `online_learning`: 1",
        least=1,
    ),
    row(
        "phases",
        kinds.NAMES,
        "Phases to run in each epoch, in this order.",
        default_said="all, in the order of the file",
    ),
    ours(
        "shuffle",
        kinds.WHOLE,
        "Shuffle the training data in each epoch: pieces of the files in random order, then samples in windows of this "
        "many ([shuffling](training-data.md#shuffling)). 0: samples come in the order of the files, as in PaddleRec.",
        default=0,
        least=0,
    ),
    row("init_model_path", kinds.PATH, "Checkpoint to start training from; `infer` evaluates every checkpoint in it."),
    newer(
        "infer_start_epoch",
        kinds.WHOLE,
        "`infer`: first checkpoint to evaluate.",
        default_said="all checkpoints",
        least=0,
    ),
    newer(
        "infer_end_epoch",
        kinds.WHOLE,
        "`infer`: end of the range of checkpoints to evaluate, exclusive.",
        default_said="all checkpoints",
        least=1,
    ),
    row(
        "save_checkpoint_interval",
        kinds.WHOLE,
        f"Number of epochs between checkpoints. {_SAVED}",
        default=-1,
        least=1,
        also=(-1,),
    ),
    row(
        "save_checkpoint_path",
        kinds.PATH,
        "Directory or URL for checkpoints, saved as `PATH/EPOCH/`, counted from 0 as in PaddleRec (`epoch 1/2` on the "
        "screen is `PATH/0/`), or with `online_learning` as `PATH/DAY/PASS/`. The last epoch or pass is always saved.",
        default_said="nothing is saved",
    ),
    row(
        "save_step_interval",
        kinds.WHOLE,
        "Number of batches between checkpoints within an epoch. -1: none.",
        default=-1,
        least=1,
        also=(-1,),
    ),
    row(
        "save_step_path",
        kinds.PATH,
        "Directory for checkpoints within an epoch, saved as `PATH/epoch_E_batch_B/`, or with `online_learning` as "
        "`PATH/DAY/PASS_batch_B/`.",
    ),
    row(
        "save_inference_interval",
        kinds.WHOLE,
        f"Number of epochs between inference models. {_SAVED}",
        default=-1,
        least=1,
        also=(-1,),
    ),
    row(
        "save_inference_path",
        kinds.PATH,
        "Directory for inference models, saved as `PATH/EPOCH/`, counted from 0; with `online_learning` [base and "
        "delta](train.md#online-learning).",
    ),
    row(
        "save_inference_feed_varnames",
        kinds.NAMES,
        "Inputs of the inference models.",
        default_said="those that the model declares",
    ),
    row(
        "save_inference_fetch_varnames",
        kinds.NAMES,
        "Outputs of the inference models.",
        default_said="those that the model declares",
    ),
    ours(
        "save_minutes_interval",
        kinds.WHOLE,
        "Minutes between checkpoints, saved below `save_step_path`, or `save_checkpoint_path` without it. -1: none.",
        default=-1,
        least=1,
        also=(-1,),
    ),
    *table(Runner),
    ours("evaluate_phase", kinds.NAME, "Phase whose dataset is used for evaluation after every epoch."),
    ours(
        "early_stop_patience",
        kinds.WHOLE,
        "Stop training after this many epochs without improvement. Requires `evaluate_phase`.",
        least=1,
    ),
    ours(
        "early_stop_metric",
        kinds.NAME,
        "Metric to watch for early stopping: a metric of the model, or `loss`. Less is better where its name holds loss, entropy, error, mae, mse or rmse.",
        default_said="`auc` if the model has it, else `loss`",
    ),
    ours("amp", kinds.TRUTH, "Use automatic mixed precision (bfloat16) on accelerators.", default=False),
    row("runner_result_dump_path", kinds.PATH, "File for the metrics of each batch, as JSON."),
    *ONLINE_KEYS,
    row(
        "trainer_class",
        kinds.CHOICE,
        "Only `GeneralTrainer` is supported.",
        default="GeneralTrainer",
        choices=("GeneralTrainer",),
    ),
    *(
        row(f"{stage}_class_path", kinds.PATH, refused=_PLACES)
        for stage in ("instance", "network", "startup", "runner", "terminal")
    ),
    row(
        "init_pretraining_model_path",
        kinds.PATH,
        refused="It belongs to PaddleRec's fine-tuning trainer; `init_model_path` starts from another model.",
    ),
    row(
        "finetuning_aspect_varnames",
        kinds.NAMES,
        refused="It belongs to PaddleRec's fine-tuning trainer; `init_model_path` starts from another model.",
    ),
)

PHASE = table(Phase)
DATASET = (*table(Dataset), DATASET_KEY)
