"""coo_to_csc against the reference and SciPy; memory; damaged graphs."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from scipy import sparse

from headrace.ops import InputError, check_csc, coo_to_csc, reference

from copies import Process
from strategies import edge_lists, thread_counts


@given(edge_lists(), thread_counts)
def test_equals_reference(edges, num_threads):
    csc = coo_to_csc(edges.src, edges.dst, edges.num_nodes, num_threads=num_threads)
    indptr, indices, edge_ids = reference.coo_to_csc(edges.src.numpy(), edges.dst.numpy(), edges.num_nodes)
    assert csc.indptr.dtype == torch.int64
    assert csc.indices.dtype == torch.int32
    assert np.array_equal(csc.indptr.numpy(), indptr)
    assert np.array_equal(csc.indices.numpy(), indices)
    if csc.edge_ids is None:
        assert np.array_equal(edge_ids, np.arange(edges.num_edges))
    else:
        assert csc.edge_ids.dtype == torch.int32
        assert np.array_equal(csc.edge_ids.numpy(), edge_ids)
    check_csc(csc.indptr, csc.indices, edges.num_nodes)


@given(edge_lists(strided=False))
def test_sorted_input_needs_no_edge_ids(edges):
    order = torch.sort(edges.dst, stable=True).indices
    assert coo_to_csc(edges.src[order], edges.dst[order], edges.num_nodes).edge_ids is None


@pytest.mark.parametrize("num_threads", [1, 2, 3])
def test_order_is_looked_for_where_parts_meet_too(num_threads):
    """Destinations that fall once, at every place in turn: one of these is where two threads' parts meet."""
    num_edges = 40
    for place in range(1, num_edges):
        dst = torch.arange(num_edges).roll(place)
        csc = coo_to_csc(torch.zeros(num_edges, dtype=torch.int64), dst, num_edges, num_threads=num_threads)
        assert csc.edge_ids is not None
        assert torch.equal(csc.edge_ids.long(), dst.argsort())


def test_equals_scipy():
    random = np.random.default_rng(0)
    src, dst = random.integers(0, 500, (2, 20_000))
    csc = coo_to_csc(src, dst, 500)
    # Unique values keep SciPy from merging repeated edges before they are counted.
    matrix = sparse.csc_array((np.ones(20_000), csc.indices.numpy(), csc.indptr.numpy()), shape=(500, 500))
    expected = sparse.coo_array((np.ones(20_000), (src, dst)), shape=(500, 500)).tocsc()
    assert np.array_equal(matrix.toarray(), expected.toarray())


def test_mixed_dtypes_and_numpy_input():
    src, dst = np.array([2, 0, 1], np.int32), torch.tensor([1, 0, 1])
    csc = coo_to_csc(src, dst, 3)
    assert csc.indices.tolist() == [0, 2, 1]
    assert csc.edge_ids is not None
    assert csc.edge_ids.tolist() == [1, 0, 2]


def test_reversed_and_columnwise_input_is_read_in_place():
    edges = np.array([[0, 1], [2, 0], [1, 1]])  # rows are edges
    csc = coo_to_csc(edges[::-1, 0], edges[::-1, 1], 3)
    assert csc.indptr.tolist() == [0, 1, 3, 3]
    assert csc.indices.tolist() == [2, 1, 0]


def test_ids_that_do_not_fit_32_bits_need_int64():
    """The choice of widths, without a graph of 2**31 nodes: indptr alone would take 16 GB."""
    empty = torch.empty(0, dtype=torch.int64)
    assert coo_to_csc(empty, empty, 5).indices.dtype == torch.int32


_MEASURE = """
import resource, sys
import numpy as np
from headrace.ops import coo_to_csc

num_nodes, num_edges = 200_000, 12_000_000
random = np.random.default_rng(0)
src = random.integers(0, num_nodes, num_edges, dtype=np.int32)
dst = random.integers(0, num_nodes, num_edges, dtype=np.int32)
coo_to_csc(src[:1000], dst[:1000], num_nodes)  # whatever the first call loads is not charged

def resident(field):
    for line in open("/proc/self/status"):
        if line.startswith(field):
            return int(line.split()[1]) * 1024

open("/proc/self/clear_refs", "w").write("5")  # the peak starts again from here
before = resident("VmRSS")
csc = coo_to_csc(src, dst, num_nodes, num_threads=int(sys.argv[1]))
peak = resident("VmHWM") - before
output = sum(t.numel() * t.element_size() for t in (csc.indptr, csc.indices, csc.edge_ids))
print(peak / output)
"""


