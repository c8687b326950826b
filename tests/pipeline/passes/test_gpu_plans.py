"""Plans for machines with GPUs: what runs where, as text, for machines that nobody here owns."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.pipeline.passes import rewrite
from headrace.pipeline.storage.wanted import Wanted

from gpu_plans import names
from plans import graph, items, store, store_on_disk


def trained(device="cuda"):
    return items().sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"], labels="y").copy_to(device)


ON_A_GPU = ["item_sampler", "sample_fused", "prefetch", "on_stream", "prefetch", "wait_stream"]
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
    there = ["item_sampler", "on_stream", "prefetch", "wait_stream"]
    here = ["item_sampler", "sample_fused", "prefetch", "copy_to", "fetch_feature"]
    assert names(plan, hr.Machine(cores=4, gpus=gpus)) == (there if gpus else here)
    # The user's own prefetch is lifted as well.
    assert names(plan.prefetch(), hr.Machine(cores=4, gpus=gpus))[:2] == (there if gpus else here)[:2]
    final = rewrite(plan, hr.Machine(cores=4, gpus=gpus)).final
    if gpus:
        assert [stage.name for stage in final.stages[1].stages] == ["copy_to", "sample_fused", "fetch_to"]


@pytest.mark.parametrize("num_behind", [0, 1])
def test_functions_of_users_stay_on_the_stream_of_their_thread(num_behind):
    """They may read what the training loop writes there."""
    plan = items().copy_to("cuda").sample_neighbor(graph(), [3])
    if num_behind:
        plan = plan.transform(dict)
        assert names(plan)[-4:] == ["on_stream", "prefetch", "wait_stream", "transform"]
        assert "on_stream" not in names(plan.prefetch())
    else:
        assert names(items().copy_to("cuda").transform(dict)) == ["item_sampler", "copy_to", "transform"]


LARGE_GRAPH = {
    1 << 13: ["fetch_rows", "sample_fetched", "compact", "sample_fused", "fetch_to"],
    1 << 20: ["sample_fused", "fetch_to"],
}


@pytest.mark.parametrize("gpus", [1, 2, 8])
@pytest.mark.parametrize("memory", LARGE_GRAPH)
def test_golden_plans_of_graphs_that_fit_and_that_do_not(memory, gpus):
    """All in-edges of the seeds, and three of those nodes each."""
    machine = hr.Machine(cores=4, gpus=gpus, gpu_memory=(memory,) * gpus)
    plan = items().copy_to("cuda").sample_neighbor(graph(), [-1, 3]).fetch_feature(store(), node=["x"])
    assert names(plan, machine, prefetch=False) == ["item_sampler", "copy_to", *LARGE_GRAPH[memory]]
    assert names(trained(), machine) == ON_A_GPU


@pytest.mark.parametrize("conversion", ["to_pyg", "to_dgl"])
def test_objects_of_other_libraries_are_copied_by_the_training_loop(conversion):
    plan = getattr(items().sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"], labels="y"), conversion)()
    assert names(plan.copy_to("cuda"), hr.Machine(cores=4, gpus=1))[-2:] == ["prefetch", "copy_to"]


def test_what_runs_on_the_stream():
    final = rewrite(trained(), hr.Machine(cores=2, gpus=1)).final
    stream = final.stages[3]
    assert [stage.name for stage in stream.stages] == ["copy_to", "fetch_to"]
    assert stream.reads == {"n_id", "seeds"}
    assert stream.writes == {"node", "y"}
    assert stream.fetches == {("node", "x")}
    assert stream.moves_to == hr.Place("cuda")


def test_one_core_has_no_thread_to_launch_from():
    assert names(trained(), hr.Machine(cores=1, gpus=1)) == ["item_sampler", "sample_fused", "copy_to", "fetch_to"]


def test_switches():
    machine = hr.Machine(cores=4, gpus=1)
    assert "fetch_feature" in names(trained(), machine, uva_gather=False)
    assert "on_stream" not in names(trained(), machine, stream_overlap=False)


def test_sources_that_a_gpu_cannot_read_stay_before_the_copy():
    both = hr.FeatureStore(node={"x": store_on_disk().node["x"], "y": store().node["y"]})
    plan = items().sample_neighbor(graph(), [3]).fetch_feature(both, node=["x"], labels="y").copy_to("cuda")
    final = rewrite(plan, hr.Machine(gpus=1), {"lookahead": False, "tiered_cache": False}).final
    assert [stage.name for stage in final.stages] == [
        "item_sampler",
        "sample_fused",
        "fetch_feature",
        "copy_to",
        "fetch_to",
    ]
    assert final.stages[2].wants == Wanted(both, node=("x",))
    assert final.stages[4].wants == Wanted(both, labels="y")


def test_columns_of_a_larger_array_are_not_read_in_place():
    import torch

    columns = hr.FeatureStore(node={"x": torch.zeros(200, 9)[:, :4]})
    plan = items().sample_neighbor(graph(), [3]).fetch_feature(columns, node=["x"]).copy_to("cuda")
    assert "fetch_to" not in names(plan, hr.Machine(gpus=1))
