"""Random numbers of messages that are computed several times: the same each time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from headrace.ops.forks import ProcessLock

#: Ranks that are threads of one process share torch's generator: nobody else draws while one replays.
_DRAWING = ProcessLock()


@contextmanager
def drawing(states: dict[int, list[Tensor]], part: int, *, restore: bool = False) -> Iterator[None]:
    """Let torch draw as it did the last time for this part, if there was one; then its generators go on as before.

    Parameters
    ----------
    states
        The state of the generators before each part, of those that have drawn; written the first time.
    part
        Its number.
    restore
        Whether the first time, too, the generators go on as if nothing was drawn.
    """
    with _DRAWING.held():
        again, before = part in states, _generators()
        if again:
            _set_generators(states[part])
        try:
            yield
        finally:
            # Where nothing was drawn nothing is set: other threads may look at the generators.
            drew = again or any(not torch.equal(*pair) for pair in zip(before, _generators(), strict=True))
            if drew and not again:
                states[part] = before
            if drew and (again or restore):
                _set_generators(before)


def _generators() -> list[Tensor]:
    """Return the states of the CPU's generator and of those of GPUs in use."""
    on_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    return [torch.get_rng_state(), *on_gpus]


def _set_generators(states: list[Tensor]) -> None:
    torch.set_rng_state(states[0])
    if len(states) > 1:
        torch.cuda.set_rng_state_all(states[1:])
