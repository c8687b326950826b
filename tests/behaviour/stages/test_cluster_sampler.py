"""Sources of whole clusters, and of all nodes."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import torch

import headrace as hr

from plans import NUM_NODES, graph, store, typed_graph

UNEVEN = hr.Partition.of(torch.tensor([0, 0, 0, 2, 2, 4, 4, 4, 4, 5]), 6)  # two clusters are empty


def seeds(plan: hr.Plan, **options: object) -> list[list[int]]:
    return [batch.seeds.tolist() for batch in plan.loader(**options)]


def test_clusters_in_order():
    assert seeds(hr.ClusterSampler(UNEVEN, 2, shuffle=False)) == [[0, 1, 2], [3, 4], [5, 6, 7, 8, 9]]
    assert seeds(hr.ClusterSampler(UNEVEN, 4, shuffle=False)) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert seeds(hr.ClusterSampler(UNEVEN, 4, shuffle=False, drop_last=True)) == [[0, 1, 2, 3, 4]]
    assert seeds(hr.ClusterSampler(UNEVEN, 60, shuffle=False)) == [list(range(10))]


def test_many_clusters_of_any_size():
    """A hundred thousand, of none to some hundred nodes."""
    generator = torch.Generator().manual_seed(0)
    labels = (100_000 * torch.rand(200_000, generator=generator) ** 3).long()
    assert int((torch.bincount(labels) == 0).sum()) > 10_000
    plan = hr.ClusterSampler(hr.Partition.of(labels, 100_000), 1000, seed=1)
    batches = [batch.seeds for batch in plan.loader()]
    assert len(batches) == 100
    assert torch.equal(torch.cat(batches).sort().values, torch.arange(200_000))
    clusters = [labels[nodes].unique() for nodes in batches]
    assert torch.cat(clusters).unique().numel() == sum(map(len, clusters))  # each is of one batch


HOLES = hr.Partition.of(torch.tensor([1, 1, 1, 4, 4, 5, 7, 7, 7, 7]), 9)  # five of nine clusters are empty


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"drop_last": True}], ids=str)
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_no_batch_is_without_seeds(size, shuffle, options):
    """Nor is a cluster lost; the number of batches is known for every epoch, and each can be gone to."""
    plan = hr.ClusterSampler(HOLES, size, shuffle=shuffle, seed=5, **options).sample_in_subgraph(
        hr.Graph.from_coo([0], [1], num_nodes=10)
    )
    loader = plan.loader()
    epochs = [list(loader) for _ in range(4)]
    for number, batches in enumerate(epochs):
        assert all(len(batch.seeds) for batch in batches)
        assert [batch.index for batch in batches] == list(range(len(batches)))
        found = sorted(node for batch in batches for node in batch.seeds.tolist())
        assert options or found == list(range(10))
        assert len(set(found)) == len(found)
        for skipped in range(len(batches)):
            again = plan.loader()
            again.set_epoch(number)
            iterator = iter(again)
            for _ in range(skipped):
                next(iterator)
            state = again.state_dict()
            other = plan.loader()
            other.load_state_dict(state)
            assert [one.digest() for one in other] == [one.digest() for one in batches[skipped:]]
    if size == 1 or not shuffle:
        assert {len(loader)} == {len(batches) for batches in epochs}
    if size == 1 and not options:
        assert len(loader) == 4


def test_there_is_no_length_where_empty_clusters_may_fill_a_batch():
    """Two of four are empty: together they are no batch, apart they are in two."""
    loader = hr.ClusterSampler(hr.Partition.of([0, 0, 3], 4), 2, seed=5).loader()
    assert {len(list(loader)) for _ in range(12)} == {1, 2}
    with pytest.raises(TypeError):
        len(loader)
    assert len(hr.ClusterSampler(hr.Partition.of([0, 0, 3, 2], 4), 2, seed=5).loader()) == 2


def test_ranks_share_batches_of_clusters_with_nodes():
    plan = hr.ClusterSampler(HOLES, 1, seed=5)
    whole = [batch.seeds.tolist() for batch in plan.loader()]
    shares = [[batch.seeds.tolist() for batch in plan.loader(rank=rank, world_size=2)] for rank in range(2)]
    assert [[*chain(*batch)] for batch in zip(*shares, strict=True)] == whole
    assert all(whole)


def test_a_boundary_beyond_the_hops_is_refused():
    plan = hr.ClusterSampler(hr.Partition.hash(NUM_NODES, 4), boundary=3)
    with pytest.raises(hr.PlanError, match="a boundary of at most 2, the hops of the sampler behind it, got 3; lower"):
        plan.sample_in_subgraph(graph(), num_hops=2).loader()
    plan.sample_in_subgraph(graph(), num_hops=3).loader()


def test_every_epoch_groups_them_anew():
    loader = hr.ClusterSampler(hr.Partition.hash(NUM_NODES, 40), 4, seed=1).loader()
    epochs = [[frozenset(batch.seeds.tolist()) for batch in loader] for _ in range(2)]
    for batches in epochs:
        assert sorted(node for batch in batches for node in batch) == list(range(NUM_NODES))
    assert set(epochs[0]) != set(epochs[1])


def test_peers_25_parts_drawn_at_random_have_every_node_once():
    """What PyG's RandomNodeLoader does: an epoch covers all nodes and, of the edges, those within a part."""
    owners = torch.randint(7, (NUM_NODES,), generator=torch.Generator().manual_seed(2))
    whole = graph()
    ends = torch.stack([whole.indices.long(), torch.arange(NUM_NODES).repeat_interleave(whole.in_degrees())])
    found, edges = [], 0
    plan = hr.ClusterSampler(hr.Partition.of(owners, 7), 1, seed=1).sample_in_subgraph(whole)
    for batch in plan.loader():
        assert len(owners[batch.seeds].unique()) == 1
        assert torch.equal(batch.n_id, batch.seeds), "nothing but the part"
        edges += batch.blocks[0].num_edges
        found.extend(batch.seeds.tolist())
    assert sorted(found) == list(range(NUM_NODES))
    assert edges == int((owners[ends[0]] == owners[ends[1]]).sum()) > 0


