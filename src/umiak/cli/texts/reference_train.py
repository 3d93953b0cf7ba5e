"""The reference pages of `umiak train` and of its configs as Markdown, made from the tables of flags and of keys. A decider.

``make docs`` writes the pages; a test compares them with what is there.
"""

from __future__ import annotations

from umiak.cli.texts.help_text import default, spelling
from umiak.cli.texts.help_train import EXAMPLES
from umiak.cli.train_flags import FLAGS
from umiak.schema import kinds
from umiak.schema.keys import Key, known
from umiak.train.config import flat_keys, keys, optimizers, tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MADE = "<!-- Made by `python docs/generate.py`. Change the tables of {tables}, not this file. -->\n"

TRAIN = """\
# `umiak train`

```
umiak train -m CONFIG [flags]
```

Reads a [config](config.md), checks all of it, makes a plan: which runner is run by whom, on which files, with which strategy; and does it. Where several
processes are needed on this machine it starts them; on a node of a cluster it is the trainer or the server that its environment says.
`python -m pip install '.[train]' paddlepaddle` in a checkout brings what is needed; [other ways](../how-to/install.md).

```console
$ umiak train -m config.yaml                       # all runners of `mode`, one after another
$ umiak train -m config.yaml -o mode=ps_cluster    # another runner
$ umiak train -m config.yaml --resume              # resume from the latest checkpoint
```

## What it leaves

In `--run_dir`, below the name of the runner:

| file | what it has |
|---|---|
| `metrics.jsonl` | a line of JSON for every report, epoch and checkpoint |
| `curve.svg` | loss and metrics over samples, evaluations as dots |
| `outcome.json` | how it ended: `stopped`, `resumable`, and the newest checkpoint `saved` |
| `log/` | the output of every worker, where it started several |
| `visualdl/`, `tensorboard/` | scalars, where these packages are installed |

Epochs are counted from 1 in what a person reads (`epoch 1/4`), and from 0 in names and data, as PaddleRec's: the end of the first epoch is the
checkpoint `0`, a place within it `epoch_0_batch_200`, and the `epoch` of its lines in `metrics.jsonl` is 0. The line `epoch 1/4 saved: increment_dnn/0` has
both. Batches, days' passes and `N of M epochs` are numbers of what is done, so they begin at 1.

A run from scratch, without `--resume`, moves what an earlier run of the same runner has saved into `previous-1`, `previous-2`, ... below the same path, so that
checkpoints of two runs never stand beside each other. With early stopping `best` is a link to the best checkpoint, which `keep_checkpoints` does not remove.
One run at a time writes to a run directory.

## When it is stopped

SIGTERM, or Ctrl-C, lets it finish the step, save a checkpoint below `save_step_path` or `save_checkpoint_path`, and end with
[143 or 130](exit-status.md), since it is not done; `outcome.json` says `resumable`. A second one does not wait. `--resume` goes on from the newest whole checkpoint of the runner, with the same batches that would have come next; in sync, alone and
collectively the result is the same, bit for bit, as without the interruption.

## Compare with plain Paddle

```console
$ umiak train -m config.yaml --compare plain
loss of step 8: umiak 0.69145435, plain Paddle 0.69145435
equal: after each of 8 steps 9 parameters and buffers and the loss of umiak (alone) are plain Paddle's within 1e-05; the largest difference is 3e-08
```

It answers whether a config with a `dygraph_model.py` learns here what it learns in plain Paddle, in the way that the config, or `-o`, asks for: alone, with servers, collectively.

1. umiak trains `--steps` steps in processes of its own, as without the flag; each trainer's batches and losses are recorded, and all parameters and buffers before the first step and
   after each. Nothing is saved, and no checkpoint is read or moved.
2. A plain loop, in another process, does the same with the recorded batches and first values: `train_forward`, `backward`, `step`, `clear_grad`, as PaddleRec's trainer has it. It imports
   Paddle and your model, and nothing of the trainer that it is compared with. With several trainers it adds up the gradients of their batches, each by its share, before one step of the optimizer,
   which is what [sync](../explanation/ps-strategies.md#sync) promises. Each trainer has its own running statistics and random generators; the first one's statistics are compared.
3. Numbers are compared by name. A parameter differs if one of its numbers is further apart than `--tolerance` (times its largest number, if that is above 1), or than a hundredth of the way that the
   parameter has gone since the start, so that small learning rates hide nothing.

Where something differs, plain Paddle runs twice more. The last line says which it is:

| verdict | | status |
|---|---|---|
| `equal` | every parameter, every buffer and the loss, after each step | 0 |
| `rounding` | plain Paddle differs from itself as much, if its parameters are changed in their last digit before each step. For example a gradient that is zero but for rounding, before a normalization: Adam makes steps of full size of it | 4 |
| `sparse gradients` | plain Paddle agrees if its Adam has one epsilon. With `sparse=True` on CPUs, and without `lazy_mode`, it divides rows that have no gradient in a step by `sqrt(v) + epsilon`, and all others by `sqrt(v) + epsilon * sqrt(1 - beta2 ** t)`, as for dense gradients and on GPUs. umiak divides all rows by the latter | 4 |
| `not deterministic` | plain Paddle differs from itself with the same seed and batches | 4 |
| `differs` | none of these: the table has each parameter, the first step behind which it differs, the largest absolute and relative difference, and how far plain Paddle's has moved. Remarks say what umiak does otherwise on purpose | 4 |

Several trainers that do not wait for one another (async, half_async, geo, hybrid) differ from run to run: that is an error. A single trainer can be compared in every strategy. `--json` prints everything as one object.

`--compare static` does the same with the `static_model.py` beside a config, which `umiak train` itself does not train. umiak's side is a script in the manner of PaddleRec's `static_ps_trainer.py`, with fleet's calls:
its embeddings are [tables](../how-to/move-from-fleet.md), alone in its own process, with `runner.sync_mode: sync` on `server_num` servers. The plain side is Paddle's executor with the program as the model builds it. A
`sparse_embedding`, which Paddle looks up on servers only, is a plain embedding there; functions that Paddle 3 has lost for older programs are umiak's on both sides, which a note says. Both read with the config's
`RecDataset`, and plain Paddle begins with umiak's first values. The padding row of a sparse embedding is not compared: Paddle's executor moves it, though it always reads as zeros.

What it says about [PaddleRec's own models](zoo.md).

## Online learning

With `class: online_learning` data comes in directories `data_path/YYYYMMDD/HHMM`, one for each `split_interval` minutes, and a pass is `split_per_pass` of
them. For every pass of every day:

1. It is waited for, if there is a `data_donefile`. Without one, directories that are missing are told, and a pass without any data is an error.
2. It is evaluated with the model as it is, so that the metrics are of data that the model has not seen; not before anything was learned.
3. It is trained on once, and told with both, as an event `pass`.
4. After every `save_delta_frequency` passes a delta is published; at the end of a day rows of tables with [table parameters](config.md#table-parameters)
   decay and are evicted, and a base is published instead.
5. After every `checkpoint_per_pass` passes, and after the last one, a checkpoint is saved.

Passes are counted from the beginning of the run. `--resume` begins behind the last directory that was trained on: with a later `end_day` a run goes on, and
with a later `start_day` it leaves days out. SIGTERM while it waits saves what is not saved yet.

Inference models are [checkpoints](checkpoints.md) below `save_inference_path`, which the servers' `load` and `python -m umiak.ps.export` read:

| directory | what it has | when |
|---|---|---|
| `DAY/base` | rows whose score is at least `base_threshold` | at the end of a day |
| `DAY/base-0` | the same | before the first pass, with `save_first_base` |
| `DAY/delta-PASS` | of these, rows that have gained at least `delta_threshold` since the last base or delta | every `save_delta_frequency` passes |
| `DAY/batch` | all rows, to train on from; rows grow a day older with it | at the end of a day, where there are table parameters |

Tables without table parameters are in each of them as a whole, and so are the dense parameters. `donefile.jsonl` beside the days has a line of JSON for each
model, when it is whole: `day`, `pass`, `kind`, `path` from this file on, and `time` in seconds since 1970. A run that is resumed may publish a
model again: its later line counts.
"""

