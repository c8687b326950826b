"""`headrace.pyg.trim_to_layer` is PyG's, and with the layer it gives pairs to those that take them."""

from __future__ import annotations

import pytest
import torch
from torch_geometric import EdgeIndex, utils
from torch_geometric.nn import GATConv, GCNConv, GINConv, HeteroConv, RGCNConv, SAGEConv

import headrace as hr
from headrace.pyg import NeighborLoader, trim_to_layer

CITES, WRITES = ("paper", "cites", "paper"), ("author", "writes", "paper")
LAYERS = {
    "sage": SAGEConv,
    "gat": lambda a, b: GATConv(a, b, heads=2, concat=False, edge_dim=2),
    "gin": lambda a, b: GINConv(torch.nn.Linear(a, b)),
    "gcn": GCNConv,
}


@pytest.fixture
def batch(data):
    data.x = data.x / 100
    return next(iter(NeighborLoader(data, [3, 2, 2], input_nodes=torch.arange(20), batch_size=10, seed=1)))


def convs_of(name):
    torch.manual_seed(0)
    return torch.nn.ModuleList([LAYERS[name](a, b) for a, b in ((3, 8), (8, 8), (8, 4))])


@pytest.mark.parametrize("name", LAYERS)
def test_models_compute_for_seeds_what_they_do_behind_pygs(batch, name):
    convs = convs_of(name)
    per_hop = batch.num_sampled_nodes, batch.num_sampled_edges
    found = []
    for give in (None, convs):
        convs.zero_grad()
        x, edge_index, edge_attr = batch.x, batch.edge_index, batch.edge_attr
        for i, conv in enumerate(convs):
            wanted = utils.trim_to_layer(i, *per_hop, batch.x, batch.edge_index, batch.edge_attr)
            x, edge_index, edge_attr = trim_to_layer(
                i, *per_hop, x, edge_index, edge_attr, conv=None if give is None else conv
            )
            takes_pairs = give is not None and name != "gcn"
            assert isinstance(x, tuple) == takes_pairs
            if takes_pairs:
                assert len(x[1]) == sum(per_hop[0][: 3 - i])
            if i < 2:  # PyG's trims by one hop a call
                assert torch.equal(edge_index, wanted[1])
                assert torch.equal(edge_attr, wanted[2])
            x = conv(x, edge_index, edge_attr) if name == "gat" else conv(x, edge_index)
        out = x[: batch.batch_size]
        out.square().sum().backward()
        found.append([out.detach(), *(one.grad.clone() for one in convs.parameters())])
    x, edge_index, edge_attr = batch.x, batch.edge_index, batch.edge_attr
    for i, conv in enumerate(convs):
        x, edge_index, edge_attr = utils.trim_to_layer(i, *per_hop, x, edge_index, edge_attr)
        x = conv(x, edge_index, edge_attr) if name == "gat" else conv(x, edge_index)
    assert torch.equal(found[0][0], x[: batch.batch_size])
    torch.testing.assert_close(found[1], found[0])


def test_layers_say_whether_they_take_pairs(batch):
    class Own(torch.nn.Module):
        def forward(self, x, edge_index):
            return x

    per_hop = batch.num_sampled_nodes, batch.num_sampled_edges
    for conv in (Own(), GCNConv(3, 3), None):
        assert isinstance(trim_to_layer(0, *per_hop, batch.x, batch.edge_index, conv=conv)[0], torch.Tensor)
    for conv in (RGCNConv(3, 3, 2), torch.compile(SAGEConv(3, 3), backend="eager")):
        assert isinstance(trim_to_layer(0, *per_hop, batch.x, batch.edge_index, conv=conv)[0], tuple)
    x, edge_index, _ = trim_to_layer(3, *per_hop, batch.x, batch.edge_index, conv=SAGEConv(3, 3))
    assert (len(x), edge_index.shape[1]) == (per_hop[0][0], 0), "behind the last hop: as PyG has it"
    given = EdgeIndex(batch.edge_index, sparse_size=(len(batch.x), len(batch.x)))
    x, edge_index, _ = trim_to_layer(1, *per_hop, batch.x, given, conv=SAGEConv(3, 3))
    assert edge_index.sparse_size() == (len(x), len(x))


