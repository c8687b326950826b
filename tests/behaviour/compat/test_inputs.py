"""Seeds and links that the data do not have are refused by name, and leave the data as they are."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import headrace as hr
from headrace.pyg import LinkNeighborLoader, NeighborLoader

WRITES = ("author", "writes", "paper")


@pytest.fixture(params=["object", "stores"])
def typed(request, hetero, typed_stores):
    """A graph with types, in both forms."""
    return hetero if request.param == "object" else typed_stores


TYPES = r"\['paper', 'author', 'venue'\]"


@pytest.mark.parametrize(
    ("input_nodes", "match"),
    [
        ("papers", rf"got 'papers'; there are {TYPES}"),
        (("papers", torch.tensor([1])), rf"got 'papers'; there are {TYPES}"),
        (("papers", None), rf"got 'papers'; there are {TYPES}"),
        (None, rf"or \(node type, ids or mask\), got None; there are {TYPES}"),
        (torch.arange(3), rf"got a Tensor; there are {TYPES}"),
        ([0, 1, 2], rf"got \(0, 1, 2\); there are {TYPES}"),
        ((), rf"got \(\); there are {TYPES}"),
        (("paper", torch.ones(7, dtype=torch.bool)), r"each of 60 nodes, got one of shape \[7\]"),
        (("paper", torch.zeros(2, 2, dtype=torch.int64)), r"one dimension, got shape \[2, 2\]"),
    ],
)
def test_seeds_of_types(hetero, typed, input_nodes, match):
    before = hetero.node_types
    with pytest.raises(hr.InputError, match=match):
        NeighborLoader(typed, [2], input_nodes)
    assert hetero.node_types == before
    assert len(list(NeighborLoader(hetero, [2], "paper", batch_size=60))) == 1, "the right call goes on"


@pytest.mark.parametrize(
    ("links", "match"),
    [
        (None, r"or \(edge type, links\), got None; there are \[\('paper', 'cites', 'paper'\)"),
        (torch.zeros(2, 3, dtype=torch.int64), "got a Tensor; there are"),
        ("writes", "got 'writes'; there are"),
        ((), r"got \(\); there are"),
        (("writes", torch.zeros(2, 3, dtype=torch.int64)), r"got \('writes', a Tensor\); there are"),
        (("author", "reads", "paper"), r"got \('author', 'reads', 'paper'\); there are \[\('paper', 'cites'"),
        ((("author", "reads", "paper"), None), r"got \('author', 'reads', 'paper'\); there are \[\('paper', 'cites'"),
        ((("author", "reads", "book"), torch.zeros(2, 3, dtype=torch.int64)), rf"between node types .* are {TYPES}"),
        ((WRITES, torch.zeros(3, 2, dtype=torch.int64)), r"int\[2, num_links\], got torch.int64 of shape \[3, 2\]"),
    ],
)
def test_links_of_types(hetero, typed, links, match):
    before = hetero.metadata()
    with pytest.raises(hr.InputError, match=match):
        LinkNeighborLoader(typed, [2], links)
    assert hetero.metadata() == before
    assert len(list(LinkNeighborLoader(hetero, [2], WRITES, batch_size=150))) == 1, "the right call goes on"


def test_links_need_not_be_of_a_type_that_has_edges(hetero, typed_stores):
    """As with PyG: a model of links that nobody knows yet; and short names are read as PyG reads them."""
    links = torch.tensor([[3, 1], [20, 7]])
    for typed in (hetero, typed_stores):
        (batch,) = LinkNeighborLoader(typed, [2], (("author", "reads", "paper"), links), batch_size=2)
        row, col = batch["author", "reads", "paper"].edge_label_index
        assert torch.equal(torch.stack([batch["author"].n_id[row], batch["paper"].n_id[col]]), links)
    for short in (("author", "paper"), (("author", "paper"), None), [*WRITES]):
        (batch,) = LinkNeighborLoader(hetero, [2], short, batch_size=150)
        assert batch[WRITES].edge_label_index.shape == (2, 150)


def test_all_seeds_of_a_type_of_stores(typed):
    for seeds in ("author", ("author", None)):
        (batch,) = NeighborLoader(typed, [2], seeds, batch_size=40)
        assert torch.equal(batch["author"].n_id[:40], torch.arange(40))


def test_seeds_in_other_containers(data):
    for nodes in ([5, 3], (5, 3), range(5, 2, -2), np.array([5, 3], dtype=np.int32), [torch.tensor(5), 3]):
        (batch,) = NeighborLoader(data, [2], nodes, batch_size=2)
        assert batch.n_id[:2].tolist() == [5, 3]
    assert list(NeighborLoader(data, [2], [])) == []


def test_labels_of_several_columns(data):
    label, ids = torch.arange(20).view(10, 2), torch.arange(10) + 50
    (batch,) = LinkNeighborLoader(data, [2], data.edge_index[:, :10], label, input_id=ids, batch_size=10)
    assert torch.equal(batch.edge_label, label)
    assert torch.equal(batch.input_id, ids)


def test_stores_without_types(data, stores):
    links = data.edge_index[:, :6]
    for input_nodes, match in (
        (None, "expected input_nodes beside"),
        ("paper", "integer ids or a mask of nodes, got 'paper'"),
        (torch.ones(50, dtype=torch.bool), "each of 120 nodes"),
    ):
        with pytest.raises(hr.InputError, match=match):
            NeighborLoader(stores, [2], input_nodes)
    for edges in (None, links, WRITES):
        with pytest.raises(hr.InputError, match=r"expected \(None, links\) of a GraphStore without types"):
            LinkNeighborLoader(stores, [2], edges)
    (batch,) = LinkNeighborLoader(stores, [2], (None, links), batch_size=6)
    assert torch.equal(batch.n_id[batch.edge_label_index], links)
