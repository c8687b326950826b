"""The trees of the nodes of each layer, as conversions name them."""

from __future__ import annotations

import pytest
import torch
from ranks import run_ranks

from headrace.pipeline.interop.typed import slots_of_layer

from plans import graph, items, typed_graph, typed_items

PLANS = {
    "plain": lambda: items().sample_neighbor(graph(), [3, 2, 2], disjoint=True),
    "typed": lambda: typed_items().sample_neighbor(typed_graph(), [3, 2, 2], disjoint=True),
}


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("world_size", [1, 2])
def test_both_ends_of_an_edge_are_in_one_tree(name, world_size):
    def work(comm):
        num_edges = 0
        with PLANS[name]().loader(comm=comm, cooperative=world_size > 1) as loader:
            for batch in loader:
                for layer, block in enumerate(batch.blocks):
                    slot = slots_of_layer(batch, layer)
                    assert len(slot) == block.num_src
                    destinations = torch.arange(block.num_dst).repeat_interleave(block.indptr.diff())
                    assert torch.equal(slot[block.indices.long()], slot[destinations])
                    num_edges += block.num_edges
        return num_edges

    assert all(run_ranks(world_size, work))
