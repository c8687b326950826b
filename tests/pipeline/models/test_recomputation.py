"""Random numbers that are kept for recomputation."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

import headrace as hr
from headrace.pipeline.models.recomputation import KEPT

from plans import graph, items, store


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.dropout = hr.nn.SAGEConv(8, 8), nn.Dropout(0.4)

    def forward(self, x: Tensor, blocks: tuple[hr.Block, ...]) -> Tensor:
        return self.dropout(self.layer(x, blocks[0]))


def test_few_draws_are_kept_and_none_without_need():
    plan = items(batch_size=40).sample_neighbor(graph(), [4]).fetch_feature(store(), node=["x"])
    batch = next(iter(plan.loader()))
    network = Network()
    model = hr.cooperative(network, [network.layer])
    model(batch, batch.x, batch.blocks)
    assert not model.model.dropout._draws._drawn
    with torch.no_grad():
        for _ in range(KEPT + 1):
            model.model.dropout(batch.x)
    assert len(model.model.dropout._draws._drawn) == KEPT
    assert not copy.deepcopy(model).model.dropout._draws._drawn
