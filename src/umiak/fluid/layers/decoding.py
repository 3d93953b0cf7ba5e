"""Decoders: a cell step by step on what it chose itself, until all sequences have ended. A program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from umiak.fluid.layers import basics, rows
from umiak.fluid.layers.cells import kept_where_over, turned
from umiak.fluid.layers.control import While, array_write, create_array
from umiak.fluid.layers.shapes import tensor_array_to_tensor
from umiak.fluid.layers.structures import flatten, map_structure, pack_sequence_as
from umiak.fluid.record.current import default_main_program
from umiak.fluid.record.recording import apply

if TYPE_CHECKING:
    from umiak.fluid.arguments import Function, Input, Inputs, Output, Outputs, Settings


class Decoder:
    """What decoders of one's own are written from."""

    def initialize(self, inits: Inputs) -> Output:
        """The first inputs, states, and which sequences have ended."""
        raise NotImplementedError

    def step(self, time: Input, inputs: Inputs, states: Inputs, **settings: Settings) -> Output:
        """Outputs, states, the next inputs, and which sequences have ended."""
        raise NotImplementedError

    def finalize(self, outputs: Inputs, final_states: Inputs, sequence_lengths: Input) -> Output:
        """What is made of all outputs; none of it is needed."""
        raise NotImplementedError


class BeamOutput(NamedTuple):
    """Of a step of a beam search."""

    scores: Any
    predicted_ids: Any
    parent_ids: Any


class BeamState(NamedTuple):
    """What a beam search hands from step to step."""

    cell_states: Any
    log_probs: Any
    finished: Any
    lengths: Any


class BeamSearchDecoder(Decoder):
    """The best sentences of a cell: of each row of the batch so many beams."""

    OutputWrapper, StateWrapper = BeamOutput, BeamState

    def __init__(self, cell: Function, start_token: int, end_token: int, beam_size: int, embedding_fn: Function | None = None, output_fn: Function | None = None) -> None:  # fmt: skip
        self.cell, self.start_token, self.end_token, self.beam_size = cell, start_token, end_token, beam_size
        self.embedding_fn, self.output_fn = embedding_fn, output_fn

    @staticmethod
    def tile_beam_merge_with_batch(x: Input, beam_size: int) -> Output:
        """Each row so often, one after another."""
        wide = rows.call("expand", rows.call("unsqueeze", x, [1]), [1, beam_size, *[1] * (len(x.shape) - 1)])
        return rows.call("reshape", wide, [-1, *x.shape[1:]])

    def _split(self, x: Input) -> Output:
        return rows.call("reshape", x, [-1, self.beam_size, *x.shape[1:]])

    def _merged(self, x: Input) -> Output:
        return rows.call("reshape", x, [-1, *x.shape[2:]])

    def _widened(self, x: Input) -> Output:
        return rows.call("expand", rows.call("unsqueeze", x, [1]), [1, self.beam_size, *[1] * (len(x.shape) - 1)])

    def initialize(self, inits: Inputs) -> Output:
        """One beam of each row counts, the others cost too much."""
        like = flatten(inits)[0]
        tokens = rows.call("fill_constant_batch_size_like", like, [-1, self.beam_size], "int64", self.start_token)
        costs = basics.assign(np.array([[0.0] + [-1e9] * (self.beam_size - 1)], "float32"))
        zeros = rows.call("fill_constant_batch_size_like", like, [-1, self.beam_size], "float32", 0.0)
        log_probs = rows.call("elementwise_add", zeros, rows.call("reshape", costs, [self.beam_size]))
        finished = rows.call("cast", rows.call("zeros_like", tokens), "bool")
        states = BeamState(map_structure(self._widened, inits), log_probs, finished, rows.call("zeros_like", tokens))
        return self.embedding_fn(tokens) if self.embedding_fn else tokens, states, finished

    def step(self, time: Input, inputs: Inputs, states: Any, **settings: Settings) -> Output:
        """The cell on all beams, and the best of what may follow."""
        inputs, cell_states = (map_structure(self._merged, each) for each in (inputs, states.cell_states))
        outputs, new_states = self.cell(inputs, cell_states, **settings)
        logits, new_states = (map_structure(self._split, each) for each in (outputs, new_states))
        if self.output_fn is not None:
            logits = self.output_fn(logits)
        output, state = self._chosen(logits, new_states, states)
        output.predicted_ids.stop_gradient = True
        following = self.embedding_fn(output.predicted_ids) if self.embedding_fn else output.predicted_ids
        return output, state, following, state.finished

    def _chosen(self, logits: Input, new_states: Inputs, states: Any) -> tuple[BeamOutput, BeamState]:
        words = logits.shape[-1]
        probabilities = rows.call("log", rows.call("softmax", logits))
        arguments = {"log_probabilities": probabilities, "finished": states.finished, "end_token": self.end_token}
        own = apply("ended_beams", arguments)
        total = rows.call("elementwise_add", own, states.log_probs, axis=0)
        flat = rows.call("reshape", total, [-1, self.beam_size * words])
        scores, places = rows.call("topk", flat, self.beam_size)
        size = basics.fill_constant([1], "int64", words)
        beams, tokens = rows.call("elementwise_floordiv", places, size), rows.call("elementwise_mod", places, size)

        def of_beam(x: Input) -> Output:
            return apply("pick_beams", {"x": x, "index": beams})

        finished, lengths = of_beam(states.finished), of_beam(states.lengths)
        lengths = lengths + rows.call("cast", rows.call("logical_not", finished), "int64")
        ended = rows.call("equal", tokens, basics.fill_constant([1], "int64", self.end_token))
        finished = rows.call("logical_or", finished, ended)
        state = BeamState(map_structure(of_beam, new_states), scores, finished, lengths)
        return BeamOutput(scores, tokens, beams), state

    def finalize(self, outputs: Any, final_states: Inputs, sequence_lengths: Input) -> Output:
        """The ids of each beam from its end back."""
        return rows.call("gather_tree", outputs.predicted_ids, outputs.parent_ids), final_states


