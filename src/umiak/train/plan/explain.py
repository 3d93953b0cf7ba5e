"""A plan as a tree of lines, for people. A decider; as data a plan is ``umiak.core.decode.encode(plan)``."""

from __future__ import annotations

from umiak.core.shown import without_password
from umiak.core.value import value
from umiak.train.config import days
from umiak.train.config.values import DivideBy, EmbeddingTables, FleetMode, NodeData, RunnerClass, Saving, Wire
from umiak.train.plan.plan import Plan, Run, RunRole, Stage, WorkerGroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.schema.features.section import FeatureSection
    from umiak.train.config.values import Dataset

SHOWN_SLOTS = 8


@value
class Branch:
    """A line with the lines below it."""

    text: str
    inner: tuple[Branch, ...] = ()


def text(made: Plan, *, plain: bool = False, tables: Mapping[str, Sequence[str]] | None = None) -> str:
    """The plan as lines; ``plain`` draws the tree with letters that every terminal has. ``tables``: what is known of the tables of a model's file."""
    root = Branch(
        text=f"{made.config}, workspace {made.workspace}",
        inner=tuple([run(each, made.embedding_tables, tables) for each in made.runs]),
    )
    return "\n".join([root.text, *_drawn(root.inner, "", plain)])


def run(
    each: Run,
    tables: EmbeddingTables = EmbeddingTables.SHARED,
    known: Mapping[str, Sequence[str]] | None = None,
) -> Branch:
    """One runner."""
    head = f"{each.name}: {each.kind.value} on {each.runner.device.value}"
    if each.runner.device_ids:
        head += f" {', '.join(map(str, each.runner.device_ids))}"
    lines = [_leaf(f"who: {who(each.group)} ({each.group.why})")]
    if each.group.role is RunRole.IDLE:
        return Branch(text=head, inner=tuple(lines))
    lines.append(_leaf(_how_long(each)))
    if each.group.role is not RunRole.SERVER:
        lines += [_stage(stage, tables, known or {}) for stage in each.stages]
        if each.group.is_divided:
            lines.append(_leaf(f"data: {_division(each.group)}"))
            lines += [
                _leaf(line) for line in dict.fromkeys(_by(stage.dataset, each.group) for stage in each.stages) if line
            ]
        if each.evaluation:
            lines.append(_evaluation(each, each.evaluation))
    if each.runner.init_model_path:
        lines.append(_leaf(f"{'starts from' if each.is_training else 'evaluates'}: {_start(each)}"))
    lines += [_leaf(f"saves: {line}") for line in _saves(each)]
    if each.is_training and not _saves(each):
        lines.append(_leaf("saves: nothing"))
    return Branch(text=head, inner=tuple(lines))


def who(group: WorkerGroup) -> str:
    """Who takes part, and what this process is."""
    if group.role is RunRole.ALONE:
        return "this process, alone"
    if group.role is RunRole.IDLE:
        return "another process; this one has nothing to do"
    if group.role is RunRole.TRAINER:
        servers = f" with {_counted(group.servers, 'parameter server')}" if group.servers else ""
        return f"trainer {group.rank} of {group.trainers}{servers}, {_together(group)}"
    if group.role is RunRole.SERVER:
        return f"parameter server {group.rank} of {group.servers} for {_counted(group.trainers, 'trainer')}, {_together(group)}"
    members = [_counted(group.trainers, "trainer")]
    if group.fleet_mode is FleetMode.PS:
        members.append(_counted(group.servers, "parameter server"))
    said = f"{' and '.join(members)}, {_together(group)}"
    if group.role is RunRole.OUTSIDE:
        return f"{said}; needs a cluster"
    here = [_counted(group.servers_here, "parameter server")] if group.servers_here else []
    if group.trainers_here is None:
        here.append("a trainer for each device")
    elif group.trainers_here:
        here.append(_counted(group.trainers_here, "trainer"))
    return f"{said}; started on this node: {', then '.join(here)}"


