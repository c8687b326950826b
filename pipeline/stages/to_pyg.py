"""Conversion to PyG, ahead of the training loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.ops.errors import PlanError
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.interop.conversions import batch_to_pyg, require_pyg
from headrace.pipeline.plan.stage import Counts, Runner, RunSettings, Stage
from headrace.pipeline.plan.verbs import verb
from headrace.pipeline.stages.conversion import Conversion, sampled_hops


@verb("to_pyg")
@dataclass(frozen=True, eq=False, repr=False)
class ToPyg(Conversion):
    """Turn every batch into a ``torch_geometric.data.Data``; `MiniBatch.to_pyg` describes its contents.

    Only ``prefetch`` and ``copy_to`` may follow. Background threads convert, so the training loop receives a Data as
    from PyG's own loaders::

        loader = (
            hr.ItemSampler(train_ids, batch_size=1024, shuffle=True)
            .sample_neighbor(graph, fanouts=[15, 10], expand="new")
            .fetch_feature(store, node=["x"], labels="y")
            .to_pyg()
            .loader()
        )
        for data in loader:
            out = model(data.x, data.edge_index)[: data.batch_size]

    Batches stay the same, so a checkpoint can be loaded with or without this stage.

    Raises
    ------
    PlanError
        When the loader is made: if ranks make batches together, or if hops overlap and have no edge ids, which identify
        repeated edges.
    ModuleNotFoundError
        When the loader is made, if torch_geometric is not installed.
    """

    def check(self, before: tuple[Stage, ...]) -> None:
        super().check(before)
        require_pyg(self.name)
        hops = [stage for stage in sampled_hops(before) if getattr(stage, "expand", None) == "all"]
        if len(hops) > 1 and any(getattr(stage, "edge_ids", True) is False for stage in hops):
            raise PlanError(
                f"{self.name}: {len(hops)} hops share edges, which are known by their ids, but carry none; sample with "
                'edge_ids=True where the sampler has them, or with expand="new"'
            )

    def runner(self, settings: RunSettings) -> Runner:
        del settings

        def run(batch: MiniBatch) -> tuple[Any, Counts]:
            data = batch_to_pyg(batch)
            return data, {"converted_nodes": int(data.num_nodes), "converted_edges": int(data.num_edges)}

        return run
