"""Every class of PyG that passes messages, on blocks whose nodes ranks share: equal to one process, or refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from pyg_classes import EQUAL, REFUSED, outcome_of_batch
from ranks import run_ranks
from torch import Tensor, nn

import headrace as hr

from plans import NUM_EDGES, NUM_NODES, graph

#: All but MeshCNNConv, which takes edges in fours, in an order that has a meaning.
CLASSES = {**EQUAL, **{name: case[:2] for name, case in REFUSED.items() if name != "MeshCNNConv"}}

_OTHERS = "to give a node the same row whatever edges and rows other nodes have"

#: Those that are refused pass messages several times, or need what a rank has not all of.
REASONS = {
    **dict.fromkeys(("APPNP", "ChebConv", "GatedGraphConv", "MixHopConv", "SGConv", "SSGConv", "TAGConv"), _OTHERS),
    "SuperGATConv": "loss of its own over the edges",
}


def tables(make: Callable[[], nn.Module], takes: str, world_size: int) -> list[dict[str, Tensor]]:
    """Return for each rank its rows and gradients, as tables of the whole graph.

    The seeds are some of the nodes, so that a block has sources that are no destinations of any rank.
    """
    torch.manual_seed(0)
    layer = make().double()
    steps = hr.ItemSampler(NUM_NODES // 2, batch_size=NUM_NODES, seed=1).sample_in_subgraph(graph())

    def work(comm: hr.Comm) -> dict[str, Tensor]:
        with steps.loader(comm=comm, cooperative=True) as loader:
            batch = next(iter(loader))
            block, values = batch.blocks[0], outcome_of_batch(layer, takes, batch, comm)
            sizes = {len(batch.n_id): (batch.n_id, NUM_NODES), block.num_edges: (block.edge_ids, NUM_EDGES)}
            places = {"rows": (batch.n_id[: block.num_dst], NUM_NODES)}
            return {
                name: one
                if one is None or name.startswith("of ")
                else whole(one, *(places.get(name) or sizes[len(one)]))
                for name, one in values.items()
            }

    return run_ranks(world_size, work)


def whole(values: Tensor, ids: Tensor, number: int) -> Tensor:
    return values.new_zeros(number, *values.shape[1:]).index_add(0, ids, values)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CLASSES if name not in REASONS])
@pytest.mark.parametrize("world_size", [2, 3])
def test_every_class_is_that_of_one_process(name, world_size):
    [expected], shares = (tables(*CLASSES[name], size) for size in (1, world_size))
    for what, one in expected.items():
        parts = [share[what] for share in shares if share[what] is not None]
        if not parts:
            assert one is None or not one.any(), what
            continue
        total = parts[0] if what.startswith("of ") else sum(parts)
        torch.testing.assert_close(total, torch.zeros_like(total) if one is None else one, rtol=1e-10, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", REASONS)
def test_other_classes_are_refused(name):
    with pytest.raises(hr.InputError, match=REASONS[name]):
        tables(*CLASSES[name], 2)