DUTIES = """\
## What this process does

A runner's class and the environment decide it; `--explain` says it in its line `who`. As data it is `role`.

| role | when |
|---|---|
| `alone` | Class `train` on one device, class `infer`, or one trainer without servers. |
| `launcher` | Workers have yet to be started on this node: class `local_cluster_train`, several devices, or a node of a [platform](platforms.md) whose workers are not there yet. |
| `trainer`, `server` | This process was started as one: `UMIAK_ROLE`, or `TRAINING_ROLE` with `PADDLE_PSERVERS_IP_PORT_LIST`, `PADDLE_TRAINERS_NUM`, and `PADDLE_TRAINER_ID` or `POD_IP` and `PADDLE_PORT`. |
| `idle` | Class `infer` in a job of several: the first trainer evaluates. |
| `outside` | Class `cluster_train`, and this is not a node of a cluster. |

`PADDLE_PADDLEREC_ROLE=WORKER` says that this is a node; it is an error then if nothing says which one. `PADDLEREC_CLUSTER_TYPE=MPI` says that each node has
[its own part of the data](training-data.md#nodes-with-data-of-their-own).

## As data

`--explain --json` prints one object with `plan`, `problems` and `warnings`, `--check --json` the last two. `plan.runs` has an entry for each
runner: its `process_group`, with the `role` of this process in it, and its `phases`. A problem has `code`,
`what`, `why`, `hint` and `where`, which is `file:line:column` or an override. The exit status is 2 if there are problems.
"""

