"""Finding the traceback, the last lines and a taken port in the output of a worker that died."""

from __future__ import annotations

import pytest

from tests.support import PATIENCE_S, python
from umiak.launch.reports.failure_excerpt import LONGEST_MESSAGE, end_of, port_was_taken, recorded_error, traceback_in


def stderr_of(code: str) -> str:
    """What real Python really prints."""
    with python(code) as process:
        return process.communicate(timeout=PATIENCE_S)[1]


def test_the_traceback_is_found_between_other_output() -> None:
    traceback = stderr_of("def train():\n    raise RuntimeError('no data')\ntrain()")
    found = traceback_in(f"step 1\nstep 2\n{traceback}goodbye\n")
    assert found.splitlines()[0] == "Traceback (most recent call last):"
    assert found.splitlines()[-1] == "RuntimeError: no data"
    assert "step 2" not in found
    assert "goodbye" not in found


def test_the_hint_of_an_error_of_ours_belongs_to_it() -> None:
    words = "error: no token [UM-PS-006]\n  because: nobody set one\n  hint: export UMIAK_TOKEN"
    traceback = stderr_of(f"raise RuntimeError({words!r})")
    assert traceback_in(f"{traceback}goodbye\n").endswith("  hint: export UMIAK_TOKEN")


def test_no_traceback_no_text() -> None:
    assert traceback_in("") == ""
    assert traceback_in("loss: 0.3\nTraceback is a word\n") == ""


CHAINED = """
    try:
        try:
            {}['dense_0']
        except KeyError as error:
            raise ValueError('no such slot') HOW
    except ValueError:
        raise RuntimeError('can not read the data')
"""


@pytest.mark.parametrize(("how", "words"), [("from error", "direct cause"), ("", "During handling")])
def test_a_chain_of_causes_is_kept_whole(how: str, words: str) -> None:
    found = traceback_in("before\n" + stderr_of(CHAINED.replace("HOW", how)))
    assert found.splitlines()[0] == "Traceback (most recent call last):"
    for error in ("KeyError: 'dense_0'", "ValueError: no such slot", "RuntimeError: can not read the data", words):
        assert error in found


def test_an_earlier_traceback_that_was_survived_is_not_blamed() -> None:
    survived = stderr_of("import traceback\ntry:\n    1/0\nexcept ZeroDivisionError:\n    traceback.print_exc()")
    deadly = stderr_of("raise SystemError('deadly')")
    found = traceback_in(f"{survived}going on\nstep 7\n{deadly}")
    assert "ZeroDivisionError" not in found
    assert found.endswith("SystemError: deadly")


def test_the_last_of_two_chains_is_kept() -> None:
    chain = stderr_of(CHAINED.replace("HOW", ""))
    found = traceback_in(f"{chain}survived that\n{chain.replace('dense_0', 'dense_1')}")
    assert "dense_1" in found
    assert "dense_0" not in found


def test_a_mistake_in_the_syntax_is_told_with_its_place() -> None:
    found = traceback_in(stderr_of("import ast\nast.parse('def f(:')"))
    assert found.splitlines()[-1].startswith("SyntaxError")
    assert "^" in found


def test_a_traceback_that_breaks_off_is_kept_as_far_as_it_goes() -> None:
    text = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()'
    assert traceback_in(text) == text


def test_a_traceback_in_windows_lines_is_found() -> None:
    found = traceback_in("Traceback (most recent call last):\r\n  File x\r\nValueError: 1\r\n")
    assert found.splitlines()[-1] == "ValueError: 1"


def test_the_end_is_the_last_lines() -> None:
    text = "".join(f"line {number}\n" for number in range(100))
    assert end_of(text).splitlines() == [f"line {number}" for number in range(80, 100)]
    assert end_of(text, lines=2) == "line 98\nline 99"
    assert end_of("one") == "one"
    assert end_of("") == ""


@pytest.mark.parametrize(
    "text",
    [
        "OSError: [Errno 98] Address already in use",
        "bind: address already in use",
        "RuntimeError: The server socket has failed to listen: EADDRINUSE",
    ],
)
def test_a_taken_port_is_recognised(text: str) -> None:
    assert port_was_taken(f"starting\n{text}\n")


def test_a_real_taken_port_is_recognised() -> None:
    code = "import socket\na = socket.create_server(('127.0.0.1', 0))\nsocket.create_server(a.getsockname())"
    assert port_was_taken(stderr_of(code))


def test_other_errors_are_no_taken_port() -> None:
    assert not port_was_taken("OSError: [Errno 99] Cannot assign requested address")
    assert not port_was_taken("")


# ---- torch's error files


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"message": {"message": "KeyError: x", "extraInfo": {"py_callstack": "Traceback\\n  line\\n", "timestamp": "1"}}}',
            ("KeyError: x", "Traceback\n  line"),
        ),
        ('{"message": {"message": "two\\nlines", "errorCode": 1}}', ("two", "")),
        ('{"message": "just words"}', ("just words", "")),
        ('{"message": {"message": 7, "extraInfo": []}}', ("", "")),
        ('{"message": "\\u001b[31mred"}', (" [31mred", "")),
        ("{}", ("", "")),
        ("[]", ("", "")),
        ("", ("", "")),
        ('{"message": {"mess', ("", "")),
        ("[" * 100_000, ("", "")),
    ],
)
def test_what_record_wrote(text: str, expected: tuple[str, str]) -> None:
    assert recorded_error(text) == expected


def test_a_long_message_is_cut() -> None:
    message, _ = recorded_error('{"message": "' + "x" * 1000 + '"}')
    assert len(message) == LONGEST_MESSAGE
    assert message.endswith("...")
