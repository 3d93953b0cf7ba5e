"""Step by step: blocks over sequences, divided rows, beams, cells and decoders, against plain loops. Real Paddle."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.support.fluid_programs import computed, derivative, fluid, given, of_sequences, programs

pytestmark = [pytest.mark.paddle, pytest.mark.filterwarnings("ignore")]

layers = fluid.layers
CHANCE = np.random.default_rng(12)
LENGTHS = [2, 1, 3]
ROWS = CHANCE.normal(size=(6, 4)).astype(np.float32)
PARTS = [ROWS[:2], ROWS[2:3], ROWS[3:]]
WEIGHT = CHANCE.normal(size=(4, 4)).astype(np.float32)
PADDED = np.stack([np.concatenate([part, np.zeros((3 - len(part), 4), np.float32)]) for part in PARTS])


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def block(x: Any, *, first: Any = None, reorder: bool = False) -> Any:
    """hidden = tanh(x W + hidden)."""
    network = layers.DynamicRNN()
    with network.block():
        item = network.step_input(x)
        memory = (
            network.memory(first, need_reorder=reorder) if first is not None else network.memory(shape=[4], value=0.5)
        )
        hidden = layers.tanh(layers.fc(item, 4, param_attr=given(WEIGHT), bias_attr=False) + memory)
        network.update_memory(memory, hidden)
        network.output(hidden)
    return network()


def over(part: Any, hidden: Any) -> Any:
    found = []
    for row in part:
        hidden = np.tanh(row @ WEIGHT + hidden)
        found.append(hidden)
    return np.stack(found)


def test_a_block_over_sequences() -> None:
    (found,) = of_sequences(block, {"x": (ROWS, [LENGTHS])})
    np.testing.assert_allclose(np.asarray(found), np.concatenate([over(part, 0.5) for part in PARTS]), rtol=1e-4)
    assert found.recursive_sequence_lengths() == [LENGTHS]


@pytest.mark.parametrize("reorder", [False, True])
def test_a_memory_begins_in_the_order_of_the_input_or_by_length(reorder: bool) -> None:
    first = CHANCE.normal(size=(3, 4)).astype(np.float32)
    (found,) = of_sequences(lambda x, y: block(x, first=y, reorder=reorder), {"x": (ROWS, [LENGTHS]), "y": (first, [])})
    own = first if reorder else first[[1, 2, 0]]  # the longest is the third, then the first, then the second
    expected = np.concatenate([over(part, hidden) for part, hidden in zip(PARTS, own, strict=True)])
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-4)


def test_static_inputs_shrink_with_the_sequences_and_keep_their_own() -> None:
    other, lengths = CHANCE.normal(size=(4, 4)).astype(np.float32), [1, 2, 1]

    def call(x: Any, y: Any, z: Any) -> Any:
        network = layers.DynamicRNN()
        with network.block():
            item, rows, whole = network.step_input(x), network.static_input(z), network.static_input(y)
            network.output(item + rows + layers.sequence_pool(whole, "sum"), item)
        return network()

    rows = CHANCE.normal(size=(3, 4)).astype(np.float32)
    found, same = of_sequences(call, {"x": (ROWS, [LENGTHS]), "y": (other, [lengths]), "z": (rows, [])})
    sums = np.stack([other[0], other[1] + other[2], other[3]]) + rows
    np.testing.assert_allclose(np.asarray(found), ROWS + np.repeat(sums, LENGTHS, 0), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(np.asarray(same), ROWS)


def test_a_block_over_sequences_of_sequences() -> None:
    def call(x: Any) -> Any:
        network = layers.DynamicRNN()
        with network.block():
            network.output(layers.sequence_pool(network.step_input(x, level=0), "sum"))
        return network()

    (found,) = of_sequences(call, {"x": (ROWS, [[2, 1], [1, 2, 3]])})
    expected = [ROWS[0], ROWS[1:3].sum(0), ROWS[3:].sum(0)]
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5)
    assert found.recursive_sequence_lengths() == [[2, 1]]


def test_a_block_over_sequences_learns() -> None:
    with programs() as made:
        words = layers.data("words", [1], dtype="int64", lod_level=1)
        label = layers.data("label", [1], dtype="int64")
        vectors = layers.embedding(words, [20, 8])
        network = layers.DynamicRNN()
        with network.block():
            word = network.step_input(vectors)
            memory = network.memory(shape=[8])
            hidden = layers.fc([word, memory], 8, act="tanh")
            network.update_memory(memory, hidden)
            network.output(hidden)
        last = layers.sequence_last_step(network())
        loss = layers.mean(layers.cross_entropy(layers.fc(last, 2, act="softmax"), label))
        fluid.optimizer.Adam(0.05).minimize(loss)
        made.start()
        feeder = fluid.DataFeeder([words, label])
        samples = [([1, 2, 3], [0]), ([4], [1]), ([2, 2], [0]), ([5, 4, 6, 4], [1])]
        losses = [float(made.run(feeder.feed(samples), [loss])[0][0]) for _ in range(25)]
    assert losses[-1] < 0.2 * losses[0]


def test_a_block_over_sequences_is_used_in_its_order() -> None:
    network = layers.DynamicRNN()
    for wrong, match in (
        (lambda: network.step_input(None), "inside of its block"),
        (network.__call__, "behind its block"),
    ):
        with pytest.raises(fluid.core.EnforceNotMet, match=match):
            wrong()
    with programs(), pytest.raises(fluid.core.EnforceNotMet, match="no step_input"), network.block():
        pass


def test_sequences_in_the_order_of_their_length() -> None:
    def call(x: Any) -> Any:
        return layers.reorder_lod_tensor_by_rank(x, layers.control_flow.lod_rank_table(x))

    (found,) = of_sequences(call, {"x": (ROWS, [LENGTHS])})
    np.testing.assert_array_equal(np.asarray(found), ROWS[[3, 4, 5, 0, 1, 2]])
    assert found.recursive_sequence_lengths() == [[3, 2, 1]]


@pytest.mark.parametrize("pattern", [[1, 0, 1], [1, 1, 1], [0, 0, 0]])
def test_rows_are_divided_by_a_condition(pattern: list[int]) -> None:
    def call(x: Any, y: Any) -> Any:
        divided = layers.IfElse(layers.cast(y, "bool"))
        with divided.true_block():
            divided.output(divided.input(x) * 2.0)
        with divided.false_block():
            divided.output(layers.tanh(divided.input(x)))
        return divided()[0]

    holds, rows = np.array(pattern)[:, None], ROWS[:3]
    expected = np.where(holds, rows * 2, np.tanh(rows))
    np.testing.assert_allclose(computed(call, {"x": rows, "y": holds}), expected, rtol=1e-5)
    ours, measured = derivative(call, {"x": rows, "y": holds})
    assert ours == pytest.approx(measured, rel=1e-5)


def test_sequences_are_divided_by_a_condition() -> None:
    def call(x: Any, y: Any) -> Any:
        divided = layers.IfElse(layers.cast(y, "bool"))
        with divided.true_block():
            divided.output(divided.input(x) * 2.0)
        with divided.false_block():
            divided.output(divided.input(x))
        return divided()[0]

    (found,) = of_sequences(call, {"x": (ROWS, [LENGTHS]), "y": (np.array([[0], [1], [1]]), [])})
    np.testing.assert_allclose(np.asarray(found), ROWS * np.repeat([1, 2, 2], LENGTHS)[:, None])
    assert found.recursive_sequence_lengths() == [LENGTHS]


def test_one_step_of_a_beam_search() -> None:
    """Two sources with prefixes of two and one; the second one's has ended already."""
    with programs() as made:
        names = {"pre_ids": "int64", "pre_scores": "float32", "ids": "int64", "scores": "float32"}
        variables = [
            fluid.data(name, [None, 1 if "pre" in name else 3], dtype, lod_level=2) for name, dtype in names.items()
        ]
        outputs = layers.beam_search(*variables, beam_size=2, end_id=0, return_parent_idx=True)
        arrays = {
            "pre_ids": np.array([[1], [2], [0]]),
            "pre_scores": np.array([[0.1], [0.2], [0.9]], np.float32),
            "ids": np.array([[4, 2, 5], [2, 1, 3], [3, 5, 2]]),
            "scores": np.array([[0.5, 0.3, 0.2], [0.6, 0.3, 0.5], [0.9, 0.5, 0.1]], np.float32),
        }
        lengths = [[2, 1], [1, 1, 1]]
        feed = {name: fluid.create_lod_tensor(each, lengths, fluid.CPUPlace()) for name, each in arrays.items()}
        ids, scores, parents = made.run(feed, outputs, return_numpy=False)
    assert np.asarray(ids)[:, 0].tolist() == [2, 3]
    assert np.asarray(scores)[:, 0].tolist() == pytest.approx([0.6, 0.5])
    assert ids.lod() == [[0, 2, 3], [0, 0, 2, 2]]
    assert np.asarray(parents).tolist() == [1, 1]


