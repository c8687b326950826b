"""Models of two layers that say their layers, the graph that they run on, and what they give it as a whole."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import headrace as hr

NUM_NODES, WIDTH, HIDDEN, NUM_CLASSES = 24, 6, 8, 3


class Network(nn.Module):
    """Layers of hr.nn, a norm and dropout between them."""

    def __init__(self, first: nn.Module, second: nn.Module, width: int = HIDDEN) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.norm, self.dropout = nn.BatchNorm1d(width), nn.Dropout(0.5)
        with torch.no_grad():  # as after some training
            self.norm.running_mean.uniform_(-1, 1)
            self.norm.running_var.uniform_(0.5, 2)

    def between(self, h: Tensor) -> Tensor:
        return self.dropout(self.norm(h).relu())

    def inference_layers(self):
        return [lambda *given: self.between(self.first(*given)), self.second]

    def forward(self, h: Tensor, blocks: list[hr.Block], edge: list[tuple[Tensor, ...]]) -> Tensor:
        h = self.between(self.first(h, blocks[0], *edge[0]))
        return self.second(h, blocks[1], *edge[1])


class ByPyg(nn.Module):
    """A layer of PyG as one that is called with a block; GCNConv takes one set of rows, the others pairs."""

    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, h: Tensor, block: hr.Block, *edge: Tensor) -> Tensor:
        if type(self.conv).__name__ == "GCNConv":
            return self.conv(h, block.edge_index, *edge)[: block.num_dst]
        pair, edge_index, _ = block.to_pyg(h)
        return self.conv(pair, edge_index, *edge)


def network(kind: str) -> tuple[Network, list[str]]:
    """Return a model, and the edge features that its layers take."""
    library, name = kind.split()
    torch.manual_seed(3)
    if library == "hr":
        convs, wrap = hr.nn, lambda conv: conv
    else:
        import torch_geometric.nn as convs

        wrap = ByPyg
    if name == "GCN":
        options = {"normalize": False, "add_self_loops": False} if library == "pyg" else {"normalize": False}
        pair = [convs.GCNConv(*widths, **options) for widths in ((WIDTH, HIDDEN), (HIDDEN, NUM_CLASSES))]
    elif name == "SAGE":
        pair = [convs.SAGEConv(WIDTH, HIDDEN), convs.SAGEConv(HIDDEN, NUM_CLASSES)]
    elif name == "GAT":
        pair = [convs.GATConv(WIDTH, HIDDEN // 2, 2), convs.GATConv(HIDDEN, NUM_CLASSES)]
    elif name == "GAT+edges":
        pair = [convs.GATConv(WIDTH, HIDDEN // 2, 2, edge_dim=2), convs.GATConv(HIDDEN, NUM_CLASSES, edge_dim=2)]
    else:
        pair = [convs.GINConv(nn.Linear(WIDTH, HIDDEN)), convs.GINConv(nn.Linear(HIDDEN, NUM_CLASSES))]
    edge = {"GCN": ["norm"], "GAT+edges": ["attr"]}.get(name, [])
    return Network(*map(wrap, pair)).double(), edge


def graph_and_store(num_edges: int = 120, *, loops: bool = True) -> tuple[hr.Graph, hr.FeatureStore]:
    """Return a graph with a hub, repeated edges, and the last five nodes without any."""
    random = torch.Generator().manual_seed(1)
    ends = torch.randint(0, NUM_NODES - 5, (2, num_edges), generator=random)
    ends[1, : num_edges // 4] = 2
    graph = hr.Graph.from_coo(ends[0], ends[1], num_nodes=NUM_NODES)
    if loops:
        graph = graph.with_self_loops()
    x = torch.randn(NUM_NODES, WIDTH, generator=random, dtype=torch.float64)
    edge = {
        "norm": hr.gcn_norm(graph).double(),
        "attr": torch.randn(graph.num_edges, 2, generator=random, dtype=torch.float64),
    }
    return graph, hr.FeatureStore(node={"x": x}, edge=edge)


@torch.no_grad()
def on_whole_graph(model: nn.Module, graph: hr.Graph, store: hr.FeatureStore, edge: list[str]) -> Tensor:
    """Return the model's output on all nodes and edges at once."""
    plan = hr.GlobalBatch(graph).sample_in_subgraph(graph, num_hops=2).fetch_feature(store, node=["x"], edge=edge)
    with plan.loader() as loader:
        (batch,) = loader
    modes = [part.training for part in model.modules()]
    features = [tuple(batch.edge[name][hop] for name in edge) for hop in range(2)]
    out = model.eval()(batch.x, batch.blocks, features)[batch.seed_index]
    for part, training in zip(model.modules(), modes, strict=True):
        part.training = training
    rows = torch.empty_like(out)
    rows[batch.seeds] = out
    return rows
