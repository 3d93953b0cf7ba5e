"""The section `features:`: what it means, and what is said of one that is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from umiak.core.problem import UmiakError
from umiak.schema.features import reading
from umiak.schema.features.section import FeatureSection, Fill, NumberingKind, section_of

GOOD = """
features:
  version: 1
  defaults: {dim: 8, pooling: mean, separator: ";"}
  columns:
    - {name: user, from: uid, kind: id}
    - {name: [C1, C2], kind: id, vocab: {min_count: 10, oov: 5}, dim: 4}
    - {name: city, kind: id, hash: 100, table: geo}
    - {name: price, kind: number, missing: mean, transform: [log1p, zscore]}
    - {name: age, kind: number, boundaries: {quantiles: 20}}
    - {name: city_x_age, kind: cross, of: [city, age], hash: 1000}
    - {name: tags, kind: id, separator: "|", hash: 9}
    - {name: clicks, kind: sequence, from: hist, of: user, max_len: 50}
    - {name: picture, kind: vector, dim: 64}
  label: {click: clk, buy: pay}
  weight: w
  group: user
"""


def read(text: str, directory: Path) -> FeatureSection:
    (directory / "config.yaml").write_text(text)
    return reading.load(directory)


def told(text: str, directory: Path) -> list[tuple[str, str]]:
    with pytest.raises(UmiakError) as caught:
        read(text, directory)
    found = [
        (str(each.where).removeprefix(f"{directory}/config.yaml:").partition(":")[0], each.what)
        for each in caught.value.problems
    ]
    assert all(
        each.code in ("UM-DATA-120", "UM-DATA-121") or each.code.startswith("UM-CONFIG-")
        for each in caught.value.problems
    )
    return found


def test_a_section_means_what_it_says(tmp_path: Path) -> None:
    section = read(GOOD, tmp_path)
    assert [each.name for each in section.features][:4] == ["user", "C1", "C2", "city"]
    user, first, price = (section.feature(name) for name in ("user", "C1", "price"))
    assert (user.column, user.table, user.dim, user.pooling, user.is_list) == ("uid", "user", 8, "mean", False)
    assert first.numbering is not None
    assert (first.numbering.kind, first.numbering.min_count, first.numbering.oov) == (NumberingKind.VOCABULARY, 10, 5)
    assert (first.table, section.feature("C2").table, first.dim) == ("C1", "C2", 4)
    assert (price.missing, [step.name for step in price.steps], price.numbering) == (
        Fill.MEAN,
        ["log1p", "zscore"],
        None,
    )
    clicks, tags = section.feature("clicks"), section.feature("tags")
    assert (clicks.table, clicks.dim, clicks.numbering, clicks.separator) == ("user", 8, user.numbering, ";")
    assert (tags.is_list, tags.separator) == (True, "|")
    assert (dict(section.labels), section.weight, section.group) == ({"click": "clk", "buy": "pay"}, "w", "uid")
    assert [each.name for each in section.features if each.is_fitted] == ["C1", "C2", "price", "age"]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("columns: [{name: a, kind: id}, {name: b, kind: number}]", ()),
        ("columns: [{name: a, kind: id, dim: 3}, {name: b, kind: id}]", ("a",)),
        ("defaults: {dim: 3}, columns: [{name: a, kind: id}, {name: b, kind: number}]", ("a",)),
        (
            "columns: [{name: a, kind: id, dim: 16, table: t}, {name: b, kind: id, table: t}, {name: c, kind: id}]",
            ("a", "b"),
        ),
        ("columns: [{name: a, kind: id, dim: 4}, {name: s, kind: sequence, of: a}]", ("a", "s")),
        ("columns: [{name: a, kind: id}, {name: b, kind: vector, dim: 4}]", ()),
    ],
)
def test_whose_dim_is_said(tmp_path: Path, said: str, expected: tuple[str, ...]) -> None:
    section = read(f"features: {{{said}}}", tmp_path)
    assert section.own_dims == expected
    assert section_of(section.plain()).own_dims == expected


def test_a_sequence_is_pooled_as_it_is_said(tmp_path: Path) -> None:
    columns = "columns: [{name: s, kind: sequence}, {name: t, kind: sequence, pooling: max}]"
    for defaults, expected in (("", ("", "max")), ("defaults: {pooling: mean}, ", ("mean", "max"))):
        section = read(f"features: {{{defaults}{columns}}}", tmp_path)
        assert tuple(each.pooling for each in section.features) == expected


def test_a_section_is_known_by_what_it_means(tmp_path: Path) -> None:
    section = read(GOOD, tmp_path)
    again = section_of(json.loads(json.dumps(section.plain())), section.directory)
    assert (again, again.sha256) == (section, section.sha256)
    assert (
        read("# a comment\n" + GOOD.replace("{name: user, from: uid", "{from: uid, name: user"), tmp_path).sha256
        == section.sha256
    )
    for old, new in (
        ("hash: 100,", "hash: 101,"),
        ("min_count: 10", "min_count: 9"),
        ("clk", "clik"),
        ("max_len: 50", "max_len: 49"),
    ):
        assert read(GOOD.replace(old, new), tmp_path).sha256 != section.sha256


def test_all_that_is_wrong_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    found = told(
        """features:
  columns:
    - {name: a, kind: id, hash: 5, vocab: fit}
    - {name: a, kind: id}
    - {name: b, kind: idd}
    - {name: c, kind: number, dim: 4}
    - {name: d, kind: id, embedding_dim: 4}
    - {name: e, kind: cross, of: [a, nothing]}
    - {name: f, kind: id, table: g, hash: 5}
    - {name: g, kind: id, hash: 6}
    - {name: h, kind: number, transform: [log1p, zscor]}
    - {name: i, kind: number, boundaries: [3, 1]}
    - {name: j, kind: id, pooling: sum}
    - {name: k, from: g, kind: number}
    - {name: l, kind: number, transform: zscore, boundaries: {quantiles: 5}}
    - {name: m, kind: sequence, of: h2, hash: 5}
    - {name: n, kind: vector}
    - {name: o, kind: vector, dim: 3, transform: minmax}
    - {name: [p, q], from: r, kind: id}
    - {name: s, kind: cross, of: [f, f]}
    - {name: t, kind: id, separator: "||"}
    - {name: u, kind: id, vocab: {min_count: 0}}
    - {name: v, kind: id, vocab: {words: [x], max_words: 3}}
    - 7
    - {name: w, kind: id, numeric: true, missing: none}
  hash: md5
  label: g
