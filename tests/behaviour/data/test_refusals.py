"""Arguments that functions of graphs, splits, blocks and places refuse, one row each."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from small_blocks import block
from torch.utils.data import Dataset, IterableDataset

import headrace as hr

BUYS, SEES, LIKES = ("user", "buys", "item"), ("user", "sees", "item"), ("user", "likes", "user")


def random_ends(num_src, num_dst, count, seed):
    random = torch.Generator().manual_seed(seed)
    return [torch.randint(0, most, (count,), generator=random) for most in (num_src, num_dst)]


def shop(seed=0, **attrs):
    buys, sees = random_ends(6, 8, 40, seed), random_ends(6, 8, 25, seed + 1)
    times = {BUYS: {"time": torch.randint(0, 30, (40,))}, SEES: {"time": torch.randint(0, 30, (25,))}}
    return hr.Graph.from_coo(
        {BUYS: buys, SEES: sees}, num_nodes={"user": 6, "item": 8}, edge_attrs=attrs.get("edge_attrs", times)
    )


def edges_by_type(num_users=6, num_items=9, seed=0):
    random = torch.Generator().manual_seed(seed)

    def ids(most, count):
        return torch.randint(0, most, (count,), generator=random)

    return {
        BUYS: (ids(num_users, 20), ids(num_items, 20)),
        SEES: (ids(num_users, 30), ids(num_items, 30)),
        LIKES: (ids(num_users, 10), ids(num_users, 10)),
    }


def directed(**more):
    return hr.Graph.from_coo({BUYS: ([0, 1, 2], [0, 0, 1]), LIKES: ([0, 1], [1, 1])}, **more)


def types_of(counts):
    """Types as the nodes of a graph have them."""
    return hr.Graph.from_coo([], [], node_types=counts).node_types


scipy_sparse = pytest.importorskip("scipy.sparse")

PAPER, AUTHOR, WRITES = "paper", "author", ("author", "writes", "paper")


class Samples(Dataset):
    """A map-style data set of whatever a function makes of a position."""

    def __init__(self, sample, length=4):
        self.sample, self.length = sample, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.sample(index)


class Stream(IterableDataset):
    def __iter__(self):
        return iter([1, 2])


SPLIT_NODES = [
    ({"nodes": {"a": [1]}}, "expected the nodes of one type"),
    ({"nodes": torch.zeros(3, 2, dtype=torch.int64)}, "expected nodes, got 3 pairs"),
    ({"val": 0.5, "test": 0.5}, "to leave items for training, got 5 and 5 of 10"),
    ({"nodes": 3}, "expected val to be at least one item, got 0.1 of 3, which is none"),
    ({"nodes": 3, "val": 1}, "expected test to be at least one item, got 0.1 of 3"),
    ({"nodes": 4, "test": 0, "time": torch.arange(4)}, "expected val to be at least one item, got 0.1 of 4"),
    ({"nodes": 4, "val": 0, "stratify": [0, 0, 1, 1]}, "expected test to be at least one item"),
    ({"val": 1e-9, "test": 0}, "expected val to be at least one item, got 1e-09 of 10"),
    ({"val": "half"}, "split_nodes: expected val to be a fraction in"),
    ({"time": torch.arange(3)}, r"expected time of \[10\], one for each item, got int64\[3\]"),
    ({"time": torch.arange(10), "stratify": torch.arange(10)}, "time or stratify, got both"),
    ({"stratify": torch.rand(10)}, "stratify to be integers"),
    ({"stratify": torch.arange(10)}, "got classes that are too small"),
    ({"time": torch.zeros(10)}, "got none for 'train'"),
]

SPLIT_LINKS = [
    ({}, r"expected edge_type to name the edges to split"),
    ({"edge_type": "sells"}, "there is no type 'sells'"),
    ({"edge_type": BUYS, "val": 0.6, "test": 0.5}, "to leave items for training"),
    ({"edge_type": BUYS, "val": 1.5}, r"split_links: expected val to be a fraction in \[0, 1\)"),
    ({"edge_type": BUYS, "val": -1}, "val to be an integer of at least 0"),
    ({"edge_type": BUYS, "time": "age"}, "times under the name 'age'"),
    ({"edge_type": BUYS, "reverse": "back"}, "there is no type 'back'"),
    ({"edge_type": BUYS, "reverse": True}, "got True; leave it out, and the type is found"),
    ({"edge_type": BUYS, "seed": -1}, "seed to be an integer"),
    ({"edge_type": BUYS, "reverse": SEES}, "a type from the destinations of .* got .*'sees'"),
    ({"edge_type": BUYS, "val": 0.001}, "expected val to be at least one item, got 0.001 of"),
    ({"edge_type": BUYS, "test": 0.001, "time": "time"}, "expected test to be at least one item, got 0.001 of"),
    (
        {"graph": hr.Graph.from_coo([0, 1], [1, 2]), "val": 1, "test": 0, "reverse": "a"},
        "no name of a reverse type",
    ),
    ({"graph": hr.Graph.from_coo([0, 1], [1, 2])}, "expected val to be at least one item, got 0.1 of 2"),
    ({"graph": None}, "expected an hr.Graph, got NoneType"),
    ({"graph": SimpleNamespace(graph=hr.Graph.from_coo([0], [1]))}, "got SimpleNamespace; pass data.graph"),
    ({"graph": hr.Graph.from_coo([0, 1], [1, 2]), "edge_type": "a"}, "no edge_type for a graph without them"),
]

EDGES_BY_TYPE = [
    ({"src": {"buys": ([0], [0])}}, r"expected edge types \(source type, relation, destination type\) as keys"),
    ({"src": {BUYS: [0, 1, 2]}}, "expected \\(src, dst\\) of edge type .*, got 3 entries"),
    ({"src": {BUYS: ([0, 1], [0])}}, "equal lengths, got 2 and 1"),
    ({"src": {BUYS: ([0.5], [0])}}, "expected src of .*float"),
    ({"src": {BUYS: ([0, -1], [0, 0])}}, "expected source ids of .* to count within type 'user'.*from -1 to 0"),
    ({"num_nodes": {"item": 3}}, r"expected destination ids of .* in \[0, 3\), got ids from 0 to 8"),
    ({"num_nodes": 15}, 'num_nodes of edges by type to be {"user": 10'),
    ({"num_nodes": {"item": -1}}, r"num_nodes\['item'\] to be an integer of at least 0"),
    ({"num_nodes": {"itm": 9, "user": 6}}, "got 'itm'; did you mean 'item'"),
    ({"dst": [1]}, "without dst, got both"),
    ({"node_types": {"user": 6}}, "without node_types"),
    ({"edge_attrs": {"time": torch.arange(60)}}, "edge_attrs of edges by type to be"),
    ({"edge_attrs": {("a", "b", "c"): {}}}, "there is no edge type"),
    ({"edge_attrs": {BUYS: {"price": torch.rand(20)}}}, "'price' on every edge type, got none on .*sees"),
    ({"edge_attrs": {BUYS: {"time": torch.rand(2)}}}, "to have 20 rows"),
    ({"node_attrs": {"shop": {"time": [1]}}}, "there is no node type 'shop'"),
    ({"node_attrs": {"user": {"age": torch.rand(6)}}}, "'age' on every node type, got none on \\['item'\\]"),
    ({"src": {}}, "at least one node"),
]

REVERSE_EDGES = [
    (
        lambda: hr.Graph.from_coo([0], [1], node_types={"n": 1, "m": 1}, edge_types={"a": 1}).undirected(),
        "got 'a'; name them so",
    ),
    (lambda: directed().with_reverse(["sells"]), "sells"),
    (lambda: directed().with_reverse(prefix=""), "prefix to be a text"),
    (lambda: directed().with_reverse().with_reverse([BUYS]), "expected no edge type .*rev_buys.* yet"),
    (lambda: hr.Graph.from_coo([0], [1]).with_reverse(["a"]), "no edge_types of a graph without them"),
    (lambda: hr.Graph.from_coo([0], [1], edge_types={"a": 1}).undirected(3), "the name of a new edge attribute"),
    (lambda: hr.Graph.from_coo([0], [1], edge_types={"a": 1}).with_reverse(), "got 'a'; name them so"),
]

TYPES = [
    (lambda: types_of({"a": -1}), "counts >= 0"),
    (lambda: types_of({"a": 2}).id_range("b"), r"no type 'b'; the types are \['a'\]"),
    (lambda: types_of({"a": 2}).type_of(torch.tensor([2])), r"ids in \[0, 2\), got ids from 2"),
    (lambda: types_of({"a": 2}).type_of(torch.tensor([-1])), "got ids from -1"),
    (lambda: types_of({"a": 2, "b": 3}).global_ids("a", [0, 2]), r"in \[0, 2\), got ids from 0 to 2"),
    (lambda: types_of({"a": 2}).global_ids("a", [-1]), "got ids from -1 to -1"),
    (lambda: types_of({"a": 2}).global_ids("b", [0]), "no type 'b'"),
    (lambda: types_of({"a": 2}).global_ids("a", [0.0]), r"integer ids, got float64\[1\]"),
]

BLOCKS = [
    ({"indptr": torch.tensor([0, 3])}, r"indptr of int64\[4\]"),
    ({"indptr": torch.tensor([0, 2, 2, 3], dtype=torch.int32)}, "indptr of int64"),
    ({"indices": torch.tensor([0.0, 1.0, 2.0])}, "indices of int32 or int64"),
    ({"num_src": 2}, "num_dst <= num_src"),
    ({"edge_ids": torch.tensor([1])}, r"edge_ids of int64\[3\]"),
    ({"edge_ids": torch.tensor([1, 2, 3], dtype=torch.int32)}, "edge_ids of int64"),
    ({"weight": torch.tensor([1.0])}, r"weight of \[3\]"),
]

FROM_SCIPY = [
    (scipy_sparse.csr_matrix((2, 3)), "square matrix, got 2 x 3"),
    (np.eye(2), "scipy sparse matrix or array, got ndarray"),
    (scipy_sparse.csr_matrix((0, 0)), "at least one node"),
    (scipy_sparse.coo_array(np.ones(3)), r"square matrix, got a sparse array of shape \[3\]"),
    (
        scipy_sparse.eye(2, dtype=np.longdouble),
        "the matrix's values to be a numeric tensor or array that torch can",
    ),
]

LABELS_BY_TYPE = [
    ({PAPER: ([0], [1]), AUTHOR: [0]}, r"labels of all types or of none, got some of \['paper'\] and none of"),
    (({PAPER: ([0], [1])}, {PAPER: [1]}), "expected labels once"),
    ({PAPER: ([0], [1], [2])}, "that of 'paper' has 3 entries"),
    ({PAPER: ([0, 1], [1])}, "labels of type 'paper' to have one row per item"),
    ({WRITES: ([0, 1], [2, 3])}, r"expected pairs \[num_pairs, 2\] of edge type .* torch.stack\(\(src, dst\), 1\)"),
]

ITEMS = [
    (0, "at least one item"),
    ([], "at least one item"),
    (torch.zeros(5, dtype=torch.bool), "at least one item"),
    (-3, "a number of items in"),
    ([3, -1], "of at least 0, got"),
    (range(2, -2, -1), "of at least 0, got"),
    (torch.tensor([0.5]), "integer"),
    (torch.tensor([0, 1], dtype=torch.uint8), "mask.bool"),
    (1 << 63, "2\\*\\*63"),
    ("abc", "items"),
    (None, "items"),
    (torch.zeros(2, 3, dtype=torch.int64), "shape"),
    (torch.zeros(2, 2, dtype=torch.bool), "mask"),
    (torch.tensor(3.0), "a number of items to be an integer"),
    (torch.tensor(True), "a number of items to be an integer"),
    (np.bool_(True), "items"),
    (torch.tensor(-3), "a number of items in"),
    ((torch.arange(3), torch.arange(4)), "labels"),
    ((torch.arange(3), torch.arange(3), torch.arange(3)), "3 entries"),
    ({}, r"a mapping with the keys \[\]"),
    ({3: torch.arange(3)}, r"node types or edge types as keys of items, got 3"),
    ({"a": torch.arange(4), "b": torch.zeros(2, 2, dtype=torch.int64)}, "all to be pairs, got both"),
    (({"a": [1]}, {"b": [2]}), r"labels to have the types of the items, \['a'\], got \['b'\]"),
    (torch.zeros(2, 5, dtype=torch.int64), r"got \[2, 5\]; pass its transpose"),
    (Stream(), "a length, whose samples can be looked up, got Stream"),
    (Samples(int, length=0), "at least one item"),
    (torch.empty(3, dtype=torch.int64, device="meta"), "CPU"),
]

ITEMSAMPLER = [
    ({"batch_size": 0}, "batch_size"),
    ({"batch_size": -2}, "batch_size"),
    ({"batch_size": 2.0}, "batch_size"),
    ({"batch_size": 2, "batch_size_per_rank": 2}, "not both"),
    ({"batch_size_per_rank": 0}, "batch_size_per_rank"),
    ({"seed": -1}, "seed"),
    ({"shuffle": "no"}, "shuffle"),
    ({"seed": 1 << 64}, "seed"),
]

TABLES = {
    "split_nodes": (lambda given: hr.split_nodes(**{"nodes": 10, **given}), SPLIT_NODES),
    "split_links": (lambda given: hr.split_links(**{"graph": shop(), **given}), SPLIT_LINKS),
    "edges by type": (lambda given: hr.Graph.from_coo(**{"src": edges_by_type(), **given}), EDGES_BY_TYPE),
    "reverse edges": (lambda given: given(), REVERSE_EDGES),
    "types": (lambda given: given(), TYPES),
    "blocks": (lambda given: block(**given), BLOCKS),
    "from_scipy": (hr.Graph.from_scipy, FROM_SCIPY),
    "labels by type": (hr.ItemSampler, LABELS_BY_TYPE),
    "items": (hr.ItemSampler, ITEMS),
    "ItemSampler": (lambda given: hr.ItemSampler(5, **given), ITEMSAMPLER),
}
ROWS = [(name, *row) for name, (_, rows) in TABLES.items() for row in rows]


@pytest.mark.parametrize(("name", "given", "message"), ROWS, ids=[f"{name}-{message}" for name, _, message in ROWS])
def test_what_is_refused(name, given, message):
    with pytest.raises(hr.InputError, match=message):
        TABLES[name][0](given)
