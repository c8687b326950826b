"""Splits of edges: what a model may see for a part holds nothing of later parts, in any direction."""

from __future__ import annotations

import warnings

import pytest
import torch
from hypothesis import given, reject
from hypothesis import strategies as st

import headrace as hr

PARTS = ("train", "val", "test")
BUYS, SEES = ("user", "buys", "item"), ("user", "sees", "item")
BOUGHT = ("item", "rev_buys", "user")


def ends_of(graph: hr.Graph) -> torch.Tensor:
    """Return the edges in input order, [num_edges, 2]."""
    dst = torch.arange(graph.num_nodes).repeat_interleave(graph.in_degrees())
    return torch.stack((graph.indices.long(), dst), 1)[graph.edge_ids.argsort()]


def random_ends(num_src, num_dst, count, seed):
    random = torch.Generator().manual_seed(seed)
    return [torch.randint(0, most, (count,), generator=random) for most in (num_src, num_dst)]


def pairs(ends: torch.Tensor) -> set[tuple[int, int]]:
    return {tuple(sorted(pair)) for pair in ends.tolist()}


@given(st.integers(0, 1000), st.sampled_from([0.1, 0.3, 7]), st.sampled_from([0.2, 0.0, 3]))
def test_a_random_split_divides_pairs_and_no_graph_has_one_of_a_later_part(seed, val, test):
    graph = hr.Graph.from_coo(*random_ends(9, 9, 60, seed), num_nodes=9).undirected()
    split = hr.split_links(graph, val=val, test=test, seed=seed)
    of_parts = {part: pairs(items.ids) for part, items in split.items.items()}
    assert sum(map(len, of_parts.values())) == len(pairs(ends_of(graph)))
    assert sum(map(len, split.items.values())) == graph.num_edges
    assert list(split.items) == [part for part, share in zip(PARTS, (1, val, test), strict=True) if share]
    seen: set[tuple[int, int]] = of_parts["train"]
    for part, known in split.graphs.items():
        assert pairs(ends_of(known)) == seen
        assert not seen & of_parts[part] or part == "train"
        assert torch.equal(ends_of(graph)[split.edges[part]], ends_of(known))
        seen = seen | of_parts[part] if part == "val" else seen
    assert torch.equal(ends_of(split.graphs["train"])[split.edge_ids], split.items["train"].ids)


def typed(seed=0, **attrs):
    buys, sees = random_ends(6, 8, 40, seed), random_ends(6, 8, 25, seed + 1)
    times = {BUYS: {"time": torch.randint(0, 30, (40,))}, SEES: {"time": torch.randint(0, 30, (25,))}}
    return hr.Graph.from_coo(
        {BUYS: buys, SEES: sees}, num_nodes={"user": 6, "item": 8}, edge_attrs=attrs.get("edge_attrs", times)
    )


@given(st.integers(0, 1000), st.booleans())
def test_reverse_types_have_no_edge_of_a_later_part(seed, dated):
    split = hr.split_links(typed(seed, **({} if dated else {"edge_attrs": {}})).with_reverse(), edge_type="buys")
    held = {part: {tuple(pair) for pair in items.ids[BUYS].tolist()} for part, items in split.items.items()}
    for part, later in (("train", {"val", "test"}), ("val", {"val", "test"}), ("test", {"test"})):
        graph = split.graphs[part]
        own = graph.edge_types.id_range(BOUGHT)
        back = {(user, item - 6) for item, user in ends_of(graph)[own.start : own.stop].tolist()}
        assert not back & set.union(*(held[one] for one in later))
        assert len(graph.edge_types.id_range(SEES)) == 25


@pytest.mark.parametrize(("num_back", "found"), [(100, True), (50, True), (49, False)])
def test_reverse_types_of_other_names_are_found_by_their_edges(num_back, found):
    """At least half of one of the two types is the other one in reverse."""
    back, likes = ("item", "bought by", "user"), ("item", "likes", "user")
    user, item = torch.arange(200) % 10, torch.arange(200) // 10  # each pair once
    chosen = torch.cat((torch.arange(num_back), torch.arange(100, 200 - num_back)))
    edges = {
        BUYS: (user[:100], item[:100]),
        back: (item[chosen], user[chosen]),
        likes: (item[90:200], user[90:200]),
    }
    graph = hr.Graph.from_coo(edges, num_nodes={"user": 10, "item": 20})
    split = hr.split_links(graph, edge_type=BUYS, val=0.2, test=0.2)
    known = split.graphs["train"]
    held = {tuple(pair) for part in ("val", "test") for pair in split.items[part].ids[BUYS].tolist()}
    own = ends_of(known)[slice(*known.edge_types.offsets[known.edge_types.names.index(back) :][:2])].tolist()
    users, items = (known.node_types.id_range(name).start for name in ("user", "item"))
    left = held & {(user - users, item - items) for item, user in own}
    assert (not left) == found
    assert len(known.edge_types.id_range(likes)) == 110
    assert len(hr.split_links(graph, edge_type=BUYS, reverse=False).graphs["train"].edge_types.id_range(back)) == 100


