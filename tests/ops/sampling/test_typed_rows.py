"""Rows of nodes and relations against the edges and the reference, and what no such rows can be found of."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typed_graphs import TypedGraph, typed_graphs

from headrace import ops
from headrace.ops import _native
from headrace.ops.reference.typed_rows import typed_rows as oracle_of

from samples import numpy_of
from strategies import thread_counts


def relation_offsets(graph: TypedGraph) -> torch.Tensor:
    counts = np.bincount(graph.relation_of_edge, minlength=graph.num_relations)
    return torch.from_numpy(np.concatenate([[0], np.cumsum(counts)]))


@pytest.fixture(params=[False, True], ids=["by the work", "on all threads"])
def shares_all_work(request):
    _native.share_all_work(request.param)
    yield
    _native.share_all_work(False)


@given(typed_graphs())
def test_rows_are_the_edges_of_each_node_and_relation(graph):
    ids = np.arange(graph.num_edges) if graph.edge_ids is None else graph.edge_ids.numpy()
    nodes = torch.arange(graph.rows.num_nodes)
    seen = 0
    for relation in range(graph.num_relations):
        places, rows = graph.rows.rows_of(nodes, relation)
        for node, row in zip(places.tolist(), rows.tolist(), strict=True):
            found = ids[graph.rows.row_ptr[row] : graph.rows.row_ptr[row + 1]]
            wanted = (graph.relation_of_edge == relation) & (graph.destination_of_edge == node)
            assert found.tolist() == np.flatnonzero(wanted).tolist()  # in input order
            seen += len(found)
    assert seen == graph.num_edges


@pytest.mark.usefixtures("shares_all_work")
@given(typed_graphs(), thread_counts, st.booleans(), st.data())
def test_rows_equal_the_reference_or_are_refused_as_there(graph, num_threads, wide, data):
    """Also where edges are of other relations than they were: beyond the last, out of order, or ending elsewhere."""
    offsets, ids = relation_offsets(graph), graph.edge_ids
    if ids is not None:
        ids = ids.to(torch.int64 if wide else torch.int32)
    if data.draw(st.booleans(), label="damaged"):
        high = graph.num_edges + data.draw(st.sampled_from([0, 0, 0, 1]), label="beyond")
        others = data.draw(st.lists(st.integers(0, high), min_size=graph.num_edges, max_size=graph.num_edges))
        ids = torch.tensor(others, dtype=torch.int64).clamp(max=max(high - 1, 0))
    types = (graph.rows.first_nodes, graph.rows.relations)
    try:
        expected = oracle_of(graph.indptr.numpy(), offsets.numpy(), numpy_of(ids), *types)
    except ValueError as refusal:
        match = {"beyond": "end of the last relation", "sorted": "sorted by edge type"}.get(str(refusal), str(refusal))
        with pytest.raises(ops.InputError, match=match):
            ops.typed_rows(graph.indptr, offsets, ids, *types, num_threads=num_threads)
    else:
        rows = ops.typed_rows(graph.indptr, offsets, ids, *types, num_threads=num_threads)
        assert rows.row_ptr.tolist() == expected.tolist()


@pytest.mark.parametrize("num_threads", [1, 3])
def test_rows_of_many_nodes_are_found_in_parts(num_threads):
    """A type that ends in the midst of a part, one without a node, and a node of most edges."""
    generator = torch.Generator().manual_seed(1)
    num_nodes, num_edges = 5_000, 400_000
    first_nodes, ends = (0, 1_234, 1_234, num_nodes), [(0, 2), (2,), (1, 2), (0, 1, 2)]
    dst = torch.randint(num_nodes, (num_edges,), generator=generator)
    dst[::2] = 3_000
    relation = torch.randint(4, (num_edges,), generator=generator)
    relation = torch.where(dst < 1_234, relation // 2 * 3, relation).sort()
    dst = dst[relation.indices]
    csc = ops.coo_to_csc(torch.zeros_like(dst), dst, num_nodes)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(relation.values, minlength=4).cumsum(0)])
    rows = ops.typed_rows(csc.indptr, offsets, csc.edge_ids, first_nodes, ends, num_threads=num_threads)
    numbers = torch.full((3, 4), -1)
    for node_type, relations in enumerate([(0, 3), (2, 3), (0, 1, 2, 3)]):
        numbers[node_type, list(relations)] = torch.arange(len(relations))
    small = dst < 1_234
    of_edges = (
        torch.where(small, 2 * dst, 2 * 1_234 + 4 * (dst - 1_234)) + numbers[torch.where(small, 0, 2), relation.values]
    )
    assert torch.equal(rows.row_ptr.diff(), torch.bincount(of_edges, minlength=rows.num_rows))


def test_nodes_in_which_no_relation_ends_have_a_row():
    csc = ops.coo_to_csc(torch.tensor([0]), torch.tensor([2]), 4)
    rows = ops.typed_rows(csc.indptr, torch.tensor([0, 1]), None, (0, 2, 4), [(1,)])
    assert rows.row_ptr.tolist() == [0, 0, 0, 1, 1]
    places, numbers = rows.rows_of(torch.arange(4), 0)
    assert (places.tolist(), numbers.tolist()) == ([2, 3], [2, 3])


@pytest.mark.usefixtures("shares_all_work")
@pytest.mark.parametrize("num_threads", [1, 4])
def test_the_first_edge_that_ends_elsewhere_is_named(num_threads):
    csc = ops.coo_to_csc(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 0, 2, 3]), 4)
    with pytest.raises(ops.InputError, match="edge 2 of relation 0 ends in node 2, which has another type"):
        ops.typed_rows(csc.indptr, torch.tensor([0, 4]), csc.edge_ids, (0, 2, 4), [(0,)], num_threads=num_threads)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"relations": [(0,), (1,)]}, "edge 0 of relation 0 ends in node 2, which has another type"),
        ({"edge_ids": torch.tensor([1, 0])}, "sorted by edge type"),
        ({"edge_ids": torch.tensor([0, 2])}, "edge ids below 2, the end of the last relation"),
        ({"edge_ids": torch.tensor([-1, 1])}, "edge ids below 2, the end of the last relation"),
        ({"edge_ids": torch.tensor([0, 2]), "relations": [(0,), (1,)]}, "end of the last relation"),
        ({"edge_ids": torch.tensor([1, 0]), "relations": [(0,), (1,)]}, "edge 0 of relation 0 ends in node 2"),
        ({"edge_ids": torch.tensor([0])}, "one entry per edge"),
        ({"edge_ids": torch.tensor([0.0, 1.0])}, "edge_ids to be a 1-d CPU tensor"),
        ({"relation_offsets": torch.tensor([0, 2])}, "an offset for each of 2 relations"),
        ({"relation_offsets": torch.tensor([0, 2, 1])}, "relation_offsets to rise from 0"),
        ({"relation_offsets": torch.tensor([1, 1, 2])}, "relation_offsets to rise from 0"),
        ({"first_nodes": (0, 2)}, "first_nodes to rise from 0 to 3"),
        ({"first_nodes": (0, 4, 3)}, "first_nodes to rise from 0 to 3"),
        ({"first_nodes": ()}, "first_nodes to rise from 0 to 3"),
        ({"indptr": torch.tensor([0, 3, 1, 2])}, "indptr to rise from 0"),
        ({"indptr": torch.tensor([0, 0, 0, -1])}, "indptr to rise from 0"),
        (
            {"indptr": torch.tensor([], dtype=torch.int64), "first_nodes": (0,), "relations": [()] * 2},
            "num_nodes [+] 1 entries",
        ),
        ({"num_threads": 0}, "num_threads"),
    ],
)
def test_refusals(change, match):
    """Ids beyond the relations before edges that end elsewhere, these before rows out of order."""
    arguments = {
        "indptr": torch.tensor([0, 0, 0, 2]),
        "relation_offsets": torch.tensor([0, 1, 2]),
        "edge_ids": None,
        "first_nodes": (0, 2, 3),
        "relations": [(1,), (0, 1)],
    }
    ops.typed_rows(**arguments)
    with pytest.raises(ops.InputError, match=match):
        ops.typed_rows(**arguments | change)
