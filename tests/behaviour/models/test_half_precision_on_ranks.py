"""Models of half precision on several ranks: outputs of one process, whether ranks divide nodes or share edges."""

from __future__ import annotations

import pytest
import torch
from ranks import run_ranks

import headrace as hr

from plans import NUM_NODES, graph

X = torch.randn(NUM_NODES, 8, generator=torch.Generator().manual_seed(0))
LAYERS = {
    "SAGEConv": lambda: hr.nn.SAGEConv(8, 8),
    "GATConv": lambda: hr.nn.GATConv(8, 8, add_self_loops=False),
    "SAGEConv, max": lambda: hr.nn.SAGEConv(8, 8, aggr="max"),
}


class Model(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        self.convs = torch.nn.ModuleList([LAYERS[name](), LAYERS[name]()])

    def forward(self, h, blocks):
        for conv, block in zip(self.convs, blocks, strict=True):
            h = conv(h, block)
        return h


def outputs(name, dtype, state, comm=None, partition=None):
    """The output of each seed, by id, and its dtype."""
    model = Model(name)
    model.load_state_dict(state)
    model.to(dtype)
    run = model if comm is None else hr.cooperative(model)
    store = hr.FeatureStore(node={"x": X.to(dtype)})
    plan = hr.ItemSampler(NUM_NODES, batch_size=64, seed=3).sample_in_subgraph(graph(), num_hops=2)
    plan = plan.fetch_feature(store, node=["x"])
    switches = {} if comm is None else {"comm": comm, "cooperative": True, "partition": partition}
    found = {}
    with plan.loader(**switches) as loader:
        for batch in loader:
            rows = run(*([] if comm is None else [batch]), batch.x, batch.blocks)
            assert rows.dtype == dtype
            found |= dict(zip(batch.seeds.tolist(), rows[batch.seed_index].detach().float(), strict=True))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("divided", ["edges", "nodes"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", LAYERS)
def test_outputs_are_those_of_one_process(name, dtype, divided):
    torch.manual_seed(0)
    state = Model(name).state_dict()
    whole = outputs(name, dtype, state)
    partition = hr.EdgePartition.grid(graph(), 2) if divided == "edges" else hr.Partition.hash(NUM_NODES, 2)
    shares = run_ranks(2, lambda comm: outputs(name, dtype, state, comm, partition))
    together = {seed: row for share in shares for seed, row in share.items()}
    assert together.keys() == whole.keys()
    for seed, row in together.items():
        torch.testing.assert_close(row, whole[seed], rtol=2e-2, atol=2e-2)
