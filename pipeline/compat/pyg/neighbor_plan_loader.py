"""What the loaders of neighbourhoods share, whether of nodes or of links."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from headrace.pipeline.compat.pyg.plan_loader import PlanLoader
from headrace.pipeline.compat.pyg.sampler import Sampler


class NeighborPlanLoader(PlanLoader):
    """Base of the loaders whose batches come from a `Sampler`, or from one of the user."""

    num_neighbors: Any
    replace: bool
    subgraph_type: Any
    disjoint: bool
    temporal_strategy: str
    time_attr: str | None
    weight_attr: str | None
    directed: bool
    input_data: Any

    def own_sampler(self, data: Any) -> Sampler:
        """Return the sampler that the arguments of the loader say."""
        return Sampler(
            data,
            self.num_neighbors,
            subgraph_type=self.subgraph_type,
            replace=self.replace,
            disjoint=self.disjoint,
            temporal_strategy=self.temporal_strategy,
            time_attr=self.time_attr,
            weight_attr=self.weight_attr,
            directed=self.directed,
            seed=self.seed,
            num_threads=self.num_threads,
        )

    @property
    def item_times(self) -> Tensor | None:
        """When each of the items is asked for."""
        time: Tensor | None = self.input_data.time
        return time
