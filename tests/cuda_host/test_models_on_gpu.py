"""What models do with rows on a GPU: the host does not wait for ids that the exchange itself has made."""

from __future__ import annotations

import pytest
import torch

import headrace as hr
from headrace.cuda.backend import stand_in
from headrace.cuda.faults import Faults
from headrace.ops import gather_rows_with_grad
from headrace.pipeline.distributed.exchange import Exchange

from cuda_host.stand_in import StandIn


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    backend = StandIn()
    with stand_in(backend):
        yield backend


@pytest.fixture
def refuse_to_wait(monkeypatch):
    def refuse(self, *sizes):
        raise AssertionError("the host waits")

    monkeypatch.setattr(Faults, "check", refuse)


def test_rows_of_a_layer_are_delivered_without_a_wait(refuse_to_wait, gpu):
    """To this rank alone: what it sends is nothing, and still goes through the gather and the sum."""
    nothing, nodes = torch.empty(0, dtype=torch.int64), torch.arange(3)
    exchange = Exchange(nodes, nodes, 3, nothing, (0,), (0,))
    rows = torch.randn(3, 4, requires_grad=True)
    delivered = exchange.deliver(rows, hr.LocalGroup(1).comms[0])
    assert torch.equal(delivered, rows)
    (gradient,) = torch.autograd.grad(delivered.sum(), rows)
    assert torch.equal(gradient, torch.ones(3, 4))


def test_gradients_of_a_gather_do_not_wait_once_more(gpu, monkeypatch):
    source = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    rows = gather_rows_with_grad(source, torch.tensor([3, 0, 3]))
    monkeypatch.setattr(Faults, "check", None)
    (gradient,) = torch.autograd.grad((rows * rows.detach()).sum(), source)
    expected = torch.zeros(9, 4, dtype=torch.float64)
    expected[0], expected[3] = source[0].detach(), 2 * source[3].detach()
    assert torch.equal(gradient, expected)
    assert any("scatter_add_rows" in launched for launched in gpu.launches)
