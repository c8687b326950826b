"""Plans over graphs with types: fanouts by relation, blocks of relations, features, items and conversions by type."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import HeteroData
from torchdata import nodes

import headrace as hr

from plans import NODE_TYPES, PLANS, RELATIONS, typed_graph, typed_items, typed_store

TYPED = [name for name in PLANS if name.startswith("typed")]


def ends(graph: hr.Graph) -> torch.Tensor:
    """Sources and destinations of edges by their ids."""
    made = torch.empty(2, graph.num_edges, dtype=torch.int64)
    destinations = torch.arange(graph.num_nodes).repeat_interleave(graph.in_degrees())
    made[:, graph.edge_ids.long()] = torch.stack([graph.indices.long(), destinations])
    return made


@pytest.mark.parametrize("name", TYPED)
def test_relations_of_a_block_are_its_edges(name):
    """Each edge stands in the block of its type, between the nodes that it joins."""
    graph = typed_graph()
    of_edges, offsets = ends(graph), graph.edge_types.offsets
    for batch in PLANS[name]().loader():
        for block in batch.blocks:
            seen = 0
            for number, relation in enumerate(RELATIONS):
                one = block.relation(relation)
                assert bool(((one.edge_ids >= offsets[number]) & (one.edge_ids < offsets[number + 1])).all())
                sources = batch.n_id[: block.num_src][block.types.places(relation[0])]
                destinations = batch.n_id[: block.num_dst]
                destinations = destinations[block.types.first(block.num_dst).places(relation[2])]
                assert (one.num_src, one.num_dst) == (len(sources), len(destinations))
                src, dst = one.edge_index
                assert torch.equal(torch.stack([sources[src], destinations[dst]]), of_edges[:, one.edge_ids])
                assert torch.equal(one.edge_ids, block.edge_ids[block.relation_places(relation)])
                seen += one.num_edges
            assert seen == block.num_edges


def test_types_go_with_the_batch_to_a_device():
    """Ids of types are those of the batch and of its blocks wherever these are."""
    batch = next(iter(PLANS["typed"]().loader()))
    moved = batch.to("meta")
    assert moved.types.ids is moved.n_id
    assert [block.types.ids.device.type for block in moved.blocks] == ["meta"] * len(batch.blocks)
    assert [len(block.types.ids) for block in moved.blocks] == [block.num_src for block in batch.blocks]
    copied = batch.to("cpu")
    for block, one in zip(batch.blocks, copied.blocks, strict=True):
        for name in RELATIONS:
            assert torch.equal(block.relation(name).edge_index, one.relation(name).edge_index)


def test_edges_by_type_are_those_of_relations():
    for batch in typed_items().sample_neighbor(typed_graph(), [3, 2]).loader():
        for block in batch.blocks:
            assert list(block.edge_index_dict) == list(RELATIONS)
            for name, edge_index in block.edge_index_dict.items():
                assert torch.equal(edge_index, block.relation(name).edge_index)
            assert block.edge_index_dict is block.edge_index_dict
    untyped = hr.Block(torch.tensor([0, 1]), torch.tensor([0]), 1, 1)
    with pytest.raises(hr.InputError, match="expected a block of a graph with edge types"):
        _ = untyped.edge_index_dict
    named = hr.Graph.from_coo([0], [1], edge_types={"up": 1})
    (batch,) = hr.ItemSampler([1]).sample_neighbor(named, [1]).loader()
    with pytest.raises(hr.InputError, match=r"edge type \(source type, relation, destination type\), got 'up'"):
        _ = batch.blocks[0].edge_index_dict


def test_fanouts_by_relation_are_heeded():
    fanouts = {"likes": [4, 2], ("a", "to", "b"): [-1, 0], "default": [3, 1]}
    batch = next(iter(typed_items(batch_size=60).sample_neighbor(typed_graph(), fanouts).loader()))
    wanted = {name: fanouts.get(name, fanouts.get(name[1], fanouts["default"])) for name in RELATIONS}
    wanted["a", "to", "a"] = wanted["a", "to", "b"] = [3, 1]
    wanted["a", "to", "b"] = [-1, 0]
    degrees = {name: torch.zeros(typed_graph().num_nodes, dtype=torch.int64) for name in RELATIONS}
    of_edges = ends(typed_graph())
    for name in RELATIONS:
        dst = of_edges[1, list(typed_graph().edge_types.id_range(name))]
        degrees[name].index_add_(0, dst, torch.ones_like(dst))
    for block, hop in zip(batch.blocks, (1, 0), strict=True):
        for name in RELATIONS:
            one, fanout = block.relation(name), wanted[name][hop]
            places = block.types.first(block.num_dst).places(name[2])
            available = degrees[name][batch.n_id[: block.num_dst][places]]
            assert torch.equal(one.indptr.diff(), available if fanout == -1 else available.clamp(max=fanout))


@pytest.mark.parametrize(
    ("fanouts", "match"),
    [
        ({"likes": [1, 2], "default": [3]}, "for as many hops"),
        ({"hates": [1], "default": [1]}, "no type 'hates'"),
        ({"to": [1], "default": [1]}, "several types are called 'to'"),
        ({"likes": [1]}, r"none for \[\('a', 'to', 'a'\)"),
        ([{"likes": -2, "default": 1}], "-2"),
        ({}, "got none"),
        ([(1, 2)], "a fanout for each of 5 relations"),
    ],
)
def test_bad_fanouts(fanouts, match):
    with pytest.raises(hr.InputError, match=match):
        typed_items().sample_neighbor(typed_graph(), fanouts)


def test_fanouts_by_relation_need_types():
    plain = hr.Graph.from_coo([0], [1])
    with pytest.raises(hr.InputError, match="no types"):
        hr.ItemSampler(2).sample_neighbor(plain, {"likes": [1], "default": [2]})


@pytest.mark.parametrize(
    ("items", "match"),
    [
        ({"paper": [1]}, "no type 'paper'"),
        ({"a": [120]}, r"\[0, 120\)"),
        ({"a": torch.zeros(3, 2, dtype=torch.int64)}, "no type 'a'"),
        ({("a", "to", "b"): torch.tensor([[0, 70]])}, r"\[0, 70\)"),
    ],
)
def test_items_that_are_not_in_the_graph(items, match):
    plan = hr.ItemSampler(items, seed=1).sample_neighbor(typed_graph(), [2])
    with pytest.raises(hr.InputError, match=match):
        plan.loader()


def test_typed_items_need_a_graph_with_types():
    plan = hr.ItemSampler({"a": [0]}, seed=1).sample_neighbor(typed_graph().untyped(), [2])
    with pytest.raises(hr.PlanError, match="a sampler of a graph with types for items of"):
        plan.loader()


def test_items_of_several_types_and_their_labels():
    items = {"b": torch.tensor([3, 4]), "a": torch.tensor([5])}
    plan = hr.ItemSampler((items, {"b": torch.tensor([7, 8]), "a": torch.tensor([9])}), seed=1)
    (batch,) = plan.sample_neighbor(typed_graph(), [1]).loader()
    assert batch.seeds.tolist() == [123, 124, 5]
    assert batch.y.tolist() == [7, 8, 9]
    masked = torch.zeros(120, dtype=torch.bool)
    masked[[2, 9]] = True
    (batch,) = hr.ItemSampler({"a": masked}, seed=1).sample_neighbor(typed_graph(), [1]).loader()
    assert batch.seeds.tolist() == [2, 9]


A_TO_B = ("a", "to", "b")


def test_types_may_have_no_items():
    some = torch.arange(120) < 3
    items = {"b": torch.zeros(70, dtype=torch.bool), "a": some}
    labels = {"b": [], "a": [4, 5, 6]}
    (batch,) = hr.ItemSampler((items, labels), seed=1).sample_neighbor(typed_graph(), [1]).loader()
    assert batch.seeds.tolist() == [0, 1, 2]
    assert batch.y.tolist() == [4, 5, 6]
    assert batch.y.dtype == torch.int64
    pairs = {A_TO_B: torch.tensor([[3, 5]]), RELATIONS[0]: torch.empty(0, 2, dtype=torch.int64)}
    for items in (pairs, dict(reversed(pairs.items()))):
        (batch,) = hr.ItemSampler(items, seed=1).sample_neighbor(typed_graph(), [1]).loader()
        assert batch.seeds.tolist() == [[3, 125]]


@pytest.mark.parametrize(
    "labels", [{"a": [10, 11], "b": [0, 1, 2]}, {"a": [[1], [2], [3]], "b": [1, 2]}, {"a": [0] * 5}]
)
def test_labels_have_a_row_for_each_item_of_their_type(labels):
    with pytest.raises(hr.InputError, match=r"labels.*(of type 'a'.*\(3\)|one shape|types of the items)"):
        hr.ItemSampler(({"a": [0, 1, 2], "b": [0, 1]}, labels))


def test_masks_have_the_length_of_their_type():
    masks = {"a": torch.ones(120, dtype=torch.bool), "b": torch.ones(60, dtype=torch.bool)}
    with pytest.raises(hr.InputError, match=r"type 'b'.*a mask for 70 nodes, got one of 60"):
        hr.ItemSampler(masks, seed=1).sample_neighbor(typed_graph(), [1]).loader()


def test_times_of_items_by_type():
    items = {"b": [3, 4], "a": [5]}
    sampler = hr.ItemSampler(items, time={"a": [9], "b": [7, 8]}, seed=1)
    assert sampler.time.tolist() == [7, 8, 9]
    (batch,) = sampler.sample_neighbor(typed_graph(), [1]).loader()
    assert batch.seed_time.tolist() == [7, 8, 9]
    for time in ({"a": [9, 8], "b": [7]}, {"a": [9]}):
        with pytest.raises(hr.InputError, match=r"time (of type 'b'.*\(2\)|to have the types)"):
            hr.ItemSampler(items, time=time)
    with pytest.raises(hr.InputError, match="time"):
        hr.ItemSampler([3, 4], time={"a": [9, 8]})


def test_pairs_of_an_edge_type():
    pairs = torch.tensor([[3, 5], [0, 69]])
    (batch,) = hr.ItemSampler({("a", "to", "b"): pairs}, seed=1).sample_neighbor(typed_graph(), [1]).loader()
    assert batch.seeds.tolist() == [[3, 125], [0, 189]]


def test_features_of_types_have_rows_of_their_nodes():
    for batch in PLANS["typed"]().loader():
        for name, of_type in (("x", "a"), ("x", "b")):
            rows = typed_store().node[of_type, name].read(batch.types.within(of_type)).rows
            assert torch.equal(batch.node[of_type, name], rows)
        assert torch.equal(batch.node["all"], batch.n_id)
        assert torch.equal(batch.y, batch.seeds % 5)
        first = int(typed_graph().edge_types.offsets[1])
        for block, rows in zip(batch.blocks, batch.edge[RELATIONS[1], "e"], strict=True):
            ids = block.relation(RELATIONS[1]).edge_ids - first
            assert torch.equal(rows, typed_store().edge[RELATIONS[1], "e"].read(ids).rows)


@pytest.mark.parametrize(
    ("fetch", "error", "match"),
    [
        ({"node": {"a": ["z"]}}, hr.InputError, r"no node feature 'a', 'z'"),
        ({"node": {"paper": ["x"]}}, hr.InputError, r"no node feature 'paper', 'x'"),
        ({"labels": {"a": "y", 3: "x"}}, hr.InputError, "got 2 of them"),
        ({"node": [3]}, hr.InputError, "a list of feature names"),
    ],
)
def test_bad_names_of_features(fetch, error, match):
    with pytest.raises(error, match=match):
        typed_items().sample_neighbor(typed_graph(), [1]).fetch_feature(typed_store(), **fetch)


def test_features_of_another_size_or_without_types():
    store = hr.FeatureStore(node={"a": {"x": torch.zeros(119, 2)}, "c": {"x": torch.zeros(3)}})
    sampled = typed_items().sample_neighbor(typed_graph(), [1])
    with pytest.raises(hr.InputError, match=r"'a', 'x' to have a row for each of the graph's 120 nodes, got 119"):
        sampled.fetch_feature(store, node={"a": ["x"]}).loader()
    with pytest.raises(hr.InputError, match="no type 'c'"):
        sampled.fetch_feature(store, node={"c": ["x"]}).loader()
    plain = hr.ItemSampler(10).sample_neighbor(typed_graph().untyped(), [1])
    with pytest.raises(hr.PlanError, match="a graph with types before"):
        plain.fetch_feature(typed_store(), node={"a": ["x"]}).loader()


@pytest.mark.parametrize("items", [{"b": [1]}, {"a": [1], "b": [1]}, [1, 130]])
def test_labels_of_seeds_of_another_type(items):
    plan = hr.ItemSampler(items, seed=1).sample_neighbor(typed_graph(), [1])
    with pytest.raises(hr.InputError, match="seeds of type 'a'"):
        plan.fetch_feature(typed_store(), labels={"a": "y"}).loader()


def test_labels_of_seeds_of_another_type_that_show_with_a_batch():
    source = hr.ext.NodeSource(nodes.IterableWrapper([torch.tensor([1, 130])]), seed=1)
    plan = source.sample_neighbor(typed_graph(), [1]).fetch_feature(typed_store(), labels={"a": "y"})
    with pytest.raises(hr.InputError, match="seeds of type 'a'"):
        next(iter(plan.loader(prefetch=False)))


@pytest.mark.parametrize("name", ["typed", "typed_new", "typed_labor", "typed_weighted"])
def test_peers_01_mapping_identity_of_every_type(name):
    """n_id at edge_index is the graph's edge e_id, of each relation; counts by hop add up."""
    graph = typed_graph()
    of_edges = ends(graph)
    for batch in PLANS[name]().loader():
        data = batch.to_pyg()
        assert isinstance(data, HeteroData)
        for number, (source, relation, destination) in enumerate(RELATIONS):
            store = data[source, relation, destination]
            src, dst = store.edge_index
            first = int(graph.edge_types.offsets[number])
            starts = {one: graph.node_types.id_range(one).start for one in NODE_TYPES}
            found = torch.stack(
                [data[source].n_id[src] + starts[source], data[destination].n_id[dst] + starts[destination]]
            )
            assert torch.equal(found, of_edges[:, store.e_id + first])
            assert sum(store.num_sampled_edges) == store.edge_index.shape[1]
        for one in NODE_TYPES:
            assert sum(data[one].num_sampled_nodes) == len(data[one].n_id) == data[one].num_nodes
        hops = len(batch.num_sampled_edges)
        assert all(len(store.num_sampled_edges) == hops for store in data.edge_stores)
        assert data["a"].batch_size == batch.num_sampled_nodes[0]
        assert torch.equal(data["a"].n_id[: data["a"].batch_size], batch.seeds)
        assert torch.equal(data["a"].input_id, batch.item_index)


