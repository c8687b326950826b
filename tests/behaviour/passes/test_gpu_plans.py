"""Plans for machines with GPUs: what runs where, as text, for machines that nobody here owns."""

from __future__ import annotations

import pytest
from described_plans import copied_first
from described_plans import names_on_gpu as names
from explained import names_of, stages

import headrace as hr

from plans import PLANS, graph, items, store, store_on_disk, unchanged


def trained(device="cuda"):
    return items().sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"], labels="y").copy_to(device)


ON_A_GPU = [
    *["item_sampler", "sample_fused", "prefetch"],
    *["on_stream", "copy_to", "fetch_to", "prefetch", "wait_stream"],
]
UNTRIED = "kernels for GPUs have been tested on CPUs only; no GPU has run them yet"
GOLDEN = {
    0: ["item_sampler", "sample_fused", "fetch_feature", "prefetch", "copy_to"],
    1: ON_A_GPU,
    2: ON_A_GPU,
    4: ON_A_GPU,
    8: ON_A_GPU,
}


@pytest.mark.parametrize("gpus", GOLDEN)
def test_golden_plans(gpus):
    assert names(trained(), hr.Machine(cores=4, gpus=gpus)) == GOLDEN[gpus]
    assert names(trained(f"cuda:{max(gpus - 1, 0)}"), hr.Machine(cores=4, gpus=gpus)) == GOLDEN[gpus]


@pytest.mark.parametrize("gpus", GOLDEN)
def test_golden_plans_of_seeds_that_are_copied_first(gpus):
    plan = items().copy_to("cuda").sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"], edge=["e"])
    there = ["item_sampler", "on_stream", "copy_to", "sample_fused", "fetch_to", "prefetch", "wait_stream"]
    here = ["item_sampler", "sample_fused", "prefetch", "copy_to", "fetch_feature"]
    assert names(plan, hr.Machine(cores=4, gpus=gpus)) == (there if gpus else here)
    # The user's own prefetch is lifted as well.
    assert names(plan.prefetch(), hr.Machine(cores=4, gpus=gpus))[:2] == (there if gpus else here)[:2]


@pytest.mark.parametrize("num_behind", [0, 1])
def test_functions_of_users_stay_on_the_stream_of_their_thread(num_behind):
    """They may read what the training loop writes there."""
    plan = items().copy_to("cuda").sample_neighbor(graph(), [3])
    if num_behind:
        plan = plan.transform(unchanged)
        assert names(plan)[-5:] == ["copy_to", "sample_fused", "prefetch", "wait_stream", "transform"]
        assert "on_stream" not in names(plan.prefetch())
    else:
        assert names(items().copy_to("cuda").transform(unchanged)) == ["item_sampler", "copy_to", "transform"]


LARGE_GRAPH = {
    1 << 13: ["fetch_rows", "sample_fetched", "compact", "sample_hop", "compact", "fetch_to"],
    1 << 20: ["sample_hop", "compact"] * 2 + ["fetch_to"],
}


@pytest.mark.parametrize("gpus", [1, 2, 8])
@pytest.mark.parametrize("memory", LARGE_GRAPH)
def test_golden_plans_of_graphs_that_fit_and_that_do_not(memory, gpus):
    """All in-edges of the seeds, and three of those nodes each."""
    machine = hr.Machine(cores=4, gpus=gpus, gpu_memory=(memory,) * gpus)
    plan = items().copy_to("cuda").sample_neighbor(graph(), [-1, 3]).fetch_feature(store(), node=["x"])
    text = plan.explain(machine=machine, prefetch=False)
    assert names_of(text) == ["item_sampler", "copy_to", "sample_fused", "fetch_to"]
    assert ("fetch=True" in stages(text)[2]) == (memory == 1 << 13)
    by_hops = names(plan, machine, prefetch=False, fuse_sampling=False)
    assert by_hops == ["item_sampler", "copy_to", *LARGE_GRAPH[memory]]
    assert names(trained(), machine) == ON_A_GPU


