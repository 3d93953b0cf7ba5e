"""The text of a config to values, whichever of the two layouts it is in. A decider.

    read("workspace: ./\nmode: train\n...", source="config.yaml", directory=".", library=...) -> Reading

PaddleRec 1.8.5 has lists of runners, phases and datasets that call one another by name. The newer layout has one mapping
``runner``; it is translated into the older one (`umiak.train.config.flat`), so that there is one set of rules and one set of values.
Every problem is found in one reading, each with its file, line and column.
"""

from __future__ import annotations

import posixpath

from umiak.core.problem import Problem
from umiak.core.value import replace, value
from umiak.schema import sections, yaml_tree
from umiak.schema.findings import Findings, Place
from umiak.schema.settings import filled
from umiak.schema.yaml_tree import Scalar, Section, kind_of
from umiak.train.config import flat, keys, optimizers, overrides, tables, workspace
from umiak.train.config.evaluating import settings as evaluation
from umiak.train.config.objectives import retrieval
from umiak.train.config.objectives import settings as objective
from umiak.train.config.objectives.retrieval import Retrieval
from umiak.train.config.objectives.settings import Objective
from umiak.train.config.paddlerec import dotted
from umiak.train.config.paddlerec.directory import ModelDirectory, ModelForm, is_dygraph
from umiak.train.config.runners import dangling, runner
from umiak.train.config.streams import settings as streams
from umiak.train.config.tabular import datasets as tabular
from umiak.train.config.values import Dataset, EmbeddingTables, Phase, Runner, RunnerClass, TrainConfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from umiak.schema.features.section import FeatureSection
    from umiak.schema.keys import Key
    from umiak.schema.sections import Said
    from umiak.train.config.evaluating.settings import EvaluationSettings
    from umiak.train.config.values import Free, Learning, TableParameters
    from umiak.train.config.workspace import Library

    T = TypeVar("T")


@value
class Reading:
    """What came of a text."""

    config: TrainConfig | None
    """None if there are problems."""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def read(
    text: str,
    *,
    source: str,
    library: Library,
    directory: str = ".",
    said: Iterable[str] = (),
    beside: ModelDirectory | None = None,
) -> Reading:
    """The config in a text. ``directory`` is where its file is, and ``beside`` what else is there; ``said`` are the overrides of the command line."""
    findings = Findings()
    root = yaml_tree.parse(text, source, findings)
    config = None
    if not findings.problems:
        config = _Config(source, library, directory, findings, beside or ModelDirectory()).read(root, said)
    return Reading(
        config=None if findings.problems else config,
        problems=findings.problems,
        warnings=findings.warnings,
    )


def written(text: str, made: TrainConfig, *, source: str, said: Iterable[str] = ()) -> Free:
    """A config in which nothing is wrong as plain data, as it is written, overrides and all: what ``envs.get_global_env`` knows."""
    findings = Findings()
    root = yaml_tree.parse(text, source, findings)
    if not isinstance(root, Section):
        return {}
    tree = workspace.filled_tree(overrides.apply(root, said, findings), made.workspace)
    plain: Free = yaml_tree.free(tree)
    if flat.is_flat(root) and any(is_dygraph(each.model) for each in made.phases):
        plain = dotted.retyped(yaml_tree.free(root), plain, said)
    return {**plain, "workspace": made.workspace}


