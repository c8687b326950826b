"""Calls that several ranks refuse are refused on one process, too: a program that runs on one runs on several."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch_geometric.nn as pyg
from ranks import run_ranks
from torch import Tensor, nn

import headrace as hr

from plans import graph

WIDTH = 4


class Net(nn.Module):
    def __init__(self, call) -> None:
        super().__init__()
        self.convs = nn.ModuleList(pyg.SAGEConv(WIDTH, WIDTH) for _ in range(2))
        self.call = call

    def forward(self, h: Tensor, blocks) -> Tensor:
        for conv, block in zip(self.convs, blocks, strict=True):
            h = self.call(conv, h, block)
        return h


class AnyRows(nn.Module):
    """A layer that takes rows in any form."""

    def forward(self, rows, num_dst: int) -> Tensor:
        return (next(iter(rows.values())) if isinstance(rows, dict) else rows.reshape(-1, WIDTH))[:num_dst]


def with_any_rows(form):
    def make() -> tuple[nn.Module, dict[str, object]]:
        model = Net(lambda conv, h, block: conv(form(h, block), block.num_dst))
        model.convs = nn.ModuleList([AnyRows(), AnyRows()])
        return model, {}

    return make


def pair(conv, h, block):
    return conv((h, h[: block.num_dst]), block.edge_index)


def prepared(conv, h, block):
    return conv(*block.to_pyg(h))


def named(*numbers: int):
    def make() -> tuple[nn.Module, dict[str, object]]:
        model = Net(pair)
        return model, {"layers": [model.convs[number] for number in numbers]}

    return make


class Half(Net):
    def forward(self, h: Tensor, blocks) -> Tensor:
        return super().forward(h, blocks)[:1]


REFUSED = {
    "no layers": (named(), "the batch has 2 blocks, the model 0 layers"),
    "a layer left out": (named(1), "the batch has 2 blocks, the model 1 layers"),
    "rows by name": (with_any_rows(lambda h, block: {"a": h}), "rows of layer 0 in one tensor"),
    "rows in another form": (with_any_rows(lambda h, block: h.reshape(1, -1)), "no argument of layer 1 has a row"),
    "some rows of the last layer": (lambda: (Half(pair), {}), "a row for each of the"),
}
TAKEN = {
    "pairs": lambda: (Net(pair), {}),
    "what to_pyg returns": lambda: (Net(prepared), {}),
    "all layers by name": named(0, 1),
}


def run(make, size: int | None) -> None:
    plan = hr.ItemSampler(60, batch_size=30, seed=0).sample_neighbor(graph(), [3, 3])
    plan = plan.fetch_feature(hr.FeatureStore(node={"x": torch.randn(graph().num_nodes, WIDTH)}), node=["x"])

    def work(options: dict[str, object]) -> None:
        model, names = make()
        for parameter in model.parameters():  # alike on all ranks
            nn.init.constant_(parameter, 0.1)
        wrapped = hr.cooperative(model, **names)
        with plan.loader(**options) as loader:
            for batch in loader:
                assert len(wrapped(batch, batch.x, batch.blocks)[batch.seed_index]) == len(batch.seeds)

    if size is None:
        work({})
    else:
        run_ranks(size, lambda comm: work({"cooperative": True, "comm": comm}), timeout=20.0)


@pytest.mark.parametrize("size", [None, 1, 2])
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_on_any_number_of_processes(name, size):
    make, words = REFUSED[name]
    with pytest.raises(hr.InputError, match=words):
        run(make, size)


@pytest.mark.parametrize("size", [None, 1, 2])
@pytest.mark.parametrize("name", TAKEN)
def test_what_is_taken_on_any_number_of_processes(name, size):
    run(TAKEN[name], size)


def with_gradients(batch: hr.MiniBatch) -> hr.MiniBatch:
    batch.x.requires_grad_()
    return batch


def by_itself(layer, batch: hr.MiniBatch) -> Tensor:
    return layer(batch.x, batch.blocks[0])


def exchanged(layer, batch: hr.MiniBatch) -> Tensor:
    return batch.exchange(1, by_itself(layer, batch))


def over_edges(layer, batch: hr.MiniBatch) -> Tensor:
    del layer
    return batch.x[batch.blocks[0].edge_index[0]]


def attending(layer, batch: hr.MiniBatch) -> Tensor:
    del layer
    block, x = batch.blocks[0], batch.x.view(-1, 1, WIDTH)
    return block.attend(x, x.sum(-1), x[: block.num_dst].sum(-1))


@pytest.mark.parametrize("call", [by_itself, attending, over_edges, exchanged, lambda layer, batch: batch.x])
def test_a_model_that_is_not_wrapped_is_told(call):
    """By a warning when the next batch is handed out; one that exchanges rows by itself, or passes none, is not."""
    plan = hr.ItemSampler(60, batch_size=30, seed=0).sample_neighbor(graph(), [3])
    plan = plan.fetch_feature(hr.FeatureStore(node={"x": torch.randn(graph().num_nodes, WIDTH)}), node=["x"])
    plan = plan.transform(with_gradients)

    def work(comm: hr.Comm) -> None:
        layer = hr.nn.SAGEConv(WIDTH, WIDTH)
        with plan.loader(cooperative=True, comm=comm) as loader:
            for batch in loader:
                call(layer, batch).sum().backward()

    warned = call in (by_itself, attending, over_edges)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run_ranks(2, work)
    said = [one for one in found if "without all exchanges of rows" in str(one.message)]
    assert len(said) == (2 if warned else 0)
