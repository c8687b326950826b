"""Memory that waits for the next minibatch."""

from __future__ import annotations

from headrace.ops import _native


def trim_pool() -> int:
    """Return memory that is kept for coming minibatches to the system.

    Rows and blocks of a minibatch reuse the memory of earlier ones, because fresh pages cost more than writing to them.
    Kept memory and memory in use are together at most an eighth more than the largest use so far. Call this between
    training and other work that needs the memory; the next minibatches allocate again.

    Returns
    -------
    int
        Bytes returned to the system.
    """
    return _native.trim_pool()
