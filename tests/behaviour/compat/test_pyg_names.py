"""Names of PyG's samplers and loaders that a plan has no use for: they answer as PyG's, or say what to write."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.loader import mixin

import headrace as hr
from headrace.pyg import LinkNeighborLoader, NeighborLoader, Sampler

MIXED_IN = (mixin.AffinityMixin, mixin.MultithreadingMixin, mixin.LogMemoryMixin)


@pytest.mark.parametrize("kind", [NeighborLoader, LinkNeighborLoader])
@pytest.mark.parametrize("name", [name for one in MIXED_IN for name in vars(one) if name.startswith("enable_")])
def test_settings_of_worker_processes_are_refused(data, kind, name):
    loader = kind(data, [2], num_workers=2)
    with pytest.raises(hr.InputError, match=rf"{kind.__name__}: expected no {name}.*threads of this process: "):
        getattr(loader, name)()


def test_samplers_say_whether_they_have_types_and_times(data, hetero, stores, typed_stores):
    data.time = torch.arange(data.num_nodes)
    said = {}
    for name, one in {"data": data, "hetero": hetero, "stores": stores, "typed stores": typed_stores}.items():
        sampler = Sampler(one, [2])
        said[name] = sampler.is_hetero
        assert not sampler.is_temporal
    assert said == {"data": False, "hetero": True, "stores": False, "typed stores": True}
    assert Sampler(data, [2], time_attr="time").is_temporal


def test_the_direction_of_sampling_is_kept(data):
    assert Sampler(data, [2], sample_direction="forward").sample_direction == "forward"
