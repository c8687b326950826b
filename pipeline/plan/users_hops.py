"""What samplers of users return: blocks that fit the batch, and where ranks share its nodes, those of each alone."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from headrace.ops.errors import PlanError
from headrace.pipeline.data import Block, MiniBatch
from headrace.pipeline.data.arrays import describe
from headrace.pipeline.data.checks import is_as_made
from headrace.pipeline.plan.stage import Stage


def check_cooperates(stage: Stage, *, in_trees: bool) -> None:
    """Refuse a stage of a user's class whose work ranks cannot share.

    Parameters
    ----------
    stage
        The stage.
    in_trees
        Whether a stage before it has planted trees.

    Raises
    ------
    PlanError
        Naming it and what it can declare.
    """
    name, kind = f"cooperative: {stage.origin.name}", type(stage).__name__
    finds = bool(stage.num_hops) or "blocks" in stage.writes
    if stage.plants_trees:
        if finds:
            raise PlanError(
                f"{name}: expected a stage that plants trees to find no edges, got {kind}, which does both; ranks "
                "share the roots in between: let a stage behind it find them"
            )
        return
    by_node = getattr(stage, "finds_by_node", False)
    if "slot" in stage.writes and not in_trees and not by_node:
        raise PlanError(
            f"{name}: expected trees that a stage plants, as their numbers count those of all ranks, got {kind}, which "
            "writes slot; write plants_trees = True in the class of the stage that gives each seed its tree"
        )
    if not finds and ("n_id" not in stage.writes or "seeds" in stage.writes):
        return
    if not by_node:
        raise PlanError(
            f"{name}: expected a stage that finds edges for each node of n_id by itself, as each rank has a part of "
            f"them, got {kind}, which does not declare it; go by n_id and slot, not by seeds, one hop a stage, and "
            f'write finds_by_node = True in {kind} ("A sampler of your own" in docs/extending.md), or pass '
            "cooperative=False"
        )
    if stage.num_hops > 1:
        raise PlanError(
            f"{name}: expected one hop in a stage, as ranks exchange nodes behind each, got num_hops={stage.num_hops} "
            f"of {kind}; make it an hr.ext.MacroStage, whose parts() has a stage for each hop"
        )


def misfit_of(stage: Stage, before: MiniBatch, behind: MiniBatch) -> str | None:
    """Return what a stage returned that does not fit the traits that it declares; None where all does."""
    if stage.plants_trees and (problem := _misfit_of_trees(behind)) is not None:
        return f", which plants trees, to return {problem}"
    if getattr(stage, "finds_by_node", False) and (problem := _misfit_of_hop(before, behind)) is not None:
        return f", which finds by node, to return {problem}"
    return None


def _misfit_of_trees(behind: MiniBatch) -> str | None:
    slot, num_trees = behind.slot, behind.item_index.shape[0]
    got = describe(slot)
    if isinstance(slot, Tensor) and slot.dtype == torch.int64 and slot.shape == behind.n_id.shape:
        if not slot.is_cpu or not slot.numel():
            return None
        least, most = (int(one) for one in slot.aminmax())
        if least >= 0 and most < num_trees:
            return None
        got = f"{least} to {most}"
    return f"slot of int64, the number of a seed, below {num_trees}, for each of n_id, got {got}"


def _misfit_of_hop(before: MiniBatch, behind: MiniBatch) -> str | None:
    more = len(behind.blocks) - len(before.blocks)
    num_given, num_nodes = before.n_id.shape[0], behind.n_id.shape[0]
    if more not in (0, 1):
        return f"one block more in front, got {more} more; make one hop a stage"
    if not _begins_with(behind.n_id, before.n_id):
        return f"n_id that begins with the {num_given} that it was given, got others; go by n_id, not by seeds"
    if (behind.slot is None) != (before.slot is None) or (
        before.slot is not None
        and behind.slot is not None
        and not (len(behind.slot) == num_nodes and _begins_with(behind.slot, before.slot))
    ):
        return f"slot with a tree for each of n_id, where it was given any, got {describe(behind.slot)}"
    if more == 0:
        sizes = [[(block.num_src, block.num_dst) for block in batch.blocks] for batch in (before, behind)]
        fits = sizes[0] == sizes[1] and num_nodes == num_given
        return None if fits else "a block in front for the nodes that it added, got none"
    block = behind.blocks[0]
    if (block.num_src, block.num_dst) != (num_nodes, num_given):
        return f"a block from its {num_nodes} n_id to the {num_given} that it was given, got {block!r}"
    if behind.num_sampled_nodes != (*before.num_sampled_nodes, num_nodes - num_given):
        return (
            f"num_sampled_nodes with one more entry, {num_nodes - num_given}, got {behind.num_sampled_nodes} behind "
            f"{before.num_sampled_nodes}"
        )
    return None


def _begins_with(values: Tensor, first: Tensor) -> bool:
    if values is first:
        return True
    start = values[: first.shape[0]]
    return start.dtype == first.dtype and start.shape == first.shape and torch.equal(start, first)


def misfit_of_blocks(before: MiniBatch, behind: MiniBatch, *, is_whole: bool) -> str | None:
    """Return what is wrong with the blocks of a batch, or with its seeds; None where nothing is.

    Parameters
    ----------
    before, behind
        The batch that a stage was given, and what it returned.
    is_whole
        Whether more reads the batch than a training loop, which may take nodes and blocks apart.
    """
    if behind.blocks is not before.blocks:
        for block in behind.blocks:
            if not isinstance(block, Block):
                return f"blocks that are all hr.Block, got {type(block).__name__}"
            if not is_as_made(block) and (problem := _misfit_of_edges(block)) is not None:
                return problem
    elif behind.n_id is before.n_id and behind.seeds is before.seeds and behind.seed_index is before.seed_index:
        return None
    # Ranks that share a batch have rows for each other.
    return _misfit_of_nodes(behind) if is_whole and not behind.exchanges else None


def _misfit_of_edges(block: Block) -> str | None:
    indptr, indices = block.indptr, block.indices
    if not indptr.is_cpu or not indices.is_cpu:
        return None
    if int(indptr[0]) != 0 or int(indptr[-1]) != indices.shape[0] or bool((indptr.diff() < 0).any()):
        return f"blocks whose indptr goes up from 0 to the number of edges, {indices.shape[0]}, got {block!r}"
    least, most = (int(one) for one in indices.aminmax()) if indices.numel() else (0, -1)
    if least < 0 or most >= block.num_src:
        return f"blocks whose indices are sources, from 0 to {block.num_src - 1}, got {least} to {most}"
    return None


def _misfit_of_nodes(batch: MiniBatch) -> str | None:
    blocks, nodes, index = batch.blocks, batch.n_id, batch.seed_index
    if blocks and blocks[0].num_src != nodes.shape[0]:
        return f"blocks[0] with a source for each of the {nodes.shape[0]} n_id, got {blocks[0]!r}"
    for number, (outer, inner) in enumerate(pairwise(blocks), 1):
        if outer.num_dst != inner.num_src:
            return (
                f"blocks[{number}] with the {outer.num_dst} destinations of blocks[{number - 1}] as its sources, got "
                f"{inner!r}"
            )
    if not isinstance(index, Tensor) or index.dtype != torch.int64 or index.shape != batch.seeds.shape:
        return f"seed_index of int64, of the shape of seeds, got {describe(index)}"
    if not index.is_cpu or not index.numel():
        return None
    least, most = (int(one) for one in index.aminmax())
    if blocks and most >= blocks[-1].num_dst:
        num_dst = blocks[-1].num_dst
        return f"seeds that are destinations of blocks[-1], so that seed_index is below {num_dst}, got {most}"
    if least < 0 or most >= nodes.shape[0] or not torch.equal(nodes[index], batch.seeds):
        return "n_id with the seeds at seed_index, got others; seeds come first in n_id"
    return None
