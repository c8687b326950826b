"""Attention against a softmax row by row: whole, in parts, with weights and dropout, on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops import Attended, AttentionDropout, AttentionScores, InputError, attend, reference
from headrace.ops.aggregate.attention import attend_backward_destinations, attend_backward_sources
from headrace.ops.aggregate.transpose import transpose_csc

from edge_rows import DTYPES, EdgeRows, edge_rows, rows_of, tables
from strategies import keys, thread_counts

pytestmark = pytest.mark.twins


@st.composite
def attention_inputs(draw, dtypes=DTYPES):
    """Rows of edges, x and scores with or without edge scores, weights and dropout."""
    rows = draw(edge_rows())
    heads, dtype = draw(st.integers(1, 5)), draw(st.sampled_from(dtypes))
    x = draw(tables(rows.num_src, (heads, draw(st.sampled_from([1, 3, 8]))), dtype))
    edge = draw(st.none() | tables(rows.num_edges, (heads,), dtype))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    weight = torch.rand(rows.num_edges, dtype=dtype, generator=generator) if draw(st.booleans()) else None
    if weight is not None and draw(st.booleans(), label="weights of 0"):
        weight[torch.rand(rows.num_edges, generator=generator) < 0.3] = 0
    ids = torch.randint(-9, 2**40, (rows.num_edges,), generator=generator) if draw(st.booleans()) else None
    dropout = AttentionDropout(draw(st.sampled_from([0.0, 0.3, 0.9])), draw(keys), ids) if draw(st.booleans()) else None
    source, destination = (draw(tables(count, (heads,), dtype)) for count in (rows.num_src, rows.num_dst))
    slope = draw(st.sampled_from([0.2, 0.0, 1.0]))
    return rows, x, AttentionScores(source, destination, edge, weight, slope, dropout)


def expected_attention(rows, scores):
    """The oracle's attention in float64, and what dropout leaves of it."""
    parts = (scores.source, scores.destination, scores.edge, scores.weight)
    source, destination, edge, weight = (None if one is None else one.double().numpy(force=True) for one in parts)
    found = reference.aggregate.attention(*rows.arrays, source, destination, edge, weight, scores.slope)
    kept = None
    if scores.dropout is not None:
        ids = np.arange(rows.num_edges) if scores.dropout.edge_ids is None else scores.dropout.edge_ids.numpy()
        kept = reference.aggregate.kept_attention(
            scores.dropout.key, ids, scores.heads, scores.dropout.probability, np.float64
        )
    return found, kept


@given(attention_inputs(), thread_counts)
def test_equals_the_reference(inputs, num_threads):
    rows, x, scores = inputs
    found = attend(rows.indptr, rows.indices, x, scores, num_threads=num_threads)
    attention, kept = expected_attention(rows, scores)
    wide = x.double().numpy(force=True)
    expected = reference.aggregate.attend(*rows.arrays, wide, attention, kept)
    # Scores are rounded before exp magnifies that: by their size, which is up to some thousands.
    largest = found.largest.numpy()
    size = np.abs(largest[np.isfinite(largest)]).max(initial=1)
    bound = 300 * torch.finfo(x.dtype).eps * size
    sizes = reference.aggregate.attend(*rows.arrays, np.abs(wide), attention, kept)
    assert (np.abs(found.out.numpy() - expected) <= bound * (sizes + np.abs(wide).max(initial=0))).all()


@given(attention_inputs(), st.permutations(range(3)), st.booleans())
def test_parts_of_rows_come_in_any_order(inputs, order, moved):
    """Parts are the edges of each third of the sources, as shards are."""
    rows, x, scores = inputs
    if moved:  # much smaller scores first, or last: what was summed is rescaled
        scores = AttentionScores(
            scores.source - 50 * (torch.arange(rows.num_src) % 3)[:, None], scores.destination, scores.edge,
            scores.weight, scores.slope, scores.dropout,
        )  # fmt: skip
    whole = attend(rows.indptr, rows.indices, x, scores)
    of_row = torch.arange(rows.num_dst).repeat_interleave(rows.indptr.diff())
    state = None
    for part in order:
        (edges,) = torch.where(rows.indices % 3 == part)
        starts = torch.cat([torch.zeros(1).long(), torch.bincount(of_row[edges], minlength=rows.num_dst).cumsum(0)])
        last = part == order[-1]
        state = attend(starts, rows.indices[edges], x, scores, positions=edges, state=state, last=last)
    assert torch.equal(state.largest, whole.largest)
    tolerance = 100 * torch.finfo(x.dtype).eps
    assert torch.allclose(state.sums, whole.sums, rtol=tolerance)
    assert torch.allclose(state.out, whole.out, rtol=0, atol=tolerance * float(x.abs().amax() if x.numel() else 0) * 9)


