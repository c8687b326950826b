"""Owners of nodes by a streaming partitioner: one look at each row of the graph, no copy of it."""

from __future__ import annotations

import math

import torch

from headrace.ops import _native
from headrace.ops._arrays import Array, as_count, graph_arrays
from headrace.ops.errors import InputError
from headrace.ops.random.rng import SHUFFLE, stream_key


def stream_owners(
    indptr: Array,
    indices: Array,
    num_parts: int,
    *,
    slack: float = 0.05,
    passes: int = 1,
    shuffle: bool = False,
    seed: int = 0,
) -> torch.Tensor:
    """Put nodes one by one where most of their in-neighbours are, times the room that is left there.

    This is linear deterministic greedy (LDG; Stanton and Kliot, KDD 2012) in whole numbers: a part with ``count``
    in-neighbours of the node and ``size`` nodes scores ``count * (capacity - size)``, parallel edges counted one
    by one, self-loops not at all. Of equal scores the smaller part wins, then the first; without a neighbour in a part
    that has room, the smallest part. A later pass takes every node out of its part and puts it back by the same rule,
    now with all its in-neighbours placed (restreaming; Nishimura and Ugander, KDD 2013, but with sizes that are always
    those of the moment).

    LDG was chosen over Fennel (Tsourakakis et al., WSDM 2014) by measurement, on six graphs in 8 parts at 5 % slack:
    after one pass neither is ahead, after ten LDG cuts between as many edges and 45 % fewer, at a better balance. There
    is no constant to fit to the graph, and whole numbers leave no rounding to agree upon.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1].
    indices : torch.Tensor or numpy.ndarray
        int32[num_edges] or int64[num_edges].
    num_parts : int
        From 1 to 65,536.
    slack : float
        No part gets more nodes than `part_capacity` says: (1 + slack) times the mean.
    passes : int
        At least 1.
    shuffle : bool
        Visit nodes in the order of the permutation that `seed` names (`shuffled_range`), else in that of their ids.
        Ids that mean something (an order of collection, a reordering) give fewer cut edges than a shuffle; rows are
        read one after the other, which suits memory maps, and a pass takes a third of the time.
    seed : int
        In [0, 2**64).

    Returns
    -------
    torch.Tensor
        int32[num_nodes]. There is no other memory that grows with the graph.

    Raises
    ------
    InputError
        If a number is out of range.
        If the graph's arrays are malformed.
    """
    stage = "stream_owners"
    starts, sources = graph_arrays(indptr, indices, stage)
    parts = as_count(num_parts, "num_parts", stage=stage)
    owners = _native.stream_partition(
        starts,
        sources,
        parts,
        part_capacity(starts.size - 1, parts, slack),
        as_count(passes, "passes", stage=stage),
        bool(shuffle),
        stream_key(seed, 0, 0, 0, SHUFFLE),
    )
    return torch.from_numpy(owners)


def part_capacity(num_nodes: int, num_parts: int, slack: float) -> int:
    """Return the nodes that a part may hold: (1 + slack) times the mean, at least the mean rounded up.

    Raises
    ------
    InputError
        If the slack is negative or not a finite number.
    """
    if isinstance(slack, bool) or not isinstance(slack, (int, float)) or not 0 <= slack < math.inf:
        message = (
            f"part_capacity: expected slack to be a finite number of at least 0, such as 0.05 for 5 %, got {slack!r}"
        )
        raise InputError(message)
    parts = max(num_parts, 1)
    return min(num_nodes, max(-(-num_nodes // parts), int(num_nodes * (1 + slack) / parts)))
