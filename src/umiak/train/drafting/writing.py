"""A draft as the text of a config, with comments. A decider."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone

from umiak.core.value import value
from umiak.train.drafting.guessing import Draft, Guess

SMALL = 100_000
"""Rows of a small table: smaller batches, larger steps."""
TRAINED = 0.9
"""Of the time, or of the rows, is trained on; the rest is evaluated on."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_WORDS = {"yes", "no", "true", "false", "null", "on", "off", "y", "n", "nan", "inf"}


@value
class DataFacts:
    """Of the data, what the config says about it."""

    named: str
    """What the person wrote."""
    path: str
    """From the directory of the config."""
    rows: int
    """About how many there are."""
    looked_at: int
    formats: tuple[str, ...]
    command: str
    directory: str
    column_names: tuple[str, ...] = ()


def config(draft: Draft, facts: DataFacts) -> str:
    """The whole text."""
    small = facts.rows < SMALL
    batch = 256 if small else 1024
    lines = [
        f"# Written by `{_comment(facts.command)}`, from {facts.looked_at:,} rows of about {facts.rows:,} ({', '.join(facts.formats)}).",
        "# It is a beginning: whatever stands here may be changed. Every key: docs/reference/config.md and docs/reference/features.md.",
        "#",
        f"#   umiak train -m {_comment(facts.directory)}                                     trains, and evaluates after every epoch",
        f"#   umiak predict -m {_comment(facts.directory)} --data FILES --out scores.parquet",
        "",
        "runner:",
        "  model: rank.deepfm               # or dnn, wide_deep, dcn, dcn_v2, xdeepfm, dlrm, fm: umiak.models.rank",
        f"  train_data_dir: {word(facts.path)}",
    ]
    if facts.column_names:
        lines.append(f"  column_names: [{', '.join(map(word, facts.column_names))}]")
    lines += _split(draft)
    lines += [
        f"  train_batch_size: {batch}",
        f"  infer_batch_size: {4 * batch}",
        f"  epochs: {10 if small else 5}",
        "  early_stop_patience: 2           # it ends after so many epochs without a better AUC",
        "  shuffle: 100000                  # samples of a window that is shuffled in each epoch",
        "  seed: 1",
        "  print_interval: 100",
        '  model_save_path: "{workspace}/output"   # after every epoch: output/0, output/1, ...',
        "  use_inference: true              # an inference model with each of them: what `umiak serve` takes",
        "  # sync_mode: async               # with parameter servers: with these two lines, two of each on this machine",
        "  # worker_num: 2",
        "",
        "features:",
        *_features(draft),
        "",
        "hyper_parameters:",
        "  optimizer:",
        "    class: Adam",
        f"    learning_rate: {0.002 if small else 0.001}",
        "  sparse_feature_dim: 16           # numbers in an id's vector",
        f"  fc_sizes: {[64, 32] if small else [400, 400, 400]}",
    ]
    if draft.group:
        lines += [
            "",
            "evaluation:",
            "  metrics:",
            f"  - {{name: gauc, group: {word(draft.group)}}}   # AUC within each {_comment(draft.group)}",
        ]
    return "\n".join([*lines, ""])


def _split(draft: Draft) -> list[str]:
    if draft.time is None or draft.time_range is None:
        return [
            f"  evaluate_share: {1 - TRAINED:.2g}              # rows that are not trained on, chosen by a hash of what is in them"
        ]
    first, last = draft.time_range
    border = first + TRAINED * (last - first)
    shown = (
        word(_moment(border))
        if draft.time_kind == "date" or draft.time_kind.startswith("timestamp")
        else f"{border:.0f}"
    )
    return [
        f"  evaluate_after: {shown}   # of {_comment(draft.time)}: earlier rows are trained on, these and later ones evaluated on"
    ]


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")


def _features(draft: Draft) -> list[str]:
    lines = [
        f"  label: {word(draft.label)}   # mean {draft.positives:.4g}",
        *([f"  time: {word(draft.time)}"] if draft.time else []),
        *([f"  group: {word(draft.group)}"] if draft.group else []),
        "  columns:",
    ]
    written = [_feature(each) for each in draft.features]
    width = min(70, max(map(len, written), default=0))
    lines += [
        f"  {text.ljust(width)}   # {_comment(each.why)}" for text, each in zip(written, draft.features, strict=True)
    ]
    if draft.left_out:
        lines.append("  # Left out:")
        lines += [f"  #   {_comment(each.name)}: {_comment(each.why)}" for each in draft.left_out]
    return lines


def _feature(each: Guess) -> str:
    keys = [("name", word(each.name)), ("kind", each.kind)]
    keys += [(key, word(text) if key == "of" else text) for key, text in each.keys]
    return f"- {{{', '.join(f'{key}: {text}' for key, text in keys)}}}"


def _comment(text: str) -> str:
    """On one line, whatever is in it."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def word(text: str) -> str:
    """A text as YAML has it."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())
