"""scatter_add_rows against additions one by one, bit for bit; gradients of gather against indexing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops import InputError, gather_rows, gather_rows_with_grad, reference, scatter_add_rows

from strategies import thread_counts

pytestmark = pytest.mark.twins

HALF = [torch.float16, torch.bfloat16]
FULL = [torch.float32, torch.float64]


@given(
    st.integers(1, 30),
    st.lists(st.integers(0, 9), max_size=2),
    st.sampled_from(FULL),
    st.sampled_from([torch.int32, torch.int64]),
    thread_counts,
    st.data(),
)
def test_equals_the_reference(num_rows, shape, dtype, id_dtype, num_threads, data):
    ids = torch.tensor(data.draw(st.lists(st.integers(0, num_rows - 1), max_size=60)), dtype=id_dtype)
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**32)))
    out = torch.randn(num_rows, *shape, dtype=dtype, generator=generator)
    rows = torch.randn(len(ids), *shape, dtype=dtype, generator=generator) * 10.0 ** torch.randint(-6, 7, ()).item()
    expected = reference.scatter_add_rows(out.numpy(), ids.numpy(), rows.numpy())
    trusted = scatter_add_rows(out.clone(), ids, rows, num_threads=num_threads, trusted=True)
    assert torch.equal(trusted, torch.from_numpy(expected))
    assert scatter_add_rows(out, ids, rows, num_threads=num_threads) is out
    assert torch.equal(out, torch.from_numpy(expected))


@pytest.mark.slow
@pytest.mark.combinations(5)
@pytest.mark.parametrize("width", [1, 7, 128, 700])
@pytest.mark.parametrize("dtype", [*FULL, *HALF])
def test_threads_do_not_change_a_bit(width, dtype):
    """Values of all sizes, so that another order of additions would show; half of all rows go to one hub."""
    generator = torch.Generator().manual_seed(width)
    scale = 10.0 ** torch.randint(-3, 4, (4_000, 1), generator=generator)
    rows = (torch.randn(4_000, width, dtype=torch.float64, generator=generator) * scale).to(dtype)
    ids = torch.randint(0, 300, (4_000,), generator=generator)
    ids[::2] = 17
    one, *others = (
        scatter_add_rows(torch.zeros(300, width, dtype=dtype), ids, rows, num_threads=n) for n in (1, 2, 3, 8)
    )
    assert all(torch.equal(other, one) for other in others)
    if dtype in FULL:
        backwards = scatter_add_rows(torch.zeros(300, width, dtype=dtype), ids.flip(0), rows.flip(0))
        assert not torch.equal(backwards, one), "the values cannot tell one order from another"


@pytest.mark.parametrize("dtype", HALF)
def test_half_types_are_rounded_once(dtype):
    """5,000 ones: a sum kept in bfloat16 would stop at 256, in float16 at 2,048."""
    out = scatter_add_rows(
        torch.zeros(2, 3, dtype=dtype), torch.ones(5_000, dtype=torch.int64), torch.ones(5_000, 3, dtype=dtype)
    )
    assert torch.equal(out[1], torch.full((3,), 5_000.0).to(dtype))
    assert torch.equal(out[0], torch.zeros(3, dtype=dtype))


@pytest.mark.parametrize("id_dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("num_threads", [1, 3])
def test_gradients_of_gather(id_dtype, num_threads):
    source = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    ids = torch.tensor([3, 0, 3, 8, 3], dtype=id_dtype)
    assert torch.autograd.gradcheck(lambda table: gather_rows_with_grad(table, ids, num_threads=num_threads), source)
    gathered = gather_rows_with_grad(source, ids, num_threads=num_threads)
    assert torch.equal(gathered, source[ids.long()])
    factors = torch.randn(5, 4, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((gathered * factors).sum(), source)
    (expected,) = torch.autograd.grad((source[ids.long()] * factors).sum(), source)
    assert torch.allclose(gradient, expected, rtol=1e-14)
    expanded = gather_rows_with_grad(source, ids).sum()  # its gradient is one number, seen as a table
    assert torch.equal(
        torch.autograd.grad(expanded, source)[0],
        source.new_zeros(9, 4).index_add(0, ids.long(), torch.ones(5, 4).double()),
    )


def test_nothing_is_written_for_bad_input():
    out = torch.zeros(4, 2)
    for ids, message in ((torch.tensor([0, 4]), r"ids\[1\] = 4 has no row"), (torch.tensor([-1, 0]), r"ids\[0\] = -1")):
        with pytest.raises(InputError, match=message):
            scatter_add_rows(out, ids, torch.ones(2, 2))
    with pytest.raises(InputError, match="one row per id"):
        scatter_add_rows(out, torch.tensor([0]), torch.ones(2, 2))
    with pytest.raises(InputError, match="one row per id"):
        scatter_add_rows(out, torch.tensor([0]), torch.ones(1, 2, dtype=torch.float64))
    with pytest.raises(InputError, match="floating point"):
        scatter_add_rows(out.long(), torch.tensor([0]), torch.ones(1, 2, dtype=torch.int64))
    with pytest.raises(InputError, match="contiguous"):
        scatter_add_rows(out.t(), torch.tensor([0]), torch.ones(1, 4))
    assert torch.equal(out, torch.zeros(4, 2))


def test_memory_of_any_kind():
    """Misaligned, as in files that are mapped, or negated by a flag, which a kernel would not see."""
    expected = torch.tensor([[1.0, 2], [0, 0]])
    misaligned = torch.frombuffer(bytearray(17), dtype=torch.float32, offset=1).reshape(2, 2)
    assert scatter_add_rows(misaligned, torch.tensor([0]), expected[:1]) is misaligned
    assert torch.equal(misaligned, expected)
    rows = torch.frombuffer(bytearray(9), dtype=torch.float32, offset=1).reshape(1, 2).copy_(expected[0])
    assert torch.equal(scatter_add_rows(torch.zeros(2, 2), torch.tensor([0]), rows), expected)
    negated = torch.complex(torch.zeros(2), torch.tensor([-1.0, -2])).conj().imag.reshape(1, 2)
    assert torch.equal(scatter_add_rows(torch.zeros(2, 2), torch.tensor([0]), negated), expected)
    out = torch.zeros(1, 1, dtype=torch.complex64).conj().imag
    assert scatter_add_rows(out, torch.tensor([0]), torch.ones(1, 1)).item() == 1


@pytest.mark.cpu  # NumPy's arrays are
@pytest.mark.parametrize(
    "bad", [None, np.zeros((1, 2)), torch.zeros(1, 2).to_sparse()], ids=["None", "NumPy", "sparse"]
)
def test_refuses_what_is_no_dense_tensor(bad: Any):
    for out, rows in ((bad, torch.zeros(1, 2)), (torch.zeros(1, 2), bad)):
        with pytest.raises(InputError, match="to be a dense CPU tensor, got"):
            scatter_add_rows(out, torch.tensor([0]), rows)


def test_empty_tables():
    assert scatter_add_rows(torch.ones(3, 0), torch.tensor([1, 1]), torch.ones(2, 0)).shape == (3, 0)
    assert scatter_add_rows(torch.ones(3), torch.empty(0, dtype=torch.int64), torch.empty(0)).tolist() == [1, 1, 1]
    with pytest.raises(InputError, match="has no row"):
        scatter_add_rows(torch.ones(0, 2), torch.tensor([0]), torch.ones(1, 2))


def test_autograd_sees_that_a_tensor_was_written():
    """As with torch's own in-place operations, what the backward pass needs may not change under it."""
    for write in (
        lambda out: scatter_add_rows(out, torch.tensor([0]), torch.ones(1, 2)),
        lambda out: gather_rows(torch.ones(3, 2), torch.tensor([0, 2]), out=out),
    ):
        leaf = torch.ones(2, 2, requires_grad=True)
        kept = leaf * 1
        total = (kept * kept).sum()
        write(kept.detach())
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            total.backward()
