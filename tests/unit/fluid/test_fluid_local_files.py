"""`paddle.dataset` from small files of each kind, `paddle.batch` and `paddle.reader`: what they are compared with is computed here. Real Paddle."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import sys
import tarfile
import types
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.fluid_programs import fluid, paddle
from umiak.core.problem import UmiakError
from umiak.fluid.data import local_files

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Paddle's modules look; nobody answers outside of this machine."""
    assert fluid is not None
    monkeypatch.setattr(paddle.dataset.common, "DATA_HOME", str(tmp_path))
    monkeypatch.setattr(local_files, "_is_reachable", lambda _url: False)
    return tmp_path


def tar(path: Path, members: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def test_mnist(home: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (100, 784)).astype(np.uint8)
    labels = (np.arange(100) % 10).astype(np.uint8)
    (home / "mnist").mkdir()
    for part in ("train", "t10k"):
        images = struct.pack(">IIII", 2051, 100, 28, 28) + pixels.tobytes()
        (home / "mnist" / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        (home / "mnist" / f"{part}-labels-idx1-ubyte.gz").write_bytes(
            gzip.compress(struct.pack(">II", 2049, 100) + labels.tobytes())
        )
    with pytest.warns(UserWarning, match="not the file that Paddle knows"):
        reader = paddle.dataset.mnist.train()
    rows = list(reader())
    assert [label for _, label in rows] == labels.tolist()
    assert np.allclose(np.array([row for row, _ in rows]), pixels / 255.0 * 2 - 1, atol=1e-6)
    assert len(list(paddle.batch(paddle.dataset.mnist.test(), 32)())) == 4


def test_what_is_missing_is_said_with_its_place(home: Path) -> None:
    with pytest.raises(UmiakError) as caught:
        paddle.dataset.mnist.train()
    (problem,) = caught.value.problems
    assert problem.code == "UM-FLUID-022"
    assert f"{home}/mnist/train-images-idx3-ubyte.gz" in problem.what
    assert problem.hint is not None
    for name in ("train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        assert f"{name}-ubyte.gz -> {home}/mnist/{name}-ubyte.gz" in problem.hint
    with pytest.raises(UmiakError, match=r"imdb/aclImdb_v1\.tar\.gz"):
        paddle.dataset.imdb.word_dict()
    with pytest.raises(UmiakError, match=r"conll05st/wordDict\.txt"):
        paddle.dataset.conll05.get_dict()
    with pytest.raises(UmiakError, match=r"flowers/102flowers\.tgz"):
        paddle.dataset.flowers.train()
    with pytest.raises(UmiakError, match="wmt16"):
        paddle.dataset.wmt16.train(10, 10)


def test_a_host_that_nobody_reaches_is_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert not local_files._is_reachable("http://127.0.0.1:9/x")
    assert not local_files._is_reachable("http://host.invalid/x")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert not local_files._is_reachable("http://host.invalid/x")


def test_a_file_of_somebody_else_is_not_unpickled(home: Path) -> None:
    path = home / "cifar" / "cifar-10-python.tar.gz"
    tar(path, {"cifar-10-batches-py/data_batch_1": pickle.dumps({b"data": [], b"labels": []})})
    path.chmod(0o666)
    with pytest.raises(UmiakError) as caught:
        paddle.dataset.cifar.train10()
    assert caught.value.problems[0].code == "UM-SUBMIT-340"


def test_cifar(home: Path) -> None:
    data = np.random.default_rng(2).integers(0, 256, (5, 3072)).astype(np.uint8)
    batch = pickle.dumps({b"data": data, b"labels": [0, 1, 2, 3, 4]}, protocol=2)
    fine = pickle.dumps({b"data": data, b"fine_labels": [9, 8, 7, 6, 5]}, protocol=2)
    tar(home / "cifar" / "cifar-10-python.tar.gz", {"cifar-10-batches-py/data_batch_1": batch, "x/test_batch": batch})
    tar(home / "cifar" / "cifar-100-python.tar.gz", {"cifar-100-python/train": fine, "cifar-100-python/test": fine})
    for reader, labels in (
        (paddle.dataset.cifar.train10(), [0, 1, 2, 3, 4]),
        (paddle.dataset.cifar.test10(), [0, 1, 2, 3, 4]),
        (paddle.dataset.cifar.train100(), [9, 8, 7, 6, 5]),
        (paddle.dataset.cifar.test100(), [9, 8, 7, 6, 5]),
    ):
        rows = list(reader())
        assert [label for _, label in rows] == labels
        assert np.allclose(np.array([row for row, _ in rows]), data / 255.0, atol=1e-6)


def test_imdb(home: Path) -> None:
    texts = {
        "train/pos/0": b"good, good film!",
        "train/neg/0": b"bad film",
        "test/pos/0": b"good",
        "test/neg/0": b"bad",
    }
    tar(home / "imdb" / "aclImdb_v1.tar.gz", {f"aclImdb/{name}.txt": text * 200 for name, text in texts.items()})
    words = paddle.dataset.imdb.word_dict()
    assert set(words) >= {b"good", b"<unk>"} or "<unk>" in words
    rows = list(paddle.dataset.imdb.train(words)())
    assert [label for _, label in rows] == [0, 1]
    names = {number: word for word, number in words.items()}
    assert [names[each] for each in rows[0][0][:3]][1] == b"good"
    assert len(list(paddle.dataset.imdb.test(words)())) == 2


def test_imikolov(home: Path) -> None:
    text = b"a a b b c d\na b\n" * 60
    tar(
        home / "imikolov" / "simple-examples.tgz",
        {f"./simple-examples/data/ptb.{part}.txt": text for part in ("train", "valid")},
    )
    words = paddle.dataset.imikolov.build_dict(50)
    rows = list(paddle.dataset.imikolov.train(words, 3)())
    names = {number: word for word, number in words.items()}
    assert [names[each] for each in rows[0]] == ["<s>", b"a", b"a"]
    assert len(rows) == 60 * (6 + 2)
    kind = paddle.dataset.imikolov.DataType.SEQ
    source, target = next(iter(paddle.dataset.imikolov.test(words, 10, kind)()))
    assert [names[each] for each in source] == ["<s>", b"a", b"a", b"b", b"b", b"c", b"d"]
    assert [names[each] for each in target][-1] == "<e>"


def test_movielens(home: Path) -> None:
    (home / "movielens").mkdir()
    with zipfile.ZipFile(home / "movielens" / "ml-1m.zip", "w") as archive:
        archive.writestr("ml-1m/movies.dat", "1::Toy Story (1995)::Animation|Comedy\n2::Heat (1995)::Action\n")
        archive.writestr("ml-1m/users.dat", "1::F::1::10::48067\n2::M::56::16::70072\n")
        archive.writestr("ml-1m/ratings.dat", "1::2::5::978300760\n2::1::3::978302109\n" * 20)
    movielens = paddle.dataset.movielens
    rows = [*movielens.train()(), *movielens.test()()]
    assert len(rows) == 40
    expected = {1: (2, 1, 0, 10, 5.0), 2: (1, 0, 6, 16, 1.0)}
    for user, gender, age, job, movie, _, _, (rating,) in rows:
        assert (movie, gender, age, job, rating) == expected[user]
    assert (movielens.max_user_id(), movielens.max_movie_id(), movielens.max_job_id()) == (2, 2, 16)
    assert set(movielens.get_movie_title_dict()) == {"toy", "story", "heat"}
    assert set(movielens.movie_categories()) == {"Animation", "Comedy", "Action"}


def test_conll05(home: Path) -> None:
    folder = home / "conll05st"
    folder.mkdir()
    (folder / "wordDict.txt").write_text("the\ncat\nsat\nbos\neos\n")
    (folder / "verbDict.txt").write_text("sit\n")
    (folder / "targetDict.txt").write_text("B-A1\nI-A1\nB-V\nO\n")
    words = gzip.compress(b"the\ncat\nsat\n\n")
    props = gzip.compress(b"-  (A1*\n-  *)\nsit  (V*)\n\n")
    base = "conll05st-release/test.wsj"
    tar(folder / "conll05st-tests.tar.gz", {f"{base}/words/test.wsj.words.gz": words, f"{base}/props/test.wsj.props.gz": props})  # fmt: skip
    word, verb, label = paddle.dataset.conll05.get_dict()
    ((ids, *_, predicate, mark, labels),) = list(paddle.dataset.conll05.test()())
    assert ids == [word["the"], word["cat"], word["sat"]]
    assert predicate == [verb["sit"]] * 3
    assert mark == [1, 1, 1]
    assert labels == [label["B-A1"], label["I-A1"], label["B-V"]]
    (folder / "emb").write_bytes(b"rows")
    assert Path(paddle.dataset.conll05.get_embedding()).read_bytes() == b"rows"


def test_wmt14_and_wmt16(home: Path) -> None:
    words = b"<s>\n<e>\n<unk>\nle\nchat\n"
    tar(
        home / "wmt14" / "wmt14.tgz",
        {
            "wmt14/src.dict": words,
            "wmt14/trg.dict": words,
            "wmt14/train/train": b"le chat\tle chien\n",
            "wmt14/test/test": b"chat\tle\n",
            "wmt14/gen/gen": b"le\tle\n",
        },
    )
    assert list(paddle.dataset.wmt14.train(5)()) == [([0, 3, 4, 1], [0, 3, 2], [3, 2, 1])]
    assert list(paddle.dataset.wmt14.test(5)()) == [([0, 4, 1], [0, 3], [3, 1])]
    assert paddle.dataset.wmt14.get_dict(5, reverse=False)[0]["chat"] == 4
    line = b"the cat\tdie katze\n"
    tar(home / "wmt16" / "wmt16.tar.gz", {f"wmt16/{part}": line for part in ("train", "test", "val")})
    for reader in (paddle.dataset.wmt16.train, paddle.dataset.wmt16.test, paddle.dataset.wmt16.validation):
        ((source, target, following),) = list(reader(5, 5)())
        english, german = paddle.dataset.wmt16.get_dict("en", 5), paddle.dataset.wmt16.get_dict("de", 5)
        assert source == [english[word] for word in ("<s>", "the", "cat", "<e>")]
        assert target == [german[word] for word in ("<s>", "die", "katze")]
        assert following == [german[word] for word in ("die", "katze", "<e>")]


def test_uci_housing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UCI_TRAIN_DATA", "UCI_TEST_DATA"):
        monkeypatch.setattr(paddle.dataset.uci_housing, name, None)
    numbers = np.random.default_rng(3).random((20, 14)).round(4)
    (home / "uci_housing").mkdir()
    np.savetxt(home / "uci_housing" / "housing.data", numbers)
    rows = [*paddle.dataset.uci_housing.train()(), *paddle.dataset.uci_housing.test()()]
    scaled = (numbers - numbers.mean(0)) / (numbers.max(0) - numbers.min(0))
    assert np.allclose(np.array([features for features, _ in rows]), scaled[:, :13])
    assert np.allclose(np.array([price for _, price in rows]), numbers[:, 13:])


def test_flowers_with_a_stand_in_for_scipy(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tar(home / "flowers" / "102flowers.tgz", {f"jpg/image_{number:05}.jpg": bytes([number]) for number in (1, 2, 3)})
    tables = {
        "imagelabels.mat": {"labels": [[7, 8, 9]]},
        "setid.mat": {"trnid": [[3]], "tstid": [[1, 2]], "valid": [[2]]},
    }
    for name in tables:
        (home / "flowers" / name).touch()
    monkeypatch.setitem(sys.modules, "scipy", types.ModuleType("scipy"))
    stand_in: Any = types.ModuleType("scipy.io")
    stand_in.loadmat = lambda path: tables[Path(path).name]
    monkeypatch.setitem(sys.modules, "scipy.io", stand_in)
    flowers = paddle.dataset.flowers
    assert list(flowers.train(mapper=lambda row: row, use_xmap=False)()) == [(b"\x01", 6), (b"\x02", 7)]
    assert list(flowers.test(mapper=lambda row: row, use_xmap=False)()) == [(b"\x03", 8)]
    assert list(flowers.valid(mapper=lambda row: row, use_xmap=False)()) == [(b"\x02", 7)]


def test_images() -> None:
    image = paddle.dataset.image
    picture = np.arange(4 * 6 * 3).reshape(4, 6, 3)
    assert (image.to_chw(picture) == picture.transpose(2, 0, 1)).all()
    assert (image.center_crop(picture, 2) == picture[1:3, 2:4]).all()
    assert (image.left_right_flip(picture) == picture[:, ::-1]).all()


# ---- readers


def numbers(count: int, start: int = 0) -> Any:
    return lambda: iter(range(start, start + count))


def test_readers() -> None:
    readers = paddle.reader
    assert list(readers.map_readers(lambda a, b: a + b, numbers(3), numbers(3, 10))()) == [10, 12, 14]
    assert sorted(readers.shuffle(numbers(50), 20)()) == list(range(50))
    assert list(readers.chain(numbers(2), numbers(2, 5))()) == [0, 1, 5, 6]
    assert list(readers.compose(numbers(2), numbers(2, 5))()) == [(0, 5), (1, 6)]
    with pytest.raises(fluid.io.ComposeNotAligned):
        list(readers.compose(numbers(2), numbers(3))())
    assert list(readers.buffered(numbers(5), 2)()) == [0, 1, 2, 3, 4]
    assert list(readers.firstn(numbers(5), 2)()) == [0, 1]
    cached = readers.cache(numbers(3))
    assert list(cached()) == list(cached()) == [0, 1, 2]
    assert list(readers.xmap_readers(lambda each: each * 2, numbers(20), 2, 4, order=True)()) == list(range(0, 40, 2))
    assert sorted(readers.xmap_readers(lambda each: each * 2, numbers(20), 2, 4)()) == list(range(0, 40, 2))
    assert list(paddle.batch(numbers(5), 2)()) == [[0, 1], [2, 3], [4]]
    assert list(fluid.io.batch(numbers(5), 2, drop_last=True)()) == [[0, 1], [2, 3]]
    for own in ("shuffle", "chain", "compose", "buffered", "firstn", "cache", "map_readers", "xmap_readers"):
        assert getattr(fluid.io, own) is getattr(readers, own)


@pytest.mark.parametrize("pipes", [True, False])
def test_readers_in_processes_of_their_own(pipes: bool) -> None:
    found = list(paddle.reader.multiprocess_reader([numbers(5), numbers(5, 100)], use_pipe=pipes)())
    assert sorted(found) == [*range(5), *range(100, 105)]
    assert fluid.io.multiprocess_reader is paddle.reader.multiprocess_reader
