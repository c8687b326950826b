"""Graphs from DGL's graphs: the same edges, the same edge ids, the same edge features."""

from __future__ import annotations

import gc
from multiprocessing.reduction import ForkingPickler

import dgl
import dgl.graphbolt as gb
import pytest
import torch

import headrace as hr
from headrace.pipeline.data.types import TypeOffsets


def edges_of(graph):
    """Return the edges as a set of (source, destination, edge id)."""
    dst = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.in_degrees())
    return set(zip(graph.indices.tolist(), dst.tolist(), graph.edge_ids.tolist(), strict=True))


FORMATS = [["coo", "csr"], ["coo", "csc"], ["coo"], ["csc"], ["csr"], ["csr", "csc"]]


@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("formats", FORMATS, ids="+".join)
def test_homogeneous(idtype, formats):
    src, dst = [3, 1, 0, 2, 1], [0, 0, 2, 1, 1]
    source = dgl.graph((src, dst), num_nodes=5, idtype=idtype).formats(formats)
    source.edata["w"] = torch.tensor([0.5, 1.5, 2.5, 3.5, 4.5])
    source.edata["kind"] = torch.arange(10, dtype=torch.uint8).reshape(5, 2)
    source.ndata["time"] = torch.arange(5)
    graph = hr.Graph.from_dgl(source)
    assert graph.num_nodes == 5
    assert edges_of(graph) == set(zip(src, dst, range(5), strict=True))
    assert graph.in_degrees().tolist() == [2, 2, 1, 0, 0]
    assert torch.equal(graph.edge_attrs["w"], source.edata["w"])
    assert torch.equal(graph.edge_attrs["kind"], source.edata["kind"])
    assert torch.equal(graph.node_attrs["time"], source.ndata["time"])
    assert list(hr.Graph.from_dgl(source, edge_attrs=["kind"]).edge_attrs) == ["kind"]
    with pytest.raises(hr.InputError, match=r"no edge attributes \['v'\]"):
        hr.Graph.from_dgl(source, edge_attrs=["v"])


def random_graph(num_nodes=40, num_edges=500):
    src, dst = torch.randint(0, num_nodes, (2, num_edges), generator=torch.Generator().manual_seed(0))
    source = dgl.graph((src, dst), num_nodes=num_nodes)
    source.edata["w"] = torch.rand(num_edges)
    return source


def test_csc_is_taken_as_it_is():
    """Rows in DGL's order, and in its memory where ids are as narrow as ours."""
    source = random_graph().int().formats("csc")
    indptr, indices, ids = source.adj_tensors("csc")
    graph = hr.Graph.from_dgl(source)
    assert torch.equal(graph.indptr, indptr.long())
    assert torch.equal(graph.indices, indices)
    assert torch.equal(graph.edge_ids, ids)
    assert graph.indices.data_ptr() == indices.data_ptr()
    given = dgl.graph(("csc", (indptr, indices, [])), num_nodes=40).formats("csc")
    assert hr.Graph.from_dgl(given).edge_permutation is None  # positions


def digest(graph):
    loader = hr.ItemSampler(graph.num_nodes, batch_size=7, shuffle=True, seed=1).sample_neighbor(graph, [3, 2]).loader()
    return [batch.digest() for batch in loader]


def test_a_graph_outlives_the_graph_of_dgl():
    source = random_graph().int().formats("csc")
    graph = hr.Graph.from_dgl(source)
    expected, edges = digest(graph), edges_of(graph)
    del source
    gc.collect()
    others = [random_graph().int().formats("csc") for _ in range(20)]
    assert digest(graph) == expected
    assert edges_of(graph) == edges
    assert len(others) == 20


def test_a_graph_in_csc_goes_to_another_process():
    graph = hr.Graph.from_dgl(random_graph().int().formats("csc"))
    expected = digest(graph)
    sent = ForkingPickler.loads(ForkingPickler.dumps(graph))  # which moves it to shared memory
    assert graph.indices.is_shared()
    assert digest(graph) == expected
    assert digest(sent) == expected


def test_the_ids_of_a_subgraph_are_no_feature():
    whole = dgl.graph(([0, 1, 2], [1, 2, 0]))
    part = dgl.node_subgraph(whole, [0, 1])
    assert dgl.EID in part.edata
    assert not hr.Graph.from_dgl(part).edge_attrs


ENDS = {"follows": ([2, 1], [1, 2]), "plays": ([2, 0, 0], [1, 0, 1])}


