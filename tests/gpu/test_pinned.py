"""Memory of the host that a GPU reads in place: strided views, several holders, memory that torch moves."""

from __future__ import annotations

import pytest
import torch

from headrace import ops
from headrace.ops.features.pinned import Pinned

pytestmark = pytest.mark.twins

NUM_ROWS = 300


def table():
    return torch.arange(4.0 * NUM_ROWS).view(NUM_ROWS, 4)


def ids_on(gpu, number=0):
    return torch.randint(NUM_ROWS, (500,), generator=torch.Generator().manual_seed(number)).to(gpu.device)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 3, 4, 130])
def test_rows_are_read_in_place(dtype, width, gpu):
    x = gpu.host((torch.arange(NUM_ROWS * width) % 251).view(NUM_ROWS, width).to(dtype))
    held = Pinned(x)
    ids = ids_on(gpu)
    gpu.delay()
    assert torch.equal(ops.gather_rows(x, ids).cpu(), x[ids.cpu()])
    del held


@pytest.mark.parametrize("name", ["places", "ids"])
def test_columns_of_pinned_pairs_are_read_as_they_are(name, gpu):
    """Their contiguous copies are not pinned, and are gone before a kernel has run."""
    x, order = table().to(gpu.device), torch.randperm(NUM_ROWS)
    pairs = gpu.host(torch.stack([order, order.flip(0)], dim=1))
    held = Pinned(pairs)
    out = torch.empty_like(x)
    there = torch.arange(NUM_ROWS, device=gpu.device)
    gpu.delay()
    if name == "places":
        ops.gather_rows(x, there, out=out, places=pairs[:, 0])
        found = out.cpu()[order]
    else:
        ops.scatter_add_rows(out.zero_(), there, ops.gather_rows(x, pairs[:, 0].to(gpu.device)))
        found = out.cpu()[order.argsort()]
    assert torch.equal(found, table())
    del held


def test_memory_stays_pinned_as_long_as_one_holds_it(gpu):
    x = gpu.host(table())
    held = [Pinned(x), Pinned(x[100:]), Pinned(x.view(-1))]
    while held:
        gpu.delay()
        assert torch.equal(ops.gather_rows(x, ids_on(gpu, len(held))).cpu(), x[ids_on(gpu, len(held)).cpu()])
        held.pop()


def test_memory_that_torch_moves_is_pinned_anew(gpu):
    """`share_memory_` puts a storage elsewhere, and frees what was registered."""
    for _ in range(3):
        x = gpu.host(table())
        held = Pinned(x)
        assert torch.equal(ops.gather_rows(x, ids_on(gpu)).cpu(), table()[ids_on(gpu).cpu()])
        x.share_memory_()
        again = Pinned(x)
        other = gpu.host(-table())  # may be where the first one was
        of_other = Pinned(other)
        for one, expected in ((x, table()), (other, -table())):
            gpu.delay()
            assert torch.equal(ops.gather_rows(one, ids_on(gpu)).cpu(), expected[ids_on(gpu).cpu()])
        del held, again, of_other


def test_memory_that_torch_has_pinned_is_read_in_place(gpu):
    x = table().pin_memory() if gpu.backend is None else table()
    held = Pinned(x)
    gpu.delay()
    assert torch.equal(ops.gather_rows(x, ids_on(gpu)).cpu(), table()[ids_on(gpu).cpu()])
    del held
