"""The edges into chosen nodes, in pieces, against their rows one by one."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops.graphs.rows import edge_positions, row_starts, starts_of

from strategies import csc_graphs, nodes_of


@given(st.data(), st.integers(1, 40))
def test_pieces_are_the_rows_one_after_the_other(data, piece_edges):
    graph = data.draw(csc_graphs())
    rows = data.draw(nodes_of(graph, unique=False))
    expected = [torch.arange(graph.indptr[v], graph.indptr[v + 1]) for v in rows.tolist()]
    starts = row_starts(graph.indptr, rows)
    assert starts.diff().tolist() == [len(row) for row in expected]
    assert int(starts[0]) == 0

    found, end = [], 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.ops.graphs.rows.PIECE_EDGES", piece_edges)
        for piece, positions in edge_positions(graph.indptr, rows, starts):
            assert piece.start == end
            assert 0 < len(positions) == piece.stop - piece.start <= piece_edges
            found.append(positions)
            end = piece.stop
    assert torch.equal(torch.cat([torch.empty(0, dtype=torch.int64), *found]), torch.cat([starts[:0], *expected]))


@given(st.lists(st.integers(0, 9)), st.booleans())
def test_starts_are_running_sums_from_zero(counts, as_bool):
    sizes = torch.tensor(counts, dtype=torch.bool if as_bool else torch.int64)
    expected = [int(sizes[:place].sum()) for place in range(len(counts) + 1)]
    assert starts_of(sizes).tolist() == expected
    assert starts_of(sizes).dtype == torch.int64
