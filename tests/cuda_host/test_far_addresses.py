"""Products of rows and widths beyond 32 bits, in all kernels but those that copy rows (`test_addresses.py`)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headrace.cuda import attention, spmm
from headrace.cuda.backend import stand_in
from headrace.cuda.cache import WAYS, SetIndex
from headrace.cuda.edge_rows import EdgeRows
from headrace.cuda.fetch_rows import LINE_EDGES, RowLines, copy_lines
from headrace.cuda.hop import GpuGraph
from headrace.cuda.launch import launch
from headrace.cuda.rows import scatter_add_rows

from cuda_host.stand_in import StandIn

CPU = torch.device("cpu")
#: Where numbers of 32 bits change their sign, and begin anew.
EDGES = (0, 1 << 31, 1 << 32)
HEADS, WIDTH = 2, 6


@pytest.fixture(autouse=True)
def gpu():
    with stand_in(StandIn()):
        yield


@pytest.fixture
def far(tmp_path):
    """Return arrays of zeros; what nobody writes takes no memory."""
    arrays = []

    def zeros(*shape, dtype=torch.float32):
        path = tmp_path / str(len(arrays))
        arrays.append(path)
        made = np.memmap(path, torch.empty(0, dtype=dtype).numpy().dtype, "w+", shape=shape)
        path.unlink()
        return torch.from_numpy(made)

    return zeros


def rows_about(width, index=torch.int64):
    """Rows whose first entries are about the edges, and how many rows there must be."""
    most = torch.iinfo(index).max - 4
    rows = torch.cat([torch.arange(4) + max(edge // width - 1, 0) for edge in EDGES if edge // width < most])
    return rows, int(rows.max()) + 1


def spread(far, table, rows, num_rows):
    """Return a table with rows far from each other."""
    out = far(num_rows, *table.shape[1:], dtype=table.dtype)
    out[rows] = table
    return out


class Edges:
    """Some edges of three rows, which lead to rows and stand at positions: near, and far."""

    def __init__(self, width, index):
        self.rows, self.num_rows = rows_about(width, index)
        self.positions, self.num_positions = rows_about(HEADS)
        count = len(self.rows)
        order = torch.randperm(count)
        indptr = torch.tensor([0, 5, 5, count])
        self.near = EdgeRows(indptr, order.to(index), torch.arange(count).flip(0).to(index))
        # Positions have too many bits for int32.
        wide = self.positions if index == torch.int64 else torch.arange(count)
        self.at = wide.flip(0)
        self.far = EdgeRows(indptr, self.rows[order].to(index), self.at.to(index))
        self.has_far_positions = index == torch.int64

    def of_rows(self, far, table):
        return spread(far, table, self.rows, self.num_rows)

    def of_edges(self, far, table):
        return spread(far, table, self.at.flip(0), self.num_positions) if self.has_far_positions else table.clone()


INDICES = pytest.mark.parametrize("index", [torch.int32, torch.int64])


@INDICES
def test_sums(index, far):
    edges = Edges(WIDTH, index)
    x, weight = torch.randn(len(edges.rows), WIDTH), torch.randn(len(edges.rows), HEADS)
    tables = [(edges.near, x, weight), (edges.far, edges.of_rows(far, x), edges.of_edges(far, weight))]
    found = []
    for rows, source, weights in tables:
        out = torch.zeros(3, WIDTH)
        spmm.spmm(rows, source, weights, None, out, fresh=True)
        found.append(out)
    assert torch.equal(*found)
    assert found[0].count_nonzero() == 2 * WIDTH


@INDICES
def test_extremes_there_and_back(index, far):
    edges = Edges(WIDTH, index)
    x, weight = torch.randn(len(edges.rows), WIDTH), torch.randn(len(edges.rows), HEADS)
    found = []
    for rows, source, weights in (
        (edges.near, x, weight),
        (edges.far, edges.of_rows(far, x), edges.of_edges(far, weight)),
    ):
        out, winners = torch.zeros(3, WIDTH), torch.zeros(3, WIDTH, dtype=torch.int64)
        spmm.spmm_extreme(rows, source, weights, out, winners, largest=True, fresh=True, last=True)
        found.append((out, winners))
    (near, won), (out, winners) = found
    assert torch.equal(out, near)
    at = torch.cat([edges.at.flip(0), torch.tensor([-1])])  # where a position of the near ones is
    assert torch.equal(winners, at[won])

    gradients, takes = torch.randn(len(edges.rows), WIDTH), torch.rand(len(edges.rows), WIDTH) < 0.5
    near_winners = torch.where(
        takes, edges.near.positions.long()[torch.argsort(edges.near.indices.long())][:, None], -1
    )
    back = torch.zeros(3, WIDTH)
    spmm.spmm_winners(edges.near, gradients, near_winners, weight, back, fresh=True)
    far_winners = edges.of_rows(far, at[near_winners])
    far_back = torch.zeros(3, WIDTH)
    arguments = edges.of_rows(far, gradients), far_winners, edges.of_edges(far, weight)
    spmm.spmm_winners(edges.far, *arguments, far_back, fresh=True)
    assert torch.equal(far_back, back)
    assert back.count_nonzero()


def far_indptr(far, row_of_edge, num_rows):
    """Return the beginnings of so many rows, as far as a search for the rows of edges reads them."""
    indptr = far(num_rows + 1, dtype=torch.int64)
    for row in {*row_of_edge.tolist()}:
        low, high = 0, num_rows
        while high - low > 1:
            middle = low + (high - low) // 2
            indptr[middle] = int((row_of_edge < middle).sum())
            low, high = (middle, high) if middle <= row else (low, middle)
    indptr[-1] = len(row_of_edge)
    return indptr


@INDICES
@pytest.mark.parametrize("won", [False, True])
def test_dot_products(won, index, far):
    edges = Edges(WIDTH, index)
    count = len(edges.rows)
    a, b = torch.randn(count, WIDTH), torch.randn(count, WIDTH)
    winners = edges.near.positions.long()[:, None].expand(-1, WIDTH).contiguous() if won else None
    near = EdgeRows(torch.arange(count + 1), edges.near.indices, edges.near.positions)
    expected = torch.zeros(count, HEADS)
    spmm.sddmm(near, a, b, expected, winners)
    there = EdgeRows(far_indptr(far, edges.rows, edges.num_rows), edges.far.indices, edges.far.positions)
    out = edges.of_edges(far, torch.zeros(count, HEADS))
    far_winners = edges.of_rows(far, edges.at[:, None].expand(-1, WIDTH).contiguous()) if won else None
    spmm.sddmm(there, edges.of_rows(far, a), edges.of_rows(far, b), out, far_winners)
    assert torch.equal(out[edges.at.flip(0)], expected)
    assert expected.count_nonzero() == count * HEADS


def scores_of(source, destination, edge, weight):
    return attention.Scores(source, destination, edge, weight, 0.2, 5, 1 << 30, 1.5, None)


#: Heads, and columns: products with one of them are beyond 32 bits, and with the other one.
@INDICES
@pytest.mark.parametrize("width", [HEADS, WIDTH])
def test_attention(width, index, far):
    edges = Edges(width, index)
    count = len(edges.rows)
    x, source, edge = torch.randn(count, width), torch.randn(count, HEADS), torch.randn(count, HEADS)
    destination, weight, gradients = torch.randn(3, HEADS), torch.rand(count), torch.randn(3, width)
    # Streams of dropout go by ids of edges.
    ids = torch.arange(count)
    found = []
    for rows, xs, sources, edge_scores, weights, edge_ids in (
        (edges.near, x, source, edge, weight, ids),
        (
            edges.far,
            edges.of_rows(far, x),
            edges.of_rows(far, source),
            *(edges.of_edges(far, one) for one in (edge, weight, ids)),
        ),
    ):
        scores = scores_of(sources, destination, edge_scores, weights)._replace(edge_ids=edge_ids)
        state = attention.State(torch.zeros(3, width), torch.zeros(3, HEADS), torch.zeros(3, HEADS))
        attention.attend(rows, scores, xs, state, fresh=True, last=True)
        by_score = torch.zeros(3, HEADS)
        by_edge = torch.zeros(count, HEADS) if rows is edges.near else edges.of_edges(far, torch.zeros(count, HEADS))
        attention.attend_backward(rows, scores, xs, state, gradients, by_score, by_edge=by_edge)
        found.append((*state, by_score, by_edge if rows is edges.near else by_edge[edges.at.flip(0)]))
    assert all(map(torch.equal, *found))
    assert all(one.count_nonzero() for one in found[0])


@INDICES
def test_attention_back_to_sources(index, far):
    """Rows are sources here, and what all edges of a destination share is far away, four numbers for each head."""
    edges = Edges(4 * HEADS, index)
    count, width = len(edges.rows), 4 * HEADS
    centres, gradients = torch.rand(count, 4, HEADS) + 0.5, torch.randn(count, width)
    x, source = torch.randn(3, width), torch.randn(3, HEADS)
    found = []
    for rows, shared, others in (
        (edges.near, centres, gradients),
        (edges.far, edges.of_rows(far, centres), edges.of_rows(far, gradients)),
    ):
        by_score, by_x = torch.zeros(3, HEADS), torch.zeros(3, width)
        of_edges = (None, None, 0.2, 0, 0, 1.0, None)
        arguments = (*rows.arguments, HEADS, source, *of_edges, shared, x, others, width, by_score, None, by_x)
        launch("attend_backward", rows.types(x), 96, *arguments, device=CPU)
        found.append((by_score, by_x))
    assert all(map(torch.equal, *found))
    assert all(one.count_nonzero() for one in found[0])


@INDICES
def test_rows_that_are_added(index, far):
    ids, num_rows = rows_about(3, index)
    rows = torch.randn(2 * len(ids), 3)
    out = far(num_rows, 3)
    scatter_add_rows(out, torch.cat([ids, ids.flip(0)]).to(index), rows, trusted=True)
    assert torch.equal(out[ids], rows[: len(ids)] + rows[len(ids) :].flip(0))


@INDICES
def test_lines_of_a_graph_and_its_cache(index, far):
    lines, num_lines = rows_about(LINE_EDGES)
    indices = far(num_lines * LINE_EDGES, dtype=index)
    count = len(lines)
    held = torch.randint(1, 1 << 30, (count, LINE_EDGES)).to(index)
    indices.view(-1, LINE_EDGES)[lines] = held
    graph = GpuGraph(torch.zeros(1, dtype=torch.int64), indices)
    starts, sizes = lines * LINE_EDGES, torch.full((count,), LINE_EDGES)
    indptr = torch.arange(count + 1) * LINE_EDGES
    rows = RowLines(indptr, starts, sizes, count * LINE_EDGES, torch.arange(count), lines)
    assert indices.data_ptr() % (LINE_EDGES * indices.element_size()) == 0  # lines begin with the array
    entries, nowhere = far(num_lines * LINE_EDGES, dtype=index), torch.full((count,), -1)
    for slots, fills in ((nowhere, lines), (lines, nowhere)):  # lines are filled, and then read
        out = torch.zeros(count * LINE_EDGES, dtype=index)
        copy_lines(graph, rows, (slots, fills, entries), out)
        assert torch.equal(out.view(count, -1), held)
        assert torch.equal(entries.view(-1, LINE_EDGES)[lines], held)


@INDICES
def test_slots_of_a_cache(index, far):
    sets, num_sets = rows_about(WAYS)
    cache = SetIndex(WAYS, CPU, is_mixed=False)
    cache._sets = (num_sets, WAYS, 0, False)
    cache.ids, cache._used, cache._next = (far(num_sets * WAYS, dtype=torch.int64) for _ in range(3))
    cache.ids.view(-1, WAYS)[sets] = -1
    ids = sets.to(index)  # each in the set of its number
    slots, fills = cache.look_up(ids, [], keep_found=True)
    assert slots.tolist() == [-1] * len(ids)
    assert torch.equal(fills // WAYS, sets)
    assert torch.equal(cache.look_up(ids, [], keep_found=True)[0], fills)
    begin = far(num_sets, dtype=torch.int64)
    begin[sets] = -1
    known = (num_sets, WAYS, 0, False, cache.ids, cache._next, 7, ids, sets, sets.int(), 0, begin, begin)
    launch("expect_ids", (index, index), WAYS * len(ids), ids, len(ids), 3, *known, device=CPU)
    assert cache._next[fills].tolist() == [(7 << 16) + 3] * len(ids)
