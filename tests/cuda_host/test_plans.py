"""Whole plans on what stands in for a GPU: the same minibatches, whatever runs there, and no wait that is missing."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
import torch

import headrace as hr
from headrace.cuda.backend import stand_in, streams_of_stand_in
from headrace.ops.sampling import fused_on_gpu
from headrace.pipeline.data.batch_parts import kept_tensors
from headrace.pipeline.data.graph_machinery import kept, scratch_bytes
from headrace.pipeline.lowered.gpu.on_stream import WaitStream

from cuda_host.stand_in import StandIn
from gpu_plans import launched
from plans import NODE_TYPES, PLANS, RELATIONS, graph, items, store, timed_graph, timed_items, typed_graph, typed_items

MACHINE = hr.Machine(cores=2, gpus=1)


@pytest.fixture
def gpu():
    """Let the CPU stand in for a GPU; memory that nobody has written holds no number."""
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    backend = StandIn()
    with stand_in(backend):
        yield backend
    torch.use_deterministic_algorithms(False)


def digests(plan: hr.Plan, machine: hr.Machine, **switches: bool) -> list[str]:
    streams, found = streams_of_stand_in(), []
    with plan.loader(machine=machine, **switches) as loader:
        for batch in loader:
            if streams is not None:
                streams.check(batch.tensors(), "the batch")
            found.append(batch.digest())
    return found


def copied(plan: hr.Plan, position: int) -> hr.Plan:
    stages = list(plan.stages)
    stages[position:position] = hr.ItemSampler(1).copy_to("cuda").stages[1:]
    return hr.Plan(stages)


@pytest.fixture(scope="module")
def on_cpu():
    return {name: digests(make(), hr.Machine(cores=2)) for name, make in PLANS.items()}


@pytest.mark.slow
@pytest.mark.combinations(24)
@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("first", [True, False], ids=["sampled there", "copied there"])
def test_batches_are_those_of_the_cpu(name, first, on_cpu, gpu):
    """Copied to before the sampler, seeds are sampled on a GPU where it has a kernel for the rule."""
    plan = PLANS[name]()
    assert digests(copied(plan, 1 if first else len(plan.stages)), MACHINE) == on_cpu[name]


@pytest.mark.combinations(8)
@pytest.mark.parametrize("off", ["uva_gather", "stream_overlap", "fuse_sampling", "prefetch"])
@pytest.mark.parametrize("name", ["labor", "weighted", "full", "typed", "temporal", "typed_temporal", "disjoint_pairs"])
def test_switches_change_nothing(name, off, on_cpu, gpu):
    assert digests(copied(PLANS[name](), 1), MACHINE, **{off: False}) == on_cpu[name]


@pytest.mark.parametrize("why", ["the graph is in memory of the host", "there is no room"])
@pytest.mark.parametrize("name", ["labor", "weighted", "weighted_replace"])
def test_tables_of_large_graphs_are_made_for_each_hop(name, why, on_cpu, gpu, monkeypatch):
    def no_room(*_):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    if why == "there is no room":
        monkeypatch.setattr("headrace.cuda.edge_numbers.EdgeNumbers.of_graph", no_room)
        monkeypatch.setattr("headrace.cuda.pick_weighted.sums_of_graph", no_room)
    else:
        whole = fused_on_gpu.if_there_is_room
        monkeypatch.setattr(
            fused_on_gpu, "if_there_is_room", lambda array, device, *rest: whole(array, torch.device("meta"), *rest)
        )
    plan = PLANS[name]()
    fresh = replace(graph())
    stages = [replace(stage, graph=fresh) if hasattr(stage, "graph") else stage for stage in plan.stages]
    assert digests(copied(hr.Plan(stages), 1), MACHINE) == on_cpu[name]
    assert scratch_bytes(fresh) == 0
    assert kept(fresh).samplers


@pytest.mark.slow
@pytest.mark.combinations(10)
@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("neighbor", "pick_uniform"),
        ("neighbor_replace", "pick_uniform_replacement"),
        ("labor", "pick_labor_exact"),
        ("labor_poisson", "pick_labor_poisson"),
        ("in_subgraph", "pick_all"),
        ("typed", "join_picks"),
        ("typed_new", "find_typed_segments"),
        ("typed_labor_1", "solve_rows"),
        ("disjoint", "read_elements"),
        ("temporal", "read_elements"),
        ("temporal_last", "pick_all"),
        ("temporal_labor", "pick_labor_exact"),
        ("typed_temporal", "find_typed_segments"),
        ("typed_disjoint", "read_elements"),
        ("link_triplets", "unpack_picks"),
        ("link_excluding_weighted", "pack_edges"),
    ],
)
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "hop by hop"])
def test_hops_run_on_the_gpu(name, kernel, fused, gpu):
    digests(copied(PLANS[name](), 1), MACHINE, fuse_sampling=fused)
    assert any(kernel in launched for launched in gpu.launches) or (not fused and kernel == "read_elements")


def test_relations_of_a_block_are_split_where_it_is(gpu):
    """As of the batch that the CPU makes."""
    plan = typed_items().sample_neighbor(typed_graph(), [3, 2])
    with copied(plan, 1).loader(machine=MACHINE) as there, plan.loader(machine=hr.Machine()) as here:
        for batch, expected in zip(there, here, strict=True):
            for block, other in zip(batch.blocks, expected.blocks, strict=True):
                for relation in RELATIONS:
                    one, right = block.relation(relation), other.relation(relation)
                    assert torch.equal(one.edge_index, right.edge_index)
                    assert torch.equal(one.edge_ids, right.edge_ids)
    assert any("find_typed_segments" in launched for launched in gpu.launches)


def test_edges_of_a_type_are_left_out_on_the_gpu(gpu):
    """Seeds are edges, of which no batch has one."""
    whole, relation = typed_graph(), RELATIONS[2]
    ids = whole.edge_types.id_range(relation)
    own = (whole.edge_ids >= ids.start) & (whole.edge_ids < ids.stop)
    ends = torch.stack([whole.indices.long(), torch.arange(whole.num_nodes).repeat_interleave(whole.in_degrees())])
    edges = ends[:, own].t() - torch.tensor([0, NODE_TYPES["a"]])
    plan = (
        hr.ItemSampler({relation: edges[:40]}, batch_size=7, shuffle=True, seed=3)
        .exclude_seed_edges()
        .sample_neighbor(whole, {"likes": [2, 1], "default": [-1, 2]})
    )
    assert digests(copied(plan, 1), MACHINE) == digests(plan, hr.Machine())
    assert any("unpack_picks" in launched for launched in gpu.launches)
    for batch in plan.loader(machine=MACHINE):
        seeds = set(map(tuple, batch.seeds.tolist()))
        for block in batch.blocks:
            assert not seeds & set(map(tuple, batch.n_id[block.edge_index].t().tolist()))


LINKS = [name for name in PLANS if name.startswith("link_") and name != "link_excluding_ladies"]


@pytest.mark.slow
@pytest.mark.parametrize("name", LINKS)
def test_plans_of_links_run_on_the_gpu_from_their_seeds_on(name, gpu):
    with copied(PLANS[name](), 1).loader(machine=MACHINE) as loader:
        assert "no kernel on a GPU" not in loader.explain()
        assert "copy_to behind" not in loader.explain()
        made = len(gpu.launches)  # a loader looks at the edges of pairs where they lie, which is here as if on a GPU
        for _ in loader:
            pass
    launched = " ".join(gpu.launches[made:])
    assert ("draw_negatives" in launched) == ("sample_uniform_negative" in PLANS[name]().names)
    assert ("match_edges" in launched) == ("exclude_seed_edges" in PLANS[name]().names)


def test_where_the_sampler_stays_on_the_cpu_negatives_do(gpu):
    plan = PLANS["link_excluding_ladies"]()
    stages = list(copied(plan, 1).stages)
    stages[2:2] = hr.ItemSampler(torch.zeros(1, 2).long()).sample_uniform_negative(graph()).stages[1:]
    with hr.Plan(stages).loader(machine=MACHINE) as loader:
        assert "no kernel on a GPU: copy_to behind the hop" in loader.explain()
        for _ in loader:
            pass


@pytest.mark.slow
@pytest.mark.parametrize("name", ["timed_negatives", "negatives_by_degree_and_time", "typed_negatives"])
@pytest.mark.parametrize("reject", [False, True])
def test_negatives_of_all_kinds_have_the_bits_of_the_cpu(name, reject, gpu):
    plan = NEGATIVES[name](reject)
    assert digests(copied(plan, 1), MACHINE) == digests(plan, hr.Machine())
    assert any("draw_negatives" in launched for launched in gpu.launches)


def timed_pairs() -> hr.Plan:
    ends = torch.randint(200, (40, 2), generator=torch.Generator().manual_seed(3))
    return hr.ItemSampler(ends, time=torch.arange(40) + 60, batch_size=9, shuffle=True, seed=3)


def typed_links() -> hr.Plan:
    ends = torch.stack([torch.arange(30) % NODE_TYPES["a"], torch.arange(30) % NODE_TYPES["b"]], 1)
    return hr.ItemSampler({("a", "to", "b"): ends}, batch_size=7, shuffle=True, seed=3)


NEGATIVES = {
    "timed_negatives": lambda reject: (
        timed_pairs()
        .sample_uniform_negative(timed_graph(), 2.5, time="time", reject=reject)
        .sample_neighbor(timed_graph(), [3], time="time")
    ),
    "negatives_by_degree_and_time": lambda reject: (
        timed_pairs()
        .sample_uniform_negative(timed_graph(), 2, time="time", node_weight="degree", strictly_before=True)
        .exclude_seed_edges(reverse=reject)
        .sample_neighbor(timed_graph(), [3], time="time")
    ),
    "typed_negatives": lambda reject: (
        typed_links()
        .sample_uniform_negative(
            typed_graph(), 1.5, reject=reject, **({} if reject else {"corrupt": "both", "source_weight": "degree"})
        )
        .exclude_seed_edges(reverse=True)
        .sample_neighbor(typed_graph(), [3, 2])
    ),
}


def test_trees_are_planted_and_grow_on_the_gpu(gpu):
    plan = timed_items().copy_to("cuda").sample_neighbor(timed_graph(), [4, 3], time="time", window=30)
    with plan.loader(machine=MACHINE) as loader:
        names = [stage.name for stage in loader._rewriting.final.stages]
        assert "trees are planted on the CPU" not in loader.explain()
    assert names[:3] == ["item_sampler", "on_stream", "copy_to"]
    with plan.loader(machine=replace(MACHINE, world_size=2), rank=0, world_size=2) as loader:
        assert "trees are planted on the CPU" not in loader.explain()


def test_stages_on_a_stream_count_for_themselves(gpu):
    plan = copied(items().sample_neighbor(graph(), [4]).fetch_feature(store(), node=["x"]), 1)
    counts = []
    for overlap in (True, False):
        with plan.loader(machine=MACHINE, stream_overlap=overlap) as loader:
            for _ in loader:
                pass
            assert ("on_stream" in loader.explain()) == overlap
            stats = loader.stats()
            counts.append({name: stats["sample_neighbor"][name] for name in ("edges", "nodes", "batches")})
            counts[-1]["rows"] = stats["fetch_feature"]["rows"]
    assert counts[0] == counts[1]
    assert counts[0]["edges"] > 0


def test_a_missing_wait_is_found(gpu):
    """Streams of the stand-in run as late as they may: without a wait the rows of a batch are not there."""
    plan = items().sample_neighbor(graph(), [4]).fetch_feature(store(), node=["x"]).copy_to("cuda")
    with plan.loader(machine=MACHINE) as loader:
        final = loader._rewriting.final
    assert [stage.name for stage in final.stages[-2:]] == ["prefetch", "wait_stream"]
    wait = final.stages[-1]
    settings = hr.pipeline.plan.settings.RunSettings(seed=3)
    before = next(iter(items().sample_neighbor(graph(), [4]).loader(machine=hr.Machine())))
    coming = launched(final.stages, settings)(before)
    assert bool(coming.batch.node["x"].isnan().any())
    batch, _ = wait.runner(settings)(coming)
    assert torch.equal(batch.node["x"], store().node["x"].read(batch.n_id).rows)


def test_a_wait_cannot_be_left_out_of_a_plan(gpu):
    plan = items().sample_neighbor(graph(), [4]).fetch_feature(store(), node=["x"]).copy_to("cuda")
    with plan.loader(machine=MACHINE) as loader:
        final = loader._rewriting.final
    without = [stage for stage in final.stages if not isinstance(stage, WaitStream)]
    with pytest.raises(hr.PlanError, match="still on their way"):
        hr.pipeline.plan.verify.verify(hr.Plan(without), hr.pipeline.plan.verify.LOWERED)


def test_rows_are_read_where_they_are(gpu):
    plan = items().sample_neighbor(graph(), [4]).fetch_feature(store(), node=["x"], labels="y").copy_to("cuda")
    with plan.loader(machine=MACHINE) as loader:
        for _ in loader:
            pass
        stats = loader.stats()
    assert "bytes_from_pinned" in str(stats)
    assert any("gather" in launched for launched in gpu.launches)


def test_where_memory_cannot_be_pinned_rows_are_copied(gpu, monkeypatch):
    def refuse(tensor):
        raise hr.HeadraceError("no more memory can be locked")

    monkeypatch.setattr("headrace.ops.features.pinned.pin", refuse)
    fresh = hr.FeatureStore(node={"x": torch.randn(200, 8), "y": torch.arange(200)})
    plan = items().sample_neighbor(graph(), [4]).fetch_feature(fresh, node=["x"], labels="y")
    with pytest.warns(UserWarning, match="read by the CPU and copied, as no more memory can be locked"):
        loader = plan.copy_to("cuda").loader(machine=MACHINE)
    with loader:
        assert [batch.digest() for batch in loader] == digests(plan, hr.Machine())
        assert "bytes_from_pinned" not in str(loader.stats())


def test_machines_without_a_gpu_say_so():
    plan = items().sample_neighbor(graph(), [4]).fetch_feature(store(), node=["x"])
    with plan.loader(machine=replace(MACHINE, gpus=0)) as loader:
        text = loader.explain()
    assert "uva_gather (no GPU)" in text
    assert "stream_overlap (no GPU)" in text


@pytest.mark.parametrize("position", [1, 2, 3], ids=["sampled there", "fetched there", "copied there"])
@pytest.mark.parametrize("stream_overlap", [True, False])
def test_rows_that_the_loop_writes(position, stream_overlap, gpu):
    """What threads launched for the next batch is launched anew, whatever they have done by then."""
    x = torch.zeros(graph().num_nodes, 3)
    plan = (
        items(batch_size=10).sample_neighbor(graph(), [3, 2]).fetch_feature(hr.FeatureStore(node={"x": x}), node=["x"])
    )
    with copied(plan.prefetch(), position).loader(machine=MACHINE, stream_overlap=stream_overlap) as loader:
        for number, batch in enumerate(loader):
            assert (batch.x == number).all()
            time.sleep(5e-3)
            x.fill_(number + 1)
    assert number > 4


def test_the_stream_that_takes_a_batch_is_told_of_what_its_parts_keep():
    """Types of nodes that a fetch has looked up on the side stream, whose memory would be given to others."""
    batch = next(iter(typed_items().sample_neighbor(typed_graph(), [3]).loader()))
    known = {id(tensor) for tensor in kept_tensors(batch)}
    assert {id(tensor) for tensor in batch.tensors()} <= known
    places, edges = batch.types.places("a"), batch.blocks[0].edge_types
    after = {id(tensor) for tensor in kept_tensors(batch)}
    assert places is not None
    assert {id(edges), id(batch.types.types)} <= after
    assert not {id(edges), id(batch.types.types)} & known
