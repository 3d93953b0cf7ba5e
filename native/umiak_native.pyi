"""umiak's native core."""

import builtins
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

__version__: str
"""Of the build, as Cargo.toml says. `umiak` takes exactly its own."""

# ---- tables

@final
class Table:
    """A sparse table in this process: a row of float32 per key. Safe to use from several threads at once."""

    def __new__(cls, spec_json: str, shards: int = 256) -> Table:
        """An empty table. `ValueError` with everything that is wrong with the specification."""

    @property
    def spec(self) -> str:
        """The specification as JSON."""

    @property
    def shards(self) -> int:
        """Virtual shards."""

    @property
    def pull_width(self) -> int:
        """Columns of a pulled row: dim, or with an accessor 3 + dim (show, click, embed_w, then the wide part)."""

    @property
    def push_width(self) -> int:
        """Columns of a pushed row: dim, or with an accessor 4 + dim (slot, show, click, embed_w's gradient, the wide part's)."""

    @property
    def saved_width(self) -> int:
        """Columns of a scanned row."""

    def pull(
        self,
        keys: NDArray[np.uint64] | NDArray[np.int64],
        create: bool = True,
        out: NDArray[np.float32] | None = None,
        *,
        absent: Literal["initial", "zeros"] = "initial",
    ) -> NDArray[np.float32]:
        """Rows of the keys. Missing ones are made, or without `create` read as they would be made, or as zeros."""

    def push(self, keys: NDArray[np.uint64] | NDArray[np.int64], rows: NDArray[np.float32], draw: int = 0) -> None:
        """One optimizer step. A key should come once. Where chance decides, `draw` and the key decide."""

    def push_summed(
        self, parts: list[tuple[NDArray[np.uint64] | NDArray[np.int64], NDArray[np.float32]]], draw: int = 0
    ) -> None:
        """One optimizer step with the sum of these parts, added up in float32 in this order."""

    def set(self, keys: NDArray[np.uint64] | NDArray[np.int64], rows: NDArray[np.float32]) -> None:
        """Overwrites values; the optimizer's state stays. Not for tables with an accessor."""

    def add(self, keys: NDArray[np.uint64] | NDArray[np.int64], rows: NDArray[np.float32]) -> None:
        """Adds to values; the optimizer's state stays. Not for tables with an accessor."""

    @property
    def learning_rate(self) -> float:
        """The rate in use. Setting it also sets the rate of an accessor's embed_w."""

    @learning_rate.setter
    def learning_rate(self, value: float) -> None: ...
    def shrink(self) -> int:
        """A day passes for rows with an accessor, and for those that expire; returns how many were removed."""

    def __len__(self) -> int: ...
    def memory(self) -> dict[str, int]:
        """Bytes: values, state, keys, index, slack."""

    def track(self, trainers: int) -> None:
        """From now on, keeps for so many trainers which rows change."""

    def take_changed(self, trainer: int) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
        """Rows that changed since this trainer asked last, as they are now."""

    def freeze(self, mode: str = "all") -> None:
        """Marks this moment for a save in a mode: all, delta, base, full. No push may run while this does."""

    def saved_bytes(self) -> int:
        """About how many bytes a save takes."""

    def scan(self, shard: int) -> list[tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.float32]]]:
        """Keys, flags and columns of a shard's rows at the frozen moment, once. Flags: 1 pending, 2 wide, above: count."""

    def thaw(self, saved: bool = True) -> None:
        """Lets go of the moment. If it was saved, the mode's after-effects hold."""

    def load(
        self, keys: NDArray[np.uint64] | NDArray[np.int64], flags: NDArray[np.uint32], data: NDArray[np.float32]
    ) -> None:
        """Takes rows of a scan in."""

    def state(self) -> str:
        """As JSON: what belongs to the table and not to a row."""

    def restore(self, state: str) -> None:
        """Takes what `state` gave."""

    def with_spec(self, spec_json: str) -> Table:
        """What is in this one under other settings; this one is not to be used any more. `ValueError`: another layout."""

