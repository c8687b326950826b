"""Unsigned integers wider than a byte, for which torch lacks operations, as PyG has features and labels."""

from __future__ import annotations

import pytest
import torch

import headrace as hr

from plans import typed_graph

pytest.importorskip("torch_geometric")


@pytest.mark.skipif(not hasattr(torch, "uint16"), reason="this torch has no unsigned integers wider than a byte")
def test_unsigned_integers_are_features_and_labels_as_others():
    """Also where torch has no operation for them: of edges of one type, and labels of seeds that repeat."""
    graph = typed_graph()
    name = next(one for one in graph.edge_types.names if len(graph.edge_types.id_range(one)))
    values = torch.arange(len(graph.edge_types.id_range(name))).to(torch.uint16)
    store = hr.FeatureStore(edge={(name, "w"): values})
    seeds = {"a": (torch.tensor([4, 7, 4]), torch.tensor([1, 2, 1]).to(torch.uint16))}
    plan = hr.ItemSampler(seeds, batch_size=3).sample_neighbor(graph, [-1, -1]).fetch_feature(store, edge={name: ["w"]})
    (data,) = plan.to_pyg().loader()
    assert torch.equal(data[name].w, values[data[name].e_id])
    assert len(data[name].w)
    assert data["a"].y.tolist() == [1, 2]