@pytest.mark.parametrize("formats", FORMATS, ids="+".join)
def test_heterogeneous(formats):
    source = dgl.heterograph(
        {
            ("user", "follows", "user"): ENDS["follows"],
            ("user", "plays", "game"): ENDS["plays"],
        },
        num_nodes_dict={"user": 3, "game": 2},
    )
    source = source.formats(formats)
    source.edges["follows"].data["w"] = torch.tensor([1.0, 2.0])
    source.edges["plays"].data["w"] = torch.tensor([3.0, 4.0, 5.0])
    graph = hr.Graph.from_dgl(source)
    assert graph.node_types is not None
    assert graph.edge_types is not None
    assert graph.node_types == TypeOffsets.from_counts({name: source.num_nodes(name) for name in source.ntypes})
    assert graph.edge_types.names == tuple(source.canonical_etypes)
    expected = set()
    for name in source.canonical_etypes:
        ends = ENDS[name[1]]
        starts = (graph.node_types.id_range(name[0]).start, graph.node_types.id_range(name[2]).start)
        for position, (src, dst) in enumerate(zip(*ends, strict=True)):
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
    with pytest.raises(hr.InputError, match="'w'"):
        hr.Graph.from_dgl(source, edge_attrs=["w"])
    assert hr.Graph.from_dgl(source, edge_attrs=[]).num_edges == 2
    assert hr.Graph.from_dgl(source, edge_attrs={"w": 3.0}).edge_attrs["w"].tolist() == [1.0, 3.0]
    with pytest.raises(hr.InputError, match=r"no edge attributes \['v'\]"):
        hr.Graph.from_dgl(dgl.graph(([0], [0])), edge_attrs=["v"])


def test_a_graph_without_nodes_is_refused():
    with pytest.raises(hr.InputError, match="at least one node"):
        hr.Graph.from_dgl(dgl.graph(([], [])))


def test_blocks_are_refused():
    source = random_graph()
    block = dgl.to_block(dgl.sampling.sample_neighbors(source, [1, 2], 3))
    with pytest.raises(hr.InputError, match=r"got a block.*pass the graph that it was sampled from"):
        hr.Graph.from_dgl(block)
    assert hr.Graph.from_dgl(dgl.block_to_graph(block), edge_attrs=[]).num_edges == block.num_edges()
    with pytest.raises(hr.InputError, match=r"got list; pass one graph of it, as dataset\[0\]"):
        hr.Graph.from_dgl([block])


@pytest.mark.parametrize("original", [False, True])
def test_the_graph_of_graphbolt(original):
    source = random_graph().formats(["coo", "csc"])
    ids = source.adj_tensors("csc")[2]
    fused = gb.from_dglgraph(source, is_homogeneous=True, include_original_edge_id=original)
    fused.edge_attributes = {**fused.edge_attributes, "w": source.edata["w"][ids]}
    fused.node_attributes = {"time": torch.arange(40)}
    graph = hr.Graph.from_dgl(fused)
    src, dst = (ends.tolist() for ends in source.edges())
    if original:
        assert edges_of(graph) == set(zip(src, dst, range(500), strict=True))
        assert torch.equal(graph.edge_attrs["w"], source.edata["w"])
    else:
        assert torch.equal(graph.edge_ids, torch.arange(500))
        assert torch.equal(graph.edge_attrs["w"], source.edata["w"][ids])
    assert list(graph.edge_attrs) == ["w"]
    assert torch.equal(graph.node_attrs["time"], torch.arange(40))
    assert not hr.Graph.from_dgl(fused, edge_attrs=[]).edge_attrs
    assert torch.equal(graph.indices.long(), fused.indices)


@pytest.mark.parametrize("original", [False, True])
def test_the_graph_of_graphbolt_with_types(original):
    source = dgl.heterograph(
        {("user", "follows", "user"): ENDS["follows"], ("user", "plays", "game"): ENDS["plays"]},
        num_nodes_dict={"user": 3, "game": 2},
    )
    fused = gb.from_dglgraph(source, include_original_edge_id=original)
    graph, expected = hr.Graph.from_dgl(fused), hr.Graph.from_dgl(source)
    assert (graph.node_types, graph.edge_types) == (expected.node_types, expected.edge_types)
    if original:
        assert edges_of(graph) == edges_of(expected)
        return
    follows = expected.edge_types.id_range(("user", "follows", "user"))
    assert {(src, dst, edge in follows) for src, dst, edge in edges_of(graph)} == {
        (src, dst, edge in follows) for src, dst, edge in edges_of(expected)
    }
    assert sorted(graph.edge_ids.tolist()) == [*range(5)]


def test_edges_of_graphbolt_that_are_called_by_other_ids_are_refused():
    fused = gb.from_dglgraph(random_graph(), is_homogeneous=True, include_original_edge_id=True)
    attributes = fused.edge_attributes
    fused.edge_attributes = {**attributes, gb.ORIGINAL_EDGE_ID: attributes[gb.ORIGINAL_EDGE_ID] + 7}
    with pytest.raises(hr.InputError, match="permutation of 0 to 499"):
        hr.Graph.from_dgl(fused)