VOCABULARY, BEAM, END, STEPS = 5, 2, 1, 4
TABLE = CHANCE.normal(size=(VOCABULARY, VOCABULARY)).astype(np.float32)


def best_sentences(start: int) -> list[tuple[list[int], float]]:
    """Beam search over a table of what follows what, in plain Python."""
    rows = np.log(np.exp(TABLE) / np.exp(TABLE).sum(1, keepdims=True))
    beams: list[tuple[list[int], float]] = [([start], 0.0)]
    for _ in range(STEPS):
        if all(words[-1] == END for words, _ in beams):
            break
        grown = []
        for words, value in beams:
            if words[-1] == END:
                grown.append(([*words, END], value))
            else:
                grown += [([*words, word], value + float(rows[words[-1], word])) for word in range(VOCABULARY)]
        beams = sorted(grown, key=lambda each: -each[1])[:BEAM]

    def short(words: list[int]) -> list[int]:
        return words[: words.index(END) + 1] if END in words else words

    return [(short(words), value) for words, value in beams]


def test_sentences_are_searched_in_a_loop() -> None:
    with programs() as made:
        first = fluid.data("first", [None, 1], "int64", lod_level=2)
        score = fluid.data("score", [None, 1], "float32", lod_level=2)
        counter, limit = layers.zeros([1], "int64"), layers.fill_constant([1], "int64", STEPS)
        ids, scores = layers.array_write(first, counter), layers.array_write(score, counter)
        going = layers.less_than(counter, limit)
        loop = layers.While(going)
        with loop.block():
            before, so_far = layers.array_read(ids, counter), layers.array_read(scores, counter)
            logits = layers.embedding(before, [VOCABULARY, VOCABULARY], param_attr=given(TABLE))
            following = layers.lod_reset(layers.softmax(logits), so_far)
            values, places = layers.topk(following, BEAM)
            grown = layers.elementwise_add(layers.log(values), layers.reshape(so_far, [-1]), axis=0)
            chosen, reached = layers.beam_search(before, so_far, places, grown, BEAM, END)
            layers.increment(counter)
            layers.array_write(chosen, counter, ids)
            layers.array_write(reached, counter, scores)
            more = layers.logical_not(layers.is_empty(chosen))
            layers.logical_and(layers.less_than(counter, limit), more, out=going)
        sentences, values = layers.beam_search_decode(ids, scores, BEAM, END)
        made.start()
        starts = [[2], [3], [4]]
        feed = {
            "first": fluid.create_lod_tensor(np.array(starts), [[1, 1, 1], [1, 1, 1]], fluid.CPUPlace()),
            "score": fluid.create_lod_tensor(np.zeros((3, 1), np.float32), [[1, 1, 1], [1, 1, 1]], fluid.CPUPlace()),
        }
        for _ in range(2):  # the second run begins with empty arrays again
            found, reached_values = made.run(feed, [sentences, values], return_numpy=False)
    lengths = found.recursive_sequence_lengths()
    assert lengths[0] == [BEAM] * 3
    ends = np.cumsum([0, *lengths[1]])
    for number, ((begin, end), (start,)) in enumerate(
        zip(itertools.pairwise(ends), np.repeat(starts, BEAM, 0), strict=True)
    ):
        words, value = np.asarray(found)[begin:end].tolist(), best_sentences(start)[number % BEAM][1]
        assert words[0] == start
        assert cost(words) == pytest.approx(value, rel=1e-4)  # several sentences may cost the same
        assert np.asarray(reached_values)[end - 1] == pytest.approx(value, rel=1e-4)