def test_ranks_share_the_nodes_of_a_batch():
    whole = seeds(hr.ClusterSampler(UNEVEN, 2, seed=4))
    shares = [seeds(hr.ClusterSampler(UNEVEN, 2, seed=4), rank=rank, world_size=3) for rank in range(3)]
    assert [[*chain(*batch)] for batch in zip(*shares, strict=True)] == whole
    batches = hr.ClusterSampler(UNEVEN, 2, shuffle=False).loader(rank=1, world_size=3)
    assert [batch.num_global_seeds for batch in batches] == [3, 2, 5]


def test_resume_is_a_seek():
    plan = hr.ClusterSampler(UNEVEN, 2, seed=4)
    loader = plan.loader()
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    expected = [batch.digest() for batch in iterator] + [batch.digest() for batch in loader]
    again = plan.loader()
    again.load_state_dict(state)
    assert [batch.digest() for batch in again] + [batch.digest() for batch in again] == expected


def test_behind_the_global_batch_comes_the_next_epoch():
    loader = hr.GlobalBatch(graph(), seed=4).loader()
    next(iter(loader))
    again = hr.GlobalBatch(graph(), seed=4).loader()
    again.load_state_dict(loader.state_dict())
    assert [(batch.epoch, batch.index) for batch in again] == [(1, 0)]
    assert [batch.epoch for batch in again] == [2]


