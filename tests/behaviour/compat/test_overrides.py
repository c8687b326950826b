"""Methods of subclasses of loaders: asked for each batch, or refused when the loader is made."""

from __future__ import annotations

import threading

import pytest

import headrace as hr
import headrace.pyg

MAKE = {
    "NeighborLoader": lambda cls, data, **kwargs: cls(data, [3, 2], batch_size=50, **kwargs),
    "LinkNeighborLoader": lambda cls, data, **kwargs: cls(
        data, [3, 2], edge_label_index=data.edge_index, batch_size=50, **kwargs
    ),
    "ClusterLoader": lambda cls, data, **kwargs: cls(
        headrace.pyg.ClusterData(data, 4, log=False), batch_size=2, **kwargs
    ),
    "ShaDowKHopSampler": lambda cls, data, **kwargs: cls(data, 2, 3, batch_size=50, **kwargs),
    "GraphSAINTNodeSampler": lambda cls, data, **kwargs: cls(data, 20, 2, **kwargs),
    "GraphSAINTEdgeSampler": lambda cls, data, **kwargs: cls(data, 20, 2, **kwargs),
    "GraphSAINTRandomWalkSampler": lambda cls, data, **kwargs: cls(data, 20, 2, 2, **kwargs),
}
pytestmark = pytest.mark.filterwarnings("ignore:ClusterData. pymetis")


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", MAKE)
def test_filter_fn_of_a_subclass_makes_all_batches(data, name, workers):
    threads = set()

    class Marking:
        def filter_fn(self, out):
            threads.add(threading.get_ident())
            batch = super().filter_fn(out)
            batch.mark = 1
            return batch

    mine = type("Mine", (Marking, getattr(headrace.pyg, name)), {})
    batches = list(MAKE[name](mine, data, num_workers=workers))
    assert batches
    assert all(batch.mark == 1 for batch in batches)
    assert workers or threads == {threading.get_ident()}


def test_filter_fn_of_a_subclass_transforms_once(data):
    class Mine(headrace.pyg.NeighborLoader):
        def filter_fn(self, out):
            return super().filter_fn(out)

    calls = []
    loader = Mine(data, [3], batch_size=60, transform=lambda batch: calls.append(1) or batch)
    assert len(list(loader)) == len(calls) == 2
    loader.filter_fn = lambda out: "mine"
    assert list(loader) == ["mine", "mine"]


@pytest.mark.parametrize("name", MAKE)
def test_methods_that_no_batch_passes_through_are_refused(data, name):
    loader = getattr(headrace.pyg, name)
    for method in loader.not_called:
        mine = type("Mine", (loader,), {method: lambda self, *_: None})
        with pytest.raises(hr.InputError, match=f"Mine: expected no {method} of its own"):
            MAKE[name](mine, data)
