"""Arguments of torch's DataLoader that are for worker processes: scripts run, and are told that they have no effect."""

from __future__ import annotations

import inspect
import warnings

import pytest
import torch
from torch.utils.data import DataLoader
from torch_geometric.data import Data

import headrace as hr
import headrace.pyg

EDGES = torch.stack([torch.arange(40), (torch.arange(40) + 1) % 40])
DATA = Data(x=torch.randn(40, 3), edge_index=EDGES, num_nodes=40)
LOADERS = {
    "NeighborLoader": lambda **options: headrace.pyg.NeighborLoader(DATA, [2], **options),
    "LinkNeighborLoader": lambda **options: headrace.pyg.LinkNeighborLoader(DATA, [2], **options),
    "ShaDowKHopSampler": lambda **options: headrace.pyg.ShaDowKHopSampler(DATA, 1, 2, **options),
}
UNUSED = {"timeout": 5, "multiprocessing_context": "spawn", "in_order": False, "worker_init_fn": print}


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("name", UNUSED)
def test_arguments_without_effect_are_named(loader, name):
    if name not in inspect.signature(DataLoader.__init__).parameters:
        pytest.skip("a newer torch has it")
    with pytest.warns(UserWarning, match=f"{loader}: expected no {name}, got it without effect"):
        made = LOADERS[loader](num_workers=1, **{name: UNUSED[name]})
    next(iter(made))


@pytest.mark.parametrize("loader", LOADERS)
def test_their_defaults_are_nothing_to_tell_of(loader):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = LOADERS[loader](num_workers=1, timeout=0, multiprocessing_context=None, worker_init_fn=None)
        assert len(list(made)) == 40


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_labels_beside_negatives_are_refused_by_name(dtype):
    labels = torch.ones(40, dtype=dtype)
    with pytest.raises(hr.InputError, match=r"labels beside negatives to be real numbers, .*got torch\.complex"):
        list(headrace.pyg.LinkNeighborLoader(DATA, [2], edge_label=labels, neg_sampling="binary"))
    graph = hr.Graph.from_pyg(DATA)
    plan = hr.ItemSampler((EDGES.t(), labels), seed=0)
    with pytest.raises(hr.InputError, match="expected labels beside negatives to be real numbers"):
        plan.sample_uniform_negative(graph, 1).loader()
    assert next(iter(plan.sample_neighbor(graph, [2]).loader())).y.dtype == dtype
