"""Texts, and progress bars, which are for terminals and notebooks: in log files they only fill lines."""

from __future__ import annotations

import sys
from typing import Any


def shows_bars() -> bool:
    """Return whether stderr is a terminal, or this is a notebook."""
    stderr = sys.stderr  # None where a program has no console
    return "ipykernel" in sys.modules or (stderr is not None and stderr.isatty())


def show_text(text: str) -> None:
    """Print a text to stderr, where there is one."""
    if sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - it was asked for


def progress_bar(steps: Any = None, *, shown: bool = True, **options: Any) -> Any:
    """Return a bar of tqdm with its options, which shows nothing unless it is asked for and somebody watches."""
    from tqdm.auto import tqdm

    return tqdm(steps, disable=not (shown and shows_bars()), **options)
