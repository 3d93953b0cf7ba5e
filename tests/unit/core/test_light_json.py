"""JSON without the standard module: the same texts, the same values."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import output_of
from umiak.core import light_json

DOCUMENTS: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(DOCUMENTS)
def test_it_is_the_standard_module_s(document: Any) -> None:
    text = light_json.dumps(document)
    assert text == json.dumps(document)
    assert light_json.loads(text) == light_json.loads(f" {text}\n".encode()) == json.loads(text)


def test_words_that_are_no_numbers() -> None:
    assert light_json.loads("[Infinity, -Infinity]") == [math.inf, -math.inf]
    assert math.isnan(light_json.loads("NaN"))


@pytest.mark.parametrize("text", ["", " ", "{", "[1] 2", "nul", '{"a" 1}', "'a'", b"\xff"])
def test_what_is_no_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - its words are Python's
        light_json.loads(text)


def test_what_has_no_json_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="set"):
        light_json.dumps([{1}])


def test_a_python_without_the_c_half_has_the_standard_module() -> None:
    code = """
import sys
sys.modules["_json"] = None
from umiak.core import light_json
print(light_json.dumps(light_json.loads(b' {"a": [1.5, null, "x"]}\\n')))
try:
    light_json.loads("")
except ValueError:
    print("json" in sys.modules)
"""
    assert output_of(code).splitlines() == ['{"a": [1.5, null, "x"]}', "True"]