def _division(group: WorkerGroup) -> str:
    """Who reads what, and what becomes of a trainer that has nothing left to read."""
    whose = "each sample goes to one of them"
    if group.node_data is NodeData.OWN:
        trainers, whose = "its trainers", f"each node reads all that it has ({group.node_data_why})"
    else:
        trainers = "the trainers"
    if group.is_free:
        rest = "; one that runs out waits for the others" if group.node_data is NodeData.OWN else ""
        said = f"handed out in parts to {trainers}, each part to one that is free, {whose}{rest}"
    else:
        said = f"divided among {trainers}, {whose}; one that runs out takes part in the others' steps without samples"
    return f"each node's own part is {said}" if group.node_data is NodeData.OWN else said


def _by(dataset: Dataset, group: WorkerGroup) -> str:
    """How a reader class that opens files itself is divided."""
    if not dataset.reads_files:
        return ""
    every = "every N-th batch, of N trainers" if group.trainers is None else f"every {_ordinal(group.trainers)} batch"
    if dataset.divide_by is DivideBy.FILES:
        return f"dataset {dataset.name}: divided by whole files if these make even shares, else each trainer takes {every} of all files"
    why = "its code does more with its list of files than go through it, or the config says so"
    return f"dataset {dataset.name}: each trainer runs {dataset.reader_class} on all files and takes {every} ({why})"


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")


def _together(group: WorkerGroup) -> str:
    if group.strategy is None:
        return "collective"
    exchange = f", an exchange every {group.geo_steps} batches" if group.geo_steps else ""
    wire = ", bfloat16 on the wire" if group.wire is Wire.BFLOAT16 else ""
    return f"{group.strategy.value}{exchange}{wire}{'' if group.prefetch_rows else ', rows are not prefetched'}"


def _counted(count: int | None, what: str) -> str:
    if count is None:
        return f"all {what}s"
    return f"{count} {what}{'' if count == 1 else 's'}"


def _how_long(each: Run) -> str:
    told = f"a line every {_times(each.runner.print_interval, 'batch')}"
    shuffled = f"; shuffled in windows of {each.runner.shuffle:,} samples" if each.runner.shuffle else ""
    stream = next((stage.dataset.stream for stage in each.stages if stage.dataset.stream is not None), None)
    if stream:
        begin = stream.start_from.text if stream.start_from else "earliest"
        end = f", until {stream.until.text}" if stream.until else ", without an end"
        return f"a stream, from {begin}{end}, passes of up to {stream.pass_messages:,} messages{shuffled}; {told}"
    if each.runner.online:
        online = each.runner.online
        per_day = days.passes_per_day(online)
        span = f"{online.start_day} to {online.end_day}" if online.end_day > online.start_day else online.start_day
        wait = f", waiting for {online.data_donefile}" if online.data_donefile else ""
        minutes = online.split_interval * online.split_per_pass
        passes = f"{_times(per_day, 'pass')} of {minutes} minutes" if per_day > 1 else "one pass"
        return f"days: {span}, {passes} a day{wait}{shuffled}; {told}"
    if each.kind is RunnerClass.INFER:
        return f"once through the data; {told}"
    return f"epochs: {each.runner.epochs}{shuffled}; {told}"


def _stage(stage: Stage, tables: EmbeddingTables, known: Mapping[str, Sequence[str]]) -> Branch:
    threads = _counted(stage.threads, "thread")
    shuffle = ", files in another order in each epoch" if stage.shuffle_files else ""
    learned = [Branch(text="what is learned", inner=tuple([_leaf(line) for line in known.get(stage.model, ())]))]
    about = learned if stage.model in known else _tables(stage.dataset, tables)
    inner = (_dataset(stage.dataset), *about)
    return Branch(text=f"{stage.name}: {stage.model}, {threads}{shuffle}", inner=inner)