@pytest.mark.parametrize("conversion", ["to_pyg", "to_dgl"])
def test_objects_of_other_libraries_are_copied_by_the_training_loop(conversion):
    plan = getattr(items().sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"], labels="y"), conversion)()
    assert names(plan.copy_to("cuda"), hr.Machine(cores=4, gpus=1))[-2:] == ["prefetch", "copy_to"]


def test_one_core_has_no_thread_to_launch_from():
    assert names(trained(), hr.Machine(cores=1, gpus=1)) == ["item_sampler", "sample_fused", "copy_to", "fetch_to"]


def test_switches():
    machine = hr.Machine(cores=4, gpus=1)
    assert "fetch_feature" in names(trained(), machine, uva_gather=False)
    assert "on_stream" not in names(trained(), machine, stream_overlap=False)


def test_sources_that_a_gpu_cannot_read_stay_before_the_copy():
    both = hr.FeatureStore(node={"x": store_on_disk().node["x"], "y": store().node["y"]})
    plan = items().sample_neighbor(graph(), [3]).fetch_feature(both, node=["x"], labels="y").copy_to("cuda")
    text = plan.explain(machine=hr.Machine(gpus=1), lookahead=False, tiered_cache=False)
    assert stages(text)[2:] == [
        "fetch_feature(store#1, node=['x'])",
        "copy_to('cuda')",
        "fetch_to(store#1, cuda, labels='y', trusted=True)",
    ]


def test_columns_of_a_larger_array_are_not_read_in_place():
    import torch

    columns = hr.FeatureStore(node={"x": torch.zeros(200, 9)[:, :4]})
    plan = items().sample_neighbor(graph(), [3]).fetch_feature(columns, node=["x"]).copy_to("cuda")
    assert "fetch_to" not in names(plan, hr.Machine(gpus=1))


def ranks(world_size: int, **facts: object) -> hr.Machine:
    """The machine of the last of some ranks, each with a GPU of its own."""
    last = world_size - 1
    return hr.Machine(cores=4, gpus=world_size, world_size=world_size, rank=last, current_gpu=last, **facts)


def runs(plan: hr.Plan, machine: hr.Machine, **switches: bool) -> str:
    """The plan that runs, as explain() shows it, and what it says of channels."""
    text = plan.explain(machine=machine, **{"cooperative": True, **switches})
    channel = text[text.index("ranks exchange") :] if "ranks exchange" in text else UNTRIED
    return text.split("plan as written")[0].split("\n", 1)[1] + " ".join(channel.split())


TOGETHER_ON_GPUS = """\
  item_sampler(100 items, batch_size=17, shuffle=True, seed=11)
  copy_to('cuda:{last}')
  exchange_ids(HashPartition(200 nodes, {world_size} parts))
  sample_fused(graph#1, [NeighborRule(4)], key_layers=[0])
  exchange_ids(HashPartition(200 nodes, {world_size} parts))
  sample_fused(graph#1, [NeighborRule(3)], key_layers=[1], first_layer=1)
  exchange_ids(HashPartition(200 nodes, {world_size} parts))
  fetch_to(store#1, cuda:{last}, labels='y', trusted=True)
  fetch_to(store#1, cuda:{last}, node=['x'], trusted=True)
  exchange_rows(['x'])
  return_ids
kernels for GPUs have been tested on CPUs only; no GPU has run them yet"""


@pytest.mark.parametrize("world_size", [2, 4, 8])
def test_golden_plans_of_ranks_that_make_batches_together(world_size):
    plan = items().copy_to("cuda").sample_neighbor(graph(), [4, 3]).fetch_feature(store(), node=["x"], labels="y")
    found = runs(plan, ranks(world_size))
    assert found == TOGETHER_ON_GPUS.format(world_size=world_size, last=world_size - 1)


@pytest.mark.parametrize("world_size", [2, 4, 8])
def test_golden_plans_of_ranks_with_shares_of_their_own(world_size):
    """They exchange nothing, so their plans are those of one process, each on its GPU."""
    plan = items().copy_to("cuda").sample_neighbor(graph(), [4, 3]).fetch_feature(store(), node=["x"])
    found = runs(plan, ranks(world_size), cooperative=False)
    assert found == runs(plan, hr.Machine(cores=4, gpus=world_size, current_gpu=world_size - 1), cooperative=False)
    number = world_size - 1
    assert f"  on_stream(cuda:{number})\n  copy_to('cuda:{number}')\n  sample_fused(" in found


@pytest.mark.parametrize("name", ["link_negatives", "link_excluding_per_seed", "disjoint", "typed_temporal"])
def test_golden_plans_of_links_and_trees_of_ranks_with_shares_of_their_own(name):
    """Negatives, roots of trees, hops and rows are made ahead on each rank's GPU."""
    plan = copied_first(PLANS[name]())
    for world_size in (2, 8):
        found = names(plan, ranks(world_size))
        assert found == names(plan, hr.Machine(cores=4, gpus=world_size))
        assert found[:3] == ["item_sampler", "on_stream", "copy_to"]
        assert found[-2:] == ["prefetch", "wait_stream"]


def test_what_is_sampled_on_the_cpu_is_copied_where_ranks_exchange_it():
    """Ids of the last layer, by which rows are exchanged; a copy behind all that has nothing to exchange stays last."""
    plan = items().sample_ladies(graph(), [9]).copy_to("cuda")
    on_gpus = ranks(2, gpu_channel=True)
    assert names(plan.fetch_feature(store(), node=["x"]), on_gpus, cooperative=True, stream_overlap=False) == [
        *["item_sampler", "exchange_ids", "sample_hop", "compact", "prefetch", "copy_to"],
        *["exchange_ids", "fetch_to", "exchange_rows", "return_ids"],
    ]
    assert names(plan, on_gpus, cooperative=True, prefetch=False)[-3:] == ["exchange_ids", "return_ids", "copy_to"]


def test_owned_rows_that_a_gpu_cannot_read_are_read_by_the_cpu():
    both = hr.FeatureStore(node={"x": store_on_disk().node["x"], "y": store().node["y"]})
    plan = items().copy_to("cuda").sample_neighbor(graph(), [3]).fetch_feature(both, node=["x", "y"])
    switches = {"cooperative": True, "lookahead": False, "tiered_cache": False}
    text = plan.explain(machine=ranks(2, gpu_channel=True), **switches)
    assert stages(text)[-4:] == [
        "fetch_owned(store#1, node=['x'])",
        "fetch_to(store#1, cuda:1, node=['y'], trusted=True)",
        "exchange_rows(['x', 'y'])",
        "return_ids",
    ]


def test_ranks_exchange_ahead_where_the_user_prefetches():
    """By default all collectives come from one thread: those of two NCCL communicators at once may block each other."""
    plan = items().copy_to("cuda").sample_neighbor(graph(), [4, 3]).fetch_feature(store(), node=["x"])
    machine = ranks(2, gpu_channel=True)
    assert "prefetch" not in names(plan, machine, cooperative=True)
    found = names(plan.prefetch(), machine, cooperative=True)
    assert found[:3] == ["item_sampler", "on_stream", "copy_to"]
    assert found[-5:] == ["fetch_to", "exchange_rows", "return_ids", "prefetch", "wait_stream"]
