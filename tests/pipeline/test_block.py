from __future__ import annotations

import pytest
import torch

import headrace as hr


def block(**changes):
    arguments = {
        "indptr": torch.tensor([0, 2, 2, 3]),
        "indices": torch.tensor([1, 4, 0], dtype=torch.int32),
        "num_src": 5,
        "num_dst": 3,
        "edge_ids": torch.tensor([7, 8, 9]),
        "weight": torch.tensor([1.0, 2.0, 3.0]),
    }
    return hr.Block(**{**arguments, **changes})


def test_edge_index_rows_are_source_and_destination():
    assert block().edge_index.tolist() == [[1, 4, 0], [0, 0, 2]]
    assert block().edge_index.dtype == torch.int64
    assert block().num_edges == 3
    empty = hr.Block(torch.tensor([0, 0]), torch.tensor([], dtype=torch.int32), 1, 1)
    assert empty.edge_index.shape == (2, 0)
    assert hr.Block(torch.tensor([0]), torch.tensor([], dtype=torch.int64), 0, 0).edge_index.shape == (2, 0)


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indptr": torch.tensor([0, 3])}, r"indptr of int64\[4\]"),
        ({"indptr": torch.tensor([0, 2, 2, 3], dtype=torch.int32)}, "indptr of int64"),
        ({"indices": torch.tensor([0.0, 1.0, 2.0])}, "indices of int32 or int64"),
        ({"num_src": 2}, "num_dst <= num_src"),
        ({"edge_ids": torch.tensor([1])}, r"edge_ids of int64\[3\]"),
        ({"edge_ids": torch.tensor([1, 2, 3], dtype=torch.int32)}, "edge_ids of int64"),
        ({"weight": torch.tensor([1.0])}, r"weight of \[3\]"),
    ],
)
def test_bad_blocks_are_refused(changes, message):
    with pytest.raises(hr.InputError, match=message):
        block(**changes)


def test_repr():
    assert repr(block()) == "Block(5 -> 3 nodes, 3 edges, weighted)"


def test_frozen():
    with pytest.raises(AttributeError):
        block().num_src = 3
