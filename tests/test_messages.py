"""Messages have one form: "expected ..., got ...; do ...", in words that fit machines."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("pipeline", "ops", "cuda")

#: Words of other forms ("x must be ...; ... came"), and verbs that are for people.
OTHER_FORMS = re.compile(r"(?:^|[\s(])(must|came|heeds?|says?|said)\b")


def _of_python(source: str) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module that are no docstrings, with their lines; of f-strings what is fixed in them."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def _of_native(source: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(source.splitlines(), 1):
        for text in re.findall(r'"((?:[^"\\]|\\.)*)"', line.partition("//")[0]):
            yield number, text


def other_forms(path: Path) -> list[str]:
    """Return the strings of a file that are of another form, each with its place."""
    texts = _of_python if path.suffix == ".py" else _of_native
    found = texts(path.read_text(encoding="utf-8"))
    return [f"{path.name}:{line}: {text}" for line, text in found if OTHER_FORMS.search(text)]


@pytest.mark.slow
def test_messages_have_one_form():
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    paths = [path for path in files if path.suffix in {".py", ".cpp", ".hpp"}]
    assert len(paths) > 300
    assert [found for path in paths for found in other_forms(path)] == []


def test_other_forms_are_found(tmp_path):
    python, native = tmp_path / "one.py", tmp_path / "one.cpp"
    python.write_text('"""What it must."""\nraise E(f"{name} must be 1; {value!r} came")\nraise E("expected 1")')
    native.write_text('// "must"\nthrow InputError("it must be 1, got " + text);')
    assert other_forms(python) == ["one.py:2:  must be 1; ", "one.py:2:  came"]
    assert other_forms(native) == ["one.cpp:2: it must be 1, got "]
