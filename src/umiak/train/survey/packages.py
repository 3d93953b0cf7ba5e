"""Packages that a model's code imports and that are not installed here, as far as texts say it. An adapter: it reads files, and runs nothing of theirs.

    looking = PackageLook()
    looking.missing("models/rank/dsin/dygraph_model.py")   ->  (MissingPackage(name="pandas", where="models/rank/dsin/net.py:17"),)

Files beside the model that it imports are looked at as well. Code that changes `sys.path` may import from anywhere: then only well-known packages count, and of
other code no name that a directory above has. Imports under a condition don't count.
"""

from __future__ import annotations

import importlib.util
import os

from umiak.core.value import value
from umiak.train.engines import model_text
from umiak.train.survey import imports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PIP_NAMES = {
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "faiss": "faiss-cpu",
    "google": "protobuf",
    "PIL": "pillow",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""What pip calls a package that Python calls otherwise."""
PROVIDED = ("paddlerec", "paddle_fluid")
"""What the trainer brings, if nobody has installed it."""
WELL_KNOWN = {
    *PIP_NAMES,
    *["faiss", "gensim", "h5py", "jieba", "joblib", "lightgbm", "matplotlib", "networkx", "nltk", "numba", "pandas"],
    *["pgl", "requests", "scipy", "six", "tensorboardX", "tensorflow", "torch", "tqdm", "transformers", "ujson"],
    *["visualdl", "xgboost"],
}
"""Nobody has a module of their own with such a name."""
ABOVE = 4
"""So many directories above a model may be where its code imports from."""


@value
class MissingPackage:
    """A package, and the first place that needs it."""

    name: str
    where: str


def command(names: Iterable[str]) -> str:
    """What installs these packages, all at once."""
    return f"python -m pip install {' '.join(dict.fromkeys(PIP_NAMES.get(name, name) for name in names))}"


class PackageLook:
    """What was seen once is not looked at again."""

    def __init__(self) -> None:
        self._installed: dict[str, bool] = {}
        self._texts: dict[str, str | None] = {}
        self._imports: dict[str, tuple[tuple[str, int], ...]] = {}

    def missing(self, file: str) -> tuple[MissingPackage, ...]:
        """What a file, or one beside it that it imports, needs and that is not installed here, each once."""
        found: dict[str, MissingPackage] = {}
        for each in self._missing(file):
            found.setdefault(each.name, each)
        return tuple(found.values())

    def text(self, file: str) -> str | None:
        """Of a file; None if there is none."""
        if file not in self._texts:
            self._texts[file] = None
            if os.path.isfile(file):
                with open(file, encoding="utf-8", errors="replace") as opened:
                    self._texts[file] = opened.read()
        return self._texts[file]

    def _missing(self, file: str) -> Iterator[MissingPackage]:
        directory = os.path.dirname(file)
        waiting, seen = [file], {file}
        while waiting:
            at = waiting.pop(0)
            for name, line in self._imported(at):
                top = name.partition(".")[0]
                beside = [os.path.join(directory, f"{name.replace('.', '/')}.py"), os.path.join(directory, f"{top}.py")]
                local = next((each for each in beside if self.text(each) is not None), None)
                if local is not None:
                    if local not in seen:
                        seen.add(local)
                        waiting.append(local)
                elif name == model_text.FLUID or name.startswith(f"{model_text.FLUID}."):
                    yield MissingPackage(name=model_text.FLUID, where=f"{at}:{line}")
                elif not self._is_installed(top) and not self._may_be_elsewhere(top, directory, seen):
                    yield MissingPackage(name=top, where=f"{at}:{line}")

    def _may_be_elsewhere(self, top: str, directory: str, files: Iterable[str]) -> bool:
        """``files``: those that were read on the way."""
        if _is_near(top, directory):
            return True
        return top not in WELL_KNOWN and any("sys.path" in (self.text(each) or "") for each in files)

    def _imported(self, file: str) -> tuple[tuple[str, int], ...]:
        if file not in self._imports:
            self._imports[file] = imports.lines(self.text(file) or "")
        return self._imports[file]

    def _is_installed(self, top: str) -> bool:
        if top not in self._installed:
            try:
                self._installed[top] = top in PROVIDED or importlib.util.find_spec(top) is not None
            except (ImportError, ValueError):
                self._installed[top] = False
        return self._installed[top]


def _is_near(top: str, directory: str) -> bool:
    """Whether a directory of this name, or a module, is beside the model or above it."""
    at = os.path.abspath(directory)
    for _ in range(ABOVE + 1):
        if os.path.isdir(os.path.join(at, top)) or os.path.isfile(os.path.join(at, f"{top}.py")):
            return True
        at = os.path.dirname(at)
    return False
