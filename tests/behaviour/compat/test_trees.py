"""Disjoint and temporal batches (peers.md, part A, section 5, 14 and 16), and ego nets (25)."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.loader import LinkLoader, NodeLoader
from torch_geometric.nn import GraphSAGE
from torch_geometric.sampler import NegativeSampling
from torch_geometric.testing import MyFeatureStore, MyGraphStore

import headrace as hr
from headrace.pyg import LinkNeighborLoader, NeighborLoader, Sampler, ShaDowKHopSampler

WRITES = ("author", "writes", "paper")


def check_trees(batch, node=None, edge_index=None):
    """No edge leads from one tree to another, and no node is in a tree twice."""
    node = batch.n_id if node is None else node
    source, destination = batch.edge_index if edge_index is None else edge_index
    assert torch.equal(batch.batch[source], batch.batch[destination])
    assert len(torch.stack([batch.batch, node]).unique(dim=1).t()) == len(node)


@pytest.mark.parametrize("subgraph_type", ["directional", "bidirectional", "induced"])
def test_peers_16_seeds_share_no_node(data, subgraph_type):
    nodes = torch.tensor([5, 9, 5, 30, 31])
    loader = NeighborLoader(data, [-1, 2], nodes, disjoint=True, batch_size=5, subgraph_type=subgraph_type, seed=1)
    (batch,) = loader
    check_trees(batch)
    assert torch.equal(batch.batch[:5], torch.arange(5))
    assert torch.equal(batch.n_id[:5], nodes)
    assert len(batch.n_id.unique()) < len(batch.n_id), "two seeds that share a neighbour have a copy each"
    assert torch.equal(batch.x, data.x[batch.n_id])
    found, ends = batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id]
    assert ((found == ends).all(0) | ((found.flip(0) == ends).all(0) & (subgraph_type == "bidirectional"))).all()
    if subgraph_type == "directional":
        assert sum(batch.num_sampled_nodes) == batch.num_nodes
        assert batch.num_sampled_nodes[0] == 5


def test_peers_16_full_fanouts_give_the_whole_graphs_output(undirected):
    model = GraphSAGE(3, 8, num_layers=2, out_channels=4).eval()
    with torch.no_grad():
        whole = model(undirected.x, undirected.edge_index)
        for subgraph_type in ("directional", "induced"):
            loader = NeighborLoader(undirected, [-1, -1], disjoint=True, batch_size=30, subgraph_type=subgraph_type)
            for batch in loader:
                out = model(batch.x, batch.edge_index)[: batch.batch_size]
                assert torch.allclose(out, whole[batch.n_id[: batch.batch_size]], atol=1e-5)


def test_peers_16_trees_of_types(hetero):
    (batch,) = NeighborLoader(hetero, [3, 2], ("paper", torch.tensor([4, 8, 4])), disjoint=True, batch_size=3)
    assert batch["paper"].batch[:3].tolist() == [0, 1, 2]
    for name in hetero.edge_types:
        source, destination = batch[name].edge_index
        assert torch.equal(batch[name[0]].batch[source], batch[name[2]].batch[destination])
        ends = torch.stack([batch[name[0]].n_id[source], batch[name[2]].n_id[destination]])
        assert torch.equal(ends, hetero[name].edge_index[:, batch[name].e_id])


@pytest.mark.parametrize("mode", [None, "binary", "triplet"])
def test_peers_16_trees_of_links(data, mode):
    """A tree has the number of its positive link."""
    links = data.edge_index[:, :12]
    loader = LinkNeighborLoader(data, [2, 2], links, disjoint=True, neg_sampling=mode, batch_size=6, seed=1)
    for batch in loader:
        assert torch.equal(batch.batch[batch.edge_index[0]], batch.batch[batch.edge_index[1]])
        number = torch.arange(6)
        if mode == "triplet":
            rows = torch.stack([batch.src_index, batch.dst_pos_index])
            assert torch.equal(batch.batch[batch.dst_neg_index], number)
        else:
            rows = batch.edge_label_index
        assert torch.equal(batch.n_id[rows[:, :6]], links[:, batch.input_id])
        assert torch.equal(batch.batch[rows], number.repeat(rows.shape[1] // 6).expand(2, -1))


@pytest.mark.parametrize("kind", ["node", "edge"])
@pytest.mark.parametrize("strategy", ["uniform", "last"])
def test_peers_14_nothing_is_later_than_its_seed(data, kind, strategy):
    generator = torch.Generator().manual_seed(0)
    size = data.num_nodes if kind == "node" else data.num_edges
    data.when = torch.randint(0, 50, (size,), generator=generator)
    nodes = torch.arange(0, 100, 2)
    input_time = torch.randint(10, 60, (50,), generator=generator)
    loader = NeighborLoader(
        data,
        [4, 3],
        nodes,
        input_time,
        time_attr="when",
        temporal_strategy=strategy,
        batch_size=20,
        shuffle=True,
        seed=2,
    )
    equal = 0
    for batch in loader:
        check_trees(batch)
        assert torch.equal(batch.seed_time, input_time[batch.input_id])
        bound = batch.seed_time[batch.batch]
        if kind == "edge":
            when, bound = batch.when, bound[batch.edge_index[1]]
        else:
            when, bound = batch.when[batch.batch_size :], bound[batch.batch_size :]
        assert (when <= bound).all()
        equal += int((when == bound).sum())
        if strategy == "last" and kind == "edge":
            destination = data.edge_index[1]
            for seed in range(batch.batch_size):
                there = (destination == batch.n_id[seed]) & (data.when <= batch.seed_time[seed])
                latest = data.when[there].sort(descending=True).values[:4]
                picked = batch.when[batch.edge_index[1] == seed].sort(descending=True).values
                assert torch.equal(picked, latest)
    assert equal > 0 or kind == "edge", "a time that is equal counts"


def test_peers_14_times_of_the_seeds_own_nodes(data):
    data.time = torch.arange(data.num_nodes) % 17
    for batch in NeighborLoader(data, [5, 5], time_attr="time", batch_size=40):
        assert (batch.time <= batch.time[: batch.batch_size][batch.batch]).all()
        assert "seed_time" not in batch


def test_peers_14_times_of_types(hetero):
    hetero["paper"].time = torch.arange(60)
    hetero["author"].time = torch.arange(40)
    input_time = torch.arange(60) // 2
    loader = NeighborLoader(hetero, [-1, -1], "paper", input_time, time_attr="time", batch_size=15)
    venues = 0
    for batch in loader:
        seed_time = batch["paper"].seed_time
        size = batch["paper"].batch_size
        assert (batch["paper"].time <= seed_time[batch["paper"].batch])[size:].all()
        assert (batch["author"].time <= seed_time[batch["author"].batch]).all()
        venues += len(batch["venue"].n_id)
    assert venues > 0, "what has no time was always there"


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_seeds_of_a_type_without_times_need_some(hetero, dtype):
    hetero["paper"].time = torch.arange(60).to(dtype)
    with pytest.raises(hr.InputError, match="expected input_time for seeds of type 'author'"):
        NeighborLoader(hetero, [-1], "author", time_attr="time")
    with pytest.raises(hr.InputError, match="expected input_time for seeds of type 'author'"):
        next(iter(NodeLoader(hetero, Sampler(hetero, [-1], time_attr="time"), input_nodes="author")))
    input_time = torch.full((40,), 100).to(dtype)
    (batch,) = NeighborLoader(hetero, [-1], "author", input_time, time_attr="time", batch_size=40)
    assert batch["paper", "rev_writes", "author"].edge_index.shape[1] == 150
    (batch,) = NeighborLoader(hetero, [-1], "paper", time_attr="time", batch_size=60)
    assert batch["author", "writes", "paper"].edge_index.shape[1] == 150


def test_peers_14_times_of_links(data):
    data.time = torch.arange(data.num_edges)
    label_time = torch.arange(100, 200)
    links = data.edge_index[:, 100:200]
    loader = LinkNeighborLoader(
        data, [3, 2], links, edge_label_time=label_time, time_attr="time", neg_sampling="binary", batch_size=25, seed=1
    )
    for batch in loader:
        assert torch.equal(batch.edge_label_time[:25], label_time[batch.input_id])
        assert len(batch.edge_label_time) == 50
        bound = label_time[batch.input_id][batch.batch[batch.edge_index[1]]]
        assert (batch.time <= bound).all()


@pytest.mark.parametrize("amount", [0.5, 1.5, 2, 3])
def test_negatives_are_in_the_tree_of_the_pair_whose_time_they_have(data, amount):
    data.time = torch.arange(data.num_edges)
    label_time = torch.randperm(data.num_edges, generator=torch.Generator().manual_seed(3))[:60]
    options = {"time_attr": "time", "neg_sampling": ("binary", amount), "batch_size": 20, "seed": 1}
    links = data.edge_index[:, :60]
    for batch in LinkNeighborLoader(data, [5, 5], links, edge_label_time=label_time, **options):
        bound = batch.edge_label_time[:20][batch.batch[batch.edge_index[1]]]
        assert len(bound) > 20
        assert (batch.time <= bound).all()
        trees = batch.batch[batch.edge_label_index]
        assert torch.equal(trees[0], trees[1])
        assert torch.equal(batch.edge_label_time, batch.edge_label_time[:20][trees[0]])


@pytest.mark.parametrize("strategy", ["uniform", "last"])
def test_pygs_own_loader_with_our_sampler(data, strategy):
    data.time = torch.arange(data.num_nodes)
    sampler = Sampler(data, [3, 2], time_attr="time", temporal_strategy=strategy, seed=3)
    input_time = torch.full((data.num_nodes,), 60)
    for batch in NodeLoader(data, sampler, input_time=input_time, batch_size=30):
        check_trees(batch)
        assert (batch.time[batch.batch_size :] <= 60).all()
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])


@pytest.mark.parametrize("num_neighbors", [2, -1])
def test_peers_25_shadow(data, num_neighbors):
    data.node = torch.arange(data.num_nodes)
    data.title = "a graph"
    loader = ShaDowKHopSampler(
        data, depth=2, num_neighbors=num_neighbors, node_idx=data.train_mask, batch_size=12, shuffle=True, seed=1
    )
    roots = []
    for batch in loader:
        check_trees(batch, batch.node)
        assert torch.equal(batch.batch, batch.batch.sort().values)
        assert torch.equal(batch.ptr.diff(), torch.bincount(batch.batch, minlength=12)[: len(batch.ptr) - 1])
        assert torch.equal(batch.batch[batch.root_n_id], torch.arange(len(batch.root_n_id)))
        root = batch.node[batch.root_n_id]
        roots.append(root)
        assert torch.equal(batch.y, data.y[root]), "of the roots alone"
        assert torch.equal(batch.x, data.x[batch.node])
        for number in range(len(root)):
            nodes = batch.node[batch.ptr[number] : batch.ptr[number + 1]]
            mask = torch.isin(data.edge_index, nodes).all(0)
            here = batch.batch[batch.edge_index[1]] == number
            wanted = zip(*data.edge_index[:, mask].tolist(), data.edge_attr[mask, 0].tolist(), strict=True)
            ends = batch.node[batch.edge_index[:, here]]
            found = zip(*ends.tolist(), batch.edge_attr[here, 0].tolist(), strict=True)
            assert sorted(found) == sorted(wanted), "all edges among the nodes of an ego net"
        assert batch.title == "a graph"
    assert torch.equal(torch.cat(roots).sort().values, data.train_mask.nonzero().flatten())
    assert len(ShaDowKHopSampler(data, 1, 3, batch_size=50)) == 3


def test_peers_22_times_of_stores(data):
    """Under the name "time" they are those of nodes, under others those of edges, as PyG has it."""
    for name, size in (("time", data.num_nodes), ("when", data.num_edges)):
        data[name] = torch.arange(size) % 31
        features, graph = MyFeatureStore(), MyGraphStore()
        features.put_tensor(data[name], group_name=None, attr_name=name, index=None)
        graph.put_edge_index(tuple(data.edge_index), edge_type=None, layout="coo", size=(data.num_nodes,) * 2)
        options = {"input_nodes": torch.arange(40), "input_time": torch.arange(40), "time_attr": name, "seed": 2}
        ours = NeighborLoader((features, graph), [3, 2], batch_size=40, **options)
        theirs = NeighborLoader(data, [3, 2], batch_size=40, **options)
        for left, right in zip(ours, theirs, strict=True):
            assert torch.equal(left.e_id, right.e_id)
            assert torch.equal(left[name], right[name])
            assert torch.equal(left.seed_time, right.seed_time)
        with pytest.raises(hr.InputError, match="time_attr"):
            NeighborLoader((features, graph), [3], input_nodes=torch.arange(3), time_attr="none")


@pytest.mark.parametrize("mode", ["binary", "triplet"])
@pytest.mark.parametrize("kind", ["ours", "theirs"])
def test_negatives_come_in_the_order_of_pyg(data, mode, kind):
    """Of each link one, then of each the next: code that views them as [amount, num_links] is aligned."""
    data.time = torch.zeros(data.num_nodes, dtype=torch.int64)
    sampling, times = NegativeSampling(mode, 2), torch.tensor([10, 20, 30])
    options = {"edge_label_time": times, "neg_sampling": sampling, "batch_size": 3}
    links = data.edge_index[:, :3]
    if kind == "ours":
        loader = LinkNeighborLoader(data, [2, 2], links, time_attr="time", seed=1, **options)
    else:
        loader = LinkLoader(data, Sampler(data, [2, 2], time_attr="time", seed=1), links, **options)
    (batch,) = loader
    if mode == "binary":
        assert batch.edge_label_time.tolist() == [10, 20, 30] * 3
        assert batch.batch[batch.edge_label_index].tolist() == [[0, 1, 2] * 3] * 2
        assert torch.equal(batch.n_id[batch.edge_label_index[:, :3]], links)
    else:
        assert batch.seed_time.tolist() == [10, 20, 30]
        assert batch.batch[batch.dst_neg_index].tolist() == [[0, 0], [1, 1], [2, 2]]
        assert torch.equal(batch.n_id[torch.stack([batch.src_index, batch.dst_pos_index])], links)


def test_negatives_that_do_not_come_out_even(data):
    options = {"disjoint": True, "neg_sampling": NegativeSampling("binary", 1.5), "batch_size": 4, "seed": 1}
    (batch,) = LinkNeighborLoader(data, [2], data.edge_index[:, :4], **options)
    assert batch.batch[batch.edge_label_index].tolist() == [[0, 1, 2, 3, 0, 1, 2, 3, 0, 1]] * 2


@pytest.mark.parametrize("kind", ["node", "edge"])
def test_strictly_before_leaves_out_the_seeds_own_time(data, kind):
    size = data.num_nodes if kind == "node" else data.num_edges
    data.when = torch.arange(size) % 5
    nodes, times = torch.arange(50), torch.arange(50) % 5
    loader = NeighborLoader(data, [4, 3], nodes, times, time_attr="when", strictly_before=True, batch_size=20, seed=2)
    sampled = 0
    for batch in loader:
        bound = batch.seed_time[batch.batch]
        if kind == "edge":
            when, bound = batch.when, bound[batch.edge_index[1]]
        else:
            when, bound = batch.when[batch.batch_size :], bound[batch.batch_size :]
        assert (when < bound).all()
        sampled += len(when)
    assert sampled > 0


@pytest.mark.parametrize("mode", [None, "binary", "triplet"])
def test_a_link_does_not_find_itself_strictly_before(data, mode):
    data.when = torch.arange(data.num_edges)
    loader = LinkNeighborLoader(
        data,
        [-1],
        data.edge_index,
        edge_label_time=data.when,
        neg_sampling=mode,
        time_attr="when",
        strictly_before=True,
        batch_size=10,
    )
    for batch in loader:
        link = batch.input_id[batch.batch[batch.edge_index[1]]]
        assert (batch.when < data.when[link]).all()


def test_times_of_links_are_as_precise_as_those_of_edges(data):
    exact = torch.arange(data.num_edges, dtype=torch.float64) / 7  # float32 rounds nearly all
    data.when, options = exact.float(), {"time_attr": "when", "strictly_before": True, "batch_size": 10}
    sampler = Sampler(data, [-1], time_attr="when", strictly_before=True)
    for chosen in (options, {"neighbor_sampler": sampler, "batch_size": 10, "time_attr": "when"}):
        for batch in LinkNeighborLoader(data, [-1], data.edge_index, edge_label_time=exact, **chosen):
            link = batch.input_id[batch.batch[batch.edge_index[1]]]
            assert (batch.when < data.when[link]).all()
    data.when = exact
    with pytest.raises(hr.InputError, match="got float32 seeds and float64 times 'when'"):
        next(iter(LinkNeighborLoader(data, [-1], data.edge_index, edge_label_time=exact.float(), **options)))
