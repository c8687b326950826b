"""Training on a whole graph by one process and by ranks that hold shards of it, and what must be equal then."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache

import torch
import torch.nn.functional as F
from ranks import partition, run_ranks
from torch import Tensor, nn

import headrace as hr

from plans import NUM_NODES, graph

WIDTH, NUM_CLASSES, NUM_TYPES = 6, 5, 4
TOLERANCE = 1e-9

#: Uneven parts among them: "table" has one that owns nothing, "first" one that owns all but a node.
PARTITIONS = ("hash", "range", "table", "first")


@cache
def owners(kind: str, num_parts: int) -> hr.Partition:
    if kind == "first":
        return hr.Partition.range_of([NUM_NODES - (num_parts > 1), *[1, *[0] * num_parts][: num_parts - 1]])
    return partition(kind, num_parts)


@cache
def features(num_rows: int, *shape: int, seed: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num_rows, *shape, generator=generator, dtype=torch.float64)


@cache
def edge_types() -> Tensor:
    return torch.randint(NUM_TYPES, (graph().num_edges,), generator=torch.Generator().manual_seed(4))


@cache
def edge_index() -> Tensor:
    """What PyG takes, edges in the order of their ids."""
    whole = graph()
    ends = torch.empty(2, whole.num_edges, dtype=torch.int64)
    ends[:, whole.edge_ids] = torch.stack(
        [whole.indices.long(), torch.arange(NUM_NODES).repeat_interleave(whole.in_degrees())]
    )
    return ends


def labels() -> Tensor:
    return torch.arange(NUM_NODES) % NUM_CLASSES


def labelled() -> Tensor:
    """Nodes with labels: none among the last, which a range partition gives to the last ranks."""
    return torch.arange(NUM_NODES) % 3 == torch.arange(NUM_NODES) // 100


#: A model, rows of nodes and of edges, and a graph, to outputs.
Run = Callable[[nn.Module, Tensor, "Tensor | None", object], Tensor]


def train(
    model: nn.Module,
    place: object,
    run: Run,
    x: Tensor,
    edge: Tensor | None,
    y: Tensor,
    mask: Tensor,
    *,
    num_labelled: float,
    steps: int = 1,
    comm: hr.Comm | None = None,
) -> dict:
    """Take some steps; return outputs, loss and gradients of the first one, and the parameters at the end."""
    inputs = [one for one in (x, edge) if one is not None and one.is_floating_point()]
    for one in inputs:
        one.requires_grad_()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    seen: dict = {}
    for step in range(steps):
        optimizer.zero_grad()
        out = run(model, x, edge, place)
        loss = F.cross_entropy(out[mask], y[mask], reduction="sum") / num_labelled
        loss.backward()
        if comm is not None:
            hr.sum_gradients(model, comm)
        if step == 0:
            seen = {"out": out.detach(), "loss": loss.detach(), "inputs": [one.grad.clone() for one in inputs]}
            used = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
            seen["gradients"] = {name: one.clone() for name, one in used.items()}
        optimizer.step()
    seen["parameters"] = {name: one.detach().clone() for name, one in model.named_parameters()}
    return seen


def assert_equal_training(
    model: nn.Module,
    run: Run,
    world_size: int,
    *,
    edge: Tensor | None = None,
    kind: str = "hash",
    steps: int = 1,
    alone: object = None,
    check_edges: bool = True,
    of: hr.Graph | None = None,
    **options: object,
) -> list[hr.sar.ShardedGraph]:
    """Compare with one process, which runs the model on `alone` (by default a graph of one shard).

    `of` is the graph, by default that of plans; another one has as many nodes.
    """
    of = graph() if of is None else of

    def fresh(values: Tensor | None) -> Tensor | None:
        return None if values is None else values.clone()

    def share(comm: hr.Comm | None, place: object) -> dict:
        if not isinstance(place, hr.sar.ShardedGraph):
            own, rows, edges = copy.deepcopy(model), fresh, fresh
        else:
            own, rows, edges = hr.sar.wrap(copy.deepcopy(model), place), place.rows, place.edge_rows
        x, y, mask = rows(features(NUM_NODES, WIDTH)), rows(labels()), rows(labelled())
        of_edges = None if edge is None else edges(edge)
        count = int(labelled().sum()) if comm is None else place.total(int(mask.sum()))
        return train(own, place, run, x, of_edges, y, mask, num_labelled=count, steps=steps, comm=comm)

    def work(comm: hr.Comm) -> tuple[hr.sar.ShardedGraph, dict]:
        place = hr.sar.ShardedGraph(of, owners(kind, world_size), comm, **options)
        return place, share(comm, place)

    whole = hr.sar.ShardedGraph(of) if alone is None else alone
    expected = share(None, whole)
    order = whole.edge_ids.argsort() if alone is None else torch.arange(of.num_edges)
    shares = run_ranks(world_size, work)
    close = {"rtol": TOLERANCE, "atol": TOLERANCE}
    torch.testing.assert_close(sum(seen["loss"] for _, seen in shares), expected["loss"], **close)
    for place, seen in shares:
        torch.testing.assert_close(seen["out"], expected["out"][place.owned], **close)
        torch.testing.assert_close(seen["inputs"][0], expected["inputs"][0][place.owned], **close)
        if len(seen["inputs"]) > 1 and check_edges:
            torch.testing.assert_close(seen["inputs"][1], expected["inputs"][1][order][place.edge_ids], **close)
        for name, slack in (("gradients", 1), ("parameters", 100)):
            assert seen[name].keys() == expected[name].keys()
            for key, value in expected[name].items():
                torch.testing.assert_close(seen[name][key], value, rtol=slack * TOLERANCE, atol=slack * TOLERANCE)
        assert place.counts.live_rows == 0
    return [place for place, _ in shares]