@final
class DenseTable:
    """A server's part of named arrays, laid end to end. Safe to use from several threads at once."""

    def __new__(cls, spec_json: str, shards: int = 256, server: int = 0, servers: int = 1) -> DenseTable:
        """Values that are not set yet. `ValueError` with everything that is wrong with the specification."""

    @property
    def spec(self) -> str:
        """The specification as JSON."""

    @property
    def range(self) -> tuple[int, int]:
        """The elements that are here: first, and one past the last."""

    def pull(self) -> NDArray[np.float32]:
        """The values; `ValueError` before they are set."""

    def pull_into(self, out: NDArray[np.float32]) -> None:
        """The values into an array of one dimension, without memory of their own."""

    def push(self, gradients: NDArray[np.float32]) -> None:
        """One optimizer step."""

    def push_summed(self, parts: list[NDArray[np.float32]]) -> None:
        """One optimizer step with the sum of these gradients, added up in float32 in this order."""

    def set(self, values: NDArray[np.float32], only_if_unset: bool = False) -> bool:
        """Overwrites the values; returns whether they are these now."""

    @property
    def is_set(self) -> bool:
        """Whether values were set."""

    @property
    def learning_rate(self) -> float:
        """The rate in use."""

    @learning_rate.setter
    def learning_rate(self, value: float) -> None: ...
    def freeze(self) -> None:
        """Marks this moment for a save."""

    def saved_bytes(self) -> int:
        """About how many bytes a save takes."""

    def chunk(self, shard: int) -> tuple[int, NDArray[np.float32], NDArray[np.float32]] | None:
        """Offset, values and state of a virtual shard's chunk at the frozen moment."""

    def thaw(self) -> None:
        """Lets go of the moment."""

    def load_chunk(self, offset: int, values: NDArray[np.float32], state: NDArray[np.float32]) -> None:
        """Takes a saved chunk in."""

    def state(self) -> str:
        """As JSON: what belongs to the table and not to an element."""

    def restore(self, state: str) -> None:
        """Takes what `state` gave."""

    def with_spec(self, spec_json: str) -> DenseTable:
        """What is in this one under other settings; this one is not to be used any more. `ValueError`: another layout."""

def mix(keys: NDArray[np.uint64] | NDArray[np.int64]) -> NDArray[np.uint64]:
    """Keys with their bits spread: what shards and first rows are made from."""

def shard_of(keys: NDArray[np.uint64] | NDArray[np.int64], shards: int = 256) -> NDArray[np.int64]:
    """The virtual shard of each key."""

def server_of(keys: NDArray[np.uint64] | NDArray[np.int64], servers: int, shards: int = 256) -> NDArray[np.int64]:
    """The server of each key."""