def cost(words: list[int]) -> float:
    rows = np.log(np.exp(TABLE) / np.exp(TABLE).sum(1, keepdims=True))
    return float(sum(rows[before, word] for before, word in itertools.pairwise(words)))


class Follows(layers.RNNCell):  # type: ignore[misc]
    """What comes behind a word, by the table; its state counts the steps."""

    def call(self, inputs: Any, states: Any) -> Any:
        return layers.embedding(
            layers.unsqueeze(inputs, [1]), [VOCABULARY, VOCABULARY], param_attr=self.attribute
        ), states + 1.0

    attribute = fluid.ParamAttr(name="table", initializer=fluid.initializer.NumpyArrayInitializer(TABLE))


def test_a_decoder_searches_the_same_sentences() -> None:
    with programs() as made:
        state = fluid.data("state", [None, 1])
        decoder = layers.BeamSearchDecoder(Follows(), 2, END, BEAM)
        found, ends, lengths = layers.dynamic_decode(decoder, state, max_step_num=STEPS - 1, return_length=True)
        made.start()
        ids, costs, sizes = made.run({"state": np.zeros((3, 1), np.float32)}, [found, ends.log_probs, lengths])
    expected = best_sentences(2)
    for row in range(3):
        for beam, (words, value) in enumerate(expected):
            size = int(sizes[row, beam])
            assert size >= len(words) - 1
            sentence = [2, *ids[row, :size, beam].tolist()]
            short = sentence[: sentence.index(END) + 1] if END in sentence else sentence
            assert cost(short) == pytest.approx(value, rel=1e-4)
            assert costs[row, beam] == pytest.approx(value, rel=1e-4)


