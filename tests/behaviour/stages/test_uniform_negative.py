"""Negative pairs, as link prediction takes them. What PyG's users rely on: peers.md, A 5.17 and 5.19."""

from __future__ import annotations

import dataclasses
import math
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr

from plans import NUM_NODES, edges, graph, pairs, store, typed_graph


@cache
def edge_set():
    ends = torch.arange(NUM_NODES).repeat_interleave(graph().indptr.diff())
    return set(zip(graph().indices.tolist(), ends.tolist(), strict=True))


@settings(max_examples=10, deadline=None)
@given(st.sampled_from([0.1, 0.5, 1, 1.5, 3]), st.integers(3, 30), st.booleans())
def test_peers_17_binary_negatives_stand_behind_the_positive_pairs(ratio, size, reject):
    """Ratios are rounded up; labels are floats where items have none; sources are those of the positive pairs."""
    plan = pairs(batch_size=size).sample_uniform_negative(graph(), ratio, reject=reject)
    positive = list(pairs(batch_size=size).loader())
    for batch, alone in zip(plan.loader(prefetch=False), positive, strict=True):
        num = len(alone.seeds)
        num_negatives = math.ceil(round(num * ratio, 9))
        assert batch.num_positives == num
        assert batch.seeds.shape == (num + num_negatives, 2)
        assert torch.equal(batch.seeds[:num], alone.seeds)
        assert batch.y.dtype == torch.float32
        assert batch.y.tolist() == [1.0] * num + [0.0] * num_negatives
        assert torch.equal(batch.item_index, torch.cat([alone.item_index, torch.full((num_negatives,), -1)]))
        assert batch.num_global_seeds == num + num_negatives
        assert torch.equal(batch.n_id[batch.seed_index], batch.seeds)
        assert batch.num_sampled_nodes == (len(batch.n_id),)
        counts = num_negatives // num + (torch.arange(num) < num_negatives % num).long()
        assert torch.equal(batch.seeds[num:, 0], alone.seeds[:, 0].repeat_interleave(counts))
        if reject:
            assert not edge_set() & set(map(tuple, batch.seeds[num:].tolist()))


@pytest.mark.parametrize("amount", [1, 2])
def test_peers_17_triplets(amount):
    plan = pairs().sample_uniform_negative(graph(), amount, "triplet").sample_neighbor(graph(), [3])
    for batch, alone in zip(plan.loader(), pairs().loader(), strict=True):
        assert batch.seeds.shape == batch.seed_index.shape == (len(alone.seeds), 2 + amount)
        assert torch.equal(batch.seeds[:, :2], alone.seeds)
        assert torch.equal(batch.n_id[batch.seed_index], batch.seeds)
        assert batch.y is None
        assert batch.num_global_seeds == batch.num_positives == len(alone.seeds)
        assert torch.equal(batch.item_index, alone.item_index)
        data = batch.to_pyg()
        assert torch.equal(data.n_id[data.src_index], alone.seeds[:, 0])
        assert torch.equal(data.n_id[data.dst_pos_index], alone.seeds[:, 1])
        assert data.dst_neg_index.shape == ((len(alone.seeds),) if amount == 1 else (len(alone.seeds), amount))
        assert "edge_label_index" not in data


@pytest.mark.parametrize(
    ("labels", "shift"),
    [
        (torch.arange(60) % 3, 1),
        (torch.arange(60) % 3 + 1, 0),
        ((torch.arange(60) % 3).float(), 1),
        (torch.arange(60).int() % 2, 1),
        ((torch.arange(60) % 4).reshape(30, 2).repeat(2, 1), 1),
    ],
    ids=["from 0", "from 1", "float", "int32", "rows"],
)
def test_peers_17_labels_that_begin_at_0_move_up(labels, shift):
    """As in PyG: 0 is the class of negatives. Labels from 1 on stay, dtypes and shapes too."""
    plan = hr.ItemSampler((edges()[:60], labels), batch_size=17, shuffle=True, seed=3)
    for batch in plan.sample_uniform_negative(graph(), 2).loader():
        num = batch.num_positives
        assert batch.y.dtype == labels.dtype
        assert torch.equal(batch.y[:num], labels[batch.item_index[:num]] + shift)
        assert not batch.y[num:].any()
        assert batch.y.shape == (3 * num, *labels.shape[1:])


