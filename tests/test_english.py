"""Public docstrings, README.md, CONTRIBUTING.md and docs/ are in plain technical English: words that they avoid."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace as hr
from headrace.ops.forks import cached_property
from headrace.pipeline.compat import pyg

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = {"hr": hr, "hr.nn": hr.nn, "hr.ops": hr.ops, "hr.sar": hr.sar, "hr.scores": hr.scores, "headrace.pyg": pyg}

#: Words, by those to use instead. Each pattern was tried on the whole tree: it finds nothing there that is good.
WORDS = {
    "read, obey, use": r"heed(s|ed|ing)?",
    "receive": r"(hear|listen)(s|d|ing)?",
    "state, name, describe": r"sa(y|ys|id|ying)|speaks? of|tells? of",
    "was given, got": r"came",
    "is, is stored": r"lies?|lying|lain",
    "is, follows, precedes, replaces": r"stands? (for|behind|ahead|beside|before|at|side|there)|stood",
    "depends on, uses, is keyed by": r"go(es)? by",
    "your own": r"of one's own",
    "again, new": r"anew",
    "the machine of this process, present": r"at hand",
    "that many": r"so many",
}

#: In docstrings a noun takes the place of a clause; pages may ask a question.
A_NOUN = r"[Ww]hat(ever)?"


def documented() -> Iterator[tuple[str, object]]:
    """Yield public names with their objects: modules, their members, members of public classes, and verbs."""
    for prefix, module in MODULES.items():
        yield prefix, module
        for name in module.__all__:
            value = getattr(module, name)
            yield f"{prefix}.{name}", value
            for base in getattr(value, "__mro__", ()):
                if base.__module__.startswith("headrace"):
                    yield from ((f"{prefix}.{name}.{one}", vars(base)[one]) for one in vars(base) if one[0] != "_")
    for verb in hr.ext.verbs():
        yield f"Plan.{verb}", getattr(hr.Plan, verb)


def prose(text: str) -> str:
    """Return a text without code."""
    text = re.sub(r"```.*?```|``.*?``|`.*?`", "", text, flags=re.DOTALL)
    return re.sub(r"^ *(>>>|\.\.\. ).*$", "", text, flags=re.MULTILINE)


@functools.cache
def docstrings() -> dict[str, str]:
    """Return the docstrings of public names, but for those of values, which are those of their classes."""
    described = (property, cached_property, classmethod, staticmethod)
    found = {}
    for name, value in documented():
        if (
            inspect.isclass(value)
            or inspect.isroutine(value)
            or inspect.ismodule(value)
            or isinstance(value, described)
        ):
            found[name] = prose(value.__doc__ or "")
    return found


def uses(pattern: str, texts: dict[str, str]) -> dict[str, str]:
    """Return where texts use a pattern, with the words around it."""
    found = {name: re.search(rf".{{0,40}}\b(?:{pattern})\b.{{0,40}}", text) for name, text in texts.items()}
    return {name: match.group().strip() for name, match in found.items() if match}


@pytest.mark.slow
@pytest.mark.parametrize("instead", WORDS)
def test_docstrings_and_pages_do_without(instead):
    pages = {page.name: prose(page.read_text()) for page in PAGES}
    assert not uses(WORDS[instead], docstrings() | pages), f"write with: {instead}"


def test_docstrings_name_what_they_mean():
    assert not uses(A_NOUN, docstrings()), "write a noun"


def test_it_finds_such_words():
    texts = {"one": "What it says of itself", "two": "prose`` ``", "three": "He came back\nand stood there"}
    assert list(uses(WORDS["state, name, describe"], texts)) == ["one"]
    assert list(uses(A_NOUN, texts)) == ["one"]
    assert list(uses(WORDS["was given, got"], texts)) == ["three"]
    assert len(docstrings()) > 500