def test_beams_are_merged_with_the_batch() -> None:
    found = computed(lambda x: layers.BeamSearchDecoder.tile_beam_merge_with_batch(x, 2), {"x": ROWS[:3]})
    np.testing.assert_array_equal(found, np.repeat(ROWS[:3], 2, 0))


def test_a_decoder_takes_the_best_word_or_a_drawn_one() -> None:
    for kind in (layers.GreedyEmbeddingHelper, layers.SampleEmbeddingHelper):
        with programs() as made:
            state, first = fluid.data("state", [None, 1]), fluid.data("first", [None], "int64")
            helper = kind(lambda ids: layers.cast(ids, "int64"), first, END)
            outputs, _ = layers.dynamic_decode(
                layers.BasicDecoder(Follows(), helper), state, max_step_num=3, impute_finished=True
            )
            made.start()
            (ids,) = made.run({"state": np.zeros((2, 1), np.float32), "first": np.array([2, 3])}, [outputs.sample_ids])
        if kind is layers.GreedyEmbeddingHelper:
            for start, row in zip((2, 3), ids.tolist(), strict=True):
                word = start
                for found in row:
                    assert found == TABLE[word].argmax()
                    word = found
        assert ((ids >= 0) & (ids < VOCABULARY)).all()


def test_a_decoder_is_taught_by_sequences() -> None:
    words = np.array([[2, 3, 4], [4, 0, 0]])
    with programs() as made:
        state, inputs, size = (
            fluid.data("state", [None, 1]),
            fluid.data("words", [None, 3], "int64"),
            fluid.data("size", [None], "int64"),
        )
        helper = layers.TrainingHelper(inputs, size)
        assert isinstance(helper, layers.DecodeHelper)
        decoder = layers.BasicDecoder(Follows(), helper)
        assert isinstance(decoder, layers.Decoder)
        (outputs, ends), lengths = (found := layers.dynamic_decode(decoder, state, return_length=True))[:2], found[2]
        made.start()
        fed = {"state": np.zeros((2, 1), np.float32), "words": words, "size": np.array([3, 1])}
        logits, last, sizes = made.run(fed, [outputs.cell_outputs, ends, lengths])
    np.testing.assert_allclose(logits[0], TABLE[words[0]], rtol=1e-6)
    np.testing.assert_allclose(logits[1, 0], TABLE[4], rtol=1e-6)
    assert sizes.tolist() == [3, 1]
    assert last[0, 0] == 3


