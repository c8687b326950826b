"""Rank and world size come from torch.distributed when it is initialised; the shares of the ranks make up the batch."""

from __future__ import annotations

import json

import torch
from ranks import run_processes

from plans import items

SCRIPT = """
import json, sys, torch
from plans import PLANS
rank, world_size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
loader = PLANS["neighbor"]().loader()
json.dump([[batch.seeds.tolist(), batch.num_global_seeds] for batch in loader], sys.stdout)
torch.distributed.destroy_process_group()
"""


def test_ranks_of_a_process_group(tmp_path):
    shares = [json.loads(text) for text in run_processes(SCRIPT, 2, tmp_path / "meeting")]
    whole = list(items().loader())
    assert len(shares[0]) == len(shares[1]) == len(whole)
    for batch, first, second in zip(whole, *shares, strict=True):
        assert torch.equal(torch.tensor(first[0] + second[0]), batch.seeds)
        assert first[1] == second[1] == len(batch.seeds)


DDP = """
import json, sys, torch
import headrace as hr
from plans import graph, items, store
from torch import nn

rank, world_size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)

class Layer(nn.Linear):
    def forward(self, h, block):
        sources, targets = block.edge_index
        out = super().forward(h)
        return out[: block.num_dst] + torch.zeros_like(out[: block.num_dst]).index_add(0, targets, out[sources])

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(8, 8), Layer(8, 5)])

    def forward(self, h, blocks):
        first, last = self.layers
        return last(torch.tanh(first(h, blocks[0])), blocks[1])

plan = items(batch_size=40).sample_neighbor(graph(), [4, 3]).fetch_feature(store(), node=["x"], labels="y")
gradients = {}
for kind in ("alone", "sum_gradients", "ddp"):
    torch.manual_seed(0)
    model = hr.cooperative(Network())
    if kind == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
        model.register_comm_hook(None, hr.sum_hook)
    where = {"rank": 0, "world_size": 1} if kind == "alone" else {"cooperative": True}
    with plan.loader(**where) as loader:
        for batch in loader:
            out = model(batch, batch.x, batch.blocks)[batch.seed_index]
            loss = nn.functional.cross_entropy(out, batch.y, reduction="sum") / batch.num_global_seeds
            loss.backward()
            if kind == "sum_gradients":
                hr.sum_gradients(model)
            break
    gradients[kind] = [one.grad.reshape(-1).tolist() for one in model.parameters()]
json.dump(gradients, sys.stdout)
torch.distributed.destroy_process_group()
"""


def test_distributed_data_parallel_adds_up_gradients(tmp_path):
    for text in run_processes(DDP, 2, tmp_path / "meeting"):
        gradients = json.loads(text)
        for kind in ("sum_gradients", "ddp"):
            for found, expected in zip(gradients[kind], gradients["alone"], strict=True):
                torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-5, atol=1e-6)
