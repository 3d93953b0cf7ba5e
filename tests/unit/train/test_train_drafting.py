"""`umiak new`: what becomes of odd tables, and what is written."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet

from umiak.cli import main as cli
from umiak.core.problem import UmiakError
from umiak.core.value import replace
from umiak.train.config import layouts, load
from umiak.train.drafting import guessing, writing
from umiak.train.drafting.program import NewConfig, NewRequest, new

ROWS = 400


def columns(rows: int = ROWS) -> dict[str, list[object]]:
    rng = np.random.default_rng(7)
    return {
        "click": [int(each) for each in rng.integers(0, 2, rows)],
        "user_id": [f"u{each}" for each in rng.integers(0, 90, rows)],
        "item_id": [int(each) for each in rng.integers(0, 300, rows)],
        "price": [float(each) for each in rng.lognormal(2.0, 1.5, rows)],
        "hour": [int(each) for each in rng.integers(0, 24, rows)],
    }


def save(path: Path, made: dict[str, list[object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    name = path.name
    if name.endswith(".parquet"):
        parquet.write_table(pa.table(made), path)
        return path
    rows = list(zip(*made.values(), strict=True))
    if ".json" in name:
        lines = [json.dumps(dict(zip(made, row, strict=True))) for row in rows]
    else:
        mark = "\t" if ".tsv" in name else ","
        lines = [mark.join(made), *(mark.join("" if each is None else str(each) for each in row) for row in rows)]
    text = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else _zstd(text) if name.endswith(".zst") else text)
    return path


def _zstd(text: bytes) -> bytes:
    return pa.compress(text, codec="zstd", asbytes=True)


def drafted(tmp_path: Path, made: dict[str, list[object]], *, name: str = "t.parquet", label: str | None = "click"):
    return new(NewRequest(directory=str(tmp_path / "ctr"), data=str(save(tmp_path / name, made)), label=label))


def kinds(made: NewConfig) -> dict[str, str]:
    return {each.name: each.kind for each in made.draft.features}


def left_out(made: NewConfig) -> dict[str, str]:
    return {each.name: each.why for each in made.draft.left_out}


def is_right(made: NewConfig) -> layouts.Reading:
    """What is written is a config in which nothing is wrong."""
    found = load.load(made.path)[1]
    assert not found.problems
    assert not found.warnings
    assert found.config is not None
    return found


def trouble(act: Callable[[], object]) -> str:
    with pytest.raises(UmiakError) as raised:
        act()
    return " ".join(f"{each.code} {each.what} {each.why or ''} {each.hint or ''}" for each in raised.value.problems)


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.tsv", "t.jsonl", "t.csv.gz", "t.csv.zst", "t.jsonl.gz"])
def test_every_format_gives_the_same_config(tmp_path: Path, name: str) -> None:
    made = drafted(tmp_path, columns(), name=name)
    assert kinds(made) == {"user_id": "id", "item_id": "id", "price": "number", "hour": "id"}
    found = is_right(made).config
    assert found is not None
    assert found.dataset("train").sparse_slots == ("click", "user_id", "item_id", "hour")
    assert found.dataset("evaluate").rows_share == (0.9, 1.0)
    assert found.phase("train").model.endswith("rank/deepfm/model.py")


def test_mixed_formats_are_one_table(tmp_path: Path) -> None:
    for name in ("a.parquet", "b.csv", "c.jsonl.gz"):
        save(tmp_path / "logs" / name, columns())
    made = new(NewRequest(directory=str(tmp_path / "ctr"), data=str(tmp_path / "logs"), label="click"))
    assert made.seen.formats == ("Parquet", "CSV", "JSON lines")
    assert kinds(made)["price"] == "number"
    is_right(made)


def test_a_pattern_and_a_url_stay_as_they_are(tmp_path: Path) -> None:
    save(tmp_path / "logs" / "a.parquet", columns())
    made = new(NewRequest(directory=str(tmp_path / "one"), data=f"file://{tmp_path}/logs/a.parquet", label="click"))
    assert f'train_data_dir: "file://{tmp_path}/logs/a.parquet"' in Path(made.path).read_text()
    is_right(made)


def test_times_split_the_data(tmp_path: Path) -> None:
    start = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - as a table has it
    times = [start + dt.timedelta(hours=row) for row in range(ROWS)]
    made = drafted(tmp_path, {**columns(), "at": times})  # type: ignore[dict-item]
    assert made.draft.time == "at"
    found = is_right(made).config
    assert found is not None
    border = (start + dt.timedelta(hours=0.9 * (ROWS - 1))).replace(tzinfo=dt.timezone.utc).timestamp()
    assert abs((found.dataset("train").rows_before or 0) - border) < 2
    assert found.dataset("evaluate").rows_after == found.dataset("train").rows_before


def test_seconds_are_times_by_their_name_and_size(tmp_path: Path) -> None:
    seconds = [1_767_000_000 + 60 * row for row in range(ROWS)]
    made = drafted(tmp_path, {**columns(), "ts": seconds, "n": seconds}, name="t.csv")  # type: ignore[dict-item]
    assert made.draft.time == "ts"
    assert kinds(made)["n"] == "number"
    is_right(made)


def test_lists_are_sequences_and_share_the_rows_of_what_they_list(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    lists = {
        "hist": [[int(each) for each in rng.integers(0, 300, rng.integers(0, 9))] for _ in range(ROWS)],
        "pic": [[float(each) for each in rng.normal(size=5)] for _ in range(ROWS)],
        "odd": [[float(each) for each in rng.normal(size=rng.integers(1, 5))] for _ in range(ROWS)],
        "tags": [["a", "b"][: row % 3] for row in range(ROWS)],
    }
    made = drafted(tmp_path, {**columns(), **lists})  # type: ignore[dict-item]
    assert {name: kinds(made).get(name) for name in lists} == {
        "hist": "sequence",
        "pic": "vector",
        "odd": None,
        "tags": "sequence",
    }
    found = is_right(made).config
    assert found is not None
    section = found.dataset("train").features
    assert section is not None
    assert section.feature("hist").table == "item_id"
    assert section.feature("tags").table == "tags"
    assert section.feature("pic").dim == 5


def test_what_says_nothing_is_left_out_with_the_reason(tmp_path: Path) -> None:
    odd = {
        "nothing": [None] * ROWS,
        "same": ["x"] * ROWS,
        "request_id": [f"r{row}" for row in range(ROWS)],
        "deep": [[[1]]] * ROWS,
        "half": [None if row % 2 else "x" for row in range(ROWS)],
    }
    made = drafted(tmp_path, {**columns(), **odd})  # type: ignore[dict-item]
    assert set(left_out(made)) == {"nothing", "same", "request_id", "deep"}
    assert kinds(made)["half"] == "id"
    text = Path(made.path).read_text()
    assert "#   request_id: it has another value in each row" in text
    assert "50.0% missing" in text
    is_right(made)


def test_one_row_is_enough_and_is_told_to_teach_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = {"click": [1], "user": ["a"], "item": ["b"], "age": [None]}
    file = save(tmp_path / "t.jsonl", made)  # type: ignore[arg-type]
    assert cli.main(["new", str(tmp_path / "ctr"), "--data", str(file)]) == 2  # everything has one value
    assert "no column besides the label can be a feature" in capsys.readouterr().err
    rows = {"click": [1, 1], "user": ["a", "b"]}
    file = save(tmp_path / "u.jsonl", rows)  # type: ignore[arg-type]
    assert cli.main(["new", str(tmp_path / "ctr"), "--data", str(file)]) == 0
    assert "label click is 1 in all rows that were looked at" in capsys.readouterr().err


def test_names_may_be_any_text(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    names = ["Größe", "城市", "a b", "x: y", "yes", "#no", "12", 'q"q', "{a}", "c,d"]
    made = drafted(
        tmp_path,
        {"click": columns()["click"], **{name: [f"v{each}" for each in rng.integers(0, 5, ROWS)] for name in names}},
    )
    found = is_right(made).config
    assert found is not None
    assert found.dataset("train").sparse_slots == ("click", *names)


def test_no_name_of_a_column_adds_a_line_to_the_config(tmp_path: Path) -> None:
    """A config names code that is run, and tables come from others."""
    start = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - as a table has it
    times = [start + dt.timedelta(hours=row) for row in range(ROWS)]
    evil = "at\n  model: /tmp/evil.py\u2028 #\x85\r"
    made = drafted(tmp_path, {**columns(), evil: times})  # type: ignore[dict-item]
    assert made.draft.time == evil
    draft = replace(made.draft, group="user\nrunner: {}")
    facts = writing.DataFacts(
        named="t",
        path="t\n  model: x",
        rows=9,
        looked_at=9,
        formats=("csv",),
        command="a\nrunner: {}",
        directory="d\nb: 1",
    )
    config = yaml.safe_load(writing.config(draft, facts))
    assert set(config) == {"runner", "features", "hyper_parameters", "evaluation"}
    assert config["runner"]["model"] == "rank.deepfm"
    assert config["runner"]["train_data_dir"] == facts.path
    assert (config["features"]["time"], config["evaluation"]["metrics"][0]["group"]) == (evil, draft.group)


def test_a_very_wide_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    wide = {f"c{number}": [int(each) for each in rng.integers(0, 9, 50)] for number in range(1500)}
    made = drafted(tmp_path, {"click": [row % 2 for row in range(50)], **wide})  # type: ignore[dict-item]
    assert len(made.draft.features) == 1500
    is_right(made)


def test_labels_that_are_none(tmp_path: Path) -> None:
    rows = columns(50)
    odd = {
        "text": ["yes", "no"] * 25,
        "stars": [1, 5] * 25,
        "empty": [None] * 50,
        "lists": [[1]] * 50,
    }
    file = save(tmp_path / "t.parquet", {**rows, **odd})  # type: ignore[dict-item]

    def ask(label: str | None) -> Callable[[], object]:
        return lambda: new(NewRequest(directory=str(tmp_path / "ctr"), data=str(file), label=label))

    assert "text can't be a label: it is text" in trouble(ask("text"))
    assert "numbers go from 1 to 5" in trouble(ask("stars"))
    assert "nothing is in it" in trouble(ask("empty"))
    assert "it has lists" in trouble(ask("lists"))
    assert "there is no column 'clik'" in (words := trouble(ask("clik")))
    assert "did you mean `click`?" in words
    assert not (tmp_path / "ctr").exists()


def test_a_label_is_found_by_its_name(tmp_path: Path) -> None:
    rows = columns(50)
    assert drafted(tmp_path, rows, label=None).draft.label == "click"
    rows["paid"] = rows.pop("click")
    file = save(tmp_path / "u.csv", rows)
    words = trouble(lambda: new(NewRequest(directory=str(tmp_path / "other"), data=str(file))))
    assert "nothing says which column is the label" in words
    assert "`--label paid`" in words


def test_files_without_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("")
    (tmp_path / "b.csv").write_text("click,user\n")
    parquet.write_table(pa.table({"click": pa.array([], pa.int64())}), tmp_path / "c.parquet")
    for name in ("a.csv", "b.csv", "c.parquet"):
        request = NewRequest(directory=str(tmp_path / "ctr"), data=str(tmp_path / name))
        assert "UM-NEW-001" in trouble(lambda request=request: new(request))  # type: ignore[misc]


def test_files_that_do_not_fit_together(tmp_path: Path) -> None:
    save(tmp_path / "logs" / "a.csv", {"click": [0, 1], "user": ["a", "b"]})
    save(tmp_path / "logs" / "b.csv", {"click": [0, 1], "person": ["a", "b"]})
    words = trouble(lambda: new(NewRequest(directory=str(tmp_path / "ctr"), data=str(tmp_path / "logs"))))
    assert "UM-NEW-002" in words
    assert "has no column 'user'" in words


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("click,user,user\n0,a,b\n1,c,d\n")
    request = NewRequest(directory=str(tmp_path / "ctr"), data=str(tmp_path / "a.csv"))
    assert "two columns have one name: 'user'" in trouble(lambda: new(request))
    table = pa.table(
        [pa.array([0, 1]), pa.array(["a", "b"]), pa.array(["c", "d"]), pa.array([1, 2])], ["click", "x", "x", "z"]
    )
    parquet.write_table(table, tmp_path / "b.parquet")
    made = new(NewRequest(directory=str(tmp_path / "ctr"), data=str(tmp_path / "b.parquet")))
    assert "two columns have this name" in left_out(made)["x"]
    assert kinds(made) == {"z": "id"}


def test_no_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("".join(f"{row % 2},u{row % 7},{row % 5}\n" for row in range(100)))
    directory = str(tmp_path / "ctr")
    names = ("click", "user", "x")
    made = new(NewRequest(directory=directory, data=str(tmp_path / "a.csv"), column_names=names))
    found = is_right(made).config
    assert found is not None
    assert found.dataset("train").column_names == names


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    file = save(tmp_path / "t.csv", columns(20))
    (tmp_path / "ctr").mkdir()
    (tmp_path / "ctr" / "mine").write_text("x")
    assert "UM-NEW-005" in trouble(lambda: new(NewRequest(directory=str(tmp_path / "ctr"), data=str(file))))
    assert [each.name for each in (tmp_path / "ctr").iterdir()] == ["mine"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ctr", "t.csv"]


def test_a_path_is_as_it_is_from_the_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "logs" / "a.csv", columns(20))
    monkeypatch.chdir(tmp_path)
    made = new(NewRequest(directory="deep/ctr", data="logs/*.csv"))
    assert 'train_data_dir: "../../logs/*.csv"' in Path(made.path).read_text()
    found = is_right(made).config
    assert found is not None
    assert found.dataset("train").data_path == "deep/ctr/../../logs/*.csv"


def test_large_files_are_not_read_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read of a file does not grow with it."""
    rows = columns(60_000)
    parquet.write_table(pa.table(rows), tmp_path / "t.parquet", row_group_size=10_000)
    made = new(NewRequest(directory=str(tmp_path / "ctr"), data=str(tmp_path / "t.parquet")))
    assert made.seen.rows == 6000
    assert made.seen.rows_in_all == 60_000
    save(tmp_path / "t.csv", rows)
    made = new(NewRequest(directory=str(tmp_path / "other"), data=str(tmp_path / "t.csv")))
    assert made.seen.rows == 4000
    assert 40_000 < made.seen.rows_in_all < 80_000