CONFIG = """\
# Configs

A config is a YAML file in one of two layouts: that of PaddleRec 1.8.5, with lists of runners, phases and datasets that call one another
by name, or that of newer PaddleRec, with one mapping `runner`. Both come to the same values, and `umiak train -m config.yaml --explain`
shows them.

```yaml
workspace: "./"
mode: [ps_cluster]

runner:
- name: ps_cluster
  class: cluster_train
  epochs: 4
  device: cpu
  fleet_mode: ps
  distribute_strategy: async
  save_checkpoint_path: "increment_dnn"
  phases: [phase1]

phase:
- name: phase1
  model: "{workspace}/model.py"
  dataset_name: train_data

dataset:
- name: train_data
  batch_size: 512
  data_path: "{workspace}/train_data"
  sparse_slots: "click 1 2 3"
  dense_slots: "price:1"
```

## How a config is read

- All mistakes are reported at once, each with its line and column, and with the nearest word that is known. Nothing is ignored in silence: a key
  without effect is a warning.
- A key that is there twice is a warning; the last one counts.
- What is wrong with a runner that `mode` does not name, or with a phase or a dataset that no such runner uses, is a warning too.
- `null`, an empty text and an empty list count as not set.
- Words such as `cpu`, `train` and `DataLoader` may be written in small or capital letters.
- A number is a name as well: `sparse_slots: 1` is a slot named 1. `on`, `yes` and the like are truths to YAML; quote them to make
  them names.
- `1e-3` is a number, though to PyYAML it is text.
- `{workspace}` stands for the workspace in every text. Quote a text that begins with it.
- `-o runner.epochs=1` says something else than the file, for every runner; `-o runner.ps_cluster.epochs=1` for one of them, `-o
  hyper_parameters.optimizer.class=SGD` deeper down. Values are YAML, and are checked like those of the file.

## The whole
"""