""",
        tmp_path,
    )
    by_line: dict[str, list[str]] = {}
    for line, what in found:
        by_line.setdefault(line, []).append(what)
    expected = {
        "3": "hash and vocab are both there",
        "4": "a is there twice: also in line 3",
        "5": "unknown value: idd",
        "6": "dim has no effect on a number",
        "7": "unknown key: embedding_dim",
        "8": "there is no feature nothing",
        "10": "g shares the table g with f",
        "11": "unknown transform: zscor",
        "12": "above the one before",
        "13": "pooling has no effect",
        "14": "k and g read the column g in different ways",
        "15": "the ids that are made of them as well",
        "16": "of and hash are both there",
        "17": "dim is missing",
        "18": "transforms are not fitted",
        "19": "`from` is one column, and there are 2 names",
        "20": "two or more different features",
        "21": "one ASCII character",
        "22": "min_count: an integer, 1 or more",
        "23": "nothing to count",
        "24": "must be a mapping, not the number 7",
        "25": "missing is none, which is no number",
        "26": "unknown value: md5",
    }
    assert {
        line: any(words in what for what in by_line.get(line, [])) for line, words in expected.items()
    } == dict.fromkeys(expected, True), found
    assert set(by_line) <= set(expected)


def test_no_section_and_no_file_say_so(tmp_path: Path) -> None:
    assert "it has no section `features:`" in told("runner: {}\n", tmp_path)[0][1]
    assert "must be a mapping, not a list" in told("features: []\n", tmp_path)[0][1]
    assert told("features: {columns: []}\n", tmp_path)[0][1] == "features: columns is empty"
    with pytest.raises(UmiakError, match="it can't be read"):
        reading.load(tmp_path / "nowhere.yaml")
