"""Where a warning is shown: at the line of a user, whatever of headrace lies between."""

from __future__ import annotations

import inspect


def level_of_user() -> int:
    """Return the `stacklevel` with which the caller's warning is shown where headrace was called."""
    package, level, frame = __name__.partition(".")[0], 0, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        level, frame = level + 1, frame.f_back
    return level
