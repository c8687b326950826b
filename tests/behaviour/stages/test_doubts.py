"""Plans that are legal and hardly meant: each is warned of, and the one that is meant is not."""

from __future__ import annotations

import warnings

import pytest
import torch

import headrace as hr

RATES, VIEWS = ("user", "rates", "movie"), ("user", "views", "movie")
BACK, VIEWED = ("movie", "rev_rates", "user"), ("movie", "rev_views", "user")


def ends() -> torch.Tensor:
    return torch.stack((torch.arange(200) % 30, torch.arange(200) * 7 % 20))


def typed() -> hr.Graph:
    viewed = ends()[:, :10].flip(1)
    edges = {RATES: tuple(ends()), VIEWS: (viewed[0], (viewed[1] + 3) % 20)}
    return hr.Graph.from_coo(edges, num_nodes={"user": 30, "movie": 20}).with_reverse()


def timed(first: int = 0, name: str = "time") -> hr.Graph:
    src, dst = torch.randint(0, 50, (2, 400), generator=torch.Generator().manual_seed(1))
    return hr.Graph.from_coo(src, dst, num_nodes=50, edge_attrs={name: torch.arange(400) + first})


def told_by(plan: hr.Plan) -> list[str]:
    """The warnings of a plan's loader; they name the line that makes it."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        plan.loader().close()
    assert all(one.category is hr.PlanWarning and one.filename == __file__ for one in told)
    return [str(one.message) for one in told]


def test_seeds_with_times_and_a_sampler_without():
    graph = timed()
    seeds = hr.ItemSampler(torch.arange(50), time=torch.full((50,), 300))
    (text,) = told_by(seeds.sample_neighbor(graph, [3]))
    assert "seeds have times, but this sampler does not go by times" in text
    assert "pass time='time'" in text
    (text,) = told_by(seeds.sample_ladies(graph, [3]))
    assert "pass sample_neighbor(..., time='time')" in text
    assert told_by(seeds.sample_neighbor(graph, [3], time="time")) == []
    for name in ("timestamp", "birth_date", "t"):
        (text,) = told_by(seeds.sample_neighbor(timed(name=name), [3]))
        assert f"pass time={name!r}" in text
    for name in ("rating", "w", "candidate"):  # the model may read times of seeds alone
        assert told_by(seeds.sample_neighbor(timed(name=name), [3])) == []
    assert told_by(seeds.sample_neighbor(graph, [3], weight="time")) == []
    after_all = hr.ItemSampler(torch.arange(50), time=torch.full((50,), 400))
    assert told_by(after_all.sample_neighbor(graph, [3])) == []
    of_nodes = hr.Graph.from_coo(torch.arange(50), torch.arange(50).roll(1), node_attrs={"time": torch.arange(50) * 10})
    (text,) = told_by(hr.ItemSampler(50, time=torch.full((50,), 480)).sample_neighbor(of_nodes, [3]))
    assert "later than their seeds" in text
    assert told_by(hr.ItemSampler(50, time=torch.full((50,), 490)).sample_neighbor(of_nodes, [3])) == []


def test_a_graph_of_the_past_needs_no_times():
    split = hr.split_links(timed(), val=0.2, test=0.2, time="time")
    for part in ("val", "test"):
        plan = hr.ItemSampler(split.items[part]).sample_uniform_negative(timed(), 1)
        assert told_by(plan.sample_neighbor(split.graphs[part], [3])) == []
    (text,) = told_by(hr.ItemSampler(split.items["train"]).sample_neighbor(split.graphs["train"], [3]))
    assert "later than their seeds" in text


def test_seeds_without_times():
    graph = timed()
    assert told_by(hr.ItemSampler(torch.arange(50)).sample_neighbor(graph, [3])) == []


def test_seeds_before_all_edges():
    graph = timed(first=10**6)
    (text,) = told_by(hr.ItemSampler(50, time=torch.arange(50)).sample_neighbor(graph, [3], time="time"))
    assert "none finds an edge that is early enough" in text
    last = torch.full((50,), 10**6)
    last[7] += 399
    assert told_by(hr.ItemSampler(50, time=last).sample_neighbor(graph, [3], time="time")) == []
    seeds = hr.ItemSampler(50, time=torch.full((50,), 10**6))
    assert told_by(seeds.sample_neighbor(graph, [3], time="time")) == []  # its own time is early enough
    (text,) = told_by(seeds.sample_neighbor(graph, [3], time="time", strictly_before=True))
    assert "early enough" in text


@pytest.mark.parametrize("strictly_before", [False, True])
def test_pairs_that_find_their_own_edges_by_time(strictly_before):
    split = hr.split_links(timed(), val=0.2, test=0.2, time="time")
    for part in ("train", "val"):
        plan = hr.ItemSampler(split.items[part]).sample_uniform_negative(timed(), 1)
        told = told_by(plan.sample_neighbor(split.graphs[part], [3], time="time", strictly_before=strictly_before))
        assert len(told) == (part == "train" and not strictly_before)
        assert all("the pairs are edges of the graph" in text and "strictly_before=True" in text for text in told)


def test_pairs_that_find_their_own_edges():
    graph, pairs = typed(), {RATES: ends().t()}
    (text,) = told_by(hr.ItemSampler(pairs).sample_uniform_negative(graph, 1).sample_neighbor(graph, [3]))
    assert "chain exclude_seed_edges(reverse=True)" in text
    assert told_by(hr.ItemSampler(pairs).sample_neighbor(graph, [3])) == []  # perhaps labels of edges are predicted
    others = {RATES: (ends() + torch.tensor([[1], [0]])).t() % torch.tensor([30, 20])}
    assert told_by(hr.ItemSampler(others).sample_uniform_negative(graph, 1).sample_neighbor(graph, [3])) == []


def test_edges_back_that_stay():
    graph, pairs = typed(), hr.ItemSampler({RATES: ends().t()})
    (text,) = told_by(pairs.exclude_seed_edges().sample_neighbor(graph, [3]))
    assert "pass reverse=True" in text
    assert told_by(pairs.exclude_seed_edges(reverse=True).sample_neighbor(graph, [3])) == []
    assert told_by(pairs.exclude_seed_edges(reverse={RATES: BACK}).sample_neighbor(graph, [3])) == []
    (text,) = told_by(pairs.exclude_seed_edges(reverse={RATES: VIEWED}).sample_neighbor(graph, [3]))
    assert f"only 0 have an edge back of type {VIEWED!r}" in text
    directed = hr.Graph.from_coo({RATES: tuple(ends())}, num_nodes={"user": 30, "movie": 20})
    assert told_by(pairs.exclude_seed_edges().sample_neighbor(directed, [3])) == []


def test_edges_back_that_stay_by_time():
    src, dst = ends()[0], ends()[1] + 30
    times = torch.arange(200)
    for delay, strictly_before, told in ((0, False, True), (0, True, False), (1000, False, False)):
        both = {"time": torch.cat((times, times + delay))}
        graph = hr.Graph.from_coo(torch.cat((src, dst)), torch.cat((dst, src)), num_nodes=50, edge_attrs=both)
        plan = hr.ItemSampler(torch.stack((src, dst), 1), time=times).exclude_seed_edges()
        plan = plan.sample_neighbor(graph, [3], time="time", strictly_before=strictly_before)
        assert any("edges back stay" in text for text in told_by(plan)) == told


def test_edges_back_that_stay_by_id():
    src, dst = ends()[0], ends()[1] + 30
    graph = hr.Graph.from_coo(torch.cat((src, dst)), torch.cat((dst, src)), num_nodes=50)
    pairs = hr.ItemSampler(torch.stack((src, dst), 1), edge_ids=torch.arange(200))
    (text,) = told_by(pairs.exclude_seed_edges(by="edge_id").sample_neighbor(graph, [3]))
    assert "pass the ids of these edges, reverse=" in text


def test_pairs_of_types_that_nothing_joins():
    graph = typed()
    (text,) = told_by(hr.ItemSampler(ends().t()).sample_neighbor(graph, [3]))
    assert "some pairs are of 'user' and 'user', which no edge type joins" in text
    global_ids = torch.stack((ends()[0], ends()[1] + 30), 1)
    friends = torch.stack((torch.arange(30), torch.arange(30).roll(1)), 1)  # no film has the number 20
    assert told_by(hr.ItemSampler(friends).sample_neighbor(graph, [3])) == []
    assert told_by(hr.ItemSampler(global_ids).sample_neighbor(graph, [3])) == []
    assert told_by(hr.ItemSampler(global_ids.flip(1)).sample_neighbor(graph, [3])) == []


def test_reordered_graphs_and_many_pairs():
    """Pairs are looked at by the ids that users have."""
    src, dst = torch.arange(5000) % 50, torch.arange(5000) * 3 % 50
    graph = hr.Graph.from_coo(src, dst, num_nodes=50)
    reordered = hr.reorder(graph, scores=torch.arange(50.0)).graph
    pairs = hr.ItemSampler(torch.stack((src, dst), 1))
    for one in (graph, reordered):
        (text,) = told_by(pairs.sample_uniform_negative(one, 1).sample_neighbor(one, [3]))
        assert "the pairs are edges of the graph" in text
