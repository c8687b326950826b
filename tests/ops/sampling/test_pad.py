"""Padding of rows and edges, against an oracle of lists."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops import InputError, reference
from headrace.ops.sampling.pad import Padded, PaddingEdges, pad_edges, pad_rows, real_rows


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


def lacking(sources, destinations, edges):
    """The padding edges of each hop, from the padding rows of the next."""
    last = len(destinations.counts) - 1
    found = []
    for place, (count, size) in enumerate(zip(edges.counts, edges.sizes, strict=True)):
        hop = place if len(edges.counts) > 1 else last
        ends = {"destinations": destinations.padding()[hop], "sources": sources.padding()[hop + 1]}
        found.append([PaddingEdges(size - count, **ends)])
    return found


@given(blocks())
def test_edges_are_those_of_the_oracle_and_padding_joins_padding(block):
    indptr, indices, sources, destinations, edges = block
    padding = lacking(sources, destinations, edges)
    padded, sources_of = pad_edges(
        indptr, indices, sources=sources, destinations=destinations, edges=edges, padding=padding
    )
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


def test_padding_rows_have_values_of_their_own():
    rows = Padded((1, 2), (2, 4))
    assert pad_rows(torch.tensor([5, 6, 7]), rows, torch.tensor([-1, -2, -3])).tolist() == [5, -1, 6, 7, -2, -3]


def padded_ends(rows, edges, padding):
    ends = torch.tensor([0, 1]), torch.tensor([1])
    return pad_edges(*ends, sources=rows, destinations=rows.first(1), edges=edges, padding=padding)


def test_padding_edges_are_divided_among_padding_rows_of_each_kind():
    rows = Padded((1, 1), (4, 4))
    kinds = [
        PaddingEdges(2, destinations=slice(1, 3), sources=slice(5, 6)),
        PaddingEdges(3, destinations=slice(1, 3), sources=slice(6, 8)),
        PaddingEdges(1, destinations=slice(3, 4), sources=slice(5, 6)),
    ]
    indptr, indices = padded_ends(rows, Padded((1,), (7,)), [kinds])
    assert indptr.diff().tolist() == [1, 3, 2, 1]
    assert indices.tolist() == [4, 5, 5, 6, 7, 6, 5]


def test_misfits_are_refused():
    rows, indptr, indices = Padded((1, 1), (2, 2)), torch.tensor([0, 1]), torch.tensor([1])
    one = PaddingEdges(1, destinations=slice(1, 2), sources=slice(3, 4))
    with pytest.raises(InputError, match=r"at least \(2,\)"):
        Padded((2,), (1,))
    with pytest.raises(InputError, match="values of 2 rows"):
        pad_rows(torch.zeros(3), rows, 0)
    with pytest.raises(InputError, match="fill of 2 rows"):
        pad_rows(torch.zeros(2), rows, torch.zeros(1))
    with pytest.raises(InputError, match="one more row in each hop"):
        PaddingEdges(1, destinations=slice(1, 1), sources=slice(3, 4))
    with pytest.raises(InputError, match="indices of 0 rows"):
        padded_ends(rows, Padded((0,), (1,)), [[one]])
    with pytest.raises(InputError, match=r"expected \[1\] padding edges"):
        padded_ends(rows, Padded((1,), (2,)), [[one, one]])
    with pytest.raises(InputError, match="int32 or int64"):
        pad_edges(
            indptr,
            indices.short(),
            sources=rows,
            destinations=rows.first(1),
            edges=Padded((1,), (2,)),
            padding=[[one]],
        )
