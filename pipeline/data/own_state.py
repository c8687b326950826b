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
    return _own_dict(state)


def _own_dict(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _own(values[name], sys.getrefcount(values[name])) for name in values}


def _own(value: Any, num_holders: int) -> Any:
    """Return a value of a container, copied if anything but the container and the call holds it."""
    if type(value) in _VALUES:
        return value
    if num_holders > _ALONE or type(value) not in _CONTAINERS:
        return copy.deepcopy(value)
    if type(value) is dict:
        return _own_dict(value)
    if _VALUES.issuperset(map(type, value)):
        return value
    return type(value)([_own(value[i], sys.getrefcount(value[i])) for i in range(len(value))])


def _count(value: Any, num_holders: int) -> int:
    del value
    return num_holders


_BOX = [object()]

#: Of a value that only its container holds, counted in a call: this number depends on the version of Python.
_ALONE = _count(_BOX[0], sys.getrefcount(_BOX[0]))
