"""How often nodes are read, counted in a short run of the plan."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Iterator

import torch
from torch import Tensor

from headrace.ops.errors import InputError, PlanError
from headrace.pipeline.data.arrays import whole_number
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.plan.checks import graphs_of
from headrace.pipeline.plan.plan import Plan
from headrace.pipeline.plan.source import LAST_EPOCH
from headrace.pipeline.scores.arguments import shown
from headrace.pipeline.stages.item_sampler import ItemSampler
from headrace.pipeline.stages.prefetch import Prefetch


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
