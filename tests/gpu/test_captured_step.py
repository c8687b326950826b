"""Steps that a GPU repeats as CUDA graphs: the training is the one without them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import headrace as hr

from plans import graph, items, store

pytestmark = pytest.mark.twins

EPOCHS = 3


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([hr.nn.SAGEConv(8, 16), hr.nn.SAGEConv(16, 5)])
        self.norm = hr.nn.BatchNorm(16)

    def forward(self, batch):
        first, second = batch.blocks
        h = self.norm(self.convs[0](batch.x, first), first).relu()
        return self.convs[1](h, second)[batch.seed_index]


def loader(gpu):
    sampled = items(batch_size=40).sample_neighbor(graph(), [3, 3]).fetch_feature(store(), node=["x"], labels="y")
    return sampled.pad(epochs=EPOCHS).copy_to("cuda").loader(machine=gpu.machine)


def training(gpu, wrap):
    """Losses and parameters behind some epochs, how many seeds each step saw, and how often its function was called."""
    torch.manual_seed(0)
    model = Model().to(gpu.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    calls = []

    def step(batch):
        calls.append(batch.seeds.shape)
        optimizer.zero_grad()
        loss = cross_entropy(model(batch), batch.y)
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach(), "seeds": batch.seed_mask.sum()}

    run, losses, seeds = wrap(step), [], []
    with loader(gpu) as batches:
        for _ in batches.epochs(EPOCHS):
            for batch in batches:
                found = run(batch)
                losses.append(found["loss"].clone())
                seeds.append((int(found["seeds"]), batch.num_seeds))
    return torch.stack(losses).cpu(), [one.cpu() for one in model.state_dict().values()], seeds, len(calls)


def test_training_is_the_one_without(gpu):
    """Products of matrices may be summed up in another order where they are captured."""
    losses, parameters, seeds, _ = training(gpu, lambda step: step)
    assert all(found == expected for found, expected in seeds)
    assert losses.isfinite().all()
    captured = training(gpu, lambda step: hr.nn.CapturedStep(step, warm_up=1))
    torch.testing.assert_close(captured[0], losses, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(captured[1], parameters, rtol=1e-3, atol=1e-4)
    assert captured[2] == seeds
    assert captured[3] < len(seeds), "the step was repeated, not called"


def test_rows_are_summed_up_by_a_graph_as_without_one(gpu):
    """Of headrace's kernels alone, so every bit is the same."""

    def step(batch):
        block = batch.blocks[0]
        return hr.ops.spmm(block.indptr, block.indices, batch.x, trusted=True)

    run = hr.nn.CapturedStep(step, warm_up=1)
    with loader(gpu) as batches:
        for batch in batches:
            gpu.delay()
            assert torch.equal(run(batch), step(batch))
