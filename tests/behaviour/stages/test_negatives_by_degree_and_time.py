"""Negatives by in-degree at the time of their pair: none that was not there, and the others by their degree then."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr

from plans import NUM_NODES, edges

KINDS = {"nodes": (True, False), "edges": (False, True), "both": (True, True)}


def timed(of_nodes, of_edges, kind=torch.int64):
    """The edges of all plans with times; node 0 is there from the beginning, and so is an edge to it."""
    src, dst = torch.cat([torch.zeros(1, 2, dtype=torch.int64), edges()]).unbind(1)
    times = torch.cat([torch.zeros(1, dtype=torch.int64), torch.arange(len(edges())) * 7919 % 50])
    return hr.Graph.from_coo(
        src,
        dst,
        num_nodes=NUM_NODES,
        edge_attrs={"time": times.to(kind)} if of_edges else {},
        node_attrs={"time": (torch.arange(NUM_NODES) * 31 % 40).to(kind)} if of_nodes else {},
    )


def degrees_at(graph, time):
    """The in-degree of each node at a time, edge by edge."""
    degrees = np.zeros(graph.num_nodes, np.int64)
    ends = np.repeat(np.arange(graph.num_nodes), graph.indptr.diff())
    of_edges, of_nodes = graph.edge_attrs_csc.get("time"), graph.node_attrs.get("time")
    for position, (u, v) in enumerate(zip(graph.indices.tolist(), ends.tolist(), strict=True)):
        known = [] if of_edges is None else [of_edges[position]]
        known += [] if of_nodes is None else [of_nodes[u], of_nodes[v]]
        degrees[v] += max(known) <= time
    return degrees


def asked_at(time, num_pairs=40, kind=torch.int64):
    times = torch.full((num_pairs,), time).to(kind)
    return hr.ItemSampler(edges()[:num_pairs], batch_size=num_pairs, seed=3, time=times)


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(sorted(KINDS)),
    st.sampled_from([torch.int64, torch.float64]),
    st.integers(0, 55),
    st.sampled_from(["binary", "both", "triplet", "reject"]),
)
def test_no_node_is_drawn_before_it_has_an_edge(which, kind, time, how):
    """With times of nodes none that is later than its pair; of both, none whose edges all are."""
    graph = timed(*KINDS[which], kind)
    more = {
        "binary": {},
        "both": {"corrupt": "both"},
        "triplet": {"mode": "triplet"},
        "reject": {"reject": True},
    }[how]
    degrees = degrees_at(graph, time)
    plan = asked_at(time, kind=kind)
    if how == "reject":  # node 0 has an edge to itself, which may be all that there is
        plan = hr.ItemSampler(torch.tensor([[195, 7]] * 5), seed=3, time=torch.full((5,), time).to(kind))
    for batch in plan.sample_uniform_negative(graph, 20, node_weight="degree", time="time", **more).loader():
        negative = batch.seeds[batch.num_positives :]
        drawn = {"triplet": batch.seeds[:, 2:], "both": negative}.get(how, negative[:, 1])
        assert drawn.numel() >= 100
        assert (degrees[drawn] > 0).all()


@pytest.mark.law
@pytest.mark.parametrize("which", KINDS)
def test_law(which):
    """20,000 draws by the degrees at one time, at which some nodes have all of their edges and some a part.

    Chi-square at 1 in 1,000, by Wilson and Hilferty. By the degrees of the whole graph, among the nodes that are there,
    it would be passed in less than 1 of 30,000 runs: its mean is 4 standard deviations beyond the bound.
    """
    graph = timed(*KINDS[which])
    time, total = 25, 20_000
    degrees = degrees_at(graph, time)
    plan = asked_at(time).sample_uniform_negative(graph, 500, node_weight="degree", time="time")
    (batch,) = plan.loader()
    seen = np.bincount(batch.seeds[batch.num_positives :, 1], minlength=NUM_NODES)
    assert seen.sum() == total
    possible = degrees > 0
    assert seen[~possible].sum() == 0

    def chi_square(counts, weights):
        expected = total * weights[possible] / weights[possible].sum()
        return ((counts[possible] - expected) ** 2 / expected).sum()

    freedom = possible.sum() - 1
    spread = 2 / (9 * freedom)
    bound = freedom * (1 - spread + 3.09 * np.sqrt(spread)) ** 3
    assert chi_square(seen, degrees) < bound
    whole = graph.indptr.diff().numpy()
    apart = chi_square(total * whole / whole[possible].sum(), degrees)
    assert freedom + apart - 4 * np.sqrt(2 * (freedom + 2 * apart)) > bound


def test_types_keep_apart():
    """Of a type its own nodes alone, by edges of their own times."""
    src, dst = torch.tensor([3, 4, 3, 0, 1, 2]), torch.tensor([0, 1, 2, 3, 3, 4])
    graph = hr.Graph.from_coo(
        src,
        dst,
        num_nodes=5,
        node_types={"user": 3, "movie": 2},
        edge_types={("movie", "seen", "user"): 3, ("user", "saw", "movie"): 3},
        edge_attrs={"time": torch.tensor([1, 1, 1, 1, 1, 9])},
    )
    pairs = {("user", "saw", "movie"): torch.tensor([[0, 0], [1, 1]])}
    plan = hr.ItemSampler(pairs, seed=1, time=torch.tensor([5, 9]))
    (batch,) = plan.sample_uniform_negative(graph, 100, node_weight="degree", time="time").loader()
    early, late = batch.seeds[2:, 1].chunk(2)
    assert set(early.tolist()) == {3}  # movie 1, which is node 4, has no edge yet
    assert set(late.tolist()) == {3, 4}


def test_ranks_and_reordered_graphs_draw_likewise():
    graph = timed(True, True)

    def seeds(one, **ranks):
        plan = asked_at(20).sample_uniform_negative(one, 3, "triplet", node_weight="degree", time="time")
        (batch,) = plan.loader(**ranks)
        return batch.seeds

    whole = seeds(graph)
    assert torch.equal(torch.cat([seeds(graph, rank=rank, world_size=3) for rank in range(3)]), whole)
    order = torch.arange(NUM_NODES).flip(0)
    allowed = degrees_at(graph, 20) > 0
    assert allowed[seeds(hr.reorder(graph, order=order).graph)[:, 2:]].all()


def test_refusals():
    graph = timed(False, True)
    with pytest.raises(hr.InputError, match="pair 0 of the items has no negative: it is earlier than all edges to"):
        asked_at(-1).sample_uniform_negative(graph, node_weight="degree", time="time").loader()
    with pytest.raises(hr.InputError, match="expected times under the name 'nope'"):
        asked_at(1).sample_uniform_negative(graph, node_weight="degree", time="nope")
    with pytest.raises(hr.InputError, match="expected times of nodes under the name 'time', got times of edges alone"):
        asked_at(1).sample_uniform_negative(graph, time="time")


def star():
    """Source 0 has edges to the nodes 1 and 2, and 3 and 4 come later."""
    ends, times = ([0, 0, 1], [1, 2, 3]), torch.tensor([0, 1, 2, 9, 9])
    return hr.Graph.from_coo(*ends, num_nodes=5, node_attrs={"time": times})


JOINED = "node 0, a source of the items, has edges to all nodes that can be drawn at the time of pair 1"


@pytest.mark.parametrize(
    ("options", "message", "late"),
    [
        ({"reject": True, "node_weight": "degree"}, JOINED, {3}),
        ({"reject": True, "node_weight": torch.tensor([0.0, 1, 1, 1, 1])}, JOINED, {3, 4}),
        (
            {"node_weight": torch.tensor([0.0, 0, 0, 1, 1])},
            "pair 1 of the items has no negative: it is earlier than all nodes of positive weight among 0 to 4",
            {3, 4},
        ),
    ],
    ids=["joined by degree", "joined by weight", "of no weight"],
)
@pytest.mark.parametrize("turned", [False, True])
def test_pairs_without_a_negative_at_their_time_are_refused_before_work_starts(options, message, late, turned):
    """Those later have one."""
    graph, pairs = star(), torch.tensor([[0, 1], [0, 2]])
    if turned:
        graph, message = hr.reorder(graph, order=torch.tensor([1, 0, 4, 2, 3])).graph, message.split(" among")[0]
    early = hr.ItemSampler(pairs, seed=1, time=torch.tensor([9, 2]))
    with pytest.raises(hr.InputError, match=f"sample_uniform_negative: {message}"):
        early.sample_uniform_negative(graph, 1, time="time", **options).loader()
    plan = hr.ItemSampler(pairs, seed=1, time=torch.tensor([9, 9]))
    (batch,) = plan.sample_uniform_negative(graph, 30, time="time", **options).loader()
    assert set(batch.seeds[2:, 1].tolist()) == late


def test_of_nodes_that_all_can_be_drawn_the_source_itself_may_be_left():
    """Without weights node 0 has itself, until it has a loop."""
    graph, pairs = star(), hr.ItemSampler(torch.tensor([[0, 1]]), seed=1, time=torch.tensor([2]))
    (batch,) = pairs.sample_uniform_negative(graph, 9, time="time", reject=True).loader()
    assert set(batch.seeds[1:, 1].tolist()) == {0}
    looped = hr.Graph.from_coo([0, 0, 0, 0], [1, 2, 0, 2], num_nodes=5, node_attrs=dict(graph.node_attrs))
    with pytest.raises(hr.InputError, match=JOINED.replace("pair 1", "pair 0")):
        pairs.sample_uniform_negative(looped, time="time", reject=True).loader()
