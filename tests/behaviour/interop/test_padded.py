"""Padded batches as objects of PyG: sizes that batches share, and outputs of seeds as without padding."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch_geometric.nn import HeteroConv, SAGEConv
from torch_geometric.utils import trim_to_layer

import headrace as hr

from plans import fetch_typed, graph, items, store, typed_graph, typed_items


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


def typed_plan(expand="new"):
    return fetch_typed(typed_items(batch_size=17).sample_neighbor(typed_graph(), [3, 2], expand=expand))


def test_types_have_two_shapes_and_masks():
    """Of each type; only what is known of real seeds alone has other sizes."""
    shapes = set()
    for data, real in zip(typed_plan().pad().to_pyg().loader(), typed_plan().to_pyg().loader(), strict=True):
        found = []
        for name, store_of, whole in zip(data.node_types, data.node_stores, real.node_stores, strict=True):
            mask = store_of.pad_node_mask
            assert store_of.n_id[mask].tolist() == whole.n_id.tolist()
            assert (store_of.n_id[~mask] == -1).all()
            assert sum(store_of.num_sampled_nodes) == store_of.num_nodes == len(mask)
            assert store_of.input_id.tolist() == whole.input_id.tolist()
            assert store_of.n_id[store_of.seed_index].tolist() == whole.n_id[whole.seed_index].tolist()
            if name != "lonely":
                assert torch.equal(store_of.x[mask], whole.x)
            found += [(key, tuple(value.shape)) for key, value in store_of.items() if torch.is_tensor(value)]
            found = [one for one in found if one[0] not in ("input_id", "seed_index")]
        seeds = slice(data["a"].batch_size)
        assert data["a"].y[data["a"].pad_node_mask[seeds]].tolist() == real["a"].y.tolist()
        assert (data["a"].y[~data["a"].pad_node_mask[seeds]] == -100).all()
        assert "y" not in data["b"]
        for relation in data.edge_types:
            of, whole, mask = data[relation], real[relation], data[relation].pad_edge_mask
            assert of.e_id[mask].tolist() == whole.e_id.tolist()
            assert (of.e_id[~mask] == -1).all()
            assert sum(of.num_sampled_edges) == len(mask)
            for end, (src, row) in enumerate(zip(relation[::2], of.edge_index, strict=True)):
                assert data[src].n_id[row[mask]].tolist() == real[src].n_id[whole.edge_index[end]].tolist()
                assert (data[src].n_id[row[~mask]] == -1).all()
            found += [(relation, key, tuple(value.shape)) for key, value in of.items() if torch.is_tensor(value)]
        shapes.add(tuple(found))
    assert len(shapes) == 2


def test_layers_of_pyg_with_types_have_the_same_outputs():
    torch.manual_seed(0)
    kinds = ("a", "b")
    relations = [one for one in typed_graph().edge_types.names if one[0] in kinds]
    convs = [
        HeteroConv({one: SAGEConv((-1, -1), 4) for one in relations}),
        HeteroConv({one: SAGEConv((4, 4), 3) for one in relations}),
    ]
    for data, real in zip(typed_plan().pad().to_pyg().loader(), typed_plan().to_pyg().loader(), strict=True):
        outputs = []
        for one in (data, real):
            rows = {name: one[name].x.float() for name in kinds}
            edges = {name: one[name].edge_index for name in relations}
            nodes_of_hops = {name: one[name].num_sampled_nodes for name in kinds}
            edges_of_hops = {name: one[name].num_sampled_edges for name in relations}
            for layer, conv in enumerate(convs):
                rows, edges, _ = trim_to_layer(layer, nodes_of_hops, edges_of_hops, rows, edges)
                rows = conv(rows, edges)
            outputs.append(rows["a"][: one["a"].batch_size])
        kept = data["a"].pad_node_mask[: data["a"].batch_size]
        torch.testing.assert_close(outputs[0][kept], outputs[1], rtol=1e-5, atol=1e-5)


def test_hops_of_types_that_overlap_are_refused():
    with pytest.raises(hr.PlanError, match="to_pyg: expected hops that do not overlap"):
        typed_plan("all").pad().to_pyg().loader()
    with pytest.raises(hr.InputError, match="to_pyg: expected hops that do not overlap"):
        next(iter(typed_plan("all").pad().loader())).to_pyg()


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