def num_found(split, name):
    """Return how many pairs that a model is not to see an edge of any type joins, in either direction."""
    count = 0
    for part, later in (("train", ("val", "test")), ("val", ("val", "test")), ("test", ("test",))):
        seen = pairs(ends_of(split.graphs[part]))
        held = [split.items[one] for one in later if one in split.items]
        count += sum(len(seen & pairs(items.ids if name is None else items.ids[name])) for items in held)
    return count


CITES, CITED, PAPERS = ("paper", "cites", "paper"), ("paper", "cited by", "paper"), {"paper": 100}


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("names", [(CITES, CITED), ("cites", "cited by")])
def test_reverses_among_nodes_of_one_type_are_found_by_their_edges(share, names):
    """Whatever share of the edges has its reverse in the type itself; loops and repeats included."""
    src, dst = random_ends(100, 100, 300, 3)
    count = int(share * 300)
    own = torch.cat((src, dst[:count], src[:9], src[:5])), torch.cat((dst, src[:count], dst[:9], src[:5]))
    name, back = names
    if isinstance(name, tuple):
        graph = hr.Graph.from_coo({name: own, back: own[::-1]}, num_nodes=PAPERS)
    else:
        ends = torch.cat((own[0], own[1])), torch.cat((own[1], own[0]))
        graph = hr.Graph.from_coo(*ends, num_nodes=100, edge_types={name: len(own[0]), back: len(own[0])})
    split = hr.split_links(graph, edge_type=name)
    assert num_found(split, name) == 0
    assert num_found(hr.split_links(graph, edge_type=back), back) == 0
    kept = hr.split_links(graph, edge_type=name, reverse=False).graphs["train"]
    assert len(kept.edge_types.id_range(back)) == len(own[0])


def test_another_relation_of_the_same_pairs_is_warned_of():
    src, dst = random_ends(100, 100, 300, 3)
    both, friends, calls = torch.cat((src, dst)), ("paper", "near", "paper"), ("paper", "like", "paper")
    order = torch.randperm(600)
    edges = {friends: (both, both.roll(300)), calls: (both[order], both.roll(300)[order])}
    graph = hr.Graph.from_coo(edges, num_nodes=PAPERS)
    with pytest.warns(hr.PlanWarning, match=r"'like', 'paper'\) joins the same pairs .* pass reverse=") as caught:
        hr.split_links(graph, edge_type=friends)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert num_found(hr.split_links(graph, edge_type=friends, reverse=calls), friends) == 0
        hr.split_links(graph, edge_type=friends, reverse=False)
        same = hr.Graph.from_coo({CITES: (src, dst), calls: (src[:200], dst[:200])}, num_nodes=PAPERS)
        assert len(hr.split_links(same, edge_type=CITES).graphs["train"].edge_types.id_range(calls)) == 200


@pytest.mark.parametrize("typed", [False, True])
def test_times_of_nodes_put_both_directions_into_one_part(typed):
    src, dst = random_ends(100, 100, 300, 5)
    times = torch.arange(100).flip(0)
    if typed:
        kinds = {"user": 100, "item": 100}
        attrs = {"user": {"time": times}, "item": {"time": times}}
        graph = hr.Graph.from_coo({BUYS: (src, dst), BOUGHT: (dst, src)}, num_nodes=kinds, node_attrs=attrs)
    else:
        graph = hr.Graph.from_coo(src, dst, num_nodes=100, node_attrs={"time": times}).undirected()
    split = hr.split_links(graph, edge_type=BUYS if typed else None, time="time")
    if not typed:
        assert num_found(split, None) == 0
        return
    for part, later in (("train", ("val", "test")), ("test", ("test",))):
        known = split.graphs[part]
        own, items = known.edge_types.id_range(BOUGHT), known.node_types.id_range("item")
        ends = ends_of(known)[own.start : own.stop] - torch.tensor(
            [items.start, known.node_types.id_range("user").start]
        )
        held = {tuple(pair) for one in later for pair in split.items[one].ids[BUYS].tolist()}
        assert not held & {(user, item) for item, user in ends.tolist()}


