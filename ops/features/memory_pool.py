"""Memory that waits for the next minibatch."""

from __future__ import annotations

from headrace.ops import _native


def trim_pool() -> int:
    """Hand memory that is kept for coming minibatches back to the system.

    Rows and blocks of a minibatch lie in memory that earlier ones have given back: fresh pages cost more than what is
    written to them. What is kept and what is in use are together at most an eighth more than was ever in use at once.
    Call this between training and something else that needs the room; the next minibatches pay for theirs again.

    Returns
    -------
    int
        Bytes that were handed back.
    """
    return _native.trim_pool()
