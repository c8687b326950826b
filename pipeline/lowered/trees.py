"""The trees that seeds grow in disjoint and temporal sampling: their roots, and how far back each may look."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from headrace.ops import InputError, gather_rows, unique_and_inverse
from headrace.ops import Trees as SeedTrees
from headrace.ops.gpu import device_of
from headrace.ops.sampling.compact import element_keys, nodes_and_slots
from headrace.pipeline.data import GraphView, MiniBatch, TypeOffsets, describe, times_of
from headrace.pipeline.data.graph_machinery import placed_once, table
from headrace.pipeline.data.times import EARLIEST, Times, check_times, earliest_allowed, latest_of
from headrace.pipeline.plan import Counts, MapStage, Runner, RunSettings, SourceStage, Stage, check_graph


@dataclass(frozen=True)
class Trees:
    """That each seed grows a tree of its own, and which edges are there for it.

    Attributes
    ----------
    time : str or None
        Name of the times that bound the trees, by which the graph is sorted; None for trees without.
    window : float or None
        How long before its seed a tree begins; None for always.
    strictly_before : bool
        Whether trees leave out edges of their seed's own time.
    """

    time: str | None = None
    window: float | None = None
    strictly_before: bool = False

    @property
    def reads(self) -> frozenset[str]:
        """Names of the batch's fields that hops in trees read."""
        return frozenset({"slot"} if self.time is None else {"slot", "seed_time"})

    def __str__(self) -> str:
        by_default = Trees()
        given = {name: value for name, value in vars(self).items() if value != getattr(by_default, name)}
        return f"Trees({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def of(self, batch: MiniBatch) -> SeedTrees:
        """Return the trees of a batch, whose seeds are planted, as kernels know them."""
        assert batch.slot is not None  # `plant_trees` stands before all that ask
        bounds = lows = None
        if self.time is not None:
            assert batch.seed_time is not None  # likewise
            bounds = latest_of(batch.seed_time, strictly_before=self.strictly_before)
            lows = earliest_allowed(batch.seed_time, self.window, strictly_before=self.strictly_before)
        known = next((len(values) for values in (batch.seed_slot, bounds) if values is not None), None)
        return SeedTrees(batch.slot, _num_trees(batch) if known is None else known, batch.seed_slot, bounds, lows)


def _num_trees(batch: MiniBatch) -> int:
    """Return how many trees there are, or a bound of that where a GPU has their slots: nobody waits for it."""
    if batch.slot is None or len(batch.slot) == 0:
        return 0
    if device_of(batch.slot) is None:
        return 1 + int(batch.slot.max())
    return max(len(batch.seeds), batch.num_global_seeds)  # those of all ranks that make batches together


def of_elements(trees: SeedTrees, slot: Tensor) -> dict[str, Tensor | None]:
    """Return what `ops.sample_hop` is to know of elements in slots, int64[n]."""

    def of(values: Tensor | None) -> Tensor | None:
        return None if values is None else values.index_select(0, slot)

    slots = slot if trees.streams is None else of(trees.streams)
    return {"slots": slots, "bounds": of(trees.bounds), "lows": of(trees.lows)}


