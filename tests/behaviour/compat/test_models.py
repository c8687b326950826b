"""What a model makes of a batch: the whole graph's outputs (peers.md, part A, section 5, 8 to 10)."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.nn import GATConv, GCNConv, GINConv, GraphConv, GraphSAGE, SAGEConv
from torch_geometric.transforms import GCNNorm
from torch_geometric.utils import trim_to_layer

from headrace.pyg import NeighborLoader

WEIGHTED = {"gcn": lambda a, b: GCNConv(a, b, normalize=False), "graph": GraphConv}
PLAIN = {
    "sage": SAGEConv,
    "gat": lambda a, b: GATConv(a, b, heads=2, concat=False, add_self_loops=False),
    "gin": lambda a, b: GINConv(torch.nn.Linear(a, b)),
}


class Model(torch.nn.Module):
    def __init__(self, layer, weighted):
        super().__init__()
        torch.manual_seed(0)
        self.convs = torch.nn.ModuleList([layer(3, 8), layer(8, 5)])
        self.weighted = weighted

    def forward(self, x, edge_index, weight):
        for conv in self.convs:
            x = conv(x, edge_index, weight).relu() if self.weighted else conv(x, edge_index).relu()
        return x


@pytest.mark.parametrize("subgraph_type", ["directional", "bidirectional", "induced"])
@pytest.mark.parametrize("name", [*WEIGHTED, *PLAIN])
def test_peers_08_full_fanouts_give_the_whole_graphs_output(undirected, name, subgraph_type):
    graph = GCNNorm()(undirected) if name == "gcn" else undirected
    model = Model({**WEIGHTED, **PLAIN}[name], name in WEIGHTED).eval()
    with torch.no_grad():
        whole = model(graph.x, graph.edge_index, graph.edge_weight)
        for batch in NeighborLoader(graph, [-1, -1], batch_size=40, shuffle=True, subgraph_type=subgraph_type, seed=3):
            out = model(batch.x, batch.edge_index, batch.edge_weight)[: batch.batch_size]
            assert torch.allclose(out, whole[batch.n_id[: batch.batch_size]], atol=1e-5)


def test_peers_08_repeated_seeds(undirected):
    model = Model(GraphConv, True).eval()
    nodes = torch.tensor([5, 9, 5, 5, 11])
    with torch.no_grad():
        whole = model(undirected.x, undirected.edge_index, undirected.edge_weight)
        (batch,) = NeighborLoader(undirected, [-1, -1], input_nodes=nodes, batch_size=5)
        assert torch.allclose(model(batch.x, batch.edge_index, batch.edge_weight)[:5], whole[nodes], atol=1e-5)


def test_peers_09_trimmed_layers(data):
    convs = torch.nn.ModuleList([SAGEConv(3, 4), SAGEConv(4, 4), SAGEConv(4, 4)])
    for nodes in (torch.arange(30), torch.tensor([3, 4, 3])):
        for batch in NeighborLoader(data, [3, 2, 2], input_nodes=nodes, batch_size=10, seed=1):
            x, trimmed, edge_index = batch.x, batch.x, batch.edge_index
            for layer, conv in enumerate(convs):
                x = conv(x, batch.edge_index)
                trimmed, edge_index, _ = trim_to_layer(
                    layer, batch.num_sampled_nodes, batch.num_sampled_edges, trimmed, edge_index
                )
                trimmed = conv(trimmed, edge_index)
            assert len(trimmed) < len(x)
            assert torch.allclose(x[: batch.batch_size], trimmed[: batch.batch_size], atol=1e-4)


@pytest.mark.parametrize("cache", [False, True])
def test_peers_10_layer_wise_inference_of_pyg(undirected, cache):
    model = GraphSAGE(3, 8, num_layers=3, out_channels=4).eval()
    loader = NeighborLoader(undirected, [-1], batch_size=50)
    with torch.no_grad():
        whole = model(undirected.x, undirected.edge_index)
        assert torch.allclose(model.inference(loader, cache=cache), whole, atol=1e-4)
    with pytest.raises(AssertionError):
        model.inference(NeighborLoader(undirected, [-1], input_nodes=torch.arange(9), batch_size=50))