def unique(keys: NDArray[np.uint64] | NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Different keys in the order in which they first come, and for each key its place among them."""

def merge(
    parts: list[tuple[NDArray[np.uint64] | NDArray[np.int64], NDArray[np.float32]]],
    last_counts: int = 0,
) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
    """Different keys in the order in which they first come, and the sum of each one's rows, in the order they come.

    Of the first `last_counts` columns (an accessor's slot is one) the last row's stand, instead of their sum.
    """

def squares(numbers: NDArray[np.float32]) -> float:
    """The sum of the squares of a vector, added up in float64 from the first number to the last."""

def pool(
    rows: NDArray[np.float32], inverse: NDArray[np.int64], offsets: NDArray[np.int64], mode: str = "sum"
) -> NDArray[np.float32]:
    """One row per segment: rows[inverse[offsets[i]:offsets[i + 1]]], added up in this order, or their mean."""

def pool_grad(
    gradients: NDArray[np.float32],
    inverse: NDArray[np.int64],
    offsets: NDArray[np.int64],
    rows: int,
    mode: str = "sum",
) -> NDArray[np.float32]:
    """What `pool`'s rows get of the gradients of its segments, added up in the order of `inverse`."""

def fingerprint(values: NDArray[np.float32]) -> int:
    """A number of all bits of an array of one dimension, to find out whether it is still what it was."""

def kernel_variant(pin: str | None = None) -> str:
    """Which compilation of the kernels is used: baseline, avx2 or avx512. `pin` chooses one; all give the same bits."""

# ---- reader

class ReaderError(ValueError):
    """A reader can't go on. Fields that have no meaning for its kind are None."""

    kind: str
    """line, file, not_text, position or asked."""
    file: str | None
    line: int | None
    column: int | None
    token: str | None
    slot: int | None
    """Of MultiSlot text alone."""
    reason: str
    """For a line, a stable word such as "not_an_id"; else words."""
    message: str

@final
class SlotReader:
    """Batches of samples from files of `slot:value` lines. All work is done without the GIL.

    An input is (path, start, end), (file descriptor, name), (bytes, name), or (callable, name): the callable gives a file with
    a method `read`. (path, start, end, callable) is a file that is unpacked so. Settings are JSON.
    """

    def __new__(
        cls,
        inputs: Sequence[
            tuple[str, int, int | None]
            | tuple[str, int, int | None, Callable[[], object]]
            | tuple[int, str]
            | tuple[bytes, str]
            | tuple[Callable[[], object], str]
        ],
        settings: str,
        position: str | None = None,
        unsigned: bool = False,
    ) -> SlotReader: ...
    def __iter__(self) -> SlotReader: ...
    def __next__(self) -> Batch: ...
    def position(self) -> str:
        """JSON from which another reader of the same inputs goes on behind the last batch."""
    def statistics(self) -> str:
        """JSON with what was seen so far."""
    def close(self) -> None:
        """Ends its threads and lets go of its files."""

@final
class Batch:
    """Some samples. The arrays own the reader's memory; they are made when they are first asked for."""

    @property
    def size(self) -> int: ...
    @property
    def bytes(self) -> int:
        """Bytes of all its arrays."""
    @property
    def sparse(self) -> dict[str, tuple[NDArray[Any], NDArray[np.int64]]]:
        """For each sparse slot its ids, one sample after the other, and where each sample's ids begin; the last offset is
        their number."""
    @property
    def dense(self) -> dict[str, NDArray[np.float32]]:
        """For each dense slot a matrix of one row per sample."""
    def matrix(self, slots: Sequence[str]) -> NDArray[Any]:
        """Ids of sparse slots with exactly one per sample: a row for each sample, a column for each slot in this order. A slot
        with more or fewer in some sample is a ValueError, one that was not asked for a KeyError."""
    def __len__(self) -> int: ...

@final
class MultiSlotParser:
    """Reads MultiSlot text, a block of whole lines at a time; it keeps nothing between two blocks.

    A slot is (whether its values are float32 and not ids, a number of which a sample's number of values is a multiple or 0 for
    any number, whether zeros are left out). ``texts`` fields of one text each stand before the slots and are passed over.
    """

    def __new__(cls, slots: Sequence[tuple[bool, int, bool]], *, texts: int = 0) -> MultiSlotParser: ...
    def parse(self, text: bytes) -> tuple[MultiSlotSamples, int | None]:
        """The samples, and the first line, from 0, that has something behind its last slot.

        A bad line is a ReaderError whose `line` is counted from 0 in this block; it has `slot` as well, from 0 or None.
        """

@final
class MultiSlotSamples:
    """Samples in columns, which do not change."""

    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int:
        """Bytes of all its arrays."""
    def cut(self, start: int, end: int) -> MultiSlotSamples: ...
    def take(self, picked: NDArray[np.int64]) -> MultiSlotSamples:
        """Those with these numbers, in this order."""
    def with_slots_of(self, slots: Sequence[int], picked: NDArray[np.int64]) -> MultiSlotSamples:
        """The same samples, but these slots are those of other samples."""
    @staticmethod
    def join(parts: Sequence[MultiSlotSamples]) -> MultiSlotSamples:
        """One after the other; they must have the same slots."""
    def arrays(self) -> list[tuple[NDArray[Any], NDArray[np.int64]]]:
        """For each slot its values, int64 or float32, and where each sample's begin; the last offset is their number."""
    def encode(self) -> bytes: ...
    @staticmethod
    def decode(encoded: bytes) -> MultiSlotSamples:
        """What `encode` gave. Other bytes are a ValueError."""

def count_lines(data: bytes) -> int:
    """Newlines, counted as fast as the machine can: the limit of every reader."""

def permutation(seed: int, number: int, count: int) -> NDArray[np.uint32]:
    """The order of window `number` of a shuffle with this seed: the numbers below `count`, each once."""

def stable_hash(text: str | bytes | int, buckets: int | None = None, seed: int = 0) -> int:
    """XXH64 of a text in UTF-8, of bytes, or of an integer in decimal digits; with `buckets`, its remainder."""

# ---- store

class BadFile(ValueError):
    """A file of a checkpoint, or a log, that can't be used. `str()` is one sentence that names the file."""

    trouble: str
    """io, foreign, version, torn, damaged or schema."""
    file: str

@final
class ShardFile:
    """A file of a checkpoint, with one virtual shard or several: an iterator over its pieces, read one at a time and checked. `BadFile`.

    What has been handed out is only known to be all of it when the iterator is at its end.
    """

    def __new__(cls, path: str | os.PathLike[str]) -> ShardFile: ...
    @property
    def shards(self) -> int: ...
    @property
    def shard(self) -> int:
        """The first one in the file."""

    @property
    def count(self) -> int:
        """How many there are in the file."""

    @property
    def step(self) -> int: ...
    @property
    def about(self) -> str:
        """What the writer added, as JSON."""

    @property
    def fingerprint(self) -> tuple[int, int] | None:
        """Length and CRC32 of the whole file; None until the end was reached."""

    def __iter__(self) -> ShardFile: ...
    def __next__(
        self,
    ) -> (
        tuple[Literal["table"], str, str, str]
        | tuple[Literal["rows"], NDArray[np.uint64], NDArray[np.uint32], NDArray[np.float32]]
        | tuple[Literal["dense"], int, NDArray[np.float32], NDArray[np.float32]]
    ):
        """("table", name, spec, state), both JSON; then its ("rows", keys, flags, data) or ("dense", offset, values, state).

        `data` has a row per key: all that the table saves of it, values and optimizer state.
        """

def verify_shard_file(path: str | os.PathLike[str]) -> str:
    """Reads a whole shard file; returns {name, shard, count, bytes, crc32, rows: {table: rows}} as JSON. `BadFile`."""

def shards_per_file(size_bytes: int, shards: int) -> int:
    """How many virtual shards share a file of a checkpoint, if these shards have so many bytes."""

def spec_differences(file: str, table: str) -> list[str]:
    """Where two table specifications (JSON) differ, a line each, in words. Empty if they are equal."""

def layout_differences(file: str, table: str) -> list[str]:
    """Those of them because of which rows of the one can't be rows of the other: dim, rule, arrays, accessor."""

def spec_change(name: str, old: str, new: str) -> str | None:
    """What changes for a table that gets another specification, in one line; None if nothing does."""

def value_columns(spec: str) -> tuple[int, int]:
    """Where the weights stand in a saved row of a sparse table with this specification: first column, and the one after."""

def read_manifest(directory: str | os.PathLike[str]) -> str:
    """The manifest in a directory, as JSON, as the native core reads it. For tests. `BadFile`."""

def write_manifest(directory: str | os.PathLike[str], manifest: str) -> None:
    """Writes a manifest (JSON) as the native core does. For tests."""

def write_shard_file(
    directory: str | os.PathLike[str],
    name: str,
    head: str,
    tables: Sequence[
        tuple[
            str,
            str,
            str,
            Sequence[
                tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.float32]]
                | tuple[int, NDArray[np.float32], NDArray[np.float32]]
            ],
        ]
    ],
) -> str:
    """Writes a shard file. `head` is JSON {shards, shard, count, step, about}; a table is (name, spec, state, pieces).

    Returns what `verify_shard_file` returns.
    """

