"""explain() is the face of the passes: its texts are kept here, for machines that nobody has to own."""

from __future__ import annotations

import headrace as hr
from headrace.pipeline.plan.rewriting import _difference

from plans import graph, items, store, typed_graph, typed_items

GRAPH, STORE = str(graph()), str(store())


def explain(plan: hr.Plan, machine: hr.Machine, **switches: bool) -> str:
    text = plan.loader(machine=machine, **switches).explain()
    return text.replace(GRAPH, "G").replace(STORE, "F")


def test_sampling_and_features_on_two_cores():
    plan = items().sample_neighbor(graph(), [10, 5]).fetch_feature(store(), node=["x"], labels="y").copy_to("cpu")
    assert (
        explain(plan, hr.Machine(cores=2))
        == """\
plan
  item_sampler(100 items, batch_size=17, shuffle=True, seed=11)
  sample_neighbor(G, [10, 5])
  fetch_feature(F, node=['x'], labels='y')
  copy_to('cpu')
pass expand_macros (same batches): macro -> its parts
    item_sampler(100 items, batch_size=17, shuffle=True, seed=11)
  - sample_neighbor(G, [10, 5])
  + sample_hop(G, NeighborRule(fanout=10, replace=False), layer=0, key_layer=0)
  + compact(G)
  + sample_hop(G, NeighborRule(fanout=5, replace=False), layer=1, key_layer=1)
  + compact(G)
    fetch_feature(F, node=['x'], labels='y')
    ...
nothing to do: typed_items, exclude_edges, within_boundary, sample_on_cpu, tiered_cache, cooperative (off), sample_at_owners, fetch_at_owners, fuse_exchange, split_sample (no GPU), graph_cache (no GPU)
pass fuse_sampling (same batches): sample_hop, compact -> sample_fused; sample_fused, sample_hop, compact -> sample_fused
    item_sampler(100 items, batch_size=17, shuffle=True, seed=11)
  - sample_hop(G, NeighborRule(fanout=10, replace=False), layer=0, key_layer=0)
  - compact(G)
  - sample_hop(G, NeighborRule(fanout=5, replace=False), layer=1, key_layer=1)
  - compact(G)
  + sample_fused(G, [NeighborRule(fanout=10, replace=False), NeighborRule(fanout=5, replace=False)], key_layers=[0, 1])
    fetch_feature(F, node=['x'], labels='y')
    ...
nothing to do: feature_cache (no GPU), uva_gather (no GPU), lookahead
pass prefetch (same batches): prefetch before the first copy, or at the end, and before rows are exchanged
    ...
    fetch_feature(F, node=['x'], labels='y')
  + prefetch(eager=False)
    copy_to('cpu')
nothing to do: stream_overlap (no GPU)
plan that runs
  item_sampler(100 items, batch_size=17, shuffle=True, seed=11)
  sample_fused(G, [NeighborRule(fanout=10, replace=False), NeighborRule(fanout=5, replace=False)], key_layers=[0, 1])
  fetch_feature(F, node=['x'], labels='y')
  prefetch(eager=False)
  copy_to('cpu')
on Machine(cores=2, gpus=0, rank=0, world_size=1, memory=0, gpu_memory=())"""  # noqa: E501 - a line as it is printed
    )


def test_switched_off_and_nothing_to_do():
    assert (
        explain(items().sample_layer_neighbor(graph(), [3], exact=False), hr.Machine(cores=1), fuse_sampling=False)
        == """\
plan
  item_sampler(100 items, batch_size=17, shuffle=True, seed=11)
  sample_layer_neighbor(G, [3], exact=False)
pass expand_macros (same batches): macro -> its parts
    item_sampler(100 items, batch_size=17, shuffle=True, seed=11)
  - sample_layer_neighbor(G, [3], exact=False)
  + sample_hop(G, LaborRule(fanout=3, exact=False), layer=0, key_layer=0)
  + compact(G)
nothing to do: typed_items, exclude_edges, within_boundary, sample_on_cpu, tiered_cache, cooperative (off), sample_at_owners, fetch_at_owners, fuse_exchange, split_sample (no GPU), graph_cache (no GPU), fuse_sampling (off), feature_cache (no GPU), uva_gather (no GPU), lookahead, prefetch, stream_overlap (no GPU)
plan that runs
  item_sampler(100 items, batch_size=17, shuffle=True, seed=11)
  sample_hop(G, LaborRule(fanout=3, exact=False), layer=0, key_layer=0)
  compact(G)
on Machine(cores=1, gpus=0, rank=0, world_size=1, memory=0, gpu_memory=())"""  # noqa: E501 - a line as it is printed
    )


def test_changes_far_apart_are_shown_each_for_itself():
    lines = ["a", "b", "c", "d", "e", "f"]
    one, other = (_plan(lines), _plan(["a", "B", "c", "d", "e", "f", "g"]))
    assert _difference(one, other) == ["    a", "  - b", "  + B", "    c", "    ...", "    f", "  + g"]


def _plan(names: list[str]) -> hr.Plan:
    """A plan of which nothing matters but what it prints."""
    return hr.Plan([type("_Named", (hr.Stage,), {"name": name})() for name in names])


def test_a_pass_whose_plan_prints_alike_is_named_alone():
    """Items by type become ids of the graph, as many of them."""
    plan = typed_items().sample_neighbor(typed_graph(), [2])
    lines = plan.loader(machine=hr.Machine(cores=2)).explain().splitlines()
    place = lines.index("pass typed_items (same batches): items of types -> items of the graph")
    assert lines[place + 1].startswith("nothing to do: exclude_edges")
