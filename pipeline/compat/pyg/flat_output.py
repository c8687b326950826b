"""The nodes and edges of a sampled batch as PyG lists them, of all types together."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.pipeline.data.batch import MiniBatch


@dataclass(frozen=True)
class FlatOutput:
    """What was sampled.

    Parameters
    ----------
    node: int64[num_nodes]
        Nodes: seeds, as they came, then in order of discovery.
    edge_index: int64[2, num_edges]
        Edges in local ids, hop by hop.
    edge: int64[num_edges], optional
        Their ids.
    num_nodes
        Of each hop, the seeds first.
    num_edges
        Of each hop.
    slot: int64[num_nodes], optional
        The tree of each node, where seeds grow trees of their own: that of seed or pair i is i.
    """

    node: Tensor
    edge_index: Tensor
    edge: Tensor | None
    num_nodes: list[int]
    num_edges: list[int]
    slot: Tensor | None = None


def flat_output(batch: MiniBatch) -> FlatOutput:
    """Return what was sampled with ``expand="new"``, or behind it made one square block."""
    block = batch.blocks[0]
    num_nodes, num_edges = list(batch.num_sampled_nodes), list(batch.num_sampled_edges)
    if batch.seeds.ndim == 1 and batch.num_seeds != num_nodes[0]:
        return _with_rows_for_all_seeds(batch)
    return FlatOutput(batch.n_id, block.edge_index, block.edge_ids, num_nodes, num_edges, batch.slot)


def _with_rows_for_all_seeds(batch: MiniBatch) -> FlatOutput:
    """Give each seed a row of its own, and the in-edges of its node, where seeds repeat."""
    block, num_distinct, num_seeds = batch.blocks[0], batch.num_sampled_nodes[0], batch.num_seeds
    # The row of each node: for a seed the first one it has.
    number = torch.arange(num_seeds, device="cpu")
    first = torch.full((num_distinct,), num_seeds, device="cpu").scatter_reduce(0, batch.seed_index, number, "amin")
    places = torch.cat([first, torch.arange(num_distinct, len(batch.n_id), device="cpu") + (num_seeds - num_distinct)])
    # The destination whose edges each new row takes.
    taken = torch.cat([batch.seed_index, torch.arange(num_distinct, block.num_dst, device="cpu")])
    starts, counts = block.indptr[:-1][taken], block.indptr.diff()[taken]
    ends = counts.cumsum(0)
    edges = torch.arange(int(ends[-1]), device="cpu") + torch.repeat_interleave(starts - ends + counts, counts)
    return FlatOutput(
        node=torch.cat([batch.seeds, batch.n_id[num_distinct:]]),
        edge_index=torch.stack([places[block.indices[edges]], torch.repeat_interleave(counts)]),
        edge=None if block.edge_ids is None else block.edge_ids[edges],
        num_nodes=[num_seeds, *batch.num_sampled_nodes[1:]],
        num_edges=[int(counts[:num_seeds].sum()), *batch.num_sampled_edges[1:]],
    )
