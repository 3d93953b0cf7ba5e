"""What a config says, parsed and valid: frozen values, the same for both layouts. `Dataset`, `Phase` and `Online` declare their keys.

    TrainConfig ── runners    how: a class, a device, how many processes, how long, what is kept
                ├─ phases     what: a model and a dataset
                ├─ datasets   on what: files, slots, batches
                ├─ evaluation: what is measured besides the model's own metrics
                ├─ table_parameters: embedding tables that count shows and clicks
                └─ hyper_parameters: free, read by models

Everything here is already checked: names lead somewhere, numbers make sense, ``{workspace}`` is filled in. ``None`` and
``()`` mean: not said, or none. Dictionaries are read only.
"""

from __future__ import annotations

from enum import Enum

from umiak.core.cluster import StrategyName
from umiak.core.problem import UmiakError
from umiak.core.value import value
from umiak.schema import kinds
from umiak.schema.keys import Empty
from umiak.schema.settings import setting, settings
from umiak.train.config.evaluating.settings import EvaluationSettings
from umiak.train.config.kinds import DAY, DENSE, SPARSE, TIME, Origin
from umiak.train.config.objectives.retrieval import Retrieval
from umiak.train.config.objectives.settings import Objective
from umiak.train.config.streams.settings import StreamSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from umiak.schema.features.section import FeatureSection
    from umiak.train.config.slots import DenseSlot, SlotFeature

    Free: TypeAlias = "dict[str, object]"


class RunnerClass(str, Enum):
    """What a runner does."""

    TRAIN = "train"
    INFER = "infer"
    LOCAL_CLUSTER_TRAIN = "local_cluster_train"
    CLUSTER_TRAIN = "cluster_train"
    ONLINE_LEARNING = "online_learning"


class Device(str, Enum):
    """What a trainer computes on."""

    CPU = "cpu"
    GPU = "gpu"
    XPU = "xpu"
    NPU = "npu"


class FleetMode(str, Enum):
    """How several trainers work together."""

    PS = "ps"
    COLLECTIVE = "collective"


class Wire(str, Enum):
    """What rows and gradients are between trainers and servers."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


class NodeData(str, Enum):
    """What the nodes of a cluster see of the data."""

    SHARED = "shared"
    OWN = "own"


class EmbeddingTables(str, Enum):
    """Whether slots that a model looks up in one table share its rows."""

    SHARED = "shared"
    PER_SLOT = "per_slot"


class DatasetType(str, Enum):
    """PaddleRec's ways of reading. Here the first two use the same native reader."""

    DATA_LOADER = "DataLoader"
    QUEUE_DATASET = "QueueDataset"
    REC_DATASET = "RecDataset"
    """A class of the user's that opens files itself, as readers of PaddleRec 2 do."""


class DivideBy(str, Enum):
    """How the samples of a reader class that opens files itself are divided among trainers."""

    FILES = "files"
    """Whole files, where these make even shares."""
    SAMPLES = "samples"
    """Each trainer runs it on all files, and takes every N-th batch."""


