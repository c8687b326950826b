"""Ranks that cooperate with models that differ are told, before anything is learned."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from ranks import run_ranks
from torch import nn

import headrace as hr

from plans import NUM_NODES, graph, items

pytestmark = pytest.mark.slow


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.layers = nn.ModuleList([hr.nn.SAGEConv(4, 4), hr.nn.SAGEConv(4, 2)])

    def forward(self, x, blocks):
        h = torch.relu(self.norm(self.layers[0](x, blocks[0])[: blocks[0].num_dst]))
        return self.layers[1](h, blocks[1])


def errors_of(change):
    """Run a batch on two ranks, of which the second changes its model, and return their errors."""
    torch.manual_seed(0)
    alike = Net()
    store = hr.FeatureStore(node={"x": torch.rand(NUM_NODES, 4)})
    plan = items().sample_neighbor(graph(), [3, 3]).fetch_feature(store, node=["x"])

    def work(comm):
        model, seed = copy.deepcopy(alike), 0
        if comm.rank == 1:
            seed = change(model) or 0
        together = hr.cooperative(model, seed=seed)
        with plan.loader(comm=comm, cooperative=True) as loader:
            batch = next(iter(loader))
            try:
                together(batch, batch.x, batch.blocks)
                together(batch, batch.x, batch.blocks)  # is compared once
            except hr.InputError as error:
                return str(error)

    return run_ranks(2, work)


def other_weights(model):
    with torch.no_grad():
        next(model.layers.parameters()).add_(1)


def other_estimates(model):
    model.norm.running_mean.add_(1)


def other_mode(model):
    model.eval()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (other_weights, "parameters"),
        (other_estimates, "buffers"),
        (other_mode, "modes"),
        (lambda model: 7, "seed of dropout"),
    ],
    ids=["parameters", "buffers", "modes", "seed"],
)
def test_models_that_differ_are_refused_on_all_ranks(change, what):
    for error in errors_of(change):
        assert f"got other {what} on rank 1 than on rank 0" in error


def test_models_that_are_alike_go_on():
    assert errors_of(lambda model: None) == [None, None]


def train(epochs, sums):
    """Train on two ranks, which add up gradients or not."""
    torch.manual_seed(0)
    alike = Net()
    store = hr.FeatureStore(node={"x": torch.rand(NUM_NODES, 4)})
    plan = items().sample_neighbor(graph(), [3, 3]).fetch_feature(store, node=["x"])

    def work(comm):
        together = hr.cooperative(copy.deepcopy(alike))
        optimizer = torch.optim.SGD(together.parameters(), lr=0.1)
        with plan.loader(comm=comm, cooperative=True) as loader:
            for _ in loader.epochs(epochs):
                for batch in loader:
                    optimizer.zero_grad()
                    together(batch, batch.x, batch.blocks).square().sum().backward()
                    if sums:
                        hr.sum_gradients(together)
                    optimizer.step()

    run_ranks(2, work)


def test_gradients_that_nobody_adds_up_are_warned_of():
    with pytest.warns(
        UserWarning, match="same parameters on all ranks in epoch 1, got others on rank 1.*sum_gradients"
    ):
        train(2, sums=False)


def test_ranks_that_add_them_up_are_not_warned():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(3, sums=True)
