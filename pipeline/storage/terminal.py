"""Whether somebody watches: progress bars are for terminals and notebooks, and fill log files otherwise."""

from __future__ import annotations

import sys


def shows_bars() -> bool:
    """Return whether stderr is a terminal, or this is a notebook."""
    stderr = sys.stderr  # None where a program has no console
    return "ipykernel" in sys.modules or (stderr is not None and stderr.isatty())
