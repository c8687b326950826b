"""Conversion to DGL, ahead of the training loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.ops.errors import InputError, PlanError
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.interop.conversions import batch_to_dgl, require_dgl
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.stage import Counts, Runner, Stage
from headrace.pipeline.plan.verbs import verb
from headrace.pipeline.stages.conversion import Conversion, sampled_hops
from headrace.pipeline.stages.item_sampler import ItemSampler

_PAIRS = (
    "to_dgl: the seeds are pairs, whose rows and labels blocks cannot hold; leave out to_dgl() and call batch.to_dgl() "
    "beside batch.seed_index and batch.y"
)


@verb("to_dgl")
@dataclass(frozen=True, eq=False, repr=False)
class ToDgl(Conversion):
    """Turn every batch into a list of DGL's blocks, as `MiniBatch.to_dgl` does, which says what they hold.

    It ends what a plan does on the CPU: only ``prefetch`` and ``copy_to`` may follow. As the conversion is made in
    background threads, the training loop receives blocks as DGL's own loaders would give them::

        for blocks in plan.fetch_feature(store, node=["x"], labels="y").to_dgl().loader():
            out = model(blocks, blocks[0].srcdata["x"])
            loss = criterion(out, blocks[-1].dstdata["y"])

    Batches stay the same, so a checkpoint can be loaded with or without this stage.

    Raises
    ------
    PlanError
        When the plan is made into a loader in which ranks make batches together, where hops share one block, or for
        seeds that are pairs, which blocks cannot hold.
    ModuleNotFoundError
        Then as well, if DGL is not installed.
    """

    def check(self, before: tuple[Stage, ...]) -> None:
        super().check(before)
        hops = sampled_hops(before)
        if len(hops) > 1 and any(getattr(stage, "expand", None) == "new" for stage in hops):
            raise PlanError(f'{self.name}: {len(hops)} hops share one block; sample with expand="all", or use to_pyg()')
        source = before[0]
        if isinstance(source, ItemSampler) and source.items.are_pairs:
            raise PlanError(_PAIRS)
        require_dgl(self.name)

    def runner(self, settings: RunSettings) -> Runner:
        del settings

        def run(batch: MiniBatch) -> tuple[Any, Counts]:
            if batch.seeds.ndim == 2:  # from a NodeSource, which does not say beforehand
                raise InputError(_PAIRS)
            num_edges = sum(block.num_edges for block in batch.blocks)
            return batch_to_dgl(batch), {"converted_nodes": batch.n_id.numel(), "converted_edges": num_edges}

        return run