@dataclass(frozen=True, eq=False, repr=False)
class PlantTrees(MapStage):
    """Give each seed a slot, the number of its tree, and find out when it is asked for.

    Seed i has slot i, and repeats of a node stay what they are. Both ends of pair i have slot i; rows of seeds behind
    the items, which are negatives, have the slots of the items again.

    Parameters
    ----------
    graph
        The graph that will be sampled.
    time
        Name of its times; None for trees without.
    """

    name: ClassVar[str] = "plant_trees"
    lowered: ClassVar[bool] = True
    with_types: ClassVar[bool] = True
    plants_trees: ClassVar[bool] = True
    reads: ClassVar[frozenset[str]] = frozenset({"seeds", "item_index"})

    graph: GraphView
    time: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_graph(self.name, self.graph, with_types=True)

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU can do it, for a batch that is there: of a graph in its own order."""
        return self.graph.node_ids is None

    @property
    def writes(self) -> frozenset[str]:
        times = set() if self.time is None else {"seed_time"}
        return frozenset({"seed_index", "n_id", "num_sampled_nodes", "slot"} | times)

    def check(self, before: tuple[Stage, ...]) -> None:
        source = before[0]
        if self.time is None or not isinstance(source, SourceStage):
            return
        times, given = times_of(self.graph, self.time), source.seed_times
        if isinstance(given, Tensor):
            self._check_kind(given, times)
            self._check_as_precise(source.seed_time_dtype, times)
        elif given not in (None, self.time):
            raise InputError(
                f"{self.origin.name}: expected times of seeds under the name of those of the graph, {self.time!r}, got "
                f"{given!r}; pass an array, ItemSampler(items, time=graph.node_attrs[{given!r}][items])"
            )
        elif given is not None or (source.gives_no_times and len(before) == 1):  # a stage between may give some
            self._check_nodes_have_times(times, source.gives_pairs)
            self._check_types_have_times(times, source.all_seeds())

    def runner(self, settings: RunSettings) -> Runner:
        times = None if self.time is None else times_of(self.graph, self.time)

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            return self.planted(batch, times, settings), {}

        return run

    def planted(self, batch: MiniBatch, times: Times | None, settings: RunSettings) -> MiniBatch:
        """Return the batch with its seeds as roots, and their times, if the graph has some."""
        planted = _planted(batch, self.graph.num_nodes)
        if batch.seed_slot is None and settings.world_size > 1:
            planted = planted.replace(seed_slot=slots_of_rank(batch, settings))
        if times is None:
            return planted
        assert self.time is not None  # of which the times are
        check_times(self.graph, self.time)
        return planted.replace(seed_time=self._times_of_seeds(batch, times))

    def _times_of_seeds(self, batch: MiniBatch, times: Times) -> Tensor:
        """Return what the batch has, or the times of its nodes."""
        given = batch.seed_time
        if given is None:
            self._check_nodes_have_times(times, batch.seeds.ndim > 1)
            assert times.nodes is not None  # just looked at
            own = gather_rows(self._times_on(times.nodes, device_of(batch.seeds)), self.graph.to_graph_ids(batch.seeds))
            self._check_types_have_times(times, batch.seeds)
            return own
        self._check_kind(given, times)
        if given.shape != batch.item_index.shape:
            raise InputError(
                f"{self.origin.name}: expected a time for each of {len(batch.item_index)} seeds, got {describe(given)}"
            )
        return times.rounded(given)

    def _times_on(self, of_nodes: Tensor, device: torch.device | None) -> Tensor:
        """Return the times of nodes where a GPU reads them, placed once."""
        if device is None:
            return of_nodes
        return placed_once(self.graph, f"times of nodes {self.time}", of_nodes, device)

    def _check_nodes_have_times(self, times: Times, pairs: bool) -> None:
        if times.nodes is None or pairs:
            why = "pairs have none of their own" if pairs else f"nodes have no attribute {self.time!r}"
            raise InputError(
                f"{self.origin.name}: expected the times at which seeds are asked for, got none, and {why}; pass them "
                "to the source, ItemSampler(items, time=...), or to a loader of headrace.pyg, input_time="
            )

    def _check_types_have_times(self, times: Times, seeds: Tensor | None) -> None:
        """Refuse seeds of a type whose nodes have been there always: at that time they find nothing that has a time."""
        if seeds is None or self.graph.node_types is None:
            return
        types = self.graph.node_types
        timeless = table(self.graph, f"types without times {self.time}", lambda: _types_without(times.nodes, types))
        if timeless.any() and (found := timeless[(numbers := types.numbers_of(seeds).cpu())].nonzero()).numel():
            name = types.names[int(numbers[found[0]])]
            raise InputError(
                f"{self.origin.name}: expected the times at which seeds are asked for, got none, and nodes of type "
                f"{name!r} have no {self.time!r} of their own; pass them to the source, ItemSampler(items, time=...), "
                "or to a loader of headrace.pyg, input_time="
            )

    def _check_kind(self, given: Tensor, times: Times) -> None:
        if given.dtype != times.dtype:
            raise InputError(
                f"{self.origin.name}: expected times of seeds of the kind of those of the graph, {times.dtype}, got "
                f"{describe(given)}; convert one of them"
            )

    def _check_as_precise(self, given: torch.dtype | None, times: Times) -> None:
        """Refuse times of seeds that were rounded where those of the graph are not: which are equal, nobody knows."""
        if given is None or not given.is_floating_point or given.itemsize >= times.given.itemsize:
            return
        if all(one is None or bool((one.to(given) == one).all()) for one in (times.edges, times.nodes)):
            return
        seeds, graph = (str(one).removeprefix("torch.") for one in (given, times.given))
        raise InputError(
            f"{self.origin.name}: expected times of seeds as precise as those of the graph, got {seeds} seeds and "
            f"{graph} times {self.time!r}; pass the times of seeds as {graph}, unrounded, or those of the graph as "
            f"{seeds}"
        )


def slots_of_rank(batch: MiniBatch, settings: RunSettings) -> Tensor:
    """Return slots for the seeds of a rank, of a source that knows nothing of those of other ranks."""
    places = torch.arange(len(batch.item_index), device=batch.item_index.device)
    return places * settings.world_size + settings.rank


def _types_without(times: Tensor | None, types: TypeOffsets) -> Tensor:
    """Return for each node type whether all its nodes have been there always: bool[num_types]."""
    assert times is not None  # looked at by the caller
    always = times == (EARLIEST if times.dtype == torch.int64 else -torch.inf)
    ranges = [types.id_range(name) for name in types.names]
    return torch.tensor([len(one) > 0 and bool(always[one.start : one.stop].all()) for one in ranges], device="cpu")


def _planted(batch: MiniBatch, num_nodes: int) -> MiniBatch:
    """Return the batch with its seeds as roots."""
    seeds = batch.seeds
    slot = torch.arange(len(seeds), device=seeds.device)
    if seeds.ndim == 1:
        return batch.replace(n_id=seeds, seed_index=slot, slot=slot, num_sampled_nodes=(len(seeds),))
    slot = slot.remainder(max(len(batch.item_index), 1))
    keys = element_keys(seeds.flatten(), slot.repeat_interleave(seeds.shape[1]), num_nodes)
    elements, inverse = unique_and_inverse(keys)
    nodes, slots = nodes_and_slots(elements, num_nodes)
    return batch.replace(n_id=nodes, seed_index=inverse.view_as(seeds), slot=slots, num_sampled_nodes=(len(nodes),))
