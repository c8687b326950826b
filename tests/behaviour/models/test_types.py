"""Models over whole neighbourhoods of graphs with types, which compute what they compute on the whole graph."""

from __future__ import annotations

import pytest
import torch
from ranks import partition, run_ranks
from torch import nn
from torch_geometric.nn import HeteroConv, RGCNConv, SAGEConv

import headrace as hr

from plans import NODE_TYPES, NUM_NODES, RELATIONS, typed_graph


def whole() -> tuple[torch.Tensor, torch.Tensor]:
    """The edges in input order, and the number of the type of each."""
    graph = typed_graph()
    made = torch.empty(2, graph.num_edges, dtype=torch.int64)
    destinations = torch.arange(graph.num_nodes).repeat_interleave(graph.in_degrees())
    made[:, graph.edge_ids.long()] = torch.stack([graph.indices.long(), destinations])
    return made, graph.edge_types.type_of(torch.arange(graph.num_edges))


def plan(store: hr.FeatureStore, **features: object) -> hr.Plan:
    items = hr.ItemSampler({"a": torch.arange(0, 120, 3)}, batch_size=9, shuffle=True, seed=5)
    return items.sample_in_subgraph(typed_graph(), num_hops=2).fetch_feature(store, **features)


def rgcn(width: int) -> nn.ModuleList:
    torch.manual_seed(0)
    return nn.ModuleList(RGCNConv(width, width, len(RELATIONS)) for _ in range(2)).double()


def test_peers_08_rgcn_on_full_neighbourhoods_equals_the_whole_graph():
    x = torch.randn(NUM_NODES, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    layers = rgcn(6)
    edge_index, edge_type = whole()
    expected = layers[1](layers[0](x, edge_index, edge_type).relu(), edge_index, edge_type)
    for batch in plan(hr.FeatureStore(node={"x": x}), node=["x"]).loader():
        h = batch.x
        for i, (layer, block) in enumerate(zip(layers, batch.blocks, strict=True)):
            h = layer((h, h[: block.num_dst]), block.edge_index, block.edge_types)
            h = h.relu() if i == 0 else h
        assert torch.allclose(h[batch.seed_index], expected[batch.seeds], atol=1e-9)


@pytest.mark.filterwarnings("ignore:There exist node types")
@pytest.mark.parametrize("expand", ["all", "new"])
def test_peers_08_hetero_sage_on_full_neighbourhoods_equals_the_whole_graph(expand):
    generator = torch.Generator().manual_seed(2)
    widths = {"a": 5, "b": 3, "lonely": 2}
    tables = {
        name: torch.randn(size, widths[name], dtype=torch.float64, generator=generator)
        for name, size in NODE_TYPES.items()
    }
    torch.manual_seed(0)
    first = HeteroConv({one: SAGEConv((widths[one[0]], widths[one[2]]), 4) for one in RELATIONS}).double()
    last = HeteroConv({one: SAGEConv((4, 4), 4) for one in RELATIONS if one[0] != "lonely"}).double()
    edge_index, edge_type = whole()
    starts = {name: typed_graph().node_types.id_range(name).start for name in NODE_TYPES}
    edges = {
        one: edge_index[:, edge_type == number] - torch.tensor([[starts[one[0]]], [starts[one[2]]]])
        for number, one in enumerate(RELATIONS)
    }

    def forward(x, edges):
        return last({name: h.relu() for name, h in first(x, edges).items()}, edges)

    expected = forward(tables, edges)["a"]
    store = hr.FeatureStore(node={name: {"x": x} for name, x in tables.items()})
    items = hr.ItemSampler({"a": torch.arange(0, 120, 3)}, batch_size=9, seed=5)
    sampled = items.sample_in_subgraph(typed_graph(), num_hops=2, expand=expand)
    for data in sampled.fetch_feature(store, node={name: ["x"] for name in NODE_TYPES}).to_pyg().loader():
        out = forward(data.x_dict, data.edge_index_dict)["a"][: data["a"].batch_size]
        assert torch.allclose(out, expected[data["a"].n_id[: data["a"].batch_size]], atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize("sharded", [False, True])
def test_ranks_together_make_the_batches_of_one(world_size, sharded):
    """Edges of all ranks are those of one process, and features of types and outputs of models lie at their nodes."""
    x = torch.randn(NUM_NODES, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    of_b = torch.randn(NODE_TYPES["b"], 3, generator=torch.Generator().manual_seed(3))
    store = hr.FeatureStore(node={"x": x, "b": {"z": of_b}})
    layers = rgcn(6)
    one = list(plan(store, node=["x"]).loader())
    edge_index, edge_type = whole()
    expected = layers[1](layers[0](x, edge_index, edge_type).relu(), edge_index, edge_type)
    owners = partition("hash", world_size)

    def work(comm):
        graph = typed_graph().shard(owners, comm.rank) if sharded else typed_graph()
        items = hr.ItemSampler({"a": torch.arange(0, 120, 3)}, batch_size=9, shuffle=True, seed=5)
        sampled = items.sample_in_subgraph(graph, num_hops=2).fetch_feature(store, node=["x", ("b", "z")])
        found = []
        with sampled.loader(cooperative=True, comm=comm, partition=owners) as loader:
            for batch in loader:
                assert torch.equal(batch.node["b", "z"], of_b[batch.types.within("b")])
                h = batch.x
                for i, (layer, block) in enumerate(zip(layers, batch.blocks, strict=True)):
                    h = batch.exchange(i, h) if i else h
                    h = layer((h, h[: block.num_dst]), block.edge_index, block.edge_types)
                    h = h.relu() if i == 0 else h
                out = batch.exchange(2, h)[batch.seed_index]
                assert torch.allclose(out, expected[batch.seeds], atol=1e-9)
                for block in batch.blocks:
                    assert sum(block.relation(name).num_edges for name in RELATIONS) == block.num_edges
                found.append([block.edge_ids for block in batch.blocks])
        return found

    shares = run_ranks(world_size, work)
    for index, batch in enumerate(one):
        for layer, block in enumerate(batch.blocks):
            together = torch.cat([share[index][layer] for share in shares])
            assert torch.equal(together.sort().values, block.edge_ids.sort().values)


def test_owners_sample_for_others():
    """A graph in shards without cooperation: each rank has the batches of its share, bit for bit."""
    owners = partition("hash", 2)
    x = torch.randn(NODE_TYPES["b"], 3, generator=torch.Generator().manual_seed(3))
    store = hr.FeatureStore(node={"b": {"z": x}})

    def batches(graph, **options):
        items = hr.ItemSampler({"a": torch.arange(0, 120, 3)}, batch_size=9, shuffle=True, seed=5, partition=owners)
        sampled = items.sample_neighbor(graph, {"likes": [3, 2], "default": [2, 2]})
        with sampled.fetch_feature(store, node={"b": ["z"]}).loader(**options) as loader:
            return [batch.digest() for batch in loader]

    shares = run_ranks(2, lambda comm: batches(typed_graph().shard(owners, comm.rank), comm=comm))
    assert shares == [batches(typed_graph(), rank=rank, world_size=2) for rank in range(2)]
