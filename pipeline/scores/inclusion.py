"""How often a plan reads each node: the probabilities of its sampler, hop by hop, or counts in a short run."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Iterator

import torch
from torch import Tensor

from headrace.ops.sampling.rules import LaborImportanceRule, LaborRule, NeighborRule
from headrace.pipeline.data import Graph, GraphView, MiniBatch, whole_number
from headrace.pipeline.lowered.sample_hop import SampleHop
from headrace.pipeline.plan import LAST_EPOCH, InputError, MacroStage, Plan, PlanError, graphs_of
from headrace.pipeline.plan.checks import tables_of
from headrace.pipeline.plan.verify import check_same_nodes
from headrace.pipeline.scores.arguments import shown
from headrace.pipeline.scores.reach import PickRule, reached_afresh, reached_by_edges, reached_by_shared_variates
from headrace.pipeline.stages.item_sampler import ItemSampler
from headrace.pipeline.stages.steps import Prefetch

_RULES = (NeighborRule, LaborRule, LaborImportanceRule)
_SUPPORTED = (
    "it follows hops of sample_neighbor, sample_layer_neighbor and sample_in_subgraph over a whole graph, from an "
    "ItemSampler; use hr.scores.access_frequency(plan), which counts what any sampler reaches"
)


def inclusion(plan: Plan, *, num_threads: int | None = None, progress: bool = False) -> Tensor:
    """Return the probability that a minibatch of the plan contains each node, from the laws of its sampler.

    A training item is a seed of one batch of an epoch, or of none if dropped. A node of the frontier picks each of its
    in-edges with the probability of its rule, such as min(1, fanout / in-degree), and so on for all hops of the plan;
    dependence between the picks of a node at several hops is included. No batch is made, and the result is not random:
    it follows from items, batch size, fanouts, weights and hop rule. It ranks well if a large share of the rows is
    cached.

    It is not always the best score: on clustered graphs with a cache of 1 to 5 % of the rows, `out_degree` and
    ``access_frequency(plan, num_batches=2000)`` serve more reads. Compare them there, by the hits in
    ``loader.stats()``.

    It treats nodes as being in a frontier independently of each other, which is exact on trees. In communities, where
    several paths lead from a seed to a node, it counts the node for each path. There, `access_frequency` ranks better,
    with enough batches to read hot nodes some ten times.

    LABOR is treated as Poisson sampling. The agreement of its destinations is taken into account within each hop, or,
    with ``layer_dependency``, over all hops. Importance (LABOR-1 to LABOR-*) is ignored. For LABOR by weight,
    destinations are treated as independent. Parallel edges are treated as edges from different sources.

    Parameters
    ----------
    plan : Plan
        A plan from an `hr.ItemSampler`, with one of the samplers above; stages that add no seeds do not matter.
    num_threads : int, optional
        Default: the cores this process may use. The result does not depend on it, in any bit.
    progress : bool
        Show a bar of hops, if stderr is a terminal or a notebook.

    Returns
    -------
    torch.Tensor
        float64[num_nodes], probabilities; times the number of batches, they are the expected accesses.

    Raises
    ------
    InputError
        If a stage of the plan knows the nodes of another graph.
    PlanError
        If the plan has another source or sampler, or a stage that adds seeds, such as negatives; `access_frequency`
        supports any.

    Examples
    --------
    >>> import headrace as hr
    >>> graph = hr.Graph.from_coo([0, 1, 2, 3], [4, 4, 4, 5], num_nodes=6)
    >>> plan = hr.ItemSampler([4, 5], batch_size=1).sample_neighbor(graph, [1])
    >>> [round(score, 3) for score in hr.scores.inclusion(plan).tolist()]
    [0.167, 0.167, 0.167, 0.5, 0.5, 0.5]
    """
    if not isinstance(plan, Plan):
        raise InputError(f"scores.inclusion: expected a plan, got {type(plan).__name__}")
    check_same_nodes(plan.stages)
    for seen in tables_of(plan.stages):
        seen.check()
    _check_seeds_are_items(plan)
    hops = _hops(plan)
    graph = hops[0][0].graph
    seeds = _seed_chances(plan, graph)
    reached = seeds
    laws = _laws(graph, hops, seeds, num_threads)
    for reached in shown(laws, len(hops), "inclusion", "hop", progress=progress):  # noqa: B007 - the last one counts
        pass
    return graph.by_original_ids(reached)


def _check_seeds_are_items(plan: Plan) -> None:
    """Refuse a stage that adds seeds, which are no items."""
    for stage in plan.stages[1:]:
        if "seeds" in stage.writes:
            raise PlanError(
                f"scores.inclusion: expected a plan whose seeds are its items, got {stage.name}, which adds others; "
                "leave it out, or use hr.scores.access_frequency(plan), which counts what any plan reaches"
            )


def _laws(
    graph: GraphView, hops: list[tuple[SampleHop, PickRule]], seeds: Tensor, num_threads: int | None
) -> Iterator[Tensor]:
    """Return the chances after each hop, by the law that fits all of them."""
    by_source = not any(isinstance(rule, NeighborRule) for _, rule in hops)
    shared = by_source and len({stage.hop.key_layer for stage, _ in hops}) == 1
    if any(stage.hop.weight is not None for stage, _ in hops):
        return reached_by_edges(graph, hops, seeds, num_threads, shared=shared)
    if shared:
        return reached_by_shared_variates(graph, hops, seeds, num_threads)
    return reached_afresh(graph, hops, seeds, num_threads)


def _hops(plan: Plan) -> list[tuple[SampleHop, PickRule]]:
    """Return the hops of the plan's sampler, or refuse one that does not work by rules of single nodes."""
    hops: list[tuple[SampleHop, PickRule]] = []
    for stage in plan.stages[1:]:
        for part in stage.parts() if isinstance(stage, MacroStage) else (stage,):
            if part.first_hop is None:
                continue
            if isinstance(part, SampleHop) and part.hop.trees is not None:
                raise PlanError(
                    f"scores.inclusion: expected a sampler of blocks, got {stage.name} of trees (disjoint=True or "
                    "time=); use hr.scores.access_frequency(plan), which counts what any sampler reaches"
                )
            if not isinstance(part, SampleHop) or not isinstance(part.hop.rule, _RULES):
                raise PlanError(f"scores.inclusion: expected a sampler of neighbours, got {stage.name}; {_SUPPORTED}")
            if not isinstance(part.graph, Graph):
                raise PlanError(f"scores.inclusion: expected a whole graph, got {part.graph!r}; {_SUPPORTED}")
            hops.append((part, part.hop.rule))
    if not hops:
        raise PlanError(f"scores.inclusion: expected a plan with a sampler, got {plan!r}; {_SUPPORTED}")
    return hops


