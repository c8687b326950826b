"""Sizes of memory as users write them: bytes, or texts with a unit."""

from __future__ import annotations

import re
from typing import Any

from headrace.ops.errors import InputError
from headrace.pipeline.data.arrays import MOST_BYTES

#: The least memory of a machine that is a text: of 80 the unit was forgotten.
LEAST_OF_A_MACHINE = 10**6

#: Letters of a wrong value that an error shows.
MOST_SHOWN = 80

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
        match = re.fullmatch(r"\s*(\d{1,99}(?:\.\d{1,99})?)\s*([A-Za-z]*)\s*", memory)
        if match and match[2].upper() in _UNITS:
            found = int(float(match[1]) * _UNITS[match[2].upper()])
            if found > MOST_BYTES:
                raise InputError(f"{what}: expected at most {MOST_BYTES:,} bytes, got {_shown(memory)}")
            if found < least:
                advice = "" if match[2] or not found else f'; give the unit, as "{match[1]}GB"'
                raise InputError(
                    f"{what}: expected at least {least:,} bytes, got {memory!r}, which is {found:,} bytes{advice}"
                )
            return found
    elif isinstance(memory, int) and not isinstance(memory, bool) and 0 < memory <= MOST_BYTES:
        return memory
    raise InputError(f'{what}: expected memory to be bytes or a text such as "4GB", got {_shown(memory)}')


def _shown(memory: Any) -> str:
    if isinstance(memory, int) and memory.bit_length() > 1000:
        return "a number of more than 300 digits"
    text = repr(memory)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
