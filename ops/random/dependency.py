"""Batches that depend on each other: LABOR's variates change little from one to the next (arXiv 2310.12403).

With a dependency of kappa, the batches of an epoch are cut into windows of kappa. Each window has a stream key of its
own, of the purpose WINDOW, with the window's number in the place of the batch's. In step ``i`` of a window the variate
of an edge goes ``i / kappa`` of a quarter turn from its variate ``u1`` under the window's key to ``u2`` under that of
the window behind it:

    r = Phi(cos(i / kappa * pi / 2) * Phi^-1(u1) + sin(i / kappa * pi / 2) * Phi^-1(u2))

where Phi is the normal distribution. So r is as uniform as u1 and u2 are, and as independent from node to node: each
batch by itself has the law of any other. From batch to batch the normal variates have the correlation
cos(pi / (2 kappa)), at the ends of windows too; batches kappa apart have 0.5 sin(pi i / kappa), and those 2 kappa apart
have none. Step 0 takes u1 as it is. Windows begin anew with each epoch: its first batch is independent of all before.

``r`` is 64 bits, as all variates of LABOR are: the integer part of 2**64 times Phi of the sum, if that is negative, or
else the complement of what the opposite sum gives; u1 and u2 are real variates. Phi and its inverse are those of
``ops/native/random/normal.hpp``, IEEE double precision in a fixed order, so that every machine finds the same bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from headrace.ops._arrays import as_key, is_int
from headrace.ops.errors import InputError
from headrace.ops.random.rng import NEIGHBOR, WINDOW, stream_key

_MOST_STEPS = 1 << 53  # so that a double counts them


@dataclass(frozen=True)
class BlendedKey:
    """The stream key of a hop whose variates are blended from those of two stream keys.

    Attributes
    ----------
    key, next_key : int
        The stream keys.
    step, num_steps : int
        The blend: ``step / num_steps`` of a quarter turn, 0 <= step < num_steps.
    """

    key: int
    next_key: int
    step: int
    num_steps: int

    def __post_init__(self) -> None:
        """Check keys and steps."""
        for key in (self.key, self.next_key):
            as_key(key, stage="BlendedKey")
        if not (is_int(self.step) and is_int(self.num_steps) and 0 <= self.step < self.num_steps <= _MOST_STEPS):
            message = f"BlendedKey: expected 0 <= step < num_steps <= 2**53, got {self.step!r} and {self.num_steps!r}"
            raise InputError(message)


def dependent_key(seed: int, epoch: int, batch: int, layer: int, batch_dependency: float) -> int | BlendedKey:
    """Return the key of a LABOR hop of a batch that shares randomness with the batches before and after it.

    Parameters
    ----------
    seed, epoch, batch, layer : int
        As for `stream_key`.
    batch_dependency : int or math.inf
        Kappa, at least 1: batches of a window. 1: batches are independent. ``math.inf``: all batches of all epochs
        have the same key.

    Raises
    ------
    InputError
        If a coordinate does not fit its width, or the dependency is neither an int of at least 1 nor ``math.inf``.
    """
    if (type(batch_dependency) is int or is_int(batch_dependency)) and 1 <= batch_dependency <= _MOST_STEPS:
        if batch_dependency == 1 or not is_int(batch):  # stream_key refuses the latter
            return stream_key(seed, epoch, batch, layer, NEIGHBOR)
        num_steps = int(batch_dependency)
        window, step = divmod(int(batch), num_steps)
        key = stream_key(seed, epoch, window, layer, WINDOW)
        if step == 0:
            return key
        return BlendedKey(key, stream_key(seed, epoch, window + 1, layer, WINDOW), step, num_steps)
    if isinstance(batch_dependency, float) and batch_dependency == math.inf:
        return stream_key(seed, 0, 0, layer, WINDOW)
    message = (
        "dependent_key: expected batch_dependency to be an int of at least 1, or math.inf for picks that never change, "
        f"got {batch_dependency!r}"
    )
    raise InputError(message)
