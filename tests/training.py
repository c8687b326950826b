"""Training by one process and by ranks together, and what must be equal then."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from ranks import run_ranks
from torch import nn

import headrace as hr

from plans import NUM_NODES

NUM_CLASSES, WIDTH = 5, 6
NUM_STEPS = 8  # three batches an epoch, so that they reach into a third one


def store(dtype: torch.dtype) -> hr.FeatureStore:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(NUM_NODES, WIDTH, generator=generator, dtype=torch.float64)
    return hr.FeatureStore(node={"x": x.to(dtype), "y": torch.arange(NUM_NODES) % NUM_CLASSES})


def loss_of(batch: hr.MiniBatch, out: torch.Tensor) -> torch.Tensor:
    if batch.seeds.dim() == 2:
        left, right = out[batch.seed_index].unbind(1)
        losses = F.binary_cross_entropy_with_logits((left * right).sum(1), batch.y, reduction="sum")
    else:
        losses = F.cross_entropy(out[batch.seed_index], batch.y, reduction="sum")
    return losses / batch.num_global_seeds


def train(plan: hr.Plan, model: nn.Module, num_steps: int, comm: hr.Comm | None = None, **options: object) -> dict:
    """Take some steps; return the seeds' outputs of the first, its gradients, and the parameters at the end."""
    together = hr.cooperative(copy.deepcopy(model))
    optimizer = torch.optim.Adam(together.parameters(), lr=0.01)
    seen: dict = {}
    with plan.loader(comm=comm, cooperative=comm is not None, **options) as loader:
        step = 0
        while step < num_steps:
            for batch in loader:
                out = together(batch, batch.x, batch.blocks)
                optimizer.zero_grad()
                loss_of(batch, out).backward()
                if comm is not None:
                    hr.sum_gradients(together, comm)
                if step == 0:
                    seen["out"] = dict(zip(batch.item_index.tolist(), out[batch.seed_index].detach(), strict=True))
                    seen["gradients"] = [one.grad.clone() for one in together.parameters()]
                optimizer.step()
                step += 1
                if step == num_steps:
                    break
    seen["parameters"] = [one.detach().clone() for one in together.parameters()]
    return seen


def assert_equal_training(plan: hr.Plan, model: nn.Module, world_size: int, tolerance: float, **options) -> None:
    alone = train(plan, model, NUM_STEPS)
    shares = run_ranks(world_size, lambda comm: train(plan, model, NUM_STEPS, comm, **options))
    together = {index: out for share in shares for index, out in share["out"].items()}
    assert together.keys() == alone["out"].keys()
    for index, out in alone["out"].items():
        torch.testing.assert_close(together[index], out, rtol=tolerance, atol=tolerance)
    for share in shares:
        for name in ("gradients", "parameters"):
            slack = 1 if name == "gradients" else 100  # steps of Adam let differences grow
            for left, right in zip(share[name], alone[name], strict=True):
                torch.testing.assert_close(left, right, rtol=slack * tolerance, atol=slack * tolerance)
