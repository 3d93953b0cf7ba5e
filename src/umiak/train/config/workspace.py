"""Directories: dotted names of models, the workspace, and what stands for it in a config. A decider.

    Library(root="/usr/lib/.../umiak", models=("rank.dnn",)).directory("paddlerec.models.rank.dnn")

``umiak.models.rank.dnn`` and ``paddlerec.models.rank.dnn`` are the same directory of the installed package.
"""

from __future__ import annotations

from umiak.core.value import replace, value
from umiak.schema.findings import choices
from umiak.schema.yaml_tree import Listing, Scalar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.yaml_tree import Node

PACKAGES = ("umiak", "paddlerec")
MARK = "{workspace}"


@value
class Library:
    """The models that come with umiak."""

    root: str
    """The directory of the installed package."""
    models: tuple[str, ...] = ()
    """``rank.dnn`` for each that has a config, sorted."""

    def directory(self, dotted: str) -> str | None:
        """The directory of a model, or None if it is not there."""
        name = _model(dotted)
        return f"{self.root}/models/{name.replace('.', '/')}" if name in self.models else None

    def missing(self, dotted: str) -> tuple[str, str]:
        """What is wrong with a dotted name that leads nowhere, and a hint."""
        if not self.models:
            return f"no such model: {dotted}", "this umiak has no models in it; name a directory or a config.yaml"
        hint = choices(_model(dotted), self.models)
        return f"no such model: {dotted}", hint.replace("it is one of", "there are")

    def model(self, named: str) -> str:
        """The file of a model: ``rank.deepfm`` is one that comes with umiak."""
        name = _model(named.rpartition("/")[2])  # the newer layout has put the workspace before it
        return f"{self.root}/models/{name.replace('.', '/')}/model.py" if name in self.models else named

    def relative(self, path: str) -> str:
        """``paddlerec::data/x`` is a path in the installed package."""
        for package in PACKAGES:
            if path.startswith(f"{package}::"):
                return f"{self.root}/{path.removeprefix(f'{package}::').lstrip('/')}"
        return path


def is_dotted(text: str) -> bool:
    """Whether this is a model's name and not a path."""
    return text.startswith(("umiak.models.", "paddlerec.")) and "/" not in text and not text.endswith((".yaml", ".yml"))


def below(path: str) -> str:
    """A path of the newer layout: from the workspace, unless it begins elsewhere."""
    if path.startswith(("/", MARK)) or "://" in path or "::" in path:
        return path
    return f"{MARK}/{path.removeprefix('./')}"


def filled(text: str, workspace: str) -> str:
    """The text with the workspace in the place of its mark."""
    directory = workspace.rstrip("/")
    if not directory and workspace:  # the root of the file system
        return text.replace(f"{MARK}/", "/").replace(MARK, "/")
    return text.replace(MARK, directory)


def filled_tree(node: Node, workspace: str) -> Node:
    """The tree with the workspace in the place of its mark in every text."""
    if isinstance(node, Scalar):
        if isinstance(node.data, str) and MARK in node.data:
            text = filled(node.data, workspace)
            return replace(node, data=text, text=text)
        return node
    if isinstance(node, Listing):
        return replace(node, items=tuple([filled_tree(each, workspace) for each in node.items]))
    return replace(
        node, entries=tuple([replace(each, node=filled_tree(each.node, workspace)) for each in node.entries])
    )


def _model(dotted: str) -> str:
    """``rank.dnn`` of ``umiak.models.rank.dnn``."""
    for package in PACKAGES:
        dotted = dotted.removeprefix(f"{package}.")
    return dotted.removeprefix("models.")
