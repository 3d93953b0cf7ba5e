"""What a config says, parsed and valid: frozen values, the same for both layouts.

    TrainConfig ── runners    how: a class, a device, how many processes, how long, what is kept
                ├─ phases     what: a model and a dataset
                ├─ datasets   on what: files, slots, batches
                ├─ table_parameters: embedding tables that count shows and clicks
                └─ hyper_parameters: free, read by models

Everything here is already checked: names lead somewhere, numbers make sense, ``{workspace}`` is filled in. ``None`` and
``()`` mean: not said, or none. Dictionaries are read only.
"""

from __future__ import annotations

import math
from enum import Enum

from umiak.core.problem import Problem, UmiakError
from umiak.core.strategy_name import StrategyName
from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

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
class DenseSlot:
    """A slot with a fixed number of float32 values."""

    name: str
    shape: tuple[int, ...]

    @property
    def width(self) -> int:
        """How many values a sample has."""
        return math.prod(self.shape)

    @property
    def spoken(self) -> str:
        """As it is written in a config."""
        sizes = str(self.shape[0]) if len(self.shape) == 1 else f"[{','.join(map(str, self.shape))}]"
        return f"{self.name}:{sizes}"


@value
class Slots:
    """The slots of a dataset, as they were declared, or as the first sample of a reader class has them."""

    sparse: tuple[str, ...] = ()
    dense: tuple[DenseSlot, ...] = ()

    @property
    def dense_width(self) -> int:
        """Numbers of all dense slots together."""
        return sum(slot.width for slot in self.dense)

    def split(self, labels: int, model: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The first sparse slots, which are a model's labels, and the others, which are its features."""
        if len(self.sparse) < labels:
            needed, there = "a label" if labels == 1 else f"{labels} labels", len(self.sparse) or "no"
            raise UmiakError(
                Problem(
                    code="UM-TRAIN-010",
                    what=f"{model} needs {needed}, and the dataset has {there} sparse slot{'s' if there != 1 else ''}",
                    hint='name labels first among the sparse slots: `sparse_slots: "click 1 2 3"`',
                )
            )
        return self.sparse[:labels], self.sparse[labels:]


@value
class Dataset:
    """Where samples come from, and how a line becomes one."""

    name: str
    data_path: str
    """A directory, a pattern, or a URL."""
    batch_size: int
    type: DatasetType = DatasetType.DATA_LOADER
    sparse_slots: tuple[str, ...] = ()
    """Slots with any number of ids per sample, in the order in which a model gets them."""
    dense_slots: tuple[DenseSlot, ...] = ()
    """A model gets these before the sparse ones."""
    padding: int = 0
    """What a slot gets that a line does not have."""
    data_converter: str | None = None
    """The file of a reader class of the user's own; used where no slots are declared."""
    reader_class: str = "Reader"
    reader_processes: int = 0
    """Processes for the user's reader class; 0: as many as there are cores."""
    extra_slots_allowed: bool = False
    bad_lines: int = 0
    """How many lines of an epoch may be left out."""
    drop_last: bool = False
    """Whether a batch that is not full is left out, as PaddleRec does, instead of trained on."""
    divide_by: DivideBy = DivideBy.SAMPLES
    """For a class that opens files itself."""
    ready_batches: bool = False
    """Whether what the reader class gives are whole batches already."""

    @property
    def has_slots(self) -> bool:
        """Whether the native reader reads the lines, and not a class of the user's."""
        return bool(self.sparse_slots or self.dense_slots)

    @property
    def reads_files(self) -> bool:
        """Whether a class of the user's opens the files itself: RecDataset of PaddleRec 2."""
        return self.type is DatasetType.REC_DATASET and not self.has_slots


@value
class Phase:
    """One model on one dataset."""

    name: str
    model: str
    """The Python file that has the model."""
    dataset_name: str
    thread_num: int = 1
    shuffle_filelist: bool = False
    gradient_scale: int = 0
    """0: gradients of a batch are averaged, 1: summed, 2: left to the model."""


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


@value
class Online:
    """Training by day and pass: see `umiak.train.config.days`."""

    start_day: str
    """``YYYYMMDD``; both days are included."""
    end_day: str
    split_interval: int = 60
    """Minutes of data in one directory, ``YYYYMMDD/HHMM``."""
    split_per_pass: int = 1
    """Directories in one pass."""
    data_donefile: str | None = None
    """The file in a directory that says that it is complete; none: it is not waited for."""
    data_sleep_s: int = 10
    checkpoint_per_pass: int = 6
    save_delta_frequency: int = 6
    """A delta for serving after so many passes."""
    save_first_base: bool = False
    prefetch: bool = False


@value
class Runner:
    """How something is run."""

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
    alone_allowed: bool = False
    """Whether one process may do what class ``cluster_train`` asks for, where there is no cluster."""
    node_data: NodeData | None = None
    """None: as the platform says."""
    epochs: int = 1
    phases: tuple[str, ...] = ()
    seed: int | None = None
    init_model_path: str | None = None
    infer_epochs: tuple[int, int] | None = None
    """Which checkpoints below ``init_model_path`` are evaluated: from, and up to but not including; none: all of them."""
    checkpoint: Saving | None = None
    step_checkpoint: Saving | None = None
    save_minutes: int | None = None
    keep_checkpoints: int | None = None
    """None: all of epochs, three of steps."""
    evaluation: Evaluation | None = None
    amp: bool = False
    inference: Inference | None = None
    print_interval: int = 20
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


@value
class TableParameters:
    """A table whose rows count shows and clicks, come late and go again: `umiak.ps.specs.Accessor` with PaddleRec's numbers."""

    embedx_dim: int | None = None
    """Numbers of a row's wide part; None: as many as the model asks for, less one."""
    embedx_threshold: float = 10.0
    nonclk_coeff: float = 0.1
    click_coeff: float = 1.0
    base_threshold: float = 1.5
    delta_threshold: float = 0.25
    delta_keep_days: float = 16.0
    show_click_decay_rate: float = 0.98
    delete_threshold: float = 0.8
    delete_after_unseen_days: float = 30.0
    show_scale: bool = True
    zero_init: bool = True
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
    debug: bool = False

    def runner(self, name: str) -> Runner:
        return next(each for each in self.runners if each.name == name)

    def phase(self, name: str) -> Phase:
        return next(each for each in self.phases if each.name == name)

    def dataset(self, name: str) -> Dataset:
        return next(each for each in self.datasets if each.name == name)
