"""Fused sampling where the arrays of a graph are on a GPU: arguments for the twin, and errors from what it finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import torch

from headrace.ops._arrays import Array
from headrace.ops.errors import InputError
from headrace.ops.gpu import device_errors, on_device
from headrace.ops.graphs.ranked_rows import RankedRows
from headrace.ops.random.dependency import BlendedKey
from headrace.ops.sampling.edge_positions import EdgePositions
from headrace.ops.sampling.find_edges_on_gpu import gaps_of
from headrace.ops.sampling.on_gpu import check_elements, graph_on, hop_of, refuse
from headrace.ops.sampling.rules import ByRelation, HopRule
from headrace.ops.sampling.sampled import Trees

if TYPE_CHECKING:
    from headrace.cuda.blocks import GpuSampled
    from headrace.cuda.elements import GpuTrees
    from headrace.cuda.faults import Fault
    from headrace.cuda.sizes import Taken
    from headrace.ops.cache.line_cache import LineCache
    from headrace.ops.sampling.typed_rows import TypedRows

Made = TypeVar("Made")

#: Of so many ways to sample a sampler knows what minibatches take.
MOST_WAYS = 64


def if_there_is_room(array: torch.Tensor, device: torch.device, make: Callable[[], Made], otherwise: Made) -> Made:
    """Return a table of a graph with entries for the edges of an array, or something else if it is not to be made.

    A device that has no room for the array, which is in memory of the host then, is to have none for a table.
    """
    if array.device != device:
        return otherwise
    try:
        return make()
    except torch.cuda.OutOfMemoryError:
        return otherwise


class BlockSampler:
    """The fused sampler on a device: `headrace.ops.BlockSampler` has one where its arrays are on a GPU.

    The first LABOR hop finds parallel edges, if there may be any, the first draw by weight makes running sums; both are
    kept. Of a graph that is too large for the device they would be as well: each hop then makes those of its frontier.

    Parameters
    ----------
    device
        Where seeds are and blocks will be.
    indptr, indices, edge_ids
        The graph, on the device or in pinned memory.
    weights
        By which to pick, vetted, there as well, or None.
    times
        By which rows are sorted, there as well, or None.
    rows
        Those of a graph with types.
    stage
        What errors name.
    """

    def __init__(
        self,
        device: torch.device,
        indptr: Array | RankedRows,
        indices: Array,
        edge_ids: Array | None,
        weights: Array | None,
        times: Array | None,
        rows: TypedRows | None,
        stage: str,
    ) -> None:
        from headrace.cuda.edge_numbers import EdgeNumbers
        from headrace.cuda.pick_weighted import sums_of_graph
        from headrace.cuda.streams import MadeOnce

        self._device = device
        self._rows = rows
        if rows is not None:
            indptr = rows.row_ptr
        self._graph = graph = graph_on(
            device, indptr, indices, stage, edge_ids=edge_ids, times=times, weights=weights, rows=rows
        )

        def make_sums() -> torch.Tensor | None:
            assert graph.weights is not None
            return if_there_is_room(graph.weights, device, lambda: sums_of_graph(graph, device), None)

        def make_numbers() -> EdgeNumbers | None:
            def make() -> EdgeNumbers | None:
                return EdgeNumbers.of_graph(graph.indptr, graph.indices, device)

            otherwise: EdgeNumbers | None = EdgeNumbers()
            return if_there_is_room(graph.indices, device, make, otherwise)

        #: What minibatches took, by how they are sampled.
        self._taken: dict[tuple[object, ...], Taken] = {}
        self._sums = MadeOnce(device, make_sums, lambda sums: () if sums is None else (sums,))
        self._numbers = MadeOnce(device, make_numbers, lambda found: () if found is None else found.tensors)

    @property
    def scratch_bytes(self) -> int:
        """Bytes kept between calls."""
        return self._sums.num_bytes + self._numbers.num_bytes

    def sample(
        self,
        seeds: Array,
        rules: Sequence[HopRule],
        keys: Sequence[int | BlendedKey],
        only_new: bool,
        edge_ids: bool,
        parallel_edges: bool,
        trees: Trees | None,
        excluded: EdgePositions | None,
        fetch: bool,
        cache: LineCache | None,
        stage: str,
    ) -> GpuSampled:
        """Sample several hops of unique seeds, or of trees; errors are those of the kernels of the CPU."""
        if cache is not None:
            cache.check_is_for(self._graph.indices, self._device, stage)
        from headrace.cuda.blocks import sample_blocks
        from headrace.cuda.edge_numbers import EdgeNumbers
        from headrace.cuda.faults import Fault
        from headrace.cuda.sizes import Taken
        from headrace.ops.warn_user import warn_user

        first = on_device(seeds, "seeds", self._device, stage=stage)
        planted = None if trees is None else self._planted(first, trees, rules, stage)
        by_weight = self._graph.weights is not None
        hops = [hop_of(rule, key, self._rows, by_weight, stage) for rule, key in zip(rules, keys, strict=True)]
        in_windows = trees is not None and trees.lows is not None
        try:
            with device_errors():
                numbers, graph = None, self._graph
                if parallel_edges and any(rule.has_edge_variates for rule in rules):
                    # What is known of whole rows does not hold of those that a window cuts in front.
                    numbers = EdgeNumbers() if in_windows else self._numbers.here()
                if by_weight and not in_windows and any(map(_draws, rules)):
                    graph = graph._replace(sums=self._sums.here())
                gaps = gaps_of(excluded, graph.indptr, self._device, stage, in_trees=trees is not None)
                how = (*[hop.rules for hop in hops], only_new, numbers is None, trees is None, gaps is None, fetch)
                if how not in self._taken and len(self._taken) == MOST_WAYS:
                    self._taken.clear()
                taken = self._taken.setdefault(how, Taken(warn_user))
                return sample_blocks(
                    graph, first, hops, only_new=only_new, edge_ids=edge_ids, numbers=numbers, taken=taken,
                    trees=planted, gaps=gaps, fetch=fetch and planted is None and gaps is None, cache=cache,
                )  # fmt: skip
        except Fault as fault:
            if trees is not None:
                _refuse_seeds(fault, first, trees)
            refuse(fault, first, self._graph, stage, "seeds")

    def _planted(self, seeds: torch.Tensor, trees: Trees, rules: Sequence[HopRule], stage: str) -> GpuTrees:
        """Return trees as the twins know them, which find out whether slots are trees."""
        from headrace.cuda.elements import GpuTrees, node_bits

        num_nodes, num_trees = self._graph.num_nodes, trees.num_trees
        views: dict[str, torch.Tensor | None] = {}
        for name, array, size, each in (
            ("slots", trees.slots, len(seeds), "seed"),
            ("streams", trees.streams, num_trees, "tree"),
            ("bounds", trees.bounds, num_trees, "tree"),
            ("lows", trees.lows, num_trees, "tree"),
        ):
            view = None if array is None else on_device(array, name, self._device, stage=stage)
            if view is not None and len(view) != size:
                raise InputError(f"{stage}: expected {name} to have one entry per {each} ({size}), got {len(view)}")
            views[name] = view
        if num_trees > 1 << (63 - node_bits(num_nodes)):
            raise InputError(
                f"{stage}: {num_trees} trees of a graph of {num_nodes} nodes are more than 63 bits can tell apart; use "
                "smaller batches"
            )
        check_elements(self._graph, views, rules, stage)
        slots = views["slots"]
        assert slots is not None
        return GpuTrees(slots, num_trees, views["streams"], views["bounds"], views["lows"])


def _draws(rule: HopRule) -> bool:
    """Whether a rule draws edges destination by destination."""
    if isinstance(rule, ByRelation):
        return any(map(_draws, rule.rules))
    return rule.traits.draws_edges and rule.count >= 0


def _refuse_seeds(fault: Fault, seeds: torch.Tensor, trees: Trees) -> None:
    """Say what is wrong with the roots of trees, if anything is."""
    stage = "BlockSampler.sample_trees"
    if fault.kind == "no tree":
        slot = int(trees.slots[fault.item])
        raise InputError(
            f"BlockSampler.sample: slots[{fault.item}] = {slot} is no tree: expected 0 <= slot < {trees.num_trees}"
        ) from fault
    if fault.kind == "too many":
        raise InputError(
            f"{stage}: one minibatch reaches {fault.item} nodes, those of two trees counted twice, more than a local "
            "id can number; use smaller batches or fanouts"
        ) from fault
    if fault.kind == "repeated":
        slots = trees.slots.to(seeds.device)
        node, slot = int(seeds[fault.item]), int(slots[fault.item])
        first = int(((seeds == node) & (slots == slot)).nonzero()[0])
        raise InputError(
            f"{stage}: seeds[{first}] and seeds[{fault.item}] are both {node} in slot {slot}: expected seeds that are "
            "unique within their trees"
        ) from fault
