"""What a run asks of the framework that computes: protocols, and the values that they speak of. An adapter, without a framework.

    framework = choice.framework()                          the one place that knows which framework it is
    engine = framework.engine(EngineRequest(model="model.py", slots=slots, job=job, options=EngineOptions(seed=7)))
    metrics = engine.metric_set()
    loss = engine.learn(batch, metrics, step=0)             one step
    loss = engine.evaluate(batch, metrics)                  the same without learning

A run knows no more of a model than this. Another kind of model is another `Framework`, whose engines keep what they learn in tables of the job that they are
given: then checkpoints, resuming and parameter servers work as they do for all others. `umiak.train.engines.paddle` is for models of our own form,
`umiak.train.engines.dygraph` for those of PaddleRec 2, `umiak.train.engines.fluid` for those of PaddleRec 1.8.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from umiak.core.problem import Problem
from umiak.core.value import value
from umiak.train.config.objectives.retrieval import Retrieval
from umiak.train.config.objectives.settings import Objective
from umiak.train.config.values import Device, EmbeddingTables, Learning, TableParameters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    import numpy as np
    from numpy.typing import NDArray

    from umiak.core.json_types import JsonMapping, JsonObject
    from umiak.data.array_types import AnyArray
    from umiak.ps.clients.collective import Group
    from umiak.ps.manifest import Manifest
    from umiak.ps.sessions import Session
    from umiak.ps.values import Opened
    from umiak.train.config.values import Free, Slots
    from umiak.train.metrics.metric_set import MetricSet
    from umiak.train.reading.batches import Batch
    from umiak.train.reading.checking import Seen
    from umiak.train.reading.tables.catalogue import Catalogue

if TYPE_CHECKING:
    Answers = dict[str, AnyArray]
    """Outputs of a model by name, each with a row for each sample."""

LOSS = "loss"
"""The name of the loss in every metric set."""


@value
class EngineOptions:
    """How an engine computes."""

    learning: Learning = Learning()
    seed: int = 0
    device: Device = Device.CPU
    amp: bool = False
    threads: int = 1
    gradient_scale: int = 0
    tables: dict[str, TableParameters] = {}
    """Those that count shows and clicks."""
    embedding_tables: EmbeddingTables = EmbeddingTables.SHARED
    objective: Objective = Objective()
    retrieval: Retrieval = Retrieval()
    prefix: str = ""
    """Before the names of this model's tables, where a job has several models."""
    written: Free = {}
    """The config as it is written: models in the form of PaddleRec 2 look into it."""
    is_shared: bool = False
    """Whether several trainers, or servers, hold what is learned; engines see it from their job, `Framework.examine` has none."""
    checkpoint: str = ""
    """One that will be loaded to be evaluated: nothing learns then. None: the model is trained."""


@value
class EngineRequest:
    """A model that is to learn, or to be evaluated."""

    model: str
    """Its file."""
    slots: Slots
    job: Session
    options: EngineOptions
    hyper_parameters: JsonMapping = {}
    where: str | None = None
    """The config that names it."""
    dataset: str = ""
    """The name of the dataset that it is trained on, or evaluated on."""
    evaluated: str = ""
    """That of the dataset that it is evaluated on while it trains, where there is one."""
    settings: JsonMapping = {}
    """What ``envs.get_global_env`` knows."""
    catalogue: Catalogue | None = None
    """All items, where negatives are drawn of them."""
    sample: Callable[[], Batch | None] | None = None
    """A batch to try it with."""


@value
class ModelFindings:
    """What is to be known about a model before it is trained."""

    warnings: tuple[Problem, ...] = ()
    tables: tuple[str, ...] = ()
    """Lines about what is kept in tables, where the model does not say it itself."""


@value
class FirstMetric:
    """What a metric looks at."""

    prediction: str
    """An output of the model."""
    label: str
    """A slot."""


class EnginePeers(Protocol):
    """What an engine asks of the other trainers: `umiak.train.run.peers`."""

    world: int

    @property
    def is_first(self) -> bool: ...
    def tell(self, message: JsonObject, name: str = "tell") -> list[JsonObject]: ...
    def add(self, vector: NDArray[np.float64]) -> NDArray[np.float64]: ...


