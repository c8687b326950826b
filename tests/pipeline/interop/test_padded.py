"""Padded batches as objects of PyG: sizes that batches share, and outputs of seeds as without padding."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import trim_to_layer

import headrace as hr

from plans import graph, items, store


def plan(expand="new"):
    sampled = items(batch_size=17).sample_neighbor(graph(), [4, 3], expand=expand)
    return sampled.fetch_feature(store(), node=["x"], edge=["e"], labels="y")


def shape(data):
    return tuple((name, tuple(value.shape)) for name, value in sorted(data.to_dict().items()) if torch.is_tensor(value))


def test_all_batches_have_two_shapes_and_masks():
    found = list(plan().pad().to_pyg().loader())
    assert len({shape(data) for data in found}) == 2
    assert len({tuple(data.num_sampled_edges) for data in found[:-1]}) == 1
    for data, real in zip(found, plan().to_pyg().loader(), strict=True):
        assert data.n_id[data.pad_node_mask].tolist() == real.n_id.tolist()
        assert torch.equal(data.n_id[data.edge_index[:, data.pad_edge_mask]], real.n_id[real.edge_index])
        assert (data.n_id[data.edge_index[:, ~data.pad_edge_mask]] == -1).all()
        assert torch.equal(data.e[data.pad_edge_mask], real.e)
        assert data.e_id[data.pad_edge_mask].tolist() == real.e_id.tolist()
        assert data.y[data.pad_node_mask[: data.batch_size]].tolist() == real.y.tolist()
        assert (data.y[~data.pad_node_mask[: data.batch_size]] == -100).all()
        assert sum(data.num_sampled_nodes) == data.num_nodes
        assert sum(data.num_sampled_edges) == data.edge_index.shape[1]


def test_layers_of_pyg_trim_them_and_have_the_same_outputs_and_gradients():
    torch.manual_seed(0)
    convs = torch.nn.ModuleList([SAGEConv(8, 6), SAGEConv(6, 4)])
    for data, real in zip(plan().pad().to_pyg().loader(), plan().to_pyg().loader(), strict=True):
        results = []
        for one in (data, real):
            x, edge_index = one.x, one.edge_index
            for layer, conv in enumerate(convs):
                sizes = one.num_sampled_nodes, one.num_sampled_edges
                x, edge_index, _ = trim_to_layer(layer, *sizes, x, edge_index)
                x = conv(x, edge_index)
            loss = cross_entropy(x[: one.batch_size], one.y % 4 if one is real else one.y.where(one.y < 0, one.y % 4))
            results.append([loss, *torch.autograd.grad(loss, tuple(convs.parameters()))])
        for padded, without in zip(*results, strict=True):
            torch.testing.assert_close(padded, without, rtol=1e-5, atol=1e-5)


def test_seeds_that_repeat_have_a_label_each():
    seeds = torch.arange(90) % 13
    whole = hr.ItemSampler((seeds, seeds * 2), batch_size=20, shuffle=True, seed=3).sample_neighbor(graph(), [2])
    for data, real in zip(whole.pad().to_pyg().loader(), whole.to_pyg().loader(), strict=True):
        assert data.y[: len(real.y)].tolist() == real.y.tolist()
        assert data.y[len(real.y) :].eq(-100).all()
        assert len(data.y) == data.batch_size


def test_hops_that_overlap_are_refused():
    with pytest.raises(hr.PlanError, match="to_pyg: expected hops that do not overlap"):
        plan("all").pad().to_pyg().loader()
    with pytest.raises(hr.InputError, match="to_pyg: expected hops that do not overlap"):
        next(iter(plan("all").pad().loader())).to_pyg()