@value
class Slots:
    """The slots of a dataset, as they were declared, or as the first sample of a reader class has them."""

    sparse: tuple[str, ...] = ()
    dense: tuple[DenseSlot, ...] = ()
    labels: tuple[str, ...] = ()
    """The first sparse slots, where something says which are labels: the section ``features:``."""
    weight: str | None = None
    """The slot with the weights of samples."""
    features: tuple[SlotFeature, ...] = ()
    """What is said of their embeddings."""

    def dim(self, name: str, default: int) -> int:
        """How long a slot's vectors are: as the feature says, or else the model."""
        return next((each.dim for each in self.features if each.name == name and each.dim), default)

    def common_dim(self, names: Sequence[str], default: int) -> int:
        """The length of all vectors where they must be alike: that of those that say one, if it is one, or else the model's."""
        dims = {each.dim for each in self.features if each.name in names and each.dim}
        return dims.pop() if len(dims) == 1 else default

    @property
    def dense_width(self) -> int:
        """Numbers of all dense slots together."""
        return sum(slot.width for slot in self.dense)

    def split(self, labels: int, model: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The first sparse slots, which are a model's labels, and the others, which are its features."""
        if len(self.sparse) < labels:
            needed, there = "a label" if labels == 1 else f"{labels} labels", len(self.sparse) or "no"
            raise UmiakError.of(
                "UM-TRAIN-010",
                f"{model} needs {needed}, and the dataset has {there} sparse slot{'s' if there != 1 else ''}",
                hint='name labels first among the sparse slots: `sparse_slots: "click 1 2 3"`',
            )
        if self.labels and len(self.labels) != labels:
            raise UmiakError.of(
                "UM-TRAIN-010",
                f"{model} learns {labels} label{'s' if labels != 1 else ''}, and the features have {len(self.labels)}: {', '.join(self.labels)}",
                hint="name in `label:` only what the model learns: another one would be a feature that gives the answer away",
            )
        return self.sparse[:labels], self.sparse[labels:]


@settings
class Dataset:
    """Where samples come from, and how a line becomes one."""

    name: str = setting(kinds.NAME, "Name, used in `dataset_name`.", required=True)
    type: DatasetType = setting(
        DatasetType,
        "Type of the reader. `DataLoader` and `QueueDataset` are read in the same way; `RecDataset`: the reader class "
        "opens the files itself, as PaddleRec 2's do (only for models of PaddleRec 2).",
        default=DatasetType.DATA_LOADER,
    )
    batch_size: int = setting(kinds.WHOLE, "Number of samples per batch and trainer.", required=True, least=1)
    data_path: str = setting(
        kinds.PATH,
        "Directory (read recursively), pattern such as `data/part-*`, or URL. `paddlerec::PATH` and `umiak::PATH` are "
        "relative to the installed package.",
        required=True,
    )
    sparse_slots: tuple[str, ...] = setting(
        SPARSE, 'Slots with any number of ids: `"click 1 2 3"`.', default=(), default_text="none"
    )
    """In the order in which a model gets them."""
    dense_slots: tuple[DenseSlot, ...] = setting(
        DENSE, 'Slots with a fixed number of values: `"price:1 image:[8,8]"`.', default=(), default_text="none"
    )
    """A model gets these before the sparse ones."""
    padding: int = setting(kinds.WHOLE, "Value for slots that are missing in a line.", default=0)
    data_converter: str | None = setting(
        kinds.PATH, "Python file of a custom reader class. Used if no slots are declared.", default=None
    )
    extra_slots_allowed: bool = setting(
        kinds.TRUTH, "Accept lines with slots that are not declared.", default=False, origin=Origin.UMIAK
    )
    missing_slots_allowed: bool = setting(
        kinds.TRUTH,
        "Accept declared slots that no line has, and train on `padding` in their place, as PaddleRec does.",
        default=False,
        origin=Origin.UMIAK,
    )
    bad_lines: int = setting(
        kinds.WHOLE,
        "Maximum number of unreadable lines to skip per epoch.",
        default=0,
        least=0,
        origin=Origin.UMIAK,
    )
    bad_rows: float = setting(
        kinds.NUMBER,
        "Tables: maximum share of bad rows to leave out, as in 0.01. They are counted.",
        default=0.0,
        least=0,
        origin=Origin.UMIAK,
    )
    rows_before: float | None = setting(
        TIME,
        "Tables: only rows whose time is before this; `features:` says which column is the time.",
        default=None,
        origin=Origin.UMIAK,
    )
    rows_after: float | None = setting(
        TIME,
        "Tables: only rows whose time is this or later.",
        default=None,
        origin=Origin.UMIAK,
    )
    rows_share: tuple[float, float] | None = setting(
        kinds.BOUNDS,
        "Tables: only a part of the rows, chosen by a hash of what is in them: `[0, 0.9]` and `[0.9, 1]` have no row in common.",
        default=None,
        origin=Origin.UMIAK,
    )
    column_names: tuple[str, ...] = setting(
        kinds.NAMES,
        "CSV without a header: the names of its columns.",
        default=(),
        default_text="its first row",
        origin=Origin.UMIAK,
    )
    quoted_newlines: bool = setting(
        kinds.TRUTH,
        "CSV: a quoted value may have newlines. `false`: files are divided without reading them once before.",
        default=True,
        origin=Origin.UMIAK,
    )
    drop_last: bool = setting(
        kinds.TRUTH,
        "With `type: RecDataset`: leave out a batch that is not full.",
        default=False,
        origin=Origin.UMIAK,
    )
    divide_by: DivideBy = setting(
        DivideBy,
        "With `type: RecDataset`: trainers divide the data by whole `files`, where these make even shares, or each runs "
        "the reader on all files and takes every N-th batch of its `samples`.",
        default=DivideBy.SAMPLES,
        origin=Origin.UMIAK,
    )
    ready_batches: bool = setting(
        kinds.TRUTH,
        "With `type: RecDataset`: the reader class gives whole batches, which are trained on as they are.",
        default=False,
        origin=Origin.UMIAK,
    )
    reader_class: str = setting(
        kinds.NAME, "Name of the custom reader class.", key="reader_class_name", default="Reader", empty=Empty.UNSAID
    )
    by_place: bool = False
    """Whether its reader class is that of a model in the form of PaddleRec 1.8.5 (`ModelBase`), which takes fields by their places."""
    reader_processes: int = setting(
        kinds.WHOLE,
        "Number of processes that run the reader class; 0: one per core, with `type: RecDataset` one.",
        key="num_workers",
        default=0,
        least=0,
        origin=Origin.NEWER,
    )

    stream: StreamSettings | None = None
    """How its messages are read; None: it is files."""
    features: FeatureSection | None = None
    """How rows of tables become samples; the slots are its labels, its ids and its numbers then."""

    @property
    def has_slots(self) -> bool:
        """Whether the native reader reads the lines, and not a class of the user's."""
        return bool(self.sparse_slots or self.dense_slots) and self.features is None

    @property
    def reads_files(self) -> bool:
        """Whether a class of the user's gives batches of whole files: RecDataset of PaddleRec 2, readers beside a `ModelBase` of 1.8.5."""
        is_class = not self.has_slots and self.features is None
        return (self.type is DatasetType.REC_DATASET or self.by_place) and is_class


@settings
class Phase:
    """One model on one dataset."""

    name: str = setting(kinds.NAME, "Name, used in `phases`.", required=True)
    model: str = setting(kinds.PATH, "Python file with the model.", required=True)
    dataset_name: str = setting(kinds.NAME, "Name of the dataset to run on.", required=True)
    thread_num: int = setting(kinds.WHOLE, "Number of threads for reading and for computing.", default=1, least=1)
    shuffle_filelist: bool = setting(kinds.TRUTH, "Shuffle the order of files in each epoch.", default=False)
    gradient_scale: int = setting(
        kinds.CHOICE,
        "Gradients of a batch are 0: averaged, 1: summed, 2: left to the model.",
        key="gradient_scale_strategy",
        choices=("0", "1", "2"),
        default=0,
        read=lambda section, _: section.number("gradient_scale_strategy"),
    )


@value
class Saving:
    """Something that is saved again and again. The end of the last epoch is always saved."""

    path: str
    every: int
    """After so many epochs, or batches."""


@value
class Inference:
    """An inference model, saved again and again."""

    path: str
    every: int
    feeds: tuple[str, ...] = ()
    """Names of inputs; none: those that the model declares."""
    fetches: tuple[str, ...] = ()


@value
class Evaluation:
    """A look at other data after every epoch."""

    phase: str
    patience: int | None = None
    """Training ends after so many epochs without progress; None: it does not."""
    metric: str | None = None
    """What progress is measured by; None: AUC, or where there is none the loss."""


@settings
class Online:
    """Training by day and pass: see `umiak.train.config.days`."""

    ORIGIN = Origin.NEWER

    start_day: str = setting(DAY, "First day.", default="")
    end_day: str = setting(DAY, "Last day.", default="")
    split_interval: int = setting(
        kinds.WHOLE,
        "Minutes of data per directory `YYYYMMDD/HHMM`; a divisor of 1440.",
        default=60,
        least=1,
    )
    split_per_pass: int = setting(kinds.WHOLE, "Number of directories per pass.", default=1, least=1)
    data_donefile: str | None = setting(
        kinds.TEXT,
        "File that marks a directory as complete; the trainer waits for it and does not read it. Without it there is "
        "no waiting, and a pass without data is an error.",
        default=None,
    )
    data_sleep_s: int = setting(
        kinds.WHOLE,
        "Seconds between checks for new data.",
        key="data_sleep_second",
        default=10,
        least=1,
    )
    checkpoint_per_pass: int = setting(
        kinds.WHOLE,
        "Save a checkpoint every N passes, below `save_checkpoint_path`, and after the last pass.",
        default=6,
        least=1,
    )
    save_delta_frequency: int = setting(
        kinds.WHOLE,
        "Save a delta model for inference every N passes, below `save_inference_path`; a day ends with a base model "
        "instead.",
        default=6,
        least=1,
    )
    save_first_base: bool = setting(kinds.TRUTH, "Save a base model before the first pass.", default=False)
    prefetch: bool = setting(
        kinds.TRUTH,
        "Fetch the files of the next pass, if it is complete, while training on the current one.",
        default=False,
    )


@settings
class Runner:
    """How something is run. Declared fields are just as they are written; the others depend on several keys."""

    name: str
    kind: RunnerClass
    device: Device = Device.CPU
    device_ids: tuple[int, ...] = ()
    """One process for each of these; none: they are not chosen."""
    fleet_mode: FleetMode = FleetMode.PS
    strategy: StrategyName = StrategyName.ASYNC
    geo_steps: int = 100
    workers: int = 1
    """Trainers on each node."""
    servers: int = 1
    """Parameter servers on each node."""
    wire: Wire = Wire.FLOAT32
    prefetch_rows: int = 1
    alone_allowed: bool = False
    """Whether one process may do what class ``cluster_train`` asks for, where there is no cluster."""
    node_data: NodeData | None = None
    """None: as the platform says."""
    epochs: int = 1
    phases: tuple[str, ...] = ()
    seed: int | None = setting(kinds.WHOLE, "Random seed.", default=None, least=0, origin=Origin.NEWER)
    init_model_path: str | None = None
    infer_epochs: tuple[int, int] | None = None
    """Which checkpoints below ``init_model_path`` are evaluated: from, and up to but not including; none: all of them."""
    checkpoint: Saving | None = None
    step_checkpoint: Saving | None = None
    save_minutes: int | None = None
    keep_checkpoints: int | None = setting(
        kinds.WHOLE,
        "Number of latest checkpoints to keep.",
        default=None,
        default_text="all of epochs, 3 of batches and minutes",
        least=1,
        origin=Origin.UMIAK,
    )
    evaluation: Evaluation | None = None
    amp: bool = False
    inference: Inference | None = None
    print_interval: int = setting(
        kinds.WHOLE,
        "Number of batches of the first trainer between log lines, and between reports in `metrics.jsonl`.",
        default=20,
        least=1,
    )
    shuffle: int = 0
    """Samples of a window that is shuffled; 0: they come in the order of the files."""
    result_dump_path: str | None = None
    online: Online | None = None


@value
class Schedule:
    """What the learning rate is multiplied by, step after step of a trainer."""

    kind: str = "constant"
    gamma: float = 0.1
    every: int = 1
    """Steps from one change to the next."""
    steps: int = 1
    """After so many steps it stays as it is."""
    end: float = 0.0
    """The factor that it ends at."""
    power: float = 1.0
    warmup_steps: int = 0
    """In so many steps it grows from nothing first."""
    metric: str = ""
    """Of an evaluation, where the rate falls when it grows no better; empty: AUC, or else the loss."""
    mode: str = ""
    """Whether ``max`` or ``min`` is better; empty: as the metric has it."""
    patience: int = 0
    """Evaluations without progress that are let pass."""
    threshold: float = 1e-4
    threshold_mode: str = "rel"
    cooldown: int = 0
    """Evaluations that nobody looks at after the rate has fallen."""


@value
class Learning:
    """How everything learns that says nothing else about itself."""

    rule: str = "adam"
    """A name of `umiak.ps.specs.RULES`."""
    settings: dict[str, float | bool] = {}
    """Fields of that rule that were said, its learning rate among them."""
    schedule: Schedule = Schedule()
    clip_value: float | None = None
    clip_norm: float | None = None
    clip_global_norm: float | None = None
    weight_decay: float = 0.0
    """L2: so much of a weight is added to its gradient."""
    decoupled_weight_decay: float = 0.0
    """So much of a weight, times the learning rate, is taken from it in every step: AdamW."""


@value
class RowRule:
    """How one of the two parts of a row begins and learns."""

    rule: str = "adagrad_shared"
    """A name of `umiak.ps.specs.RULES`."""
    settings: dict[str, float] = {"learning_rate": 0.05}
    """Fields of that rule that were said, its learning rate among them."""
    initial_range: float = 1e-4
    """Numbers begin between plus and minus this."""


@settings
class TableParameters:
    """A table whose rows count shows and clicks, come late and go again: `umiak.ps.specs.Accessor` with PaddleRec's numbers."""

    ORIGIN = Origin.NEWER

    embedx_dim: int | None = setting(
        kinds.WHOLE,
        "Dimension of the wide part of a row: one less than the dimension that the model asks for.",
        default=None,
        default_text="as the model asks",
        least=1,
    )
    embedx_threshold: float = setting(
        kinds.NUMBER,
        "Minimum score of an id for the wide part of its row; the first number of a row is there at once.",
        default=10.0,
    )
    nonclk_coeff: float = setting(kinds.NUMBER, "Score of a show without a click.", default=0.1)
    click_coeff: float = setting(kinds.NUMBER, "Score of a click.", default=1.0)
    base_threshold: float = setting(kinds.NUMBER, "Minimum score of rows in base and delta models.", default=1.5)
    delta_threshold: float = setting(
        kinds.NUMBER, "Minimum increase of the score of rows in a delta model.", default=0.25
    )
    delta_keep_days: float = setting(
        kinds.NUMBER,
        "Rows unseen for more than this many days are left out of base and delta models.",
        default=16.0,
        least=0,
    )
    show_click_decay_rate: float = setting(
        kinds.NUMBER,
        "Decay of shows and clicks at the end of a day: they are multiplied by this.",
        default=0.98,
        least=0,
    )
    delete_threshold: float = setting(
        kinds.NUMBER, "Evict rows with a score below this at the end of a day.", default=0.8
    )
    delete_after_unseen_days: float = setting(
        kinds.NUMBER, "Evict rows unseen for more than this many days.", default=30.0, least=0
    )
    show_scale: bool = setting(
        kinds.TRUTH,
        "Divide gradients by the number of shows in the batch (variants of AdaGrad).",
        default=True,
    )
    zero_init: bool = setting(kinds.TRUTH, "Initialize the first number with zero.", default=True)
    embed: RowRule = RowRule()
    embedx: RowRule = RowRule()
    bound: float = 10.0
    """No number of a row grows beyond plus and minus this."""


@value
class TrainConfig:
    """A whole config."""

    workspace: str
    """A directory; ``{workspace}`` stands for it in every text of a config."""
    mode: tuple[str, ...]
    """The runners to run, one after another."""
    runners: tuple[Runner, ...]
    phases: tuple[Phase, ...]
    datasets: tuple[Dataset, ...]
    hyper_parameters: Free = {}
    learning: Learning = Learning()
    """What ``hyper_parameters.optimizer`` comes to."""
    table_parameters: dict[str, TableParameters] = {}
    """By the names that the model has for its tables."""
    embedding_tables: EmbeddingTables = EmbeddingTables.SHARED
    evaluation: EvaluationSettings = EvaluationSettings()
    objective: Objective = Objective()
    retrieval: Retrieval = Retrieval()
    features: Free = {}
    """What ``features`` says, as it is written; datasets have what it means."""
    debug: bool = False

    def runner(self, name: str) -> Runner:
        return next(each for each in self.runners if each.name == name)

    def phase(self, name: str) -> Phase:
        return next(each for each in self.phases if each.name == name)

    def dataset(self, name: str) -> Dataset:
        return next(each for each in self.datasets if each.name == name)
