"""Graphs from DGL's graphs: the same edges, the same edge ids, the same edge features."""

from __future__ import annotations

import dgl
import pytest
import torch

import headrace as hr


def edges_of(graph):
    """Return the edges as a set of (source, destination, edge id)."""
    dst = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.in_degrees())
    return set(zip(graph.indices.tolist(), dst.tolist(), graph.edge_ids.tolist(), strict=True))


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_homogeneous(idtype, layout):
    src, dst = [3, 1, 0, 2, 1], [0, 0, 2, 1, 1]
    source = dgl.graph((src, dst), num_nodes=5, idtype=idtype).formats(["coo", layout])
    source.edata["w"] = torch.tensor([0.5, 1.5, 2.5, 3.5, 4.5])
    source.edata["kind"] = torch.arange(10, dtype=torch.uint8).reshape(5, 2)
    graph = hr.Graph.from_dgl(source)
    assert graph.num_nodes == 5
    assert edges_of(graph) == set(zip(src, dst, range(5), strict=True))
    assert torch.equal(graph.in_degrees(), source.in_degrees().long())
    assert torch.equal(graph.edge_attrs["w"], source.edata["w"])
    assert torch.equal(graph.edge_attrs["kind"], source.edata["kind"])


def test_the_ids_of_a_subgraph_are_no_feature():
    whole = dgl.graph(([0, 1, 2], [1, 2, 0]))
    part = dgl.node_subgraph(whole, [0, 1])
    assert dgl.EID in part.edata
    assert not hr.Graph.from_dgl(part).edge_attrs


def test_heterogeneous():
    source = dgl.heterograph(
        {
            ("user", "follows", "user"): ([0, 1], [1, 2]),
            ("user", "plays", "game"): ([2, 0, 0], [1, 0, 1]),
        },
        num_nodes_dict={"user": 3, "game": 2},
    )
    source.edges["follows"].data["w"] = torch.tensor([1.0, 2.0])
    source.edges["plays"].data["w"] = torch.tensor([3.0, 4.0, 5.0])
    graph = hr.Graph.from_dgl(source)
    assert graph.node_types is not None
    assert graph.edge_types is not None
    assert graph.node_types == hr.TypeOffsets.from_counts({name: source.num_nodes(name) for name in source.ntypes})
    assert graph.edge_types.names == tuple(source.canonical_etypes)
    expected = set()
    for name in source.canonical_etypes:
        ends = source.edges(etype=name, order="eid")
        starts = (graph.node_types.id_range(name[0]).start, graph.node_types.id_range(name[2]).start)
        for position, (src, dst) in enumerate(zip(*(end.tolist() for end in ends), strict=True)):
            edge = graph.edge_types.id_range(name)[position]
            expected.add((src + starts[0], dst + starts[1], edge))
    assert edges_of(graph) == expected
    weights = torch.cat([source.edges[name].data["w"] for name in source.canonical_etypes])
    assert torch.equal(graph.edge_attrs["w"], weights)


def test_features_of_some_edge_types_only_are_named_as_left_out_and_refused_when_chosen():
    source = dgl.heterograph({("a", "to", "b"): ([0], [0]), ("b", "to", "a"): ([0], [0])})
    source.edges["a", "to", "b"].data["w"] = torch.ones(1)
    with pytest.warns(UserWarning, match="'w'"):
        assert not hr.Graph.from_dgl(source).edge_attrs
    with pytest.raises(hr.GraphError, match="'w'"):
        hr.Graph.from_dgl(source, edge_attrs=["w"])
    assert hr.Graph.from_dgl(source, edge_attrs=[]).num_edges == 2
    with pytest.raises(hr.GraphError, match=r"no edge attributes \['v'\]"):
        hr.Graph.from_dgl(dgl.graph(([0], [0])), edge_attrs=["v"])


def test_a_graph_without_nodes_is_refused():
    with pytest.raises(hr.GraphError, match="at least one node"):
        hr.Graph.from_dgl(dgl.graph(([], [])))
