"""What the training loop writes between a read and its batch is in the batch, or the write is refused."""

from __future__ import annotations

import dataclasses
import threading
import time
from functools import partial

import numpy as np
import pytest
import torch
from ranks import partition, run_ranks

import headrace as hr

from plans import NODE_TYPES, NUM_EDGES, NUM_NODES, RowsOnDisk, graph, typed_graph
from workers import worker_threads

ONE_CORE, TWO_CORES = (hr.Machine(cores=cores, memory=1 << 30) for cores in (1, 2))
BATCHES = 8


def sampled(items=None, **options):
    items = torch.arange(5 * BATCHES) if items is None else items
    return hr.ItemSampler(items, batch_size=5, shuffle=True, seed=3, **options).sample_neighbor(graph(), [3, 2])


class MadeAhead:
    """The last batch that was made, in any thread: noted behind all stages that run ahead of the training loop."""

    def __init__(self):
        self.index = -1

    def __call__(self, batch):
        self.index = max(self.index, batch.index)
        return batch

    def noted_in(self, plan):
        """The plan with a stage that notes its batches before the first prefetch, or at the end."""
        stages = list(plan.stages)
        end = next((number for number, stage in enumerate(stages) if stage.name == "prefetch"), len(stages))
        note = hr.Plan(stages[:end]).transform(self).stages[-1]
        return hr.Plan([*stages[:end], note, *stages[end:]])

    def wait_for(self, index):
        """Let threads come as far as a batch, so that it was read before the loop writes."""
        deadline = time.monotonic() + 30
        while self.index < index and worker_threads():
            assert time.monotonic() < deadline
            time.sleep(1e-4)


def numbers(plan, write, field, *, machine=TWO_CORES, **switches):
    """Return the batches of which not all numbers are those written last, when number i is written behind batch i."""
    stale, made_ahead = [], MadeAhead()
    write(0)
    with made_ahead.noted_in(plan).loader(machine=machine, **switches) as loader:
        for number, batch in enumerate(loader):
            assert batch.index == number
            if not all((rows == number).all() for rows in field(batch)):
                stale.append(number)
            made_ahead.wait_for(min(number + 1, BATCHES - 1))
            write(number + 1)
        numbers.stats = loader.stats()
    assert number == BATCHES - 1
    return stale


def x_of(batch):
    return [batch.node["x"]]


def table():
    return torch.zeros(NUM_NODES, 3)


def tables(x):
    edges = torch.zeros(NUM_EDGES)
    return hr.FeatureStore(node={"x": x, "y": torch.zeros(NUM_NODES)}, edge={"e": edges})


def in_inference_mode(x, number):
    with torch.inference_mode():
        x.fill_(number)


def by_an_optimizer(x, number):
    x.requires_grad_()
    x.grad = x.detach() - number
    torch.optim.SGD([x], lr=1.0).step()
    x.requires_grad_(False)


WRITES = {
    "whole": lambda x, number: x.fill_(number),
    "rows": lambda x, number: x.index_copy_(0, torch.arange(NUM_NODES), torch.full((NUM_NODES, 3), float(number))),
    "view": lambda x, number: x.t()[:].fill_(number),
    "detached": lambda x, number: x.detach().fill_(number),
    "without grad": torch.no_grad()(lambda x, number: x.copy_(torch.full_like(x, number))),
    "inference": in_inference_mode,
    "optimizer": by_an_optimizer,
}

