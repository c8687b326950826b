"""Arguments that neither PyG's loaders nor torch's have."""

from __future__ import annotations

import pytest
import torch

import headrace as hr

pytest.importorskip("torch_geometric")
from torch_geometric.data import Data

from headrace.pyg import LinkNeighborLoader, NeighborLoader, ShaDowKHopSampler

DATA = Data(x=torch.randn(4, 2), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        ({"dtype": torch.float16}, r"transform=lambda data: .*\.fetch_feature\(store, node=.*dtype=dtype\)\.to_pyg"),
        ({"device": "cpu"}, r"batch\.to\(device\)"),
        ({"fanouts": [2]}, "here it is called num_neighbors="),
        ({"weight": "w"}, "here it is called weight_attr="),
        ({"batchsize": 2}, r"did you mean batch_size=\?"),
        ({"inputs": [2]}, "here it is called input_nodes="),
        ({"neg_sampling_ratio": 1.0}, r"headrace\.pyg\.LinkNeighborLoader has it"),
        ({"exclude_seed_edges": True}, r"headrace\.pyg\.LinkNeighborLoader has it"),
        ({"zzz": 2}, "leave it out"),
    ],
)
def test_they_are_refused_with_the_remedy(arguments, advice):
    with pytest.raises(hr.PlanError, match=rf"^NeighborLoader: expected .*, got {next(iter(arguments))}=; .*{advice}"):
        NeighborLoader(DATA, num_neighbors=[2], **arguments)


def test_other_loaders_name_their_own():
    with pytest.raises(hr.PlanError, match=r"^LinkNeighborLoader: .*here it is called neg_sampling_ratio="):
        LinkNeighborLoader(DATA, num_neighbors=[2], negative_ratio=2)
    with pytest.raises(hr.PlanError, match=r"^ShaDowKHopSampler: .*here it is called node_idx="):
        ShaDowKHopSampler(DATA, 2, 2, input_nodes=torch.arange(2))


def test_the_named_transform_runs():
    dtype = torch.float16
    convert = lambda data: data.apply(lambda x: x.to(dtype), "x")  # noqa: E731 - as the error has it
    assert next(iter(NeighborLoader(DATA, num_neighbors=[2], transform=convert))).x.dtype == dtype


def test_arguments_of_subclasses_and_of_torch_are_taken():
    class Own(NeighborLoader):
        def __init__(self, data, extra, **arguments):
            self.extra = extra
            super().__init__(data, **arguments)

    loader = Own(DATA, 3, num_neighbors=[2], batch_size=2, drop_last=True, pin_memory=False, input_id=torch.arange(4))
    assert len(list(loader)) == 2
