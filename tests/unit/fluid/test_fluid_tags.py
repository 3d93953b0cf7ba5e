"""Labels of sequences, alignments and losses over many classes: against sums over all possibilities, and plain loops. Real Paddle."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.support.fluid_programs import computed, derivative, fluid, given, of_sequences, programs

if TYPE_CHECKING:
    pass

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

layers = fluid.layers
CHANCE = np.random.default_rng(9)
LENGTHS = [2, 1, 3]
SCORES = CHANCE.normal(size=(6, 3)).astype(np.float32)
TAGS = np.array([[0], [2], [1], [1], [0], [2]])
MOVES = CHANCE.normal(size=(5, 3)).astype(np.float32)
PARTS = [slice(0, 2), slice(2, 3), slice(3, 6)]


def score(scores: Any, tags: Any) -> float:
    moves = sum(MOVES[2 + before, tag] for before, tag in itertools.pairwise(tags))
    return float(
        MOVES[0, tags[0]] + MOVES[1, tags[-1]] + moves + sum(row[tag] for row, tag in zip(scores, tags, strict=True))
    )


def every(length: int) -> Any:
    return list(itertools.product(range(3), repeat=length))


def padded(rows: Any) -> Any:
    result = np.zeros((3, 3, *rows.shape[1:]), rows.dtype)
    for number, part in enumerate(PARTS):
        result[number, : LENGTHS[number]] = rows[part]
    return result


LIKELY = [-np.log(np.exp(score(SCORES[part], TAGS[part, 0])) / sum(np.exp(score(SCORES[part], tags)) for tags in every(size))) for part, size in zip(PARTS, LENGTHS, strict=True)]  # fmt: skip
BEST = [max(every(size), key=lambda tags: score(SCORES[part], tags)) for part, size in zip(PARTS, LENGTHS, strict=True)]


def tagged(x: Any, y: Any, length: Any = None) -> Any:
    attribute = given(MOVES)
    attribute.name = "moves"
    cost = layers.linear_chain_crf(x, y, attribute, length)
    return cost, layers.crf_decoding(x, attribute, length=length), layers.crf_decoding(x, attribute, y, length)


def test_a_random_field_over_sequences() -> None:
    cost, path, agrees = of_sequences(tagged, {"x": (SCORES, [LENGTHS]), "y": (TAGS, [LENGTHS])})
    np.testing.assert_allclose(np.asarray(cost)[:, 0], LIKELY, rtol=1e-4)
    best = [tag for tags in BEST for tag in tags]
    assert np.asarray(path)[:, 0].tolist() == best
    assert path.recursive_sequence_lengths() == [LENGTHS]
    assert np.asarray(agrees)[:, 0].tolist() == [int(found == tag) for found, tag in zip(best, TAGS[:, 0], strict=True)]


def test_a_random_field_over_padded_rows() -> None:
    size = np.array(LENGTHS)
    cost, path, agrees = of_sequences(
        tagged, {"x": (padded(SCORES), []), "y": (padded(TAGS), []), "size": (size[:, None], [])}
    )
    np.testing.assert_allclose(np.asarray(cost)[:, 0], LIKELY, rtol=1e-4)
    wanted = np.zeros((3, 3), int)
    for number, tags in enumerate(BEST):
        wanted[number, : len(tags)] = tags
    assert np.asarray(path).tolist() == wanted.tolist()
    there = np.arange(3)[None] < size[:, None]
    assert np.asarray(agrees).tolist() == ((wanted == padded(TAGS)[..., 0]) & there).astype(int).tolist()


def test_a_random_field_learns_its_gradient() -> None:
    def cost(x: Any, y: Any, size: Any) -> Any:
        return layers.linear_chain_crf(x, y, given(MOVES.astype(np.float64)), size)

    ours, measured = derivative(cost, {"x": padded(SCORES), "y": padded(TAGS), "size": np.array(LENGTHS)})
    assert ours == pytest.approx(measured, rel=1e-5)


def test_decoding_needs_the_parameter() -> None:
    with programs(), pytest.raises(fluid.core.EnforceNotMet, match="no parameter moves"):
        layers.crf_decoding(fluid.data("x", [None, 3]), fluid.ParamAttr(name="moves"))


CHUNKS: dict[str, tuple[int, list[int], list[int], list[int]]] = {
    # scheme: number of types, what was found, what is there, [found, there, agreeing]
    "IOB": (2, [0, 1, 4, 2, 3, 3], [0, 1, 4, 2, 3, 4], [2, 2, 1]),
    "IOE": (2, [0, 1, 1, 4, 2, 3], [0, 1, 4, 4, 2, 3], [3, 2, 2]),
    "IOBES": (1, [0, 1, 2, 3, 4, 3], [0, 1, 2, 4, 3, 3], [3, 3, 2]),
    "plain": (2, [0, 0, 1, 2, 1, 1], [0, 0, 2, 2, 1, 1], [3, 2, 2]),
}


@pytest.mark.parametrize("scheme", CHUNKS)
def test_chunks(scheme: str) -> None:
    types, found, wanted, counts = CHUNKS[scheme]

    def call(x: Any, y: Any) -> Any:
        return layers.chunk_eval(x, y, scheme, types)

    whole = [[6]]
    inputs = {"x": (np.array(found)[:, None], whole), "y": (np.array(wanted)[:, None], whole)}
    precision, recall, f1, *numbers = (np.asarray(each)[0] for each in of_sequences(call, inputs))
    assert numbers == counts
    assert precision == pytest.approx(counts[2] / counts[0])
    assert recall == pytest.approx(counts[2] / counts[1])
    assert f1 == pytest.approx(2 * precision * recall / (precision + recall))


def test_chunks_of_padded_rows_without_a_type() -> None:
    def call(x: Any, y: Any, size: Any) -> Any:
        return layers.chunk_eval(x, y, "IOB", 2, excluded_chunk_types=[0], seq_length=size)

    rows = np.array([[0, 1, 2], [2, 3, 0]])
    numbers = computed(call, {"x": rows, "y": rows, "size": np.array([3, 2])})[3:]
    assert [each[0] for each in numbers] == [3, 3, 2]


PROBABILITIES = CHANCE.normal(size=(6, 3)).astype(np.float32)
WORDS, WORD_LENGTHS = np.array([[1], [2], [1], [2]], np.int32), [1, 1, 2]


def aligned(logits: Any, word: Any) -> float:
    rows = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)

    def says(path: Any) -> list[int]:
        return [one for one, _ in itertools.groupby(path) if one != 0]

    return float(
        -np.log(sum(np.prod(rows[range(len(path)), path]) for path in every(len(rows)) if says(path) == list(word)))
    )


def test_alignments() -> None:
    words = [WORDS[0], WORDS[1], WORDS[2:, 0]]
    expected = [aligned(PROBABILITIES[part], word) for part, word in zip(PARTS, words, strict=True)]
    (found,) = of_sequences(layers.warpctc, {"x": (PROBABILITIES, [LENGTHS]), "y": (WORDS, [WORD_LENGTHS])})
    np.testing.assert_allclose(np.asarray(found)[:, 0], expected, rtol=1e-4)
    labels = np.array([[1, 0], [2, 0], [1, 2]], np.int32)
    (found,) = of_sequences(
        lambda x, y, of_x, of_y: layers.warpctc(x, y, 0, False, of_x, of_y),
        {"x": (padded(PROBABILITIES).transpose(1, 0, 2).copy(), []), "y": (labels, []), "of_x": (np.array(LENGTHS), []), "of_y": (np.array(WORD_LENGTHS), [])},
    )  # fmt: skip
    np.testing.assert_allclose(np.asarray(found)[:, 0], expected, rtol=1e-4)


def test_alignments_have_gradients_by_the_number_of_steps() -> None:
    steps = {}
    for by_times in (False, True):
        with programs() as made:
            x = fluid.data("x", [3, 1, 3])
            x.stop_gradient = False
            y, of_x, of_y = (layers.assign(np.array(each)) for each in ([[1, 2]], [3], [2]))
            loss = layers.reduce_sum(layers.warpctc(x, layers.cast(y, "int32"), 0, by_times, of_x, of_y))
            (gradient,) = fluid.gradients(loss, x)
            value, found = made.run({"x": PROBABILITIES[3:, None]}, [loss, gradient])
        steps[by_times] = (value[0], found)
    assert steps[True][0] == pytest.approx(steps[False][0])
    np.testing.assert_allclose(steps[True][1], steps[False][1] / 3, rtol=1e-5)


def test_the_most_probable_alignment() -> None:
    rows = np.eye(4, dtype=np.float32)[[1, 1, 0, 1, 2, 2, 0, 0, 3]]
    (found,) = of_sequences(lambda x: layers.ctc_greedy_decoder(x, 0), {"x": (rows, [[4, 2, 2, 1]])})
    assert np.asarray(found)[:, 0].tolist() == [1, 1, 2, 3]
    assert found.recursive_sequence_lengths() == [[2, 1, 0, 1]]

    def call(x: Any, size: Any) -> Any:
        return layers.ctc_greedy_decoder(x, 0, size, padding_value=9)

    found, lengths = computed(call, {"x": np.stack([rows[:4], rows[4:8]]), "size": np.array([[4], [2]])})
    assert found.tolist() == [[1, 1, 9, 9], [2, 9, 9, 9]]
    assert lengths.tolist() == [[2], [1]]


def slow_edits(one: Any, other: Any) -> int:
    if not one or not other:
        return len(one) + len(other)
    return min(slow_edits(one[1:], other) + 1, slow_edits(one, other[1:]) + 1, slow_edits(one[1:], other[1:]) + (one[0] != other[0]))  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_edits(seed: int) -> None:
    chance = np.random.default_rng(seed)
    left, right = ([chance.integers(0, 3, chance.integers(1, 5)).tolist() for _ in range(3)] for _ in range(2))
    flat = [(np.concatenate(side)[:, None].astype(np.int64), [list(map(len, side))]) for side in (left, right)]
    found, count = of_sequences(lambda x, y: layers.edit_distance(x, y, normalized=False), {"x": flat[0], "y": flat[1]})
    expected = [slow_edits(one, other) for one, other in zip(left, right, strict=True)]
    assert np.asarray(found)[:, 0].tolist() == expected
    assert np.asarray(count).tolist() == [3]
    found, _ = of_sequences(layers.edit_distance, {"x": flat[0], "y": flat[1]})
    np.testing.assert_allclose(np.asarray(found)[:, 0], np.array(expected) / list(map(len, right)), rtol=1e-6)


def test_edits_without_some_tokens_and_of_padded_rows() -> None:
    def call(x: Any, y: Any, of_x: Any, of_y: Any) -> Any:
        return layers.edit_distance(x, y, False, [7], of_x, of_y)

    arrays = {"x": np.array([[1, 7, 2]]), "y": np.array([[1, 2, 3]]), "of_x": np.array([3]), "of_y": np.array([2])}
    assert computed(call, arrays)[0].tolist() == [[0]]


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


HIDDEN = CHANCE.normal(size=(4, 5)).astype(np.float32)
CLASSES = np.array([[0], [5], [3], [1]])
WEIGHTS, BIASES = CHANCE.normal(size=(6, 5)).astype(np.float32), CHANCE.normal(size=(6, 1)).astype(np.float32)


@pytest.mark.parametrize("sampler", ["uniform", "log_uniform", "custom_dist"])
def test_noise_is_told_from_classes(sampler: str) -> None:
    """The mean over many drawn classes is what their probabilities say."""
    custom = [0.1, 0.3, 0.2, 0.1, 0.2, 0.1]
    values = np.arange(6)
    probabilities = {
        "uniform": np.full(6, 1 / 6),
        "log_uniform": np.log((values + 2) / (values + 1)) / np.log(6),
        "custom_dist": np.array(custom),
    }[sampler]
    drawn_by = probabilities.copy()
    if sampler == "log_uniform":  # 1.8 draws from one class less than there are
        drawn_by = np.append(np.log((values[:5] + 2) / (values[:5] + 1)) / np.log(6), 0)
    count = 4000

    def call(x: Any, y: Any) -> Any:
        return layers.nce(x, y, 6, None, given(WEIGHTS), given(BIASES), count, sampler=sampler, custom_dist=custom)

    found = computed(call, {"x": HIDDEN, "y": CLASSES}) * (count + 1)
    chances = sigmoid(HIDDEN @ WEIGHTS.T + BIASES[:, 0])
    noise = probabilities * count
    true = np.take_along_axis(chances, CLASSES, 1)
    expected = -np.log(true / (true + noise[CLASSES])) - count * (np.log(noise / (chances + noise)) * drawn_by).sum(1, keepdims=True)  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=0.02)


def test_noise_has_a_seed_weights_and_a_gradient() -> None:
    def call(x: Any, y: Any, fixed: Any) -> Any:
        return layers.nce(x, y, 6, fixed, given(WEIGHTS.astype(np.float64)), False, 3, seed=5)

    weight = np.array([[1.0], [2.0], [0.0], [1.0]])
    ours, measured = derivative(call, {"x": HIDDEN, "y": CLASSES, "fixed": weight})
    assert ours == pytest.approx(measured, rel=1e-5)
    with programs(), pytest.raises(fluid.core.EnforceNotMet, match="log_uniform or custom_dist"):
        layers.nce(fluid.data("x", [None, 5]), fluid.data("y", [None, 1], "int64"), 6, sampler="even")


def test_a_tree_of_classes() -> None:
    def call(x: Any, y: Any) -> Any:
        return layers.hsigmoid(x, y, 6, given(WEIGHTS[:5]), given(BIASES[:5]))

    expected = []
    for row, (label,) in zip(HIDDEN, CLASSES, strict=True):
        code, total = label + 6, 0.0
        for bit in range(code.item().bit_length() - 1):
            fork = (code >> (bit + 1)) - 1
            logit = np.clip(row @ WEIGHTS[fork] + BIASES[fork, 0], -40, 40)
            total += np.log1p(np.exp(logit)) - logit * ((code >> bit) & 1)
        expected.append(
            total + np.log(2) * (3 - (code.item().bit_length() - 1))
        )  # places that no code has count as even chances
    np.testing.assert_allclose(computed(call, {"x": HIDDEN, "y": CLASSES})[:, 0], expected, rtol=1e-5)

    def own(x: Any, y: Any, table: Any, code: Any) -> Any:
        return layers.hsigmoid(x, y, 6, given(WEIGHTS), False, None, table, code, is_custom=True)

    table, code = np.array([[0, 2, -1], [0, 1, 4], [0, 1, -1], [0, 2, 3]]), np.array([[1, 0, -1], [0, 1, 1], [0, 0, -1], [1, 1, 0]])  # fmt: skip
    found = computed(own, {"x": HIDDEN, "y": CLASSES, "table": table, "code": code})
    logits = np.einsum("bd,bkd->bk", HIDDEN, WEIGHTS[np.maximum(table, 0)])
    there = table >= 0
    expected = np.where(there, np.log1p(np.exp(logits)) - logits * code, np.log(2)).sum(1)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-5)
    with programs(), pytest.raises(fluid.core.EnforceNotMet, match="path_table"):
        layers.hsigmoid(fluid.data("x", [None, 5]), fluid.data("y", [None, 1], "int64"), 6, is_custom=True)


def test_a_softmax_over_drawn_classes() -> None:
    samples, chances = np.array([[0, 1, 2], [5, 1, 5], [3, 1, 2], [1, 1, 2]]), np.full((4, 3), 0.25, np.float32)
    logits = CHANCE.normal(size=(4, 6)).astype(np.float32)

    def call(x: Any, y: Any, own: Any, fixed: Any) -> Any:
        return layers.sampled_softmax_with_cross_entropy(x, y, 2, use_customized_samples=True, customized_samples=own, customized_probabilities=fixed)  # fmt: skip

    picked = np.take_along_axis(logits, samples, 1) - np.log(0.25)
    hits = samples[:, 1:] == CLASSES
    picked[:, 1:][hits] = -np.inf
    expected = np.log(np.exp(picked).sum(1)) - picked[:, 0]
    arrays = {"x": logits, "y": CLASSES, "own": samples, "fixed": chances}
    np.testing.assert_allclose(computed(call, arrays)[:, 0], expected, rtol=1e-5)

    def drawn(x: Any, y: Any) -> Any:
        return layers.sampled_softmax_with_cross_entropy(x, y, 6, remove_accidental_hits=False, seed=3)

    found = computed(drawn, {"x": logits, "y": CLASSES})
    assert found.shape == (4, 1)
    ours, measured = derivative(drawn, {"x": logits, "y": CLASSES})
    assert ours == pytest.approx(measured, rel=1e-4)
    with programs(), pytest.raises(fluid.core.EnforceNotMet, match="num_true=2"):
        layers.sampled_softmax_with_cross_entropy(fluid.data("x", [None, 6]), fluid.data("y", [None, 2], "int64"), 2, 2)


def test_centres_move_to_their_instances() -> None:
    centres = CHANCE.normal(size=(6, 5)).astype(np.float32)
    labels = np.array([[1], [1], [4], [0]])
    with programs() as made:
        x, y = fluid.data("x", [None, 5]), fluid.data("y", [None, 1], "int64")
        x.stop_gradient = False
        attribute = given(centres)
        attribute.name = "centres"
        loss = layers.center_loss(x, y, 6, 0.5, attribute)
        (gradient,) = fluid.gradients(layers.reduce_sum(loss), x)
        made.start()
        found, steep = made.run({"x": HIDDEN, "y": labels}, [loss, gradient])
        moved = np.asarray(fluid.global_scope().find_var("centres").get_tensor())
    away = HIDDEN - centres[labels[:, 0]]
    np.testing.assert_allclose(found[:, 0], (away * away).sum(1) / 2, rtol=1e-5)
    np.testing.assert_allclose(steep, away, rtol=1e-5)
    expected = centres.copy()
    for label in range(6):
        own = away[labels[:, 0] == label]
        expected[label] += 0.5 * own.sum(0) / (1 + len(own))
    np.testing.assert_allclose(moved, expected, rtol=1e-5)


def test_shows_and_clicks() -> None:
    rows, clicks = np.abs(CHANCE.normal(size=(3, 5))).astype(np.float32), np.array([[1, 0], [1, 1], [1, 0]], np.float32)
    shows = np.log(rows[:, :1] + 1)
    expected = np.concatenate([shows, np.log(rows[:, 1:2] + 1) - shows, rows[:, 2:]], 1)
    np.testing.assert_allclose(computed(layers.continuous_value_model, {"x": rows, "y": clicks}), expected, rtol=1e-5)
    for use, left in ((True, expected), (False, rows[:, 2:])):
        with programs() as made:
            x, y = fluid.data("x", [None, 5]), fluid.data("y", [None, 2])
            x.stop_gradient = False
            found = layers.continuous_value_model(x, y, use)
            (gradient,) = fluid.gradients(layers.reduce_sum(layers.square(found)), x)
            value, steep = made.run({"x": rows, "y": clicks}, [found, gradient])
        np.testing.assert_allclose(value, left, rtol=1e-5)
        np.testing.assert_allclose(steep, np.concatenate([clicks, 2 * rows[:, 2:]], 1), rtol=1e-5)


@pytest.mark.parametrize("slots", [False, True])
def test_sums_of_data_normalize_and_grow_while_a_program_learns(slots: bool) -> None:
    rows = CHANCE.normal(size=(3, 4)).astype(np.float32)
    if slots:
        rows[0, 0], rows[1, 2] = 0.0, 0.0
    start = {"batch_size": 8.0, "batch_sum": 2.0, "batch_square": 32.0}
    with programs() as made:
        x = fluid.data("x", [None, 4])
        normal = layers.data_norm(x, name="sums", param_attr=start, slot_dim=2 if slots else -1, summary_decay_rate=0.5)
        tested = made.main.clone(for_test=True)
        fluid.optimizer.SGD(0.1).minimize(layers.mean(layers.fc(normal, 1)))
        made.start()

        def read() -> list[Any]:
            names = [f"sums.{each}" for each in ("batch_size", "batch_sum", "batch_square_sum")]
            return [np.asarray(fluid.global_scope().find_var(name).get_tensor()) for name in names]

        (still,) = made.executor.run(tested, {"x": rows}, [normal])
        assert [each[0] for each in read()] == [8.0, 2.0, 32.0]
        (found,) = made.run({"x": rows}, [normal])
        sizes, totals, squares = read()
    shown = np.repeat(rows.reshape(3, 2, 2)[:, :, :1] != 0, 2, 2).reshape(3, 4) if slots else np.ones((3, 4), bool)
    np.testing.assert_allclose(found, (rows - 0.25) * np.sqrt(8 / 32) * shown, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(still, found)
    count, away = shown.sum(0), ((rows - 0.25) ** 2 * shown).sum(0)
    by = count if slots else 1
    np.testing.assert_allclose(sizes, 4 + (count > 0 if slots else count), rtol=1e-6)
    np.testing.assert_allclose(totals, 1 + (rows * shown).sum(0) / by, rtol=1e-5)
    np.testing.assert_allclose(squares, 16 + away / by + count * 1e-5, rtol=1e-5)


def test_sums_of_data_with_scale_and_shift() -> None:
    def call(x: Any) -> Any:
        return layers.data_norm(x, act="relu", param_attr={"scale_w": 2.0, "bias": 1.0}, enable_scale_and_shift=True)

    np.testing.assert_allclose(computed(call, {"x": HIDDEN}), np.maximum(2 * HIDDEN + 1, 0), rtol=1e-5)


def test_rows_that_look_ahead() -> None:
    weight = CHANCE.normal(size=(3, 3)).astype(np.float32)

    def ahead(part: Any) -> Any:
        longer = np.concatenate([part, np.zeros((2, 3), np.float32)])
        return sum(longer[place : place + len(part)] * weight[place] for place in range(3))

    def call(x: Any) -> Any:
        return layers.row_conv(x, 2, given(weight))

    (found,) = of_sequences(call, {"x": (SCORES, [LENGTHS])})
    np.testing.assert_allclose(np.asarray(found), np.concatenate([ahead(SCORES[part]) for part in PARTS]), rtol=1e-5)
    rows = SCORES.reshape(2, 3, 3)
    np.testing.assert_allclose(computed(call, {"x": rows}), np.stack([ahead(part) for part in rows]), rtol=1e-5)


def test_a_matrix_by_its_largest_singular_value() -> None:
    matrix = CHANCE.normal(size=(4, 3, 2)).astype(np.float32)
    with programs() as made:
        found = layers.spectral_norm(layers.assign(matrix), dim=1, power_iters=60)
        made.start()
        (value,) = made.run(fetch=[found])
    largest = np.linalg.svd(np.moveaxis(matrix, 1, 0).reshape(3, -1))[1][0]
    np.testing.assert_allclose(value, matrix / largest, rtol=1e-3)


def test_products_of_two_rows() -> None:
    matrices, shift = CHANCE.normal(size=(2, 3, 3)), np.array([[0.5, -1]])

    def call(x: Any, y: Any) -> Any:
        return layers.bilinear_tensor_product(x, y, 2, "tanh", None, given(matrices.astype(x.dtype)), given(shift.astype(x.dtype)))  # fmt: skip

    arrays = {"x": SCORES[:3], "y": SCORES[3:]}
    expected = np.tanh(np.einsum("bi,kij,bj->bk", arrays["x"], matrices, arrays["y"]) + shift)
    np.testing.assert_allclose(computed(call, arrays), expected, rtol=1e-4)


def test_normalized_and_activated_in_one_layer() -> None:
    image = CHANCE.normal(size=(2, 3, 4, 4)).astype(np.float32)
    normal = (image - image.mean((0, 2, 3), keepdims=True)) / np.sqrt(image.var((0, 2, 3), keepdims=True) + 1e-5)
    found = computed(lambda x: layers.inplace_abn(x, "leaky_relu", act_alpha=0.3), {"x": image})
    np.testing.assert_allclose(found, np.where(normal > 0, normal, 0.3 * normal), rtol=1e-3, atol=1e-5)
    with programs(), pytest.raises(fluid.core.EnforceNotMet, match="leaky_relu or elu"):
        layers.inplace_abn(fluid.data("x", [None, 3, 4, 4]), "relu")


def test_images_as_sequences() -> None:
    image = np.arange(32, dtype=np.float32).reshape(2, 1, 4, 4)
    (found,) = of_sequences(lambda x: layers.im2sequence(x, [2, 2], 2), {"x": (image, [])})
    assert found.recursive_sequence_lengths() == [[4, 4]]
    assert np.asarray(found)[:2].tolist() == [[0, 1, 4, 5], [2, 3, 6, 7]]

    def smaller(x: Any, size: Any) -> Any:
        return layers.im2sequence(x, 2, 2, 0, size, 2)

    (found,) = of_sequences(smaller, {"x": (image, []), "size": (np.array([[8, 4], [4, 7]], np.float32), [])})
    assert found.recursive_sequence_lengths() == [[2, 2]]
    assert np.asarray(found)[:, 0].tolist() == [0, 8, 16, 18]


def test_instances_with_a_tag() -> None:
    rows, tags = SCORES[:4], np.array([[1], [2], [3], [2], [5]])
    found, weight = of_sequences(
        lambda x, y: layers.filter_by_instag(x, y, layers.assign(np.array([2])), False),
        {"x": (rows, []), "y": (tags, [[1, 2, 1, 1]])},
    )
    np.testing.assert_array_equal(np.asarray(found), rows[[1, 2]])
    assert np.asarray(weight).tolist() == [[1], [1]]
    found, weight = of_sequences(
        lambda x, y: layers.filter_by_instag(x, y, layers.assign(np.array([9])), False, 7),
        {"x": (rows, []), "y": (tags, [[1, 2, 1, 1]])},
    )
    assert np.asarray(found).tolist() == [[7, 7, 7]]
    assert np.asarray(weight).tolist() == [[0]]


def test_parts_of_sequences() -> None:
    def cut(x: Any) -> Any:
        return layers.sequence_slice(
            x, layers.assign(np.array([[1], [0], [0]])), layers.assign(np.array([[1], [1], [2]]))
        )

    (found,) = of_sequences(cut, {"x": (SCORES, [LENGTHS])})
    np.testing.assert_array_equal(np.asarray(found), SCORES[[1, 2, 3, 4]])
    assert found.recursive_sequence_lengths() == [[1, 1, 2]]
    places, updates = np.array([[0], [2], [1]]), np.array([[10.0], [20.0], [30.0]], np.float32)
    (found,) = of_sequences(
        layers.sequence_scatter, {"x": (SCORES[:2], []), "at": (places, [[2, 1]]), "by": (updates, [[2, 1]])}
    )
    np.testing.assert_allclose(np.asarray(found), SCORES[:2] + np.array([[10, 0, 20], [0, 30, 0]]))
    (found,) = of_sequences(lambda x: layers.lod_append(x, [0, 1, 2, 3, 4, 5, 6]), {"x": (SCORES, [LENGTHS])})
    assert found.recursive_sequence_lengths() == [LENGTHS, [1] * 6]
