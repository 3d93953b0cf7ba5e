"""Makes a site that can be searched of the documentation: the pages as they are, and the API and a list of all modules from docstrings.

    python -m tools.site                 into build/site (`make site` runs it in .venv-site, which has mkdocs)
    python -m tools.site --into DIR      into DIR/site

Pages stay where GitHub shows them, also beside the code. mkdocs wants one directory, so everything that can be reached by links
from the README and the index is copied to build/pages first, with the same paths: links then lead to the same places. The
order of the site is that of docs/README.md. mkdocs' --strict makes an error of every link and anchor that leads nowhere.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

from docs.modules_page import modules_page

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
FIRST = ("README.md", "README.zh.md", "docs/README.md")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)

API = {
    "umiak": "For every training script.",
    "umiak.ps": "Parameter servers: [tutorial](../tutorials/parameter-servers.md), [reference](../reference/ps.md).",
    "umiak.ps.paddle": "Layers and optimizers for Paddle. `ps.paddle` imports it.",
    "umiak.ps.torch": "The same for PyTorch. `ps.torch` imports it.",
    "umiak.models": "What models are written with: [writing models](../reference/modeling.md).",
    "umiak.data": "Samples from slot files: [read slot files](../how-to/read-slot-files.md).",
    "umiak.submit.backend": "What backends are written with: [add a backend](../tutorials/add-a-backend.md).",
    "umiak.submit.reach.channels": "How a backend reaches a node: [add a backend](../tutorials/add-a-backend.md).",
    "umiak.testing.backends": "Checks the laws of a backend, in its tests.",
    "umiak.train.config.load": "Reads configs: [configs](../reference/config.md#from-python).",
}
"""The public faces, each with a page."""

PROJECT = {
    "Models": "src/umiak/models/README.md",
    "Architecture": "ARCHITECTURE.md",
    "Contributing": "CONTRIBUTING.md",
    "Security": "SECURITY.md",
    "Changes": "CHANGELOG.md",
    "paddlerec": "shims/paddlerec/README.md",
    "paddle.distributed.launch": "shims/paddle-launch/README.md",
    "paddle.fluid": "shims/paddle-fluid/README.md",
    "Files to deploy the operator": "deploy/README.md",
}

MODULES = "docs/reference/modules.md"
"""A page that is made with the site: every module and its kind."""

Nav: TypeAlias = "list[dict[str, str | Nav]]"


def main(argv: list[str]) -> int:
    """Gather the pages, and make a site of them."""
    into = Path(argv[1]).resolve() if argv[:1] == ["--into"] else BUILD
    nav = gather(into / "pages")
    # JSON is YAML as well.
    settings = {"INHERIT": str(ROOT / "mkdocs.yml"), "docs_dir": "pages", "site_dir": "site", "nav": nav}
    (into / "mkdocs.yml").write_text(json.dumps(settings), encoding="utf-8")
    status = build(into)
    if status == 0:
        made = os.path.relpath(into / "site")
        print(f"written: {made}; to read it: python -m http.server --bind 127.0.0.1 --directory {made} 8000")
    return status


def build(into: Path) -> int:
    """Run mkdocs on what was gathered. Without --quiet: with it, --strict counts no warnings."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(into / "mkdocs.yml")]
    environ = {**os.environ, "UMIAK_SOURCE": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, env=environ, check=False).returncode


def gather(pages: Path) -> Nav:
    """Copy every page to a directory, and say in which order they are shown."""
    shutil.rmtree(pages, ignore_errors=True)
    found = reached()
    for name in found:
        target = pages / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    (pages / MODULES).write_text(modules_page(), encoding="utf-8")
    for name, text in API.items():
        page = pages / "docs" / "api" / f"{name}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f"# {name}\n\n{text}\n\n::: {name}\n{_hidden(name)}", encoding="utf-8")
    return navigation([name for name in found if name.endswith(".md")])


def _hidden(name: str) -> str:
    """Functions of a package with the names of its modules, such as `ps.client`: mkdocstrings takes them for the modules."""
    package = ROOT / "src" / name.replace(".", "/")
    if not package.is_dir():
        return ""
    parts = []
    for node in ast.parse((package / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and (package / f"{node.name}.py").exists():
            signature = (
                f"{node.name}({ast.unparse(node.args)}) -> {ast.unparse(node.returns) if node.returns else None}"
            )
            heading = f"## {node.name} {{ #{name}.{node.name} }}"
            parts.append(f"\n{heading}\n\n```python\n{signature}\n```\n\n{ast.get_docstring(node)}\n")
    return "".join(parts)


def reached() -> list[str]:
    """Every file that links lead to, from the first pages on."""
    waiting, found = [*FIRST], dict.fromkeys(FIRST)
    while waiting:
        page = waiting.pop()
        if not page.endswith(".md"):
            continue
        text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
        for link in re.findall(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)", text):
            if "://" in link:
                continue
            name = os.path.normpath((Path(page).parent / link).as_posix())
            if not (ROOT / name).is_file() or name.startswith(".."):
                raise SystemExit(f"error: a link that the site can't follow: {link}, in {page}")
            if name not in found:
                found[name] = None
                waiting.append(name)
    return sorted(found)


def navigation(found: list[str]) -> Nav:
    """The order of docs/README.md, then the API, examples and the project's own pages."""
    sections: Nav = []
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for section in index.split("\n## ")[1:]:
        heading, _, body = section.partition("\n")
        links = re.findall(r"^- \[([^\]]+)\]\(([^)\s#]+)\)", body, re.MULTILINE)
        sections.append({heading: [{title.replace("`", ""): f"docs/{path}"} for title, path in links]})
    sections.append({"API": [{name: f"docs/api/{name}.md"} for name in API]})
    examples = [name for name in found if name.startswith("examples/")]
    project: Nav = [{title: path} for title, path in {**PROJECT, "Modules": MODULES}.items()]
    home: Nav = [{"umiak": "README.md"}, {"简体中文": "README.zh.md"}, {"Documentation": "docs/README.md"}]
    rest: Nav = [{"Examples": [{_title(name): name} for name in sorted(examples, key=_depth)]}, {"Project": project}]
    return [*home, *sections, *rest]


def _depth(name: str) -> tuple[int, str]:
    return name.count("/"), name


def _title(name: str) -> str:
    """The first heading of a page."""
    return (ROOT / name).read_text(encoding="utf-8").split("# ", 1)[1].split("\n", 1)[0].replace("`", "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