def _seed_chances(plan: Plan, graph: GraphView) -> Tensor:
    """Return how likely it is that a node is a seed, float64[num_nodes]: an item is in one batch of an epoch."""
    source = plan.stages[0]
    if not isinstance(source, ItemSampler):
        raise PlanError(f"scores.inclusion: expected a plan from an ItemSampler, got {source.name}; {_SUPPORTED}")
    if source.budget is not None:
        raise PlanError("scores.inclusion: expected batches of one size, got items with a budget; give batch_size")
    items, size = source.items, source.batch_size or source.batch_size_per_rank or 1
    if items.largest_id >= graph.num_nodes:
        raise InputError(
            f"scores.inclusion: item {items.largest_id} is no node of the graph, which has {graph.num_nodes}"
        )
    nodes = graph.to_graph_ids(items.all_ids().flatten())
    # The item of each node: one may have several, such as a pair, and a node may be in several.
    item = torch.arange(len(items), device="cpu").repeat_interleave(len(nodes) // max(len(items), 1))
    full, rest = divmod(len(items), size)
    last = rest if rest and not source.drop_last else 0
    num_batches = full + (last > 0)
    if not source.shuffle:
        return _num_distinct(nodes, item // size, graph.num_nodes, below=num_batches).double() / num_batches
    counts = _num_distinct(nodes, item, graph.num_nodes, below=len(items))
    return (full * _drawn(counts, size, len(items)) + _drawn(counts, last, len(items))) / num_batches


def _num_distinct(nodes: Tensor, groups: Tensor, num_nodes: int, *, below: int) -> Tensor:
    """Return in how many of the first groups a node is, int64[num_nodes]."""
    inside = groups < below
    pairs = torch.unique(nodes[inside] * below + groups[inside])
    return torch.bincount(pairs // below, minlength=num_nodes)


def _drawn(counts: Tensor, batch_size: int, num_items: int) -> Tensor:
    """Return how likely it is that a batch without replacement has one or more of so many items, float64[n]."""
    left = num_items - torch.arange(int(counts.max()) if len(counts) else 0, dtype=torch.float64, device="cpu")
    missed = torch.cat([left.new_zeros(1), torch.log1p(-(batch_size / left).clamp(max=1)).cumsum(0)])
    return -torch.expm1(missed[counts])


def access_frequency(
    plan: Plan, *, num_batches: int = 200, num_threads: int | None = None, progress: bool = False
) -> Tensor:
    """Count the minibatches of a short run that contain each node; the run samples, but fetches nothing.

    It makes batches of epochs that training never reaches, counted down from 2**32 - 1. Counts of the training batches
    themselves would promise hits that no other run has. Items that the plan does not shuffle are shuffled here, so that
    a few batches represent all.

    The rank of a node with few accesses is random; `inclusion`, where it applies, has no such noise.

    Parameters
    ----------
    plan : Plan
        A plan with any sampler; stages that fetch, and stages after the sampler, are left out.
    num_batches : int
        Minibatches to make.
    num_threads : int, optional
        As for ``plan.loader()``. The result does not depend on it.
    progress : bool
        Show a bar of batches, if stderr is a terminal or a notebook.

    Returns
    -------
    torch.Tensor
        float64[num_nodes], whole numbers: a node counts once in a batch, because its row is read once.

    Raises
    ------
    PlanError
        If no stage of the plan samples a graph.
    InputError
        If `num_batches` is below 1, and as ``plan.loader()``.

    Examples
    --------
    >>> import headrace as hr
    >>> graph = hr.Graph.from_coo([0, 0], [1, 2], num_nodes=4)
    >>> plan = hr.ItemSampler([1, 2], batch_size=1, seed=0).sample_neighbor(graph, [1])
    >>> hr.scores.access_frequency(plan, num_batches=10).tolist()
    [10.0, 5.0, 5.0, 0.0]
    """
    if not isinstance(plan, Plan):
        raise InputError(f"scores.access_frequency: expected a plan, got {type(plan).__name__}")
    total = whole_number(num_batches, "scores.access_frequency: num_batches", 1, InputError, sys.maxsize)
    sampling = sampling_part(plan)
    num_nodes = graphs_of(sampling.stages)[0][1].num_nodes
    counts = torch.zeros(num_nodes, dtype=torch.float64, device="cpu")
    batches = itertools.islice(_batches(sampling, num_threads), total)
    for batch in shown(batches, total, "access_frequency", "batch", progress=progress):
        counts[batch.n_id] += 1  # no node is there twice
    return counts


def sampling_part(plan: Plan) -> Plan:
    """Return the plan up to its sampler, without fetches, from shuffled items.

    Raises
    ------
    PlanError
        If no stage of the plan samples a graph.
    """
    source, *stages = plan.stages
    finders = [position for position, stage in enumerate(stages) if stage.first_hop is not None]
    if not finders or not graphs_of(stages):
        raise PlanError(
            f"scores: expected a plan with a sampler, got one that ends in {plan.stages[-1].name}; add the sampler "
            "that batches are trained on, such as .sample_neighbor(graph, fanouts)"
        )
    if isinstance(source, ItemSampler):
        source = dataclasses.replace(source, shuffle=True)
    kept = [stage for stage in stages[: finders[-1] + 1] if not stage.fetches and not isinstance(stage, Prefetch)]
    return Plan([source, *kept])


def _batches(plan: Plan, num_threads: int | None) -> Iterator[MiniBatch]:
    loader = plan.loader(num_threads=num_threads, rank=0, world_size=1)
    try:
        for back in itertools.count():
            loader.set_epoch(LAST_EPOCH - back)
            yield from loader
    finally:
        loader.close()