RUNNER_TEXT = """\
## Runner

Other than with PaddleRec 1.8.5, `class` and `device` have defaults, `local_cluster_train` heeds `fleet_mode`, collective training is
allowed on the CPU, several phases are run in every mode, and the number of trainers is not limited by the number of files.
"""

OPTIMIZER_TEXT = """\
## Optimizer

What `hyper_parameters.optimizer` may say, for the dense parameters and for every embedding that says nothing else about itself. The other keys of
`hyper_parameters` are the model's.
"""

TABLES_TEXT = """\
## Table parameters

`table_parameters` has a mapping for each embedding table whose rows are to count shows and clicks, by the name that the model has for it: `embedding`,
if it gives none. Other tables are as they were.

```yaml
table_parameters:
  embedding:
    accessor:
      embedx_dim: 8
      embedx_threshold: 10
      embed_sgd_param: {name: SparseAdaGradSGDRule, adagrad: {learning_rate: 0.05, initial_g2sum: 3.0}}
      embedx_sgd_param: {name: SparseAdaGradSGDRule, adagrad: {learning_rate: 0.05, initial_g2sum: 3.0}}
      ctr_accessor_param: {nonclk_coeff: 0.1, click_coeff: 1.0, delete_threshold: 0.8}
```

- A model is given rows of the dimension that it asks for, and need not know: the first number of a row comes with its id, and the others, its wide part, are
  zeros until the id's score, `click_coeff` x clicks + `nonclk_coeff` x (shows - clicks), is `embedx_threshold`.
- An id is shown with every sample that is trained on and has it, and clicked if the label is above 0: the first label that the model is evaluated by.
- Rows begin and learn as `embed_sgd_param` and `embedx_sgd_param` say, not as the optimizer and not as the model says. Their gradients are those of
  the sum over the samples of a step, not of the mean, as in Paddle; with `show_scale` they are divided by the shows.
- At the end of a day of [online learning](train.md#online-learning) shows and clicks decay, and rows are evicted. With other classes of runners no day ends.
- `geo` can't train such tables.
"""

ACCESSOR_TEXT = """\
Below `accessor`:
"""

COUNTS_TEXT = """\
Below `ctr_accessor_param`:
"""

RULES_TEXT = """\
### Rules of rows

Below `embed_sgd_param` and `embedx_sgd_param`:
"""

RULE_TEXT = """\
Below `naive`, `adagrad` and `adam`:
"""

NEWER = """\
## The newer layout

A config whose `runner` is a mapping, and that has neither `phase` nor `dataset`, is in the newer layout. It becomes a runner, a phase and a
dataset, all named `train`, and as many named `infer` if it says `infer_load_path`. A meaning in backticks is the key above that a
key stands for. Such a config does not say where it is run: with `sync_mode` or `use_fleet` a process that is part of a cluster
works with the others, and one that is not trains alone.
"""

NO_EFFECT = """\
### Known, but without effect

These keys lead to a warning if they ask for something.
"""

SETTLED = """\
### Accepted, not required

What these keys ask for is done anyway, or in another way.
"""

REFUSED = """\
### Known, but refused

These keys are errors, because leaving them out silently would train something else than what was asked for.
"""

EDITOR = """\
## In an editor

A [JSON schema](https://json-schema.org) of configs, made from the tables above, lets editors complete keys, explain them and mark what is wrong. Write it
beside `config.yaml`:

```sh
umiak train --schema > config.schema.json
```

and let this be the first line of `config.yaml`, for every editor that runs the YAML language server (VS Code with its YAML extension, Neovim, Emacs, ...):

    # yaml-language-server: $schema=config.schema.json

JetBrains' editors ask for the file under *JSON Schema Mappings*. The configs that come with umiak name the file of their own installation,
[config.schema.json](../../src/umiak/train/config.schema.json). The schema knows one key at a time; `umiak train -m config.yaml --check` knows how they
belong together, and looks at the data.
"""

