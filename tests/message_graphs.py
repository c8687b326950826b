"""One model of two layers on every kind of message graph: what each kind computes, in the places of one process."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from ranks import partition, run_ranks
from sharded import edge_index, edge_types, features
from torch import Tensor, nn

import headrace as hr

from plans import NUM_EDGES, NUM_NODES, graph

WIDTH, NUM_SEEDS = 6, 150

#: Values of edges, [num_edges, ...], in the order of their ids; types have no gradients.
EDGES: dict[str, Callable[[], Tensor]] = {
    "weight": lambda: features(NUM_EDGES, seed=5).abs() + 0.1,
    "attr": lambda: features(NUM_EDGES, 3, seed=6),
    "type": edge_types,
}

CUTS = {
    "by source": hr.EdgePartition.by_source,
    "by destination": hr.EdgePartition.by_destination,
    "grid": hr.EdgePartition.grid,
}

#: A block of one process, blocks shared by nodes, by edges in three cuts, and shards in rounds.
KINDS = ("block", "nodes", *CUTS, "rounds")


@dataclass(frozen=True)
class Case:
    """A layer.

    Parameters
    ----------
    make
        Returns a layer of WIDTH to WIDTH columns.
    edges
        The values of edges that it takes behind the graph.
    call
        "pair", ``conv((h, h[:num_dst]), edge_index)``; "rows", ``conv(h, edge_index)``; "block", ``conv(h, block)``.
    oracle
        For a layer of hr.nn that of PyG, whose parameters it has.
    """

    make: Callable[[], nn.Module]
    edges: tuple[str, ...] = ()
    call: str = "pair"
    oracle: Case | None = None

    @property
    def expected(self) -> Case:
        """What computes the same in one process."""
        return self.oracle or self


class Net(nn.Module):
    """Two layers of a case, with an activation between them."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([case.make(), case.make()])
        self.call = case.call
        if case.oracle is not None:
            self.load_state_dict(Net(case.oracle).state_dict())

    def forward(self, h: Tensor, graphs: Sequence, values: Sequence[Sequence[Tensor]]) -> Tensor:
        for number, (conv, place) in enumerate(zip(self.layers, graphs, strict=True)):
            is_block = hasattr(place, "num_dst")
            edges = place.edge_index if is_block and self.call != "block" and not _in_rounds(place) else place
            pair = self.call == "pair" and is_block and not _in_rounds(place)
            h = conv((h, h[: place.num_dst]) if pair else h, edges, *values[number])
            h = h[: place.num_dst] if is_block else h
            h = h.tanh() if number == 0 else h
        return h


def _in_rounds(place: object) -> bool:
    return isinstance(place, hr.sar.ShardedGraph)


@cache
def rows() -> Tensor:
    return features(NUM_NODES, WIDTH)


def plan(case: Case) -> hr.Plan:
    store = hr.FeatureStore(node={"x": rows()}, edge={name: EDGES[name]() for name in case.edges})
    steps = hr.ItemSampler(NUM_SEEDS, batch_size=NUM_SEEDS, seed=1).sample_in_subgraph(graph(), num_hops=2)
    return steps.fetch_feature(store, node=["x"], edge=list(case.edges))


def outcome(
    net: nn.Module,
    x: Tensor,
    values: dict[str, list[Tensor]],
    run: Callable[[Tensor, list[list[Tensor]]], Tensor],
    places: dict[str, list[Tensor] | Tensor],
    comm: hr.Comm | None,
) -> dict[str, Tensor]:
    """Return the rows of nodes that are seeds, and all gradients, as tables of the whole graph."""
    x = x.clone().requires_grad_()
    values = {
        name: [one.clone().requires_grad_(one.is_floating_point()) for one in layers] for name, layers in values.items()
    }
    meetings = 0 if comm is None else comm.num_collectives
    out = run(x, [list(layer) for layer in zip(*values.values(), strict=True)] or [[], []])
    forward = 0 if comm is None else comm.num_collectives - meetings
    nodes = places["seeds"]
    (out * factors()[nodes]).sum().backward()
    both = 0 if comm is None else comm.num_collectives - meetings
    hr.sum_gradients(net, comm)
    tables = {
        "rows": torch.zeros(NUM_NODES, out.shape[1], dtype=out.dtype).index_add(0, nodes, out.detach()),
        "x": torch.zeros_like(rows()).index_add(0, places["x"], x.grad),
    }
    for name, layers in values.items():
        table = torch.zeros(NUM_EDGES, *layers[0].shape[1:], dtype=torch.float64)
        for one, ids in zip(layers, places["edges"], strict=True):
            if one.grad is not None:
                table.index_add_(0, ids, one.grad)
        tables[name] = table
    # In one vector: a gradient that is nothing but rounding, as that of TransformerConv's lin_key.bias, has no scale.
    parameters = [torch.zeros_like(one) if one.grad is None else one.grad for one in net.parameters()]
    tables["parameters"] = torch.cat([one.flatten() for one in parameters])
    return {**tables, "meetings": torch.tensor([forward, both - forward])}


