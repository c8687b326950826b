"""Sizes of memory as users write them: bytes, or texts with a unit."""

from __future__ import annotations

import re
from typing import Any

from headrace.ops.errors import InputError

#: The least memory of a machine that is a text: of 80 the unit was forgotten.
LEAST_OF_A_MACHINE = 10**6

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {f"{letter}iB".upper(): 1 << 10 * power for power, letter in enumerate("KMGT", 1)}


def as_memory(memory: Any, what: str = "convert", least: int = 0) -> int:
    """Return bytes of a number, or of a text such as "4GB" or "512MiB".

    Raises
    ------
    InputError
        If it is neither, or a text of less than `least`, which rather lacks its unit.
    """
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", memory)
        if match and match[2].upper() in _UNITS:
            found = int(float(match[1]) * _UNITS[match[2].upper()])
            if found < least:
                advice = "" if match[2] or not found else f'; give the unit, as "{match[1]}GB"'
                raise InputError(
                    f"{what}: expected at least {least:,} bytes, got {memory!r}, which is {found:,} bytes{advice}"
                )
            return found
    elif isinstance(memory, int) and not isinstance(memory, bool) and memory > 0:
        return memory
    raise InputError(f'{what}: expected memory to be bytes or a text such as "4GB", got {memory!r}')