class _Config:
    def __init__(
        self, source: str, library: Library, directory: str, findings: Findings, beside: ModelDirectory
    ) -> None:
        self.start = Place(source=source, line=1, column=1)
        self.library = library
        self.directory = directory
        self.findings = findings
        self.beside = beside
        self.features: FeatureSection | None = None
        self.has_features = False
        """Whether there is a section ``features:``, right or wrong."""
        self.is_open = False
        """Whether other code than ours reads any section: that of a model of PaddleRec 2."""

    def read(self, root: yaml_tree.Node | None, said: Iterable[str]) -> TrainConfig | None:
        if root is None or (isinstance(root, Scalar) and root.data is None):
            root = Section(place=self.start)
        if not isinstance(root, Section):
            self.findings.problem(
                "UM-CONFIG-013",
                root.place,
                f"a config is a mapping with keys such as workspace and mode, not {kind_of(root)}",
            )
            return None
        if _is_ancient(root):
            self.findings.problem(
                "UM-CONFIG-008",
                root.place,
                "a layout of PaddleRec that is older or newer than those that are read here",
                why="there is no runner in it",
                hint="write it with runner, phase and dataset, as in PaddleRec 1.8.5, or with one mapping runner, as in 2.1",
            )
            return None
        root = overrides.apply(root, said, self.findings)
        if flat.is_flat(root):
            self.is_open = flat.form(root, self.beside)[1] is ModelForm.DYGRAPH
            root = flat.translated(root, self.directory, self.findings, self.beside)
            if root is None:
                return None
        directory = self._workspace(root)
        filled = workspace.filled_tree(root, directory)
        assert isinstance(filled, Section)
        return self._config(filled, directory)

    def _workspace(self, root: Section) -> str:
        """The directory of the workspace; what is wrong with its type is told later."""
        entry = root.get("workspace")
        if entry is None or not isinstance(entry.node, Scalar) or isinstance(entry.node.data, bool | None):
            return "."
        text = entry.node.text.strip()
        if not workspace.is_dotted(text):
            return text or "."
        directory = self.library.directory(text)
        if directory is None:
            what, hint = self.library.missing(text)
            self.findings.problem("UM-CONFIG-002", entry.node.place, f"workspace: {what}", hint=hint)
        return directory or "."

    def _config(self, root: Section, directory: str) -> TrainConfig | None:
        top = sections.read(keys.GLOBAL, root, "config", self.findings, keys.UNKNOWN)
        self.features, self.has_features = self._features(top), top.said("features") or "features" in top.wrong
        dataset_names, phase_names, runner_names = (self._names(top, what) for what in ("dataset", "phase", "runner"))
        datasets = self._entries(top, "dataset", keys.DATASET, self._dataset)
        phases = self._entries(
            top,
            "phase",
            keys.PHASE,
            lambda said, name, findings: _phase(said, name, dataset_names, findings, self.library),
        )
        of_streams = {name for name, made, _ in datasets if made.stream is not None}
        streaming = {name for name, made, _ in phases if made.dataset_name in of_streams}
        runners = self._entries(
            top,
            "runner",
            keys.RUNNER,
            lambda said, name, findings: runner(said, name, phase_names, findings, streaming),
        )
        mode = dangling(top, "mode", runner_names, "runner", self.findings) if top.said("runner") else ()
        # What nobody runs is looked at as well, but it stops nobody.
        run = _reached(mode, runner_names)
        used = [each for name, made, _ in runners if name in run for each in _phases_of(made)]
        run_phases = _reached(used, phase_names)
        run_datasets = _reached([made.dataset_name for name, made, _ in phases if name in run_phases], dataset_names)
        settled_datasets = self._settled(datasets, run_datasets)
        settled_phases = self._settled(phases, run_phases)
        settled_runners = self._settled(runners, run)
        # What leads to something that was left out can't be run either.
        there = {each.name for each in settled_datasets}
        settled_phases = tuple([each for each in settled_phases if each.dataset_name in there])
        left = {each.name for each in settled_phases}
        settled_runners = tuple([each for each in settled_runners if left.issuperset(_phases_of(each))])
        old = tuple([each for each in settled_phases if posixpath.normpath(each.model) in self.beside.old])
        tabular.check_use(settled_datasets, settled_phases, settled_runners, old, top, self.findings)
        settled_datasets = _by_place(settled_datasets, old, self.beside)
        self.is_open = self.is_open or bool(old)
        learned, parameters = self._learned(top)
        measured = self._measured(top, _slots_of(settled_datasets, _evaluated(settled_runners, settled_phases)))
        wanted, retrieved = self._wanted(
            top, _slots_of(settled_datasets, {each.dataset_name for each in settled_phases})
        )
        if self.findings.problems:
            return None
        return TrainConfig(
            workspace=directory,
            mode=mode,
            runners=settled_runners,
            phases=settled_phases,
            datasets=settled_datasets,
            hyper_parameters=top.get("hyper_parameters") or {},
            learning=learned,
            table_parameters=parameters,
            embedding_tables=EmbeddingTables(top.get("embedding_tables")),
            evaluation=measured,
            objective=wanted,
            retrieval=retrieved,
            features=top.get("features") or {},
            debug=top.truth("debug"),
        )

    def _features(self, top: Said) -> FeatureSection | None:
        """How rows of tables become samples, if the config says it."""
        node = top.node("features")
        if node is None or "features" in top.wrong:
            return None
        from umiak.schema.features import reading  # not before it is needed

        return reading.read(node, self.findings, self.directory)

    def _measured(self, top: Said, there: dict[str, list[str]]) -> EvaluationSettings:
        """What evaluations measure; ``there``: the slots of the datasets that are evaluated on."""
        node = top.node("evaluation")
        asked = node if isinstance(node, Section) else None
        measured = evaluation.read(asked, self.findings, keys.UNKNOWN)
        if asked is not None:
            evaluation.check_slots(measured, there, asked, self.findings)
        return measured

    def _learned(self, top: Said) -> tuple[Learning, dict[str, TableParameters]]:
        """How everything learns. A model of PaddleRec makes its optimizer and its tables itself."""
        hyper = top.node("hyper_parameters")
        learned = optimizers.read(hyper if isinstance(hyper, Section) and not self.is_open else None, self.findings)
        said = top.node("table_parameters")
        named = said if isinstance(said, Section) and not self.is_open else None
        parameters = tables.read(named, self.findings)
        tables.check_schedule(parameters, learned.schedule, named, self.findings)
        return learned, parameters

    def _wanted(self, top: Said, there: dict[str, list[str]]) -> tuple[Objective, Retrieval]:
        """What training makes small besides the model's loss, and items that are found among all."""
        made, retrieved = Objective(), Retrieval()
        node, asked = top.node("objective"), top.node("retrieval")
        if isinstance(node, Section):
            made = objective.read(node, self.findings, keys.UNKNOWN)
            objective.check_labels(made, there, node, self.findings)
        if isinstance(asked, Section) and asked.entries:
            retrieved = retrieval.read(asked, self.features, self.findings, keys.UNKNOWN)
        for name, each, said in (("objective", made, node), ("retrieval", retrieved, asked)):
            if each and said is not None and self.is_open:
                self.findings.problem(
                    "UM-CONFIG-022",
                    said.place,
                    f"{name}: a model in PaddleRec's form has its loss, its tables and its optimizer to itself",
                    hint="say it in the model's code; this section is for models that are written with umiak.models, and those of the zoo",
                )
        return made, retrieved

    def _names(self, top: Said, what: str) -> tuple[str, ...]:
        """The names of a list's entries, also of those that are wrong otherwise."""
        found = []
        for node in top.get(what) or ():
            entry = node.get("name") if isinstance(node, Section) else None
            if entry is not None and isinstance(entry.node, Scalar):
                found.append(entry.node.text.strip())
        return tuple(found)

    def _entries(
        self, top: Said, what: str, table: tuple[Key, ...], make: Callable[[Said, str, Findings], T]
    ) -> list[tuple[str, T, Findings]]:
        """Every entry of a list: its name, its value, and what is wrong with it."""
        made: list[tuple[str, T, Findings]] = []
        seen: dict[str, Place] = {}
        for number, node in enumerate(top.get(what) or (), start=1):
            if not isinstance(node, Section):
                what_is = f"{what}: entry {number} must be a mapping with a name, not {kind_of(node)}"
                self.findings.problem("UM-CONFIG-013", node.place, what_is)
                continue
            named = node.get("name")
            name = named.node.text.strip() if named and isinstance(named.node, Scalar) else ""
            findings = Findings()
            said = sections.read(table, node, f"{what} {name or number}", findings, keys.UNKNOWN)
            if name in seen:
                self.findings.problem(
                    "UM-CONFIG-016",
                    said.place("name"),
                    f"there are two entries of {what} named {name}",
                    hint=f"the other one is in line {seen[name].line}; give one of them another name",
                )
            elif name:
                seen[name] = said.place("name")
            made.append((name, make(said, name, findings), findings))
        return made

    def _settled(self, entries: list[tuple[str, T, Findings]], used: set[str]) -> tuple[T, ...]:
        """The values of a list's entries, without those that are wrong and not used."""
        kept = []
        for name, made, findings in entries:
            is_spare = bool(name) and name not in used
            self.findings.add(findings, as_warnings=is_spare)
            if not (is_spare and findings.problems):
                kept.append(made)
        return tuple(kept)

    def _dataset(self, said: Said, name: str, findings: Findings) -> Dataset:
        made = filled(
            Dataset,
            said,
            findings,
            name=name,
            data_path=self.library.relative(said.text("data_path") or ""),
            batch_size=said.get("batch_size") or 1,
        )
        stream = streams.read(
            made.data_path,
            said,
            findings,
            keys.UNKNOWN,
            has_slots=made.has_slots,
            reader=made.data_converter,
            has_columns=bool(made.column_names),
        )
        made = replace(made, stream=stream)
        if self.features is not None and not made.has_slots and not made.data_converter:
            return tabular.dataset(made, self.features, said, findings)
        tabular.check_unused(said, findings)
        both = {slot.name for slot in made.dense_slots} & {*made.sparse_slots}
        if both:
            what = f"{said.label}: declared sparse and dense: {', '.join(sorted(both))}"
            findings.problem("UM-CONFIG-021", said.place("dense_slots"), what)
        if made.has_slots and made.data_converter:
            findings.warning(
                "UM-CONFIG-018",
                said.key_place("data_converter"),
                f"{said.label}: no effect: {said.spoken('data_converter')}",
                why="slots are declared, so lines are read without it",
            )
        slots = {"sparse_slots", "dense_slots", "data_converter"}
        if not made.has_slots and not made.data_converter and not said.wrong & slots and not self.has_features:
            findings.problem(
                "UM-CONFIG-022",
                said.key_place("name"),
                f"{said.label}: nothing says how a line becomes a sample",
                hint="declare sparse_slots and dense_slots, or name a reader with data_converter; for tables write `features:`",
            )
        return made