def _tables(dataset: Dataset, tables: EmbeddingTables) -> list[Branch]:
    """Which slots share rows. Only the model knows in which table it looks a slot up, and it is not run for this."""
    slots = dataset.sparse_slots
    if dataset.features:
        return _feature_tables(dataset.features, tables)
    if dataset.has_slots and len(slots) < 3:  # a label, and one that has nobody to share with
        return []
    if tables is EmbeddingTables.PER_SLOT:
        return [_leaf("embedding tables: one for each slot, equal ids of two slots are two rows")]
    which = f"slots {_shown(slots)}" if dataset.has_slots else "slots"
    return [
        _leaf(
            f"embedding tables: shared, equal ids of {which} are one row where the model looks these up in one table; "
            "`embedding_tables: per_slot` keeps slots apart"
        )
    ]


def _feature_tables(section: FeatureSection, tables: EmbeddingTables) -> list[Branch]:
    """Which features share rows: those that name one table."""
    if tables is EmbeddingTables.PER_SLOT:
        return [_leaf("embedding tables: one for each feature, whatever its `table` is")]
    named: dict[str, list[str]] = {}
    for each in section.fed:
        if each.has_ids:
            named.setdefault(each.table, []).append(each.name)
    shared = [f"{', '.join(names)} share rows" for names in named.values() if len(names) > 1]
    return [_leaf(f"embedding tables: each feature has rows of its own{''.join(f'; {each}' for each in shared)}")]


def _evaluation(each: Run, stage: Stage) -> Branch:
    epochs = each.runner.evaluation.patience if each.runner.evaluation else None
    patience = f"; ends after {_times(epochs, 'epoch')} without progress" if epochs else ""
    when = "every epoch"
    if _is_streaming(each) and each.runner.online:
        when = f"every {_times(each.runner.online.checkpoint_per_pass, 'pass')} and the last one"
    return Branch(text=f"evaluated after {when}: {stage.name}{patience}", inner=(_dataset(stage.dataset),))


def _rows(dataset: Dataset) -> list[str]:
    """Which rows of tables are samples."""
    lines = []
    before, after, share = dataset.rows_before, dataset.rows_after, dataset.rows_share
    if before is not None or after is not None:
        ends = [
            f"from {after:.15g}" if after is not None else "",
            f"before {before:.15g}" if before is not None else "",
        ]
        lines.append(f"rows whose time is {' and '.join(filter(None, ends))}")
    if share is not None:
        lines.append(
            f"{share[1] - share[0]:.4g} of the rows, by a hash of what is in them: from {share[0]:g} to {share[1]:g}"
        )
    if dataset.bad_rows:
        lines.append(f"up to {dataset.bad_rows:.4g} of the rows may be bad: they are left out, and counted")
    return lines


def _dataset(dataset: Dataset) -> Branch:
    lines = []
    if dataset.has_slots or dataset.features:
        if dataset.dense_slots:
            lines.append(_leaf(_slots("dense slot", [slot.spoken for slot in dataset.dense_slots])))
        if dataset.sparse_slots:
            lines.append(_leaf(_slots("sparse slot", [*dataset.sparse_slots])))
        lines += [_leaf(line) for line in _rows(dataset)]
    else:
        processes = f" in {dataset.reader_processes} processes" if dataset.reader_processes > 1 else ""
        lines.append(_leaf(f"read by: {dataset.reader_class} of {dataset.data_converter}{processes}"))
        if dataset.ready_batches:
            lines.append(_leaf("what it gives are batches: the config has no batch size"))
        elif dataset.drop_last:
            lines.append(_leaf("batches that are not full are left out (drop_last)"))
    batches = "" if dataset.ready_batches else f", batches of {dataset.batch_size}"
    how = "tables" if dataset.features else dataset.type.value
    how = how if dataset.stream is None else f"messages in {dataset.stream.format.value}"
    head = f"{dataset.name}: {dataset.data_path}{batches}, {how}"
    return Branch(text=head, inner=tuple(lines))


