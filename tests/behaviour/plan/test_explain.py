"""explain() is the face of the passes: its texts are kept here, for machines that nobody has to own."""

from __future__ import annotations

import pytest
import torch

import headrace as hr

from plans import graph, items, pairs, store, typed_graph, typed_items

WIDTH = 120


def test_sampling_and_features_on_two_cores():
    plan = items().sample_neighbor(graph(), [10, 5]).fetch_feature(store(), node=["x"], labels="y").copy_to("cpu")
    assert (
        plan.loader(machine=hr.Machine(cores=2)).explain()
        == """\
plan that runs, on Machine(cores=2, gpus=0, rank=0, world_size=1, memory=0, gpu_memory=())
  item_sampler(100 items, batch_size=17, shuffle=True, seed=11)
  sample_fused(graph#1, [NeighborRule(10), NeighborRule(5)], key_layers=[0, 1])
  fetch_feature(store#1, node=['x'], labels='y')
  prefetch(eager=False)
  copy_to('cpu')
plan as written
  item_sampler(100 items, batch_size=17, shuffle=True, seed=11)
  sample_neighbor(graph#1, [10, 5])
  fetch_feature(store#1, node=['x'], labels='y')
  copy_to('cpu')
pass expand_macros (same batches): macro -> its parts
    item_sampler(100 items, batch_size=17, shuffle=True, seed=11)
  - sample_neighbor(graph#1, [10, 5])
  + sample_hop(graph#1, NeighborRule(10), layer=0, key_layer=0)
  + compact(graph#1)
  + sample_hop(graph#1, NeighborRule(5), layer=1, key_layer=1)
  + compact(graph#1)
    fetch_feature(store#1, node=['x'], labels='y')
    ...
pass fuse_sampling (same batches): sample_hop, compact -> sample_fused; sample_fused, sample_hop, compact ->
    sample_fused
    item_sampler(100 items, batch_size=17, shuffle=True, seed=11)
  - sample_hop(graph#1, NeighborRule(10), layer=0, key_layer=0)
  - compact(graph#1)
  - sample_hop(graph#1, NeighborRule(5), layer=1, key_layer=1)
  - compact(graph#1)
  + sample_fused(graph#1, [NeighborRule(10), NeighborRule(5)], key_layers=[0, 1])
    fetch_feature(store#1, node=['x'], labels='y')
    ...
pass prefetch (same batches): prefetch before the first copy, or at the end, and before rows are exchanged
    ...
    fetch_feature(store#1, node=['x'], labels='y')
  + prefetch(eager=False)
    copy_to('cpu')
nothing to do: pad, typed_items, exclude_edges, within_boundary, own_gpu, sample_on_cpu, cooperative (off),
    sample_at_owners, fetch_at_owners, tiered_cache, fuse_exchange, split_sample (no GPU), graph_cache (no GPU),
    feature_cache (no GPU), uva_gather (no GPU), lookahead, stream_overlap (no GPU)
graph#1: Graph(num_nodes=200, num_edges=1500, edge_attrs=['weight'])
store#1: FeatureStore(node={'x': float32[200, 8], 'y': int64[200]}, edge={'e': float32[1500, 3]})"""
    )


def test_memory_of_caches_is_not_said_to_be_of_other_plans():
    """The store of this very plan may have such a cache."""
    loader = items().sample_neighbor(graph(), [2]).loader(machine=hr.Machine(promised=1_234))
    line = "caches made before, those of the stores of this plan included, have 1,234 bytes of CPU memory"
    assert loader.explain().splitlines()[-1] == line


@pytest.mark.parametrize("gpus", [0, 1])
@pytest.mark.parametrize("first", [True, False])
def test_what_no_gpu_has_run_is_said_once_of_plans_that_use_one(gpus, first):
    sampled = items().copy_to("cuda") if first else items()
    plan = sampled.sample_neighbor(graph(), [2]).fetch_feature(store(), node=["x"])
    machine = hr.Machine(cores=2, gpus=gpus)
    used = (plan if first else plan.copy_to("cuda")).explain(machine=machine).splitlines()
    assert used.count("kernels for GPUs have been tested on CPUs only; no GPU has run them yet") == 1
    assert not any("no GPU has run" in line for line in items().copy_to("cpu").explain(machine=machine).splitlines())


