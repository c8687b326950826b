"""spmm_extreme and its way back against a search one by one, ties and NaN included."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops import Extremes, InputError, reference, sddmm, spmm_extreme, transpose_csc
from headrace.ops.aggregate.extreme import spmm_winners

from edge_rows import DTYPES, WIDTHS, edge_rows, rows_of, tables
from strategies import thread_counts

pytestmark = pytest.mark.twins

SPECIAL = torch.tensor([0.0, -0.0, 1.0, 1.0, -1.0, torch.inf, -torch.inf, torch.nan])


def special_rows(num_rows, shape, dtype, data):
    """Few values, so that there are ties; NaN and infinities among them."""
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**32)))
    return SPECIAL.to(dtype)[torch.randint(len(SPECIAL), (num_rows, *shape), generator=generator)]


def expected_extremes(rows, x, weight, largest):
    return reference.aggregate.spmm_extreme(
        *rows.arrays,
        x.numpy(force=True),
        None if weight is None else weight.numpy(force=True),
        np.arange(rows.num_edges),
        largest,
    )


@given(edge_rows(), st.integers(1, 3), st.booleans(), st.sampled_from(DTYPES), thread_counts, st.booleans(), st.data())
def test_equals_the_reference(rows, heads, largest, dtype, num_threads, weighted, data):
    x = special_rows(rows.num_src, (heads, 5), dtype, data)
    weight = data.draw(tables(rows.num_edges, (heads,), dtype)) if weighted else None
    found = spmm_extreme(rows.indptr, rows.indices, x, largest=largest, weight=weight, num_threads=num_threads)
    values, winners = expected_extremes(rows, x, weight, largest)
    assert np.array_equal(found.winners.numpy(), winners)
    assert np.array_equal(found.values.numpy(), values, equal_nan=True)


@given(edge_rows(), st.booleans(), st.permutations(range(3)), st.data())
def test_the_order_of_parts_decides_nothing(rows, largest, order, data):
    """Parts are the edges of each third of the sources, as shards are."""
    x = special_rows(rows.num_src, (4,), torch.float32, data)
    whole = spmm_extreme(rows.indptr, rows.indices, x, largest=largest)
    state = None
    of_row = torch.arange(rows.num_dst).repeat_interleave(rows.indptr.diff())
    for part in order:
        (edges,) = torch.where(rows.indices % 3 == part)
        starts = torch.cat([torch.zeros(1).long(), torch.bincount(of_row[edges], minlength=rows.num_dst).cumsum(0)])
        last = part == order[-1]
        state = spmm_extreme(starts, rows.indices[edges], x, largest=largest, positions=edges, state=state, last=last)
    assert torch.equal(state.winners, whole.winners)
    assert torch.equal(state.values.nan_to_num(9), whole.values.nan_to_num(9))


@given(edge_rows(), st.integers(1, 3), st.sampled_from(DTYPES), thread_counts, st.booleans(), st.data())
def test_the_way_back_equals_the_reference(rows, heads, dtype, num_threads, weighted, data):
    x = special_rows(rows.num_src, (heads, 5), dtype, data)
    weight = data.draw(tables(rows.num_edges, (heads,), dtype)) if weighted else None
    gradient = data.draw(tables(rows.num_dst, (heads, 5), dtype))
    winners = spmm_extreme(rows.indptr, rows.indices, x, weight=weight).winners
    back = transpose_csc(rows.indptr, rows.indices, rows.num_src)
    found = spmm_winners(*back[:2], gradient, winners, weight=weight, positions=back.positions, num_threads=num_threads)
    expected = reference.aggregate.spmm_winners(
        *(part.numpy() for part in back[:2]),
        gradient.numpy(force=True),
        winners.numpy(),
        None if weight is None else weight.numpy(force=True),
        back.positions.numpy(),
        np.zeros(x.shape, found.numpy().dtype),
    )
    assert np.array_equal(found.numpy(), expected)
    products = (
        sddmm(
            rows.indptr, rows.indices, gradient, gradient[:1].expand(rows.num_src, -1, -1), heads=heads, winners=winners
        )
        if rows.num_dst
        else None
    )
    if products is not None:
        wide = gradient.double().numpy(force=True)
        other = np.broadcast_to(wide[:1], (rows.num_src, heads, 5))
        exact = reference.aggregate.sddmm(*rows.arrays, wide, other, np.arange(rows.num_edges), winners.numpy())
        sizes = np.abs(wide).max(initial=0) ** 2
        assert (np.abs(products.numpy() - exact) <= 20 * torch.finfo(dtype).eps * sizes).all()


@pytest.mark.cpu  # instruction sets are
@pytest.mark.kernel
@pytest.mark.parametrize("width", [*WIDTHS, 257])
def test_neither_threads_nor_instructions_change_a_bit(width, instructions):
    random = np.random.default_rng(width)
    degrees = random.integers(0, 12, 500)
    degrees[7] = 3_000
    rows = rows_of(degrees, 700, random, torch.int32)
    x = torch.from_numpy(random.integers(-40, 40, (700, width))).float()
    one, *others = (spmm_extreme(rows.indptr, rows.indices, x, num_threads=n) for n in (1, 2, 4))
    assert all(torch.equal(part, first) for other in others for part, first in zip(other, one, strict=True))
    source = rows.indices[one.winners.clamp(min=0)].long()
    held = x.gather(0, source.view(-1, width)).where(one.winners >= 0, 0)
    assert torch.equal(one.values, held)
    index = torch.arange(500).repeat_interleave(rows.indptr.diff())[:, None].expand(-1, width)
    expected = torch.zeros(500, width).scatter_reduce(0, index, x[rows.indices.long()], "amax", include_self=False)
    assert torch.equal(one.values, expected)


def test_of_equal_messages_the_first_edge_wins():
    found = spmm_extreme(torch.tensor([0, 3, 3]), torch.tensor([2, 0, 1]), torch.tensor([[5.0], [5.0], [5.0]]))
    assert found.winners.tolist() == [[0], [-1]]
    assert found.values.tolist() == [[5], [0]]


def test_refuses_what_is_no_state():
    indptr, indices, x = torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1, 2)
    good = spmm_extreme(indptr, indices, x)
    for state, message in (
        ((good.values, good.winners), "state to be Extremes"),
        (Extremes(good.values, good.winners.int()), r"winners to be a tensor of int64\[1, 2\]"),
        (Extremes(good.values, good.winners.to("meta")), "winners to be on .*, got a tensor on meta"),
        (Extremes(good.values[:, :1], good.winners), r"values to be \[1, 2\]"),
    ):
        with pytest.raises(InputError, match=message):
            spmm_extreme(indptr, indices, x, state=state)
