"""What the end of a worker's output tells about its death: from text to text. A decider."""

from __future__ import annotations

LONGEST_MESSAGE = 300
"""Of what a worker wrote down about its end, so much is told in the first line; the traceback has all of it."""
TRACEBACK = "Traceback (most recent call last):"
PORT_TAKEN = ("Address already in use", "EADDRINUSE", "address already in use")


def traceback_in(text: str) -> str:
    """The last Python traceback in an output, with its chain of causes; empty if there is none."""
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.strip() == TRACEBACK]
    if not starts:
        return ""
    first = starts[-1]
    # "During handling of ..." and "The above exception was ..." tie several tracebacks to one story.
    for earlier in reversed(starts[:-1]):
        between = lines[earlier:first]
        if not any(line.startswith(("During handling of", "The above exception was")) for line in between):
            break
        first = earlier
    last = starts[-1] + 1
    while last < len(lines) and (lines[last].startswith((" ", "\t")) or not lines[last].strip()):
        last += 1
    # What umiak itself raises says on further lines why, and what fixes it.
    while last + 1 < len(lines) and lines[last + 1].lstrip().startswith(("error: ", "because: ", "hint: ")):
        last += 1
    return "\n".join(lines[first : last + 1])


def end_of(text: str, *, lines: int = 20) -> str:
    """The last lines of an output."""
    return "\n".join(text.splitlines()[-lines:])


def port_was_taken(text: str) -> bool:
    """Whether the worker died because its address was in use."""
    return any(words in text for words in PORT_TAKEN)


def recorded_error(text: str) -> tuple[str, str]:
    """The message and the traceback in an error file of torch's ``@record``;
    empty where it has none, or is no such file.

    ``{"message": {"message": ..., "extraInfo": {"py_callstack": ...}}}``; other handlers write ``{"message": "..."}``.
    """
    import json

    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return "", ""
    message = data.get("message") if isinstance(data, dict) else None
    traceback: object = None
    if isinstance(message, dict):
        more = message.get("extraInfo")
        traceback = more.get("py_callstack") if isinstance(more, dict) else None
        message = message.get("message")
    return _one_line(message), traceback.strip() if isinstance(traceback, str) else ""


def _one_line(message: object) -> str:
    if not isinstance(message, str) or not message.strip():
        return ""
    line = "".join(letter if letter.isprintable() else " " for letter in message.strip().splitlines()[0])
    return line if len(line) <= LONGEST_MESSAGE else line[: LONGEST_MESSAGE - 3] + "..."
