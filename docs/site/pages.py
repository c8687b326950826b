"""Pages that the site makes of other files, and what it adds to those of docs/."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: The file of each generated page, by the name of the page.
COPIED = {
    "start": "README.md",
    "contributing": "CONTRIBUTING.md",
    "changelog": "CHANGELOG.md",
    "benchmarks": "bench/RESULTS.md",
}

#: The parts of the site, with their pages in order.
PARTS = {
    "Guide": [
        "generated/start",
        "installing",
        "your-own-files",
        "choosing",
        "from-pyg",
        "from-dgl-graphbolt",
        "gpus",
        "large-graphs",
        "distributed",
        "models",
        "how-it-works",
    ],
    "Subjects": [
        "sampling",
        "features",
        "types",
        "links-and-times",
        "whole-graphs",
        "determinism",
        "inspecting",
        "extending",
    ],
    "Reference": [
        "generated/reference/index",
        "generated/errors",
        "upgrading",
        "generated/changelog",
        "generated/benchmarks",
        "generated/contributing",
    ],
}

_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def write(folder: Path) -> None:
    """Write the generated pages that are copies, each only if it changes."""
    for name, file in COPIED.items():
        text = (ROOT / file).read_text(encoding="utf-8")
        text = text.replace("# headrace\n", "# Start\n", 1) if name == "start" else text
        write_text(folder / f"{name}.md", _with_links(text, Path(file).parent, "../"))


def write_text(path: Path, text: str) -> None:
    """Write a file if its text differs, so that a build reads anew only pages that changed."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def adapt(app: object, page: str, source: list[str]) -> None:
    """Change the text of a page as Sphinx reads it."""
    del app
    if page == "index":
        source[0] += "".join(_contents(part, listed) for part, listed in PARTS.items())
    if not page.startswith("generated/"):
        source[0] = _with_links(source[0], Path("docs"), "")


def _contents(part: str, listed: list[str]) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {part}", "", *listed, "```", ""])


def _with_links(text: str, folder: Path, up: str) -> str:
    """Return the text of a file in a folder of the repository with links between pages of the site."""
    return _LINK.sub(lambda link: _led(link, folder, up), text)


def _led(link: re.Match[str], folder: Path, up: str) -> str:
    """Return a link as one between pages of the site; its text alone if it leads to a file that is no page."""
    picture, text, target, anchor = link[1], link[2], link[3], link[4] or ""
    path = (ROOT / folder / target).resolve()
    if target.startswith(("http:", "https:", "mailto:")) or not path.is_relative_to(ROOT):
        return link[0]
    path = path.relative_to(ROOT)
    copied = {Path(file): name for name, file in COPIED.items()}
    if path in copied:
        return f"{picture}[{text}]({up}generated/{copied[path]}.md{anchor})"
    if path.parts[0] == "docs":
        return f"{picture}[{text}]({up}{'/'.join(path.parts[1:])}{anchor})"
    return text
