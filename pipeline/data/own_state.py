"""States that users' objects return, which they may go on to change."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from typing import Any

#: What an object may go on to change, and is quick to look into.
_CONTAINERS = (dict, list, tuple)

#: What never changes.
_VALUES = frozenset({int, float, str, bool, type(None), bytes, complex})


def own_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state that nobody else changes: what is held elsewhere is copied, what was made for it is not.

    Call it with what a function has just returned, under no other name.
    """
    return {name: _own(value, sys.getrefcount(value)) for name, value in state.items()}


def _own(value: Any, num_holders: int) -> Any:
    """Return a value of a container, copied if anything but the container, and the names here, holds it."""
    if type(value) in _VALUES:
        return value
    if num_holders > _ALONE or type(value) not in _CONTAINERS:
        return copy.deepcopy(value)
    if type(value) is dict:
        return {name: _own(inner, sys.getrefcount(inner)) for name, inner in value.items()}
    if _VALUES.issuperset(map(type, value)):
        return value
    return type(value)([_own(inner, sys.getrefcount(inner)) for inner in value])


def _count_alone() -> int:
    """Return how many hold a value of a dictionary in such a loop: it depends on the version of Python."""
    counts = [sys.getrefcount(inner) for _, inner in {"": [object()]}.items()]
    return counts[0]


_ALONE = _count_alone()