def test_a_checkpoint_belongs_to_its_clusters():
    state = hr.ClusterSampler(UNEVEN, 2, seed=4).loader().state_dict()
    other = hr.Partition.of(torch.tensor([0, 0, 0, 2, 2, 4, 4, 4, 5, 5]), 6)
    with pytest.raises(hr.StateError):
        hr.ClusterSampler(other, 2, seed=4).loader().load_state_dict(state)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"partition": torch.zeros(4)}, "expected a Partition, got Tensor"),
        ({"clusters_per_batch": 0}, "clusters_per_batch"),
        ({"boundary": -1}, "boundary"),
        ({"boundary": 1.5}, "boundary"),
        ({"shuffle": 1}, "shuffle to be True or False"),
        ({"clusters_per_batch": 7, "drop_last": True}, "drop_last leaves no batch"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(hr.InputError, match=message):
        hr.ClusterSampler(**{"partition": UNEVEN, "clusters_per_batch": 2, **arguments})


@pytest.mark.parametrize("size", [NUM_NODES - 1, NUM_NODES + 1])
def test_clusters_and_global_batches_of_another_graph_are_refused(size):
    """Of a smaller one, too: some nodes would be in no batch."""
    other = hr.Graph.from_coo([0], [1], num_nodes=size)
    for source in (hr.ClusterSampler(hr.Partition.hash(size, 3), 1), hr.GlobalBatch(other)):
        words = f"{source.name} to be of the graph's {NUM_NODES} nodes, got one of {size}"
        with pytest.raises(hr.InputError, match=words):
            source.sample_in_subgraph(graph()).loader()


def test_graphs_with_types_are_refused_by_that_name():
    plan = hr.ClusterSampler(hr.Partition.hash(NUM_NODES, 3), 1).sample_in_subgraph(typed_graph())
    with pytest.raises(hr.PlanError, match=r"without types behind cluster_sampler.*graph\.untyped\(\)"):
        plan.loader()


def test_the_global_batch_is_the_graph():
    plan = hr.GlobalBatch(graph()).sample_in_subgraph(graph(), num_hops=3)
    (batch,) = plan.fetch_feature(store(), node=["x"], edge=["e"], labels="y").loader()
    assert torch.equal(batch.n_id, torch.arange(NUM_NODES))
    assert torch.equal(batch.x, store().node["x"].read(batch.n_id).rows)
    assert len(batch.blocks) == 3
    for block in batch.blocks:
        assert block.indptr.data_ptr() == graph().indptr.data_ptr()
        assert block.indices.data_ptr() == graph().indices.data_ptr()
        assert torch.equal(block.edge_ids, graph().edge_ids.long())
    assert batch.num_sampled_nodes == (NUM_NODES, 0, 0, 0)


def test_the_block_of_the_graph_is_made_once():
    """What layers keep with it, such as its transposed edges, is then made once as well."""
    loader = hr.GlobalBatch(graph()).sample_in_subgraph(graph(), num_hops=2).loader()
    blocks = [block for _ in range(2) for batch in loader for block in batch.blocks]
    assert len(blocks) == 4
    assert all(block is blocks[0] for block in blocks)


@pytest.mark.parametrize("lookahead", [False, True])
def test_features_of_edges_are_fetched_once_for_all_layers(lookahead, tmp_path):
    """Also from a disk, with reads that are asked for ahead."""
    source = store().edge["e"]
    rows = source.read(torch.arange(source.num_rows)).rows
    if lookahead:
        np.save(tmp_path / "e.npy", rows.numpy())
    edge = {"e": hr.DiskFeature(tmp_path / "e.npy") if lookahead else rows}
    plan = hr.GlobalBatch(graph()).sample_in_subgraph(graph(), num_hops=3)
    loader = plan.fetch_feature(hr.FeatureStore(edge=edge), edge=["e"]).loader(lookahead=lookahead)
    (batch,) = loader
    first, *others = batch.edge["e"]
    assert torch.equal(first, rows[graph().edge_ids.long()])
    assert len(others) == 2
    assert all(one is first for one in others)
    assert loader.stats()["fetch_feature"]["rows"] == graph().num_edges
    moved = batch.to("meta").edge["e"]
    assert all(one is moved[0] for one in moved)


def test_one_cluster_is_the_global_batch():
    one = hr.Partition.of(torch.zeros(NUM_NODES, dtype=torch.int64))
    (expected,) = hr.GlobalBatch(graph()).sample_in_subgraph(graph(), num_hops=2).loader()
    (found,) = hr.ClusterSampler(one).sample_in_subgraph(graph(), num_hops=2).loader()
    assert found.digest() == expected.digest()