@final
class Log:
    """The group-committed log of a server, for tests."""

    def __new__(cls, directory: str | os.PathLike[str], interval_ms: int) -> Log: ...
    @staticmethod
    def replay(
        directory: str | os.PathLike[str], first: int = 1
    ) -> tuple[list[tuple[int, bytes]], tuple[str, int, int] | None]:
        """All records from `first` on, and what was torn at the end and cut off: file, byte, bytes. `BadFile`."""

    def append(self, record: bytes) -> int: ...
    def wait_durable(self, lsn: int) -> None: ...
    def rotate(self) -> int: ...
    def drop_before(self, lsn: int) -> int: ...
    @property
    def durable(self) -> int: ...
    @property
    def last(self) -> int: ...
    @property
    def failure(self) -> str | None: ...
    @property
    def size(self) -> int: ...
    def close(self) -> None: ...

# ---- server and client

class PsError(RuntimeError):
    """What a parameter server or its client reports. `str()` is the message, followed by the hint if there is one."""

    code: str
    """A short stable word, such as "wrong-token"."""
    hint: str | None
    """What a person can do about it."""

class Refused(PsError):
    """A server answered, and said no; nothing was changed."""

class ServerLost(PsError):
    """A server could not be reached, or was silent, for longer than `timeout_s`."""

class ServerForgot(PsError):
    """A server came back without pushes that it had acknowledged: the tables are not what they should be."""

class TrainerLost(PsError):
    """Another trainer is gone, and the job's policy is not to go on without it."""

class Timeout(PsError):
    """What was waited for did not happen within `limit_s`; the servers are alive."""

@final
class Server:
    """One parameter server: a listener and its part of every table. All of its work is done by native threads."""

    def __new__(cls, config: str, token: bytes | None = None) -> Server:
        """Checks the configuration and opens nothing yet. Every problem of it is in one `Refused` ("bad-config").

        `config` is a JSON object:

        - host: "127.0.0.1" (another one needs a token), port: 0 (any)
        - job: "" (a name; clients with another one are refused)
        - index: 0, servers: 1 (this server's place among all), shards: 256 (virtual shards of the job)
        - world: 1 (trainers expected)
        - tls: null, or {cert, key} and optionally {ca} (then clients need a certificate): paths of PEM files
        - log: null, or {dir, interval_ms} and optionally {snapshot_bytes}: pushes survive a kill
        - on_loss: "fail", "go_on" or "wait" when a trainer is lost, which is when nothing was heard of it for
          grace_s: 60 (or arrive_s: 600 if it never came); it is called silent after beat_timeout_s: 10
        - most_frame: 268435456, most_connections: 1024, most_strangers: 64 (limits), frame_s: 30, handshake_s: 5
        """

    def start(self) -> int:
        """Recovers what the log holds, binds and serves; returns the port. `Refused` ("address-in-use", ...)."""

    def wait(self, timeout_s: float | None = None) -> str | None:
        """Waits until all trainers are done or lost; None if that took longer.

        Returns a JSON object: ok, text, done and lost (lists of ranks), log_failed. Python's signal handlers run
        meanwhile.
        """

    def status(self) -> str:
        """A JSON object: tables with rows and bytes, trainers and what is known of them, step, log, connections."""

    def stop(self) -> None:
        """Closes every connection, ends every thread, makes the log durable. Twice is fine."""