@cache
def factors() -> Tensor:
    """What outputs are multiplied by, so that no gradient is that of a sum alone."""
    return features(NUM_NODES, WIDTH, seed=11)


def of_batch(net: nn.Module, batch: hr.MiniBatch, names: Sequence[str], comm: hr.Comm | None) -> dict[str, Tensor]:
    """Return what a model makes of a batch, on one process or on ranks that share it."""
    values = {name: list(batch.edge[name]) for name in names}
    places = {
        "x": batch.n_id,
        "seeds": batch.seeds,
        "edges": [block.edge_ids for block in batch.blocks],
    }

    def run(x: Tensor, layers: list[list[Tensor]]) -> Tensor:
        out = net(x, batch.blocks, layers) if comm is None else net(batch, x, batch.blocks, layers)
        return out[batch.seed_index]

    return outcome(net, batch.x, values, run, places, comm)


def of_shards(net: nn.Module, place: hr.sar.ShardedGraph, names: Sequence[str], comm: hr.Comm) -> dict[str, Tensor]:
    """Return what a model makes of shards in rounds: the rows of the seeds of the batch alone count."""
    own = torch.isin(place.owned, torch.arange(NUM_SEEDS))
    values = {name: [place.edge_rows(EDGES[name]())] * 2 for name in names}
    places = {"x": place.owned, "seeds": place.owned[own], "edges": [place.edge_ids] * 2}
    return outcome(net, place.rows(rows()), values, lambda x, layers: net(x, [place, place], layers)[own], places, comm)


def of_pyg(case: Case) -> dict[str, Tensor]:
    """Return what the model makes of the whole graph, as PyG has it."""
    values = {name: [EDGES[name]()] * 2 for name in case.edges}
    seeds, net = torch.arange(NUM_SEEDS), Net(case).double()
    places = {"x": torch.arange(NUM_NODES), "seeds": seeds, "edges": [torch.arange(NUM_EDGES)] * 2}
    edges = edge_index()
    return outcome(net, rows(), values, lambda x, layers: net(x, [edges, edges], layers)[:NUM_SEEDS], places, None)


def on_ranks(case: Case, kind: str, world_size: int) -> list[dict[str, Tensor]]:
    """Return what each rank computes."""
    steps, model = plan(case), Net(case).double()

    def work(comm: hr.Comm) -> dict[str, Tensor]:
        net = copy.deepcopy(model)
        if kind == "rounds":
            place = hr.sar.ShardedGraph(graph(), partition("hash", world_size), comm)
            return of_shards(hr.sar.wrap(net, place), place, case.edges, comm)
        net = hr.cooperative(net, list(net.layers))
        cut = CUTS[kind](graph(), world_size) if kind in CUTS else None
        with steps.loader(comm=comm, cooperative=True, partition=cut) as loader:
            [batch] = loader
            return of_batch(net, batch, case.edges, comm)

    if kind == "block":
        with steps.loader() as loader:
            return [of_batch(model, next(iter(loader)), case.edges, None)]
    return run_ranks(world_size, work)


def without_loops(tables: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    """Return the tables with nothing for loops among the values of edges of a name."""
    source, destination = edge_index()
    loops = (source == destination).nonzero()[:, 0]
    return {**tables, name: tables[name].index_fill(0, loops, 0)}


def differences(expected: dict[str, Tensor], shares: Sequence[dict[str, Tensor]]) -> dict[str, float]:
    """Return by name how far ranks are from one process, in lengths of the vector that is expected."""
    own = shares[0]["parameters"]  # summed over ranks by then
    assert all(torch.equal(one["parameters"], own) for one in shares)
    tables = {name: sum(one[name] for one in shares) for name in expected if name != "meetings"} | {"parameters": own}
    return {
        name: float((table - expected[name]).norm() / expected[name].norm().clamp(min=1e-30))
        for name, table in tables.items()
    }
