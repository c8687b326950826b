"""Edge weights: what is taken, which edge is named, and which changes are seen."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import headrace as hr

from plans import graph, items

SRC, DST = torch.tensor([[3, 1, 0, 2, 1, 0], [1, 1, 0, 0, 2, 0]])


def weighted(weight, **options):
    return hr.Graph.from_coo(SRC, DST, num_nodes=4, edge_attrs={"w": weight}, **options)


def picks(weight, verb, **options):
    plan = getattr(hr.ItemSampler(4, seed=3), verb)(weighted(weight), [1], weight="w", **options)
    return [batch.digest() for batch in plan.loader()]


@pytest.mark.parametrize("verb", ["sample_neighbor", "sample_layer_neighbor", "sample_ladies"])
@pytest.mark.parametrize(
    "dtype",
    [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16],
)
def test_real_dtypes_are_taken(verb, dtype):
    weight = torch.tensor([1, 0, 1, 1, 0, 1]) if dtype == torch.bool else torch.tensor([3, 0, 1, 2, 0, 1])
    assert picks(weight.to(dtype), verb) == picks(weight.double(), verb)


def test_wide_integers_keep_their_digits():
    exact = weighted(torch.tensor([(1 << 24) + 1] * 6)).edge_weights("w")
    assert exact.dtype == torch.float64
    assert exact.tolist() == [(1 << 24) + 1] * 6


def test_converted_once():
    one = weighted(torch.ones(6, dtype=torch.int32))
    assert one.edge_weights("w") is one.edge_weights("w")
    floats = weighted(torch.ones(6))
    assert floats.edge_weights("w") is floats.edge_weights("w")


@pytest.mark.parametrize(("shape", "dtype"), [((6, 1), torch.float32), ((6,), torch.complex64)])
def test_what_is_no_number_per_edge_is_refused(shape, dtype):
    with pytest.raises(hr.InputError, match=r"'w' to be one real number .*got (float32\[6, 1\]|complex64\[6\])"):
        hr.ItemSampler(4).sample_neighbor(weighted(torch.ones(shape, dtype=dtype)), [1], weight="w")


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf"), 1e-320])
def test_errors_name_the_edge_as_it_was_given(bad):
    """The edges of node 0 come first in the graph, so the place of an edge is not its id."""
    for edge in range(6):
        weight = torch.ones(6, dtype=torch.float64)
        weight[edge] = bad
        with pytest.raises(
            hr.InputError, match=rf"for edge {edge}, from node {SRC[edge]} to node {DST[edge]}; give edges"
        ):
            hr.ItemSampler(4).sample_neighbor(weighted(weight), [1], weight="w")
    with pytest.raises(hr.InputError, match=r"for edge 0, from node 3 to node 1 \(and 5 more edges"):
        weighted(torch.full((6,), bad, dtype=torch.float64)).edge_weights("w")


def test_a_sum_that_overflows_names_the_node():
    with pytest.raises(hr.InputError, match="in-edges of node 0 sum to infinity"):
        weighted(torch.full((6,), 1.7e308, dtype=torch.float64)).edge_weights("w")


def test_a_shard_names_the_edge_of_the_whole_graph():
    weight = torch.ones(6)
    weight[4] = -1
    whole = weighted(weight)
    part = whole.shard(hr.Partition.of(torch.tensor([0, 0, 1, 1]), 2), 1)
    with pytest.raises(hr.InputError, match="for edge 4, from node 1 to node 2"):
        part.edge_weights("w")


@pytest.mark.parametrize("weight", [torch.rand(6), 3])
def test_numbers_in_place_of_a_name(weight):
    with pytest.raises(hr.InputError, match=r"weight to be the name of an edge attribute, got (Tensor|int); give"):
        hr.ItemSampler(4).sample_neighbor(weighted(torch.ones(6)), [1], weight=weight)


# --- changes ----------------------------------------------------------------------------------------------------------

VERBS = {
    "fused": lambda one: items().sample_neighbor(one, [3, 2], weight="weight"),
    "labor": lambda one: items().sample_layer_neighbor(one, [3, 2], weight="weight"),
    "ladies": lambda one: items().sample_ladies(one, [20], weight="weight"),
    "walks": lambda one: items().sample_pinsage(one, 2, 3, 2, weight="weight"),
}


def own_graph(weight):
    return hr.Graph.from_csc(graph().indptr, graph().indices, edge_attrs={"weight": weight})


@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize("switches", [{}, {"fuse_sampling": False}, {"prefetch": False}])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_changes_by_torch_are_seen_at_the_next_batch(name, switches, dtype):
    weight = torch.arange(1, graph().num_edges + 1).to(dtype)
    with VERBS[name](own_graph(weight)).loader(**switches) as loader:
        batches = iter(loader)
        next(batches)
        weight[5] += 1
        with pytest.raises(hr.InputError, match=r"'weight' to stay as it was .*make a new graph"):
            list(batches)


@pytest.mark.parametrize("write", [lambda w: w.__setitem__(7, 9.0), lambda w: w.__imul__(2)])
def test_changes_by_numpy_are_seen_by_the_next_loader(write):
    weight = np.random.default_rng(0).random(graph().num_edges)
    plan = VERBS["fused"](own_graph(weight))
    plan.loader()
    write(weight)
    with pytest.raises(hr.InputError, match="'weight' to stay as it was"):
        plan.loader()


def test_changes_of_all_of_many_weights_are_seen():
    """Above 4 MiB a sample of the values stands for all."""
    num_edges = 1_200_000
    weight = np.random.default_rng(0).random(num_edges, np.float32)
    one = hr.Graph.from_csc([0, num_edges], np.zeros(num_edges, np.int32), edge_attrs={"w": weight})
    plan = hr.ItemSampler(1).sample_neighbor(one, [3], weight="w")
    plan.loader()
    weight *= 2
    with pytest.raises(hr.InputError, match="'w' to stay as it was"):
        plan.loader()


def test_weights_of_inference_mode_have_no_versions_and_work():
    with torch.inference_mode():
        weight = torch.rand(graph().num_edges)
    assert len(list(VERBS["fused"](own_graph(weight)).loader())) > 1


def test_other_attributes_may_change():
    weight, other = torch.rand(6), torch.rand(6)
    one = hr.Graph.from_coo(SRC, DST, num_nodes=4, edge_attrs={"w": weight, "other": other})
    plan = hr.ItemSampler(4).sample_neighbor(one, [1], weight="w")
    plan.loader()
    one.edge_attrs["other"].zero_()
    assert len(list(plan.loader())) == 1
