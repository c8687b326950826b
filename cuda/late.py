"""Numbers of a device that the host learns of without waiting."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from headrace.cuda.streams import record


def read_later(numbers: Tensor) -> Callable[[], list[int] | None]:
    """Read integers, int64[n], behind all that was launched on the current stream.

    Returns
    -------
    known
        Returns the numbers once they are there, and None before.
    """
    here = numbers.to("cpu", non_blocking=True)  # in pinned memory
    event = record(numbers.device)

    def known() -> list[int] | None:
        return here.tolist() if event.is_done() else None

    return known
