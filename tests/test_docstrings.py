"""The examples in docstrings of public names run as they stand."""

from __future__ import annotations

import doctest
import inspect

import pytest

import headrace as hr
import headrace.ops

FINDER = doctest.DocTestFinder(exclude_empty=True)


def documented() -> dict[str, object]:
    """Return what is public, by name, with the two packages themselves."""
    names = {"hr": hr, "hr.ops": headrace.ops}
    modules = {name: getattr(hr, name) for name in ("ext", "nn", "ops", "sar", "scores", "testing")}
    for prefix, module in (("hr", hr), *((f"hr.{name}", module) for name, module in modules.items())):
        names |= {f"{prefix}.{name}": getattr(module, name) for name in module.__all__}
    return {name: value for name, value in names.items() if inspect.getdoc(value)}


def examples() -> dict[str, doctest.DocTest]:
    """Return the docstrings that hold examples, those of methods included."""
    found = {}
    for name, value in documented().items():
        # Of a package its own docstring alone: its names are looked at one by one.
        tests = FINDER.find(value, name) if not inspect.ismodule(value) else [_of_module(name, value)]
        found |= {test.name: test for test in tests if test.examples}
    return found


def _of_module(name: str, module: object) -> doctest.DocTest:
    return doctest.DocTestParser().get_doctest(inspect.getdoc(module) or "", {}, name, None, None)


EXAMPLES = examples()


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name):
    test = EXAMPLES[name]
    test.globs = {}  # a reader has nothing but what the example imports
    report: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    assert not failed, "".join(report)


@pytest.mark.parametrize("name", ["Comm", "FeatureSource", "Place", "Rows", "ext.CachePolicy", "ext.PlacingSource"])
def test_what_others_extend_has_an_example(name):
    assert f"hr.{name}" in EXAMPLES