def test_facts_switched_off_and_nothing_to_do():
    plan = items().sample_layer_neighbor(graph(), [3], exact=False)
    assert (
        plan.loader(machine=hr.Machine(cores=1), fuse_sampling=False).explain(facts=True)
        == """\
plan that runs, on Machine(cores=1, gpus=0, rank=0, world_size=1, memory=0, gpu_memory=())
  item_sampler(100 items, batch_size=17, shuffle=True, seed=11)
      # minibatch: item_index, n_id, num_sampled_nodes, seed_index, seeds on cpu
  sample_hop(graph#1, LaborRule(3, exact=False), layer=0, key_layer=0)
      # hop: item_index, n_id, num_sampled_nodes, seed_index, seeds on cpu; hops: 1; graph#1
  compact(graph#1)
      # minibatch: blocks, item_index, n_id, num_sampled_edges, num_sampled_nodes, seed_index, seeds on cpu; hops: 1;
          graph#1
plan as written
  item_sampler(100 items, batch_size=17, shuffle=True, seed=11)
  sample_layer_neighbor(graph#1, [3], exact=False)
pass expand_macros (same batches): macro -> its parts
    item_sampler(100 items, batch_size=17, shuffle=True, seed=11)
  - sample_layer_neighbor(graph#1, [3], exact=False)
  + sample_hop(graph#1, LaborRule(3, exact=False), layer=0, key_layer=0)
  + compact(graph#1)
nothing to do: pad, typed_items, exclude_edges, within_boundary, own_gpu, sample_on_cpu, cooperative (off),
    sample_at_owners, fetch_at_owners, tiered_cache, fuse_exchange, fuse_sampling (off), split_sample (no GPU),
    graph_cache (no GPU), feature_cache (no GPU), uva_gather (no GPU), lookahead, prefetch, stream_overlap (no GPU)
graph#1: Graph(num_nodes=200, num_edges=1500, edge_attrs=['weight'])"""
    )


def test_a_graph_with_many_relations_stays_readable():
    """Equal rules of relations are counted; graphs and stores are described once."""
    types = {f"type {number}": 20 for number in range(7)}
    names = list(types)
    relations = {(names[i % 7], f"relation {i}", names[3 * i % 7]): 10 for i in range(14)}
    ends = torch.arange(10)
    src = torch.cat([20 * names.index(source) + ends for source, _, _ in relations])
    dst = torch.cat([20 * names.index(destination) + ends for _, _, destination in relations])
    wide = hr.Graph.from_coo(src, dst, num_nodes=140, node_types=types, edge_types=relations)
    features = hr.FeatureStore(node={(name, "x"): torch.zeros(20, 4) for name in types})
    fanouts = [{relation: 3 + i % 2 for i, relation in enumerate(relations)}, 10]
    plan = hr.ItemSampler({names[0]: ends}, batch_size=5, seed=1).sample_neighbor(wide, fanouts)
    plan = plan.fetch_feature(features, node=[(name, "x") for name in types])
    lines = plan.loader(machine=hr.Machine(cores=2)).explain().splitlines()
    assert len(lines) < 60
    assert max(map(len, lines)) <= WIDTH
    assert any("by relation [7 x NeighborRule(3), 7 x NeighborRule(4)]" in line for line in lines)
    assert sum("Graph(" in line for line in lines) == 1
    assert sum("FeatureStore(" in line for line in lines) == 1


def test_graphs_are_numbered_as_they_occur():
    other = hr.Graph(graph().indptr, graph().indices)
    plan = pairs().sample_uniform_negative(other).sample_neighbor(graph(), [2])
    lines = plan.loader(machine=hr.Machine(cores=1)).explain().splitlines()
    assert lines[2].startswith("  sample_uniform_negative(graph#1")
    assert lines[3].startswith("  sample_fused(graph#2")
    assert lines[-2:] == [f"graph#1: {other}", f"graph#2: {graph()}"]


def test_a_pass_whose_plan_prints_alike_is_named_alone():
    """Items by type become ids of the graph, as many of them."""
    plan = typed_items().sample_neighbor(typed_graph(), [2])
    lines = plan.loader(machine=hr.Machine(cores=2)).explain().splitlines()
    place = lines.index("pass typed_items (same batches): items of types -> items of the graph")
    assert lines[place + 1].startswith("pass fuse_sampling")


def test_memory_of_many_gpus_is_short():
    """Equal ones are counted, and no line is wider than the others."""
    machine = hr.Machine(cores=64, gpus=8, memory=1 << 40, gpu_memory=(*((80 << 30) - n for n in range(7)), 79 << 30))
    assert "gpu_memory=(7 x 80 GiB, 79 GiB)" in str(machine)
    text = items().sample_neighbor(graph(), [3]).loader(machine=machine).explain()
    first, *_ = text.split("  item_sampler")
    assert "gpu_memory=(7 x 80 GiB, 79 GiB))" in " ".join(first.split())
    assert max(map(len, text.splitlines())) <= WIDTH
    assert eval(repr(machine), {"Machine": hr.Machine}) == machine  # noqa: S307 - nothing is lost there