AHEAD = {
    "two workers": lambda plan: plan.prefetch(workers=2, depth=4),
    "behind more work": lambda plan: plan.transform(lambda batch: batch.replace(node=dict(batch.node))).prefetch(),
    "two in a row": lambda plan: plan.prefetch().prefetch(depth=3),
    "transformed in the loop": lambda plan: plan.prefetch().transform(lambda batch: batch),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writes_that_torch_counts_are_seen(write):
    x = table()
    plan = sampled().fetch_feature(tables(x), node=["x"]).prefetch(depth=3)
    assert numbers(plan, lambda number: write(x, number), x_of) == []
    assert 0 < numbers.stats["fetch_feature"]["read_again"] <= BATCHES - 1
    assert numbers.stats["fetch_feature"]["batches"] == BATCHES


@pytest.mark.parametrize("ahead", AHEAD.values(), ids=AHEAD)
def test_wherever_batches_are_made_ahead(ahead):
    x = table()
    assert numbers(ahead(sampled().fetch_feature(tables(x), node=["x"])), x.fill_, x_of) == []


def test_ahead_by_the_loader_itself():
    """It begins where batches take long."""
    x, threads = table(), set()

    def slow(batch):
        time.sleep(0.01)
        threads.add(threading.current_thread())
        return batch.replace(node=dict(batch.node))

    assert numbers(sampled().fetch_feature(tables(x), node=["x"]).transform(slow), x.fill_, x_of) == []
    assert len(threads) == 2


def test_update_of_a_store():
    x = table()
    store = tables(x)

    def update(number):
        store.node["x"].update(torch.arange(NUM_NODES), torch.full_like(x, number))

    assert numbers(sampled().fetch_feature(store, node=["x"]).prefetch(depth=3), update, x_of) == []


def test_labels_and_features_of_edges():
    store = tables(table())
    plan = sampled().fetch_feature(store, edge=["e"], labels="y").prefetch(depth=3)
    y, e = store.node["y"].tensor, store.edge["e"].tensor
    assert numbers(plan, y.fill_, lambda batch: [batch.y]) == []
    assert numbers(plan, e.fill_, lambda batch: batch.edge["e"]) == []


def test_features_of_types():
    x = torch.zeros(NODE_TYPES["b"])
    store = hr.FeatureStore(node={"b": {"x": x}})
    source = hr.ItemSampler({"a": torch.arange(5 * BATCHES)}, batch_size=5, seed=3)
    plan = source.sample_neighbor(typed_graph(), [3, 2]).fetch_feature(store, node={"b": ["x"]}).prefetch()
    assert numbers(plan, x.fill_, lambda batch: [batch.node["b", "x"]]) == []


@pytest.mark.parametrize("machine", [ONE_CORE, TWO_CORES], ids=["one core", "two cores"])
@pytest.mark.parametrize("policy", ["sieve", "look-ahead"])
def test_caches(policy, machine):
    x = table()
    plan = sampled().fetch_feature(tables(hr.CachedFeature(x, policy, rows=50)), node=["x"])
    ahead = plan if machine is ONE_CORE else plan.prefetch(depth=3)
    assert numbers(ahead, x.fill_, x_of, machine=machine) == []


@pytest.mark.parametrize("machine", [ONE_CORE, TWO_CORES], ids=["one core", "two cores"])
def test_rows_that_several_batches_share(machine):
    x = table()
    store = tables(RowsOnDisk(x))
    plan = sampled().fetch_feature(store, node=["x"])
    ahead = plan if machine is ONE_CORE else plan.prefetch()
    assert numbers(ahead, x.fill_, x_of, machine=machine) == []


@pytest.mark.parametrize("own", [False, True])
def test_labels_and_times_of_items(own):
    ids, labels, times = torch.arange(5 * BATCHES), torch.zeros(5 * BATCHES), torch.zeros(5 * BATCHES).double()
    source = hr.ItemSampler((ids, labels), batch_size=5, seed=3, items_per_rank=own, time=times)

    def field_of(batch, name):
        assert batch.seeds.tolist() == list(range(5 * batch.index, 5 * batch.index + 5))
        return [getattr(batch, name)]

    for written_to, name in (labels, "y"), (times, "seed_time"):
        assert numbers(source.prefetch(depth=3), written_to.fill_, partial(field_of, name=name)) == []
        assert numbers.stats["item_sampler"]["read_again"] > 0
    labels.zero_()
    sampled_too = source.sample_neighbor(graph(), [3]).fetch_feature(tables(table()), node=["x"]).prefetch(depth=3)
    assert numbers(sampled_too, labels.fill_, lambda batch: [batch.y]) == []


def test_ids_of_items():
    ids = torch.zeros(5 * BATCHES, dtype=torch.int64)
    assert numbers(sampled(ids).prefetch(), ids.fill_, lambda batch: [batch.seeds, batch.n_id[:1]]) == []


def test_the_same_batches_as_without_prefetch():
    """What is drawn is that of the batch, however often it is made."""

    def digests(**switches):
        x = torch.arange(3.0 * NUM_NODES).reshape(NUM_NODES, 3)
        batches, made_ahead = [], MadeAhead()
        plan = sampled().fetch_feature(tables(x), node=["x"])
        plan = made_ahead.noted_in(plan if switches else plan.prefetch(depth=3))
        with plan.loader(machine=TWO_CORES, **switches) as loader:
            for batch in loader:
                batches.append((batch.digest(), batch.index, loader.state_dict()["source"]))
                made_ahead.wait_for(min(batch.index + 1, BATCHES - 1))
                x[batch.seeds] += 1
        return batches

    assert digests() == digests(prefetch=False)


def test_writes_between_epochs_and_elsewhere_cost_nothing():
    x, other = table(), table()
    with sampled().fetch_feature(tables(x), node=["x"]).prefetch(depth=3).loader(machine=TWO_CORES) as loader:
        for epoch in range(3):
            x.fill_(epoch)
            for batch in loader:
                assert (batch.x == epoch).all()
                other.fill_(1)
        assert "read_again" not in loader.stats()["fetch_feature"]


def test_what_torch_does_not_count_is_as_it_was_read():
    """As `FeatureStore` says: NumPy, ``tensor.data``, and tensors that were made in inference mode."""
    x = table()
    with torch.inference_mode():
        made_there = torch.zeros(NUM_NODES, 3)
    for rows, write in (x, x.numpy().fill), (x, x.data.fill_), (made_there.numpy(), made_there.numpy().fill):
        plan = sampled().fetch_feature(tables(rows), node=["x"]).prefetch()
        assert numbers(plan, write, x_of) != []


def test_sources_of_users_that_count():
    class Counting:
        def __init__(self):
            self.rows, self.version = np.zeros((NUM_NODES, 3), np.float32), 0
            self.num_rows, self.row_bytes, self.dtype, self.shape = NUM_NODES, 12, torch.float32, (NUM_NODES, 3)

        def write(self, number):
            self.rows[:] = number
            self.version += 1

        def read(self, ids, *, num_threads=1, to=None):
            return hr.Rows(torch.from_numpy(self.rows[ids.numpy()]))

        def content_digest(self):
            return "rows"

    source = Counting()
    assert numbers(sampled().fetch_feature(tables(source), node=["x"]).prefetch(), source.write, x_of) == []


def test_a_transform_that_changes_what_it_is_given_is_refused():
    x, h = torch.ones(NUM_NODES, 3), table()
    store = hr.FeatureStore(node={"x": x, "h": h})

    def halve(batch):
        batch.node["x"].mul_(0.5)
        return batch

    plan = (
        sampled().fetch_feature(store, node=["x"]).fetch_feature(store, node=["h"]).transform(halve).prefetch(depth=3)
    )
    with pytest.raises(
        hr.HeadraceError, match=r"node feature 'h' to stay.*changed tensors.*\.prefetch\(\) before fetch"
    ):
        numbers(plan, h.fill_, lambda batch: [batch.node["h"]])
    assert numbers(plan, x.fill_, lambda batch: [2 * batch.node["x"]]) == []  # it is read anew itself


def test_weights_that_are_sampled_by_are_refused_at_once():
    """Also behind the last batch that was sampled ahead."""
    weighted = dataclasses.replace(graph(), edge_attrs_csc={"w": torch.ones(NUM_EDGES)})
    plan = hr.ItemSampler(10, batch_size=5, seed=1).sample_neighbor(weighted, [3, 2], weight="w").prefetch(depth=3)
    made_ahead = MadeAhead()
    with made_ahead.noted_in(plan).loader(machine=TWO_CORES) as loader:
        batches = iter(loader)
        next(batches)
        made_ahead.wait_for(1)
        weighted.edge_attrs_csc["w"].fill_(2)
        with pytest.raises(hr.InputError, match=r"'w' to stay as it was.*make a new graph"):
            next(batches)


@pytest.mark.parametrize("place", ["whole", "shards"])
def test_ranks_that_read_together_refuse(place):
    def work(comm):
        rows, owners = table(), partition("hash", 2)
        rows = rows[owners.owned(comm.rank)] if place == "shards" else rows
        of_rank = hr.ShardedFeature(rows, owners, comm.rank) if place == "shards" else rows
        plan = sampled().fetch_feature(hr.FeatureStore(node={"x": of_rank}), node=["x"])
        made_ahead = MadeAhead()
        switches = {"partition": partition("hash", 2), "cooperative": True}
        with made_ahead.noted_in(plan).loader(comm=comm, machine=TWO_CORES, **switches) as loader:
            batches = iter(loader)
            next(batches)
            made_ahead.wait_for(1)
            rows.fill_(1)
            with pytest.raises(
                (hr.HeadraceError, hr.PeerError), match=r"node feature 'x' to stay.*\.prefetch\(\) before"
            ):
                next(batches)
        rows.zero_()
        before = sampled().prefetch().fetch_feature(hr.FeatureStore(node={"x": of_rank}), node=["x"])
        with before.loader(comm=comm, machine=TWO_CORES, **switches) as loader:
            seen = []
            for number, batch in enumerate(loader):
                seen.append(bool((batch.x == number).all()))
                rows.fill_(number + 1)
        return seen

    assert all(map(all, run_ranks(2, work)))


def test_many_batches_that_are_made_twice_are_told_once():
    x, made_ahead = table(), MadeAhead()
    plan = made_ahead.noted_in(sampled(torch.arange(200)).fetch_feature(tables(x), node=["x"]).prefetch(depth=3))

    def train():
        with plan.loader(machine=TWO_CORES) as loader:
            for number, batch in enumerate(loader):
                assert (batch.x == number).all()
                made_ahead.wait_for(min(number + 1, len(loader) - 1))
                x.fill_(number + 1)

    message = r"fetch_feature: \d+ batches.*node feature 'x'; put \.prefetch\(\) before"
    with pytest.warns(UserWarning, match=message) as told:
        train()
    assert len(told) == 1


def test_copies_in_tiers_and_at_other_ranks_are_refused():
    x = table()
    store = hr.FeatureStore(node={"x": RowsOnDisk(x)})
    plan = hr.plan_tiers(store, graph(), hr.Machine(memory=x.nbytes), torch.arange(NUM_NODES))
    assert 0 < plan.sizes.host < NUM_NODES
    tiers = plan.apply(store).node["x"]
    x.fill_(1)  # nothing was copied yet
    assert (tiers.read(torch.arange(9)).rows == 1).all()
    x.fill_(2)
    with pytest.raises(hr.InputError, match=r"TieredFeature.*written since; make the TieredFeature anew"):
        tiers.read(torch.arange(9))
    owners = partition("hash", 2)
    rows, others = x[owners.owned(0)], owners.owned(1)[:30]
    shard = hr.ShardedFeature(rows, owners, 0, cached=others, cached_rows=x[others])
    assert (shard.read(owners.owned(0)).rows == 2).all()
    rows.fill_(3)
    with pytest.raises(hr.InputError, match=r"copies.*written since.*without cached="):
        shard.read(owners.owned(0))