def test_few_common_pairs_and_relations_of_one_node_type_are_no_reverses():
    ends = random_ends(9, 9, 60, 2)
    both = tuple(torch.cat((ends[i], ends[1 - i])) for i in (0, 1))
    views, buys = ("item", "views", "item"), ("item", "buys", "item")
    graph = hr.Graph.from_coo({views: both, buys: tuple(end[50:70] for end in both)}, num_nodes={"item": 9})
    split = hr.split_links(graph, edge_type=views)
    assert len(split.graphs["train"].edge_types.id_range(buys)) == 20
    rare = ("item", "returned by", "user")
    graph = hr.Graph.from_coo({BUYS: ends, rare: (ends[1][:3], ends[0][:3])}, num_nodes={"user": 9, "item": 9})
    for seed in range(5):
        split = hr.split_links(graph, edge_type=BUYS, val=0.3, test=0.3, seed=seed)
        assert len(split.graphs["train"].edge_types.id_range(rare)) == 3


def test_a_graph_without_types_has_its_reverses_in_itself():
    graph = hr.Graph.from_coo(torch.arange(20), torch.arange(20).roll(1)).undirected()
    plain, told = hr.split_links(graph), hr.split_links(graph, reverse=True)
    assert all(torch.equal(plain.edges[part], told.edges[part]) for part in PARTS)


@given(st.integers(0, 1000), st.integers(1, 3))
def test_a_split_by_time_cuts_all_types_at_the_same_times(seed, step):
    torch.manual_seed(seed)
    graph = typed(seed).with_reverse([BUYS])
    try:
        split = hr.split_links(graph, edge_type=BUYS, val=4 * step, test=0.2, time="time")
    except hr.InputError as error:
        if "too many items have one time" in str(error):
            reject()
        raise
    times = {part: items.times[BUYS] for part, items in split.items.items()}
    assert times["train"].max() < times["val"].min() <= times["val"].max() < times["test"].min()
    for part, known in split.graphs.items():
        first_hidden = times["test" if part == "test" else "val"].min()
        assert known.edge_attrs["time"].max() < first_hidden
        kept = graph.edge_attrs["time"] < first_hidden
        assert torch.equal(split.edges[part], kept.nonzero().reshape(-1))


def test_a_reverse_type_without_times_loses_the_pairs_of_later_parts():
    ends = random_ends(6, 8, 40, 3)
    graph = hr.Graph.from_coo({BUYS: ends, BOUGHT: ends[::-1]}, edge_attrs={BUYS: {"time": torch.arange(40)}})
    split = hr.split_links(graph, edge_type=BUYS, val=0.2, test=0.2, time="time")
    held = {tuple(pair) for part in ("val", "test") for pair in split.items[part].ids[BUYS].tolist()}
    known = split.graphs["train"]
    own, users = known.edge_types.id_range(BOUGHT), known.node_types.id_range("item").start
    back = {(user, item - users) for item, user in ends_of(known)[own.start : own.stop].tolist()}
    assert back
    assert not back & held


def test_an_edge_is_as_late_as_its_source():
    src, dst = torch.tensor([0, 1, 2, 3]), torch.tensor([4, 4, 4, 4])
    graph = hr.Graph.from_coo(src, dst, node_attrs={"time": torch.tensor([3, 2, 1, 0, 0])})
    split = hr.split_links(graph, val=0, test=1, time="time")
    assert split.items["test"].ids.tolist() == [[0, 4]]
    assert list(split.graphs) == ["train", "test"]


def test_a_loader_takes_the_items_with_their_times():
    split = hr.split_links(typed(), edge_type=BUYS, time="time")
    items = hr.ItemSampler(split.items["train"], batch_size=8)
    assert torch.equal(items.time, split.items["train"].times[BUYS])
    train = split.graphs["train"]
    plan = items.sample_uniform_negative(train, ratio=1).sample_neighbor(train, [2], time="time")
    assert len(list(plan.loader())) == len(items.items) // 8 + bool(len(items.items) % 8)


def test_features_and_ids_of_a_reordered_graph_are_the_users():
    graph = hr.Graph.from_coo(torch.arange(10), torch.arange(10).roll(3))
    order = hr.reorder(graph, hr.FeatureStore(), scores=torch.rand(10)).graph
    plain, moved = (hr.split_links(one, seed=4) for one in (graph, order))
    found = [
        sorted(tuple(pair) for items in one.items.values() for pair in items.ids.tolist()) for one in (plain, moved)
    ]
    assert found[0] == found[1]


def test_times_that_do_not_divide_are_refused():
    graph = hr.Graph.from_coo([0, 1, 2, 3], [1, 2, 3, 0], edge_attrs={"time": [5, 5, 5, 5]})
    with pytest.raises(hr.InputError, match="got none for 'train', as too many items have one time"):
        hr.split_links(graph, val=1, test=1, time="time")
