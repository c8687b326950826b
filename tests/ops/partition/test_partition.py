"""Partition kernels: equal to the reference, within their bounds, and good where a good answer is known."""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.ops import InputError, _native, coo_to_csc, reference, stream_key
from headrace.ops.graphs.undirected import undirected
from headrace.ops.partition.counts import count_parts
from headrace.ops.partition.louvain import louvain_owners, pack
from headrace.ops.partition.metis import _level, metis_owners
from headrace.ops.partition.owners import edge_owners, grid_columns, hash_owners
from headrace.ops.partition.stream import part_capacity, stream_owners
from headrace.ops.reference.saint import edges_of

from strategies import csc_graphs

seeds = st.integers(0, 2**64 - 1)
parts = st.integers(1, 9)


def planted(num_groups: int, size: int, inside: int, outside: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Groups of nodes with `inside` random edges per node within and `outside` without, under scrambled ids.

    Returns (indptr, indices, group of each node).
    """
    random = np.random.default_rng(0)
    num_nodes = num_groups * size
    src = np.repeat(np.arange(num_nodes), inside + outside)
    dst = random.integers(0, num_nodes, len(src))
    within = np.tile(np.arange(inside + outside) < inside, num_nodes)
    dst[within] = src[within] // size * size + random.integers(0, size, within.sum())
    scrambled = random.permutation(num_nodes)
    src, dst = scrambled[src], scrambled[dst]
    csc = coo_to_csc(np.concatenate([src, dst]), np.concatenate([dst, src]), num_nodes)
    groups = np.empty(num_nodes, np.int64)
    groups[scrambled] = np.arange(num_nodes) // size
    return csc.indptr, csc.indices, torch.from_numpy(groups)


def cut(indptr, indices, owners, num_parts):
    return count_parts(indptr, indices, owners, num_parts).cut / len(indices)


# --- streaming --------------------------------------------------------------------------------------------------------


@given(csc_graphs(), parts, st.sampled_from([0, 0.05, 0.5, 3]), st.integers(1, 3), st.booleans(), seeds)
def test_stream_equals_the_reference(graph, num_parts, slack, passes, shuffle, seed):
    owners = stream_owners(
        graph.indptr, graph.indices, num_parts, slack=slack, passes=passes, shuffle=shuffle, seed=seed
    )
    expected = reference.partition.stream_partition(
        graph.indptr.numpy(),
        graph.indices.numpy(),
        num_parts,
        part_capacity(graph.num_nodes, num_parts, slack),
        passes,
        stream_key(seed, 0, 0, 0, 0) if shuffle else None,
    )
    assert owners.tolist() == expected
    assert owners.dtype == torch.int32


@given(csc_graphs(), parts, st.floats(0, 1), st.integers(1, 3), st.booleans())
def test_stream_is_balanced(graph, num_parts, slack, passes, shuffle):
    owners = stream_owners(graph.indptr, graph.indices, num_parts, slack=slack, passes=passes, shuffle=shuffle)
    largest = int(torch.bincount(owners, minlength=num_parts).max()) if graph.num_nodes else 0
    assert largest <= part_capacity(graph.num_nodes, num_parts, slack)
    assert largest <= max(-(-graph.num_nodes // num_parts), (1 + slack) * graph.num_nodes / num_parts)


def test_stream_finds_planted_groups():
    """A hash cuts 7/8 of the edges; of the groups, 1 in 11 edges leaves them. More passes cut less."""
    indptr, indices, _ = planted(8, 500, 20, 2)
    shares = [cut(indptr, indices, stream_owners(indptr, indices, 8, passes=passes), 8) for passes in (1, 3, 10)]
    assert shares[0] < 0.6
    assert shares[2] < shares[1] < shares[0]
    assert shares[2] < 0.3


def test_stream_works_in_chunks_and_rows_of_any_length():
    """More nodes than a chunk, and a hub whose row is longer than what is prefetched."""
    num_nodes = 3_000
    spokes = np.arange(1, num_nodes)
    csc = coo_to_csc(
        np.concatenate([spokes, np.zeros_like(spokes)]), np.concatenate([np.zeros_like(spokes), spokes]), num_nodes
    )
    for shuffle in (False, True):
        owners = stream_owners(csc.indptr, csc.indices, 3, slack=0, shuffle=shuffle, passes=2)
        assert torch.bincount(owners).tolist() == [1_000] * 3


def test_large_counts_do_not_overflow():
    """Four neighbours and room for 2**62: the product is 0 in 64 bits, and the node would go elsewhere."""
    indptr, indices = np.array([0, 0, 4]), np.array([0, 0, 0, 0])
    assert _native.stream_partition(indptr, indices, 2, (1 << 62) + 1, 1, False, 0).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("settings_", "error", "message"),
    [
        ({"num_parts": 0}, InputError, "num_parts to be from 1"),
        ({"num_parts": 1 << 17}, InputError, "num_parts to be from 1 to 65536"),
        ({"passes": 0}, InputError, "passes to be at least 1"),
        ({"slack": -0.1}, InputError, "slack to be a finite number"),
        ({"slack": float("nan")}, InputError, "slack to be a finite number"),
        ({"slack": "5"}, InputError, "slack to be a finite number"),
        ({"seed": -1}, InputError, "seed to be in"),
        ({"indices": torch.tensor([0, 7])}, InputError, "not a node id"),
        ({"indices": torch.tensor([0, -1])}, InputError, "not a node id"),
        ({"indptr": torch.tensor([0, 3, 2])}, InputError, "do not bound a row"),
    ],
)
def test_stream_refuses(settings_, error, message):
    given_ = {"indptr": torch.tensor([0, 1, 2]), "indices": torch.tensor([0, 1]), "num_parts": 2, **settings_}
    with pytest.raises(error, match=message):
        stream_owners(**given_)


def test_stream_needs_room_for_all():
    with pytest.raises(InputError, match="capacity to be at least 2"):
        _native.stream_partition(np.array([0, 0, 0, 0]), np.empty(0, np.int64), 2, 1, 1, False, 0)


# --- counts -----------------------------------------------------------------------------------------------------------


@given(csc_graphs(), st.sampled_from([(1, 1), (5, 5), (5, 1), (4, 2), (6, 3), (6, 2), (12, 4)]), st.integers(0, 99))
def test_counts_equal_the_reference(graph, grid, seed):
    num_parts, num_columns = grid
    owners = np.random.default_rng(seed).integers(0, num_parts, graph.num_nodes).astype(np.int32)
    counts = count_parts(graph.indptr, graph.indices, owners, num_parts, num_columns)
    indptr, indices = graph.indptr.numpy(), graph.indices.numpy()
    held = reference.partition.held_by_parts(indptr, indices, owners, num_columns)
    assert counts.copies.tolist() == [len(held.get(part, ())) for part in range(num_parts)]
    ends = edges_of(indptr, indices)
    placed = Counter(reference.partition.edge_part(owners, u, v, num_columns) for u, v in ends)
    assert counts.edges.tolist() == [placed[part] for part in range(num_parts)]
    pairs = Counter((int(owners[u]), int(owners[v])) for u, v in ends)
    assert counts.between is not None
    assert counts.between.tolist() == [[pairs[one, other] for other in range(num_parts)] for one in range(num_parts)]
    assert counts.cut == sum(number for (one, other), number in pairs.items() if one != other)


def test_many_parts_have_no_matrix():
    counts = count_parts(torch.tensor([0, 1]), torch.tensor([0]), torch.tensor([2_000]).int(), 2_001)
    assert counts.between is None
    assert counts.cut == 0
    with pytest.raises(InputError, match="at most 1024 parts"):
        _native.count_parts(np.array([0, 1]), np.array([0]), np.zeros(1, np.int32), 2_000, 1, True)


@pytest.mark.parametrize(
    ("owners", "num_parts", "num_columns", "message"),
    [
        ([0, 2], 2, 2, r"owners\[1\] = 2 is not a part"),
        ([0, -1], 2, 2, r"owners\[1\] = -1 is not a part"),
        ([0], 2, 2, "owners to have one entry per node"),
        ([0, 0], 0, 1, "num_parts to be from 1"),
        ([0, 0], 4, 3, "num_columns to divide num_parts = 4, got 3"),
        ([0, 0], 4, 0, "num_columns to divide"),
    ],
)
def test_counts_refuse(owners, num_parts, num_columns, message):
    with pytest.raises(InputError, match=message):
        count_parts(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), torch.tensor(owners).int(), num_parts, num_columns)


# --- grids ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("num_parts", "num_columns"), [(1, 1), (2, 2), (4, 2), (6, 3), (7, 7), (12, 4), (36, 6)])
def test_grids_are_as_square_as_they_can_be(num_parts, num_columns):
    assert grid_columns(num_parts) == num_columns


@given(st.integers(1, 30), st.integers(0, 99))
def test_edges_are_in_the_row_of_their_source_and_the_column_of_their_destination(num_parts, seed):
    owners = torch.randint(num_parts, (2, 50), generator=torch.Generator().manual_seed(seed), dtype=torch.int32)
    for num_columns in {1, grid_columns(num_parts), num_parts}:
        got = edge_owners(owners[0], owners[1], num_columns)
        table = owners.flatten().tolist()
        assert got.tolist() == [reference.partition.edge_part(table, i, 50 + i, num_columns) for i in range(50)]


@pytest.mark.parametrize("stride", [1, 2, 4, 64, 1 << 20])
def test_no_grid_is_skewed_by_regular_ids(stride):
    """Ids that are multiples of anything spread over the masters of a 4 x 4 grid evenly, to 5 sigma."""
    ids = torch.arange(16_000) * stride
    counts = torch.bincount(hash_owners(ids, 16), minlength=16)
    assert (counts - 1_000).abs().max() < 5 * 31


# --- the undirected graph ---------------------------------------------------------------------------------------------


@given(csc_graphs(), st.sampled_from([1, 2]))
def test_undirected(graph, num_threads):
    result = undirected(graph.indptr, graph.indices, num_threads=num_threads)
    edges: Counter[tuple[int, int]] = Counter()
    for source, destination in edges_of(graph.indptr.numpy(), graph.indices.numpy()):
        if source != destination:
            edges[source, destination] += 1
            edges[destination, source] += 1
    rows, neighbors = result.rows.tolist(), result.neighbors.tolist()
    assert list(zip(rows, neighbors, strict=True)) == sorted(edges)
    assert result.weights.tolist() == [edges[pair] for pair in sorted(edges)]


# --- METIS and Louvain ------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(csc_graphs(min_nodes=1), parts, st.integers(0, 2**40), st.sampled_from(["none", "some", "one", "all"]))
def test_metis_takes_any_graph(graph, num_parts, seed, which):
    pytest.importorskip("pymetis")
    labelled = {
        "none": None,
        "some": np.random.default_rng(seed).random(graph.num_nodes) < 0.5,
        "one": np.arange(graph.num_nodes) == 0,
        "all": np.ones(graph.num_nodes, bool),
    }[which]
    owners = metis_owners(graph.indptr, graph.indices, num_parts, labelled=labelled, seed=seed)
    assert owners.dtype == torch.int32
    assert len(owners) == graph.num_nodes
    assert ((owners >= 0) & (owners < num_parts)).all()
    assert torch.equal(owners, metis_owners(graph.indptr, graph.indices, num_parts, labelled=labelled, seed=seed))


@pytest.mark.parametrize("num_parts", [4, 12], ids=["bisection", "k-way"])
def test_metis_cuts_planted_groups_apart(num_parts):
    pytest.importorskip("pymetis")
    indptr, indices, groups = planted(num_parts, 300, 20, 2)
    owners = metis_owners(indptr, indices, num_parts)
    hashed = cut(indptr, indices, hash_owners(torch.arange(len(groups)), num_parts), num_parts)
    assert cut(indptr, indices, owners, num_parts) < 0.15 * hashed
    assert len(set(zip(owners.tolist(), groups.tolist(), strict=True))) == num_parts


@pytest.mark.parametrize("num_parts", [4, 12], ids=["bisection", "k-way"])
def test_metis_balances_what_is_labelled(num_parts):
    """All labels in one of the groups, which alone would be one part: it has to be cut up."""
    pytest.importorskip("pymetis")
    indptr, indices, groups = planted(num_parts, 300, 20, 2)
    labelled = (groups == 1).numpy()
    owners = metis_owners(indptr, indices, num_parts, labelled=labelled)
    for counted in (np.bincount(owners.numpy()), np.bincount(owners.numpy()[labelled], minlength=num_parts)):
        assert counted.max() <= 1.05 * counted.mean() + 1
    unaware = metis_owners(indptr, indices, num_parts).numpy()[labelled]
    assert np.bincount(unaware).max() == 300


def test_metis_deals_out_what_has_no_edges():
    pytest.importorskip("pymetis")
    nothing = torch.zeros(14, dtype=torch.int64), torch.empty(0, dtype=torch.int64)
    labelled = np.arange(13) % 2 == 0
    owners = metis_owners(*nothing, 3, labelled=labelled).numpy()
    assert sorted(np.bincount(owners).tolist()) == [4, 4, 5]
    assert sorted(np.bincount(owners[labelled]).tolist()) == [2, 2, 3]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.integers(0, 40))
def test_level(sizes, count):
    piles, expected = list(sizes), [0] * len(sizes)
    for _ in range(count):
        lowest = piles.index(min(piles))
        piles[lowest] += 1
        expected[lowest] += 1
    added = _level(np.array(sizes), count)
    assert sorted((np.array(sizes) + added).tolist()) == sorted(piles)
    assert added.tolist() == expected


def test_louvain_finds_planted_groups():
    pytest.importorskip("igraph")
    indptr, indices, groups = planted(6, 200, 20, 2)
    owners = louvain_owners(indptr, indices, 6)
    assert len(set(zip(owners.tolist(), groups.tolist(), strict=True))) == 6
    two = louvain_owners(indptr, indices, 2)
    assert len(set(zip(two.tolist(), groups.tolist(), strict=True))) == 6
    assert torch.bincount(two).tolist() == [600, 600]


@settings(max_examples=60)
@given(csc_graphs(min_nodes=1), parts, seeds)
def test_louvain_takes_any_graph(graph, num_parts, seed):
    pytest.importorskip("igraph")
    owners = louvain_owners(graph.indptr, graph.indices, num_parts, seed=seed)
    assert len(owners) == graph.num_nodes
    assert ((owners >= 0) & (owners < num_parts)).all()
    assert int(torch.bincount(owners).max()) <= part_capacity(graph.num_nodes, num_parts, 0.03)
    assert torch.equal(owners, louvain_owners(graph.indptr, graph.indices, num_parts, seed=seed))


def test_packing_splits_along_finer_communities():
    """One community of four pairs in four parts: no pair is torn."""
    pairs = np.array([0, 1, 2, 3, 3, 2, 1, 0])
    owners = pack([pairs, np.zeros(8, np.int64)], 8, 4, 2)
    assert all(len(set(owners[pairs == pair].tolist())) == 1 for pair in range(4))
    assert np.bincount(owners).tolist() == [2] * 4


def test_packing_starts_with_the_largest():
    communities = np.array([0, 1, 1, 1, 2, 2])
    assert pack([communities], 6, 2, 3).tolist() == [1, 0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("function", "library", "extra"),
    [(metis_owners, "pymetis", "partition"), (louvain_owners, "igraph", "louvain")],
    ids=["metis", "louvain"],
)
def test_a_missing_library_is_named_with_its_extra(monkeypatch, function, library, extra):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ModuleNotFoundError, match=rf"needs {library}, .*pip install 'headrace\[{extra}\]'"):
        function(torch.tensor([0, 1]), torch.tensor([0]), 2)


def test_a_metis_that_cannot_do_it_says_so(monkeypatch):
    """A library that hides its functions, and one compiled with integers too short for the graph."""
    pymetis = pytest.importorskip("pymetis")
    indptr, indices, groups = planted(2, 20, 5, 1)
    with monkeypatch.context() as patch:
        patch.setattr("ctypes.CDLL", lambda _: object())
        with pytest.raises(ModuleNotFoundError, match="does not export METIS_PartGraphRecursive"):
            metis_owners(indptr, indices, 2, labelled=(groups == 0).numpy())
    monkeypatch.setattr(pymetis._internal, "_idx_type_width", lambda: 6)
    with pytest.raises(InputError, match=r"6-bit integers, too short for a graph of .* use Partition.stream"):
        metis_owners(indptr, indices, 2)
