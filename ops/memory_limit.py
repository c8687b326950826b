"""Sizes that no memory of this machine can hold, refused before any work is done."""

from __future__ import annotations

import os

from headrace.ops.errors import InputError

_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


def memory_bytes() -> int | None:
    """Return how much memory the machine has; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # no sysconf, or none of these names
        return None


def check_fits_memory(num_bytes: int, what: str, advice: str, error: type[InputError] = InputError) -> None:
    """Refuse what takes more than all of the machine's memory.

    What takes less may still not fit beside other things: this catches slips, it does not plan.

    Parameters
    ----------
    num_bytes : int
        What is needed at least.
    what, advice : str
        Who asks for what, and what to do, for the message.
    error : type
        Class of the error.

    Raises
    ------
    InputError
        (or `error`) with what was asked for and the limit.
    """
    limit = memory_bytes()
    if limit is not None and num_bytes > limit:
        message = (
            f"{what}, which takes at least {_readable(num_bytes)}; expected at most the memory of this machine, "
            f"{_readable(limit)}; {advice}"
        )
        raise error(message)


def _readable(num_bytes: int) -> str:
    power = min(max(len(str(num_bytes)) - 1, 0) // 3, len(_UNITS) - 1)
    return f"{num_bytes / 1000**power:,.1f} {_UNITS[power]}"
