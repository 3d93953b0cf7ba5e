"""What lies beside a config of the newer layout, and what it says about the model's form. A decider.

model.py                our own form
dygraph_model.py        class DygraphModel: a model of PaddleRec 2, run as it is
class Model(ModelBase)  a model of PaddleRec 1.8.5, run as it is, in whatever file
static_model.py alone   a static program, which PaddleRec's static trainers run
"""

from __future__ import annotations

from enum import Enum

from umiak.core.value import value
from umiak.train.config.paddlerec.reader_text import reads_one_by_one

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

OWN, DYGRAPH, STATIC = "model.py", "dygraph_model.py", "static_model.py"
NET = "net.py"
_CLASS = r"(?m)^class\s+DygraphModel\b"
_OLD_CLASS = r"(?m)^class\s+Model\b"
_OLD_BASE = r"\bModelBase\b|(?m:^from\s+paddlerec\.core\.model\s)"
_BATCH_SIZE = r"""["'](?:[\w.]*[._])?batch_size["']"""


class ModelForm(str, Enum):
    """In which form a model is written."""

    OWN = "own"
    DYGRAPH = "dygraph"
    STATIC = "static"


@value
class ModelDirectory:
    """The Python files beside a config."""

    names: tuple[str, ...] = ()
    dygraph: tuple[str, ...] = ()
    """Those that have a class DygraphModel."""
    old: tuple[str, ...] = ()
    """Paths of files that the config names and that have a class Model of PaddleRec 1.8.5."""
    old_full_batches: tuple[str, ...] = ()
    """Of these, those that need batches of one size."""
    one_by_one: tuple[str, ...] = ()
    """Readers that go through their files one after the other: see `reader_text`."""
    full_batches: bool = False
    """Whether the model reads the size of its batches from the config, so that an incomplete batch would not fit."""

    def model(self, said: str | None) -> tuple[str, ModelForm]:
        """The model's file, and its form; ``said`` is what the config says, if it does."""
        name = said
        if name is None:
            name = next((each for each in (OWN, DYGRAPH, STATIC) if each in self.names), OWN)
        last = name.rpartition("/")[2]
        if last == DYGRAPH or last in self.dygraph:
            return name, ModelForm.DYGRAPH
        return name, ModelForm.STATIC if last == STATIC else ModelForm.OWN


def directory(texts: Mapping[str, str], named: Mapping[str, str] | None = None) -> ModelDirectory:
    """The value, from the names of Python files and what is in them; ``named``: files of models that the config names, by their paths."""
    import re  # not before it is needed

    dygraph = tuple(sorted(name for name, text in texts.items() if name == DYGRAPH or re.search(_CLASS, text)))
    old = {name: text for name, text in (named or {}).items() if is_old(text)}
    looked_at = {*dygraph, NET}
    return ModelDirectory(
        names=tuple(sorted(texts)),
        dygraph=dygraph,
        old=tuple(sorted(old)),
        old_full_batches=tuple(sorted(name for name, text in old.items() if re.search(_BATCH_SIZE, text))),
        one_by_one=tuple(
            sorted(name for name, text in texts.items() if dygraph and "RecDataset" in text and reads_one_by_one(text))
        ),
        full_batches=any(re.search(_BATCH_SIZE, text) for name, text in texts.items() if name in looked_at),
    )


def is_old(text: str) -> bool:
    """Whether a file has a model in the form of PaddleRec 1.8.5."""
    import re

    return bool(re.search(_OLD_CLASS, text) and re.search(_OLD_BASE, text))


def is_dygraph(model: str) -> bool:
    """Whether a plan's model is in the form of PaddleRec 2, by the name of its file."""
    return model.rpartition("/")[2] == DYGRAPH
