"""A reader process: runs a user's reader class on lines that it is given. A program, started by `pool`.

    python -m umiak.train.reading.worker PARENT READ WRITE     (a process id, two file descriptors)

What the user's code prints goes to stderr. The process ends with its trainer: when the pipe is closed, and also, while the user's code
runs, when the trainer is gone. Signals that ask a whole group to stop are left to the trainer, which may still want batches.
"""

from __future__ import annotations

import importlib.util
import inspect
import io
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from umiak.core.decode import decode, encode
from umiak.core.nearest import nearest
from umiak.train.reading import base, columns, exchange, hash_calls

if TYPE_CHECKING:
    from umiak.core.json_types import JsonMapping, JsonObject


def main(argv: list[str]) -> int:
    """Answer messages until there are no more."""
    return serve(argv, _answer)


def serve(argv: list[str], answer: Callable[[io.FileIO, io.FileIO], None]) -> int:
    """Be a reader process: until the trainer closes the pipe, or is gone."""
    parent, read, write = map(int, argv)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    os.dup2(2, 1)
    with exchange.opened(read, "rb") as questions, exchange.opened(write, "wb") as answers:
        try:
            answer(questions, answers)
        except (EOFError, BrokenPipeError):
            pass
    return 0


class UserCodeFailed(Exception):
    """The user's code did not work: said in words, with its traceback if it raised."""

    def __init__(
        self,
        what: str,
        *,
        trace: str = "",
        offset: int | None = None,
        hint: str | None = None,
        place: JsonObject | None = None,
    ) -> None:
        """``place``: the file that the code had open itself, and the line."""
        super().__init__(what)
        self.told = {"what": what, "trace": trace, "offset": offset, "hint": hint, "place": place}


def _answer(questions: io.FileIO, answers: io.FileIO) -> None:
    reader: Any = None
    known: tuple[columns.Column, ...] = ()
    while True:
        head, blocks = exchange.receive(questions)
        try:
            match head["do"]:
                case "open":
                    reader = load(head["file"], head["class"], head["config"], head["settings"])
                    exchange.send(answers, {})
                case "columns":
                    found = _first(reader, bytes(blocks[0]), head["offset"])
                    exchange.send(answers, {"columns": found and encode(found), **hash_calls.told()})
                case "begin":
                    known = tuple(decode(columns.Column, each) for each in head["columns"])
                    exchange.send(answers, {})
                case "read":
                    text = bytes(blocks[0])
                    exchange.send(answers, *_read(reader, text, head["offset"], head["skip"], known))
        except UserCodeFailed as failed:
            exchange.send(answers, {"failed": failed.told})


def load(file: str, name: str, config: str | None, settings: JsonMapping) -> Any:
    """An object of the class `name` in a file, made and initialised."""
    base.provide_old_modules(settings)
    kind = user_class(file, name)
    if not callable(getattr(kind, "generate_sample", None)):
        if hasattr(kind, "__iter__"):
            raise UserCodeFailed(
                f"class {name} of {file} reads files itself, which can't be divided and resumed",
                hint="give it a method generate_sample(line) instead of __iter__; or declare slots, and umiak reads the lines",
            )
        raise UserCodeFailed(f"class {name} of {file} has no method generate_sample")
    with making(name, file):
        made = kind(config) if _wants_config(kind) else kind()
        if callable(getattr(made, "init", None)):
            made.init()
    return made


@contextmanager
def making(name: str, file: str) -> Iterator[None]:
    """An object of a class of the user's."""
    try:
        yield
    except BaseException as error:
        what = f"class {name} of {file} can't be made: {said_by(error)}"
        raise UserCodeFailed(what, trace=trace_of(error, file)) from error