def test_peers_17_positive_pairs_are_found_in_the_data():
    plan = hr.ItemSampler((edges()[:60], torch.arange(60) % 2), batch_size=17, shuffle=True, seed=3)
    for batch in plan.sample_uniform_negative(graph(), 1).sample_neighbor(graph(), [4, 3]).loader():
        data, num = batch.to_pyg(), batch.num_positives
        assert torch.equal(data.n_id[data.edge_label_index].t(), batch.seeds)
        assert torch.equal(data.n_id[data.edge_label_index[:, :num]].t(), edges()[data.input_id])
        assert torch.equal(data.edge_label, batch.y)


def test_peers_17_a_graph_without_edges_and_pairs_that_are_no_edges():
    empty = hr.Graph.from_coo([], [], num_nodes=NUM_NODES)
    for reject in (False, True):
        plan = pairs().sample_uniform_negative(empty, 2, reject=reject).exclude_seed_edges().sample_neighbor(empty, [3])
        assert all(batch.n_id.shape == (batch.num_sampled_nodes[0],) for batch in plan.loader())


def test_negatives_are_new_in_each_batch_and_epoch_and_known_by_the_seed():
    def drawn(seed):
        loader = pairs(seed=seed, shuffle=False).sample_uniform_negative(graph()).loader()
        return [tuple(batch.seeds[batch.num_positives :, 1].tolist()) for _ in loader.epochs(2) for batch in loader]

    assert len(set(drawn(1))) == len(drawn(1))
    assert drawn(1) == drawn(1) != drawn(2)


def test_both_ends_may_be_drawn():
    plan = pairs().sample_uniform_negative(graph(), 5, corrupt="both", node_weight=(torch.arange(NUM_NODES) < 9).int())
    for batch in plan.loader():
        negative = batch.seeds[batch.num_positives :]
        assert int(negative.max()) < 9
        assert not torch.equal(negative[:, 0], negative[:, 1])


@pytest.mark.law
@pytest.mark.parametrize("weight", [None, "degree", torch.arange(NUM_NODES).float()], ids=["even", "degree", "weights"])
def test_law(weight):
    """Over 20 epochs, in 20 groups of nodes: chi-square of 19 degrees of freedom, 1 in 1,000."""
    degrees = graph().indptr.diff().double()
    likely = torch.ones(NUM_NODES).double() if weight is None else degrees if weight == "degree" else weight.double()
    loader = pairs().sample_uniform_negative(graph(), 20, node_weight=weight).loader()
    seen = torch.zeros(NUM_NODES)
    for _ in loader.epochs(20):
        for batch in loader:
            seen += torch.bincount(batch.seeds[batch.num_positives :, 1], minlength=NUM_NODES)
    seen, expected = seen.view(20, -1).sum(1), (likely / likely.sum()).view(20, -1).sum(1) * 20 * 20 * 60
    assert not seen[expected == 0].any()
    assert ((seen - expected)[expected > 0] ** 2 / expected[expected > 0]).sum() < 43.8


@pytest.mark.parametrize("world_size", [2, 3, 20])
@pytest.mark.parametrize(("mode", "ratio"), [("binary", 0.4), ("binary", 1.5), ("triplet", 2)])
def test_peers_19_ranks_draw_what_one_process_draws(world_size, mode, ratio):
    """Uneven shares, empty ones too: every rank has as many batches, and together they are the whole."""
    plan = pairs().sample_uniform_negative(graph(), ratio, mode).exclude_seed_edges(reverse=True)
    plan = plan.sample_neighbor(graph(), [-1])
    whole = list(plan.loader())
    shares = [list(plan.loader(rank=rank, world_size=world_size, prefetch=False)) for rank in range(world_size)]
    assert all(len(share) == len(whole) for share in shares)
    for index, batch in enumerate(whole):
        mine = [share[index] for share in shares]
        assert all(share.num_global_seeds == batch.num_global_seeds for share in mine)
        for name in ("seeds", "item_index", *(["y"] if mode == "binary" else [])):
            rows = [getattr(share, name) for share in mine]
            positive = [part[: share.num_positives] for part, share in zip(rows, mine, strict=True)]
            negative = [part[share.num_positives :] for part, share in zip(rows, mine, strict=True)]
            assert torch.equal(torch.cat([*positive, *negative]), getattr(batch, name))
        # All leave out the edges of the whole batch: each seed has the neighbours that one process finds.
        degree = dict(zip(batch.n_id.tolist(), batch.blocks[0].indptr.diff().tolist(), strict=False))
        for share in mine:
            found = zip(share.n_id.tolist(), share.blocks[0].indptr.diff().tolist(), strict=False)
            assert all(degree[node] == count for node, count in found)