def gru(x: Any, hidden: Any, parts: Any) -> Any:
    gates, candidate, of_gates, of_candidate = parts
    reset, update = np.split(sigmoid(np.concatenate([x, hidden]) @ gates + of_gates), 2)
    return update * hidden + (1 - update) * np.tanh(np.concatenate([x, reset * hidden]) @ candidate + of_candidate)


def lstm(x: Any, hidden: Any, cell: Any, weight: Any, bias: Any) -> Any:
    into, new, forget, out = np.split(np.concatenate([x, hidden]) @ weight + bias, 4)
    cell = cell * sigmoid(forget + 1) + sigmoid(into) * np.tanh(new)
    return np.tanh(cell) * sigmoid(out), cell


def parameters(made: Any) -> list[Any]:
    return [np.asarray(fluid.global_scope().find_var(each.name).get_tensor()) for each in made.main.all_parameters()]


@pytest.mark.parametrize("is_reverse", [False, True])
def test_cells_over_padded_sequences(is_reverse: bool) -> None:
    with programs() as made:
        x, size = fluid.data("x", [None, 3, 4]), fluid.data("size", [None], "int64")
        outputs, ends = layers.rnn(layers.GRUCell(2), x, sequence_length=size, is_reverse=is_reverse)
        both, states = layers.rnn(layers.LSTMCell(2), x, is_reverse=is_reverse)
        made.start()
        found = made.run({"x": PADDED, "size": np.array(LENGTHS)}, [outputs, ends, both, *states])
        parts = parameters(made)
    order = slice(None, None, -1) if is_reverse else slice(None)
    for row, length in enumerate(LENGTHS):
        hidden = np.zeros(2)
        for step in range(3)[order]:
            new = gru(PADDED[row, step], hidden, parts[:4])
            np.testing.assert_allclose(found[0][row, step], new, rtol=1e-4, atol=1e-6)
            hidden = new if step < length else hidden
        np.testing.assert_allclose(found[1][row], hidden, rtol=1e-4, atol=1e-6)
        hidden = cell = np.zeros(2)
        for step in range(3)[order]:
            hidden, cell = lstm(PADDED[row, step], hidden, cell, *parts[4:])
            np.testing.assert_allclose(found[2][row, step], hidden, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found[4][row], cell, rtol=1e-4, atol=1e-6)