@pytest.mark.cpu  # instruction sets are
@pytest.mark.kernel
@pytest.mark.parametrize(("heads", "width"), [(1, 64), (4, 16), (8, 3), (3, 1), (5, 100)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_neither_threads_nor_instructions_change_a_bit(heads, width, dtype, instructions):
    """Forward and backward, with everything on; what the portable loops give is written down by the first run."""
    random = np.random.default_rng(width)
    degrees = random.integers(0, 12, 300)
    degrees[7] = 1_000
    rows = rows_of(degrees, 400, random, torch.int32)

    def drawn(*shape):
        return torch.from_numpy(random.standard_normal(shape)).to(dtype)

    x, gradient = drawn(400, heads, width), drawn(300, heads, width)
    dropout = AttentionDropout(0.4, 5)
    scores = AttentionScores(
        drawn(400, heads), drawn(300, heads), drawn(rows.num_edges, heads), drawn(rows.num_edges).abs(), 0.2, dropout
    )
    back = transpose_csc(rows.indptr, rows.indices, 400)
    runs = []
    for threads in (1, 2, 4):
        found = attend(rows.indptr, rows.indices, x, scores, num_threads=threads)
        by_destination = attend_backward_destinations(
            rows.indptr, rows.indices, x, scores, found, gradient, num_threads=threads
        )
        by_source = attend_backward_sources(
            *back[:2], x, scores, found, gradient, positions=back.positions, num_threads=threads
        )
        runs.append((*found, *by_destination, *by_source))
    for other in runs[1:]:
        assert all(torch.equal(part, first) for part, first in zip(other, runs[0], strict=True))
    first_set = FIRST_RUNS.setdefault((heads, width, dtype), runs[0])
    assert all(torch.equal(part, first) for part, first in zip(runs[0], first_set, strict=True))


@given(inputs=attention_inputs(), threads=thread_counts)
def test_gradients_of_rows_may_be_written_over_them(inputs, threads):
    """Bit for bit what they are in a table of their own, also of sources without edges."""
    check_written_over(*inputs, threads)


def test_gradients_of_a_row_with_many_edges_may_be_written_over_it():
    """Its edges are worked on in several segments, all of which read the row."""
    generator = torch.Generator().manual_seed(0)
    source, destination = torch.randn(3, 2, generator=generator), torch.randn(100, 2, generator=generator)
    x = torch.randn(3, 2, 5, generator=generator)
    rows = EdgeRows(torch.arange(101), torch.tensor([2] * 99 + [0]), 3)
    check_written_over(rows, x, AttentionScores(source, destination), 2)


def check_written_over(rows, x, scores, threads) -> None:
    found = attend(rows.indptr, rows.indices, x, scores)
    back, gradient = transpose_csc(rows.indptr, rows.indices, rows.num_src), found.out.cos()
    options = {"positions": back.positions, "num_threads": threads}
    by_source, by_x = attend_backward_sources(*back[:2], x, scores, found, gradient, **options)
    over, sums = x.clone(), torch.zeros_like(scores.source)
    attend_backward_sources(*back[:2], over, scores, found, gradient, out=(sums, over), **options)
    assert torch.equal(over, by_x)
    assert torch.equal(sums, by_source)


FIRST_RUNS: dict = {}  # by case, those of the first instruction set


def test_scores_that_are_no_numbers():
    """-inf does not count, NaN and +inf make their head NaN, and so does a source's row."""
    x = torch.tensor([1.0, 2, 4]).view(3, 1, 1).repeat(1, 2, 1)
    source = torch.tensor([[0.0, 0], [-torch.inf, 0], [0, 0]])
    indptr, indices = torch.tensor([0, 3, 4, 4]), torch.tensor([0, 1, 2, 1])
    found = attend(indptr, indices, x, AttentionScores(source, torch.zeros(3, 2)))
    assert torch.allclose(found.out[0, :, 0], torch.tensor([2.5, 7 / 3]))
    assert found.out[1:, :, 0].tolist() == [[0, 2], [0, 0]]
    for bad in (torch.nan, torch.inf):
        source = torch.tensor([[0.0, 0], [bad, 0], [0, 0]])
        found = attend(indptr, indices, x, AttentionScores(source, torch.zeros(3, 2)))
        assert found.out[:, :, 0].isnan().tolist() == [[True, False], [True, False], [False, False]]
    x[2, 1] = torch.nan
    found = attend(indptr, indices, x, AttentionScores(torch.zeros(3, 2), torch.zeros(3, 2)))
    assert found.out[:, :, 0].isnan().tolist() == [[False, True], [False, False], [False, False]]


@pytest.mark.parametrize("slope", [0.2, 0.0, -0.5])
@pytest.mark.parametrize("by", ["score", "weight"])
def test_edges_that_do_not_count_change_nothing(by, slope):
    """Not even with the largest score of all, and with a slope that makes nothing of -inf."""
    x = torch.tensor([1.0, 2, 4], dtype=torch.float64).view(3, 1, 1)
    source = torch.tensor([[-1.0], [1000], [2]], dtype=torch.float64)
    edge, weight = (torch.full(shape, 1.0, dtype=torch.float64) for shape in ((3, 1), (3,)))
    edge[1], weight[1] = (-torch.inf, 1) if by == "score" else (1, 0)
    found = []
    for kept in ([0, 1, 2], [0, 2]):
        indptr, indices = torch.tensor([0, len(kept)]), torch.tensor(kept)
        scores = AttentionScores(source, torch.zeros(1, 1).double(), edge[kept], weight[kept], slope)
        attended = attend(indptr, indices, x, scores)
        back, gradient = transpose_csc(indptr, indices, 3), torch.ones(1, 1, 1, dtype=torch.float64)
        by_destination, by_edge = attend_backward_destinations(indptr, indices, x, scores, attended, gradient)
        of_sources = attend_backward_sources(*back[:2], x, scores, attended, gradient, positions=back.positions)
        found.append([*attended, by_destination, *of_sources])
        assert by_edge[kept.index(1)] == 0 if 1 in kept else by_edge.isfinite().all()
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


@pytest.mark.cpu  # so many take too long elsewhere
def test_exponentials_are_exact_to_two_units():
    """One destination, whose largest score is 0: sums of two are 1 + exp(x)."""
    for dtype, least in ((torch.float32, -87), (torch.float64, -700)):
        x = torch.cat([torch.linspace(least, 0, 20_001, dtype=dtype), -torch.logspace(-9, 0, 100, dtype=dtype)])
        indptr = torch.arange(len(x) + 1)
        zeros = torch.zeros(len(x), 1, dtype=dtype)
        # The state holds a score of 0 whose sum counts for nothing, so that `sums` is exp(x) itself.
        state = Attended(torch.zeros(len(x), 1, dtype=dtype), zeros.clone(), zeros.clone())
        scores = AttentionScores(x[:, None], zeros, slope=1.0)
        attend(indptr, torch.arange(len(x)), torch.ones(len(x), 1, dtype=dtype), scores, state=state, last=False)
        exact = x.double().numpy().astype(np.longdouble)
        error = np.abs(state.sums[:, 0].numpy() / np.exp(exact) - 1).max()
        assert error <= 2 * torch.finfo(dtype).eps


def test_bad_input_is_refused():
    indptr, indices, x = torch.tensor([0, 1]), torch.tensor([0]), torch.ones(2, 3, 4)
    source, destination = torch.ones(2, 3), torch.ones(1, 3)
    for scores, message in (
        (AttentionScores(source[:, :2], destination), r"expected source scores \[num_src, heads\]"),
        (AttentionScores(source, destination.double()), "destination to be of torch.float32"),
        (AttentionScores(source, torch.ones(2, 3)), r"destination to be \[1, 3\]"),
        (AttentionScores(source, destination, torch.ones(1, 2)), r"edge to be \[1, 3\]"),
        (AttentionScores(source, destination, weight=torch.ones(1, 2)), r"weight to be \[1\]"),
        (source, "scores to be AttentionScores"),
    ):
        with pytest.raises(InputError, match=message):
            attend(indptr, indices, x, scores)
    with pytest.raises(InputError, match="state to be Attended"):
        attend(indptr, indices, x, AttentionScores(source, destination), state=(x, x, x))
    for probability in (1.0, -0.1, "0", True):
        with pytest.raises(InputError, match=r"a number in \[0, 1\)"):
            AttentionDropout(probability, 1)
    with pytest.raises(InputError, match="key to be an int"):
        AttentionDropout(0.5, -1)
