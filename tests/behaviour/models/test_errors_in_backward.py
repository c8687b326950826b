"""An error in the backward direction of one rank reaches the others, which wait for its gradients."""

from __future__ import annotations

import time

import pytest
import torch
from hybrid import WIDTH, plan
from ranks import partition, run_ranks
from torch import Tensor, nn

import headrace as hr

from plans import graph

SOON = 8.0  # where a collective would wait for a minute

PARTITIONS = {
    "nodes": lambda: partition("hash", 3),
    "edges": lambda: hr.EdgePartition.grid(graph(), 3),
}


def _refuse(gradient: Tensor) -> Tensor:
    raise ValueError("a gradient of rank one is out of order")


class Network(nn.Module):
    """Two layers, between which a gradient may be refused: those of one layer were exchanged then, others were not."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(hr.nn.SAGEConv(WIDTH, WIDTH) for _ in range(2)).double()
        self.refuses = False

    def forward(self, h: Tensor, blocks: tuple[hr.Block, ...]) -> Tensor:
        for number, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            h = layer(h, block)
            if number == 0 and self.refuses:
                h.register_hook(_refuse)
        return h


@pytest.mark.parametrize("kind", PARTITIONS)
def test_an_error_in_backward_reaches_the_other_ranks_with_its_traceback(kind):
    told: dict[int, str] = {}
    torch.manual_seed(0)
    state = Network().state_dict()

    def train(comm: hr.Comm) -> None:
        network = Network()
        network.load_state_dict(state)
        together = hr.cooperative(network)
        with plan("mini").loader(cooperative=True, comm=comm, partition=PARTITIONS[kind]()) as loader:
            for batch in loader:
                network.refuses = comm.rank == 1 and batch.index == 1
                x = batch.x.clone().requires_grad_()
                (together(batch, x, batch.blocks).sum() / batch.num_global_seeds).backward()
                hr.sum_gradients(together, comm)

    def work(comm: hr.Comm) -> None:
        try:
            train(comm)
        except (hr.PeerError, ValueError) as error:
            told[comm.rank] = str(error)

    began = time.monotonic()
    run_ranks(3, work)
    assert time.monotonic() - began < SOON
    assert told[1] == "a gradient of rank one is out of order"
    for rank in (0, 2):
        for words in ("rank 1", "Traceback", "a gradient of rank one is out of order"):
            assert words in told[rank]