def dynamic_decode(decoder: Decoder, inits: Inputs = None, max_step_num: int | None = None, output_time_major: bool = False, impute_finished: bool = False, is_test: bool = False, return_length: bool = False, **settings: Settings) -> Output:  # fmt: skip
    """A decoder step by step until all sequences have ended, or have gone beyond so many steps: outputs, states, and the lengths if they are asked for."""
    inputs, states, finished = decoder.initialize(inits)
    held_inputs, held_states = (map_structure(basics.assign, each) for each in (inputs, states))
    held_finished = basics.assign(finished)
    held_finished.stop_gradient = True
    time = basics.fill_constant([1], "int64", 0)
    lengths = rows.call("cast", rows.call("zeros_like", rows.call("cast", held_finished, "int64")), "int64")
    lengths.stop_gradient = True
    going = rows.call("logical_not", rows.call("reduce_all", held_finished))
    last = None if max_step_num is None else basics.fill_constant([1], "int64", max_step_num)
    loop = While(going, is_test=is_test)
    arrays: Outputs = []
    with loop.block():
        outputs, new_states, new_inputs, new_finished = decoder.step(time, held_inputs, held_states, **settings)
        new_finished = rows.call("logical_or", new_finished, held_finished)
        longer = rows.call("cast", rows.call("logical_not", held_finished), "int64")
        if impute_finished:
            new_states = map_structure(lambda old, new: _kept(old, new, held_finished), held_states, new_states)
        for each in flatten(outputs):
            arrays.append(array_write(each, time, _array_around(each.dtype)))
        basics.increment(time)
        for held, new in zip(flatten([held_inputs, held_states]), flatten([new_inputs, new_states]), strict=True):
            basics.assign(new, held)
        basics.assign(rows.call("elementwise_add", lengths, longer), lengths)
        basics.assign(new_finished, held_finished)
        again = rows.call("logical_not", rows.call("reduce_all", held_finished))
        if last is not None:
            again = rows.call("logical_and", again, rows.call("less_equal", time, last))
        basics.assign(again, going)
    joined = [tensor_array_to_tensor(each, axis=0, use_stack=True)[0] for each in arrays]
    final_outputs, final_states = pack_sequence_as(outputs, joined), held_states
    try:
        final_outputs, final_states = decoder.finalize(final_outputs, final_states, lengths)
    except NotImplementedError:
        pass
    if not output_time_major:
        final_outputs = map_structure(turned, final_outputs)
    return (final_outputs, final_states, lengths) if return_length else (final_outputs, final_states)


def _array_around(dtype: str) -> Output:
    """An array in the block around the one that is being recorded."""
    program = default_main_program()
    inside = program.current_block()
    program.current_block_idx = inside.parent_idx
    array = create_array(dtype)
    program.current_block_idx = inside.idx
    return array


def _kept(old: Input, new: Input, finished: Input) -> Output:
    """The old state where a sequence had ended already."""
    if old.dtype in ("bool", "int64", "int32"):
        before, behind = (rows.call("cast", each, "float32") for each in (old, new))
        return rows.call("cast", _kept(before, behind, finished), old.dtype)
    return kept_where_over(new, old, rows.call("cast", finished, old.dtype))


