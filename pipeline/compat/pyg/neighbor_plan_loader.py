"""What the loaders of neighbourhoods share, whether of nodes or of links."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NoReturn

from torch import Tensor

from headrace.ops.errors import InputError
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
    strictly_before: bool
    weight_attr: str | None
    directed: bool
    input_data: Any
    custom_cls: Any

    def enable_cpu_affinity(self, loader_cores: Any = None) -> NoReturn:
        """Refuse to bind workers to cores: PyG does so in the function that starts a worker process."""
        del loader_cores
        self._refuse("enable_cpu_affinity", "run the program on some cores, taskset --cpu-list 0-3 python ...")

    def enable_multithreading(self, worker_threads: Any = None) -> NoReturn:
        """Refuse numbers of threads for worker processes."""
        del worker_threads
        self._refuse("enable_multithreading", "make the loader with num_threads=, the threads of one call of a kernel")

    def enable_memory_log(self) -> NoReturn:
        """Refuse to log the memory of worker processes."""
        self._refuse("enable_memory_log", "log psutil.Process().memory_info().rss, which has the workers in it")

    def _refuse(self, method: str, instead: str) -> NoReturn:
        raise InputError(
            f"{type(self).__name__}: expected no {method}(), which is for worker processes, got a call of it; "
            f"workers are threads of this process: {instead}"
        )

    def check_strictly_before(self, neighbor_sampler: Any) -> None:
        """Refuse `strictly_before` with another sampler, which would ignore it."""
        if self.strictly_before and neighbor_sampler is not None:
            raise InputError(
                f"{type(self).__name__}: expected strictly_before=False beside neighbor_sampler, which draws what it "
                "was made for, got True; make the sampler with it, headrace.pyg.Sampler(..., strictly_before=True)"
            )

    def own_sampler(self, data: Any) -> Sampler:
        """Return the sampler for the arguments of the loader."""
        return Sampler(
            data,
            self.num_neighbors,
            subgraph_type=self.subgraph_type,
            replace=self.replace,
            disjoint=self.disjoint,
            temporal_strategy=self.temporal_strategy,
            time_attr=self.time_attr,
            strictly_before=self.strictly_before,
            weight_attr=self.weight_attr,
            directed=self.directed,
            seed=self.seed,
            num_threads=self.num_threads,
        )

    @property
    def item_times(self) -> Tensor | None:
        """The time of each item."""
        time: Tensor | None = self.input_data.time
        return time

    def samples_ahead_by(self, sampler: Any) -> bool:
        """Return whether a sampler runs in threads; a sampler of the user does so only with ``num_workers``."""
        return isinstance(sampler, Sampler) or self.num_workers > 0

    def settings_of(self, sampler: Any) -> tuple[Any, ...]:
        """Return the `settings` with those of the sampler; a sampler of the user is called for every batch."""
        parameters = sampler.parameters if isinstance(sampler, Sampler) else ()
        return (*super().settings, sampler, str(parameters))

    @abstractmethod
    def sampled_now(self, items: Any) -> Any:
        """Return the ``SamplerOutput`` of some items, in the calling thread."""

    def sampled_at(self, index: Any) -> Any:
        """Return the ``SamplerOutput`` of the items at some positions."""
        return self.sampled_now(self.input_data[index])

    def collate_fn(self, index: Any) -> Any:
        """Return a batch of the items at some positions; PyG calls it for ``loader([positions])``."""
        out = self.sampled_at(index)
        return self.filter_fn(out) if self.filter_per_worker else out