def _slots(what: str, names: list[str]) -> str:
    return f"{_counted(len(names), what)}: {_shown(names)}"


def _shown(names: Sequence[str]) -> str:
    return " ".join(names if len(names) <= SHOWN_SLOTS else [*names[: SHOWN_SLOTS - 1], "...", names[-1]])


def _start(each: Run) -> str:
    if each.is_training:
        return each.runner.init_model_path or ""
    if each.runner.infer_epochs is None:
        return f"{each.runner.init_model_path}, every checkpoint that is there"
    first, end = each.runner.infer_epochs
    span = f"epochs {first} to {end - 1}" if end - 1 > first else f"epoch {first}"
    return f"{each.runner.init_model_path}, {span}"


def _saves(each: Run) -> list[str]:
    lines = []
    within = "DAY/PASS_batch_B" if each.runner.online and not _is_streaming(each) else "epoch_E_batch_B"
    if each.runner.online and each.runner.checkpoint and _is_streaming(each):
        every = _times(each.runner.online.checkpoint_per_pass, "pass")
        lines.append(f"{each.runner.checkpoint.path}/PASS (from 0), every {every} and the last one, with its offsets")
    elif each.runner.online and each.runner.checkpoint:
        every = _times(each.runner.online.checkpoint_per_pass, "pass")
        lines.append(f"{each.runner.checkpoint.path}/DAY/PASS, every {every} and the last one")
    elif each.runner.checkpoint:
        lines.append(
            f"{each.runner.checkpoint.path}/EPOCH (from 0), every {_times(each.runner.checkpoint.every, 'epoch')} and the last one"
        )
    if each.runner.step_checkpoint:
        every = _times(each.runner.step_checkpoint.every, "batch")
        lines.append(f"{each.runner.step_checkpoint.path}/{within}, every {every}")
    if each.runner.save_minutes:
        where = (each.runner.step_checkpoint or each.runner.checkpoint or Saving(path="", every=1)).path
        minutes = "minute" if each.runner.save_minutes == 1 else f"{each.runner.save_minutes} minutes"
        lines.append(f"{where}/{within}, every {minutes}")
    if each.runner.online and each.runner.inference and not _is_streaming(each):
        every = _times(each.runner.online.save_delta_frequency, "pass")
        lines.append(
            f"inference models {each.runner.inference.path}: a delta every {every}, a base at the end of a day"
        )
    elif each.runner.inference:
        every = _times(each.runner.inference.every, "epoch")
        kept = each.runner.checkpoint
        within = "/inference" if kept is not None and kept.path == each.runner.inference.path else ""
        lines.append(
            f"inference models {each.runner.inference.path}/EPOCH{within} (from 0), every {every} and the last one"
        )
    if each.runner.result_dump_path:
        lines.append(f"{each.runner.result_dump_path}, the metrics of each batch")
    return lines


def _is_streaming(each: Run) -> bool:
    return any(stage.dataset.stream is not None for stage in each.stages)


def _times(count: int, unit: str) -> str:
    several = f"{unit}es" if unit in ("batch", "pass") else f"{unit}s"
    return unit if count == 1 else f"{count} {several}"


def _leaf(line: str) -> Branch:
    return Branch(text=line)


def _drawn(branches: tuple[Branch, ...], indent: str, plain: bool) -> list[str]:
    lines = []
    for number, branch in enumerate(branches):
        last = number == len(branches) - 1
        corner, going_on = ("`-" if last else "|-", "   " if last else "|  ")
        if not plain:
            corner, going_on = ("└─" if last else "├─", "   " if last else "│  ")
        shown = " ".join([without_password(word) if "://" in word else word for word in branch.text.split(" ")])
        lines.append(f"{indent}{corner} {shown}")
        lines += _drawn(branch.inner, indent + going_on, plain)
    return lines
