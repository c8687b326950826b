"""The nodes on which layers are tried before inference."""

from __future__ import annotations

import torch
from typed_edges import whole

import headrace as hr
from headrace.pipeline.models.inference.trial import telling_nodes, trials

from plans import RELATIONS, typed_graph


def test_nodes_of_trials_are_of_their_relation():
    graph = typed_graph()
    edge_index, edge_type, _ = whole(graph)
    full = [number for number in range(len(RELATIONS)) if (edge_type == number).any()]
    assert [*trials(graph)] == [telling_nodes(graph, number) for number in full]
    for number in full:
        v, u, *others = telling_nodes(graph, number)
        pairs = set(map(tuple, edge_index[:, edge_type == number].t().tolist()))
        assert {(u, one) for one in (v, *others)} <= pairs
    _, u, _ = telling_nodes(graph, 0)  # with an in-edge of this relation, which counts
    assert (edge_index[1, edge_type == 0] == u).sum() > 1


def test_nodes_of_the_trial():
    assert telling_nodes(hr.Graph.from_coo([], [], num_nodes=3)) == [0]
    assert telling_nodes(hr.Graph.from_coo([2], [1], num_nodes=3)) == [1, 2]
    assert telling_nodes(hr.Graph.from_coo([1], [1], num_nodes=3)) == [1]
    # Node 1 has three in-neighbours and two nodes that it is one of; node 7 costs less, but tells less.
    ends = [(0, 1), (4, 1), (5, 1), (1, 2), (1, 3), (4, 7), (5, 7), (7, 8)]
    v, u, w = telling_nodes(hr.Graph.from_coo(*zip(*ends, strict=True), num_nodes=9))
    assert (u, {v, w}) == (1, {2, 3})
    turned = hr.reorder(hr.Graph.from_coo(*zip(*ends, strict=True), num_nodes=9), order=torch.arange(9).flip(0)).graph
    v, u, w = telling_nodes(turned)
    assert (u, {v, w}) == (1, {2, 3}), "nodes have the ids by which items name them"