PYTHON = """\
## From Python

`umiak.train.config.load.load("config.yaml")` finds and reads a config, and returns its source and a `Reading`: `config`, or `problems`, and
`warnings`. `umiak.train.config.writing.plain(config)` is the same config as plain data in the older layout.
"""


def train_reference() -> str:
    """The page of the command."""
    examples = "\n".join(["```sh", *(f"{example:<50}# {meaning}" for example, meaning in EXAMPLES), "```", ""])
    rows = ["## Flags", "", "| flag | default | environment | meaning |", "|---|---|---|---|"]
    for flag in FLAGS:
        variables = ", ".join(f"`{name}`" for name in flag.env)
        rows.append(f"| {_code(spelling(flag))} | {_code(default(flag))} | {variables} | {_cell(flag.help)} |")
    return "\n".join([MADE.format(tables="flags"), TRAIN, examples, *rows, "", DUTIES])


def config_reference() -> str:
    """The page of configs."""
    newer = [key for key in flat_keys.FLAT if known(key)]
    return "\n".join(
        [
            MADE.format(tables="keys"),
            CONFIG,
            _table(keys.GLOBAL),
            RUNNER_TEXT,
            _table(key for key in keys.RUNNER if not key.refused),
            REFUSED,
            _reasons(key for key in keys.RUNNER if key.refused),
            "## Phase\n",
            _table(keys.PHASE),
            "## Dataset\n",
            _table(keys.DATASET),
            OPTIMIZER_TEXT,
            _table(key for key in optimizers.OPTIMIZER if known(key)),
            SETTLED,
            _reasons(key for key in optimizers.OPTIMIZER if key.settled),
            "## Schedule\n",
            _table(optimizers.SCHEDULE),
            TABLES_TEXT,
            _table(key for key in tables.TABLE if known(key)),
            ACCESSOR_TEXT,
            _table(key for key in tables.ACCESSOR if known(key)),
            COUNTS_TEXT,
            _table(key for key in tables.COUNTS if known(key)),
            RULES_TEXT,
            _table(tables.SGD),
            RULE_TEXT,
            _table(tables.RULE),
            SETTLED,
            _reasons(key for key in (*tables.TABLE, *tables.ACCESSOR, *tables.COUNTS) if key.settled),
            NEWER,
            _table(flat_keys.FLAT_GLOBAL),
            _table(newer),
            NO_EFFECT,
            _reasons(key for key in flat_keys.FLAT if key.ignored),
            SETTLED,
            _reasons(key for key in flat_keys.FLAT if key.settled),
            EDITOR,
            PYTHON,
        ]
    )


def _table(table: Iterable[Key]) -> str:
    rows = ["| key | kind | default | meaning |", "|---|---|---|---|"]
    for key in table:
        origin = f" *({key.origin.value})*" if key.origin else ""
        rows.append(f"| `{key.name}` | {_kind(key)} | {_default(key)} | {_cell(key.meaning)}{origin} |")
    return "\n".join([*rows, ""])


def _reasons(table: Iterable[Key]) -> str:
    rows = ["| key | why |", "|---|---|"]
    rows += [f"| `{key.name}` | {_cell(_sentence(key.refused or key.ignored or key.settled))} |" for key in table]
    return "\n".join([*rows, ""])


def _kind(key: Key) -> str:
    if key.kind is kinds.CHOICE:
        return ", ".join(f"`{word}`" for word in key.choices)
    least = f", {key.least} or more" if key.least is not None else ""
    also = "".join(f", or {number}" for number in key.also)
    return f"{_cell(key.kind.phrase)}{least}{also}"


def _default(key: Key) -> str:
    if key.required:
        return "required"
    if key.default_said:
        return key.default_said
    if key.default is None:
        return ""
    return f"`{str(key.default).lower() if isinstance(key.default, bool) else key.default}`"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].removesuffix('.')}."


def _code(text: str) -> str:
    return f"`{_cell(text)}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