def timed_pairs(kind=torch.int64, **changes):
    times = torch.arange(len(edges()[:60])) * 13 % 45
    return hr.ItemSampler(edges()[:60], batch_size=17, shuffle=True, seed=3, time=times.to(kind), **changes)


def of_kind(kind):
    """The graph with times of nodes, the earliest of which are no later than the earliest pair."""
    return dataclasses.replace(graph(), node_attrs={"time": (torch.arange(NUM_NODES) * 31 % 40).to(kind)})


@pytest.mark.parametrize("kind", [torch.int64, torch.float64], ids=str)
@pytest.mark.parametrize(
    "more", [{}, {"mode": "triplet"}, {"corrupt": "both"}, {"reject": True}, {"weigh": True}], ids=str
)
def test_peers_15_negatives_are_no_later_than_their_pairs(kind, more):
    """Without the bound many are."""
    more = dict(more)
    timed = of_kind(kind)
    if more.pop("weigh", False):
        more["node_weight"] = torch.arange(NUM_NODES).double() + 1
    times = timed.node_attrs["time"]

    def late(**bound):
        count = 0
        for batch in timed_pairs(kind).sample_uniform_negative(timed, 4, **bound, **more).loader():
            num = batch.num_positives
            if more.get("mode") == "triplet":
                count += int((times[batch.seeds[:, 2:]] > batch.seed_time[:, None]).sum())
            else:
                ends = batch.seeds[num:] if "corrupt" in more else batch.seeds[num:, 1:]
                count += int((times[ends] > batch.seed_time[num:, None]).sum())
                if "reject" in more:
                    assert not edge_set() & set(map(tuple, batch.seeds[num:].tolist()))
        return count

    assert late(time="time") == 0
    assert late() > 60


def test_peers_15_times_of_types_and_of_ranks():
    """Of the type of the destination alone; shares of a batch draw what one process draws."""
    whole = dataclasses.replace(typed_graph(), node_attrs={"time": torch.arange(NUM_NODES) * 31 % 40})
    name = whole.edge_types.names[0]
    destinations = whole.node_types.id_range(name[2])
    size = min(len(whole.node_types.id_range(end)) for end in (name[0], name[2]))
    links = torch.arange(size)[:, None].expand(-1, 2)[:30]
    plan = hr.ItemSampler({name: links}, batch_size=8, seed=2, time=torch.arange(len(links)) % 7 + 3)
    plan = plan.sample_uniform_negative(whole, 3, time="time")
    shares = [list(plan.loader(rank=rank, world_size=2, prefetch=False)) for rank in range(2)]
    for index, batch in enumerate(plan.loader()):
        negative, times = batch.seeds[batch.num_positives :, 1], batch.seed_time[batch.num_positives :]
        assert all(node in destinations for node in negative.tolist())
        assert (whole.node_attrs["time"][negative] <= times).all()
        parts = [share[index].seeds[share[index].num_positives :, 1] for share in shares]
        assert torch.equal(torch.cat(parts), negative)


def test_peers_15_pairs_earlier_than_all_nodes_and_other_refusals():
    timed = of_kind(torch.int64)
    early = hr.ItemSampler(edges()[:5], seed=1, time=torch.tensor([3, 3, 3, -1, 3]))
    with pytest.raises(hr.InputError, match="pair 3 of the items has no negative: it is earlier than all nodes"):
        early.sample_uniform_negative(timed, time="time").loader()
    with pytest.raises(hr.HeadraceError, match=r"seed_time|expected pairs with times"):
        pairs().sample_uniform_negative(timed, time="time").loader()
    with pytest.raises(hr.InputError, match=r"kind of the graph's, torch\.int64, got torch\.float64"):
        timed_pairs(torch.float64).sample_uniform_negative(timed, time="time").loader()
    with pytest.raises(hr.InputError, match="time to be the name"):
        timed_pairs().sample_uniform_negative(timed, time=3)
    with pytest.raises(hr.InputError, match="expected times under the name 'nope'"):
        timed_pairs().sample_uniform_negative(timed, time="nope")
    of_edges = dataclasses.replace(graph(), edge_attrs_csc={"time": torch.zeros(graph().num_edges)})
    with pytest.raises(hr.InputError, match="expected times of nodes under the name 'time', got times of edges alone"):
        timed_pairs().sample_uniform_negative(of_edges, time="time")


