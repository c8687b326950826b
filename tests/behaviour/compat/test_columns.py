"""Weights and times that loaders of PyG cannot read, and data without edge types, are refused with what to write."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

import headrace as hr
from headrace.pyg import LinkNeighborLoader, NeighborLoader, Sampler

pytestmark = pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype stage")
NODES, EDGES = 120, 700  # of the fixture
WRITES = ("author", "writes", "paper")

KINDS = {
    "array": (np.ones, r"a NumPy array float64\[{0}\] as {1}; write {1} = torch.as_tensor\({1}\)"),
    "list": (lambda n: [1.0] * n, r"a list of {0} as {1}; write {1} = torch.as_tensor\({1}\)"),
    "tuple": (lambda n: (1,) * n, r"a tuple of {0} as {1}; write {1} = torch.as_tensor\({1}\)"),
    "dates": (
        lambda n: np.arange(n).astype("M8[s]"),
        r'a NumPy array datetime64.*torch.as_tensor\({1}.astype\("int64"',
    ),
    "objects": (lambda n: np.array([1] * n, dtype=object), r'a NumPy array object.*\({1}.astype\("float64"\)\)'),
    "column": (lambda n: torch.ones(n, 1), r"float32\[{0}, 1\] as {1}; write {1} = {1}.reshape\(-1\)"),
    "sparse": (lambda n: torch.ones(n).to_sparse(), r"float32\[{0}\] of layout sparse_coo as {1}; .* {1}.to_dense\(\)"),
    "short": (lambda n: torch.ones(7), r"float32\[7\] as {1}; give it one (weight|time) for each"),
    "short list": (lambda n: [1, 2], r"a list as {1}; give it one (weight|time) for each"),
    "scalar": (lambda n: torch.tensor(3), r"int64\[\] as {1}; give it one (weight|time) for each"),
    "text": (lambda n: "2001", r"a str as {1}; give it one (weight|time) for each"),
    "nested": (lambda n: torch.nested.nested_tensor([torch.ones(2)] * n), r"a nested tensor as {1}; give it"),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def test_weights(data, kind):
    make, text = kind
    data.w = make(EDGES)
    text = text.format(EDGES, "data.w")
    with pytest.raises(
        hr.InputError,
        match=f"got 'w', which is not a tensor with a weight for each of 700 edges but {text}",
    ):
        NeighborLoader(data, [2], weight_attr="w")


def test_weights_of_a_type(hetero, kind):
    make, text = kind
    hetero[WRITES].w = make(150)
    text = text.format(150, r"data\[\('author', 'writes', 'paper'\)\].w")
    with pytest.raises(hr.InputError, match=f"a weight for each of 150 edges but {text}"):
        NeighborLoader(hetero, [2], "paper", weight_attr="w")


@pytest.mark.parametrize("number", [NODES, EDGES])
def test_times(data, kind, number):
    make, text = kind
    data.when = make(number)
    text = text.format(number, "data.when")
    with pytest.raises(hr.InputError, match=f"with a time for each of 120 nodes or 700 edges but {text}"):
        NeighborLoader(data, [2], time_attr="when", input_time=torch.zeros(NODES))
    with pytest.raises(hr.InputError, match="with a time for each of"):
        LinkNeighborLoader(data, [2], time_attr="when", edge_label_time=torch.zeros(EDGES))


def test_times_of_types(hetero, kind):
    make, text = kind
    for name, number, label in (("paper", 60, r"data\['paper'\].when"), (WRITES, 150, r"data\[\('auth.*'\)\].when")):
        hetero[name].when = make(number)
        one = f"with a time for each of {number} .* but {text.format(number, label)}"
        with pytest.raises(hr.InputError, match=one):
            NeighborLoader(hetero, [2], "paper", time_attr="when", input_time=torch.zeros(60))
        del hetero[name].when


def test_data_without_edge_types():
    data = HeteroData()
    data["a"].x = torch.ones(3, 1)
    for make in (
        lambda: NeighborLoader(data, [2], "a"),
        lambda: NeighborLoader(data, {("a", "to", "a"): [2]}, "a"),
        lambda: NeighborLoader(data, [], "a"),
        lambda: Sampler(data, [2]),
    ):
        with pytest.raises(hr.InputError, match="expected data with edge types, got none; give it some"):
            make()
