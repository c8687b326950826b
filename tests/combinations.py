"""Which combinations of parameters run: all that a marker leaves, or, by `--thorough`, all that there are.

A claim about the product of samplers, ranks and dtypes is tried on some of it where each change is checked. `make
test-thorough` tries it on all, and so does naming a test on the command line.
"""

from __future__ import annotations

import random
from itertools import groupby

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--thorough", action="store_true", help="run all combinations of parameters, and tests marked thorough"
    )
    parser.addoption("--of-each", type=int, metavar="N", help="run at most N combinations of the parameters of a test")


#: The names of all tests of the files that were read, those that do not run among them.
COLLECTED = pytest.StashKey[set[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what runs by `--thorough` alone."""
    config.stash[COLLECTED] = {item.nodeid for item in items}
    if config.getoption("thorough") or any("::" in argument for argument in config.args):
        return
    most = config.getoption("of_each") or len(items)
    chosen = {id(item) for _, of_one in groupby(items, _function) for item in _some(list(of_one), most)}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in chosen])
    items[:] = [item for item in items if id(item) in chosen]


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _some(items: list[pytest.Item], most: int) -> list[pytest.Item]:
    """Return the items of one function that run: always the same, with as many values of each parameter as may be."""
    items = [item for item in items if item.get_closest_marker("thorough") is None]
    marker = items[0].get_closest_marker("combinations") if items else None
    most = most if marker is None else min(most, marker.args[0])
    if most >= len(items):
        return items
    left = {item: _values(item) for item in random.Random(_function(items[0])).sample(items, len(items))}
    chosen: set[pytest.Item] = set()
    seen: set[tuple[str, str]] = set()
    while left and len(chosen) < most:
        best = max(left, key=lambda item: len(left[item] - seen))
        seen |= left.pop(best)
        chosen.add(best)
    return [item for item in items if item in chosen]


def _values(item: pytest.Item) -> set[tuple[str, str]]:
    """Return parameters with their values, as far as these have names."""
    spec = getattr(item, "callspec", None)
    return {(name, _text(value)) for name, value in spec.params.items()} if spec else set()


def _text(value: object) -> str:
    """Return how a value is written, or its kind, as of integers with more digits than Python writes."""
    try:
        return repr(value)[:200]
    except Exception:  # noqa: BLE001 - values of tests are to be odd
        return type(value).__name__
