"""Whatever a table was made of: a later write is refused, however it was made, before another epoch has both."""

from __future__ import annotations

import pickle

import pytest
import torch
from ranks import run_ranks

import headrace as hr

NUM_NODES, NUM_EDGES = 40, 200
MACHINES = {cores: hr.Machine(cores=cores, memory=1 << 30) for cores in (1, 2)}


def numbers(dtype=torch.int64, count=NUM_EDGES):
    return torch.arange(1, count + 1).to(dtype)


def graph(*, indices=None, **attributes):
    """Five edges into each node; attributes are by edge, or by node where they have so many rows."""
    indptr = torch.arange(0, NUM_EDGES + 1, 5)
    indices = (torch.arange(NUM_EDGES) * 7 % NUM_NODES).int() if indices is None else indices
    of_nodes = {name: rows for name, rows in attributes.items() if len(rows) == NUM_NODES}
    of_edges = {name: rows for name, rows in attributes.items() if len(rows) == NUM_EDGES}
    return hr.Graph.from_csc(indptr, indices, edge_attrs=of_edges, node_attrs=of_nodes)


PAIRS = torch.stack([torch.arange(NUM_EDGES) * 7 % NUM_NODES, torch.arange(NUM_EDGES) // 5], 1)


def seeds(**options):
    return hr.ItemSampler(NUM_NODES, batch_size=8, seed=1, **options)


def pairs(**options):
    return hr.ItemSampler(PAIRS[:40], batch_size=8, seed=1, **options)


def at_the_end(count=NUM_NODES, dtype=torch.int64):
    return torch.full((count,), 1000, dtype=dtype)


def by_time(dtype, count):
    def made(times):
        kind = torch.float64 if dtype.is_floating_point else torch.int64
        return seeds(time=at_the_end(dtype=kind)).sample_neighbor(graph(t=times), [2, 2], time="t")

    return numbers(dtype, count), made


def by_weight(verb, dtype, *arguments, **options):
    return numbers(dtype), lambda weights: getattr(seeds(), verb)(graph(w=weights), *arguments, weight="w", **options)


def negatives(dtype, name, **options):
    made = {"corrupt": "both"} if name == "source_weight" else {}
    return (
        numbers(dtype, NUM_NODES),
        lambda one: (
            pairs().sample_uniform_negative(graph(), 2, **{name: one}, **made, **options).sample_neighbor(graph(), [2])
        ),
    )


CASES = {
    "times of edges": by_time(torch.int64, NUM_EDGES),
    "times of edges, converted": by_time(torch.int32, NUM_EDGES),
    "times of edges, real": by_time(torch.float64, NUM_EDGES),
    "times of edges, halves": by_time(torch.float16, NUM_EDGES),
    "times of nodes": by_time(torch.int64, NUM_NODES),
    "times of negatives": (
        numbers(count=NUM_NODES),
        lambda times: pairs(time=at_the_end(40)).sample_uniform_negative(graph(t=times), 2, time="t"),
    ),
    "times of negatives by degree": (
        numbers(),
        lambda times: pairs(time=at_the_end(40)).sample_uniform_negative(
            graph(t=times), 2, time="t", node_weight="degree"
        ),
    ),
    "weights": by_weight("sample_neighbor", torch.float32, [2, 2]),
    "weights, converted": by_weight("sample_layer_neighbor", torch.int64, [2, 2]),
    "weights of layers": by_weight("sample_ladies", torch.float64, [9]),
    "weights of walks": by_weight("sample_pinsage", torch.float32, 2, num_walks=3, walk_length=2),
    "node_weight": negatives(torch.float64, "node_weight"),
    "node_weight, converted": negatives(torch.float32, "node_weight", mode="triplet"),
    "source_weight": negatives(torch.float64, "source_weight"),
    "costs": (
        numbers(count=NUM_NODES),
        lambda cost: hr.ItemSampler(NUM_NODES, cost=cost, budget=100, seed=1, shuffle=True).sample_neighbor(
            graph(), [2]
        ),
    ),
    "ids of seed edges": (
        torch.arange(40),
        lambda ids: pairs(edge_ids=ids).exclude_seed_edges(by="edge_id").sample_neighbor(graph(), [-1]),
    ),
    "ids of reverses": (
        torch.full((NUM_EDGES,), -1),
        lambda ids: (
            pairs(edge_ids=torch.arange(40))
            .exclude_seed_edges(by="edge_id", reverse=ids)
            .sample_neighbor(graph(), [-1])
        ),
    ),
    "structure": (
        (torch.arange(NUM_EDGES) * 7 % NUM_NODES).int(),
        lambda indices: seeds().sample_layer_neighbor(graph(indices=indices), [2, 2]),
    ),
}

#: What each batch is looked at for, as its stages sample by it.
NOT_EACH_BATCH = ("costs", "ids of seed edges", "ids of reverses", "structure")


@torch.no_grad()
def copy_into(array):
    array.copy_(array.flip(0) if len(array.unique()) > 1 else array + 1)


WRITES = {
    "NumPy": lambda array: array.numpy().__setitem__(-1, array.numpy()[0] + 3),
    ".data": lambda array: array.data.__setitem__(-1, array[0] + 3),
    "copy_": copy_into,
    "one value": lambda array: array.__setitem__(7, array[7] + 1),
}
COUNTED = ("copy_", "one value")
refused = pytest.raises(hr.InputError, match=r"expected .* to stay as .*got other values.*; make a new")


@pytest.fixture(params=CASES)
def case(request):
    array, made = CASES[request.param]
    own = array.clone()
    return request.param, own, made(own)


@pytest.mark.slow
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("cores", MACHINES)
def test_writes_between_making_a_loader_and_an_epoch(case, write, cores):
    _, array, plan = case
    with plan.loader(machine=MACHINES[cores]) as loader:
        assert len(list(loader)) > 1
        assert len(list(loader)) > 1
        write(array)
        for _ in range(2):
            with refused:
                next(iter(loader))
    with pytest.raises(hr.InputError):  # ids of edges are looked at first, and may be wrong by now
        plan.loader()


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writes_between_making_a_plan_and_a_loader(case, write):
    name, array, plan = case
    write(array)
    if name == "structure":  # nothing was made of it yet
        return
    with pytest.raises(hr.InputError):
        plan.loader()


@pytest.mark.slow
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("cores", MACHINES)
def test_writes_in_the_middle_of_an_epoch(case, write, cores):
    """What torch counts is refused at the next batch where it is sampled by, all else at the end at the latest."""
    name, array, plan = case
    with plan.loader(machine=MACHINES[cores]) as loader:
        batches = iter(loader)
        next(batches)
        WRITES[write](array)
        if write in COUNTED and name not in NOT_EACH_BATCH:
            with refused:
                next(batches)
        elif write in COUNTED and name != "structure":
            list(batches)
            with refused:
                next(iter(loader))
        else:
            with refused:
                list(batches)


def test_a_write_behind_the_last_batch_that_torch_counts_is_refused_by_the_next_epoch():
    """Its batches have the old values: a loop may write there to make a new graph."""
    weights = torch.ones(NUM_EDGES)
    with seeds().sample_neighbor(graph(w=weights), [2], weight="w").loader() as loader:
        for number, _ in enumerate(loader, 1):
            if number == len(loader):
                weights.mul_(2)
        with refused:
            next(iter(loader))


def test_the_future_stays_hidden():
    """An edge is written into the past of rows that are sorted already, which share the memory of the user."""
    times = torch.arange(NUM_EDGES)
    plan = seeds(time=torch.arange(NUM_NODES)).sample_neighbor(graph(t=times), [5], time="t")
    with plan.loader() as loader:
        list(loader)
        times.numpy()[:] = times.numpy()[::-1].copy()
        with pytest.raises(hr.InputError, match=r"expected times 't' to stay as they were"):
            list(loader)
    assert list(seeds(time=torch.arange(NUM_NODES)).sample_neighbor(graph(t=times), [5], time="t").loader())


def test_weights_may_be_mended_after_a_refusal():
    weights = torch.full((NUM_EDGES,), -1.0)
    one = graph(w=weights, t=torch.full((NUM_EDGES,), torch.nan))
    with pytest.raises(hr.InputError, match="finite weights"):
        seeds().sample_neighbor(one, [2], weight="w")
    with pytest.raises(hr.InputError, match="NaN"):
        seeds().sample_neighbor(one, [2], time="t")
    weights.abs_()
    one.edge_attrs_csc["t"].nan_to_num_()
    assert list(seeds(time=at_the_end(dtype=torch.float64)).sample_neighbor(one, [2], weight="w", time="t").loader())


def test_a_graph_that_moves_to_shared_memory_is_watched_there():
    one = graph(t=torch.arange(NUM_EDGES), w=torch.ones(NUM_EDGES))
    plan = seeds(time=at_the_end()).sample_neighbor(one, [2], time="t", weight="w")
    with plan.loader() as loader:
        list(loader)
        one.share_memory()
        list(loader)
        one.edge_attrs_csc["t"].numpy()[3] = 7
        with refused:
            list(loader)


def test_a_write_before_a_graph_moves_is_refused():
    times = torch.arange(NUM_EDGES)
    one = graph(t=times)
    next(iter(seeds(time=at_the_end()).sample_neighbor(one, [2], time="t").loader()))
    times.numpy()[3] = 7
    with refused:
        one.share_memory()


def test_pickled_plans_are_watched_anew():
    weights = torch.ones(NUM_NODES, dtype=torch.float64)
    plan = pairs().sample_uniform_negative(graph(), 2, node_weight=weights)
    weights.add_(1)
    with refused:
        plan.loader()
    assert list(pickle.loads(pickle.dumps(plan)).loader())  # noqa: S301 - made one line up


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_functions_of_weights_refuse_them_too(dtype):
    weights = numbers(dtype)
    one = graph(w=weights)
    plan = seeds().sample_neighbor(one, [2], weight="w")
    assert len(hr.gcn_norm(one, "w")) == NUM_EDGES
    assert len(hr.scores.inclusion(plan)) == NUM_NODES
    weights.numpy()[3] = 9
    for call in (lambda: hr.gcn_norm(one, "w"), lambda: hr.scores.inclusion(plan)):
        with refused:
            call()


def test_other_ranks_are_told():
    def work(comm):
        times = torch.arange(NUM_EDGES)
        plan = seeds(time=at_the_end()).sample_neighbor(graph(t=times), [2], time="t")
        with plan.loader(comm=comm, cooperative=True) as loader:
            list(loader)
            if comm.rank == 0:
                times.numpy()[3] = 7
            with pytest.raises((hr.InputError, hr.PeerError), match="times 't' to stay as they were"):
                list(loader)

    run_ranks(2, work)
