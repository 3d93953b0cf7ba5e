"""The newer layout, one mapping ``runner``, translated into the older one's lists. A decider.

    runner: {train_data_dir: data, train_batch_size: 512, epochs: 3, sync_mode: async}

becomes a runner, a phase and a dataset, all named ``train``, and as many named ``infer`` where there is a model to evaluate. Every
value keeps its place and the key that it was written with, so that complaints are about the file and not about its translation.
"""

from __future__ import annotations

from umiak.schema import sections
from umiak.schema.findings import Findings, Place, choices
from umiak.schema.yaml_tree import Entry, Listing, Scalar, Section
from umiak.train.config import flat_keys, keys, workspace
from umiak.train.config.paddlerec.directory import DYGRAPH, ModelDirectory, ModelForm
from umiak.train.config.streams.settings import is_stream
from umiak.train.config.values import DatasetType, DivideBy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.sections import Said
    from umiak.schema.yaml_tree import Node

TRAIN, INFER, EVALUATE = "train", "infer", "evaluate"
_EVALUATED = ("evaluate_data_dir", "evaluate_share", "train_until", "evaluate_after")
"""Keys that ask for an evaluation after every epoch."""
_DEVICES = ("gpu", "xpu", "npu")
_SAME_IN_RUNNER = ("print_interval", "seed", "runner_result_dump_path")
_TRAINED = {
    "epochs": "epochs",
    "model_save_path": "save_checkpoint_path",
    "geo_step": "geo_step",
    "worker_num": "worker_num",
    "server_num": "server_num",
    "node_data": "node_data",
    "wire": "wire",
    "prefetch_rows": "prefetch_rows",
    "shuffle": "shuffle",
    **{name: name for name in ("early_stop_patience", "early_stop_metric")},
    **{name: name for name in ("save_step_interval", "save_step_path", "save_minutes_interval", "keep_checkpoints")},
    **{name: name for name in keys.ONLINE},
}
_SAME_IN_DATASET = ("sparse_slots", "dense_slots", "padding", "num_workers")
_OF_TABLES = ("bad_rows", "column_names", "quoted_newlines")
_READER = "reader"
"""The module of a reader of PaddleRec 2 that the config does not name."""


def is_flat(root: Section) -> bool:
    """Whether a config is in the newer layout."""
    entry = root.get("runner")
    is_mapping = entry is not None and isinstance(entry.node, Section)
    return is_mapping and root.get("phase") is None and root.get("dataset") is None


def form(root: Section, beside: ModelDirectory) -> tuple[str, ModelForm]:
    """The file of a config's model, and in which form it is."""
    entry = root.get("runner")
    runner = entry.node if entry is not None else None
    named = runner.get("model") if isinstance(runner, Section) else None
    said = named.node.text.strip() if named is not None and isinstance(named.node, Scalar) else ""
    return beside.model(said or None)


def translated(root: Section, directory: str, findings: Findings, beside: ModelDirectory) -> Section | None:
    """The same config in the older layout. ``directory`` is where its file is."""
    model, is_written_as = form(root, beside)
    unknown = keys.OPEN if is_written_as is ModelForm.DYGRAPH else keys.UNKNOWN
    top = sections.read(flat_keys.FLAT_GLOBAL, root, "config", findings, unknown)
    entry = root.get("runner")
    assert entry is not None
    assert isinstance(entry.node, Section)
    if is_written_as is ModelForm.STATIC:
        named = entry.node.get("model")
        findings.problem(
            "UM-CONFIG-025",
            named.node.place if named else entry.place,
            f"the model is a static program: {model}",
            why=f"there is no {DYGRAPH} beside the config, and static programs are run by PaddleRec's own static trainers",
            hint="run it with `umiak launch --server_num 1 --trainer_num 1 tools/static_ps_trainer.py -m CONFIG` of PaddleRec's checkout",
        )
        return None
    said = sections.read(flat_keys.FLAT, entry.node, "runner", findings, unknown)
    made = _Translation(root, top, said, entry.node, directory, findings)
    made.model, made.is_dygraph, made.full_batches = model, is_written_as is ModelForm.DYGRAPH, beside.full_batches
    made.one_by_one = beside.one_by_one
    return made.root()


