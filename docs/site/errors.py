"""The index of errors: every message that headrace raises, by class and subject, from its source.

A message says what was expected, what came, and behind a semicolon what to do. Values are shown as ``…``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pages

import headrace as hr

#: What each class is about.
MEANING = {
    "InputError": "A value that a function, a stage or an operation cannot take: items, graphs, features, options.",
    "PlanError": "A plan that is not legal, or cannot run here, or is used as a loader; unknown arguments.",
    "StateError": "A checkpoint of another plan.",
    "PeerError": "Ranks that were given different things, or that ended.",
    "HeadraceError": "A GPU or a library that is missing, a thread that failed, a loader that is used wrongly.",
}

#: What users see of each wing.
SUBJECTS = {
    "data": "graphs, items and batches",
    "interop": "conversions",
    "partition": "partitions",
    "distributed": "several ranks",
    "storage": "features and data sets",
    "plan": "plans",
    "lowered": "running stages",
    "stages": "stages",
    "passes": "passes",
    "run": "loaders",
    "scores": "scores",
    "models": "models",
    "compat": "headrace.pyg and headrace.lightning",
    "convert": "headrace convert",
    "cli": "the command",
    "ops": "operations",
    "cuda": "GPUs",
}


class Message(NamedTuple):
    """A message that can be raised.

    Parameters
    ----------
    error
        The name of its class.
    subject
        What it is about, by the wing that raises it.
    text
        The message, with … for values.
    """

    error: str
    subject: str
    text: str

    @property
    def remedy(self) -> str:
        """What to do; empty where the message leaves it at what was expected."""
        return self.text.rpartition("; ")[2] if "; " in self.text else ""

    @property
    def reason(self) -> str:
        """What was expected and what came."""
        return self.text.rpartition("; ")[0] if "; " in self.text else self.text


def messages() -> list[Message]:
    """Return the messages of all errors that the source raises, sorted."""
    classes = {name for name in hr.__all__ if name.endswith("Error")}
    found = set()
    for folder in ("pipeline", "ops", "cuda"):
        for path in sorted((pages.ROOT / folder).rglob("*.py")):
            wing = path.relative_to(pages.ROOT / folder).parts[0] if folder == "pipeline" else folder
            for error, text in _raised(ast.parse(path.read_text(encoding="utf-8")), classes):
                found.add(Message(error, SUBJECTS.get(wing, wing), text))
    return sorted(found)


def write(folder: Path) -> None:
    """Write the page."""
    listed = messages()
    lines = [
        "# Index of errors",
        "",
        f"The {len(listed):,} messages of headrace, by class and subject: what was expected, what came, what to do.",
        "Search this page for a few words of yours; `…` stands for values.",
        "",
    ]
    for error, meaning in MEANING.items():
        own = [one for one in listed if one.error == error]
        lines += [f"## `{error}`", "", meaning, ""]
        for subject in dict.fromkeys(one.subject for one in own):
            lines += [f"### `{error}`: {subject}", "", "| message | what to do |", "|---|---|"]
            lines += [f"| {_cell(one.reason)} | {_cell(one.remedy)} |" for one in own if one.subject == subject]
            lines.append("")
    pages.write_text(folder / "errors.md", "\n".join(lines))


def _raised(tree: ast.AST, classes: set[str]) -> Iterator[tuple[str, str]]:
    """Yield class and message of calls of error classes whose message is written there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in classes and node.args:
            text = _text(node.args[0])
            if re.search(r"[a-z]{3,} [a-z]{2,}", text):
                yield node.func.id, text


def _text(node: ast.expr) -> str:
    """Return the text of an expression, with … for what only a run knows."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    return "…"


def _cell(text: str) -> str:
    """Return a text for a cell of a table."""
    text = re.sub(r"(… ?)+…", "…", " ".join(text.split()))
    return re.sub(r"([\\`*_{}\[\]<>|$])", r"\\\1", text)