def test_reordered_graphs_have_the_same_law_and_reject_the_same():
    order = torch.randperm(NUM_NODES, generator=torch.Generator().manual_seed(5))
    other = hr.reorder(graph(), order=order).graph
    weights = (torch.arange(NUM_NODES) % 7 == 0).float()
    plan = pairs().sample_uniform_negative(other, 4, node_weight=weights, reject=True).exclude_seed_edges(reverse=True)
    for batch in plan.sample_neighbor(other, [-1]).loader():
        negative = batch.seeds[batch.num_positives :]
        assert (negative[:, 1] % 7 == 0).all()
        assert not edge_set() & set(map(tuple, negative.tolist()))
        positive = set(map(tuple, batch.seeds[: batch.num_positives].tolist()))
        found = batch.n_id[batch.blocks[0].edge_index].t().tolist()
        assert not {(u, v) for u, v in found} & (positive | {(v, u) for u, v in positive})


def complete(num_nodes):
    every = torch.arange(num_nodes)
    return hr.Graph.from_coo(every.repeat(num_nodes), every.repeat_interleave(num_nodes), num_nodes=num_nodes)


def test_a_source_with_edges_to_all_nodes_is_refused_before_work_starts():
    """And never looked for without end: also where the source of seeds does not say them beforehand."""
    plan = hr.ItemSampler(torch.tensor([[3, 2], [1, 4]]), seed=1)
    with pytest.raises(hr.InputError, match="node 1, a source of the items, has edges to all nodes that can be drawn"):
        plan.sample_uniform_negative(complete(5), reject=True).loader()

    class One:
        def reset(self, state=None):
            self.left = 1

        def __next__(self):
            if not self.left:
                raise StopIteration
            self.left = 0
            return torch.tensor([[3, 2], [1, 4]])

        def state_dict(self):
            return {}

    unknown = hr.ext.NodeSource(One(), seed=1).sample_uniform_negative(complete(5), reject=True)
    with pytest.raises(
        hr.InputError, match=r"sample_uniform_negative: pair 0 has no negative: node 3 has edges to all nodes"
    ):
        list(unknown.loader(prefetch=False))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ratio": 0}, "ratio to be a number above 0, got 0"),
        ({"ratio": -1.5}, "ratio to be a number above 0"),
        ({"ratio": float("nan")}, "ratio to be a number above 0"),
        ({"ratio": float("inf")}, "ratio to be a number above 0"),
        ({"ratio": True}, "ratio to be a number above 0"),
        ({"ratio": "1"}, "ratio to be a number above 0"),
        ({"mode": "pairs"}, "mode to be one of"),
        ({"corrupt": "source"}, "corrupt to be one of"),
        ({"mode": "triplet", "ratio": 1.5}, "expected a whole ratio"),
        ({"mode": "triplet", "corrupt": "both"}, "expected a whole ratio"),
        ({"reject": True, "corrupt": "both"}, "corrupt=.destination. for reject=True"),
        ({"node_weight": "out"}, 'node_weight to be "degree" or numbers'),
        ({"node_weight": torch.ones(3)}, "node_weight to have a number for each of 200 nodes"),
        ({"node_weight": -torch.ones(NUM_NODES)}, "node_weight to be finite and at least 0"),
        ({"node_weight": torch.full((NUM_NODES,), torch.nan)}, "node_weight to be finite and at least 0"),
    ],
    ids=str,
)
def test_bad_arguments(arguments, message):
    with pytest.raises(hr.InputError, match=message):
        pairs().sample_uniform_negative(graph(), **arguments)