def _by_place(datasets: tuple[Dataset, ...], old: tuple[Phase, ...], beside: ModelDirectory) -> tuple[Dataset, ...]:
    """Datasets that are read by a class, as models of PaddleRec 1.8.5 take them."""
    read = {each.dataset_name for each in old}
    full = {each.dataset_name for each in old if posixpath.normpath(each.model) in beside.old_full_batches}
    return tuple(
        [
            replace(each, by_place=True, drop_last=each.drop_last or each.name in full)
            if each.name in read and not each.has_slots and each.features is None
            else each
            for each in datasets
        ]
    )


def _slots_of(there: tuple[Dataset, ...], seen: set[str]) -> dict[str, list[str]]:
    """What evaluations may ask for, of those datasets that say it."""
    return {
        each.name: [*each.sparse_slots, *(slot.name for slot in each.dense_slots), *tabular.extra_slots(each)]
        for each in there
        if each.name in seen and (each.has_slots or each.features)
    }


def _evaluated(runners: tuple[Runner, ...], phases: tuple[Phase, ...]) -> set[str]:
    """The datasets that are evaluated on."""
    names = {each.evaluation.phase for each in runners if each.evaluation}
    names |= {name for each in runners if each.kind is RunnerClass.INFER for name in each.phases}
    return {each.dataset_name for each in phases if each.name in names}


def _phases_of(made: Runner) -> tuple[str, ...]:
    return (*made.phases, made.evaluation.phase) if made.evaluation else made.phases


def _reached(names: Iterable[str], known: tuple[str, ...]) -> set[str]:
    """What is used, by its names; where one of them leads nowhere, any may have been meant."""
    reached = {*names}
    return reached if reached and reached <= {*known} else {*known}


def _phase(said: Said, name: str, datasets: tuple[str, ...], findings: Findings, library: Library) -> Phase:
    dangling(said, "dataset_name", datasets, "dataset", findings)
    return filled(
        Phase,
        said,
        findings,
        name=name,
        model=library.model(said.text("model") or ""),
        dataset_name=said.text("dataset_name") or "",
    )


def _is_ancient(root: Section) -> bool:
    """Whether this is how PaddleRec wrote configs before its 1.8.5, or for a while before its 2.1."""
    if root.get("runner") is not None:
        return False
    entries = [root.get(name) for name in ("train", "evaluate", "dygraph", "static")]
    return any(entry is not None and isinstance(entry.node, Section) for entry in entries)
