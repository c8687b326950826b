"""Padding of rows and edges, against an oracle of lists."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops import InputError, reference
from headrace.ops.sampling.pad import Padded, pad_edges, pad_rows, real_rows


@st.composite
def blocks(draw):
    """A block of up to three hops of destinations, one more of sources, and sizes with room for padding edges."""
    hops = draw(st.integers(1, 3))
    counts = tuple(draw(st.lists(st.integers(0, 4), min_size=hops + 1, max_size=hops + 1)))
    sizes = tuple(count + draw(st.integers(1, 4)) for count in counts)
    num_dst, num_src = sum(counts[:hops]), sum(counts)
    degrees = draw(st.lists(st.integers(0, 3), min_size=num_dst, max_size=num_dst))
    indices = [draw(st.integers(0, num_src - 1)) for _ in range(sum(degrees))]
    indptr = torch.tensor([0, *torch.tensor(degrees, dtype=torch.int64).cumsum(0).tolist()])
    groups, start = [], 0
    for count in counts[:hops]:
        groups.append(sum(degrees[start : start + count]))
        start += count
    if draw(st.booleans()):
        groups = [sum(groups)]
    edge_sizes = tuple(group + draw(st.integers(0, 6)) for group in groups)
    dtype = draw(st.sampled_from([torch.int32, torch.int64]))
    sources, edges = Padded(counts, sizes), Padded(tuple(groups), edge_sizes)
    return indptr, torch.tensor(indices, dtype=dtype), sources, sources.first(hops), edges


@given(blocks())
def test_edges_are_those_of_the_oracle_and_padding_joins_padding(block):
    indptr, indices, sources, destinations, edges = block
    padded, sources_of = pad_edges(indptr, indices, sources=sources, destinations=destinations, edges=edges)
    assert padded.dtype == indptr.dtype
    assert sources_of.dtype == indices.dtype
    assert len(padded) == destinations.num_rows + 1
    assert int(padded[-1]) == len(sources_of) == edges.num_rows
    rows = torch.arange(destinations.num_rows).repeat_interleave(padded.diff())
    found = list(zip(sources_of.tolist(), rows.tolist(), strict=True))
    is_edge = real_rows(edges, indptr.device)
    real = [edge for edge, known in zip(found, is_edge.tolist(), strict=True) if known]
    assert real == reference.pad.real_edges(indptr.tolist(), indices.tolist(), sources.counts, sources.sizes)
    is_source, is_destination = real_rows(sources, indptr.device), real_rows(destinations, indptr.device)
    for source, row in (edge for edge, known in zip(found, is_edge.tolist(), strict=True) if not known):
        assert not is_source[source]
        assert not is_destination[row]
        hop = next(place for place, known in enumerate(sources.padding()) if row in range(known.start, known.stop))
        found_next = sources.padding()[hop + 1]  # so that a model may leave out later hops
        assert source in range(found_next.start, found_next.stop)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=4), st.booleans())
def test_rows_are_those_of_the_oracle(hops, wide):
    counts, sizes = tuple(count for count, _ in hops), tuple(count + more for count, more in hops)
    values = torch.arange(sum(counts), dtype=torch.float64)
    values = torch.stack([values, -values], 1) if wide else values
    expected = reference.pad.pad_rows(values.tolist(), counts, sizes, [9.0, 9.0] if wide else 9.0)
    assert pad_rows(values, Padded(counts, sizes), 9.0).tolist() == expected


def test_padding_edges_are_divided_among_padding_rows():
    rows = Padded((1, 1), (3, 4))
    indptr, indices = pad_edges(
        torch.tensor([0, 1]),
        torch.tensor([1]),
        sources=rows,
        destinations=rows.first(1),
        edges=Padded((1,), (6,)),
    )
    assert indptr.diff().tolist() == [1, 3, 2]
    assert indices.tolist() == [3, 4, 5, 6, 4, 5]


def test_misfits_are_refused():
    rows, indptr, indices = Padded((1, 1), (1, 2)), torch.tensor([0, 1]), torch.tensor([1])
    with pytest.raises(InputError, match="at least \\(2,\\)"):
        Padded((2,), (1,))
    with pytest.raises(InputError, match="values of 2 rows"):
        pad_rows(torch.zeros(3), rows, 0)
    for edges, problem in (((1,), "one more row in each hop"), ((0,), "indices of 0 rows"), ((0, 0, 1), "1 hops")):
        with pytest.raises(InputError, match=problem):
            sizes = tuple(count + 1 for count in edges)
            pad_edges(indptr, indices, sources=rows, destinations=rows.first(1), edges=Padded(edges, sizes))
    with pytest.raises(InputError, match="int32 or int64"):
        pad_edges(indptr, indices.short(), sources=rows, destinations=rows.first(1), edges=Padded((1,), (1,)))
