"""Graphs with reverse edges: by type with the same numbers, or in place of what lacks its reverse."""

from __future__ import annotations

import torch
from hypothesis import given

import headrace as hr

from strategies import edge_lists

BUYS, LIKES = ("user", "buys", "item"), ("user", "likes", "user")


def ends_of(graph: hr.Graph) -> list[tuple[int, int]]:
    """Return the edges in input order."""
    dst = torch.arange(graph.num_nodes).repeat_interleave(graph.in_degrees())
    order = graph.edge_ids.argsort()
    return list(zip(graph.indices[order].tolist(), dst[order].tolist(), strict=True))


@given(edge_lists(min_nodes=1))
def test_undirected_has_each_edge_in_both_directions_once_added(edges):
    graph = hr.Graph.from_coo(edges.src, edges.dst, num_nodes=edges.num_nodes)
    made = graph.undirected(origin="of")
    before, after, of = ends_of(graph), ends_of(made), made.edge_attrs["of"].tolist()
    added = [(u, v) for v, u in before if (u, v) not in before]
    assert after == before + added
    assert all(after[i] in (before[j], before[j][::-1]) for i, j in enumerate(of))
    assert made.undirected() == made.undirected().undirected()


@given(edge_lists(min_nodes=1))
def test_the_reverse_of_edge_i_is_behind_all_edges(edges):
    weight = torch.arange(len(edges.src), dtype=torch.float32)
    graph = hr.Graph.from_coo(edges.src, edges.dst, num_nodes=edges.num_nodes, edge_attrs={"weight": weight})
    made = graph.with_reverse()
    assert ends_of(made) == ends_of(graph) + [(v, u) for u, v in ends_of(graph)]
    assert torch.equal(made.edge_attrs["weight"], torch.cat([weight, weight]))


def typed(**more):
    return hr.Graph.from_coo({BUYS: ([0, 1, 2], [0, 0, 1]), LIKES: ([0, 1], [1, 1])}, **more)


def test_reverse_types_have_the_numbers_and_attributes_of_their_edges():
    graph = typed(edge_attrs={BUYS: {"time": [7, 8, 9]}})
    made = graph.with_reverse()
    assert made.edge_types.names == (BUYS, LIKES, ("item", "rev_buys", "user"), ("user", "rev_likes", "user"))
    own = made.edge_types.id_range(("item", "rev_buys", "user"))
    assert [ends_of(made)[i] for i in own] == [(v, u) for u, v in ends_of(graph)[:3]]
    assert made.edge_attrs["time"][own.start : own.stop].tolist() == [7, 8, 9]
    assert made.with_reverse() == made
    assert graph.with_reverse(["buys"], prefix="of_").edge_types.names[2:] == (("item", "of_buys", "user"),)


def test_undirected_types():
    """Those between nodes of two types get a reverse type, once."""
    graph = typed(edge_attrs={BUYS: {"time": [7, 8, 9]}})
    made = graph.undirected(origin="of")
    assert made.edge_types.names == (BUYS, LIKES, ("item", "rev_buys", "user"))
    own = made.edge_types.id_range(("item", "rev_buys", "user"))
    assert [ends_of(made)[i] for i in own] == [(v, u) for u, v in ends_of(graph)[:3]]
    assert made.edge_attrs["time"][own.start : own.stop].tolist() == [7, 8, 9]
    assert made.edge_attrs["of"].tolist() == [0, 1, 2, 3, 4, 3, 0, 1, 2]
    assert made.undirected().edge_types == made.edge_types


def test_a_loader_excludes_an_edge_and_its_reverse_by_number():
    graph = typed().with_reverse()
    items = hr.ItemSampler({BUYS: torch.tensor([[0, 0]])}, edge_ids={BUYS: [0]})
    reverse = {BUYS: ("item", "rev_buys", "user")}
    plan = items.exclude_seed_edges(reverse=reverse, by="edge_id").sample_neighbor(graph, [-1])
    (batch,) = plan.loader()
    assert not {0, graph.num_edges and 5} & set(batch.e_id.tolist())


def test_ids_of_a_reordered_graph_stay():
    graph = hr.Graph.from_coo([0, 1, 2], [1, 2, 0], num_nodes=4)
    reordered = hr.reorder(graph, hr.FeatureStore(), scores=torch.tensor([1.0, 3, 2, 4])).graph
    assert torch.equal(reordered.undirected().node_ids, reordered.node_ids)
