"""What it takes to build a graph of a ``HeteroData``, beyond the data."""

from __future__ import annotations

import sys

import pytest
import torch

import headrace as hr
from headrace.pyg import NeighborLoader

from copies import PYG, Process

_MEASURE = """
import sys
import torch
from torch_geometric.data import HeteroData
import headrace as hr
from headrace.pyg import NeighborLoader

num_nodes, num_edges = 100_000, 3_000_000

def resident(field):
    for line in open("/proc/self/status"):
        if line.startswith(field):
            return int(line.split()[1]) * 1024

def made(num_edges):
    data = HeteroData()
    for name in "ab":
        data[name].num_nodes = num_nodes
    for source, destination in ("ab", "ba", "aa"):
        edges = data[source, "to", destination]
        edges.edge_index = torch.randint(0, num_nodes, (2, num_edges))
        if sys.argv[2] == "weights":
            edges.weight = torch.rand(num_edges)
    return data

def build(data):
    if sys.argv[1] == "from_pyg":
        return hr.Graph.from_pyg(data)
    return NeighborLoader(data, [2], "a", weight_attr="weight" if sys.argv[2] == "weights" else None)

data = made(num_edges)
build(made(1000))  # whatever the first call loads is not charged
size = sum(value.numel() * value.element_size() for store in data.edge_stores for value in store.values())
open("/proc/self/clear_refs", "w").write("5")  # the peak starts again from here
before = resident("VmRSS")
graph = build(data)
print((resident("VmHWM") - before) / size)
"""


@pytest.mark.slow
@pytest.mark.combinations(1)
@pytest.mark.uninstrumented
@pytest.mark.parametrize("attributes", ["none", "weights"])
@pytest.mark.parametrize("by", ["from_pyg", "loader"])
def test_peak_memory_is_within_a_fifth_of_the_data(by, attributes):
    if not sys.platform.startswith("linux"):
        pytest.skip("reads /proc")
    run = Process(_MEASURE, by, attributes, imports=PYG)
    output, errors = run.communicate(timeout=120)
    if "clear_refs" in errors:
        pytest.skip("this kernel does not let a process reset its peak")
    assert run.returncode == 0, errors
    assert 0.5 < float(output) < 1.2


@pytest.mark.parametrize("id_", [-1, 3, 2**32])
def test_ids_that_a_type_does_not_have_are_refused(hetero, id_):
    name = ("author", "writes", "paper")
    hetero[name].edge_index[0, 5] = id_ if id_ != 3 else 40
    with pytest.raises(hr.InputError, match=r"source ids of edge type|is not a node id"):
        hr.Graph.from_pyg(hetero, edge_attrs=[])
    with pytest.raises(hr.InputError, match="have ids of 'author' from"):
        NeighborLoader(hetero, [2], "paper")


def test_weights_of_types_in_several_dtypes(hetero):
    dtypes = dict(zip(hetero.edge_types, (torch.float32, torch.int64, torch.float64, torch.uint8), strict=True))
    for name, dtype in dtypes.items():
        hetero[name].w = torch.ones(hetero[name].num_edges, dtype=dtype)
        hetero[name].w[::2] = 0
    (batch,) = NeighborLoader(hetero, [-1, -1], "paper", weight_attr="w", batch_size=60)
    for name in dtypes:
        assert batch[name].e_id.remainder(2).eq(1).all()
        assert len(batch[name].e_id)