def server_status(config: str, token: bytes | None = None) -> str:
    """How one server says that it is, as JSON: see `Server.status`. One attempt, as somebody who only looks.

    `config` is a JSON object: endpoint "host:port", job "", tls as for a `Client`. `ServerLost` if nothing answers.
    """

@final
class Client:
    """A trainer's side of a job's servers. One operation at a time: a second thread waits for the first one's.

    Every call runs with the GIL released and lets Python's signal handlers run at least every 0.2 s. A connection that
    breaks is made again, with growing pauses, for up to `timeout_s`, and what the server has not got is sent again, so
    that every push counts exactly once. An exception in the middle of a push (KeyboardInterrupt) does not take back what
    was begun: it is sent again with the next call, and never counts twice.

    Keys are uint64 or int64 (the same bits), of any shape and with repetitions; rows are float32. Arrays that are not
    C-contiguous are copied first.
    """

    def __new__(cls, config: str, token: bytes | None = None) -> Client:
        """Checks the configuration and connects to nothing yet.

        `config` is a JSON object:

        - endpoints: ["host:port", ...], all servers of the job, in the order of their index
        - rank: 0, world: 1, job: "", shards: 256: as the servers have them
        - kind: "trainer", or "observer" (no rank of the job: looks, saves, loads and stops nobody)
        - timeout_s: 60.0 (how long a server may be away or silent), beat_s: 1.0
        - tls: null, or {ca} and optionally {cert, key} and {name} (the name in the server's certificate)
        - replay_bytes: 268435456 (pushes kept until they are durable; a full buffer makes pushes wait)
        """

    def connect(self) -> str:
        """Connects to all servers, waiting for them up to `timeout_s`, and starts the heartbeat. Twice is fine.

        Returns a JSON list, one object per server, of what the server said in its welcome: life, applied, durable,
        log (whether it keeps one), step, next, prepared, tables and more.
        """

    def create_table(self, name: str, spec: str, wire: str = "float32") -> int:
        """Creates a table on all servers, or finds it there; `spec` is a table specification as JSON.

        With `wire` "bfloat16" rows that are pulled to be trained and all gradients of this client are rounded to bfloat16 on the
        way. What is set, added, saved, or pulled without being created goes as it is.

        Returns the table's number in this client. `Refused` ("other-spec") if it exists with another specification.
        """

    def pull_width(self, table: int) -> int:
        """Columns of a pulled row: dim, or 3 + dim with an accessor. Elements in all, for a dense table."""

    def push_width(self, table: int) -> int:
        """Columns of a pushed row: dim, or 4 + dim with an accessor. Elements in all, for a dense table."""

    def pull(
        self,
        table: int,
        keys: NDArray[np.uint64] | NDArray[np.int64],
        out: NDArray[np.float32] | None = None,
        *,
        create: bool = True,
        absent: Literal["initial", "zeros"] = "initial",
        step: int = 0,
        limit_s: float | None = None,
    ) -> NDArray[np.float32]:
        """Rows of keys: an array of shape `keys.shape + (width,)`, or `out`, which has that shape and is C-contiguous.

        Waits until the servers have applied all steps before `step`. Missing rows are created, or, without `create`,
        only read as what they would be, or as zeros if `absent` says so. Each key goes over the network once.
        """

    def push(
        self,
        table: int,
        keys: NDArray[np.uint64] | NDArray[np.int64],
        rows: NDArray[np.float32],
        *,
        step: int | None = None,
        scale: float = 1.0,
        mean: bool = False,
    ) -> None:
        """One optimizer step with `rows` (shape `keys.shape + (width,)`) as gradients; returns when every server has it.

        Rows of the same key are summed in the order in which they stand (with an accessor: show, click and gradients
        are summed, the slot is the last one). With `step` it is a part of that synchronous step and is applied when all
        trainers have committed it. A step may consist of several pushes. Gradients are multiplied by `scale` first; an
        accessor's slot, show and click are not.

        `mean` says of a step's push that it counts by 1 / trainers (`scale` has done that): where fewer trainers take part
        in the step, it counts by 1 / these instead.
        """

    def set(self, table: int, keys: NDArray[np.uint64] | NDArray[np.int64], rows: NDArray[np.float32]) -> None:
        """Overwrites values. Of the same key twice, the last one counts."""

    def add(self, table: int, keys: NDArray[np.uint64] | NDArray[np.int64], rows: NDArray[np.float32]) -> None:
        """Adds to values (geo). Rows of the same key are summed first."""

    def changed(self, table: int) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
        """Keys that anybody changed since this trainer's last call, and their values now (geo)."""

    def pull_dense(
        self, table: int, out: NDArray[np.float32] | None = None, *, step: int = 0, limit_s: float | None = None
    ) -> NDArray[np.float32]:
        """All elements of a dense table, end to end, in one array of one dimension. `step` as in `pull`."""

    def push_dense(
        self,
        table: int,
        gradients: NDArray[np.float32] | list[NDArray[np.float32]],
        *,
        step: int | None = None,
        scale: float = 1.0,
        mean: bool = False,
    ) -> None:
        """Gradients of all elements, end to end: one array, or a list of arrays that follow each other.

        `step`, `scale` and `mean` as in `push`.
        """

    def learn_dense(
        self,
        table: int,
        gradients: NDArray[np.float32] | list[NDArray[np.float32]],
        out: NDArray[np.float32],
        *,
        pushes: list[tuple[int, NDArray[np.uint64] | NDArray[np.int64], NDArray[np.float32]]] = ...,
        step: int | None = None,
        scale: float = 1.0,
        mean: bool = False,
        next_rows: Sequence[tuple[int, NDArray[np.uint64] | NDArray[np.int64], NDArray[np.float32]]] = ...,
    ) -> NDArray[np.float32]:
        """The end of a training step: pushes gradients and fills `out` with the elements afterwards.

        As `push_dense` and `pull_dense`, or with `step` as `push_dense`, `prepare`, `commit` and `pull_dense` of the next
        step, with half as many exchanges. `pushes` are those of rows (sparse table, keys, rows), as `push` takes them: they go
        before, in the same exchange. If a server refuses one of them, the rest may have been applied.

        `next_rows` are those that the next step begins with: sparse tables, keys, and arrays of shape `keys.shape + (width,)`,
        which are filled. They are asked for behind the request that ends the step, without waiting for its answer, and are what
        `pull` (of step + 1) would give after it.
        """

    def set_dense(
        self, table: int, values: NDArray[np.float32], *, if_unset: bool = False, step: int | None = None
    ) -> None:
        """Overwrites all elements; with `if_unset` only if nobody has set them (the first trainer's values count).

        With `step` it is a part of that synchronous step, and happens before the step's gradients are applied.
        """

    def set_learning_rate(self, table: int, learning_rate: float, *, step: int | None = None) -> None:
        """From now on, or with `step` from that synchronous step on."""

    def shrink(self, table: int) -> int:
        """Daily decay, then eviction; returns how many rows went."""

    def prepare(self, step: int, *, limit_s: float | None = None) -> None:
        """Every push of this trainer for `step` is there. With a log, returns when it is durable."""

    def commit(
        self,
        step: int,
        *,
        next_rows: Sequence[tuple[int, NDArray[np.uint64] | NDArray[np.int64], NDArray[np.float32]]] = ...,
        limit_s: float | None = None,
    ) -> None:
        """The step counts. Only after `prepare(step)`, which says that all servers have it.

        With `next_rows`, as `learn_dense` takes them, it also waits until the step is applied.
        """

    def abort(self, step: int) -> None:
        """Forgets the pushes of a step that is not committed."""

    def resume(self) -> int:
        """After `connect` in a trainer that may have been restarted: the step to go on with (0 in a new job).

        A step that any server has committed for this trainer is committed on all; one that none has is forgotten.
        """

    @property
    def step(self) -> int | None:
        """The step that comes next: behind the last `commit`, `learn_dense` or `resume`. None before any."""

    def finish_steps(self) -> None:
        """This trainer takes no more steps: those of the others do not wait for it. It still reads, saves and meets them."""

    def barrier(self, name: str, *, limit_s: float | None = None) -> None:
        """Waits until all living trainers have called it with this name.

        `Refused` ("mutual-wait") if it can't end because another trainer waits elsewhere for this one, and has for 5 s. As all
        waiting, it is told on stderr after 10 s.
        """

    def gather(self, name: str, payload: bytes, *, limit_s: float | None = None) -> list[bytes]:
        """What all trainers bring to the same turn of this name, in order of rank; one round trip to the first server.

        Waits until all living trainers have called it. Of a trainer that is lost (where the others go on without it) or
        done there is b"". A payload has at most 1 MiB, a name 256 bytes; `Refused` ("too-long") otherwise. Unlike
        `barrier` it does not wait until pushes are durable. The calls of a name are counted; after a `Timeout`, or an
        exception of a signal handler, the next call takes up the same turn, and if that was complete meanwhile, with the
        payload that the others have already had. The server keeps the last turn of each name, so use few names. A trainer
        that was restarted counts from 0, and is refused ("turn-past") if the others are two turns further.
        """

    def post(self, name: str, payload: bytes, *, limit_s: float | None = None) -> list[bytes]:
        """Says something under a name, and returns what every trainer has said last, in order of rank; b"" if nothing yet.

        Nobody waits. A server that is restarted has forgotten it. At most 64 names.
        """

    def take(self, name: str, *, limit_s: float | None = None) -> int:
        """The next of the numbers 0, 1, 2, ... of this name. Each is given once, to one process of one trainer.

        That is so also if a connection breaks, and with a log if the first server is killed. A number that was given to a
        process that died is not given again.
        """

    def done(self) -> None:
        """This trainer is finished. When all are, the servers' work is over."""

    def save(self, request: str) -> str:
        """`request` is a JSON object {path, mode, ...} for every server; returns the JSON list of their answers."""

    def load(self, request: str) -> str:
        """`request` is a JSON object {path, ...} for every server; returns the JSON list of their answers."""

    def status(self) -> str:
        """The JSON list of the servers' `Server.status()`."""

    def waiting_for(self) -> str | None:
        """What a call in another thread, or the one that a signal handler interrupted, waits for, in words."""

    def close(self) -> None:
        """Closes all connections and ends the heartbeat, without saying that this trainer is done. Twice is fine."""

