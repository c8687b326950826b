"""Arguments of torch's DataLoader and of PyG's loaders that are of another kind or out of range: refused by name."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

import headrace as hr
import headrace.pyg

EDGES = torch.stack([torch.arange(40), (torch.arange(40) + 1) % 40])
DATA = Data(x=torch.randn(40, 3), edge_index=EDGES, num_nodes=40)
LOADERS = {
    "NeighborLoader": lambda **options: headrace.pyg.NeighborLoader(**{"data": DATA, "num_neighbors": [2], **options}),
    "LinkNeighborLoader": lambda **options: headrace.pyg.LinkNeighborLoader(
        **{"data": DATA, "num_neighbors": [2], **options}
    ),
    "ShaDowKHopSampler": lambda **options: headrace.pyg.ShaDowKHopSampler(
        **{"data": DATA, "depth": 1, "num_neighbors": 2, **options}
    ),
    "ClusterLoader": lambda **options: headrace.pyg.ClusterLoader(
        headrace.pyg.ClusterData(DATA, 4, log=False), **options
    ),
    "GraphSAINTNodeSampler": lambda **options: headrace.pyg.GraphSAINTNodeSampler(
        **{"data": DATA, "batch_size": 4, "num_steps": 2, "log": False, **options}
    ),
}
ODD = [-1, -2, 2.5, "a", float("nan"), 1 << 70, [], [-2], [None], torch.empty(0), torch.tensor([1.5]), {}, object()]


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(
    ("name", "also"),
    [
        ("batch_size", [0]),
        ("num_workers", [None]),
        ("prefetch_factor", [0]),
        ("shuffle", [3]),
        ("drop_last", [None, 3]),
        ("pin_memory", [3]),
        ("persistent_workers", [3]),
        ("timeout", [None]),
        ("generator", [0, True]),
        ("prefetch", []),
    ],
)
def test_odd_values_are_refused_by_name(loader, name, also):
    if loader == "GraphSAINTNodeSampler" and name == "shuffle":
        also = []
    odd = [one for one in ODD if name != "timeout" or not (isinstance(one, int | float) and one > 0)]
    for value in [*odd, *also]:
        with pytest.raises(hr.HeadraceError, match=name):
            LOADERS[loader](**{"batch_size": 2, name: value})


@pytest.mark.parametrize("loader", ["NeighborLoader", "LinkNeighborLoader"])
@pytest.mark.parametrize(
    "name",
    ["num_neighbors", "transform", "transform_sampler_output", "neighbor_sampler", "time_attr", "weight_attr"],
)
def test_odd_values_of_pyg_are_refused_when_the_loader_is_made(loader, name):
    for value in (-2, 2.5, [2.5], [-2], [None], ["a"], torch.tensor([1.5]), {}, object()):
        with pytest.raises(hr.HeadraceError):
            LOADERS[loader](**{name: value})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_sampler": [[0]], "shuffle": True}, "expected batch_sampler or shuffle, got both"),
        ({"batch_sampler": [[0]], "batch_size": 4}, "expected batch_sampler or batch_size, got both"),
        ({"sampler": [0], "shuffle": True}, "expected sampler or shuffle, got both"),
        ({"prefetch_factor": 2}, "num_workers of at least 1 beside prefetch_factor, got 0"),
        ({"persistent_workers": True}, "num_workers of at least 1 beside persistent_workers"),
        ({"sampler": "abc"}, "expected sampler to yield positions of items, got 'abc'"),
        ({"batch_sampler": 5}, "expected batch_sampler to yield positions"),
        ({"worker_init_fn": 5}, "expected worker_init_fn to be a function"),
    ],
)
def test_arguments_that_exclude_each_other(options, message):
    for make in (LOADERS["NeighborLoader"], LOADERS["LinkNeighborLoader"], LOADERS["ShaDowKHopSampler"]):
        with pytest.raises(hr.InputError, match=message):
            make(**options)


def test_positions_of_a_sampler_are_integers():
    for sampler in ([0.5], [None]):
        with pytest.raises(hr.HeadraceError, match="positions of items that the sampler names to be "):
            list(LOADERS["NeighborLoader"](sampler=sampler))
    assert len(list(LOADERS["NeighborLoader"](sampler=[torch.tensor(1), 2], batch_size=2))) == 1


@pytest.mark.parametrize("value", [0, -1, 2.5, "a", True, [1], {}, object()])
def test_negatives_of_another_kind(value):
    with pytest.raises(hr.InputError, match="expected neg_sampling to be"):
        LOADERS["LinkNeighborLoader"](neg_sampling=value)
    if value not in (0, 2.5) or value is True:
        with pytest.raises(hr.InputError, match="expected neg_sampling_ratio to be a number"):
            LOADERS["LinkNeighborLoader"](neg_sampling_ratio=value)


def test_numbers_and_switches_of_numpy_are_taken():
    numbers = torch.tensor(4).numpy()
    loader = LOADERS["NeighborLoader"](batch_size=numbers, shuffle=1, drop_last=0, num_workers=numbers * 0)
    assert len(list(loader)) == 10
