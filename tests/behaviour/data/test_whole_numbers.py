"""Integers of every width and kind, wherever a user may pass them: the same numbers, or refused by name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Subset, TensorDataset

import headrace as hr

GRAPH = hr.Graph.from_coo([0, 1, 2], [1, 2, 0], node_attrs={"time": torch.arange(3)})
X = torch.arange(6.0).reshape(3, 2)
#: Three numbers each, and what they are exactly; None where they are no whole numbers of 64 bits.
ARRAYS: dict[str, tuple[Callable[[], Any], list[int] | None]] = {
    "uint64": (lambda: np.array([0, 2, 1], np.uint64), [0, 2, 1]),
    "uint64 from 2**63 on": (lambda: np.array([0, 2**63 + 5, 1], np.uint64), None),
    "uint64 tensor below 0 once wrapped": (lambda: torch.from_numpy(np.array([0, 2**64 - 7, 1], np.uint64)), None),
    "uint32": (lambda: np.array([0, 2, 1], np.uint32), [0, 2, 1]),
    "uint32 from 2**31 on": (lambda: np.array([0, 2**32 - 1, 1], np.uint32), [0, 2**32 - 1, 1]),
    "uint16 tensor": (lambda: torch.from_numpy(np.array([0, 2, 1], np.uint16)), [0, 2, 1]),
    "int8": (lambda: np.array([0, 2, 1], np.int8), [0, 2, 1]),
    "negative": (lambda: torch.tensor([0, -7, 1]), [0, -7, 1]),
    "above 32 bits": (lambda: torch.tensor([0, 2**32 + 2, 1]), [0, 2**32 + 2, 1]),
    "fractions": (lambda: torch.tensor([0.0, 1.5, 1.0]), None),
    "whole floats": (lambda: np.array([0.0, 2.0, 1.0]), None),
    "floats beyond 2**53": (lambda: np.array([0.0, 2.0**53 + 2, 1.0]), None),
    "nan": (lambda: np.array([0.0, np.nan, 1.0]), None),
    "complex": (lambda: torch.tensor([0, 2, 1], dtype=torch.complex64), None),
    "bool": (lambda: torch.tensor([False, True, True]), None),
    "list from 2**63 on": (lambda: [0, 2**63 + 5, 1], None),
    "list beyond 2**64": (lambda: [0, 2**70, 1], None),
    "list below -2**63": (lambda: [0, -(2**63) - 5, 1], None),
    "dates": (lambda: np.array(["2020", "2021", "2022"], "datetime64[Y]"), None),
}


def saved_ids(values, folder):
    hr.save_dataset(folder, GRAPH, ids={"node": values}, progress=False)
    return hr.open_dataset(folder).ids["node"].external(torch.arange(3)).tolist()


def ids_of(folder, ids=None):
    hr.save_dataset(folder, GRAPH, ids=ids, progress=False)
    return hr.open_dataset(folder).ids["node"]


def seeds_of(plan):
    return [seed for batch in plan.loader(prefetch=False) for seed in batch.seeds.tolist()]


def batch_of(**arguments):
    (batch,) = hr.ItemSampler(batch_size=3, **arguments).loader(prefetch=False)
    return batch


#: Each returns the numbers that it took, as lists; arguments are the values and a new folder.
ENTRIES: dict[str, Callable[[Any, Any], Any]] = {
    "items": lambda v, _: batch_of(items=v).seeds.tolist(),
    "items of a type": lambda v, _: seeds_of(hr.ItemSampler({"a": v}, batch_size=3)),
    "items, time": lambda v, _: batch_of(items=[0, 1, 2], time=v).seed_time.tolist(),
    "items, edge_ids": lambda v, _: hr.ItemSampler(
        torch.tensor([[0, 1], [1, 2], [2, 0]]), edge_ids=v
    ).edge_ids.tolist(),
    "a Subset": lambda v, _: batch_of(items=Subset(TensorDataset(torch.arange(9)), v)).seeds.tolist(),
    "from_coo": lambda v, _: hr.Graph.from_coo(v, [0, 1, 2], num_nodes=3).indices.tolist(),
    "from_csc, indices": lambda v, _: hr.Graph.from_csc([0, 1, 2, 3], v).indices.tolist(),
    "from_csc, edge_ids": lambda v, _: hr.Graph.from_csc([0, 1, 2, 3], [0, 1, 2], edge_ids=v).edge_ids.tolist(),
    "save_dataset, ids": saved_ids,
    "ours": lambda v, f: torch.tensor([0, 2, 1, -7])[ids_of(f, {"node": [0, 2, 1]}).ours(v)].tolist(),
    "ours, of numbers": lambda v, f: ids_of(f).ours(v).tolist(),
    "external": lambda v, f: ids_of(f, {"node": [0, 1, 2]}).external(v).tolist(),
    "reorder, order": lambda v, _: hr.reorder(GRAPH, order=v).graph.node_ids.tolist(),
    "read": lambda v, _: (hr.CachedFeature(X, "lru", rows=2).read(v).rows[:, 0] / 2).int().tolist(),
    "cache, ids": lambda v, _: hr.CachedFeature(X, "static", ids=v).read(torch.arange(3)).counts["hits"] and [0, 2, 1],
    "Partition.of": lambda v, _: hr.Partition.of(v).owner(torch.arange(3)).tolist(),
    "reverse edges": lambda v, _: (
        hr.ItemSampler(torch.tensor([[0, 1]]), edge_ids=[0])
        .sample_neighbor(GRAPH, fanouts=[2])
        .exclude_seed_edges(by="edge_id", reverse=v)
        .stages[-1]
        .reverse.tolist()
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_ids_are_exact_or_refused(entry, kind, tmp_path):
    make, exact = ARRAYS[kind]
    values = make()
    if kind == "bool" and entry.startswith("items") and entry not in ("items, time", "items, edge_ids"):
        exact = [1, 2]  # a mask
    if kind == "negative" and entry == "a Subset":
        exact = [0, 2, 1]  # as in Python, from the end
    try:
        got = ENTRIES[entry](values, tmp_path / "data")
    except hr.HeadraceError:
        return
    if exact is None:
        # Times may be floating point.
        assert entry == "items, time", (entry, kind, got)
        exact = values.tolist()
    assert got == exact, (entry, kind)


@pytest.mark.parametrize("kind", ["uint64", "uint32", "uint16 tensor", "int8"])
@pytest.mark.parametrize("entry", ["save_dataset, ids", "ours", "ours, of numbers", "external", "Partition.of"])
def test_ids_of_users_may_have_any_width(entry, kind, tmp_path):
    assert ENTRIES[entry](ARRAYS[kind][0](), tmp_path / "data") == [0, 2, 1]


def test_what_is_refused_is_named(tmp_path):
    large = np.array([1, 2**63 + 5, 7], np.uint64)
    with pytest.raises(hr.InputError, match=r"ids of node to be integers below 2\*\*63, got 9223372036854775813"):
        saved_ids(large, tmp_path / "data")
    ids = ids_of(tmp_path / "data", {"node": np.array([-7, 5, 9])})
    with pytest.raises(hr.InputError, match=r"below 2\*\*63, got 18446744073709551609"):
        ids.ours(np.array([2**64 - 7], np.uint64))
    with pytest.raises(hr.InputError, match=r"costs to be integers below 2\*\*63, got 18446744073709551615"):
        hr.ItemSampler([0, 1], cost=np.array([1, 2**64 - 1], np.uint64), budget=9)


@pytest.mark.parametrize(
    "values", [[2**63 + 5, 1], [2**53 + 1, 0.5], [[2**63 + 5, 1]], (np.uint64(2**63 + 5), np.int64(1))]
)
def test_lists_that_numpy_would_round_are_refused(values):
    for take in (
        lambda: hr.FeatureStore(node={"x": values}),
        lambda: hr.Graph.from_coo([0, 1], [1, 0], edge_attrs={"when": values}),
        lambda: hr.ItemSampler([0, 1], time=values),
    ):
        with pytest.raises(hr.HeadraceError):
            take()
    with pytest.raises(hr.HeadraceError, match=r"of one dtype, got 9\d+, for which|of one dtype, got \d+"):
        hr.FeatureStore(node={"x": values})


def test_complex_scales_are_refused():
    with pytest.raises(hr.InputError, match="scale to be a number or an array of real numbers"):
        hr.QuantizedFeature(torch.zeros(2, 2, dtype=torch.uint8), torch.tensor([1 + 1j, 2]), 0.0)


def test_lists_that_float64_has_are_taken():
    x = hr.FeatureStore(node={"x": [[2**53, 0.5], [2.0**60, 1]]}).node["x"]
    assert x.read(torch.arange(2)).rows.tolist() == [[2.0**53, 0.5], [2.0**60, 1.0]]


NUMBERS = {
    "2**62": 1 << 62,
    "2**63": 1 << 63,
    "2**64": 1 << 64,
    "2**70": 1 << 70,
    "uint64": np.uint64(2**63 + 5),
    "below 0": -7,
    "fraction": 1.5,
    "float": 2.0,
    "bool": True,
    "nan": float("nan"),
}
COUNTS: dict[str, Callable[[Any], Any]] = {
    "types": lambda n: hr.Graph.from_coo([], [], node_types={"a": n, "b": n}).node_types.num_ids == 2 * int(n),
    "num_nodes of types": lambda n: hr.Graph.from_coo({("a", "to", "b"): ([0], [1])}, num_nodes={"a": n, "b": n}),
    "Partition.range": lambda n: hr.Partition.range(n, 2).num_nodes == n,
    "Partition.hash": lambda n: hr.Partition.hash(n, 2).num_nodes == n < 1 << 63,
    "Partition.owned": lambda n: hr.Partition.range(10, 2).owned(n),
    "a range": lambda n: max(seeds_of(hr.ItemSampler(range(n, n + 2)))) == n + 1 if int(n) == n else 1 / 0,
    "fanout": lambda n: seeds_of(hr.ItemSampler([0, 1, 2]).sample_neighbor(GRAPH, fanouts=[n])),
    "window": lambda n: seeds_of(
        hr.ItemSampler([0, 1, 2], time=[1, 2, 3]).sample_neighbor(GRAPH, fanouts=[2], time="time", window=n)
    ),
}


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("entry", COUNTS)
def test_counts_are_exact_or_refused(entry, number):
    value = NUMBERS[number]
    if entry == "a range" and number in ("fraction", "float", "nan"):
        pytest.skip("range refuses it")
    with contextlib.suppress(hr.HeadraceError):
        assert COUNTS[entry](value) is not False


def test_owners_are_those_of_ids():
    for partition in (hr.Partition.range(9, 3), hr.Partition.of([0, 1, 2] * 3), hr.Partition.hash(9, 3)):
        for ids in (torch.tensor([0.5, 1.0]), [0, 1], torch.tensor([True, False]), np.array([1], np.uint64)):
            for ask in (partition.owner, partition.position):
                with pytest.raises(hr.InputError):
                    ask(ids)
        with pytest.raises(hr.InputError):
            partition.owned(-1)


def test_scores_of_64_bits_rank_rows_exactly():
    scores = [2**62 + 1, 2**62 + 2, 2**62]
    for values in (torch.tensor(scores), np.array(scores, np.uint64) + np.uint64(2**63)):
        cached = hr.CachedFeature(X, "static", rows=1, scores=values)
        cached.read(torch.arange(3))
        assert cached.read(torch.tensor([1])).counts["hits"] == 1
