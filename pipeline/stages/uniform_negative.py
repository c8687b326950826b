"""Negative pairs for link prediction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from headrace.ops.errors import InputError, PlanError
from headrace.ops.memory_limit import check_fits_memory
from headrace.ops.random.rng import NEGATIVE, stream_key
from headrace.ops.sampling.negatives import joined_with_all, joined_with_all_before
from headrace.pipeline.data import GraphView, MiniBatch, argument, as_cpu_tensor, is_one_of, refuse_gradient, times_of
from headrace.pipeline.data.arrays import number_above_0
from headrace.pipeline.data.times import EndsByTime, NodesByTime, ends_by_time, nodes_by_time
from headrace.pipeline.lowered._draw_negatives import NegativeDraws
from headrace.pipeline.lowered._excluded import check_pairs
from headrace.pipeline.lowered._negatives import (
    Share,
    first_of_share,
    graph_weights,
    in_graph_ids,
    known_of_all,
    labels_increase,
    labels_with_negatives,
    ranges_of,
    total_weight,
    with_seeds,
)
from headrace.pipeline.plan.checks import LARGEST_COUNT, check_flags, check_graph, check_pairs_come
from headrace.pipeline.plan.plan import verb
from headrace.pipeline.plan.settings import RunSettings
from headrace.pipeline.plan.source import SourceStage
from headrace.pipeline.plan.stage import Counts, MapStage, Runner, Stage

#: `seeds` and `seed_index` of a negative: of its node in a triplet, and of both ends beside `item_index`.
BYTES_OF_NODE = 2 * 8
BYTES_OF_PAIR = 2 * BYTES_OF_NODE + 8


@verb("sample_uniform_negative")
@dataclass(frozen=True, eq=False, repr=False)
class SampleUniformNegative(MapStage):
    """Draw new negative pairs for the positive pairs of each batch; the stage precedes the sampler.

    A negative has the source of a positive pair. Its destination is drawn uniformly and independently from all nodes of
    the type of the pair's destination. A negative may be an edge of the graph, which is rare in large graphs; with
    `reject` it never is. Draws are keyed by the seed, the batch and the position of the pair in it, so ranks that share
    a batch draw the same negatives as one process.

    The batch then has ``num_positives``, the number of positive pairs, and

    - mode "binary": the negative pairs follow the positive ones in ``seeds``, pair by pair, with -1 in ``item_index``.
      Labels ``y`` are 1 and 0, float32, if items have none. Negatives of items with labels have class 0; labels that
      begin at 0, over all ranks and when the loader is made, then increase by one, as in PyG. No other label may be 0.
      ``num_global_seeds`` counts negatives;
    - mode "triplet": ``seeds`` is int64[num_pairs, 2 + ratio]: source, positive destination, negative destinations;
      ``y`` and ``num_global_seeds`` stay.

    Parameters
    ----------
    graph
        The graph whose nodes are drawn, and with `reject` whose edges are not.
    ratio
        Negatives for each positive pair. In mode "binary" their number is rounded up for the whole batch: 0.5 gives 2
        for 3 pairs.
    mode
        See above.
    corrupt
        ``"destination"`` (default): draw destinations. ``"both"``: draw sources, too, as PyG does in mode "binary".
    node_weight
        The weights of nodes in the draw: None, equal weights; ``"degree"``, the in-degree, with `time` the in-degree at
        the time of the pair; or numbers of at least 0, [num_nodes].
    source_weight
        The weights of sources with ``corrupt="both"``: any of the above. None (default): as `node_weight`.
    time
        Name of the times of nodes: only nodes that are no later than the pair are drawn. Pairs must have times,
        ``ItemSampler(pairs, time=...)``, and for each pair there must be a node that is no later. With ``"degree"``,
        edges count if neither they nor their ends are later than the pair. Times of edges alone suffice then; they are
        sorted once, in 16 bytes per edge.
    strictly_before
        With `time`: True leaves out nodes of the pair's own time, and with ``"degree"`` edges of that time, such as the
        edge of the pair itself.
    reject
        Whether negatives that are edges of the graph are never drawn; all other nodes keep their proportions. For each
        pair there must be a node without such an edge, with `time` one that is no later. This is checked before the
        first batch if the items are known then; pairs of a `NodeSource` are checked with their batch.

    Raises
    ------
    InputError
        For a ratio of 0 or below, or not an integer in mode "triplet"; for unknown modes; for weights that are
        negative, undefined or all 0. Before the first batch: for more negatives than memory can hold, seeds that are
        not pairs, pairs without times of the graph's kind, a pair earlier than all nodes of positive weight or, with
        ``"degree"``, than all edges, and, with `reject`, a source with edges to all remaining nodes.
        If a positive pair would have class 0: for labels of which one is 0 and another below 0, or written later so
        that they begin elsewhere; and for labels that begin at 0 and have the largest number of their dtype.
        If there are no times of that name, or, without ``"degree"``, no times of nodes.
    PlanError
        If `reject` or "degree" needs edges that a shard does not have, or if a sampler precedes the stage.
    """

    graph: GraphView
    ratio: float = 1
    mode: Literal["binary", "triplet"] = "binary"
    corrupt: Literal["destination", "both"] = field(default="destination", kw_only=True)
    node_weight: Any = field(default=None, kw_only=True)  # None, "degree", or float64[num_nodes] once constructed
    source_weight: Any = field(default=None, kw_only=True)  # the same
    time: str | None = field(default=None, kw_only=True)
    strictly_before: bool = field(default=False, kw_only=True)
    reject: bool = field(default=False, kw_only=True)

    with_types: ClassVar[bool] = True
    keeps_ids_sound: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_graph(self.name, self.graph, with_types=True)
        ratio = number_above_0(self.ratio, f"{self.name}: ratio", InputError, LARGEST_COUNT)
        object.__setattr__(self, "ratio", ratio)
        for name, words in (("mode", ("binary", "triplet")), ("corrupt", ("destination", "both"))):
            if not is_one_of(getattr(self, name), words):
                raise InputError(f"{self.name}: expected {name} to be one of {words}, got {getattr(self, name)!r}")
        if self.mode == "triplet" and (self.ratio != int(self.ratio) or self.corrupt == "both"):
            raise InputError(
                f'{self.name}: expected a whole ratio and corrupt="destination" for mode="triplet", '
                f"got ratio={self.ratio!r} and corrupt={self.corrupt!r}"
            )
        check_flags(self, "reject", "strictly_before")
        if self.reject and self.corrupt == "both":
            raise InputError(
                f'{self.name}: expected corrupt="destination" for reject=True, got {self.corrupt!r}; leave out reject'
            )
        if self.source_weight is not None and self.corrupt != "both":
            raise InputError(
                f'{self.name}: expected corrupt="both" beside source_weight, got {self.corrupt!r}, which draws no '
                "sources; leave out source_weight"
            )
        by_degree = isinstance(self.node_weight, str) or isinstance(self.source_weight, str)
        if self.divided() and (self.reject or by_degree):
            raise PlanError(f'{self.name}: reject=True and node_weight="degree" need a whole graph, got a shard')
        for name in ("node_weight", "source_weight"):
            self._check_weight(name)
        self._check_time()

    def _check_time(self) -> None:
        if self.time is None:
            if self.strictly_before:
                raise InputError(f"{self.name}: expected time= beside strictly_before=True, got none")
            return
        if not isinstance(self.time, str):
            raise InputError(
                f"{self.name}: expected time to be the name of times of nodes, got {type(self.time).__name__}; give "
                'them to the graph, node_attrs={"time": ...}, those of pairs to ItemSampler(pairs, time=...)'
            )
        try:
            for column in self._columns:
                if isinstance(self._weight_of(column), str):
                    times_of(self.graph, self.time)
                else:
                    nodes_by_time(self.graph, self.time)
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from error

    @property
    def _columns(self) -> tuple[int, ...]:
        """Return which ends of negatives are drawn: 0 sources, 1 destinations."""
        return (1,) if self.corrupt == "destination" else (0, 1)

    def _weight_of(self, column: int) -> Any:
        """Return how likely nodes are at an end."""
        return self.node_weight if column == 1 or self.source_weight is None else self.source_weight

    def _by_time(self, column: int) -> NodesByTime | EndsByTime:
        """Return the nodes to draw from, by time; by degree, a node for each edge."""
        assert self.time is not None
        found = ends_by_time if isinstance(self._weight_of(column), str) else nodes_by_time
        return found(self.graph, self.time)

    def _check_weight(self, name: str) -> None:
        given = getattr(self, name)
        if given is None or (isinstance(given, str) and given == "degree"):
            return
        if isinstance(given, str):
            raise InputError(f'{self.name}: expected {name} to be "degree" or numbers, got {given!r}')
        refuse_gradient(given, f"{self.name}: {name}")
        array = as_cpu_tensor(given, f"{self.name}: {name}")
        self.keep_seen(argument(self.name, name, array))
        weights = array.double().contiguous()
        if weights.shape != (self.graph.num_nodes,):
            raise InputError(
                f"{self.name}: expected {name} to have a number for each of {self.graph.num_nodes} nodes, got "
                f"shape {list(weights.shape)}"
            )
        if not bool(((weights >= 0) & weights.isfinite()).all()) or not bool(weights.sum().isfinite()):
            raise InputError(
                f"{self.name}: expected {name} to be finite and at least 0, and so its sum, got {weights.min()} to "
                f"{weights.max()}"
            )
        object.__setattr__(self, name, weights)

    def decisive(self) -> dict[str, Any]:
        decisive = super().decisive()
        for name in ("time", "source_weight", "strictly_before"):  # checkpoints of before there were such stay valid
            if getattr(self, name) in (None, False):
                del decisive[name]
        return decisive

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"seeds", "item_index"} | (set() if self.time is None else {"seed_time"}))

    @property
    def writes(self) -> frozenset[str]:
        labels = {"y"} if self.mode == "binary" else set()
        seeds = {"seeds", "seed_index", "item_index", "num_positives"}
        return frozenset(seeds | {"n_id", "num_sampled_nodes"} | labels)

    def check(self, before: tuple[Stage, ...]) -> None:
        check_pairs_come(self.name, before)
        if any(isinstance(stage, SampleUniformNegative) for stage in before):
            raise PlanError(f"{self.name}: a stage before it has added negatives already; chain it once")
        source = before[0]
        pairs = source.all_seeds() if isinstance(source, SourceStage) else None
        if isinstance(source, SourceStage) and pairs is not None:
            self._check_possible(in_graph_ids(self.graph, pairs), source.seed_times)

    def _check_possible(self, pairs: Tensor, seed_times: Any) -> None:
        """Refuse pairs for which there can be no negative."""
        for column in self._columns:
            weights = graph_weights(self.graph, self._weight_of(column))
            for (first, last), members in ranges_of(self.graph, pairs[:, column]):
                total = total_weight(self.graph, weights, first, last)
                if not total > 0:
                    raise InputError(
                        f"{self.name}: expected a node of positive weight among {first} to {last - 1}, got none"
                    )
                bounded = self.time is not None and isinstance(seed_times, Tensor)
                prefix = self._check_early(first, last, column, members, seed_times, weights) if bounded else None
                if self.reject:
                    self._check_not_joined(first, last, members, pairs[members, 0].contiguous(), weights, prefix)

    def _check_early(
        self, first: int, last: int, column: int, members: Tensor, seed_times: Tensor, weights: Any
    ) -> Tensor:
        """Return how much of the order by time each pair draws from; refuse those for which nothing is there yet."""
        prefix = self._num_allowed(first, last, column, seed_times[members])
        reached = prefix
        if isinstance(weights, Tensor):
            of_nodes = weights[self._by_time(column).of_type(first, last)]
            reached = torch.cat([of_nodes.new_zeros(1), of_nodes.cumsum(0)])[prefix]
        early = ~(reached > 0)
        if bool(early.any()):
            kind = {str: "edges to nodes", Tensor: "nodes of positive weight among"}.get(type(weights), "nodes")
            early_by = "no later than any of the" if self.strictly_before else "earlier than all"
            raise InputError(
                f"{self.name}: pair {int(members[early][0])} of the items has no negative: it is {early_by} "
                f"{kind} {first} to {last - 1}; leave out such pairs, or give no time="
            )
        return prefix

    def _check_not_joined(
        self, first: int, last: int, members: Tensor, sources: Tensor, weights: Any, prefix: Tensor | None
    ) -> None:
        """Refuse sources with edges to all nodes that can be drawn for them, at the time of the pair if it has one."""
        edges, nodes, where = (self.graph.indptr, self.graph.indices), (first, last), ""
        if prefix is None:
            counted = self.graph.indptr.diff().double() if isinstance(weights, str) else weights
            of_nodes = None if counted is None else counted[first:last]
            joined = joined_with_all(*edges, sources, nodes=nodes, weights=of_nodes)
        else:
            order = self._by_time(1).of_type(first, last)
            of_nodes = weights[first:last] if isinstance(weights, Tensor) else None
            pair = joined_with_all_before(*edges, sources, order, prefix, nodes=nodes, weights=of_nodes)
            joined = None if pair is None else int(sources[pair])
            where = "" if pair is None else f" at the time of pair {int(members[pair])}"
        if joined is not None:
            node = int(self.graph.to_original_ids(sources.new_tensor([joined])))
            raise InputError(
                f"{self.name}: node {node}, a source of the items, "
                f"has edges to all nodes that can be drawn{where}, so it has no negative; leave out such pairs, or "
                "pass reject=False"
            )

    def _num_allowed(self, first: int, last: int, column: int, seed_times: Tensor | None) -> Tensor:
        """Return how many nodes of a range, or edges to them, are there for each pair: int64[num_pairs]."""
        given = self._check_times(column, seed_times)
        return self._by_time(column).num_until(first, last, given, strictly_before=self.strictly_before)

    def _check_times(self, column: int, seed_times: Tensor | None) -> Tensor:
        """Refuse times of pairs that are not of the kind of the graph's; return them as precise as the graph's."""
        nodes = self._by_time(column)
        if seed_times is None or seed_times.dtype != nodes.times.dtype:
            raise InputError(
                f"{self.name}: expected pairs with times of the kind of the graph's, {nodes.times.dtype}, got "
                f"{'none' if seed_times is None else seed_times.dtype}; pass ItemSampler(pairs, time=...)"
            )
        assert self.time is not None  # of which the nodes are
        return times_of(self.graph, self.time).rounded(seed_times)

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU can draw for pairs that are there: of a whole graph, in its own order."""
        return not self.divided() and self.graph.node_ids is None

    def _draws(self, column: int, settings: RunSettings) -> NegativeDraws:
        """Return what draws an end of negatives."""
        return NegativeDraws(
            self.graph,
            column,
            graph_weights(self.graph, self._weight_of(column)),
            None if self.time is None else self._by_time(column),
            strictly_before=self.strictly_before,
            rejects=self.reject,
            num_threads=settings.num_threads,
        )

    def runner(self, settings: RunSettings) -> Runner:
        num_pairs = 1 if settings.source is None else settings.source.seeds_per_batch(settings.world_size)
        check_fits_memory(
            int(num_pairs * self.ratio) * (BYTES_OF_PAIR if self.mode == "binary" else BYTES_OF_NODE),
            f"{self.name}: got ratio={self.ratio:,} for batches of at least {num_pairs:,} pairs on a rank",
            "lower ratio or batch_size",
        )
        shifts = self.mode == "binary" and labels_increase(settings)
        ratio = Fraction(str(self.ratio))
        draws = {column: self._draws(column, settings) for column in self._columns}
        sampled_by = self.sampled_by()

        def run(batch: MiniBatch) -> tuple[MiniBatch, Counts]:
            for seen in sampled_by:
                seen.check_version()
            pairs = check_pairs(batch.seeds, self.name)
            total = ceil(ratio * batch.num_global_seeds)
            first = first_of_share(batch, settings)
            share = Share(total, batch.num_global_seeds, first, len(pairs))
            owners = share.owners(pairs.device)

            def draw(column: int) -> Tensor:
                key = stream_key(settings.seed, batch.epoch, batch.index, 1 - column, NEGATIVE)
                times = None if self.time is None else self._check_times(column, batch.seed_time)
                with _by_its_name(self.name):
                    return draws[column].draw(pairs, key, share, owners, times)

            assert batch.y is None or isinstance(batch.y, Tensor)  # by type are labels of nodes alone
            destinations = draw(1)
            if self.mode == "triplet":
                seeds = torch.cat([pairs, destinations.view(len(pairs), int(ratio))], 1)
                return with_seeds(batch, seeds, num_positives=len(pairs)), {"negatives": len(destinations)}
            sources = draw(0) if self.corrupt == "both" else pairs[owners, 0]
            seeds = torch.cat([pairs, torch.stack([sources, destinations], 1)])
            found = with_seeds(
                batch,
                seeds,
                num_positives=len(pairs),
                item_index=torch.cat([batch.item_index, torch.full_like(owners, -1)]),
                y=labels_with_negatives(batch.y, len(pairs), len(destinations), pairs.device, shifts=shifts),
                **known_of_all(batch, share, owners),
                num_global_seeds=batch.num_global_seeds + total,
            )
            return found, {"negatives": len(destinations)}

        return run


@contextmanager
def _by_its_name(stage: str) -> Iterator[None]:
    """Add the name of the stage to errors of draws, for pairs that were unknown before their batch."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{stage}: {str(error).removeprefix('draw_negatives: ')}") from error
