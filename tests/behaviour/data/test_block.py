from __future__ import annotations

import pytest
import torch
from small_blocks import block
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten, treespec_dumps, treespec_loads

import headrace as hr


def test_edge_index_rows_are_source_and_destination():
    assert block().edge_index.tolist() == [[1, 4, 0], [0, 0, 2]]
    assert block().edge_index.dtype == torch.int64
    assert block().num_edges == 3
    empty = hr.Block(torch.tensor([0, 0]), torch.tensor([], dtype=torch.int32), 1, 1)
    assert empty.edge_index.shape == (2, 0)
    assert hr.Block(torch.tensor([0]), torch.tensor([], dtype=torch.int64), 0, 0).edge_index.shape == (2, 0)


def test_edge_index_is_made_once():
    one = block()
    assert one.edge_index is one.edge_index


@pytest.mark.parametrize("indptr", [[0, 2, 2, 4], [1, 2, 2, 3], [0, 2, 1, 3]])
def test_edge_index_of_an_indptr_that_bounds_no_rows_is_refused(indptr):
    with pytest.raises(hr.InputError, match="indptr"):
        _ = block(indptr=torch.tensor(indptr)).edge_index


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
def test_adjacency():
    expected = torch.zeros(3, 5)
    expected[0, 1], expected[0, 4], expected[2, 0] = 1, 1, 1
    assert torch.equal(block().adj_t().to_dense(), expected)
    assert block().adj_t(torch.tensor([3, 4, 5])).to_dense().tolist() == [[0, 3, 0, 0, 4], [0] * 5, [5, 0, 0, 0, 0]]
    one = block()
    assert one.adj_t().col_indices().data_ptr() == one.indices.data_ptr()
    wide = block(indices=torch.tensor([1, 4, 0])).adj_t()
    assert wide.crow_indices().dtype == wide.col_indices().dtype == torch.int64
    empty = hr.Block(torch.tensor([0]), torch.tensor([], dtype=torch.int32), 0, 0)
    assert empty.adj_t().shape == (0, 0)
    assert one.to("meta").adj_t().device.type == "meta"


@pytest.mark.parametrize(
    ("changes", "values", "message"),
    [
        ({}, torch.ones(2), r"expected values of \[3\], got float32\[2\]"),
        ({"indices": torch.tensor([1, 5, 0])}, None, r"indices in \[0, num_src = 5\), got 0 to 5"),
        ({"indices": torch.tensor([1, -1, 0])}, None, "got -1 to 1"),
        ({"indptr": torch.tensor([0, 2, 2, 4])}, None, "indptr to rise from 0 to num_edges = 3"),
        ({"indptr": torch.tensor([1, 2, 2, 3])}, None, "indptr to rise from 0"),
        ({"indptr": torch.tensor([0, 4, 2, 3])}, None, "indptr to rise from 0"),
    ],
)
def test_an_adjacency_that_would_be_read_out_of_bounds_is_refused(changes, values, message):
    with pytest.raises(hr.InputError, match=message):
        block(**changes).adj_t(values)


def test_to_moves_every_tensor():
    moved = block().to("meta")
    assert {
        moved.indptr.device.type,
        moved.indices.device.type,
        moved.edge_ids.device.type,
        moved.weight.device.type,
    } == {"meta"}
    bare = block(edge_ids=None, weight=None).to("cpu", non_blocking=True)
    assert bare.edge_ids is None
    assert bare.weight is None
    assert "meta" in repr(moved)


def test_to_pyg_gives_the_arguments_of_a_bipartite_layer():
    x = torch.arange(10.0).reshape(5, 2)
    (source, target), edge_index, size = block().to_pyg(x)
    assert source is x
    assert torch.equal(target, x[:3])
    assert edge_index.tolist() == [[1, 4, 0], [0, 0, 2]]
    assert size == (5, 3)
    with pytest.raises(hr.InputError, match=r"each of 5 sources, got float32\[4, 2\]"):
        block().to_pyg(x[:4])


def test_repr():
    assert repr(block()) == "Block(5 -> 3 nodes, 3 edges, weighted)"


def test_frozen():
    with pytest.raises(AttributeError):
        block().num_src = 3


def test_blocks_are_pytrees_whose_leaves_are_their_tensors():
    graph = hr.Graph.from_coo({("a", "to", "b"): ([0, 1], [0, 0])}, num_nodes={"a": 2, "b": 1})
    loader = hr.ItemSampler({"b": 1}, seed=0).sample_neighbor(graph, [-1]).loader()
    block = next(iter(loader)).blocks[0]
    leaves, tree = tree_flatten(block)
    assert [id(one) for one in leaves] == [
        id(one) for one in (block.indptr, block.indices, block.edge_ids, block.types.ids)
    ]
    made = tree_unflatten(leaves, tree)
    assert made.edge_ids is block.edge_ids
    assert (made.num_src, made.num_dst, made.weight, made.bipartite) == (block.num_src, block.num_dst, None, False)
    assert made.relation(("a", "to", "b")).indices.tolist() == block.relation(("a", "to", "b")).indices.tolist()
    assert treespec_loads(treespec_dumps(tree)) == tree
    # No leaf is checked: torch puts there what it likes while it walks.
    assert tree_map(lambda _: None, block).indptr is None
