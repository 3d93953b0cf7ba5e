"""The text of a config to values, whichever of the two layouts it is in. A decider.

    read("workspace: ./\nmode: train\n...", source="config.yaml", directory=".", library=...) -> Reading

PaddleRec 1.8.5 has lists of runners, phases and datasets that call one another by name. The newer layout has one mapping
``runner``; it is translated into the older one (`umiak.train.config.flat`), so that there is one set of rules and one set of values.
Every problem is found in one reading, each with its file, line and column.
"""

from __future__ import annotations

from umiak.core.problem import Problem
from umiak.core.value import value
from umiak.schema import sections, yaml_tree
from umiak.schema.findings import Findings, Place
from umiak.schema.yaml_tree import Scalar, Section, kind_of
from umiak.train.config import flat, keys, optimizers, overrides, tables, workspace
from umiak.train.config.paddlerec import dotted
from umiak.train.config.paddlerec.directory import ModelDirectory, ModelForm, is_dygraph
from umiak.train.config.runners import dangling, runner
from umiak.train.config.values import Dataset, DatasetType, DivideBy, EmbeddingTables, Phase, Runner, TrainConfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from umiak.schema.keys import Key
    from umiak.schema.sections import Said
    from umiak.train.config.values import Free
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
        dataset_names, phase_names, runner_names = (self._names(top, what) for what in ("dataset", "phase", "runner"))
        datasets = self._entries(top, "dataset", keys.DATASET, self._dataset)
        phases = self._entries(
            top, "phase", keys.PHASE, lambda said, name, findings: _phase(said, name, dataset_names, findings)
        )
        runners = self._entries(
            top, "runner", keys.RUNNER, lambda said, name, findings: runner(said, name, phase_names, findings)
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
        there = {each.name for each in settled_phases}
        settled_runners = tuple([each for each in settled_runners if there.issuperset(_phases_of(each))])
        hyper = top.node("hyper_parameters")
        # A model of PaddleRec 2 makes its optimizer and its tables itself.
        learned = optimizers.read(hyper if isinstance(hyper, Section) and not self.is_open else None, self.findings)
        said = top.node("table_parameters")
        named = said if isinstance(said, Section) and not self.is_open else None
        parameters = tables.read(named, self.findings)
        tables.check_schedule(parameters, learned.schedule, named, self.findings)
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
            debug=top.truth("debug"),
        )

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
        made = Dataset(
            name=name,
            data_path=self.library.relative(said.text("data_path") or ""),
            batch_size=said.get("batch_size") or 1,
            type=DatasetType(said.get("type")),
            sparse_slots=said.names("sparse_slots"),
            dense_slots=tuple(said.get("dense_slots") or ()),
            padding=said.number("padding"),
            data_converter=said.text("data_converter"),
            reader_class=said.text("reader_class_name") or "",
            reader_processes=said.number("num_workers"),
            extra_slots_allowed=said.truth("extra_slots_allowed"),
            bad_lines=said.number("bad_lines"),
            drop_last=said.truth("drop_last"),
            divide_by=DivideBy(said.get("divide_by")),
            ready_batches=said.truth("ready_batches"),
        )
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
        if not made.has_slots and not made.data_converter and not said.wrong & slots:
            findings.problem(
                "UM-CONFIG-022",
                said.key_place("name"),
                f"{said.label}: nothing says how a line becomes a sample",
                hint="declare sparse_slots and dense_slots, or name a reader with data_converter",
            )
        return made


def _phases_of(made: Runner) -> tuple[str, ...]:
    return (*made.phases, made.evaluation.phase) if made.evaluation else made.phases


def _reached(names: Iterable[str], known: tuple[str, ...]) -> set[str]:
    """What is used, by its names; where one of them leads nowhere, any may have been meant."""
    reached = {*names}
    return reached if reached and reached <= {*known} else {*known}


def _phase(said: Said, name: str, datasets: tuple[str, ...], findings: Findings) -> Phase:
    dangling(said, "dataset_name", datasets, "dataset", findings)
    return Phase(
        name=name,
        model=said.text("model") or "",
        dataset_name=said.text("dataset_name") or "",
        thread_num=said.number("thread_num"),
        shuffle_filelist=said.truth("shuffle_filelist"),
        gradient_scale=said.number("gradient_scale_strategy"),
    )


def _is_ancient(root: Section) -> bool:
    """Whether this is how PaddleRec wrote configs before its 1.8.5, or for a while before its 2.1."""
    if root.get("runner") is not None:
        return False
    entries = [root.get(name) for name in ("train", "evaluate", "dygraph", "static")]
    return any(entry is not None and isinstance(entry.node, Section) for entry in entries)
