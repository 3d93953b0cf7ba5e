"""Every key of a config, one table per section: names, kinds, defaults, meanings. Values.

The reader, the errors' nearest words, the reference page and the tests are made from these rows. Names, kinds and defaults are
those of PaddleRec 1.8.5 and of its newer layout; ``origin`` marks what is umiak's own.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.value import value
from umiak.train.config import DatasetType, Device, FleetMode, RunnerClass, Strategy


class Kind(Enum):
    """What stands after a key; the values are phrases for messages: ``needs ...``."""

    NAME = "a name"
    TEXT = "text"
    PATH = "a path"
    WHOLE = "a whole number"
    TRUTH = "true or false"
    CHOICE = "one of a few words"
    NAMES = "a name or a list of names"
    SPARSE = "names of slots with blanks between them"
    DENSE = "name:width with blanks between them"
    DEVICES = 'numbers with commas between them, as in "0,1"'
    DAY = "a day, as in 20260131"
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


def _words(kind: type[Enum]) -> tuple[str, ...]:
    return tuple(str(member.value) for member in kind)


_PLACES = "It replaces a part of PaddleRec's own engine, which is not here."
_SAVED = "-1: after every epoch."

GLOBAL = (
    Key(
        name="workspace",
        meaning="A directory, from the current one, or a model that comes with umiak: `umiak.models.rank.dnn`, or with "
        "`paddlerec` in front. `{workspace}` stands for it in every text.",
        kind=Kind.PATH,
        required=True,
    ),
    Key(name="mode", meaning="The runners to run, one after another.", kind=Kind.NAMES, required=True),
    Key(
        name="debug",
        meaning="Whether every batch tells where its time went.",
        kind=Kind.TRUTH,
        default=False,
    ),
    Key(name="runner", meaning="How to run: [runners](#runner).", kind=Kind.SECTIONS, required=True),
    Key(name="phase", meaning="What to run: [phases](#phase).", kind=Kind.SECTIONS, required=True),
    Key(name="dataset", meaning="On what: [datasets](#dataset).", kind=Kind.SECTIONS, required=True),
    Key(name="hyper_parameters", meaning="Whatever the model reads.", kind=Kind.MAPPING),
    Key(
        name="table_parameters",
        origin=Origin.NEWER,
        meaning="Settings of embedding tables: admission, eviction.",
        kind=Kind.MAPPING,
    ),
)

_ONLINE = (
    Key(name="start_day", origin=Origin.NEWER, meaning="The first day.", kind=Kind.DAY),
    Key(name="end_day", origin=Origin.NEWER, meaning="The last day.", kind=Kind.DAY),
    Key(
        name="split_interval",
        origin=Origin.NEWER,
        meaning="Minutes of data in one directory `YYYYMMDD/HHMM`; a divisor of a day's 1440.",
        kind=Kind.WHOLE,
        default=60,
        least=1,
    ),
    Key(
        name="split_per_pass",
        origin=Origin.NEWER,
        meaning="Directories in one pass.",
        kind=Kind.WHOLE,
        default=1,
        least=1,
    ),
    Key(
        name="data_donefile",
        origin=Origin.NEWER,
        meaning="A file that says that its directory is complete; it is waited for.",
        kind=Kind.TEXT,
    ),
    Key(
        name="data_sleep_second",
        origin=Origin.NEWER,
        meaning="Seconds between two looks.",
        kind=Kind.WHOLE,
        default=10,
        least=1,
    ),
    Key(
        name="checkpoint_per_pass",
        origin=Origin.NEWER,
        meaning="A checkpoint after so many passes.",
        kind=Kind.WHOLE,
        default=6,
        least=1,
    ),
    Key(
        name="save_delta_frequency",
        origin=Origin.NEWER,
        meaning="A delta for serving after so many passes.",
        kind=Kind.WHOLE,
        default=6,
        least=1,
    ),
    Key(
        name="save_first_base",
        origin=Origin.NEWER,
        meaning="Whether a base model is saved before the first pass.",
        kind=Kind.TRUTH,
        default=False,
    ),
    Key(
        name="prefetch",
        origin=Origin.NEWER,
        meaning="Whether the next pass is read while one is trained.",
        kind=Kind.TRUTH,
        default=False,
    ),
)
ONLINE = tuple(key.name for key in _ONLINE)

RUNNER = (
    Key(name="name", meaning="What `mode` calls it.", kind=Kind.NAME, required=True),
    Key(
        name="class",
        meaning="`train` and `infer` in one process, `local_cluster_train` in several on this machine, `cluster_train` on a "
        "cluster, `online_learning` by day and pass.",
        kind=Kind.CHOICE,
        default="train",
        choices=_words(RunnerClass),
    ),
    Key(name="device", meaning="What trainers compute on.", kind=Kind.CHOICE, default="cpu", choices=_words(Device)),
    Key(
        name="fleet_mode",
        meaning="How several trainers work together: with parameter servers, or collectively.",
        kind=Kind.CHOICE,
        default_said="`ps`; with `local_cluster_train`, or several devices, on anything but the CPU: `collective`",
        choices=_words(FleetMode),
        refused_words=(("pslib", "it is a library inside Baidu; `ps` does the same work with umiak's servers"),),
    ),
    Key(
        name="distribute_strategy",
        meaning="How trainers and parameter servers work together; `hybrid` is umiak's own.",
        kind=Kind.CHOICE,
        default="async",
        choices=_words(Strategy),
    ),
    Key(
        name="geo_step",
        origin=Origin.NEWER,
        meaning="With geo: batches between two exchanges.",
        kind=Kind.WHOLE,
        default=100,
        least=1,
    ),
    Key(
        name="selected_gpus",
        meaning='Numbers of devices, as in `"0,1"`: one trainer for each.',
        kind=Kind.DEVICES,
    ),
    Key(
        name="worker_num",
        meaning="Trainers on each node.",
        kind=Kind.WHOLE,
        default_said="1, or as many as `selected_gpus` names",
        least=1,
    ),
    Key(name="server_num", meaning="Parameter servers on each node.", kind=Kind.WHOLE, default=1, least=1),
    Key(
        name="alone_allowed",
        meaning="With `cluster_train`: whether one process may do it where there is no cluster.",
        kind=Kind.TRUTH,
        default=False,
        origin=Origin.UMIAK,
    ),
    Key(
        name="epochs",
        meaning="How often the data is gone through. Needed for training.",
        kind=Kind.WHOLE,
        default_said="`infer` and `online_learning`: 1",
        least=1,
    ),
    Key(
        name="phases",
        meaning="The phases to run in each epoch, in this order.",
        kind=Kind.NAMES,
        default_said="all, in the order of the file",
    ),
    Key(name="seed", origin=Origin.NEWER, meaning="Of everything that is random.", kind=Kind.WHOLE, least=0),
    Key(
        name="init_model_path",
        meaning="Training goes on from there; `infer` evaluates every checkpoint that is there.",
        kind=Kind.PATH,
    ),
    Key(
        name="infer_start_epoch",
        origin=Origin.NEWER,
        meaning="`infer`: the first checkpoint that is evaluated.",
        kind=Kind.WHOLE,
        default_said="all are evaluated",
        least=0,
    ),
    Key(
        name="infer_end_epoch",
        origin=Origin.NEWER,
        meaning="`infer`: the first one that is not evaluated any more.",
        kind=Kind.WHOLE,
        default_said="all are evaluated",
        least=1,
    ),
    Key(
        name="save_checkpoint_interval",
        meaning=f"Epochs between two checkpoints. {_SAVED}",
        kind=Kind.WHOLE,
        default=-1,
        least=1,
        also=(-1,),
    ),
    Key(
        name="save_checkpoint_path",
        meaning="Where checkpoints are saved, as `PATH/EPOCH/`; the last epoch's always is.",
        kind=Kind.PATH,
        default_said="nothing is saved",
    ),
    Key(
        name="save_step_interval",
        meaning="Batches between two checkpoints within an epoch. -1: none.",
        kind=Kind.WHOLE,
        default=-1,
        least=1,
        also=(-1,),
    ),
    Key(
        name="save_step_path",
        meaning="Where these are saved, as `PATH/epoch_E_batch_B/`.",
        kind=Kind.PATH,
    ),
    Key(
        name="save_inference_interval",
        meaning=f"Epochs between two models for serving. {_SAVED}",
        kind=Kind.WHOLE,
        default=-1,
        least=1,
        also=(-1,),
    ),
    Key(name="save_inference_path", meaning="Where these are saved, as `PATH/EPOCH/`.", kind=Kind.PATH),
    Key(
        name="save_inference_feed_varnames",
        meaning="Inputs of these models.",
        kind=Kind.NAMES,
        default_said="those that the model declares",
    ),
    Key(
        name="save_inference_fetch_varnames",
        meaning="Their outputs.",
        kind=Kind.NAMES,
        default_said="those that the model declares",
    ),
    Key(name="print_interval", meaning="Batches between two lines.", kind=Kind.WHOLE, default=20, least=1),
    Key(name="runner_result_dump_path", meaning="A file for the metrics of each batch, as JSON.", kind=Kind.PATH),
    *_ONLINE,
    Key(
        name="trainer_class",
        meaning="Only `GeneralTrainer` is understood.",
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
    Key(name="name", meaning="What `phases` calls it.", kind=Kind.NAME, required=True),
    Key(name="model", meaning="The Python file that has the model.", kind=Kind.PATH, required=True),
    Key(name="dataset_name", meaning="The dataset that it is run on.", kind=Kind.NAME, required=True),
    Key(name="thread_num", meaning="Threads that read, and that compute.", kind=Kind.WHOLE, default=1, least=1),
    Key(
        name="shuffle_filelist",
        meaning="Whether files are read in another order in each epoch.",
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
    Key(name="name", meaning="What `dataset_name` calls it.", kind=Kind.NAME, required=True),
    Key(
        name="type",
        meaning="Both read in the same way here.",
        kind=Kind.CHOICE,
        default="DataLoader",
        choices=_words(DatasetType),
    ),
    Key(name="batch_size", meaning="Samples in a batch of one trainer.", kind=Kind.WHOLE, required=True, least=1),
    Key(
        name="data_path",
        meaning="A directory with all that is below it, a pattern such as `data/part-*`, or a URL. `paddlerec::PATH` and "
        "`umiak::PATH` are relative to the installed package.",
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
    Key(name="padding", meaning="What a slot gets that a line does not have.", kind=Kind.WHOLE, default=0),
    Key(
        name="data_converter",
        meaning="The Python file of a reader class of your own. It is used where no slots are declared.",
        kind=Kind.PATH,
    ),
    Key(name="reader_class_name", meaning="The name of that class.", kind=Kind.NAME, default="Reader"),
    Key(
        name="num_workers",
        origin=Origin.NEWER,
        meaning="Processes that run that class; 0: as many as there are cores.",
        kind=Kind.WHOLE,
        default=0,
        least=0,
    ),
)

_NATIVE = "both types use umiak's own reader: declare slots, or name a reader class with train_reader_path"
_METRICS = "metrics are the model's own"
_FLUID = "it belongs to the static graph's debugging, which is not here"
_FILES = "data_path may be a URL, and credentials are taken from the environment"
FLAT_GLOBAL = (
    Key(
        name="workspace",
        meaning="The directory that relative paths begin at.",
        kind=Kind.PATH,
        default_said="the directory of the config",
        origin=Origin.UMIAK,
    ),
    Key(
        name="mode",
        meaning="`train`, `infer`, or both.",
        kind=Kind.NAMES,
        default_said="`train` if there is a `train_data_dir`, else `infer`",
        origin=Origin.UMIAK,
    ),
    Key(name="runner", meaning="Everything below.", kind=Kind.MAPPING, required=True),
    Key(name="hyper_parameters", meaning="Whatever the model reads.", kind=Kind.MAPPING),
    Key(name="table_parameters", meaning="Settings of embedding tables: admission, eviction.", kind=Kind.MAPPING),
)

FLAT = (
    Key(name="train_data_dir", meaning="`data_path` for training, from the workspace.", kind=Kind.PATH),
    Key(name="test_data_dir", meaning="`data_path` for `infer`, from the workspace.", kind=Kind.PATH),
    Key(name="infer_data_dir", meaning="Another name for `test_data_dir`.", kind=Kind.PATH),
    Key(
        name="train_reader_path",
        meaning="`data_converter` for training: a module beside the config, with a class `RecDataset`.",
        kind=Kind.PATH,
    ),
    Key(name="infer_reader_path", meaning="The same for `infer`.", kind=Kind.PATH),
    Key(name="train_batch_size", meaning="`batch_size` for training.", kind=Kind.WHOLE, least=1),
    Key(name="infer_batch_size", meaning="`batch_size` for `infer`.", kind=Kind.WHOLE, least=1),
    Key(
        name="reader_type",
        meaning="`type` of both datasets.",
        kind=Kind.CHOICE,
        default="DataLoader",
        choices=_words(DatasetType),
        synonyms=(("RecDataset", "DataLoader"), ("InmemoryDataset", "QueueDataset")),
    ),
    Key(name="epochs", meaning="`epochs`.", kind=Kind.WHOLE, least=1),
    Key(name="print_interval", meaning="`print_interval`.", kind=Kind.WHOLE, default=20, least=1),
    Key(name="num_workers", meaning="`num_workers` of both datasets.", kind=Kind.WHOLE, default=0, least=0),
    Key(name="thread_num", meaning="`thread_num` of both phases.", kind=Kind.WHOLE, default=1, least=1),
    Key(name="train_thread_num", meaning="`thread_num` for training alone.", kind=Kind.WHOLE, least=1),
    Key(name="infer_thread_num", meaning="`thread_num` for `infer` alone.", kind=Kind.WHOLE, least=1),
    Key(
        name="model_save_path",
        meaning="`save_checkpoint_path`: after every epoch.",
        kind=Kind.PATH,
        default_said="nothing is saved",
    ),
    Key(name="model_init_path", meaning="`init_model_path` for training.", kind=Kind.PATH),
    Key(name="warmup_model_path", meaning="Another name for `model_init_path`.", kind=Kind.PATH),
    Key(name="runner_result_dump_path", meaning="`runner_result_dump_path`.", kind=Kind.PATH),
    Key(name="infer_load_path", meaning="`init_model_path` for `infer`.", kind=Kind.PATH),
    Key(name="infer_start_epoch", meaning="`infer_start_epoch`.", kind=Kind.WHOLE, least=0),
    Key(name="infer_end_epoch", meaning="`infer_end_epoch`.", kind=Kind.WHOLE, least=1),
    Key(name="use_gpu", meaning="`device: gpu`.", kind=Kind.TRUTH, default=False),
    Key(name="use_xpu", meaning="`device: xpu`.", kind=Kind.TRUTH, default=False),
    Key(name="use_npu", meaning="`device: npu`.", kind=Kind.TRUTH, default=False),
    Key(
        name="use_fleet",
        meaning="`class: cluster_train` with `fleet_mode: collective` and `alone_allowed`.",
        kind=Kind.TRUTH,
        default=False,
    ),
    Key(
        name="sync_mode",
        meaning="`class: cluster_train` with `fleet_mode: ps`, this `distribute_strategy` and `alone_allowed`.",
        kind=Kind.CHOICE,
        choices=_words(Strategy),
        refused_words=(
            ("heter", "umiak's parameter servers have no heter workers; `async` with use_gpu is near to it"),
            ("gpubox", "tables that are in the memory of GPUs are not here; `async` with use_gpu is near to it"),
        ),
    ),
    Key(name="geo_step", meaning="`geo_step`.", kind=Kind.WHOLE, default=100, least=1),
    Key(
        name="worker_num",
        meaning="With `sync_mode` or `use_fleet`: `class: local_cluster_train` with so many trainers.",
        kind=Kind.WHOLE,
        least=1,
        origin=Origin.UMIAK,
    ),
    Key(
        name="server_num",
        meaning="With `sync_mode`: `class: local_cluster_train` with so many parameter servers.",
        kind=Kind.WHOLE,
        least=1,
        origin=Origin.UMIAK,
    ),
    Key(name="seed", meaning="`seed`.", kind=Kind.WHOLE, default=12345, least=0),
    Key(
        name="use_inference",
        meaning="Whether a model for serving is saved beside each checkpoint.",
        kind=Kind.TRUTH,
        default=False,
    ),
    Key(name="save_inference_feed_varnames", meaning="The same.", kind=Kind.NAMES),
    Key(name="save_inference_fetch_varnames", meaning="The same.", kind=Kind.NAMES),
    *_ONLINE,
    Key(
        name="model",
        meaning="`model` of both phases, from the workspace.",
        kind=Kind.PATH,
        default="model.py",
        origin=Origin.UMIAK,
    ),
    Key(name="sparse_slots", meaning="`sparse_slots` of both datasets.", kind=Kind.SPARSE, origin=Origin.UMIAK),
    Key(name="dense_slots", meaning="`dense_slots` of both datasets.", kind=Kind.DENSE, origin=Origin.UMIAK),
    Key(name="padding", meaning="`padding` of both datasets.", kind=Kind.WHOLE, default=0, origin=Origin.UMIAK),
    Key(name="use_auc", meaning="", kind=Kind.TRUTH, settled=_METRICS),
    Key(name="auc_num", meaning="", kind=Kind.WHOLE, settled=_METRICS),
    Key(name="use_visual", meaning="", kind=Kind.TRUTH, settled="scalars are written wherever VisualDL is installed"),
    Key(name="use_gloo", meaning="", kind=Kind.TRUTH, settled="trainers meet without it"),
    Key(name="split_file_list", meaning="", kind=Kind.TRUTH, settled="data is divided among trainers in every mode"),
    Key(name="example_count_method", meaning="", kind=Kind.TEXT, settled="every sample that is read is counted"),
    Key(name="pipe_command", meaning="", kind=Kind.TEXT, ignored=_NATIVE),
    *(
        Key(name=name, meaning="", kind=Kind.TEXT, ignored=_FLUID)
        for name in (
            "dataset_debug",
            "need_dump",
            "need_train_dump",
            "need_infer_dump",
            "dump_fields",
            "dump_fields_path",
            "dump_fields_dir",
            "train_dump_fields_dir",
            "infer_dump_fields_dir",
            "dump_param",
            "parse_ins_id",
            "parse_content",
        )
    ),
    *(Key(name=name, meaning="", kind=Kind.TEXT, ignored=_FILES) for name in ("fs_client", "fs_name", "fs_ugi")),
)
"""The mapping ``runner`` of the newer layout. A meaning in backticks is the key of the older layout that it stands for."""


def known(key: Key) -> bool:
    """Whether a key is obeyed: the others are not suggested."""
    return not (key.refused or key.ignored or key.settled)
