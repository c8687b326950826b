"""The fused sampler: several hops in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch

from headrace.ops import _native
from headrace.ops._arrays import ID_DTYPES, Array, as_num_threads, as_numpy, edge_array, weight_array
from headrace.ops.borrowed import Borrowed
from headrace.ops.errors import InputError
from headrace.ops.gpu import device_of
from headrace.ops.graphs.ranked_rows import RankedRows, bounds_of, row_arrays
from headrace.ops.random.dependency import BlendedKey
from headrace.ops.sampling import fused_on_gpu
from headrace.ops.sampling.edge_positions import EdgePositions, native_excluded
from headrace.ops.sampling.kernel_rules import native_keys, native_rules
from headrace.ops.sampling.rules import HopRule
from headrace.ops.sampling.sample import check_weights, optional
from headrace.ops.sampling.sampled import Sampled, SampledHop, Trees, tree_arrays

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.ops.cache.line_cache import LineCache
    from headrace.ops.sampling.typed_rows import TypedRows


class BlockSampler:
    """Sample several hops in one call, without edge lists or sorting in between (FastSample, arXiv 2311.17847).

    The result is bit for bit that of `sample_hop` followed by `compact`, hop by hop. The sampler keeps scratch memory
    between calls, for each call that runs at the same time: 4 bytes per node of a graph of up to 2**27 nodes, otherwise
    16 to 64 bytes per node of the largest minibatch. With weights it keeps, from the first `NeighborRule` on, running
    sums of two bytes per edge. `scratch_bytes` is the total. Several threads may call it at once. The first LABOR hop
    checks once whether there are parallel edges.

    Parameters
    ----------
    indptr : torch.Tensor, numpy.ndarray or RankedRows
        int64[num_nodes + 1]; of a part of a graph the rows of its own nodes. The graph's arrays are borrowed, not
        copied: do not change them.
    indices : torch.Tensor or numpy.ndarray
        int32[num_edges] or int64[num_edges].
    edge_ids : torch.Tensor or numpy.ndarray, optional
        int32[num_edges] or int64[num_edges], returned for the picked edges; without it their CSC positions are
        returned.
    weights : torch.Tensor or numpy.ndarray, optional
        float32[num_edges] or float64[num_edges] in CSC order: pick by weight. Checked here, once;
        they are borrowed as well, and weights that change later give wrong picks or a `InputError`.
    times : torch.Tensor or numpy.ndarray, optional
        int64[num_edges] in CSC order, ascending within each row, which is not checked: for trees with bounds.
    trust_weights : bool
        Do not check the weights: `check_weights` has been called on them.
    device : torch.device, optional
        The GPU that samples, if it reads arrays in pinned memory; by default the device of the arrays.
    rows : TypedRows, optional
        The rows of a graph with types: rules are `ByRelation` then.

    Raises
    ------
    InputError
        If the arrays have wrong dtypes, lengths or devices, or if weights are negative, infinite or not a number.
    """

    def __init__(
        self,
        indptr: Array | RankedRows,
        indices: Array,
        edge_ids: Array | None = None,
        weights: Array | None = None,
        *,
        times: Array | None = None,
        trust_weights: bool = False,
        device: torch.device | None = None,
        rows: TypedRows | None = None,
    ) -> None:
        stage = "BlockSampler"
        device = device_of(bounds_of(indptr)) if device is None else device
        self._rows = rows
        self._on_gpu: fused_on_gpu.BlockSampler | None = None
        if device is not None:
            if weights is not None and trust_weights is not True and device.type != "cpu":
                check_weights(*(torch.as_tensor(one, device="cpu") for one in (bounds_of(indptr), weights)))
            self._on_gpu = fused_on_gpu.BlockSampler(device, indptr, indices, edge_ids, weights, times, rows, stage)
        self._by_weight = weights is not None
        self._known_rules: tuple[Sequence[HopRule], list[list[_native.Rule]]] = (), []
        # Where the device has memory of its own, the arrays are not in that of the CPU.
        on_cpu = device is None or device.type == "cpu"
        self._arrays = (indptr, indices, edge_ids, weights, times) if on_cpu else None
        if on_cpu and weights is not None and trust_weights is not True:  # nothing else is a promise
            check_weights(bounds_of(indptr), weights)
        self._bound = self._bind() if on_cpu else None

    def _bind(self) -> tuple[_native.FusedSampler, Borrowed]:
        """Return the kernel with the addresses of the arrays, and these, by which it is seen that they are others."""
        assert self._arrays is not None
        stage = "BlockSampler"
        indptr, indices, edge_ids, weights, times = self._arrays
        rows = self._rows
        bounds = indptr if rows is None else rows.row_ptr
        of_rows = (bounds.starts, bounds.blocks) if isinstance(bounds, RankedRows) else (bounds,)
        borrowed = Borrowed((*of_rows, *self._arrays[1:]))  # before the kernel has them
        starts, sources = row_arrays(bounds, indices, stage)
        ids = None
        if edge_ids is not None:
            ids = edge_array(edge_ids, "edge_ids", sources.size, stage, dtypes=ID_DTYPES)
        values = None if weights is None else weight_array(weights, sources.size, stage)
        of_edges = None if times is None else edge_array(times, "times", sources.size, stage)
        options: dict[str, Any] = {} if rows is None else {"relations": rows.native[0], "num_nodes": rows.num_nodes}
        if isinstance(bounds, RankedRows):  # of a part nothing has an entry for each node of the whole graph
            options["most_slots"] = 0
        return _native.FusedSampler(starts, sources, ids, values, times=of_edges, **options), borrowed

    def _native_sampler(self) -> _native.FusedSampler | None:
        """Return the kernel, made anew where torch has moved the arrays that it reads."""
        if self._bound is None:
            return None
        if self._bound[1].moved():
            self._bound = self._bind()
        return self._bound[0]

    def _native_rules(self, rules: Sequence[HopRule], stage: str) -> list[list[_native.Rule]]:
        """Return rules as the kernel knows them; a loader asks for the same ones in every batch."""
        known, native = self._known_rules
        if known is not rules:
            native = [native_rules(rule, self._by_weight, self._rows, stage) for rule in rules]
            if isinstance(rules, tuple):  # a list may change
                self._known_rules = rules, native
        return native

    @property
    def scratch_bytes(self) -> int:
        """The bytes kept between calls; those of a running call are counted after its end."""
        on_gpu_bytes = 0 if self._on_gpu is None else self._on_gpu.scratch_bytes
        return on_gpu_bytes + (0 if self._bound is None else self._bound[0].scratch_bytes())

    def sample(
        self,
        seeds: Array,
        rules: Sequence[HopRule],
        keys: Sequence[int | BlendedKey],
        *,
        expand: Literal["all", "new"] = "all",
        edge_ids: bool = True,
        num_threads: int = 1,
        parallel_edges: bool = True,
        trees: Trees | None = None,
        excluded: EdgePositions | None = None,
        fetch: bool = False,
        cache: LineCache | None = None,
    ) -> Sampled:
        """Sample the neighbourhood of unique seeds.

        Parameters
        ----------
        seeds : torch.Tensor or numpy.ndarray
            int64[num_seeds], unique.
        rules : sequence of NeighborRule, LaborRule, LaborImportanceRule or LadiesRule
            One per hop, the hop next to the seeds first.
        keys : sequence of int or BlendedKey
            One stream key per hop, as for `sample_hop`.
        expand : {"all", "new"}
            "all": each hop samples for every node found so far; one block per hop. "new": each hop samples for the
            nodes that the previous hop found first, and all hops share one block.
        edge_ids : bool
            Whether to return edge ids.
        num_threads : int
            The result does not depend on it.
        parallel_edges : bool
            For LABOR on a GPU, as for `sample_hop`: False promises that no row has any, so they are not searched.
        trees : Trees, optional
            The tree of each seed. A node in two trees has two entries; seeds must only be unique within a tree.
        excluded : EdgePositions, optional
            Edges to leave out, as for `sample_hop`. Their slots, if any, are streams of trees, if these are given.
        fetch : bool
            On a GPU, for a graph in memory of the host: copy the rows of hops that look at whole ones (LABOR-0, all
            in-edges) before they are sampled, as `fetch_rows` does, so that each comes over the bus once. Not with
            trees or excluded edges. Where there is no room for the rows they are sampled in place, with a warning.
        cache : LineCache, optional
            With `fetch`: where hot parts of the rows are kept; made for these indices and the GPU.

        Raises
        ------
        InputError
            If seeds are not unique or not nodes, or arrays of trees have wrong lengths.
            If there is not one key per rule, or a blended one for a rule without variates of edges; for an unknown
            `expand`, and excluded edges that are not of this graph.
            If the graph is inconsistent.
        """
        stage = "BlockSampler.sample"
        if not 0 < len(rules) == len(keys):
            message = f"{stage}: expected at least one rule and one key per rule, got {len(rules)} and {len(keys)}"
            raise InputError(message)
        if expand not in ("all", "new"):
            message = f'{stage}: expected expand to be "all" or "new", got {expand!r}'
            raise InputError(message)
        if (
            self._on_gpu is not None
            and device_of(seeds) is not None
            and (self._bound is None or all(rule.has_twin for rule in rules))
        ):
            may_repeat = parallel_edges is not False  # nothing else is a promise
            how = (expand == "new", edge_ids, may_repeat, trees, excluded, fetch, cache, stage)
            found = self._on_gpu.sample(seeds, rules, keys, *how)
            made = [SampledHop(*one[:3], len(one.indptr) - 1, one.num_src, one.weights) for one in found.blocks]
            return Sampled(found.n_id, made, found.num_nodes, found.num_edges, found.slots, found.counts)
        sampler = self._native_sampler()
        if sampler is None:
            message = f"{stage}: expected seeds on the GPU that the sampler was made for, got others; move them there"
            raise InputError(message)
        nodes = as_numpy(seeds, "seeds", stage=stage)
        n_id, blocks, num_nodes, num_edges, slots = sampler.sample(
            nodes,
            self._native_rules(rules, stage),
            [native_keys(key, rule, stage) for key, rule in zip(keys, rules, strict=True)],
            expand == "new",
            edge_ids,
            as_num_threads(num_threads, stage=stage),
            native_excluded(excluded, stage),
            None if trees is None else tree_arrays(trees, stage),
        )
        hops = [
            SampledHop(
                torch.from_numpy(starts),
                torch.from_numpy(indices),
                None if ids is None else torch.from_numpy(ids),
                starts.size - 1,
                num_src,
                None if importance is None else torch.from_numpy(importance),
            )
            for starts, indices, ids, importance, num_src in blocks
        ]
        return Sampled(torch.from_numpy(n_id), hops, num_nodes, num_edges, optional(slots))
