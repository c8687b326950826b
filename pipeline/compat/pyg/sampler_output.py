"""From a sampled batch to the ``SamplerOutput`` of PyG, which its loaders make their batches of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.sampler import SamplerOutput

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, Runner
from headrace.pipeline.stages.conversion import Conversion


@dataclass(frozen=True, eq=False, repr=False)
class ToSamplerOutput(Conversion):
    """Turn every batch into a ``torch_geometric.sampler.SamplerOutput``.

    Every seed has a row, in the order in which they came: one that is there twice has two, with the same in-edges, so
    that a model gives both the same output. ``edge`` are ids of the edges as the user gave them.

    Parameters
    ----------
    counted
        Whether hops are told apart: not where edges were turned around or added behind the sampler.
    """

    name: ClassVar[str] = "to_sampler_output"

    counted: bool = True

    def runner(self, settings: RunSettings) -> Runner:
        del settings

        def run(batch: MiniBatch) -> tuple[Any, Counts]:
            out = sampler_output(batch, counted=self.counted)
            return out, {"converted_nodes": len(out.node), "converted_edges": len(out.row)}

        return run


def sampler_output(batch: MiniBatch, *, counted: bool = True) -> SamplerOutput:
    """Return what PyG's samplers return; ``metadata`` are positions of items, of pairs also their rows and labels."""
    block = batch.blocks[0]
    num_seeds, num_nodes, num_edges = batch.num_seeds, list(batch.num_sampled_nodes), list(batch.num_sampled_edges)
    node, edge_index, edge = batch.n_id, block.edge_index, block.edge_ids
    are_pairs = batch.seeds.ndim == 2
    if not are_pairs and num_seeds != num_nodes[0]:
        places, of_edges, seeds_edges = _rows_of_seeds(batch)
        num_more = num_seeds - num_nodes[0]
        node = torch.cat([batch.seeds, node[num_nodes[0] :]])
        sources = places[block.indices[of_edges]]
        rows = torch.cat([batch.seed_index, torch.arange(num_nodes[0], block.num_dst)])
        destinations = torch.repeat_interleave(block.indptr.diff()[rows])
        edge_index = torch.stack([sources, destinations])
        edge = None if edge is None else edge[of_edges]
        num_nodes[0] += num_more
        num_edges[0] = seeds_edges
    return SamplerOutput(
        node=node,
        row=edge_index[0],
        col=edge_index[1],
        edge=edge,
        batch=None,
        num_sampled_nodes=num_nodes if counted else None,
        num_sampled_edges=num_edges if counted else None,
        metadata=(batch.item_index, batch.seed_index.t().contiguous(), batch.y) if are_pairs else (batch.item_index,),
    )


def _rows_of_seeds(batch: MiniBatch) -> tuple[Tensor, Tensor, int]:
    """Return what becomes of a batch in which seeds repeat, if each has a row of its own.

    Returns
    -------
    places: int64[num_nodes]
        The new row of each node: for a seed the first one it has.
    of_edges: int64[num_new_edges]
        The edges, by destination: those of a repeated seed repeat.
    seeds_edges
        How many of them end at seeds.
    """
    block, num_distinct, num_seeds = batch.blocks[0], batch.num_sampled_nodes[0], batch.num_seeds
    number = torch.arange(num_seeds)
    first = torch.full((num_distinct,), num_seeds).scatter_reduce(0, batch.seed_index, number, "amin")
    places = torch.cat([first, torch.arange(num_distinct, len(batch.n_id)) + (num_seeds - num_distinct)])
    rows = torch.cat([batch.seed_index, torch.arange(num_distinct, block.num_dst)])
    starts, counts = block.indptr[:-1][rows], block.indptr.diff()[rows]
    ends = counts.cumsum(0)
    of_edges = torch.arange(int(ends[-1])) + torch.repeat_interleave(starts - ends + counts, counts)
    return places, of_edges, int(counts[:num_seeds].sum())
