"""Ranks that make batches together on GPUs of their own: ids and rows stay there, and the batches are those of CPUs."""

from __future__ import annotations

import warnings
from functools import cache

import pytest
import torch
from ranks import assert_same_union, cooperative_batches, partition, run_ranks
from training import NUM_CLASSES, WIDTH, assert_equal_training
from training import store as rows_for_training

import headrace as hr
from headrace.cuda.backend import stand_in
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.local_comm import LocalComm

from cuda_host.stand_in import StandIn
from gpu_plans import copied_first
from plans import NUM_NODES, PLANS, graph, items, store, typed_graph


class Network(torch.nn.Module):
    """Two layers that take blocks, and dropout and a norm over the rows of all ranks between them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([hr.nn.SAGEConv(WIDTH, WIDTH), hr.nn.SAGEConv(WIDTH, NUM_CLASSES)])
        self.norm, self.dropout = torch.nn.BatchNorm1d(WIDTH), torch.nn.Dropout(0.3)

    def forward(self, x: torch.Tensor, blocks: tuple[hr.Block, ...]) -> torch.Tensor:
        first, last = self.layers
        return last(self.dropout(self.norm(first(x, blocks[0]))), blocks[1])


#: Plans of every kind of hop whose ranks exchange on GPUs what they find, by the number of ranks.
ON_GPUS = {
    2: ["neighbor", "labor", "typed", "temporal", "link_triplets", "weighted_replace", "hyper_edges", "budget"],
    3: [
        "full",
        "labor_poisson",
        "typed_labor",
        "typed_temporal",
        "link_excluding_edge_ids_of_all",
        "typed_in_subgraph",
    ],
    4: [
        "neighbor_replace",
        "weighted_labor",
        "typed_weighted",
        "disjoint",
        "temporal_labor",
        "link_negatives",
        "pairs",
    ],
}
#: Those of which ranks look at the whole frontier, or at subgraphs, in CPU memory.
ON_CPUS = ["labor_star", "ladies", "typed_labor_1", "shadow", "neighbor_induced", "pinsage", "link_excluding_per_seed"]
CASES = [(world_size, name) for world_size, names in ON_GPUS.items() for name in names]


@pytest.fixture
def gpus():
    """Let the CPU stand in for GPUs; memory that nobody has written holds no number."""
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    backend = StandIn()
    with stand_in(backend):
        yield backend
    torch.use_deterministic_algorithms(False)


def batches_on_gpus(plan: hr.Plan, world_size: int, **options: object) -> list[list[hr.MiniBatch]]:
    """All batches of an epoch on every rank, each with a GPU of its own."""

    def work(comm: Comm) -> list[hr.MiniBatch]:
        machine = hr.Machine(cores=2, gpus=world_size, current_gpu=comm.rank)
        with copied_first(plan).loader(cooperative=True, comm=comm, machine=machine, **options) as loader:
            return list(loader)

    return run_ranks(world_size, work)


@cache
def on_cpus(name: str, world_size: int) -> list[list[str]]:
    """Digests of what ranks make together in CPU memory."""
    shares = cooperative_batches(PLANS[name](), world_size, machine=hr.Machine(cores=2))
    return [[batch.digest() for batch in batches] for batches in shares]


@pytest.mark.slow
@pytest.mark.combinations(8)
@pytest.mark.parametrize(("world_size", "name"), [*CASES, *((2, name) for name in ON_CPUS)])
def test_batches_are_those_of_cpus(world_size, name, request):
    expected = on_cpus(name, world_size)
    backend = request.getfixturevalue("gpus")
    shares = batches_on_gpus(PLANS[name](), world_size)
    assert [[batch.digest() for batch in batches] for batches in shares] == expected
    assert any("check_rows" in launched for launched in backend.launches)  # ids in the order of their owners


@pytest.mark.slow
@pytest.mark.parametrize(("world_size", "name"), [(2, "neighbor"), (3, "typed"), (4, "labor"), (3, "link_triplets")])
def test_the_union_is_the_batch_of_one_process(world_size, name, request):
    whole = list(PLANS[name]().loader(fuse_sampling=False))
    owners = partition("table", world_size)
    request.getfixturevalue("gpus")
    shares = batches_on_gpus(PLANS[name](), world_size, partition=owners)
    for index, batch in enumerate(whole):
        assert_same_union(batch, [batches[index] for batches in shares], owners)


@pytest.mark.parametrize("name", ["link_negatives", "temporal"])
def test_shares_of_their_own_are_sampled_on_the_gpu_of_each_rank(name, request):
    """Under plain DistributedDataParallel: nothing is exchanged, and the batches are those of CPUs."""

    def work(comm: Comm, num_gpus: int) -> tuple[list[str], str]:
        machine = hr.Machine(cores=2, gpus=num_gpus, current_gpu=comm.rank if num_gpus else 0)
        plan = copied_first(PLANS[name]()) if num_gpus else PLANS[name]()
        with plan.loader(cooperative=False, comm=comm, machine=machine) as loader:
            return [batch.digest() for batch in loader], loader.explain()

    expected = run_ranks(3, lambda comm: work(comm, 0))
    request.getfixturevalue("gpus")
    found = run_ranks(3, lambda comm: work(comm, 3))
    assert [digests for digests, _ in found] == [digests for digests, _ in expected]
    for rank, (_, text) in enumerate(found):
        assert f"item_sampler{text.split('item_sampler', 1)[1]}".split("\n")[1:3] == [
            f"  on_stream(cuda:{rank})",
            f"  copy_to('cuda:{rank}')",
        ]


AHEAD = ["neighbor", "typed", "temporal", "link_triplets", "labor_poisson"]


@pytest.mark.slow
@pytest.mark.combinations(2)
@pytest.mark.parametrize("name", AHEAD)
def test_a_prefetch_of_the_user_lets_ranks_exchange_on_streams_of_their_own(name, request):
    """In a thread and on a channel of its own; what a stream was given is there when the batch is due."""
    expected = on_cpus(name, 3)
    request.getfixturevalue("gpus")

    def work(comm: Comm) -> tuple[list[str], str]:
        machine = hr.Machine(cores=2, gpus=3, current_gpu=comm.rank)
        plan = copied_first(PLANS[name]()).prefetch()
        with plan.loader(cooperative=True, comm=comm, machine=machine) as loader:
            return [batch.digest() for batch in loader], loader.explain()

    found = run_ranks(3, work)
    assert [digests for digests, _ in found] == expected
    for rank, (_, text) in enumerate(found):
        runs = " ".join(text.split("plan as written")[0].split())
        stream = runs[runs.index(f"on_stream(cuda:{rank}) copy_to('cuda:{rank}')") : runs.index("wait_stream")]
        assert stream.count("exchange_ids(") == 3


def features(source: hr.FeatureSource | torch.Tensor) -> hr.Plan:
    store = hr.FeatureStore(node={"x": source})
    return items().sample_neighbor(graph(), [5, 3]).fetch_feature(store, node=["x"])


X = store().node["x"].read(torch.arange(NUM_NODES)).rows


@pytest.mark.slow
@pytest.mark.parametrize("prefetch", [False, True], ids=["due", "ahead"])
def test_counts_are_those_of_cpus_and_bytes_are_those_of_their_places(prefetch, request):
    """Each row comes from pinned memory once, at its owner."""

    def counted(comm: Comm, plan: hr.Plan, **facts: int) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
        plan = plan.prefetch() if prefetch else plan
        with plan.loader(cooperative=True, comm=comm, machine=hr.Machine(cores=2, **facts)) as loader:
            for _ in loader:
                pass
            stats = loader.stats()
        names = ("nodes", "edges", "rows", "bytes", "rounds", "collectives", "sent_bytes", "bytes_from_rank")
        return {name: stats.total(name) for name in names}, stats

    on_cpu = run_ranks(3, lambda comm: counted(comm, features(X)))
    request.getfixturevalue("gpus")
    on_gpu = run_ranks(3, lambda comm: counted(comm, copied_first(features(X)), gpus=3, current_gpu=comm.rank))
    for (expected, _), (found, stats) in zip(on_cpu, on_gpu, strict=True):
        copied = stats["copy_to"]["bytes"]
        assert found == {**expected, "bytes": expected["bytes"] + copied}
        assert stats.total("bytes_from_pinned") == found["rows"] * X[0].nbytes
        assert stats.total("bytes_from_cpu") == 0
        assert "rounds" not in stats["copy_to"]
    assert sum(found["rows"] for found, _ in on_gpu) == sum(len(batch.n_id) for batch in features(X).loader())


def test_owners_keep_hot_rows_in_caches_on_their_gpus(request):
    """Each on the GPU that it names, by which the plans of ranks do not differ."""
    request.getfixturevalue("gpus")

    def work(comm: Comm) -> tuple[list[hr.MiniBatch], dict[str, int]]:
        cached = hr.CachedFeature(X, rows=40, place=f"cuda:{comm.rank}")
        machine = hr.Machine(cores=2, gpus=2, current_gpu=comm.rank, gpu_memory=(1 << 20,) * 2)
        with copied_first(features(cached)).loader(cooperative=True, comm=comm, machine=machine) as loader:
            batches = list(loader)
            return batches, {name: loader.stats().total(name) for name in ("hits", "misses", "rows")}

    for batches, counts in run_ranks(2, work):
        assert all(torch.equal(batch.x, X[batch.n_id]) for batch in batches)
        assert counts["hits"] > 0
        assert counts["hits"] + counts["misses"] == counts["rows"]


def test_a_cache_of_the_machine_is_made_for_owned_rows(request, monkeypatch):
    monkeypatch.setattr("headrace.pipeline.passes.feature_cache.LEAST_BYTES", 1)
    request.getfixturevalue("gpus")

    def work(comm: Comm) -> tuple[bool, str]:
        machine = hr.Machine(cores=2, gpus=2, current_gpu=comm.rank, gpu_memory=(100_000,) * 2)
        with copied_first(features(X)).loader(cooperative=True, comm=comm, machine=machine) as loader:
            return all(torch.equal(batch.x, X[batch.n_id]) for batch in loader), loader.explain()

    for equal, text in run_ranks(2, work):
        assert equal
        assert "CachedFeature(" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["neighbor", "typed"])
def test_training_equals_one_process(name, gpus):
    """Rows of the model go from GPU to GPU, and gradients come back."""
    torch.manual_seed(0)
    model = Network().double()
    plans = {
        "neighbor": lambda: items(batch_size=40).sample_neighbor(graph(), [4, 3]),
        "typed": lambda: items(batch_size=40).sample_neighbor(typed_graph().untyped(), [4, 3]),
    }
    plan = plans[name]().fetch_feature(rows_for_training(torch.float64), node=["x"], labels="y")
    machine = hr.Machine(cores=2, gpus=4, gpu_channel=True)
    assert_equal_training(copied_first(plan), model, 3, 1e-10, machine=machine)
    launched = {kernel.split("::")[1].partition("<")[0] for kernel in gpus.launches}
    assert {"hash_owners", "gather_short_rows", "scatter_add_rows"} <= launched


def test_a_channel_that_reaches_no_gpu_is_a_plan_through_the_cpu_and_one_warning(request, monkeypatch):
    """As that of gloo. Each row is fetched once nevertheless, and the copy is last."""
    expected = on_cpus("neighbor", 2)
    request.getfixturevalue("gpus")
    monkeypatch.setattr(LocalComm, "reaches_gpus", False)

    def work(comm: Comm) -> tuple[list[str], str]:
        machine = hr.Machine(cores=2, gpus=2, current_gpu=comm.rank)
        with copied_first(PLANS["neighbor"]()).loader(cooperative=True, comm=comm, machine=machine) as loader:
            return [batch.digest() for batch in loader], loader.explain()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = run_ranks(2, work)
    for (digests, text), other in zip(found, expected, strict=True):
        assert digests == other
        words = " ".join(text.split())
        assert "ranks exchange ids and rows of batches and rows of the model through CPU memory" in words
        assert "ids are exchanged on the CPU: copy_to behind the hop x 2" in words
        runs = text.split("plan as written")[0]
        assert runs.index("fetch_and_exchange") < runs.index("copy_to")
    warned = [str(one.message) for one in caught]
    assert len(warned) == 2  # one a rank
    assert all("through CPU memory" in one and 'init_process_group("nccl")' in one for one in warned)
