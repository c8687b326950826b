"""Parts of models that torch.utils.checkpoint calls once more: they find the masks of the first call."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from ranks import run_processes, run_ranks
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from training import NUM_CLASSES, WIDTH, store

import headrace as hr

from plans import NUM_NODES, graph, items

REENTRANT = pytest.mark.parametrize("use_reentrant", [True, False])


class Network(nn.Module):
    """Layers, and behind each of them a part that can be computed anew; its dropout is used several times."""

    def __init__(self, layers: list[nn.Module], how: Any = None) -> None:
        super().__init__()
        self.layers, self.how, self.dropout = nn.ModuleList(layers), how, nn.Dropout(0.4)
        self.parts = nn.ModuleList(
            nn.Sequential(self.dropout, nn.Linear(WIDTH, WIDTH), nn.Tanh(), self.dropout) for _ in layers
        )

    def forward(self, x: Tensor, edges: Any) -> Tensor:
        for number, (layer, part) in enumerate(zip(self.layers, self.parts, strict=True)):
            x = layer(x, edges[number])
            x = part(x) if self.how is None else self.how(part, x)
        return x


def together(model: Network) -> nn.Module:
    return hr.cooperative(model, list(model.layers))


def gradients(model: nn.Module, *arguments: Any) -> list[Tensor]:
    model.zero_grad()
    model(*arguments).square().sum().backward()
    return [one.grad.clone() for one in model.parameters() if one.grad is not None]


def batch_of() -> hr.MiniBatch:
    plan = items(batch_size=40).sample_neighbor(graph(), [4, 3])
    return next(iter(plan.fetch_feature(store(torch.float64), node=["x"], labels="y").loader()))


def attention(**options: Any) -> list[nn.Module]:
    return [hr.nn.GATConv(WIDTH, WIDTH, dropout=0.3, **options) for _ in range(2)]


@REENTRANT
def test_a_cooperative_model_has_the_gradients_that_it_has_without(use_reentrant):
    torch.manual_seed(0)
    model, batch = Network(attention()).double(), batch_of()
    again = copy.deepcopy(model)
    again.how = partial(checkpoint, use_reentrant=use_reentrant)
    expected = gradients(together(model), batch, batch.x, batch.blocks)
    found = gradients(together(again), batch, batch.x, batch.blocks)
    assert all(map(torch.equal, found, expected))


def test_a_layer_of_one_process_can_be_computed_anew():
    torch.manual_seed(0)

    class Inside(Network):
        def forward(self, x: Tensor, blocks: Any) -> Tensor:
            for layer, block in zip(self.layers, blocks, strict=True):
                x = layer(x, block) if self.how is None else self.how(layer, x, block)
            return self.dropout(x)

    model, batch = Inside(attention()).double(), batch_of()
    again = copy.deepcopy(model)
    again.how = partial(checkpoint, use_reentrant=False)
    expected = gradients(together(model), batch, batch.x, batch.blocks)
    found = gradients(together(again), batch, batch.x, batch.blocks)
    assert all(map(torch.equal, found, expected))


def test_two_batches_may_be_under_way():
    torch.manual_seed(0)
    model, first, second = Network(attention()).double(), batch_of(), replace(batch_of(), index=1)
    again = copy.deepcopy(model)
    again.how = partial(checkpoint, use_reentrant=False)
    sums = []
    for one in map(together, (model, again)):
        outs = [one(batch, batch.x, batch.blocks) for batch in (first, second)]
        assert not torch.equal(*outs)
        sum(out.square().sum() for out in outs).backward()
        sums.append([one.grad for one in one.parameters()])
    assert all(map(torch.equal, *sums))


def saved_on_cpu(layer: nn.Module, *arguments: Any) -> Tensor:
    with torch.autograd.graph.save_on_cpu():
        return layer(*arguments)


def without_gradients(layer: nn.Module, *arguments: Any) -> Tensor:
    with torch.no_grad():
        return layer(*arguments)


@pytest.mark.parametrize(
    "how",
    [*(partial(checkpoint, use_reentrant=one) for one in (True, False)), saved_on_cpu, without_gradients],
    ids=["reentrant", "checkpoint", "save_on_cpu", "no_grad"],
)
def test_masks_of_attention_are_those_without(how):
    torch.manual_seed(0)
    layer, batch = attention()[0].double(), batch_of()
    x = batch.x.requires_grad_()
    results = []
    for call in (lambda layer, *arguments: layer(*arguments), how):
        torch.manual_seed(1)
        outs = [call(layer, x, batch.blocks[0]) for _ in range(2)]
        assert not torch.equal(*outs)
        if outs[0].requires_grad:
            layer.zero_grad()
            sum(outs).square().sum().backward()
        results.append([*outs, layer.lin.weight.grad.clone()])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@REENTRANT
def test_other_random_numbers_are_refused(use_reentrant):
    batch = batch_of()
    how = partial(checkpoint, use_reentrant=use_reentrant, preserve_rng_state=False)
    model = together(Network(attention(), how).double())
    out = model(batch, batch.x, batch.blocks)
    with pytest.raises(hr.InputError, match="preserve_rng_state=True"):
        out.sum().backward()


def test_layers_whose_input_comes_from_other_ranks_are_refused():
    plan = items(batch_size=40).sample_neighbor(graph(), [4, 3]).fetch_feature(store(torch.float64), node=["x"])

    class Inside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(hr.nn.SAGEConv(WIDTH, WIDTH) for _ in range(2))

        def forward(self, x: Tensor, blocks: Any) -> Tensor:
            for layer, block in zip(self.layers, blocks, strict=True):
                x = checkpoint(layer, x, block, use_reentrant=False)
            return x

    inside = Inside().double()

    def work(comm: hr.Comm) -> None:
        with plan.loader(comm=comm, cooperative=True) as loader:
            batch = next(iter(loader))
            out = hr.cooperative(copy.deepcopy(inside))(batch, batch.x, batch.blocks)
            with pytest.raises(hr.InputError, match="around what a model does between its layers"):
                out.sum().backward()

    run_ranks(2, work)


@pytest.mark.parametrize("between", [nn.BatchNorm1d, partial(nn.Linear, out_features=WIDTH)], ids=["norm", "linear"])
def test_ranks_compute_anew_what_stands_between_layers(between: Any):
    plan = items(batch_size=40).sample_neighbor(graph(), [4, 3]).fetch_feature(store(torch.float64), node=["x"])
    torch.manual_seed(0)
    layers = nn.ModuleList(hr.nn.SAGEConv(WIDTH, WIDTH) for _ in range(2)).double()
    part = between(WIDTH).double()

    class Between(nn.Module):
        def __init__(self, how: Any) -> None:
            super().__init__()
            self.layers, self.part, self.how = copy.deepcopy(layers), copy.deepcopy(part), how

        def forward(self, x: Tensor, blocks: Any) -> Tensor:
            x = self.layers[0](x, blocks[0])
            return self.layers[1](self.part(x) if self.how is None else self.how(self.part, x), blocks[1])

    def work(comm: hr.Comm) -> None:
        with plan.loader(comm=comm, cooperative=True) as loader:
            batch = next(iter(loader))
            both = [
                gradients(hr.cooperative(Between(how)), batch, batch.x, batch.blocks)
                for how in (None, partial(checkpoint, use_reentrant=False, preserve_rng_state=False))
            ]
            assert all(map(torch.equal, *both))

    run_ranks(2, work)


def over_shards(place: hr.sar.ShardedGraph, how: Any) -> list[Tensor]:
    """Return the gradients of a model over a graph in shards; its layers are computed anew as well."""
    import torch_geometric.nn as pyg

    torch.manual_seed(1)
    layers = [
        pyg.GATConv(WIDTH, WIDTH, dropout=0.3),
        hr.nn.GATConv(WIDTH, NUM_CLASSES + 1, dropout=0.3, add_self_loops=False),
    ]

    class Inside(Network):
        def forward(self, x: Tensor, place: Any) -> Tensor:
            for layer in self.layers:
                x = layer(self.dropout(x), place) if self.how is None else self.how(layer, self.dropout(x), place)
            return self.parts[0](x) if self.how is None else self.how(self.parts[0], x)

    model = hr.sar.wrap(Inside(layers, how).double(), place)
    x = place.rows(torch.randn(NUM_NODES, WIDTH, dtype=torch.float64)).requires_grad_()
    model(x, place).square().sum().backward()
    hr.sum_gradients(model, place.comm)
    return [x.grad, *(one.grad for one in model.parameters() if one.grad is not None)]


@REENTRANT
def test_a_model_over_a_graph_in_shards_has_the_gradients_that_it_has_without(use_reentrant):
    pytest.importorskip("torch_geometric")
    place = hr.sar.ShardedGraph(graph())
    expected = over_shards(place, None)
    found = over_shards(place, partial(checkpoint, use_reentrant=use_reentrant))
    assert all(map(torch.equal, found, expected))


SCRIPT = """
import json, sys, torch
from functools import partial
from torch.utils.checkpoint import checkpoint
import headrace as hr
from plans import NUM_NODES, graph
from behaviour.models.test_checkpoint import over_shards

rank, world_size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
place = hr.sar.ShardedGraph(graph(), hr.Partition.hash(NUM_NODES, world_size))
both = [over_shards(place, how) for how in (None, partial(checkpoint, use_reentrant=False))]
print(json.dumps(all(map(torch.equal, *both))), flush=True)
torch.distributed.destroy_process_group()
"""


@pytest.mark.thorough
def test_processes_compute_anew_together(tmp_path: Path):
    pytest.importorskip("torch_geometric")
    assert list(map(json.loads, run_processes(SCRIPT, 2, tmp_path / "meeting"))) == [True, True]