class _Translation:
    def __init__(
        self, root: Section, top: Said, said: Said, runner: Section, directory: str, findings: Findings
    ) -> None:
        self.old = root
        self.top = top
        self.said = said
        self.runner = runner
        self.workspace = top.text("workspace") or directory
        self.findings = findings
        self.model = ""
        self.is_dygraph = False
        self.full_batches = False
        self.one_by_one: tuple[str, ...] = ()
        modes = top.names("mode")
        for number, name in enumerate(modes):
            if name not in (TRAIN, INFER):
                node = top.node("mode")
                place = node.items[number].place if isinstance(node, Listing) else top.place("mode")
                hint = choices(name, (TRAIN, INFER))
                findings.problem("UM-CONFIG-015", place, f"config: there is no runner named {name}", hint=hint)
        trains = said.said("train_data_dir") or "train_data_dir" in said.wrong
        self.modes = tuple(name for name in modes if name in (TRAIN, INFER)) or (
            (INFER,) if said.said("infer_load_path") and not trains else (TRAIN,)
        )
        self.names = [TRAIN] if trains or TRAIN in self.modes else []
        if said.said("infer_load_path") or INFER in self.modes:
            self.names.append(INFER)
        self.evaluates = TRAIN in self.names and any(said.said(key) for key in _EVALUATED)
        """Whether training evaluates after every epoch."""

    def root(self) -> Section:
        place = self.runner.place
        phases = [*self.names, *([EVALUATE] if self.evaluates else [])]
        made: dict[str, Node] = {
            "workspace": self._made("workspace", self.workspace),
            "mode": Listing(place=self.top.place("mode"), items=tuple([self._word(name) for name in self.modes])),
            "runner": Listing(place=place, items=tuple([self._runner(name) for name in self.names])),
            "phase": Listing(place=place, items=tuple([self._phase(name) for name in phases])),
            "dataset": Listing(place=place, items=tuple([self._dataset(name) for name in phases])),
        }
        kept = [
            self.old.get(name)
            for name in ("hyper_parameters", "table_parameters", "evaluation", "objective", "features")
        ]
        # What is wrong with these was told already.
        right = [entry for entry in kept if entry is not None and isinstance(entry.node, Section)]
        right += self._retrieval()
        tables = self.old.get("embedding_tables")
        right += [tables] if tables is not None and self.top.said("embedding_tables") else []
        entries = [Entry(key=key, place=self.top.key_place(key), node=node) for key, node in made.items()]
        return Section(place=self.old.place, entries=(*entries, *right))

    def _retrieval(self) -> list[Entry]:
        """The catalogue, from the workspace."""
        entry = self.old.get("retrieval")
        if entry is None or not isinstance(entry.node, Section):
            return []
        items = entry.node.get("items")
        if items is None or not isinstance(items.node, Scalar) or not items.node.text:
            return [entry]
        path = workspace.below(items.node.text)
        node = Scalar(place=items.node.place, data=path, text=path)
        changed = Entry(key="items", place=items.place, node=node)
        entries = tuple([changed if each.key == "items" else each for each in entry.node.entries])
        section = Section(place=entry.node.place, entries=entries)
        return [Entry(key="retrieval", place=entry.place, node=section)]

    def _runner(self, name: str) -> Section:
        said = self.said
        entries = [self._named(name), self._entry("class", self._class(name)), self._device()]
        entries.append(self._entry("phases", name))
        if not said.said("seed") and "seed" not in said.wrong:
            entries.append(
                Entry(key="seed", place=said.place("seed"), node=_number(said.place("seed"), said.number("seed")))
            )
        entries += [self._moved(key, key) for key in _SAME_IN_RUNNER if said.said(key) or key in said.wrong]
        if name == INFER:
            entries += [self._moved("infer_load_path", "init_model_path")]
            entries += [self._moved(key, key) for key in ("infer_start_epoch", "infer_end_epoch") if said.said(key)]
            return self._section(entries)
        entries += [self._moved(old, new) for old, new in _TRAINED.items()]
        if self.evaluates:
            entries.append(self._entry("evaluate_phase", EVALUATE, next(key for key in _EVALUATED if said.said(key))))
        if self._class(name) == "cluster_train":
            place = self.runner.place
            node = Scalar(place=place, data=True, text="true")
            entries.append(Entry(key="alone_allowed", place=place, node=node))
        entries.append(self._moved(self._first("model_init_path", "warmup_model_path"), "init_model_path"))
        if said.truth("use_fleet") and said.said("sync_mode"):
            self.findings.problem(
                "UM-CONFIG-023",
                said.place("use_fleet"),
                f"runner: use_fleet is for collective training, sync_mode {said.text('sync_mode')} for parameter servers",
                hint="leave one of them out",
            )
        elif said.truth("use_fleet"):
            entries.append(self._entry("fleet_mode", "collective", "use_fleet"))
        elif said.said("sync_mode"):
            entries += [self._entry("fleet_mode", "ps", "sync_mode"), self._moved("sync_mode", "distribute_strategy")]
        if said.truth("use_inference"):
            names = ("save_inference_feed_varnames", "save_inference_fetch_varnames")
            entries += [
                self._moved("model_save_path", "save_inference_path"),
                *(self._moved(key, key) for key in names),
            ]
        return self._section(entries)

    def _class(self, name: str) -> str:
        said = self.said
        if name == INFER:
            return "infer"
        if said.said("start_day") or said.said("end_day") or is_stream(said.text("train_data_dir") or ""):
            return "online_learning"
        if not (said.truth("use_fleet") or said.said("sync_mode")):
            return "train"
        return "local_cluster_train" if said.said("worker_num") or said.said("server_num") else "cluster_train"

    def _device(self) -> Entry:
        chosen = [name for name in _DEVICES if self.said.truth(f"use_{name}")]
        if len(chosen) > 1:
            self.findings.problem(
                "UM-CONFIG-023",
                self.said.place(f"use_{chosen[1]}"),
                f"runner: several devices are chosen: {', '.join(f'use_{name}' for name in chosen)}",
                hint="let one of them be true",
            )
        return self._entry("device", chosen[0] if chosen else "cpu", f"use_{chosen[0]}" if chosen else "")

    def _phase(self, name: str) -> Section:
        model = self._entry("model", workspace.below(self.model), "model" if self.said.said("model") else "")
        own = f"{INFER if name == EVALUATE else name}_thread_num"
        threads = self._moved(self._first(own, "thread_num"), "thread_num")
        return self._section([self._named(name), model, self._entry("dataset_name", name), threads])

    def _dataset(self, name: str) -> Section:
        data = "train_data_dir" if name == TRAIN else self._evaluated_data(name)
        has_slots = self.said.said("sparse_slots") or self.said.said("dense_slots")
        kind = self.said.text("reader_type") or ""
        if self.is_dygraph and not has_slots:
            kind = DatasetType.REC_DATASET.value
        entries = [
            self._named(name),
            self._entry("type", kind, "reader_type"),
            self._below(data, "data_path"),
        ]
        size = f"{name}_batch_size"
        if name == EVALUATE or (name == INFER and self.has_features):
            size = self._first("infer_batch_size", "train_batch_size")
        is_ready = self.is_dygraph and not has_slots and not self.said.said(size) and size not in self.said.wrong
        if is_ready:  # PaddleRec's DataLoader takes what the reader gives for batches then
            place = self.runner.place
            entries += [
                Entry(key="batch_size", place=place, node=_number(place, 1)),
                self._truth("ready_batches", data=True),
            ]
        else:
            entries.append(self._moved(size, "batch_size"))
        entries += [self._moved(key, key) for key in _SAME_IN_DATASET if not self.has_features or self.said.said(key)]
        entries += self._rows(name)
        if name == TRAIN and self.said.said("train_stream"):
            entries.append(self._moved("train_stream", "stream"))
        if not has_slots and not self.has_features:
            reader = f"{INFER if name == EVALUATE else name}_reader_path"
            if self.said.said(reader) or not self.is_dygraph:
                entries.append(self._below(reader, "data_converter", ending=".py"))
            else:
                entries.append(self._entry("data_converter", workspace.below(f"{_READER}.py")))
            if self.said.said(reader) or self.is_dygraph:
                entries.append(self._entry("reader_class_name", "RecDataset"))
        if self.is_dygraph and not has_slots:
            dropped = self.said.truth("drop_last") if self.said.said("drop_last") else self.full_batches
            entries.append(self._truth("drop_last", data=dropped))
            reader_file = (self.said.text(reader) or _READER).removesuffix(".py").replace(".", "/")
            by_files = f"{reader_file}.py" in self.one_by_one
            said = self.said.text("divide_by") or (DivideBy.FILES if by_files else DivideBy.SAMPLES).value
            entries.append(self._entry("divide_by", said))
        return self._section(entries)

    @property
    def has_features(self) -> bool:
        """Whether rows of tables become samples."""
        return self.top.said("features") or "features" in self.top.wrong

    def _evaluated_data(self, name: str) -> str:
        """The key with the data of an evaluation: what is not there is taken from the training's files, by time or by share."""
        names = ("infer_data_dir", "test_data_dir")
        if name == EVALUATE:
            return self._first("evaluate_data_dir", "train_data_dir")
        parted = self.evaluates and not self.said.said("evaluate_data_dir")
        return self._first(*names, *(["train_data_dir"] if parted else []))

    def _rows(self, name: str) -> list[Entry]:
        """Which rows of tables: what is evaluated on is not trained on."""
        said, found = self.said, [self._moved(key, key) for key in _OF_TABLES if self.said.said(key)]
        if name == INFER and any(said.said(key) for key in ("infer_data_dir", "test_data_dir")):
            return found
        is_own = said.said("evaluate_data_dir")
        if name == TRAIN and (said.said("train_until") or said.said("evaluate_after")):
            found.append(self._moved(self._first("train_until", "evaluate_after"), "rows_before"))
        elif name != TRAIN and not is_own and (said.said("train_until") or said.said("evaluate_after")):
            found.append(self._moved(self._first("evaluate_after", "train_until"), "rows_after"))
        if said.said("evaluate_share") and not is_own:
            share = float(said.get("evaluate_share"))
            ends = (0.0, 1.0 - share) if name == TRAIN else (1.0 - share, 1.0)
            place = said.place("evaluate_share")
            items = tuple([Scalar(place=place, data=end, text=str(end)) for end in ends])
            found.append(
                Entry(
                    key="rows_share",
                    place=said.key_place("evaluate_share"),
                    node=Listing(place=place, items=items),
                    said_as="evaluate_share",
                )
            )
        return found

    # ---- small parts

    def _section(self, entries: list[Entry]) -> Section:
        return Section(place=self.runner.place, entries=tuple(entries))

    def _word(self, text: str, key: str = "") -> Scalar:
        place = self.said.place(key) if key else self.runner.place
        return Scalar(place=place, data=text, text=text)

    def _truth(self, key: str, *, data: bool) -> Entry:
        place = self.runner.place
        return Entry(key=key, place=place, node=Scalar(place=place, data=data, text=str(data).lower()))

    def _made(self, key: str, text: str) -> Scalar:
        return Scalar(place=self.top.place(key), data=text, text=text)

    def _named(self, name: str) -> Entry:
        return self._entry("name", name)

    def _entry(self, key: str, text: str, from_key: str = "") -> Entry:
        """A key with a text of ours, at the place of what it was made from."""
        place = self.said.key_place(from_key) if from_key else self.runner.place
        return Entry(key=key, place=place, node=self._word(text, from_key), said_as=from_key)

    def _first(self, *names: str) -> str:
        """The first of these keys that was said; if none was, the last."""
        return next((name for name in names if self.said.said(name) or name in self.said.wrong), names[-1])

    def _moved(self, old: str, new: str) -> Entry:
        """A key under its other name; if it was not said, just its name, for complaints."""
        node = self.said.node(old)
        if node is None:
            node = Scalar(place=self.runner.place, data=None, text="")
        return Entry(key=new, place=self.said.key_place(old), node=node, said_as=old, excused=old in self.said.wrong)

    def _below(self, old: str, new: str, ending: str = "") -> Entry:
        """A path from the workspace under its other name."""
        text = self.said.text(old)
        if text is None:
            return self._moved(old, new)
        path = text if text.endswith(ending) else f"{text.replace('.', '/')}{ending}"
        return self._entry(new, workspace.below(path), old)


def _number(place: Place, number: int) -> Scalar:
    return Scalar(place=place, data=number, text=str(number))