def user_class(file: str, name: str, hint: str = "reader_class_name names it") -> Any:
    """The class of this name in a file, which is imported."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    hash_calls.watch(file)
    module = _module(file)
    kind = getattr(module, name, None)
    if not isinstance(kind, type):
        classes = [each for each, item in vars(module).items() if isinstance(item, type)]
        meant = nearest(name, classes)
        raise UserCodeFailed(f"{file} has no class {name}", hint=f"did you mean `{meant}`? {hint}" if meant else hint)
    return kind


def _module(file: str) -> Any:
    spec = importlib.util.spec_from_file_location("umiak_user_reader", file)
    if spec is None or spec.loader is None or not os.path.isfile(file):
        raise UserCodeFailed(f"there is no Python file {file}", hint="data_converter names it")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise UserCodeFailed(f"{error.filename}:{error.lineno}: not Python: {error.msg}") from error
    except BaseException as error:
        raise UserCodeFailed(f"{file}: it can't be imported: {said_by(error)}", trace=trace_of(error, file)) from error
    return module


def _wants_config(kind: type) -> bool:
    try:
        wanted = inspect.signature(kind).parameters.values()
    except (TypeError, ValueError):
        return False
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(each.kind in places for each in wanted)


def _first(reader: Any, text: bytes, offset: int) -> tuple[columns.Column, ...] | None:
    """What the first sample of a text says about all, None if there is none."""
    for at, line in _lines(text, offset):
        for sample in _samples(reader, line, at):
            found: tuple[columns.Column, ...] = _fitting(at, columns.columns_of, sample)
            return found
    return None


def _read(
    reader: Any, text: bytes, offset: int, skip: int, known: tuple[columns.Column, ...]
) -> tuple[JsonObject, list[memoryview]]:
    rows, places = [], []
    for at, line in _lines(text, offset):
        for number, sample in enumerate(_samples(reader, line, at), start=1):
            if number > skip:
                rows.append(_fitting(at, columns.row_of, sample, known))
                places.append((at, number))
        skip = 0
    try:
        arrays = columns.arrays_of(rows, known)
    except columns.Misfit as misfit:
        raise UserCodeFailed(misfit.args[0], offset=places[misfit.args[1]][0]) from misfit
    blocks = [np.array(places, np.int64).reshape(-1, 2)]
    for values, lengths in arrays:
        blocks += [values] if lengths is None else [values, lengths]
    # An empty array can't be cast to bytes.
    return {"samples": len(rows), **hash_calls.told()}, [memoryview(each.tobytes()) for each in blocks]


def _lines(text: bytes, offset: int) -> Iterator[tuple[int, str]]:
    """Lines without their ends, each with its place."""
    for line in text.splitlines(keepends=True) if b"\r" not in text else _split(text):
        try:
            yield offset, line.removesuffix(b"\n").removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            raise UserCodeFailed(f"not UTF-8: {error.reason}", offset=offset) from error
        offset += len(line)


def _split(text: bytes) -> list[bytes]:
    """At newlines only: a carriage return in a line does not end it."""
    lines = [line + b"\n" for line in text.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _samples(reader: Any, line: str, offset: int) -> Iterator[Any]:
    """What the user's class makes of a line; None is none."""
    try:
        made = reader.generate_sample(line)
        for sample in made() if callable(made) else made or ():
            if sample is not None:
                yield sample
    except GeneratorExit:
        raise
    except BaseException as error:
        trace = trace_of(error, sys.modules["umiak_user_reader"].__file__ or "")
        raise UserCodeFailed(f"{type(reader).__name__} raised {said_by(error)}", trace=trace, offset=offset) from error


def _fitting(offset: int, check: Callable[..., Any], *given: Any) -> Any:
    try:
        return check(*given)
    except columns.Misfit as misfit:
        raise UserCodeFailed(str(misfit), offset=offset) from misfit


def said_by(error: BaseException) -> str:
    """An exception in one line."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def trace_of(error: BaseException, file: str) -> str:
    """The traceback from the user's file on: what is above it is ours."""
    at = error.__traceback__
    while at is not None and os.path.abspath(at.tb_frame.f_code.co_filename) != os.path.abspath(file):
        at = at.tb_next
    return "".join(traceback.format_exception(type(error), error, at or error.__traceback__)).rstrip()


def end_with(parent: int) -> None:
    """Exit when the trainer is gone, whatever the user's code is doing."""
    try:
        descriptor = os.pidfd_open(parent)
    except OSError:
        os._exit(1)
    if os.getppid() == parent:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