# ---- tables of columns

class TableError(ValueError):
    """A table can't be read. Fields that have no meaning for its kind are None."""

    kind: str
    """file, damaged, unsupported, value or asked."""
    file: str
    group: int | None
    row: int | None
    """In its row group, or among the rows of its part, from 0."""
    line: int | None
    column: str | None
    value: str | None
    """What was found, shortened."""
    reason: str
    message: str

_Source = str | tuple[int, Callable[[int, int], bytes]]
_Texts = tuple[NDArray[np.int64], NDArray[np.uint8]]
_Column = tuple[NDArray[Any] | _Texts, NDArray[np.uint8], NDArray[np.int64] | None, NDArray[np.uint8] | None]

@final
class ParquetFile:
    """A Parquet file. `source` is its path, or its size and a function that gives `count` bytes from a place on."""

    def __new__(cls, name: str, source: _Source) -> ParquetFile: ...
    @property
    def groups(self) -> list[tuple[int, int]]:
        """Of each row group, its rows and its bytes."""

    @property
    def columns(self) -> list[tuple[str, str, bool, str | None]]:
        """Of each column its name, the kind of its values, whether they are in lists, and why it can't be read."""

    @property
    def writer(self) -> str:
        """The program that wrote it."""

    def rows(
        self,
        group: int,
        columns: Sequence[tuple[str, str]],
        missing: Sequence[bytes] = ...,
        first: int = 0,
        pass_bad: bool = False,
    ) -> TableRows:
        """A row group from a row on. Columns are asked for as values, ids, numeric_ids, numbers,
        texts or numeric_texts. Texts in `missing` are taken
        for nothing where ids or numbers are asked for. With `pass_bad`, rows with bad values are left out and counted."""