def test_the_command_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = save(tmp_path / "t.csv", columns())
    directory = tmp_path / "ctr"
    assert cli.main(["new", str(directory), "--data", str(file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["label"], told["group"]) == ("click", "user_id")
    assert [each["kind"] for each in told["features"]] == ["id", "id", "number", "id"]
    assert cli.main(["new", str(tmp_path / "two"), "--data", str(file)]) == 0
    assert "label click, 3 ids, 1 number; 0 columns are left out" in capsys.readouterr().err
    assert cli.main(["new"]) == 2
    said = capsys.readouterr().err
    assert "no directory is named" in said
    assert "--data is missing" in said


# ---- what people have in CSV


def test_times_in_texts_divide_the_rows(tmp_path: Path) -> None:
    moments = [f"2026-01-{1 + number // 40:02d} {number % 24:02d}:30:00" for number in range(400)]
    days = [each[:10] for each in moments]
    odd = [*moments[:300], *["yesterday"] * 100]
    made = drafted(tmp_path, {**columns(400), "seen_at": days, "time": moments, "word": odd}, name="t.csv")  # type: ignore[dict-item]
    assert made.draft.time == "seen_at"
    assert left_out(made) == {"seen_at": "it is the time of a row", "time": "it is another time"}
    assert kinds(made)["word"] == "id"
    config = is_right(made).config
    assert config is not None
    border = dt.datetime(2026, 1, 9, 2, 24, tzinfo=dt.timezone.utc).timestamp()
    assert config.dataset("train").rows_before == config.dataset("evaluate").rows_after == border


def test_texts_that_are_others_in_each_row_are_left_out_where_all_rows_were_seen(tmp_path: Path) -> None:
    prices = [f"${number}.50" for number in range(400)]
    made = drafted(tmp_path, {**columns(400), "cost": prices}, name="t.csv")  # type: ignore[dict-item]
    assert "others in each row" in left_out(made)["cost"]
    assert guessing.drafted(made.seen.columns, "click").features[-1].name == "cost", "of a sample nothing is known"


def test_infinite_numbers_are_clipped(tmp_path: Path) -> None:
    numbers = [float(number) if number % 7 else float("inf") for number in range(400)]
    made = drafted(tmp_path, {**columns(400), "x": numbers})
    assert "{name: x, kind: number, transform: [{clip: [1.0, 398.0]}, zscore]}" in Path(made.path).read_text()
    is_right(made)


def test_a_label_of_a_usual_name_that_can_not_be_one_is_told(tmp_path: Path) -> None:
    answers = ["no", "yes"] * 200
    said = trouble(lambda: drafted(tmp_path, {**columns(400), "click": answers}, label=None))  # type: ignore[dict-item]
    assert "click can't be: it is text" in said
