"""Pairs that were given by edge type are on their edge types in `to_pyg()`, as PyG's LinkNeighborLoader has them."""

from __future__ import annotations

import pickle

import pytest
import torch

import headrace as hr

from plans import typed_graph

LIKES, TO_B, BACK = ("a", "likes", "a"), ("a", "to", "b"), ("b", "to", "a")
PAIRS = {
    LIKES: torch.stack([torch.arange(20), torch.arange(20) * 3 % 120], 1),
    TO_B: torch.stack([torch.arange(15) * 7 % 120, torch.arange(15) % 70], 1),
    BACK: torch.tensor([[69, 119]]),
}
LABELS = {LIKES: torch.arange(20), TO_B: 100 + torch.arange(15), BACK: torch.tensor([200])}


def plan(items=None, **changes):
    arguments = {"batch_size": 9, "shuffle": True, "seed": 4, **changes}
    return hr.ItemSampler((PAIRS, LABELS) if items is None else items, **arguments)


def ends(data, edge_type, index):
    """What rows of a HeteroData are called within their types."""
    return torch.stack([data[edge_type[0]].n_id[index[0]], data[edge_type[2]].n_id[index[1]]], 1)


@pytest.mark.parametrize("more", [{}, {"fuse_sampling": False}, {"prefetch": False}], ids=str)
def test_each_edge_type_has_its_pairs_and_labels(more):
    """Two types that join the same nodes are told apart; a type without pairs in the batch has none of them."""
    seen = {}
    for data in plan().sample_neighbor(typed_graph(), [2, 2]).to_pyg().loader(**more):
        others = [one for one in data.stores if all(one is not store for store in data.edge_stores)]
        assert others
        assert not any("edge_label_index" in store for store in others)
        for name in PAIRS:
            store = data[name]
            assert store.edge_label_index.shape == (2, len(store.edge_label))
            label = store.edge_label - LABELS[name][0]
            assert torch.equal(ends(data, name, store.edge_label_index), PAIRS[name][label])
            seen.setdefault(name, []).extend(label.tolist())
        assert sum(len(data[name].input_id) for name in PAIRS) == 9
        assert "edge_label_index" not in data["a", "to", "a"]
    assert {name: sorted(labels) for name, labels in seen.items()} == {
        name: list(range(len(pairs))) for name, pairs in PAIRS.items()
    }


def test_input_id_is_the_item():
    every = torch.cat(list(PAIRS.values()))
    for data in plan().sample_neighbor(typed_graph(), [2]).to_pyg().loader():
        for name in PAIRS:
            store = data[name]
            assert torch.equal(every[store.input_id], ends(data, name, store.edge_label_index))


@pytest.mark.parametrize("ratio", [1, 1.5])
def test_negatives_are_of_the_type_of_their_pair(ratio):
    for batch in plan(PAIRS).sample_uniform_negative(typed_graph(), ratio).sample_neighbor(typed_graph(), [2]).loader():
        data = batch.to_pyg()
        total = 0
        for name in PAIRS:
            store = data[name]
            positives = int(store.edge_label.sum())
            assert store.edge_label.tolist() == [1.0] * positives + [0.0] * (len(store.edge_label) - positives)
            assert len(store.input_id) == positives
            sources = store.edge_label_index[0]
            assert set(sources[positives:].tolist()) <= set(sources[:positives].tolist())
            total += len(store.edge_label)
        assert total == len(batch.seeds)


def test_triplets_are_on_the_edge_type():
    triplets = plan(PAIRS).sample_uniform_negative(typed_graph(), 2, "triplet").sample_neighbor(typed_graph(), [2])
    for data in triplets.to_pyg().loader():
        for name, pairs in PAIRS.items():
            store = data[name]
            assert store.dst_neg_index.shape == (len(store.src_index), 2)
            found = ends(data, name, torch.stack([store.src_index, store.dst_pos_index]))
            assert set(map(tuple, found.tolist())) <= set(map(tuple, pairs.tolist()))
            assert (store.dst_neg_index < data[name[2]].num_nodes).all()
            assert "edge_label_index" not in store


def test_times_and_ranks():
    times = {name: torch.arange(len(pairs)) + 100 for name, pairs in PAIRS.items()}
    count = 0
    for rank in range(2):
        timed = plan(time=times, shuffle=False).sample_neighbor(typed_graph(), [2])
        for data in timed.to_pyg().loader(rank=rank, world_size=2):
            assert "seed_time" not in data
            for name in PAIRS:
                store = data[name]
                assert torch.equal(store.edge_label_time, store.edge_label - LABELS[name][0] + 100)
                count += len(store.edge_label)
    assert count == 36


def test_pairs_of_the_whole_id_space_stay_where_they_were():
    """Nobody knows which type they are of."""
    whole = torch.tensor([[0, 3], [1, 125]])
    (batch,) = hr.ItemSampler(whole, seed=1).sample_neighbor(typed_graph(), [2]).loader()
    data = batch.to_pyg()
    assert batch.link_types is None
    assert data.edge_label_index.shape == (2, 2)


def test_types_go_along_with_the_batch():
    batch = next(iter(plan().sample_neighbor(typed_graph(), [2]).loader()))
    again = pickle.loads(pickle.dumps(batch)).to("cpu")  # noqa: S301 - our own
    assert again.link_types.names == tuple(PAIRS)
    assert torch.equal(again.link_types.numbers, batch.link_types.numbers)
    assert any(tensor is batch.link_types.numbers for tensor in batch.tensors())


def test_an_edge_type_is_named_once():
    twice = {"likes": PAIRS[LIKES], LIKES: PAIRS[LIKES]}
    with pytest.raises(hr.HeadraceError, match=r"edge type once, got \('a', 'likes', 'a'\) under two names"):
        plan(twice).sample_neighbor(typed_graph(), [2]).loader()