def csv_names(name: str, source: _Source, delimiter: int, quote: int | None) -> list[str]:
    """The names of a CSV file's columns, out of its first row."""

def csv_cuts(name: str, source: _Source, delimiter: int, quote: int | None, every: int) -> list[int]:
    """Where rows of a CSV file begin, each the first at or behind a multiple of so many bytes. The file is read through."""

def text_rows(
    name: str,
    source: _Source,
    columns: Sequence[tuple[str, str]],
    csv: tuple[int, int | None, Sequence[str] | None] | None = None,
    start: int = 0,
    end: int | None = None,
    missing: Sequence[bytes] = ...,
    first: int = 0,
    pass_bad: bool = False,
) -> TableRows:
    """The rows of a text file that begin in a range of bytes. Of CSV with its delimiter, its quote and the names of its columns
    (None: the first row has them), where a range begins where a row does; else of JSON lines. Behind what a column is asked for as,
    `[]` says that each value is a list, and `[|]` that `|` stands between the elements of one in CSV."""

@final
class TableRows:
    """The rows of a part of a table."""

    def next_batch(self, rows: int) -> tuple[int, int, int, list[TableError], list[_Column]] | None:
        """Up to so many rows, or None behind the last one: (number of the first row, rows read, bad ones among them, some of
        these, columns). A column is (values, state, offsets, state of lists): texts are (offsets, bytes); a state is 0, or 1 of what
        is missing; without lists the last two are None."""

