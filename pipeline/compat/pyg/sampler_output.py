"""From a sampled batch to the ``SamplerOutput`` of PyG, which its loaders make their batches of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput

from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.interop.typed import edges_by_type, nodes_by_type
from headrace.pipeline.plan.stage import Counts
from headrace.pipeline.stages.conversions import Conversion


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


@dataclass(frozen=True, eq=False, repr=False)
class ToSamplerOutput(Conversion):
    """Turn every batch into a ``SamplerOutput`` of PyG, or a ``HeteroSamplerOutput`` where the graph has types.

    Every seed has a row, in the order in which they came: one that is there twice has two, with the same in-edges, so
    that a model gives both the same output. ``edge`` are ids of the edges as the user gave them. ``metadata`` are the
    positions of the items; of pairs also the rows of their ends, and their times. Where pairs grow trees of their own
    negatives come in PyG's order: one of each positive pair, then the next of each.

    Parameters
    ----------
    counted
        Whether hops are told apart: not where edges were turned around or added behind the sampler.
    both_ways
        Whether edges of a graph with types are turned around here, as PyG does it: between a type and its reverse.
    no_hops
        Whether the sampler has one hop that stands for none, of which nothing is told.
    """

    name: ClassVar[str] = "to_sampler_output"

    counted: bool = True
    both_ways: bool = False
    no_hops: bool = False

    def run(self, batch: MiniBatch) -> tuple[Any, Counts]:
        flat = flat_output(batch)
        if self.no_hops:
            flat = replace(flat, num_nodes=flat.num_nodes[:1], num_edges=[])
        order = None
        if flat.slot is not None and batch.num_positives:
            pair = _pair_of(len(batch.seeds), batch.num_positives)
            flat, order = replace(flat, slot=pair[flat.slot]), _by_turns(pair)
        out = self._typed(flat, batch) if batch.types is not None else self._plain(flat)
        out.metadata = (batch.item_index,)
        if batch.seeds.ndim == 2:
            rows, times = self._rows(batch), batch.seed_time
            if order is not None:
                rows, times = rows[order], None if times is None else times[order]
            out.metadata = (batch.item_index[: batch.num_positives], rows, times)
        return out, {"converted_nodes": len(flat.node), "converted_edges": flat.edge_index.shape[1]}

    def _plain(self, flat: FlatOutput) -> SamplerOutput:
        return SamplerOutput(
            node=flat.node,
            row=flat.edge_index[0],
            col=flat.edge_index[1],
            edge=flat.edge,
            batch=flat.slot,
            num_sampled_nodes=flat.num_nodes if self.counted else None,
            num_sampled_edges=flat.num_edges if self.counted else None,
        )

    def _typed(self, flat: FlatOutput, batch: MiniBatch) -> HeteroSamplerOutput:
        assert batch.types is not None
        assert flat.edge is not None  # types are known by edge ids
        types, counted = batch.types.of(flat.node), self.counted
        nodes: Any = nodes_by_type(types, flat.num_nodes if counted else None, flat.slot)
        edges: Any = edges_by_type(types, flat.edge_index, flat.edge, flat.num_edges if counted else None)
        ends = {name: one.edge_index.unbind() for name, one in edges.items()}
        out = HeteroSamplerOutput(
            node={name: one.ids for name, one in nodes.items()},
            row={name: row for name, (row, _) in ends.items()},
            col={name: col for name, (_, col) in ends.items()},
            edge={name: one.ids for name, one in edges.items()},
            batch=None if flat.slot is None else {name: one.slot for name, one in nodes.items()},
            num_sampled_nodes={name: one.by_hop for name, one in nodes.items()} if counted else None,
            num_sampled_edges={name: one.by_hop for name, one in edges.items()} if counted else None,
        )
        return out.to_bidirectional() if self.both_ways else out

    def _rows(self, batch: MiniBatch) -> Tensor:
        """Return the rows of the ends of pairs, in the shape of the seeds, among the nodes of their types."""
        return batch.seed_index if batch.types is None else batch.types.numbers[batch.seed_index]


def _pair_of(num_pairs: int, num_positives: int) -> Tensor:
    """Return for each pair, negatives behind, the positive one whose number and times its tree has, int64[num_pairs].

    Negatives of one pair follow each other, and where they do not come out even the first pairs have one more.
    """
    each, more = divmod(num_pairs - num_positives, num_positives)
    number = torch.arange(num_positives, device="cpu")
    return torch.cat([number, number.repeat_interleave(each + (number < more).long())])


def _by_turns(pair: Tensor) -> Tensor:
    """Return the places of pairs in PyG's order, int64[num_pairs]: of each positive pair the first, then the second, ….

    Parameters
    ----------
    pair: int64[num_pairs]
        What `_pair_of` returns.
    """
    by_pair = pair.argsort(stable=True)  # a positive pair, then its negatives
    counts = torch.bincount(pair)
    turn = torch.empty_like(pair)
    turn[by_pair] = torch.arange(len(pair), device="cpu") - (counts.cumsum(0) - counts).repeat_interleave(counts)
    return turn.argsort(stable=True)
