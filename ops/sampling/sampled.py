"""What the fused sampler returns, and the trees that it takes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import torch

from headrace.ops._arrays import as_numpy

if TYPE_CHECKING:
    from headrace.ops import _native


class SampledHop(NamedTuple):
    """One bipartite block in local ids: sources 0, ..., num_src - 1; the first num_dst are the destinations.

    Attributes
    ----------
    indptr : torch.Tensor
        int64[num_dst + 1].
    indices : torch.Tensor
        [num_edges] of the graph's index dtype, local source ids.
    edge_ids : torch.Tensor or None
        int64[num_edges], input edge ids; None if they were not requested.
    num_dst, num_src : int
        Numbers of destinations and of sources.
    weights : torch.Tensor or None
        float32[num_edges], see `Hop`; None for a shared block if some of its rules return no weights.
    """

    indptr: torch.Tensor
    indices: torch.Tensor
    edge_ids: torch.Tensor | None
    num_dst: int
    num_src: int
    weights: torch.Tensor | None = None


class Sampled(NamedTuple):
    """The result of the fused sampler.

    Attributes
    ----------
    n_id : torch.Tensor
        int64[num_src], global ids of the local ones: the seeds, then nodes in order of discovery.
    hops : list of SampledHop
        The hop next to the seeds first; one merged hop when sampled with ``expand="new"``.
    num_sampled_nodes : list of int
        Nodes discovered by each hop, the seeds first.
    num_sampled_edges : list of int
        Edges picked by each hop.
    slots : torch.Tensor or None
        int64[num_src], the tree of each node, if seeds have trees.
    counts : mapping of str to int
        Of rows that were fetched before they were sampled: `fetched_edges`, and `hits` and `misses` of a cache.
    """

    n_id: torch.Tensor
    hops: list[SampledHop]
    num_sampled_nodes: list[int]
    num_sampled_edges: list[int]
    slots: torch.Tensor | None = None
    counts: Mapping[str, int] = MappingProxyType({})


class Trees(NamedTuple):
    """The trees of seeds, which share no nodes.

    Attributes
    ----------
    slots : torch.Tensor
        int64[num_seeds], the tree of each seed, in [0, num_trees).
    num_trees : int
        Trees.
    streams : torch.Tensor or None
        int64[num_trees], the key of the draws of each tree, in place of its slot.
    bounds : torch.Tensor or None
        int64[num_trees]: only edges no later than this time are picked.
    lows : torch.Tensor or None
        int64[num_trees]: only edges no earlier than this time are picked.
    """

    slots: torch.Tensor
    num_trees: int
    streams: torch.Tensor | None = None
    bounds: torch.Tensor | None = None
    lows: torch.Tensor | None = None


def tree_arrays(trees: Trees, stage: str) -> _native.Trees:
    """Return trees as kernels take them.

    Raises
    ------
    InputError
        For other dtypes or devices.
    """

    def view(array: torch.Tensor | None, name: str) -> _native.Int64Array | None:
        return None if array is None else as_numpy(array, name, stage=stage)

    slots = as_numpy(trees.slots, "slots", stage=stage)
    of_trees = view(trees.streams, "streams"), view(trees.bounds, "bounds"), view(trees.lows, "lows")
    return slots, trees.num_trees, *of_trees
