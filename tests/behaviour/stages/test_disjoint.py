"""Disjoint trees: no node is shared, repeats are kept, and trees draw independently."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr

from plans import graph, items, store


def batches(plan, **options):
    return list(plan.loader(**options))


@pytest.mark.parametrize("expand", ["all", "new"])
@pytest.mark.parametrize("sampler", ["sample_neighbor", "sample_layer_neighbor"])
def test_peers_16_no_node_is_shared_between_trees(sampler, expand):
    for batch in batches(getattr(items(), sampler)(graph(), [4, 3, 2], disjoint=True, expand=expand)):
        assert batch.slot.shape == batch.n_id.shape
        elements = list(zip(batch.n_id.tolist(), batch.slot.tolist(), strict=True))
        assert len(set(elements)) == len(elements)
        for block in batch.blocks:
            sources, destinations = block.edge_index
            assert torch.equal(batch.slot[sources], batch.slot[destinations])


def test_peers_16_seeds_come_first_and_repeats_are_kept():
    seeds = torch.tensor([7, 3, 7, 7])
    (batch,) = batches(hr.ItemSampler(seeds, seed=1).sample_neighbor(graph(), [5, 2], disjoint=True))
    assert batch.n_id[:4].tolist() == seeds.tolist()
    assert batch.slot[:4].tolist() == batch.seed_index.tolist() == [0, 1, 2, 3]
    assert batch.num_sampled_nodes[0] == 4
    assert sum(batch.num_sampled_nodes) == len(batch.n_id)
    assert sum(batch.num_sampled_edges) == sum(block.num_edges for block in batch.blocks)


def test_peers_16_two_seeds_that_share_a_neighbor_have_a_copy_each():
    shared = hr.Graph.from_coo([2, 2], [0, 1], num_nodes=3)
    (batch,) = batches(hr.ItemSampler([0, 1], seed=0).sample_neighbor(shared, [-1], disjoint=True))
    assert batch.n_id.tolist() == [0, 1, 2, 2]
    assert batch.slot.tolist() == [0, 1, 0, 1]
    assert batch.blocks[0].edge_index.tolist() == [[2, 3], [0, 1]]


def test_peers_16_both_ends_of_a_pair_and_its_negatives_are_in_one_slot():
    """Slots count positives: rows of seeds behind the items have theirs again."""

    def with_negatives(batch):
        negatives = torch.stack([batch.seeds[:, 0], batch.seeds[:, 1] + 1], 1)
        return batch.replace(seeds=torch.cat([batch.seeds, negatives]))

    pairs = torch.tensor([[1, 2], [3, 4], [5, 6]])
    plan = hr.ItemSampler(pairs, seed=0).transform(with_negatives).sample_neighbor(graph(), [2], disjoint=True)
    (batch,) = batches(plan)
    assert torch.equal(batch.n_id[batch.seed_index], batch.seeds)
    assert batch.slot[batch.seed_index].tolist() == [[slot, slot] for slot in (0, 1, 2, 0, 1, 2)]


@pytest.mark.slow
@given(st.lists(st.integers(0, 199), min_size=1, max_size=5), st.sampled_from(["all", "new"]), st.booleans())
def test_a_tree_is_what_its_seed_has_alone_of_full_fanout(seeds, expand, fused):
    (batch,) = batches(
        hr.ItemSampler(seeds, seed=3).sample_neighbor(graph(), [-1, -1], disjoint=True, expand=expand),
        fuse_sampling=fused,
    )
    for slot, seed in enumerate(seeds):
        (alone,) = batches(hr.ItemSampler([seed], seed=3).sample_neighbor(graph(), [-1, -1], expand=expand))
        assert batch.n_id[batch.slot == slot].tolist() == alone.n_id.tolist()
        trees = [batch.slot[block.edge_index[1]] == slot for block in batch.blocks]
        found = [block.edge_ids[mine] for block, mine in zip(batch.blocks, trees, strict=True)]
        assert all(torch.equal(*pair) for pair in zip(found, [one.edge_ids for one in alone.blocks], strict=True))


def test_trees_draw_independently():
    """One node in 600 trees: its 40 in-edges are picked about as often as each other, and no two trees agree always."""
    hub = hr.Graph.from_coo(torch.arange(1, 41), torch.zeros(40, dtype=torch.int64))
    seeds = torch.zeros(600, dtype=torch.int64)
    for sampler in ("sample_neighbor", "sample_layer_neighbor"):
        (batch,) = batches(getattr(hr.ItemSampler(seeds, seed=2), sampler)(hub, [4], disjoint=True))
        edges = batch.blocks[0].edge_ids.reshape(600, 4)
        counts = np.bincount(edges.flatten().numpy(), minlength=40)
        assert np.abs(counts - 60).max() < 5 * np.sqrt(60 * 0.9)
        assert len({tuple(sorted(row)) for row in edges.tolist()}) > 590


def test_features_labels_and_edges_come_for_every_copy():
    plan = items(batch_size=9).sample_neighbor(graph(), [3, 2], disjoint=True)
    for batch in batches(plan.fetch_feature(store(), node=["x"], edge=["e"], labels="y")):
        assert torch.equal(batch.x, store().node["x"].read(batch.n_id).rows)
        assert torch.equal(batch.y, store().node["y"].read(batch.seeds).rows)
        for block, rows in zip(batch.blocks, batch.edge["e"], strict=True):
            assert torch.equal(rows, store().edge["e"].read(block.edge_ids).rows)


@pytest.mark.parametrize("expand", ["all", "new"])
def test_to_pyg_has_the_trees_of_nodes(expand):
    pytest.importorskip("torch_geometric")
    (batch,) = batches(hr.ItemSampler([7, 3, 7], seed=1).sample_neighbor(graph(), [5, 2], disjoint=True, expand=expand))
    data = batch.to_pyg()
    assert torch.equal(data.batch, batch.slot)
    assert data.batch_size == 3
    sources, destinations = data.edge_index
    assert torch.equal(data.batch[sources], data.batch[destinations])
    # An edge comes once in each tree, and all that any hop has of the tree.
    found = list(zip(data.batch[destinations].tolist(), data.e_id.tolist(), strict=True))
    assert len(set(found)) == len(found) == sum(data.num_sampled_edges)
    of_blocks = {
        pair
        for block in batch.blocks
        for pair in zip(batch.slot[block.edge_index[1]].tolist(), block.edge_ids.tolist(), strict=True)
    }
    assert set(found) == of_blocks


def test_to_pyg_has_the_times_of_seeds():
    pytest.importorskip("torch_geometric")
    timed = hr.Graph.from_coo([1, 2], [0, 1], edge_attrs={"time": [1, 2]})
    (batch,) = batches(hr.ItemSampler([0, 1], time=[3, 1], seed=0).sample_neighbor(timed, [2, 2], time="time"))
    data = batch.to_pyg()
    assert data.seed_time.tolist() == [3, 1]
    assert data.e_id.tolist() == [0, 1]


def test_a_reordered_graph_has_the_same_trees_by_original_ids():
    """Of full fanout: picks depend on ids."""
    times = torch.arange(200) % 7
    timed = hr.Graph.from_csc(graph().indptr, graph().indices, node_attrs={"t": times})
    reordered = hr.reorder(timed, order=torch.randperm(200, generator=torch.Generator().manual_seed(1)))
    seeds = torch.tensor([7, 30, 7])
    found = []
    for one in (timed, reordered.graph):
        (batch,) = batches(hr.ItemSampler(seeds, seed=0).sample_neighbor(one, [-1, -1], time="t"))
        found.append((sorted(zip(batch.n_id.tolist(), batch.slot.tolist(), strict=True)), batch.seed_time.tolist()))
    assert found[0] == found[1]