@pytest.mark.uninstrumented
@pytest.mark.parametrize("num_threads", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_peak_memory_is_within_a_fifth_of_the_output(num_threads):
    """Peak resident memory of a process over an edge list of 12 million edges (an output of 98 MB)."""
    if not sys.platform.startswith("linux"):
        pytest.skip("reads /proc")
    run = Process(_MEASURE, num_threads)
    output, errors = run.communicate(timeout=120)
    if "clear_refs" in errors:
        pytest.skip("this kernel does not let a process reset its peak")
    assert run.returncode == 0, errors
    assert 0.9 < float(output) < 1.2


@pytest.mark.parametrize(
    ("num_nodes", "message"),
    [(2**61, r"got num_nodes = .*, which takes at least"), (2**64 - 1, r"num_nodes to be an int .* below 2\*\*63")],
)
def test_more_nodes_than_memory_can_hold_is_an_error_not_a_crash(num_nodes, message):
    """2**64 - 1 nodes have 2**64 entries of indptr, which is 0 in 64 bits."""
    empty = torch.empty(0, dtype=torch.int64)
    with pytest.raises(InputError, match=message):
        coo_to_csc(empty, empty, num_nodes)


BAD_EDGES = [
    (([0, 3], [0, 1], 3), r"coo_to_csc: src\[1\] = 3 is not a node id: expected 0 <= id < num_nodes = 3"),
    (([0, 1], [-1, 1], 3), r"dst\[0\] = -1 is not a node id"),
    (([0, 1], [0], 3), "one entry per edge, got 2 and 1"),
    (([], [], -1), "num_nodes to be an int of at least 0"),
    (([0], [0], 0), r"src\[0\] = 0 is not a node id"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_EDGES)
@pytest.mark.parametrize("num_threads", [1, 3])
def test_refuses_bad_edges(arguments, message, num_threads):
    src, dst, num_nodes = arguments
    with pytest.raises(InputError, match=message):
        coo_to_csc(
            torch.tensor(src, dtype=torch.int64),
            torch.tensor(dst, dtype=torch.int64),
            num_nodes,
            num_threads=num_threads,
        )


@pytest.mark.parametrize(
    ("src", "message"),
    [
        (torch.tensor([0.5]), "int32 or int64, got float32"),
        (torch.tensor([True]), "got bool"),
        (torch.tensor([[0]]), r"got int64\[1, 1\]"),
        ([0], "got list"),
        (torch.empty(1, dtype=torch.int64, device="meta"), "got a tensor on meta"),
        (np.array([0], dtype=">i8"), "byte-swapped"),
    ],
)
def test_refuses_bad_arrays(src, message):
    with pytest.raises(InputError, match=message):
        coo_to_csc(src, torch.tensor([0]), 1)


@pytest.mark.parametrize(
    ("indptr", "indices", "num_nodes", "message"),
    [
        ([0, 1], [0], 2, r"indptr to have num_nodes \+ 1 = 3 entries, got 2"),
        ([1, 1], [0], 1, "indptr runs from 1 to 1: expected from 0 to len"),
        ([0, 2], [0], 1, "indptr runs from 0 to 2"),
        ([0, 2, 1, 3], [0, 0, 0], 3, r"indptr decreases: indptr\[1\] = 2, indptr\[2\] = 1"),
        ([0, 1, 2], [0, 2], 2, r"indices\[1\] = 2 is not a node id"),
        ([0, 1, 2], [0, -1], 2, r"indices\[1\] = -1 is not a node id"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_check_csc_names_the_fault(indptr, indices, num_nodes, message, dtype):
    with pytest.raises(InputError, match=message):
        check_csc(torch.tensor(indptr), torch.tensor(indices, dtype=dtype), num_nodes, num_threads=2)


def test_check_csc_refuses_narrow_indptr():
    with pytest.raises(InputError, match="indptr to be a 1-d CPU tensor or NumPy array of int64, got int32"):
        check_csc(torch.tensor([0, 0], dtype=torch.int32), torch.empty(0, dtype=torch.int64), 1)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("num_threads", [1, 3])
@pytest.mark.parametrize("num_hubs", [0, 1, 5], ids=["even", "one hub", "five hubs"])
def test_many_rows_go_through_buckets(dtype, num_threads, num_hubs):
    """Large enough to be sorted by groups of rows; hubs fill their groups beyond what is copied."""
    generator = torch.Generator().manual_seed(num_hubs)
    num_nodes, num_edges = 10_000, 60_000
    src, dst = torch.randint(num_nodes, (2, num_edges), generator=generator)
    for hub in range(num_hubs):
        dst[hub :: 16 - 2 * hub] = 1999 * hub + 3  # shares around 1 / 16, some beyond what one thread copies
    csc = coo_to_csc(src.to(dtype), dst.to(dtype), num_nodes, num_threads=num_threads)
    order = torch.sort(dst, stable=True).indices
    assert torch.equal(
        csc.indptr, torch.cat([torch.zeros(1, dtype=torch.int64), dst.bincount(minlength=num_nodes)]).cumsum(0)
    )
    assert torch.equal(csc.indices.long(), src[order])
    assert torch.equal(csc.edge_ids.long(), order)
