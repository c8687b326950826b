"""Aggregations on a GPU: how often the host waits, what is looked at, and layers on top of them."""

from __future__ import annotations

import pytest
import torch

import headrace as hr
from headrace import ops
from headrace.cuda.backend import stand_in
from headrace.cuda.faults import Faults

from cuda_host.stand_in import StandIn

INDPTR, INDICES = torch.tensor([0, 2, 2, 5]), torch.tensor([3, 0, 1, 3, 3])


@pytest.fixture
def gpu():
    backend = StandIn()
    with stand_in(backend):
        yield backend


@pytest.fixture
def waits(monkeypatch, gpu):
    """For each time that the host waits, what it finds."""
    seen = []
    check = Faults.check

    def counted(self, *sizes):
        seen.append(self)
        return check(self, *sizes)

    monkeypatch.setattr(Faults, "check", counted)
    return seen


def run(transpose=None, *, trusted=False):
    """Sums with weights and attention, there and back."""
    x, weight, scores = torch.ones(4, 1, 2), torch.ones(5), torch.ones(4, 1)
    leaves = [one.requires_grad_() for one in (x, weight, scores)]
    options = {"transpose": transpose, "trusted": trusted}
    out = ops.aggregate_with_grad(INDPTR, INDICES, x, weight=weight, **options)
    edge = ops.AttentionScores(scores, torch.ones(3, 1))
    out = out + ops.attend_with_grad(INDPTR, INDICES, x, edge, **options)
    return torch.autograd.grad(out.sum(), leaves)


def test_edges_are_looked_at_once(waits):
    run()
    assert len(waits) == 2  # two operations, and none of their ways back


def test_a_transposed_csc_that_is_given_is_looked_at_too(waits):
    good = ops.transpose_csc(INDPTR, INDICES, 4)
    waits.clear()
    run(lambda: good)
    assert len(waits) == 4
    with pytest.raises(ops.InputError, match=r"indices\[4\] = 3 has no row: expected 0 <= it < 3"):
        run(lambda: good._replace(indices=torch.tensor([0, 2, 0, 2, 3])))


def test_nobody_waits_for_what_is_trusted(waits):
    good = ops.transpose_csc(INDPTR, INDICES, 4, trusted=True)
    run(lambda: good, trusted=True)
    run(trusted=True)
    assert not waits


def test_arrays_of_edges_agree(gpu):
    x = torch.ones(4, 1, 2)
    for named, message in (
        ({"edge": torch.ones(5, 1), "weight": torch.ones(4)}, r"weights to have one entry per edge \(5\), got 4"),
        ({"dropout": ops.AttentionDropout(0.5, 1, torch.arange(4))}, "an entry for each of 5 edges, got 4"),
    ):
        scores = ops.AttentionScores(torch.ones(4, 1), torch.ones(3, 1), **named)
        with pytest.raises(ops.InputError, match=message):
            ops.attend(INDPTR, INDICES, x, scores)


@pytest.mark.parametrize("kind", [hr.nn.SAGEConv, hr.nn.GCNConv, hr.nn.GATConv])
def test_layers_have_the_gradients_of_the_cpu(kind):
    graph = hr.Graph.from_coo([0, 1, 2, 3, 3, 0, 3], [1, 2, 0, 0, 1, 3, 0], num_nodes=4)
    (block,) = next(iter(hr.ItemSampler(4).sample_neighbor(graph, [-1]).loader())).blocks
    layer, runs, launched = kind(3, 2), [], []
    for backend in (None, StandIn()):
        with stand_in(backend):
            x = torch.randn(block.num_src, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
            out = layer(x, hr.Block(block.indptr, block.indices, block.num_src, block.num_dst))
            runs.append([out, *torch.autograd.grad(out.square().sum(), [x, *layer.parameters()])])
        launched = backend.launches if backend else launched
    assert all(map(torch.equal, *runs))
    assert any("spmm" in name or "attend" in name for name in launched)
