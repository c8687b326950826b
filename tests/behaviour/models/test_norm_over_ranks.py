"""Batch normalisation over ranks: that of one process, also far from 0."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ranks import run_ranks
from torch import Tensor, nn

import headrace as hr


class Between(nn.Module):
    """A model whose rows the norm works on."""

    def __init__(self, norm: nn.BatchNorm1d) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor, place: hr.sar.ShardedGraph) -> Tensor:
        return self.norm(x)


def normalised(norm: nn.BatchNorm1d, parts: list[Tensor]) -> tuple[Tensor, Tensor, list[nn.BatchNorm1d]]:
    """Return outputs and gradients of the rows of all ranks, and the norms of the ranks."""
    own: list[nn.BatchNorm1d] = [norm] * len(parts)
    rows = [part.clone().requires_grad_() for part in parts]
    sizes = [len(part) for part in parts]
    nodes = hr.Graph.from_coo([], [], num_nodes=sum(sizes))

    def work(comm: hr.Comm) -> Tensor:
        place = hr.sar.ShardedGraph(nodes, hr.Partition.range_of(sizes), comm)
        model = hr.sar.wrap(Between(copy.deepcopy(norm)), place)
        own[comm.rank] = model.norm
        out = model(rows[comm.rank], place)
        weights = torch.arange(out.numel(), dtype=out.dtype).view(out.shape).cos() + comm.rank
        (out * weights).sum().backward()
        return out.detach()

    return torch.cat(run_ranks(len(parts), work)), torch.cat([one.grad for one in rows]), own


def alone(norm: nn.BatchNorm1d, parts: list[Tensor]) -> tuple[Tensor, Tensor, nn.BatchNorm1d]:
    norm, rows = copy.deepcopy(norm), torch.cat(parts).requires_grad_()
    out = norm(rows)
    weights = [
        torch.arange(part.numel(), dtype=rows.dtype).view(part.shape).cos() + rank for rank, part in enumerate(parts)
    ]
    (out * torch.cat(weights)).sum().backward()
    return out.detach(), rows.grad, norm


@given(
    sizes=st.lists(st.integers(0, 5), min_size=1, max_size=4).filter(lambda sizes: sum(sizes) > 1),
    seed=st.integers(0, 99),
)
def test_ranks_normalise_as_one_process(sizes, seed):
    generator = torch.Generator().manual_seed(seed)
    parts = [
        torch.randn(size, 3, generator=generator, dtype=torch.float64) + 10 * rank for rank, size in enumerate(sizes)
    ]
    norm = nn.BatchNorm1d(3).double()
    out, gradient, own = normalised(norm, parts)
    expected, by_rows, one = alone(norm, parts)
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(gradient, by_rows, rtol=1e-9, atol=1e-9)
    for each in own:
        torch.testing.assert_close(each.running_var, one.running_var, rtol=1e-12, atol=1e-12)
        assert torch.equal(each.running_mean, own[0].running_mean)


@pytest.mark.parametrize(("dtype", "offset", "tolerance"), [(torch.float32, 1e4, 1e-4), (torch.float64, 1e8, 1e-7)])
def test_no_digits_are_lost_far_from_zero(dtype, offset, tolerance):
    """The mean of squares less the square of the mean would have none left at 1e8."""
    generator = torch.Generator().manual_seed(0)
    rows = (torch.randn(600, 4, generator=generator, dtype=torch.float64) + offset).to(dtype)
    parts = list(rows.split([1, 399, 0, 200]))
    norm = nn.BatchNorm1d(4).to(dtype)
    out, gradient, own = normalised(norm, parts)
    # The rows as they are, moved to 0: exact in double precision.
    expected, by_rows, one = alone(norm.double(), [part.double() - offset for part in parts])
    torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(gradient.double(), by_rows, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(own[0].running_var.double(), one.running_var, rtol=tolerance, atol=0)