def test_bad_places_and_seeds():
    with pytest.raises(hr.InputError, match=r"expected seeds that are pairs, int64\[num_pairs, 2\], got nodes"):
        hr.ItemSampler(5).sample_uniform_negative(graph()).loader()
    with pytest.raises(hr.InputError, match="got 3 nodes each"):
        hr.ItemSampler(torch.zeros(5, 3).long()).sample_uniform_negative(graph()).loader()
    with pytest.raises(hr.PlanError, match="ahead of the sampler"):
        pairs().sample_neighbor(graph(), [2]).sample_uniform_negative(graph()).loader()
    with pytest.raises(hr.PlanError, match="chain it once"):
        pairs().sample_uniform_negative(graph(), 1, "triplet").sample_uniform_negative(graph(), 1, "triplet").loader()
    with pytest.raises(hr.InputError, match="is not a node of the graph"):
        pairs().sample_uniform_negative(hr.Graph.from_coo([0], [1], num_nodes=3)).loader()
    with pytest.raises(hr.InputError, match="expected a node of positive weight"):
        pairs().sample_uniform_negative(graph(), node_weight=torch.zeros(NUM_NODES)).loader()
    shard = graph().shard(hr.Partition.hash(NUM_NODES, 2), 0)
    with pytest.raises(hr.PlanError, match="need a whole graph, got a shard"):
        pairs().sample_uniform_negative(shard, reject=True)


@pytest.mark.parametrize("mode", ["binary", "triplet"])
def test_labels_of_nodes_are_no_labels_of_pairs(mode):
    plan = pairs().sample_uniform_negative(graph(), 1, mode).sample_neighbor(graph(), [2])
    with pytest.raises(hr.PlanError, match="labels are rows of seed nodes"):
        plan.fetch_feature(store(), labels="y").loader()


@pytest.mark.parametrize("world_size", [1, 3])
def test_trees_of_negatives_have_the_times_of_their_pairs(world_size):
    """And ranks that share a batch draw the trees of one process."""
    source, destination = edges().unbind(1)
    timed = hr.Graph.from_coo(source, destination, num_nodes=NUM_NODES, edge_attrs={"time": torch.arange(len(source))})
    links = edges()[100:140]
    source = hr.ItemSampler(links, batch_size=20, time=torch.arange(100, 140) * 10, seed=3)
    plan = source.sample_uniform_negative(timed, 1.5).sample_neighbor(timed, [2, 2], time="time")

    def trees(loader):
        """Return for each batch the edges of the tree of each pair, by its ends."""
        found = []
        for batch in loader:
            assert batch.seed_time.shape == (len(batch.seeds),)
            of_batch = []
            for slot in range(len(batch.seeds)):
                edges_here = [
                    block.edge_ids[batch.slot[block.edge_index[1]] == slot].sort().values.tolist()
                    for block in batch.blocks
                ]
                assert all(edge <= int(batch.seed_time[slot]) for hop in edges_here for edge in hop)
                of_batch.append((batch.seeds[slot].tolist(), int(batch.seed_time[slot]), edges_here))
            found.append(of_batch)
        return found

    whole = trees(plan.loader(prefetch=False))
    for batch in whole:
        positive, negative = batch[:20], batch[20:]
        assert len(negative) == 30
        assert {time for _, time, _ in negative} == {time for _, time, _ in positive}
    shares = [trees(plan.loader(rank=rank, world_size=world_size, prefetch=False)) for rank in range(world_size)]
    for number, batch in enumerate(whole):
        assert sorted(one for share in shares for one in share[number]) == sorted(batch)


def test_sources_have_weights_of_their_own():
    only = {end: torch.zeros(NUM_NODES).index_fill_(0, torch.tensor([node]), 1) for end, node in (("s", 3), ("d", 5))}
    plan = pairs().sample_uniform_negative(graph(), 2, corrupt="both", node_weight=only["d"], source_weight=only["s"])
    for batch in plan.loader():
        assert (batch.seeds[batch.num_positives :] == torch.tensor([3, 5])).all()
    alike = pairs().sample_uniform_negative(graph(), 2, corrupt="both", node_weight="degree")
    named = pairs().sample_uniform_negative(graph(), 2, corrupt="both", node_weight="degree", source_weight="degree")
    assert [batch.digest() for batch in alike.loader()] == [batch.digest() for batch in named.loader()]