def test_features_of_hetero_data():
    for batch in PLANS["typed"]().loader():
        data = batch.to_pyg()
        assert torch.equal(data["a"].x, typed_store().node["a", "x"].read(data["a"].n_id).rows)
        assert torch.equal(data["b"].x, typed_store().node["b", "x"].read(data["b"].n_id).rows)
        assert torch.equal(
            data[RELATIONS[1]].e, typed_store().edge[RELATIONS[1], "e"].read(data[RELATIONS[1]].e_id).rows
        )
        assert torch.equal(data["a"].y, data["a"].n_id[: data["a"].batch_size] % 5)
        assert torch.equal(data["b"].all, data["b"].n_id + 120)


def test_an_edge_feature_named_by_the_relation_alone_is_converted():
    rows = typed_store().edge[RELATIONS[1], "e"]
    store = hr.FeatureStore(edge={"likes": {"e": rows}})
    plan = typed_items().sample_neighbor(typed_graph(), [3, 2]).fetch_feature(store, edge={"likes": ["e"]})
    data = next(iter(plan.loader())).to_pyg()[RELATIONS[1]]
    assert len(data.e_id)
    assert torch.equal(data.e, rows.read(data.e_id).rows)


def test_graph_in_csc_form_is_sorted_by_edge_type():
    graph = typed_graph()
    order = torch.randperm(graph.num_edges, generator=torch.Generator().manual_seed(3))
    rows = torch.arange(graph.num_nodes).repeat_interleave(graph.in_degrees())[order].argsort(stable=True)
    order = order[rows]  # any order within rows
    shuffled = hr.Graph.from_csc(
        graph.indptr,
        graph.indices[order],
        edge_attrs={"weight": graph.edge_attrs_csc["weight"][order]},
        edge_ids=graph.edge_ids[order],
        node_types=graph.node_types,
        edge_types=graph.edge_types,
    )
    assert torch.equal(shuffled.edge_attrs["weight"], graph.edge_attrs["weight"])
    plan = typed_items().sample_in_subgraph(shuffled)
    found, wanted = (next(iter(one.loader())) for one in (plan, typed_items().sample_in_subgraph(graph)))
    assert set(found.e_id.tolist()) == set(wanted.e_id.tolist())


def test_plain_names_of_types_have_no_relation_blocks():
    graph = hr.Graph.from_coo([0, 1], [1, 0], edge_types={"one": 1, "other": 1})
    (batch,) = hr.ItemSampler(2, seed=0).sample_neighbor(graph, {"one": [1], "default": [0]}).loader()
    assert batch.e_id.tolist() == [0]
    with pytest.raises(hr.InputError, match="source type, relation, destination type"):
        batch.blocks[0].relation("one")
