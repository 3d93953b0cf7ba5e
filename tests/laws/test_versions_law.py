"""Which versions meet which requirements: as `packaging` has it, which a bare install lacks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from tests.support.effort import effort
from umiak.doctor.judging.words import satisfies

few = st.integers(0, 2)
numbers = st.lists(few, min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))
epochs = st.sampled_from(["", "", "", "1!"])
early = st.one_of(
    st.just(""), st.builds("{}{}".format, st.sampled_from(["a", "b", "rc", ".pre", "-c", "_alpha."]), few)
)
late = st.one_of(st.just(""), st.builds("{}{}".format, st.sampled_from([".post", "-", "rev"]), few))
development = st.one_of(st.just(""), st.just(""), st.builds(".dev{}".format, few))
public = st.builds("{}{}{}{}{}".format, epochs, numbers, early, late, development)
local = st.sampled_from(["", "", "+1", "+cu12", "+cu12.1"])
versions = st.builds("{}{}".format, public, local)
clauses = st.one_of(
    st.builds("{}{}".format, st.sampled_from([">=", "<=", ">", "<"]), public),
    st.builds("{}{}".format, st.sampled_from(["==", "!="]), versions),
    st.builds("{}{}{}.*".format, st.sampled_from(["==", "!="]), epochs, numbers),
    st.builds("~={}{}.{}{}{}".format, epochs, numbers, few, early, late),
)


@effort(5)
@given(versions, st.lists(clauses, max_size=2).map(",".join))
def test_versions_are_compared_as_packaging_does(version: str, wanted: str) -> None:
    assert satisfies(version, wanted) is SpecifierSet(wanted).contains(version, prereleases=True)