def test_wrong_numbers_are_refused(batch):
    per_hop = batch.num_sampled_nodes, batch.num_sampled_edges
    with pytest.raises(hr.InputError, match="layer to be an integer of at least 0, got -1"):
        trim_to_layer(-1, *per_hop, batch.x, batch.edge_index)
    with pytest.raises(hr.InputError, match="expected x to have at least"):
        trim_to_layer(1, *per_hop, batch.x[:3], batch.edge_index)
    with pytest.raises(hr.InputError, match="expected edge_index to have at least"):
        trim_to_layer(1, *per_hop, batch.x, batch.edge_index[:, :3])
    with pytest.raises(hr.InputError, match="expected numbers of sampled nodes and edges by hop, got None"):
        trim_to_layer(1, None, None, batch.x, batch.edge_index)
    with pytest.raises(hr.InputError, match="layer to be an integer of at least 0, got '0'"):
        trim_to_layer("0", *per_hop, batch.x, batch.edge_index)
    for rows, edges in ((batch.x[:3], batch.edge_index), (batch.x, batch.edge_index[:, :3])):
        with pytest.raises(hr.InputError, match="to have at least"):
            trim_to_layer(0, *per_hop, rows, edges)
    with pytest.raises(hr.InputError, match="for the seeds and each of 4 hops, got 3"):
        trim_to_layer(1, *per_hop[::-1], batch.x, batch.edge_index)
    assert trim_to_layer(3, *per_hop, batch.x, batch.edge_index)[1].shape == (2, 0)
    with pytest.raises(hr.InputError, match="a layer of a batch of 3 hops, got layer 4"):
        trim_to_layer(4, *per_hop, batch.x, batch.edge_index)


@pytest.mark.filterwarnings("ignore:There exist node types")
def test_models_of_types_compute_for_seeds_what_they_do_behind_pygs(hetero):
    del hetero["venue"], hetero["venue", "prints", "paper"]
    for name in hetero.node_types:
        hetero[name].x = hetero[name].x / 100
    batch = next(iter(NeighborLoader(hetero, [3, 3], input_nodes="paper", batch_size=12, seed=1)))
    per_hop = batch.num_sampled_nodes_dict, batch.num_sampled_edges_dict
    torch.manual_seed(0)
    convs = [HeteroConv({name: SAGEConv((-1, -1), 8) for name in hetero.edge_types}) for _ in range(2)]
    outs = []
    for own in (False, True):
        xs, edges = batch.x_dict, batch.edge_index_dict
        for i, conv in enumerate(convs):
            trim = trim_to_layer if own else utils.trim_to_layer
            xs, edges, _ = trim(i, *per_hop, xs, edges, **({"conv": conv} if own else {}))
            if own:
                assert len(xs[WRITES][1]) == len(xs[CITES][1]) == sum(per_hop[0]["paper"][: 2 - i])
            xs = conv(xs, edges)
        outs.append(xs["paper"][: batch["paper"].batch_size])
    torch.testing.assert_close(outs[1], outs[0])
    mixed = HeteroConv({WRITES: SAGEConv((3, 2), 8), CITES: GCNConv(2, 8)})
    assert set(trim_to_layer(0, *per_hop, batch.x_dict, batch.edge_index_dict, conv=mixed)[0]) == {"paper", "author"}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(torch, "_dynamo"), reason="this torch has no compiler")
@pytest.mark.parametrize("name", ["sage", "gin", "gcn"])
def test_models_that_trim_are_one_graph(data, name):
    from torch._dynamo.testing import CompileCounterWithBackend

    convs = convs_of(name)
    plan = hr.ItemSampler(60, batch_size=25).sample_neighbor(hr.Graph.from_pyg(data), [3, 2, 2], expand="new")
    plan = plan.fetch_feature(hr.FeatureStore(node={"x": data.x}), node=["x"]).pad().to_pyg()

    def model(x, edge_index, *per_hop):
        for i, conv in enumerate(convs):
            x, edge_index, _ = trim_to_layer(i, *per_hop, x, edge_index, conv=conv)
            x = conv(x, edge_index)
        return x

    torch._dynamo.reset()
    counter = CompileCounterWithBackend("eager")
    compiled = torch.compile(model, backend=counter, fullgraph=True)
    for batch in plan.loader():
        given = batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges
        torch.testing.assert_close(compiled(*given), model(*given))
    assert counter.frame_count == 2  # the last batch is shorter
