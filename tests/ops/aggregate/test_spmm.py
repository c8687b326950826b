"""spmm and sddmm against sums one by one: spmm bit for bit, also in parts, transposed and on several threads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops import InputError, reference, sddmm, spmm, transpose_csc

from edge_rows import DTYPES, WIDTHS, edge_rows, rows_of, tables
from strategies import thread_counts

pytestmark = pytest.mark.twins


def expected_sum(rows, x, weight=None, positions=None, divisors=None, out=None):
    """The oracle's sum, of rows of any shape."""
    heads = weight.shape[1] if weight is not None and weight.ndim == 2 else 1
    total = np.zeros((rows.num_dst, heads, x[0].numel() // heads if len(x) else 0), x.numpy(force=True).dtype)
    if out is not None:
        total = out.numpy(force=True).reshape(total.shape)
    found = reference.aggregate.spmm(
        *rows.arrays,
        x.numpy(force=True).reshape(len(x), heads, -1) if x.numel() else np.zeros((len(x), heads, 0), total.dtype),
        None if weight is None else weight.numpy(force=True).reshape(-1, heads),
        np.arange(rows.num_edges) if positions is None else positions.numpy(),
        None if divisors is None else divisors.numpy(force=True),
        total,
    )
    return torch.from_numpy(found)


@given(edge_rows(), st.sampled_from(WIDTHS), st.sampled_from(DTYPES), thread_counts, st.data())
def test_sum_equals_the_reference(rows, width, dtype, num_threads, data):
    if not rows.num_src:
        return
    x = data.draw(tables(rows.num_src, (width,), dtype))
    weight = data.draw(st.none() | tables(rows.num_edges, (), dtype))
    out = torch.from_numpy(np.array(data.draw(tables(rows.num_dst, (width,), dtype)).numpy(force=True), order="C"))
    divisors = data.draw(st.none() | st.just(torch.arange(1, rows.num_dst + 1, dtype=dtype)))
    fresh = spmm(rows.indptr, rows.indices, x, weight=weight, divisors=divisors, num_threads=num_threads)
    assert torch.equal(fresh, expected_sum(rows, x, weight, None, divisors).view(fresh.shape))
    expected = expected_sum(rows, x, weight, None, divisors, out)
    assert spmm(rows.indptr, rows.indices, x, weight=weight, divisors=divisors, out=out) is out
    assert torch.equal(out, expected.view(out.shape))


@given(edge_rows(), st.integers(1, 5), st.sampled_from([1, 3, 16]), st.sampled_from(DTYPES), st.data())
def test_heads_have_weights_of_their_own(rows, heads, width, dtype, data):
    if not rows.num_src:
        return
    x = data.draw(tables(rows.num_src, (heads, width), dtype))
    weight = data.draw(tables(rows.num_edges, (heads,), dtype))
    found = spmm(rows.indptr, rows.indices, x, weight=weight)
    assert torch.equal(found, expected_sum(rows, x, weight).view(found.shape))


@given(edge_rows(), st.sampled_from(DTYPES), thread_counts, st.data())
def test_transposed_rows_find_their_weights(rows, dtype, num_threads, data):
    gradient = data.draw(tables(rows.num_dst, (7,), dtype))
    weight = data.draw(tables(rows.num_edges, (), dtype))
    back = transpose_csc(rows.indptr, rows.indices, rows.num_src)
    found = spmm(back.indptr, back.indices, gradient, weight=weight, positions=back.positions, num_threads=num_threads)
    total = torch.zeros(rows.num_src, 7, dtype=dtype)
    for row, edge in reference.aggregate.edges_of(rows.indptr.numpy()):
        total[rows.indices[edge]] += weight[edge] * gradient[row]
    assert torch.equal(found, total)


@given(edge_rows(), st.integers(2, 4), st.data())
def test_rows_in_parts_are_the_same_bits(rows, num_parts, data):
    """As shards come: part p has the edges whose place in their row is in the p-th piece of it."""
    if not rows.num_src:
        return
    x = data.draw(tables(rows.num_src, (5,), torch.float32))
    degrees = rows.indptr.diff()
    divisors = degrees.clamp(min=1).float()
    out = torch.zeros(rows.num_dst, 5)
    for part in range(num_parts):
        begins = rows.indptr[:-1] + degrees * part // num_parts
        counts = rows.indptr[:-1] + degrees * (part + 1) // num_parts - begins
        starts = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
        within = torch.arange(int(starts[-1])) - starts[:-1].repeat_interleave(counts)
        edges = begins.repeat_interleave(counts) + within
        last = divisors if part + 1 == num_parts else None
        spmm(starts, rows.indices[edges], x, divisors=last, out=out)
    assert torch.equal(out, spmm(rows.indptr, rows.indices, x, divisors=divisors))


@pytest.mark.cpu  # instruction sets are
@pytest.mark.kernel
@pytest.mark.parametrize("width", [*WIDTHS, 257])
@pytest.mark.parametrize("heads", [None, 1])
def test_neither_threads_nor_instructions_change_a_bit(width, heads, instructions):
    """Against sums by columns of NumPy, which has no vectors there; a hub, and enough rows for many tasks."""
    random = np.random.default_rng(width)
    degrees = random.integers(0, 12, 500)
    degrees[7] = 3_000
    rows = rows_of(degrees, 700, random, torch.int32)
    x = torch.from_numpy(random.standard_normal((700, width)) * 10.0 ** random.integers(-3, 4, (700, 1))).float()
    weight = None if heads is None else torch.from_numpy(random.random((rows.num_edges, heads))).float()
    x = x if heads is None else x[:, None]
    one, *others = (spmm(rows.indptr, rows.indices, x, weight=weight, num_threads=n) for n in (1, 2, 4, 7))
    assert all(torch.equal(other, one) for other in others)
    assert torch.equal(one, expected_sum(rows, x, weight).view(one.shape))


@given(edge_rows(), st.integers(1, 4), st.sampled_from(WIDTHS), st.sampled_from(DTYPES), thread_counts, st.data())
def test_products_equal_the_reference(rows, heads, width, dtype, num_threads, data):
    a = data.draw(tables(rows.num_dst, (heads, width), dtype))
    b = data.draw(tables(rows.num_src, (heads, width), dtype))
    found = sddmm(rows.indptr, rows.indices, a, b, heads=heads, num_threads=num_threads)
    wide = [one.double().numpy(force=True) for one in (a, b)]
    expected = reference.aggregate.sddmm(*rows.arrays, *wide, np.arange(rows.num_edges), None)
    sizes = reference.aggregate.sddmm(*rows.arrays, *map(np.abs, wide), np.arange(rows.num_edges), None)
    error = np.abs(found.numpy() - expected)
    assert (error <= 40 * torch.finfo(dtype).eps * sizes).all()
    plain = sddmm(rows.indptr, rows.indices, a.flatten(1), b.flatten(1))
    assert plain.shape == (rows.num_edges,)
    assert (np.abs(plain.numpy() - expected.sum(1)) <= 40 * torch.finfo(dtype).eps * sizes.sum(1)).all()


@pytest.mark.cpu  # instruction sets are
@pytest.mark.kernel
def test_products_are_the_same_bits_everywhere(instructions):
    """The lanes that a product is summed in are as many in every instruction set."""
    random = np.random.default_rng(0)
    a, b = (torch.from_numpy(random.standard_normal((40, 100))).float() for _ in range(2))
    indptr, indices = torch.arange(41), torch.arange(40).flip(0)
    found = sddmm(indptr, indices, a, b, num_threads=3)
    lanes = (a * b.flip(0)).numpy()
    sums = np.zeros((40, 8), np.float32)
    for column in range(100):
        sums[:, column % 8] += lanes[:, column]
    pairs = sums[:, :4] + sums[:, 4:]
    assert np.array_equal(found.numpy(), (pairs[:, 0] + pairs[:, 2]) + (pairs[:, 1] + pairs[:, 3]))


def test_what_is_no_number_spreads_as_in_additions():
    x = torch.tensor([[1.0], [torch.inf], [torch.nan], [-torch.inf]])
    found = spmm(torch.tensor([0, 1, 2, 4, 6, 6]), torch.tensor([0, 1, 0, 2, 1, 3]), x)
    assert torch.equal(found.flatten().isnan(), torch.tensor([False, False, True, True, False]))
    assert found.flatten()[[0, 1, 4]].tolist() == [1, torch.inf, 0]
    assert spmm(torch.tensor([0, 1]), torch.tensor([1]), x, weight=torch.zeros(1)).isnan().all()


def test_empty_tables():
    none = torch.empty(0, dtype=torch.int32)
    assert spmm(torch.zeros(1, dtype=torch.int64), none, torch.ones(3, 2)).shape == (0, 2)
    assert spmm(torch.tensor([0, 0]), none, torch.ones(0, 2)).tolist() == [[0, 0]]
    assert spmm(torch.tensor([0, 2]), torch.tensor([0, 1]), torch.ones(2, 0)).shape == (1, 0)
    assert spmm(torch.tensor([0, 2]), torch.tensor([0, 1]), torch.ones(2)).tolist() == [2]
    assert sddmm(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1, 0), torch.ones(1, 0)).tolist() == [0]


def test_bad_input_is_refused_and_nothing_is_written():
    x, out = torch.ones(3, 2), torch.zeros(2, 2)
    indptr, indices = torch.tensor([0, 1, 2]), torch.tensor([0, 1])
    for starts, others, message in (
        (indptr, torch.tensor([0, 3]), r"indices\[1\] = 3 has no row: expected 0 <= it < 3"),
        (indptr, torch.tensor([-1, 0]), r"indices\[0\] = -1 has no row"),
        (torch.tensor([0, 3, 2]), indices, r"indptr decreases: indptr\[1\] = 3"),
        (torch.tensor([0, 1, 1]), indices, r"from 0 to len\(indices\) = 2"),
    ):
        with pytest.raises(InputError, match=message):
            spmm(starts, others, x, out=out)
    for arguments, message in (
        ({"weight": torch.ones(1)}, "an entry for each of 2 edges, got 1"),
        ({"positions": torch.tensor([0])}, r"positions to have one entry per edge \(2\)"),
        ({"positions": torch.tensor([0, 2]), "weight": torch.ones(2)}, r"positions\[1\] = 2 has no row"),
    ):
        with pytest.raises(InputError, match=message):
            spmm(indptr, indices, x, out=out, **arguments)
    for arguments, message in (
        ({"weight": torch.ones(2, 3)}, "where rows are"),
        ({"weight": torch.ones(2).double()}, "weight to be of torch.float32"),
        ({"divisors": torch.ones(3)}, r"divisors to be \[2\]"),
        ({"out": torch.zeros(2, 2).t()}, "contiguous"),
        ({"out": torch.zeros(3, 2)}, r"out to be \[2, 2\]"),
    ):
        with pytest.raises(InputError, match=message):
            spmm(indptr, indices, x, **arguments)
    with pytest.raises(InputError, match="float32 or float64, got torch\\.int64"):
        spmm(indptr, indices, torch.ones(3, 2, dtype=torch.int64))
    with pytest.raises(InputError, match="out not to be x"):
        spmm(torch.tensor([0, 1, 2, 2]), indices, x, out=x)
    assert not out.any()
