"""Random numbers as functions: the published contract of every draw that headrace makes.

There is no generator state. Philox4x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), of 10
rounds unless said otherwise, maps a 128-bit counter and a 64-bit key to four 32-bit words, and a draw is addressed by
what it is for:

1. The *stream key* of (seed, epoch, batch, layer, purpose) is words 0 (low) and 1 (high) of
   ``philox(counter=(epoch, batch_low, batch_high, layer | purpose << 16), key=(seed_low, seed_high))``.
2. Word ``j`` of the stream of a 64-bit id (a *global* node id, never a local one) is lane ``j % 4`` of
   ``philox(counter=(id_low, id_high, j // 4, 0), key=stream key)``.

3. Where a hop samples for disjoint trees, a node in slot ``s`` has its streams under the *slot's key*: words 0 (low)
   and 1 (high) of ``philox(counter=(s_low, s_high, 0, 2**32 - 1), key=stream key)``.

Bounded integers come from consecutive words by Lemire's multiply-shift with rejection (arXiv 1805.10941): a bound of 1
takes no word, one below 2**32 one word per attempt, a larger one two words (low first) and a 128-bit product. The
variate of source node ``t`` in LABOR and LADIES is ``lane 0 << 32 | lane 1`` of Philox4x32-7 with the counter
``(t_low, t_high, 0, 0)`` and the stream key: it is computed for every in-edge of a frontier, and seven rounds are the
fewest that pass BigCrush (the same paper). In LABOR an edge from ``t`` to ``s`` behind ``j`` others, in CSC order and
whatever their weights, has that of the counter ``(t_low, t_high, j, 0)`` instead. A real variate in (0, 1) is the odd
multiple of 2**-53 that the upper 52 of 64 such bits name. Where batches depend on each other (`batch_dependency` of
LABOR) a variate is blended of two, under the stream keys of two windows of batches: see
`headrace.ops.random.dependency`.

`headrace.ext.uniform` gives samplers of users real variates: draw ``i`` of an id is made of words ``2 * i`` and
``2 * i + 1`` of its stream, as in a pick by weight.

In a pick by weight, variate ``i`` of a destination is the 64-bit integer whose upper half is word ``2 * i`` and whose
lower half is word ``2 * i + 1`` of its stream. Draw ``i`` takes variate ``i`` and falls on the first edge whose running
sum of weights (doubles, added in CSC order) exceeds the real variate times the total. Without replacement draws of an
edge already picked do not count, and at most ``d`` draws are made: none where the in-degree is less than half the
fan-out above it, elsewhere ``4 * fanout + 16``. What they leave to be picked are the edges that are first in a race, in
which edge ``i`` of the row takes variate ``d + i`` and arrives at ``-ln(u) / weight``.

A step of a random walk takes one word to decide on a restart (none where the walk never restarts), then a bounded
integer, or two words for a step by weight. Each walk of `random_walk` has a stream; in PinSAGE, the walks of one
destination share its stream and follow each other. Draw ``i`` from all nodes or edges uses stream ``i``: LABOR's
variate of ``i`` as a real one for a draw by weight, bounded integers for a uniform destination and then one of its
in-edges. The negatives of a batch's pair use the stream of its place in the batch, one after the other: bounded
integers, or by weight real variates as above (`headrace.ops.sampling.negatives`). `headrace.ops.random.shuffle` says
which order of items a key names.
"""

from __future__ import annotations

from typing import Final

from headrace.ops import _native
from headrace.ops._arrays import is_int
from headrace.ops.errors import InputError

# Purposes: streams of different purposes are independent.
SHUFFLE: Final = 0
NEIGHBOR: Final = 1  # picks of in-edges, by any hop rule
WALK: Final = 4  # random walks
DRAW: Final = 5  # nodes and edges drawn from the whole graph
DROPOUT: Final = 6  # masks of rows, by dropout in the model in place of the layer
WINDOW: Final = 7  # picks by LABOR in windows of batches that depend on each other, by window in place of the batch
NEGATIVE: Final = 8  # negative pairs: destinations in layer 0, sources in layer 1
USER: Final = 9  # functions of the user: the key is the seed of generators of torch, NumPy and Python
OWN: Final = 10  # samplers of the user, by `headrace.ext.uniform`

_MOST16, _MOST32, _MOST64 = (1 << 16) - 1, (1 << 32) - 1, (1 << 64) - 1
_LIMITS = (("seed", _MOST64), ("epoch", _MOST32), ("batch", _MOST64), ("layer", _MOST16), ("purpose", _MOST16))


def stream_key(seed: int, epoch: int, batch: int, layer: int, purpose: int) -> int:
    """Return the 64-bit key of the random stream of one purpose in one layer of one batch.

    Parameters
    ----------
    seed : int
        In [0, 2**64).
    epoch : int
        In [0, 2**32).
    batch : int
        Batch index within the epoch, in [0, 2**64).
    layer : int
        Hop, 0 next to the seeds, in [0, 2**16).
    purpose : int
        The purpose of the stream: SHUFFLE, NEIGHBOR, WALK, DRAW, DROPOUT, WINDOW, NEGATIVE, USER or OWN, in [0, 2**16).

    Raises
    ------
    InputError
        If a coordinate does not fit its width.
    """
    coordinates = seed, epoch, batch, layer, purpose
    # Every hop of every batch asks, nearly always with ints of Python.
    if not (
        type(seed) is type(epoch) is type(batch) is type(layer) is type(purpose) is int
        and 0 <= seed <= _MOST64
        and 0 <= epoch <= _MOST32
        and 0 <= batch <= _MOST64
        and 0 <= layer <= _MOST16
        and 0 <= purpose <= _MOST16
    ):
        coordinates = _checked(coordinates)
    return _native.stream_key(*coordinates)


def _checked(coordinates: tuple[int, int, int, int, int]) -> tuple[int, int, int, int, int]:
    """Return coordinates as ints of Python, or refuse the first that does not fit."""
    for (name, most), value in zip(_LIMITS, coordinates, strict=True):
        if not is_int(value) or not 0 <= value <= most:
            message = f"stream_key: expected {name} to be in [0, 2**{most.bit_length()}) and an int, got {value!r}"
            raise InputError(message)
    seed, epoch, batch, layer, purpose = map(int, coordinates)
    return seed, epoch, batch, layer, purpose