class EngineBuffers(Protocol):
    """What a model has besides what it learns, such as running statistics: each trainer's own until all agree."""

    @property
    def table(self) -> str:
        """The table that keeps what all trainers have in common."""

    def store(self, peers: EnginePeers) -> None:
        """What all trainers have in common into the table. Every trainer calls it."""

    def agree(self, peers: EnginePeers) -> None:
        """Everybody takes over what all have in common. Every trainer calls it."""

    def own(self) -> str:
        """This trainer's own, as text; nothing if there is none, or too much."""

    def set_own(self, text: str) -> None: ...


class Engine(Protocol):
    """A model that learns."""

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What is odd about its hyper-parameters, and no error."""

    @property
    def buffers(self) -> EngineBuffers: ...

    @property
    def table_names(self) -> Sequence[str]:
        """Of its embedding tables, as the model calls them."""

    def metric_set(self) -> MetricSet:
        """An empty one for the loss and everything that the model is evaluated by."""

    def learn(self, batch: Batch | None, metrics: MetricSet, *, step: int, share: float | None = None) -> float:
        """One step of everybody; ``share`` is this trainer's part in it. Without a batch it only takes part. Returns the loss."""

    @property
    def first_metric(self) -> FirstMetric | None:
        """What its first metric looks at, where the model says it."""

    def evaluate(self, batch: Batch, metrics: MetricSet, answers: Answers | None = None) -> float:
        """Look at a batch without learning from it; ``answers`` takes what the model has answered, output by output. Returns the loss."""

    def predict(self, batch: Batch) -> Mapping[str, NDArray[np.float32]]:
        """What the model answers."""

    def without_trace(self) -> AbstractContextManager[None]:
        """What is done with the model within is no part of its training, which goes on as if it had not been done."""

    def generators(self) -> str:
        """What the model's code would draw next, as text for a checkpoint; nothing where each step begins with a seed of its own."""

    def set_generators(self, packed: str, step: int) -> None:
        """The same back; where a checkpoint has none for this trainer, something that depends on the step."""

    def check_missing(self, seen: Seen | None, dataset: str) -> None:
        """UmiakError if samples had no label that need one."""

    def tables(self) -> Mapping[str, Opened]:
        """All tables that a checkpoint of this model has; those that nobody has used yet are made."""

    def refresh(self) -> None:
        """The tables have changed under the model: take them over."""

    def restore(self) -> None:
        """The same after a checkpoint was loaded."""

    def takes_weights(self, path: str, manifest: Manifest | None = None) -> bool:
        """Whether a checkpoint is one that can't be loaded as it is, but by `take_weights`. UmiakError if by neither. ``manifest``: its
        own, if it was read already."""

    def take_weights(self, path: str) -> None:
        """Begin with the weights of such a checkpoint, without what its optimizer remembers. Every trainer calls it."""

    def write_weights(self, checkpoint: str) -> None:
        """Files for other programs into the directory of a checkpoint. The first trainer calls it."""

    def export(
        self,
        path: str,
        checkpoint: str,
        *,
        feeds: Sequence[str] = (),
        fetches: Sequence[str] = (),
        sample: Callable[[], Batch | None],
    ) -> None:
        """Write an inference model as a checkpoint has it, and compare its answers about ``sample`` with the model's."""


class Framework(Protocol):
    """What models are written with."""

    def engine(self, wanted: EngineRequest) -> Engine:
        """An engine for a model."""

    def examine(
        self, model: str, options: EngineOptions, hyper_parameters: JsonMapping, where: str | None
    ) -> ModelFindings:
        """What is to be known about a model before it is trained. UmiakError with what would stop it."""

    def can_use(self, device: Device) -> bool:
        """Whether this machine and this build can compute on it."""

    def group(self, *, on_cpu: bool) -> Group:
        """All trainers of a job without parameter servers."""


@runtime_checkable
class ScoringEngine(Protocol):
    """An engine that gives one number for each sample, the higher the likelier: of a click its logit."""

    def scores(self, batch: Batch) -> AnyArray: ...


@runtime_checkable
class AheadEngine(Protocol):
    """An engine that finds out which rows a batch will look up, so that they come with the end of the step before."""

    @property
    def reads_ahead(self) -> bool:
        """Whether its job does that."""

    def expect(self, batch: Batch | None) -> None:
        """The batch that is learned behind the one that comes now; None: it is not known."""


@runtime_checkable
class RatedEngine(Protocol):
    """An engine whose learning rate is the config's, not of the model's own code."""

    def reduce_rate(self, factor: float) -> None:
        """Multiply it by this from the next step on, beside what the schedule's steps say."""
