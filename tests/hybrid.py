"""Models, strategies and partitions of edges for hybrid-parallel execution, and what a run of it gives."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import torch
import torch.nn.functional as F
from plain_graph import PlainGraph
from ranks import run_ranks
from torch import Tensor, nn

import headrace as hr

from plans import NUM_EDGES, NUM_NODES, graph

WIDTH, NUM_CLASSES, HEADS = 6, 4, 2
KINDS: dict[str, Callable[..., hr.EdgePartition]] = {
    "by_source": hr.EdgePartition.by_source,
    "by_destination": hr.EdgePartition.by_destination,
    "grid": hr.EdgePartition.grid,
}
CLUSTERS = hr.Partition.hash(NUM_NODES, 5)
STRATEGIES: dict[str, Callable[[], hr.Plan]] = {
    "global": lambda: hr.GlobalBatch(graph(), seed=1),
    "mini": lambda: hr.ItemSampler(NUM_NODES, batch_size=70, shuffle=True, seed=1),
    "cluster": lambda: hr.ClusterSampler(CLUSTERS, 2, seed=1),
    "cluster with boundary": lambda: hr.ClusterSampler(CLUSTERS, 2, boundary=1, seed=1),
}


@cache
def store() -> hr.FeatureStore:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(NUM_NODES, WIDTH, generator=generator, dtype=torch.float64)
    e = torch.rand(NUM_EDGES, 3, generator=generator, dtype=torch.float64)
    norm = hr.gcn_norm(graph()).double()
    return hr.FeatureStore(node={"x": x, "y": torch.arange(NUM_NODES) % NUM_CLASSES}, edge={"e": e, "norm": norm})


def plan(strategy: str, num_layers: int = 2) -> hr.Plan:
    sampled = STRATEGIES[strategy]().sample_in_subgraph(graph(), num_hops=num_layers)
    return sampled.fetch_feature(store(), node=["x"], edge=["e", "norm"], labels="y")


class Layer(nn.Module):
    """One layer of each kind: parameters, and messages through a graph."""

    def __init__(self, kind: str, num_in: int, num_out: int) -> None:
        super().__init__()
        self.kind = kind
        self.own, self.others = nn.Linear(num_in, num_out), nn.Linear(num_in, num_out * HEADS)
        self.scores = nn.Linear(num_in, HEADS), nn.Linear(num_in, HEADS), nn.Linear(3, HEADS)
        for number, one in enumerate(self.scores):
            self.add_module(f"scores_{number}", one)
        self.num_out = num_out

    def forward(self, h: Tensor, graph: hr.Block | PlainGraph, e: Tensor, norm: Tensor) -> Tensor:
        targets = h[: graph.num_dst]
        rows = self.others(h).view(-1, HEADS, self.num_out)
        if self.kind == "attention":
            source, destination, edge = self.scores
            out = graph.attend(rows, source(h), destination(targets), edge_scores=edge(e))
        elif self.kind == "weights":
            out = graph.aggregate(rows, weight=norm)
        elif self.kind == "max":
            out = graph.aggregate(rows.relu(), reduce="max")  # many of them are equal
        elif self.kind == "weighted mean":
            out = graph.aggregate(rows, reduce="mean", weight=self.scores[2](e).sigmoid())
        elif self.kind == "weighted min":
            out = graph.aggregate(rows, reduce="min", weight=self.scores[2](e))
        else:
            out = graph.aggregate(rows, reduce=self.kind)
        return self.own(targets) + out.sum(1)


class Model(nn.Module):
    def __init__(self, kind: str, num_layers: int = 2) -> None:
        super().__init__()
        widths = [WIDTH, *[5] * (num_layers - 1), NUM_CLASSES]
        self.layers = nn.ModuleList(Layer(kind, *pair) for pair in pairwise(widths))

    def forward(self, h: Tensor, batch: hr.MiniBatch, e: tuple[Tensor, ...]) -> Tensor:
        shared = bool(batch.exchanges)
        for number, (layer, block) in enumerate(zip(self.layers, batch.blocks, strict=True)):
            h = batch.exchange(number, h) if number else h
            h = layer(h, block if shared else PlainGraph(block), e[number], batch.edge["norm"][number])
            h = h.tanh() if number < len(self.layers) - 1 else h
        return batch.exchange(len(self.layers), h)


def model(kind: str, num_layers: int = 2) -> Model:
    torch.manual_seed(0)
    return Model(kind, num_layers).double()


def one_batch(network: Model, batch: hr.MiniBatch, comm: hr.Comm | None) -> dict[str, Tensor]:
    """What a step computes: [num_nodes or num_edges, ...] tables for what is known of nodes and edges here."""
    network.zero_grad()
    x = batch.x.clone().requires_grad_()
    e = tuple(one.clone().requires_grad_() for one in batch.edge["e"])
    out = network(x, batch, e)[batch.seed_index]
    loss = F.cross_entropy(out, batch.y, reduction="sum") / batch.num_global_seeds
    loss.backward()
    hr.sum_gradients(network, comm)
    of_edges = torch.zeros(len(e), NUM_EDGES, 3, dtype=x.dtype)
    for number, (one, block) in enumerate(zip(e, batch.blocks, strict=True)):
        if one.grad is not None:
            of_edges[number].index_add_(0, block.edge_ids, one.grad)
    return {
        "loss": loss.detach(),
        "out": torch.zeros(NUM_NODES, NUM_CLASSES, dtype=x.dtype).index_add(0, batch.seeds, out.detach()),
        "gradient of x": torch.zeros(NUM_NODES, WIDTH, dtype=x.dtype).index_add(0, batch.n_id, x.grad),
        "gradient of e": of_edges,
        "parameters": torch.cat(
            [(torch.zeros_like(one) if one.grad is None else one.grad).flatten() for one in network.parameters()]
        ),
    }


def run(steps: hr.Plan, network: Model, comm: hr.Comm | None = None, **options: object) -> list[dict[str, Tensor]]:
    with steps.loader(comm=comm, cooperative=comm is not None, **options) as loader:
        return [one_batch(network, batch, comm) for batch in loader]


def assert_as_one_process(steps: hr.Plan, kind: str, partition: hr.EdgePartition, num_layers: int = 2) -> None:
    """Outputs, loss and every gradient are those of one process, to 1e-9 in float64."""
    network = model(kind, num_layers)
    alone = run(steps, network)
    shares = run_ranks(partition.num_parts, lambda comm: run(steps, copy.deepcopy(network), comm, partition=partition))
    for expected, *mine in zip(alone, *shares, strict=True):
        for name, table in expected.items():
            if name == "parameters":
                found = mine[0][name]
                assert all(torch.equal(one[name], found) for one in mine)
            else:
                found = sum(one[name] for one in mine)
            torch.testing.assert_close(
                found, table, rtol=1e-9, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}"
            )
