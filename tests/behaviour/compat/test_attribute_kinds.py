"""Kinds of attributes: rows are taken of them, they are the whole graph's, or they are refused with what to write."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric import Index
from torch_geometric.data import Batch, Data

import headrace as hr
from headrace.pyg import (
    ClusterData,
    GraphSAINTNodeSampler,
    LinkNeighborLoader,
    NeighborLoader,
    ShaDowKHopSampler,
)

pytestmark = pytest.mark.filterwarnings("ignore:Sparse", "ignore:.*nested tensors is in prototype stage")
NODES, EDGES = 120, 700  # of the fixture

#: Each loader over a graph.
LOADERS = {
    "NeighborLoader": lambda data: NeighborLoader(data, [3], torch.arange(4), batch_size=4),
    "LinkNeighborLoader": lambda data: LinkNeighborLoader(data, [3], batch_size=4),
    "ShaDowKHopSampler": lambda data: ShaDowKHopSampler(data, 1, 2, batch_size=4),
    "GraphSAINTNodeSampler": lambda data: GraphSAINTNodeSampler(data, 4),
    "ClusterData": lambda data: ClusterData(data, 2, log=False),
}

REFUSED = {
    "scipy": (
        lambda: scipy.sparse.eye(NODES, 9, format="csr"),
        r"a csr_matrix of.*= torch.from_numpy\(data.one.toarray",
    ),
    "scipy array": (lambda: scipy.sparse.eye_array(EDGES, 9, format="coo"), "a coo_array of .*sparse_coo_tensor"),
    "csr": (
        lambda: torch.eye(NODES).to_sparse_csr(),
        r"a tensor of layout sparse_csr.*data.one = data.one.to_sparse_coo\(\)",
    ),
    "csc": (
        lambda: torch.ones(EDGES, 4).to_sparse_csc(),
        r"a tensor of layout sparse_csc.*data.one = data.one.to_sparse_coo\(\)",
    ),
    "bsr": (lambda: torch.ones(NODES, 4).to_sparse_bsr((2, 2)), r"a tensor of layout sparse_bsr.*to_sparse_coo\(\)"),
    "nested": (lambda: torch.nested.nested_tensor([torch.ones(2)] * NODES), "a nested tensor; .*to_padded_tensor"),
    "text": (lambda: np.array(["a"] * NODES), r"a NumPy array of <U1 .*data.one = data.one.tolist\(\)"),
    "objects": (lambda: np.array([None] * EDGES), r"a NumPy array of object .*data.one = data.one.tolist\(\)"),
    "dates": (lambda: np.arange(NODES).astype("datetime64[s]"), r'a NumPy array of datetime64.*astype\("int64"\)'),
    "long": (lambda: np.ones(NODES, np.longdouble), r'a NumPy array of float128.*astype\("float64"\)'),
    "big-endian": (lambda: np.ones(NODES, ">f8"), r"a NumPy array of >f8.*newbyteorder"),
    "masked": (lambda: np.ma.masked_equal(np.arange(NODES), 3), r"a masked array.*filled\(0\)"),
    "named tuple": (
        lambda: NamedTuple("Row", [(f"a{i}", int) for i in range(NODES)])(*range(NODES)),
        r"a named tuple Row; write data.one = list\(data.one\)",
    ),
    "table": (
        lambda: Table(NODES),
        r"a Table of shape \[120, 3\]; write data.one = torch.as_tensor\(data.one.to_numpy",
    ),
}


class Table:
    """As much of a data frame of pandas as is looked at."""

    def __init__(self, rows):
        self.shape = (rows, 3)

    def to_numpy(self):
        return np.ones(self.shape)


@pytest.mark.parametrize("kind", REFUSED)
def test_what_no_rows_can_be_taken_of_is_refused(data, kind):
    make, text = REFUSED[kind]
    data.one = make()
    with pytest.raises(hr.InputError, match=f"NeighborLoader: expected data.one to be a tensor.*got {text}"):
        LOADERS["NeighborLoader"](data)


@pytest.mark.parametrize("loader", LOADERS)
def test_all_loaders_refuse_it(data, loader):
    data.one = scipy.sparse.eye(NODES, 9, format="csr")
    with pytest.raises(hr.InputError, match=f"{loader}: expected data.one to be a tensor"):
        LOADERS[loader](data)


def test_by_type(hetero):
    writes = ("author", "writes", "paper")
    for where, value, text in (
        ("paper", scipy.sparse.eye(60, 4), r"data\['paper'\].one to be .*got a dia_matrix of shape \[60, 4\]"),
        (writes, torch.ones(150, 2).to_sparse_csr(), r"data\[\('author', 'writes', 'paper'\)\].one to be .*sparse_csr"),
        ("paper", np.array([b"a"] * 60), r"a NumPy array of \|S1"),
    ):
        hetero[where].one = value
        with pytest.raises(hr.InputError, match=text):
            NeighborLoader(hetero, [2], "paper")
        del hetero[where].one
    hetero["paper"].norm_adj = torch.eye(60).to_sparse_coo()
    with pytest.raises(hr.InputError, match=r"data\['paper'\].norm_adj to be .*got the matrix of a whole graph"):
        NeighborLoader(hetero, [2], "paper")


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_matrices_of_the_whole_graph_do_not_vanish(data, layout):
    data.norm_adj = getattr(torch.eye(NODES), f"to_sparse_{layout}")()
    with pytest.raises(
        hr.InputError, match=r"got the matrix of a whole graph, sparse_.*; write data.adj_t = data.norm"
    ):
        LOADERS["NeighborLoader"](data)


def test_rows_of_what_they_are_taken_of(data):
    data.sparse = torch.arange(NODES * 3.0).reshape(-1, 3).to_sparse_coo()
    data.edge_sparse = torch.arange(EDGES * 2.0).reshape(-1, 2).to_sparse_coo()
    data.words = tuple(f"node {i}" for i in range(NODES))
    data.nested = [{"place": i} for i in range(NODES)]
    data.index_of_something = Index(torch.arange(NODES) % 7)
    data.group = Index(torch.arange(NODES) % 7)
    data.short = np.arange(NODES, dtype=np.uint16)
    data.backwards = np.arange(NODES)[::-1]
    (batch,) = NeighborLoader(data, [3], torch.arange(4), batch_size=4)
    n_id = batch.n_id
    assert torch.equal(batch.sparse.to_dense(), data.sparse.to_dense()[n_id])
    assert torch.equal(batch.edge_sparse.to_dense(), data.edge_sparse.to_dense()[batch.e_id])
    assert batch.words == tuple(f"node {i}" for i in n_id.tolist())
    assert [one["place"] for one in batch.nested] == n_id.tolist()
    assert batch.group.tolist() == batch.index_of_something.tolist() == (n_id % 7).tolist()
    assert batch.short.tolist() == n_id.tolist()
    assert batch.backwards.tolist() == (NODES - 1 - n_id).tolist()


def test_what_is_of_the_whole_graph_comes_as_it_is(data):
    class Mine(Data):
        def __cat_dim__(self, key, value, *args, **kwargs):
            return None if key == "whole" else super().__cat_dim__(key, value, *args, **kwargs)

    mine = Mine(**data.to_dict())
    of_graph = {
        "whole": torch.arange(NODES),
        "scalar": torch.tensor(3),
        "scalar_array": np.array(3.0),
        "number": np.float32(2),
        "title": "a graph",
        "data": b"abc",
        "few": [1, 2, 3],
        "split": {"train": torch.arange(NODES) < 9},
        "other_table": scipy.sparse.eye(7),
        "other_csr": torch.eye(7).to_sparse_csr(),
        "other_words": np.array(["a", "b"]),
    }
    for name, value in of_graph.items():
        mine[name] = value
    (batch,) = NeighborLoader(mine, [3], torch.arange(4), batch_size=4)
    for name, value in of_graph.items():
        assert batch[name] is value, name


@pytest.mark.parametrize("loader", [name for name in LOADERS if name != "ClusterData"])
def test_several_graphs_in_a_batch_are_warned_of_once(data, loader):
    several = Batch.from_data_list([data, data])
    with pytest.warns(UserWarning, match=f"{loader}: the data are a Batch of 2 graphs, sampled as one") as warned:
        made = LOADERS[loader](several)
    assert [one.filename for one in warned] == [__file__]
    assert next(iter(made)).num_nodes < 2 * NODES  # warnings would be errors here


def test_the_graph_of_each_node_as_the_warning_says(data):
    several = Batch.from_data_list([data, data])
    several.graph = several.batch
    with pytest.warns(UserWarning, match="a Batch of 2 graphs"):
        (batch,) = NeighborLoader(several, [3], torch.tensor([5, NODES + 5]), batch_size=2)
    assert torch.equal(batch.graph, batch.n_id // NODES)
