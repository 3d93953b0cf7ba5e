"""Every name of fluid that people use works or is refused with a reason. Needs no Paddle, but for the last tests."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from docs import fluid_page
from tests.support.paths import ROOT
from umiak.core.problem import BadRequest
from umiak.fluid.modules import MODULES, ROWS, RefusedName, works
from umiak.fluid.record.signatures import LAYERS
from umiak.fluid.surface.names import NAMES
from umiak.fluid.surface.refusals import ROWS as REFUSALS
from umiak.fluid.surface.refusals import reason


def without_verdict(names: Iterable[str]) -> list[str]:
    """Names that neither work nor are refused with what to write instead."""
    verdicts = {name: fluid_page.verdict(name) for name in names}
    return [
        f"{name}: {verdict}: {remark}"
        for name, (verdict, remark) in verdicts.items()
        if verdict != "works" and not re.fullmatch(r".+; instead: .+", remark)
    ]


def test_every_used_name_has_a_verdict() -> None:
    assert without_verdict(name for name, _ in fluid_page.used()) == []


def test_public_names_of_1_8_have_a_verdict() -> None:
    assert len(fluid_page.PUBLIC.read_text(encoding="utf-8").split()) == 637
    assert without_verdict(fluid_page.others()) == []


def test_most_used_names_work() -> None:
    names = [name for name, _ in fluid_page.used()]
    assert len(names) == 444
    assert [name for name in names[:250] if fluid_page.verdict(name)[0] != "works"] == []


def test_what_works_is_named_by_a_test() -> None:
    """That a name is found is no proof that it computes: it, or another name of the same thing, stands in a test that runs it."""
    tests = [
        *Path(__file__).parent.glob("test_*.py"),
        ROOT / "tests/laws/test_fluid_law.py",
        ROOT / "tests/support/fluid_programs.py",
    ]
    text = "\n".join(path.read_text(encoding="utf-8") for path in tests if path != Path(__file__))
    chains = {f".{chain}." for chain in re.findall(r"\w+(?:\.\w+)+", text)}
    names: dict[str, list[str]] = {}
    for name, place in (*NAMES.items(), *((f"layers.{row}", row) for row in ROWS)):
        names.setdefault(place, []).append(name)
    named = {
        name for name in (*NAMES, *(f"layers.{row}" for row in ROWS)) if any(f".{name}." in chain for chain in chains)
    }
    assert [aliases for aliases in names.values() if not named.intersection(aliases)] == []


def test_a_refusal_is_of_something() -> None:
    """A row that no name reaches is spare; those with a star at the end are for names that nobody was seen to use."""
    names = [*(name for name, _ in fluid_page.used()), *fluid_page.others()]
    reached = {reason(fluid_page.own_name(name)) for name in names}
    spare = [pattern for pattern, why, instead in REFUSALS if (why, instead) not in reached and "*" not in pattern]
    assert spare == []


def test_names_that_work_are_not_refused_by_mistake() -> None:
    assert works("layers.fc")
    assert works("layers.relu")
    assert not works("layers.ssd_loss")
    assert set(ROWS) == set(LAYERS)
    assert "layers" in MODULES
    assert "incubate.fleet.collective" in MODULES


def test_a_refused_name_says_why_where_it_is_used() -> None:
    with pytest.raises(BadRequest) as caught:
        RefusedName("layers.ssd_loss")(1, x=2)
    (problem,) = caught.value.problems
    assert problem.code == "UM-FLUID-003"
    assert problem.where is not None
    assert problem.where.startswith(__file__)
    assert "smooth_l1" in str(caught.value)
    with pytest.raises(BadRequest, match=r"was gone in 1.8"):

        class Mine(RefusedName("layers.ParallelDo")):  # type: ignore[misc]
            pass

    with pytest.raises(BadRequest, match="exchanges between processes"):
        _ = RefusedName("layers._c_allreduce").init


def test_the_tables_need_no_paddle() -> None:
    program = "import sys, umiak.fluid; umiak.fluid.install(); umiak.fluid.install(); assert 'paddle' not in sys.modules and 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


SHIM = ROOT / "shims" / "paddle-fluid"
PROGRAM = "import sys, umiak_paddle_fluid; early = 'umiak' in sys.modules; import paddle.fluid as fluid; print(early, fluid.__file__ if hasattr(fluid, '__file__') else fluid.layers.__name__)"


@pytest.mark.parametrize(
    ("own", "printed"), [(True, "False {}/paddle/fluid/__init__.py"), (False, "False paddle.fluid.layers")]
)
def test_the_shim_lends_fluid_and_never_shadows_a_real_one(tmp_path: Path, own: bool, printed: str) -> None:
    for name in ("paddle", "paddle/dataset", "paddle/reader", *(["paddle/fluid"] if own else [])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    before = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(SHIM)!r}]; "
    done = subprocess.run([sys.executable, "-c", before + PROGRAM], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == printed.format(tmp_path)


@pytest.mark.paddle
@pytest.mark.filterwarnings("ignore")
def test_what_works_is_there() -> None:
    from tests.support.fluid_programs import fluid, paddle
    from umiak.fluid.kernels.registry import KERNELS
    from umiak.fluid.modules import resolved

    missing = []
    for name in (*NAMES, *(f"layers.{row}" for row in ROWS)):
        try:
            resolved(name)
        except (ImportError, AttributeError) as error:
            missing.append(f"{name}: {error}")
    assert missing == []
    assert sorted(ROWS - set(KERNELS)) == []
    assert paddle.fluid is fluid
    assert fluid.layers.fc is fluid.layers.fc
    assert "fc" in fluid.layers.__all__
    with pytest.raises(AttributeError, match="did you mean layers"):
        _ = fluid.layrs
    assert callable(paddle.reader.shuffle)


def test_a_misspelt_name_is_told_with_the_one_that_was_meant() -> None:
    for wrong, right in (("optimizer.Adagrd", "optimizer.Adagrad"), ("layers.sofmax", "layers.softmax")):
        with pytest.raises(BadRequest) as caught:
            RefusedName(wrong)(0.1)
        (problem,) = caught.value.problems
        assert problem.hint is not None
        assert problem.hint.startswith(f"did you mean fluid.{right}? ")
