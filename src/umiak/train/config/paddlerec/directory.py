"""What lies beside a config of the newer layout, and what it says about the model's form. A decider.

model.py                our own form
dygraph_model.py        class DygraphModel: a model of PaddleRec 2, run as it is
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


def directory(texts: Mapping[str, str]) -> ModelDirectory:
    """The value, from the names of Python files and what is in them."""
    import re  # not before it is needed

    dygraph = tuple(sorted(name for name, text in texts.items() if name == DYGRAPH or re.search(_CLASS, text)))
    looked_at = {*dygraph, NET}
    return ModelDirectory(
        names=tuple(sorted(texts)),
        dygraph=dygraph,
        one_by_one=tuple(
            sorted(name for name, text in texts.items() if dygraph and "RecDataset" in text and reads_one_by_one(text))
        ),
        full_batches=any(re.search(_BATCH_SIZE, text) for name, text in texts.items() if name in looked_at),
    )


def is_dygraph(model: str) -> bool:
    """Whether a plan's model is in the form of PaddleRec 2, by the name of its file."""
    return model.rpartition("/")[2] == DYGRAPH