# ---- features

_Ids = NDArray[np.uint64]
_Numbers = NDArray[np.float64]
_States = NDArray[np.bool_]

def feature_seed(table: str) -> int:
    """What the ids of a table are spread with: XXH64 of its name."""

def feature_spread(numbers: _Ids, seed: int) -> _Ids:
    """Numbers of one table among those of all tables. Padding, 0, stays 0, and nothing else becomes 0."""

def feature_open(ids: _Ids, missing: _States, seed: int) -> _Ids:
    """The ids of an open table: hashes, spread; a missing one is 1, spread."""

def feature_buckets(ids: _Ids, missing: _States, count: int) -> _Ids:
    """2 and the remainder; 1 is missing."""

def feature_ranges(numbers: _Numbers, boundaries: _Numbers) -> _Ids:
    """2 and how many boundaries are not above a number; NaN is 1."""

def feature_number_ids(numbers: _Numbers) -> tuple[_Ids, _States]:
    """The hashes of numbers' canonical texts, and which of them are missing: NaN."""

def feature_text_ids(offsets: NDArray[np.int64], texts: NDArray[np.uint8], missing: _States) -> _Ids:
    """The ids of texts that lie end to end: their hashes, and 0 where nothing is there."""

def feature_crossed(parts: Sequence[tuple[_Ids, _States]]) -> tuple[_Ids, _States]:
    """XXH64 of the parts' ids in order, eight bytes each with the lowest first, 0 where missing; missing where all parts are."""

def feature_ends(offsets: NDArray[np.int64], most: int, last: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places of the last or first elements of lists, and how many each row has."""

def feature_transformed(numbers: _Numbers, fill: float | None, steps: Sequence[tuple[str, float, float]]) -> _Numbers:
    """Numbers after some steps. NaN is missing, and counts as `fill`, if there is one."""

def feature_column(name: str, values: list[Any], kind: str, missing: Sequence[bytes] = ...) -> _Column:
    """A column of Python's own values, as `TableRows.next_batch` has those of files. `kind` is what it is read as. TypeError where a value is
    of another type, TableError where it is not what is expected."""

@final
class Vocabulary:
    """Words, known by the hashes of their texts. ValueError if two have the same."""

    def __new__(cls, ids: _Ids, oov: int) -> Vocabulary: ...
    def numbers(self, ids: _Ids, missing: _States) -> _Ids:
        """1 is missing, then as many numbers for unknown ones as `oov` says, then the words."""

@final
class WordCounts:
    """Words counted. Pieces that are merged in any order are the same as the whole."""

    def __new__(cls) -> WordCounts: ...
    def add(
        self, offsets: NDArray[np.int64], texts: NDArray[np.uint8], missing: _States, fill: builtins.bytes | None = None
    ) -> None:
        """Texts end to end. Missing ones count as `fill`, if there is one."""

    def add_numbers(self, numbers: _Numbers) -> None:
        """The canonical texts of numbers. NaN is missing."""

    def merge(self, other: WordCounts) -> None: ...
    def packed(self, most: int) -> list[builtins.bytes]:
        """As bytes, for another process to `take`, in pieces of about so many bytes."""

    def take(self, packed: builtins.bytes) -> None:
        """Merge what was packed. ValueError if it is not whole."""

    def __len__(self) -> int: ...
    @property
    def bytes(self) -> int:
        """How much memory it takes, about."""

    def sorted(self, least: int = 1) -> list[tuple[builtins.bytes, int]]:
        """Words that came at least so often, the most frequent first, of equally frequent ones by their bytes."""

@final
class NumberSketch:
    """What is to be known of numbers. Pieces that are merged in any order are the same as the whole."""

    def __new__(cls, quantiles: bool) -> NumberSketch: ...
    def add(self, numbers: _Numbers) -> None:
        """NaN is missing."""

    def merge(self, other: NumberSketch) -> None: ...
    def packed(self) -> builtins.bytes:
        """As bytes, for another process to `take`."""

    def take(self, packed: builtins.bytes) -> None:
        """Merge what was packed. ValueError if it is not whole."""

    @property
    def counts(self) -> tuple[int, int, int, float, float]:
        """How many numbers, missing ones and infinite ones there are, the lowest and the highest number."""

    @property
    def sums(self) -> list[tuple[int, int, int, int, int]]:
        """For each exponent of two the sum of the whole numbers that it multiplies, and of their squares in parts: the squares of what is above
        27 bits, the products of both parts, the squares of the lowest 27 bits."""

    def values(self) -> tuple[_Numbers, _Ids, bool]:
        """Different values in ascending order, how often each came, and whether they stand for cells of near ones."""
