"""Items of several nodes that belong together."""

from __future__ import annotations

import pytest
import torch

import headrace as hr

from plans import PLANS, graph


def test_seeds_are_numbered_in_their_shape_and_labels_follow():
    items = torch.arange(60).reshape(20, 3) % 37
    for batch in PLANS["hyper_edges"]().loader():
        assert batch.seeds.shape == batch.seed_index.shape == (len(batch.y), 3)
        assert torch.equal(batch.seeds, items[batch.item_index])
        assert torch.equal(batch.n_id[batch.seed_index], batch.seeds)
        assert torch.equal(batch.y, batch.item_index)
        assert batch.num_sampled_nodes[0] == len(batch.seeds.unique())
        assert torch.equal(batch.to_pyg().edge_label_index, batch.seed_index.t())


def test_they_print_and_count():
    sampler = hr.ItemSampler(torch.arange(12).reshape(3, 4))
    assert "3 items of 4 nodes" in repr(sampler)
    assert (sampler.nodes_per_seed, sampler.gives_pairs) == (4, True)
    assert hr.ItemSampler(5).nodes_per_seed == 1
    assert hr.ItemSampler(torch.zeros(5, 2).long()).nodes_per_seed == 2


def test_an_edge_index_is_not_taken_for_two_items():
    index = torch.arange(10).reshape(2, 5)
    with pytest.raises(hr.InputError, match=r"got \[2, 5\]; pass its transpose, pairs.t\(\)"):
        hr.ItemSampler(index)
    with pytest.raises(hr.InputError, match="pass its transpose"):
        hr.ItemSampler((index, torch.zeros(5)))
    (batch,) = hr.ItemSampler((index, torch.tensor([1, 2]))).sample_neighbor(graph(), [2]).loader()
    assert torch.equal(batch.seeds, index)


@pytest.mark.parametrize("shape", [(4, 1), (4, 0), (2, 2, 2)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(hr.InputError, match="items to have shape"):
        hr.ItemSampler(torch.zeros(shape, dtype=torch.int64))


def test_items_of_one_edge_type_are_pairs():
    pairs = torch.tensor([[0, 1], [1, 0], [2, 2]])
    for rows, words in ((torch.zeros(4, 3, dtype=torch.int64), "ids over all types"), (pairs.t(), r"pairs\.t\(\)")):
        with pytest.raises(hr.InputError, match=rf"expected pairs \[num_pairs, 2\] by edge type, got .*; .*{words}"):
            hr.ItemSampler({("a", "b", "c"): rows})
    hr.ItemSampler({("a", "b", "c"): pairs.t().t()})


def test_edges_between_them_are_no_pairs_to_exclude():
    plan = PLANS["hyper_edges"]()
    source, sampler = plan.stages
    with pytest.raises(hr.InputError, match="got 3 nodes each"):
        source.exclude_seed_edges().then(sampler).loader()
