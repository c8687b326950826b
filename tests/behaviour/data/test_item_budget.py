"""Batches end before what their items cost exceeds a budget (peers.md, part A, section 5, 26)."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr

from plans import graph, typed_graph

COSTS = st.lists(st.integers(0, 12), min_size=1, max_size=40)


def one_by_one(costs: list[int], budget: int, most: int | None) -> list[list[int]]:
    """The law: an item comes in as long as all fit, and alone if it never does."""
    batches: list[list[int]] = []
    for position, cost in enumerate(costs):
        last = batches[-1] if batches else None
        fits = last is not None and sum(costs[one] for one in last) + cost <= budget
        if last is None or not fits or len(last) == most:
            batches.append([])
        batches[-1].append(position)
    return batches


@given(COSTS, st.integers(1, 30), st.none() | st.integers(1, 5))
def test_peers_26_a_batch_takes_items_while_they_fit(costs, budget, most):
    loader = hr.ItemSampler(len(costs), cost=costs, budget=budget, batch_size=most).loader()
    assert [batch.seeds.tolist() for batch in loader] == one_by_one(costs, budget, most)
    assert len(loader) == len(one_by_one(costs, budget, most))


@given(COSTS, st.integers(1, 30), st.integers(0, 3))
def test_peers_26_orders_are_those_of_batches_of_one_size(costs, budget, seed):
    """Shuffled, epochs have the items in the order that any batch size gives them."""
    plan = hr.ItemSampler(len(costs), cost=costs, budget=budget, shuffle=True, seed=seed)
    plain = hr.ItemSampler(len(costs), batch_size=7, shuffle=True, seed=seed)
    with plan.loader() as loader, plain.loader() as expected:
        for _ in range(3):
            order = torch.cat([batch.seeds for batch in expected]).tolist()
            batches = one_by_one([costs[item] for item in order], budget, None)
            assert [batch.seeds.tolist() for batch in loader] == [[order[one] for one in some] for some in batches]


def test_peers_26_pygs_dynamic_batch_sampler_cuts_alike():
    pytest.importorskip("torch_geometric")
    from torch_geometric.loader import DynamicBatchSampler

    costs = graph().in_degrees().tolist()
    sampler = DynamicBatchSampler([SimpleNamespace(num_edges=cost) for cost in costs], 60, mode="edge")
    loader = hr.ItemSampler(len(costs), cost=costs, budget=60).loader()
    theirs = [batch for batch in sampler]  # noqa: C416 - list() asks for a length, which it has not
    assert [batch.seeds.tolist() for batch in loader] == theirs


def test_all_edges_of_a_batch_are_within_the_budget():
    ids = torch.arange(0, 200, 3)
    items = hr.ItemSampler(ids, cost=graph().in_degrees()[ids], budget=100, shuffle=True, seed=1)
    edges = [batch.blocks[0].num_edges for batch in items.sample_in_subgraph(graph()).loader()]
    assert all(number <= 100 for number in edges)
    assert sum(edges) / len(edges) > 50


@pytest.mark.parametrize("shuffle", [False, True])
def test_resuming_is_a_seek_with_any_number_of_ranks(shuffle):
    costs = torch.arange(60) ** 2 % 17

    def plan():
        return hr.ItemSampler(60, cost=costs, budget=20, shuffle=shuffle, seed=5)

    loader = plan().loader()
    epochs = [[batch.seeds.tolist() for batch in loader] for _ in range(3)]
    whole = [seeds for epoch in epochs for seeds in epoch]
    if shuffle:
        assert len({len(epoch) for epoch in epochs}) > 1, "numbers of batches differ, or nothing is tested"
    loader = plan().loader()
    for done in range(len(epochs[0]) + len(epochs[1])):
        if done in (0, len(epochs[0])):
            batches = iter(loader)
        assert next(batches).seeds.tolist() == whole[done]
        state = pickle.loads(pickle.dumps(loader.state_dict()))  # noqa: S301 - just written
        shares = []
        for rank in range(2):
            resumed = plan().loader(rank=rank, world_size=2)
            resumed.load_state_dict(state)
            shares.append(next(iter(resumed)))
        assert torch.cat([share.seeds for share in shares]).tolist() == whole[done + 1]
        assert [share.num_global_seeds for share in shares] == [len(whole[done + 1])] * 2


def test_the_end_of_an_epoch_is_the_beginning_of_the_next():
    """Also with the seed that a state brings, by which epochs have other numbers of batches."""
    torch.manual_seed(3)
    first = hr.ItemSampler(60, cost=torch.arange(60) ** 2 % 17, budget=20, shuffle=True).loader()
    list(first)
    state = first.state_dict()
    assert (state["epoch"], state["source"]) == (1, None)
    rest = [(batch.seeds.tolist(), first.state_dict()) for _ in first.epochs(4) for batch in first]
    torch.manual_seed(4)
    second = hr.ItemSampler(60, cost=torch.arange(60) ** 2 % 17, budget=20, shuffle=True).loader()
    second.load_state_dict(state)
    assert [(batch.seeds.tolist(), second.state_dict()) for _ in second.epochs(4) for batch in second] == rest


def test_the_length_of_shuffled_epochs_is_not_known():
    with pytest.raises(TypeError, match="got item_sampler: shuffled items with a budget"):
        len(hr.ItemSampler(9, cost=range(9), budget=9, shuffle=True).loader())


def test_a_checkpoint_of_other_costs_is_refused():
    loader = hr.ItemSampler(9, cost=range(9), budget=9).loader()
    for other in (
        hr.ItemSampler(9, cost=range(9), budget=10),
        hr.ItemSampler(9, cost=[1] * 9, budget=9),
        hr.ItemSampler(9),
    ):
        with pytest.raises(hr.StateError):
            other.loader().load_state_dict(loader.state_dict())


def test_items_by_type():
    items = hr.ItemSampler({"a": [3, 5], "b": [0]}, cost={"b": [4], "a": [2, 3]}, budget=7)
    batches = [batch.seeds.tolist() for batch in items.sample_neighbor(typed_graph(), [1]).loader()]
    assert batches == [[3, 5], [120]]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"cost": [1, 2, 3]}, "cost= and budget= together"),
        ({"budget": 3}, "cost= and budget= together"),
        ({"cost": [1, 2], "budget": 3}, "a cost for each of 3 items, got 2"),
        ({"cost": [1, -2, 3], "budget": 3}, "at least 0, got -2"),
        ({"cost": [1.0, 2, 3], "budget": 3}, r"integers, one for each item, got float"),
        ({"cost": [[1], [2], [3]], "budget": 3}, r"integers, one for each item, got int64\[3, 1\]"),
        ({"cost": [True, True, False], "budget": 3}, "integers"),
        ({"cost": [1 << 61] * 3, "budget": 3}, r"below 2\*\*62"),
        ({"cost": [1, 2, 3], "budget": 0}, "budget"),
        ({"cost": [1, 2, 3], "budget": 2.5}, "budget"),
        ({"cost": [1, 2, 3], "budget": 3, "drop_last": True}, "drop_last=True"),
        ({"cost": [1, 2, 3], "budget": 3, "batch_size_per_rank": 2}, "batch_size_per_rank"),
    ],
)
def test_costs_that_cannot_be(options, match):
    with pytest.raises(hr.InputError, match=match):
        hr.ItemSampler(3, **options)


def test_a_mask_has_costs_of_its_items():
    mask = torch.tensor([True, False, True])
    with pytest.raises(hr.InputError, match=r"pass cost\[mask\]"):
        hr.ItemSampler(mask, cost=[1, 2, 3], budget=3)


def test_what_counts_on_one_size_refuses_a_budget():
    items = hr.ItemSampler(200, cost=graph().in_degrees(), budget=100)
    with pytest.raises(hr.PlanError, match="got items with a budget"):
        items.sample_saint(graph(), "walk", walk_length=2).loader()
    with pytest.raises(hr.PlanError, match="got items with a budget"):
        hr.scores.inclusion(items.sample_neighbor(graph(), [2]))


def test_a_checkpoint_stands_within_its_epoch():
    loader = hr.ItemSampler(20, cost=torch.ones(20, dtype=torch.int64), budget=4, shuffle=True, seed=1).loader()
    state = loader.state_dict()
    loader.load_state_dict({**state, "source": {"batch": 5}})
    with pytest.raises(hr.StateError, match="batch to be an integer from 0 to 5, got 6"):
        loader.load_state_dict({**state, "source": {"batch": 6}})


def test_a_checkpoint_of_batches_of_one_size_is_of_another_plan():
    budget = hr.ItemSampler(20, cost=torch.ones(20, dtype=torch.int64), budget=4, seed=1).loader()
    with pytest.raises(hr.StateError, match="batches cut otherwise, as by a budget"):
        hr.ItemSampler(20, batch_size=4, seed=1).loader().load_state_dict(budget.state_dict())