class DecodeHelper:
    """What chooses the next input of a `BasicDecoder`."""

    def initialize(self) -> Output:
        """The first inputs, and which sequences have ended."""

    def sample(self, time: Input, outputs: Input, states: Inputs) -> Output:
        """The ids that are chosen."""

    def next_inputs(self, time: Input, outputs: Input, states: Inputs, sample_ids: Input) -> Output:
        """Which sequences have ended, the next inputs and the states."""


class TrainingHelper(DecodeHelper):
    """The inputs are those of the sequences, whatever is chosen."""

    def __init__(self, inputs: Inputs, sequence_length: Input, time_major: bool = False) -> None:
        self.inputs, self.sequence_length, self.time_major = inputs, sequence_length, time_major
        axis = 0 if time_major else 1
        self._longer = map_structure(lambda x: rows.call("pad", x, _behind(len(x.shape), axis)), inputs)

    def initialize(self) -> Output:
        zero = basics.fill_constant([1], self.sequence_length.dtype, 0)
        finished = rows.call("equal", self.sequence_length, zero)
        return map_structure(lambda x: x[0] if self.time_major else x[:, 0], self.inputs), finished

    def sample(self, time: Input, outputs: Input, states: Inputs) -> Output:
        return rows.call("argmax", outputs, -1)

    def next_inputs(self, time: Input, outputs: Input, states: Inputs, sample_ids: Input) -> Output:
        following = time + 1
        lengths = rows.call("cast", self.sequence_length, "int64")
        axis = [0 if self.time_major else 1]

        def item(x: Input) -> Output:
            return rows.call("squeeze", rows.call("slice", x, axis, [following], [following + 1]), axis)

        return rows.call("less_equal", lengths, following), map_structure(item, self._longer), states


def _behind(rank: int, axis: int) -> list[int]:
    """Paddings of one item behind the others."""
    return [each for place in range(rank) for each in (0, 1 if place == axis else 0)]


class GreedyEmbeddingHelper(DecodeHelper):
    """The next input is the embedding of the best id."""

    def __init__(self, embedding_fn: Function, start_tokens: Input, end_token: int) -> None:
        self.embedding_fn, self.start_tokens = embedding_fn, start_tokens
        self.end_token = basics.fill_constant([1], "int64", end_token)

    def initialize(self) -> Output:
        finished = rows.call("cast", rows.call("zeros_like", self.start_tokens), "bool")
        return self.embedding_fn(self.start_tokens), finished

    def sample(self, time: Input, outputs: Input, states: Inputs) -> Output:
        return rows.call("argmax", outputs, -1)

    def next_inputs(self, time: Input, outputs: Input, states: Inputs, sample_ids: Input) -> Output:
        return rows.call("equal", sample_ids, self.end_token), self.embedding_fn(sample_ids), states


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """The next input is the embedding of an id that is drawn."""

    def __init__(self, embedding_fn: Function, start_tokens: Input, end_token: int, softmax_temperature: float | None = None, seed: int | None = None) -> None:  # fmt: skip
        super().__init__(embedding_fn, start_tokens, end_token)
        self.softmax_temperature, self.seed = softmax_temperature, seed

    def sample(self, time: Input, outputs: Input, states: Inputs) -> Output:
        logits = outputs / self.softmax_temperature if self.softmax_temperature is not None else outputs
        probabilities = rows.call("softmax", logits)
        probabilities.stop_gradient = True
        drawn = rows.call("sampling_id", probabilities, seed=self.seed or 0)
        return rows.call("cast", drawn, self.start_tokens.dtype)


class StepOutput(NamedTuple):
    """Of a step of a `BasicDecoder`."""

    cell_outputs: Any
    sample_ids: Any


class BasicDecoder(Decoder):
    """A cell with a helper that chooses what it sees next."""

    OutputWrapper = StepOutput

    def __init__(self, cell: Function, helper: DecodeHelper, output_fn: Function | None = None) -> None:
        self.cell, self.helper, self.output_fn = cell, helper, output_fn

    def initialize(self, inits: Inputs) -> Output:
        inputs, finished = self.helper.initialize()
        return inputs, inits, finished

    def step(self, time: Input, inputs: Inputs, states: Inputs, **settings: Settings) -> Output:
        outputs, new_states = self.cell(inputs, states, **settings)
        if self.output_fn is not None:
            outputs = self.output_fn(outputs)
        ids = self.helper.sample(time, outputs, new_states)
        ids.stop_gradient = True
        finished, following, new_states = self.helper.next_inputs(time, outputs, new_states, ids)
        return StepOutput(outputs, ids), new_states, following, finished