def test_units_of_contrib_have_parameters_by_their_names() -> None:
    with programs() as made:
        x, hidden = fluid.data("x", [None, 4]), fluid.data("hidden", [None, 2])
        one = fluid.contrib.layers.BasicGRUUnit("one", 2, fluid.ParamAttr(name="w"), fluid.ParamAttr(name="b"))
        found = [one(x, one(x, hidden)), *fluid.contrib.layers.BasicLSTMUnit("two", 2)(x, hidden, hidden)]
        assert [each.name for each in made.main.all_parameters()][:4] == [
            "w_gate",
            "w_candidate",
            "b_gate",
            "b_candidate",
        ]
        made.start()
        fed = {"x": ROWS[:1], "hidden": ROWS[1:2, :2]}
        results = made.run(fed, found)
        parts = parameters(made)
    np.testing.assert_allclose(results[0][0], gru(ROWS[0], gru(ROWS[0], ROWS[1, :2], parts[:4]), parts[:4]), rtol=1e-4)
    for result, expected in zip(results[1:], lstm(ROWS[0], ROWS[1, :2], ROWS[1, :2], *parts[4:]), strict=True):
        np.testing.assert_allclose(result[0], expected, rtol=1e-4)
    with programs(), pytest.raises(fluid.core.EnforceNotMet, match="sigmoid and tanh"):
        fluid.contrib.layers.BasicLSTMUnit("two", 2, activation=layers.relu)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_networks_of_contrib(bidirectional: bool) -> None:
    ways = 2 if bidirectional else 1
    with programs() as made:
        x, first = fluid.data("x", [None, 3, 4]), fluid.data("first", [2 * ways, None, 2])
        size = fluid.data("size", [None], "int64")
        out, last = fluid.contrib.layers.basic_gru(x, first, 2, 2, size, bidirectional=bidirectional)
        rows, hiddens, cells = fluid.contrib.layers.basic_lstm(x, None, None, 2, 2, bidirectional=bidirectional)
        made.start()
        begin = CHANCE.normal(size=(2 * ways, 3, 2)).astype(np.float32)
        found = made.run({"x": PADDED, "first": begin, "size": np.array(LENGTHS)}, [out, last, rows, hiddens, cells])
        parts = parameters(made)
    of_gru, of_lstm = parts[: 8 * ways], parts[8 * ways :]
    for way, row in itertools.product(range(ways), range(3)):
        order = range(3)[::-1] if way else range(3)
        inputs, other = PADDED[row], PADDED[row]
        for layer in range(2):
            place = 4 * (2 * way + layer)
            hidden, outputs, states = begin[layer * ways + way, row], np.zeros((3, 2)), np.zeros((3, 2))
            h = c = np.zeros(2)
            for step in order:
                new = gru(inputs[step], hidden, of_gru[place : place + 4])
                hidden = new if step < LENGTHS[row] else hidden
                outputs[step] = hidden
                h, c = lstm(other[step], h, c, *of_lstm[place // 2 : place // 2 + 2])
                states[step] = h
            inputs, other = outputs, states
            np.testing.assert_allclose(found[1][layer * ways + way, row], hidden, rtol=1e-3, atol=1e-5)
            np.testing.assert_allclose(found[4][layer * ways + way, row], c, rtol=1e-3, atol=1e-5)
            np.testing.assert_allclose(found[3][layer * ways + way, row], h, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(found[0][row, :, 2 * way : 2 * way + 2], inputs, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(found[2][row, :, 2 * way : 2 * way + 2], other, rtol=1e-3, atol=1e-5)


def test_a_projected_lstm() -> None:
    bias = CHANCE.normal(size=(1, 14)).astype(np.float32)
    wide = CHANCE.normal(size=(6, 8)).astype(np.float32)

    def call(x: Any) -> Any:
        return layers.dynamic_lstmp(x, 8, 3, bias_attr=given(bias), cell_clip=0.8, proj_clip=0.3)

    with programs() as made:
        x = fluid.data("x", [None, 8], lod_level=1)
        outputs = call(x)
        made.start()
        feed = {"x": fluid.create_lod_tensor(wide, [LENGTHS], fluid.CPUPlace())}
        found, cells = made.run(feed, outputs)
        weight, projection, _ = parameters(made)
    peep, shown, cell = bias[0, 8:].reshape(3, 2), np.zeros(3), np.zeros(2)
    for row in range(3, 6):
        new, into, forget, out = np.split(wide[row] + bias[0, :8] + shown @ weight, 4)
        cell = np.tanh(new) * sigmoid(into + cell * peep[0]) + cell * sigmoid(forget + cell * peep[1])
        cell = np.clip(cell, -0.8, 0.8)
        hidden = sigmoid(out + cell * peep[2]) * np.tanh(cell)
        shown = np.clip(np.tanh(hidden @ projection), -0.3, 0.3)
        np.testing.assert_allclose(found[row], shown, rtol=1e-4)
        np.testing.assert_allclose(cells[row], cell, rtol=1e-4)


def test_a_step_of_an_lstm() -> None:
    with programs() as made:
        x, state = fluid.data("x", [None, 4]), fluid.data("state", [None, 2])
        outputs = layers.lstm_unit(x, state, state, forget_bias=0.5)
        made.start()
        hidden, cell = made.run({"x": ROWS[:2], "state": ROWS[2:4, :2]}, outputs)
        weight, bias = parameters(made)
    into, forget, out, new = np.split(np.concatenate([ROWS[:2], ROWS[2:4, :2]], 1) @ weight + bias, 4, 1)
    kept = sigmoid(forget + 0.5) * ROWS[2:4, :2] + sigmoid(into) * np.tanh(new)
    np.testing.assert_allclose(cell, kept, rtol=1e-4)
    np.testing.assert_allclose(hidden, sigmoid(out) * np.tanh(kept), rtol=1e-4)


@pytest.mark.parametrize("both", [False, True])
def test_the_lstm_of_one_parameter_is_that_of_paddle(both: bool) -> None:
    """Its parts are laid out as Paddle's own LSTM lays out what it flattens for cuDNN."""
    from tests.support.fluid_programs import paddle

    ways = 2 if both else 1
    with programs() as made:
        x = fluid.data("x", [3, None, 4])
        h, c = fluid.data("h", [2 * ways, None, 2]), fluid.data("c", [2 * ways, None, 2])
        outputs = layers.lstm(x, h, c, 3, 2, 2, is_bidirec=both)
        made.start()
        begin = CHANCE.normal(size=(2, 2 * ways, 3, 2)).astype(np.float32)
        steps = PADDED.transpose(1, 0, 2).copy()
        found = made.run({"x": steps, "h": begin[0], "c": begin[1]}, outputs)
        (flat,) = parameters(made)
    plain = paddle.nn.LSTM(4, 2, 2, direction="bidirect" if both else "forward", time_major=True)
    weights = [each for each in plain.parameters() if "weight" in each.name or each.ndim == 2]
    biases = [each for each in plain.parameters() if each.ndim == 1]
    place = 0
    for each in (*weights, *biases):
        size = int(np.prod(each.shape))
        each.set_value(flat[place : place + size].reshape(each.shape))
        place += size
    assert place == len(flat)
    expected, (last, cell) = plain(paddle.to_tensor(steps), tuple(map(paddle.to_tensor, begin)))
    for ours, theirs in zip(found, (expected, last, cell), strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-5)


def test_structures() -> None:
    nest = {"b": [1, (2, 3)], "a": 4}
    assert layers.utils.flatten(nest) == [4, 1, 2, 3]
    assert layers.map_structure(lambda x: x * 2, nest) == {"b": [2, (4, 6)], "a": 8}
    assert layers.pack_sequence_as([0, (0,)], [5, 6]) == [5, (6,)]
    assert (layers.is_sequence((1,)), layers.is_sequence("text")) == (True, False)
    assert (layers.convert_to_list(3, 2, "size"), layers.convert_to_list((1, 2), 2, "size")) == ([3, 3], [1, 2])
    layers.utils.assert_same_structure([1, (2,)], [3, (4,)])
    for wrong in (
        lambda: layers.convert_to_list([1], 2, "size"),
        lambda: layers.convert_to_list(["x", 1], 2, "size"),
        lambda: layers.pack_sequence_as([0, 0], [1]),
        lambda: layers.utils.assert_same_structure([1], [1, 2]),
    ):
        with pytest.raises(ValueError, match=r"size|structure"):
            wrong()
