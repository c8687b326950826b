"""pad(): shapes that batches share, found by sampling alone, around batches that are otherwise the same."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch

import headrace as hr

from plans import (
    NUM_NODES,
    RELATIONS,
    fetch_typed,
    graph,
    items,
    pairs,
    store,
    typed_graph,
    typed_items,
    typed_store,
)


def plan(fanouts=(4, 3), **options):
    sampled = items(batch_size=17).sample_neighbor(graph(), list(fanouts), **options)
    return sampled.fetch_feature(store(), node=["x"], edge=["e"], labels="y")


def shape(batch):
    """The sizes of every tensor."""
    return tuple(tuple(tensor.shape) for tensor in batch.tensors())


def edges_of(block, nodes):
    """Edges by global ids, with their ids and weights, as a sorted list."""
    ends = nodes[block.edge_index[0]].tolist(), nodes[block.edge_index[1]].tolist()
    ids = [-1] * block.num_edges if block.edge_ids is None else block.edge_ids.tolist()
    weights = [1.0] * block.num_edges if block.weight is None else block.weight.tolist()
    return list(zip(*ends, ids, weights, strict=True))


def assert_same_but_padding(padded, batch):
    """Whether all that is real is there, in order."""
    assert isinstance(padded, hr.MiniBatch)
    assert padded.sizes
    for name in ("num_seeds", "num_sampled_nodes", "num_sampled_edges", "num_global_seeds", "epoch", "index"):
        assert getattr(padded, name) == getattr(batch, name)
    seeds, nodes = padded.seed_mask, padded.node_mask
    assert padded.seeds[seeds].tolist() == batch.seeds.tolist()
    assert padded.item_index[seeds].tolist() == batch.item_index.tolist()
    assert padded.n_id[nodes].tolist() == batch.n_id.tolist()
    assert torch.equal(padded.n_id[padded.seed_index[seeds]], batch.n_id[batch.seed_index])
    assert (padded.n_id[padded.seed_index[~seeds]] == -1).all()
    assert (padded.seeds[~seeds] == -1).all()
    assert (padded.n_id[~nodes] == -1).all()
    assert batch.seed_mask.all()
    if batch.y is not None:
        assert padded.y[seeds].tolist() == batch.y.tolist()
        assert padded.y[~seeds].nan_to_num(-100).eq(-100).all()
    for name, rows in batch.node.items():
        assert torch.equal(padded.node[name][nodes], rows)
        assert not padded.node[name][~nodes].any()
    for layer, (block, real) in enumerate(zip(padded.blocks, batch.blocks, strict=True)):
        assert block.src_mask.tolist() == nodes[: block.num_src].tolist()
        assert block.dst_mask.tolist() == nodes[: block.num_dst].tolist()
        assert int(block.src_mask.sum()) == real.num_src
        assert int(block.dst_mask.sum()) == real.num_dst
        found = edges_of(block, padded.n_id)
        is_real = [source != -1 for source, *_ in found]
        assert [edge for edge, known in zip(found, is_real, strict=True) if known] == edges_of(real, batch.n_id)
        assert all(edge == (-1, -1, -1, 1.0) for edge, known in zip(found, is_real, strict=True) if not known)
        for name, parts in batch.edge.items():
            assert torch.equal(padded.edge[name][layer][torch.tensor(is_real)], parts[layer])


VARIANTS = {
    "blocks": plan,
    "one block": lambda: plan(expand="new"),
    "one hop": lambda: plan((5,)),
    "weighted": lambda: items(batch_size=17).sample_layer_neighbor(graph(), [3, 2], weight="weight"),
    "without edge ids": lambda: items(batch_size=17).sample_layer_neighbor(graph(), [3, 2], edge_ids=False),
    "trees": lambda: items(batch_size=17).sample_neighbor(graph(), [3, -1], disjoint=True),
    "all edges": lambda: items(batch_size=17).sample_in_subgraph(graph(), num_hops=2),
    "subgraph": lambda: items(batch_size=17).sample_neighbor(graph(), [3, 2], expand="new").induce_subgraph(graph()),
    "ego nets": lambda: items(batch_size=17).sample_shadow(graph(), 2, 3),
    "saint": lambda: (
        items(batch_size=17).sample_saint(graph(), "node", budget=40).fetch_feature(store(), node=["x"], labels="y")
    ),
    "layers": lambda: items(batch_size=17).sample_ladies(graph(), [20, 30]),
    "pairs": lambda: pairs().sample_uniform_negative(graph(), 2).sample_neighbor(graph(), [3, 2]),
    "repeated": lambda: hr.ItemSampler(torch.arange(90) % 13, batch_size=20, seed=3).sample_neighbor(graph(), [4]),
    "no edges": lambda: hr.ItemSampler(3, batch_size=2, seed=0).sample_neighbor(
        hr.Graph.from_coo([], [], num_nodes=NUM_NODES), [2, 2]
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_batches_are_the_same_but_for_padding(name):
    whole = VARIANTS[name]()
    loader, padded = whole.loader(), whole.pad().loader()
    for _ in range(2):
        for batch, other in zip(loader, padded, strict=True):
            assert_same_but_padding(other, batch)


def test_an_epoch_has_two_shapes_which_are_the_smallest():
    loader = plan().pad().loader()
    batches, real = list(loader), list(plan().loader())
    assert len({shape(batch) for batch in batches}) == 2
    assert len({shape(batch) for batch in batches[:-1]}) == 1
    assert len({shape(batch) for batch in real}) == len(real)
    most = [max(counts) for counts in zip(*(batch.num_sampled_nodes for batch in real[:-1]), strict=True)]
    assert batches[0].sizes.num_nodes == tuple(count + 1 for count in most)
    most = [max(counts) for counts in zip(*(batch.num_sampled_edges for batch in real[:-1]), strict=True)]
    assert batches[0].sizes.num_edges == tuple(most)
    assert batches[-1].sizes.num_edges == real[-1].num_sampled_edges
    assert loader.stats()["pad"]["larger_batches"] == 0


def test_larger_batches_of_later_epochs_have_larger_sizes():
    loader = plan().pad().loader()
    shapes = [{shape(batch) for batch in loader} for _ in range(6)]
    assert len(set().union(*shapes)) == 3
    assert loader.stats()["pad"]["larger_batches"] > 0
    exact = plan().pad(epochs=6).loader()
    assert len({shape(batch) for _ in range(6) for batch in exact}) == 2
    assert exact.stats()["pad"]["larger_batches"] == 0


def test_chosen_sizes_hold_for_all_batches():
    loader = plan().pad([40, 90, 100], [200, 300]).loader()
    assert {batch.sizes.num_nodes for batch in loader} == {(40, 90, 100)}
    small = plan().pad([10, 20, 100], [200, 300]).loader()
    sizes = [batch.sizes for batch in small]
    assert sizes[0].num_nodes[0] == 20  # 1.25 to the third power times as many
    assert sizes[0].num_nodes[1:] == tuple(math.ceil(count * 1.25**4) for count in (20, 100))
    assert small.stats()["pad"]["larger_batches"] == len(sizes)


def test_where_batches_differ_much_there_are_more_shapes():
    whole = items(batch_size=5, seed=1).sample_in_subgraph(graph(), num_hops=2)
    one, four = list(whole.pad(shapes=1).loader()), list(whole.pad().loader())
    assert len({shape(batch) for batch in one}) == 1
    assert 1 < len({shape(batch) for batch in four}) <= 4
    assert sum(len(batch.n_id) for batch in four) < sum(len(batch.n_id) for batch in one)


def test_checkpoints_know_the_padding_and_go_on_behind_it():
    first = plan().pad().loader()
    expected = [batch.digest() for _ in range(2) for batch in first]
    loader = plan().pad().loader()
    for _, _ in zip(range(3), loader, strict=False):
        pass
    state = loader.state_dict()
    for other in (plan(), plan().pad(epochs=2), plan().pad(shapes=2), plan().pad([40, 90, 100], [200, 300])):
        with pytest.raises(hr.StateError, match="another plan"):
            other.loader().load_state_dict(state)
    resumed = plan().pad().loader()
    resumed.load_state_dict(state)
    assert [batch.digest() for batch in resumed] == expected[3 : len(expected) // 2]
    assert [batch.digest() for batch in resumed] == expected[len(expected) // 2 :]


def test_a_plan_without_a_seed_takes_that_of_the_state():
    def made():
        return hr.ItemSampler(100, batch_size=17, shuffle=True).sample_neighbor(graph(), [3, 2]).pad()

    torch.manual_seed(1)
    loader = made().loader()
    expected = [batch.digest() for batch in loader]
    loader.set_epoch(0)
    state = loader.state_dict()
    torch.manual_seed(2)
    other = made().loader()
    assert [batch.digest() for batch in other] != expected
    other.load_state_dict(state)
    assert [batch.digest() for batch in other] == expected


def test_ranks_have_the_same_shapes():
    loaders = [plan().pad().loader(rank=rank, world_size=3) for rank in range(3)]
    # Shares of six seeds, and those of fewer.
    assert len({batch.sizes for loader in loaders for batch in loader}) == 2


def test_masks_sizes_and_padding_survive_copies():
    batch = next(iter(plan().pad().loader()))
    copies = pickle.loads(pickle.dumps(batch)), copy.deepcopy(batch)  # noqa: S301 - our own bytes
    for other in (*copies, batch.to("cpu"), batch.replace(y=batch.y)):
        assert other.sizes == batch.sizes
        assert other.digest() == batch.digest()
        assert torch.equal(other.seed_mask, batch.seed_mask)
        assert torch.equal(other.node_mask, batch.node_mask)
        assert [block.dst_mask.tolist() for block in other.blocks] == [b.dst_mask.tolist() for b in batch.blocks]


def test_labels_of_floats_are_nan_and_unsigned_ones_are_refused():
    seeds = torch.arange(5)
    batch = next(iter(hr.ItemSampler((seeds, seeds / 2)).sample_neighbor(graph(), [2]).pad().loader()))
    assert batch.y[~batch.seed_mask].isnan().all()
    refused = hr.ItemSampler((seeds, seeds.to(torch.uint8))).sample_neighbor(graph(), [2]).pad()
    with pytest.raises(hr.InputError, match="pad: expected labels of a dtype that has nan or -100"):
        next(iter(refused.loader()))


def test_a_transform_before_it_runs_in_the_pass_and_one_behind_may_follow():
    def fewer(batch):
        return batch.replace(
            blocks=batch.blocks[-1:],
            n_id=batch.n_id[: batch.blocks[-1].num_src],
            num_sampled_nodes=batch.num_sampled_nodes[:2],
            num_sampled_edges=batch.num_sampled_edges[:1],
            node={},
            edge={},
        )

    loader = plan().transform(fewer).pad().transform(lambda batch: batch).prefetch().copy_to("cpu").loader()
    assert len({shape(batch) for batch in loader}) == 2


def test_what_cannot_be_padded_is_refused():
    with pytest.raises(hr.PlanError, match="pad cannot stand here: it reads blocks"):
        items().pad().loader()
    with pytest.raises(hr.PlanError, match=r"behind pad\(\) a batch has rows that are no nodes"):
        items().sample_neighbor(graph(), [2]).pad().fetch_feature(store(), node=["x"]).loader()
    with pytest.raises(hr.PlanError, match=r"behind pad\(\)"):
        items().sample_neighbor(graph(), [2]).pad().pad().loader()
    for arguments in ({"num_nodes": [3, 3]}, {"num_edges": [3]}):
        with pytest.raises(hr.PlanError, match="both num_nodes and num_edges"):
            plan().pad(**arguments)
    with pytest.raises(hr.PlanError, match="sizes or epochs"):
        plan().pad([3, 3], [3], epochs=2)
    with pytest.raises(hr.PlanError, match="got 2 and 2"):
        plan().pad([3, 3], [3, 3])
    with pytest.raises(hr.PlanError, match="num_edges of 2 hops"):
        plan().pad([3, 3], [3]).loader()
    for partition in (None, hr.EdgePartition.by_source(graph(), 2)):
        with pytest.raises(hr.PlanError, match=r"^cooperative: expected a plan without pad\(\), .*leave out \.pad\(\)"):
            plan().pad().loader(comm=hr.testing.LocalGroup(2).comms[0], cooperative=True, partition=partition)
    own = hr.ItemSampler(10, items_per_rank=True, batch_size_per_rank=2).sample_neighbor(graph(), [2]).pad()
    with pytest.raises(hr.PlanError, match="items of each rank's own; give the sizes"):
        own.loader(rank=0, world_size=2)


def test_it_is_shown():
    text = plan().pad(epochs=2).loader().explain()
    assert "pad_batch(epochs=2, shapes=1)" in text
    assert "  pad(epochs=2)" in text


TYPED = {
    "blocks": lambda: fetch_typed(typed_items().sample_neighbor(typed_graph(), [3, 2])),
    "one block": lambda: fetch_typed(typed_items().sample_neighbor(typed_graph(), [3, 2, 2], expand="new")),
    "weighted": lambda: typed_items().sample_layer_neighbor(typed_graph(), [3, 2], weight="weight"),
    "trees": lambda: typed_items().sample_layer_neighbor(typed_graph(), [3, 2], disjoint=True),
    "pairs": lambda: hr.ItemSampler(
        {RELATIONS[0]: torch.arange(40).view(20, 2) % 40}, batch_size=6, seed=3
    ).sample_neighbor(typed_graph(), [3, 2]),
}


@pytest.mark.parametrize("name", TYPED)
def test_relations_have_two_shapes_and_are_the_same_but_for_padding(name):
    shapes = set()
    for batch, padded in zip(TYPED[name]().loader(), TYPED[name]().pad(shapes=1).loader(), strict=True):
        assert padded.n_id[padded.node_mask].tolist() == batch.n_id.tolist()
        assert padded.num_seeds == batch.num_seeds
        found = [tuple(tensor.shape) for tensor in padded.tensors()]
        for feature, rows in batch.node.items():
            of_type = slice(None) if isinstance(feature, str) else padded.types.places(feature[0])
            mask = padded.node_mask[of_type]
            assert torch.equal(padded.node[feature][mask], rows)
            assert not padded.node[feature][~mask].any()
        for layer, (block, real) in enumerate(zip(padded.blocks, batch.blocks, strict=True)):
            for relation in typed_graph().edge_types.names:
                edges, expected = block.relation(relation), real.relation(relation)
                found += [(edges.num_src, edges.num_dst, edges.num_edges)]
                sources = block.types.within(relation[0])[edges.edge_index[0]]
                rows = block.types.first(block.num_dst).within(relation[2])[edges.edge_index[1]]
                is_real = edges.edge_ids >= 0
                assert torch.equal(sources >= 0, is_real)
                assert torch.equal(rows >= 0, is_real)
                assert torch.equal(edges.src_mask[edges.edge_index[0]], is_real)
                assert torch.equal(edges.dst_mask[edges.edge_index[1]], is_real)
                assert (int(edges.src_mask.sum()), int(edges.dst_mask.sum())) == (expected.num_src, expected.num_dst)
                assert edges.edge_ids[is_real].tolist() == expected.edge_ids.tolist()
                ends = real.types.within(relation[0])[expected.edge_index[0]]
                assert sources[is_real].tolist() == ends.tolist()
                ends = real.types.first(real.num_dst).within(relation[2])[expected.edge_index[1]]
                assert rows[is_real].tolist() == ends.tolist()
                for feature, parts in batch.edge.items():
                    if feature[0] == relation:
                        assert torch.equal(padded.edge[feature][layer][is_real], parts[layer])
        shapes.add(tuple(found))
    assert len(shapes) == 2


def test_types_of_padding_survive_copies():
    batch = next(iter(TYPED["blocks"]().pad().loader()))
    for other in (copy.deepcopy(batch), batch.to("cpu"), pickle.loads(pickle.dumps(batch))):  # noqa: S301 - our own
        assert torch.equal(other.types.types, batch.types.types)
        for block, one in zip(other.blocks, batch.blocks, strict=True):
            assert torch.equal(block.edge_types, one.edge_types)
            assert torch.equal(block.types.types, one.types.types)


def chosen(name="blocks", room=1):
    """Sizes by type that all batches fit."""
    sizes, *others = {batch.sizes for batch in TYPED[name]().pad(shapes=1).loader()}
    for other in others:
        sizes = sizes.larger(other)
    types = typed_graph().node_types.names, typed_graph().edge_types.names
    return tuple(
        {one: [room * count for count in counts] for one, counts in zip(names, zip(*hops, strict=True), strict=True)}
        for names, hops in zip(types, (sizes.nodes, sizes.edges), strict=True)
    )


@pytest.mark.parametrize("name", ["blocks", "one block"])
def test_sizes_by_type_are_those_of_all_batches(name):
    nodes, edges = chosen(name, room=2)
    in_any_order = [dict(reversed(sizes.items())) for sizes in (nodes, edges)]
    padded = list(TYPED[name]().pad(*in_any_order).loader())
    assert len({shape(batch) for batch in padded}) == 1
    for batch, one in zip(TYPED[name]().loader(), padded, strict=True):
        assert one.n_id[one.node_mask].tolist() == batch.n_id.tolist()
        for place, of_type in enumerate(typed_graph().node_types.names):
            assert one.types.count(of_type) == sum(nodes[of_type])
            assert [hop[place] for hop in one.sizes.nodes] == nodes[of_type]


def test_sizes_by_type_of_other_types_are_refused():
    nodes, edges = chosen()
    with pytest.raises(hr.PlanError, match="expected sizes by type for a graph with types, got lists"):
        TYPED["blocks"]().pad([9, 9, 9], [9, 9]).loader()
    with pytest.raises(hr.PlanError, match=r"expected num_nodes of each of the types of the graph, got .*'a', 'b'"):
        TYPED["blocks"]().pad({one: nodes[one] for one in ("a", "b")}, edges).loader()
    with pytest.raises(hr.PlanError, match="for a graph without types"):
        plan().pad(nodes, edges).loader()
    with pytest.raises(hr.PlanError, match="both num_nodes and num_edges by type"):
        TYPED["blocks"]().pad(nodes, [9, 9])
    with pytest.raises(hr.PlanError, match="as many hops"):
        TYPED["blocks"]().pad({**nodes, "a": [3, 4]}, edges)


def test_labels_of_several_types_have_no_padding():
    several = typed_items().sample_neighbor(typed_graph(), [2])
    several = several.fetch_feature(typed_store(), labels={"a": "y", "b": "z"}).pad()
    with pytest.raises(hr.InputError, match="labels of one node type, got labels of several"):
        next(iter(several.loader()))
