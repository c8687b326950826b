"""Samplers as users write them by hand: one hop a stage, which go by `n_id` or by `seeds`."""

from __future__ import annotations

from dataclasses import dataclass

import torch

import headrace as hr
from headrace import ext

NUM_SEEDS = 50
OF_HOP = frozenset({"n_id", "blocks", "num_sampled_nodes", "num_sampled_edges"})


def ring() -> hr.Graph:
    """Node i has one in-edge, from node i + 50: one found is never a seed."""
    return hr.Graph.from_coo(torch.arange(100).roll(-50), torch.arange(100), num_nodes=100)


def with_edges(batch: hr.MiniBatch, graph: hr.Graph, nodes: torch.Tensor, slot=None) -> tuple[hr.MiniBatch, dict]:
    """Add the one in-edge of each of some nodes, in their trees."""
    number, positions = len(nodes), graph.indptr[nodes]
    in_trees = 0 if slot is None else slot * graph.num_nodes
    seen, found = in_trees + nodes, in_trees + graph.indices[positions].long()
    compacted = hr.ops.compact(seen, found)
    num_src = len(compacted.ids)
    block = hr.Block(
        torch.arange(number + 1),
        compacted.indices,
        num_src=num_src,
        num_dst=number,
        edge_ids=graph.original_edge_ids(positions),
    )
    changed = batch.replace(
        n_id=compacted.ids % graph.num_nodes,
        blocks=(block, *batch.blocks),
        num_sampled_nodes=(*batch.num_sampled_nodes, num_src - number),
        num_sampled_edges=(*batch.num_sampled_edges, number),
    )
    return changed if slot is None else changed.replace(slot=compacted.ids // graph.num_nodes), {"edges": number}


@dataclass(frozen=True, eq=False, repr=False)
class BySeeds(ext.MapStage):
    """Goes by the seeds of the batch."""

    name = "by_seeds"
    num_hops = 1
    reads = frozenset({"seeds"})
    writes = OF_HOP | {"seed_index"}

    graph: hr.Graph

    def runner(self, settings):
        def run(batch):
            found, counts = with_edges(batch, self.graph, batch.seeds)
            return found.replace(seed_index=torch.arange(len(batch.seeds))), counts

        return run


@dataclass(frozen=True, eq=False, repr=False)
class ByNode(ext.MapStage):
    """Goes by `n_id`, and says so."""

    name = "by_node"
    num_hops = 1
    finds_by_node = True
    reads = frozenset({"n_id"})
    writes = OF_HOP

    graph: hr.Graph

    def runner(self, settings):
        return lambda batch: with_edges(batch, self.graph, batch.n_id)


@dataclass(frozen=True, eq=False, repr=False)
class Plants(ext.MapStage):
    """Gives each seed a tree."""

    name = "plants"
    plants_trees = True
    reads = frozenset({"seeds"})
    writes = frozenset({"n_id", "seed_index", "slot", "num_sampled_nodes"})

    def runner(self, settings):
        def run(batch):
            slot = torch.arange(len(batch.seeds))
            return batch.replace(n_id=batch.seeds, seed_index=slot, slot=slot, num_sampled_nodes=(len(slot),)), {}

        return run


@dataclass(frozen=True, eq=False, repr=False)
class InTrees(ByNode):
    """Goes by the entries of `n_id`, each of which is in a tree."""

    name = "in_trees"
    reads = frozenset({"n_id", "slot"})
    writes = OF_HOP | {"slot"}

    def runner(self, settings):
        return lambda batch: with_edges(batch, self.graph, batch.n_id, batch.slot)
