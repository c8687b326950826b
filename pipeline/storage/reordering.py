"""Features of a graph whose nodes are renumbered, read where they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops import InputError, gather_rows
from headrace.pipeline.data import CPU, Graph, ItemSet, Place, as_cpu_tensor, as_ids, describe, sampled_digest
from headrace.pipeline.data.integers import as_int64, is_whole
from headrace.pipeline.data.ranking import as_scores, ranking
from headrace.pipeline.storage.array_source import ArraySource
from headrace.pipeline.storage.decoding import Decoding
from headrace.pipeline.storage.feature_source import FeatureSource, SourceLike
from headrace.pipeline.storage.features import FeatureStore, as_source, in_contract
from headrace.pipeline.storage.over_source import CopiedRows, OverSource
from headrace.pipeline.storage.quantized_feature import QuantizedFeature
from headrace.pipeline.storage.rows import Rows


class ReorderedRows(OverSource):
    """A feature source whose row i is row ``order[i]`` of another one: no copy of features larger than memory.

    It is where the other one is, and tells it of reads to come if that gains by it: passes do for the rows what they
    would do without the order.

    Parameters
    ----------
    source
        The rows by their old ids.
    order: int64[num_rows]
        The old id of each row.

    Raises
    ------
    InputError
        If the order has another length.
    """

    def __init__(self, source: SourceLike, order: Tensor) -> None:
        if len(order) != source.num_rows:
            raise InputError(f"ReorderedRows: expected an order of {source.num_rows} rows, got {len(order)} ids")
        self._source = in_contract(source)
        self._order = order

    @property
    def place(self) -> Place:
        """Where the rows are."""
        return self._source.place

    @property
    def foresight(self) -> int:
        """Rows of reads to come that the source wants to know of."""
        return self._source.foresight

    def foresees(self, place: Place) -> bool:
        """Whether reads of the source to a place gain by that."""
        return self._source.foresees(place)

    def read(self, ids: Tensor, *, num_threads: int = 1, to: Place = CPU) -> Rows:
        """Return the rows of `ids`, [num_ids, ...], where the source can read them to."""
        return self._source.read(gather_rows(self._order, ids), num_threads=num_threads, to=to)

    def reading_order(self, ids: Tensor) -> Tensor:
        """Return the order in which the source reads rows."""
        return self._source.reading_order(gather_rows(self._order, ids))

    def update(self, ids: Tensor, rows: Tensor) -> None:
        """Change rows in the source: those of `ids`, int32[n] or int64[n], each once, to `rows`, [n, ...].

        Raises
        ------
        InputError
            If an id has no row, the source has no `update`, and as that does.
        """
        self._source.update(gather_rows(self._order, as_ids(ids, "ids")), rows)

    def expect(self, ids: Tensor) -> None:
        """Tell the source of a read to come."""
        self._source.expect(gather_rows(self._order, ids))

    def expect_nothing(self) -> None:
        """Let the source forget the reads to come."""
        self._source.expect_nothing()

    def content_digest(self) -> str:
        """Return a fingerprint of the rows and of their order."""
        return f"{self._source.content_digest()} in order {sampled_digest([('order', self._order)])}"


@dataclass(frozen=True, eq=False)
class Reordered:
    """A graph and a store with another order of nodes, and the mappings between old and new ids.

    `hr.reorder` returns it.

    Attributes
    ----------
    graph
        The graph.
    store
        The features; None if none were given.
    order : int64[num_nodes]
        The old id of each new one: node ``order[i]`` has become node i.
    rank : int64[num_nodes]
        The new id of each old one, the inverse of `order`.
    original_ids
        Whether items, features and batches use old ids, and only the sampler new ones.
    """

    graph: Graph
    store: FeatureStore | None
    order: Tensor
    rank: Tensor
    original_ids: bool

    def __repr__(self) -> str:
        ids = f"order={describe(self.order)}, rank={describe(self.rank)}, original_ids={self.original_ids}"
        return f"Reordered({self.graph!r}, {self.store!r}, {ids})"

    def new_ids(self, ids: ArrayLike | Tensor) -> Tensor:
        """Return the new ids of nodes given by old ones, int64 of the same shape."""
        return looked_up(self.rank, ids, "Reordered.new_ids")

    def old_ids(self, ids: ArrayLike | Tensor) -> Tensor:
        """Return the old ids of nodes given by new ones, int64 of the same shape."""
        return looked_up(self.order, ids, "Reordered.old_ids")

    def items(self, items: Any) -> Any:
        """Return items given by old ids as the reordered graph takes them, for `hr.ItemSampler`.

        With `original_ids` they are unchanged. Otherwise ids, pairs and ranges become new ids in the same order, a mask
        becomes a mask of new ids, and labels stay with their items.

        Parameters
        ----------
        items
            In any form that `hr.ItemSampler` takes.

        Raises
        ------
        InputError
            As `hr.ItemSampler`.
            If an item is not a node of the graph.
        """
        if self.original_ids:
            return items
        given = ItemSet.of(items)
        if given.mask_size is not None and given.labels is None:
            if given.mask_size != len(self.order):
                raise InputError(
                    f"Reordered.items: expected a mask of {len(self.order)} nodes, got one of {given.mask_size}"
                )
            mask = torch.zeros(len(self.order), dtype=torch.bool, device="cpu")
            mask[self.new_ids(given.ids)] = True
            return mask
        ids = given.all_ids()
        return self.new_ids(ids) if given.labels is None else (self.new_ids(ids), given.labels)


def reorder(
    graph: Graph,
    store: FeatureStore | None = None,
    *,
    scores: ArrayLike | Tensor | None = None,
    order: ArrayLike | Tensor | None = None,
    original_ids: bool = True,
) -> Reordered:
    """Reorder the nodes of a graph, and the rows of their features, for example the hottest first.

    Hot nodes are then next to each other, in the graph and in the features, so that "the hottest 10 %" is a range of
    rows. Edge ids are still input edge ids, and edge features stay unchanged.

    By default nothing else changes: items, ``batch.seeds``, ``batch.n_id`` and the ids by which features are read are
    the old ids. Only internally samplers use the new ids, and rows are in the new order. With ``original_ids=False``
    all ids are new ones: pass items through `Reordered.items`; labels in the store are reordered, too. This saves two
    look-ups per batch, and cooperating ranks and shards need it. Draws depend on the graph's own ids, so samples differ
    from those before, with the same law.

    Rows in memory are copied: after a write to the given ones, reads are refused; to change rows, call ``update`` of
    the sources in the new store. Rows of memory maps and other sources stay in place, and are read through a table if
    ids have changed.

    Parameters
    ----------
    graph : Graph
        A graph without node types.
    store : FeatureStore, optional
        Its features.
    scores : [num_nodes], optional
        One number per node, such as from `hr.scores`: the order is by falling score, and by id where scores are equal.
    order : int64[num_nodes], optional
        The order itself: node ``order[i]`` becomes node i. Give this or `scores`.
    original_ids : bool
        Whether everything outside the graph uses the old ids.

    Raises
    ------
    InputError
        If the order does not contain every node once, the graph has node types, or is already reordered.
        If a node feature has not one row per node.
        If not exactly one of `scores` and `order` is given, or the number of scores is not that of nodes.

    Examples
    --------
    >>> import torch
    >>> import headrace as hr
    >>> graph = hr.Graph.from_coo([0, 1, 2], [1, 2, 3])
    >>> store = hr.FeatureStore(node={"x": torch.tensor([0.0, 10.0, 20.0, 30.0])})
    >>> hot = hr.reorder(graph, store, scores=[0.1, 0.4, 0.2, 0.3])
    >>> hot.order.tolist(), hot.rank.tolist()
    ([1, 3, 2, 0], [3, 0, 2, 1])
    >>> plan = hr.ItemSampler([3]).sample_neighbor(hot.graph, [-1]).fetch_feature(hot.store, node=["x"])
    >>> [(batch.n_id.tolist(), batch.x.tolist()) for batch in plan.loader()]  # the ids and rows as ever
    [([3, 2], [30.0, 20.0])]
    """
    if not isinstance(graph, Graph):
        raise InputError(f"reorder: expected an hr.Graph, got {type(graph).__name__}; reorder before it is cut")
    if order is not None and scores is None:
        ids = as_ids(order, "order").to(torch.int64).contiguous()
    elif scores is not None and order is None:
        ids = ranking(as_scores(scores, graph.num_nodes, stage="reorder"))
    else:
        raise InputError("reorder: expected one of scores= and order=, got both or none; see hr.scores")
    if graph.node_ids is not None:
        raise InputError("reorder: this graph has been reordered already; reorder the one that it was made of")
    reordered = graph.reordered(ids)  # refuses an order that misses a node
    rank = torch.empty_like(ids).scatter_(0, ids, torch.arange(len(ids), device="cpu"))
    if original_ids:
        reordered = replace(reordered, node_ids=ids)
    moved = None if store is None else _moved(store, graph.num_nodes, ids, rank, original_ids=original_ids)
    return Reordered(reordered, moved, ids, rank, original_ids)


def _moved(store: FeatureStore, num_nodes: int, order: Tensor, rank: Tensor, *, original_ids: bool) -> FeatureStore:
    """Return the store with the rows of nodes in the new order, where they lie in memory."""
    store.check(node=tuple(store.node), num_nodes=num_nodes, stage="reorder")
    sources: dict[str, FeatureSource] = {}
    for name, source in store.node.without_types("reorder").items():
        whole = as_source(source)
        if whole.rows_in_place is None or whole.place != CPU:
            sources[name] = source if original_ids else ReorderedRows(source, order)
            continue
        rows: FeatureSource = _MovedRows(whole, order, f"node feature {name!r}")
        if whole.quantization is not None:
            rows = QuantizedFeature(rows, whole.quantization.scale, whole.quantization.zero_point)
        sources[name] = ReorderedRows(rows, rank) if original_ids else rows
    return FeatureStore(node=sources, edge=store.edge)


class _MovedRows(ArraySource):
    """A copy of rows in another order, which is refused where the rows themselves were written since."""

    def __init__(self, source: FeatureSource, order: Tensor, name: str) -> None:
        self._copied = CopiedRows(source)
        self._copied.mark()
        self._original, self._version = source, source.version
        super().__init__(source.read(order).rows, name)

    def read(self, ids: Tensor, *, num_threads: int = 1, to: Place = CPU) -> Rows:
        if self._original.version != self._version:
            raise self._written()
        return super().read(ids, num_threads=num_threads, to=to)

    def read_decoded(self, ids: Tensor, decoding: Decoding, *, num_threads: int = 1) -> Rows:
        if self._original.version != self._version:
            raise self._written()
        return super().read_decoded(ids, decoding, num_threads=num_threads)

    def check_copies(self) -> None:
        if self._original.version != self._version or self._copied.were_written():
            raise self._written()

    def _written(self) -> InputError:
        return InputError(
            f"reorder: expected {self._name} to stay as it was when its rows were copied in the new order, got other "
            "values, written in place; call reordered.store.node[name].update(ids, rows), or reorder once more"
        )


def looked_up(table: Tensor, ids: ArrayLike | Tensor, what: str) -> Tensor:
    """Return the entries of a table at ids, in their shape.

    Raises
    ------
    InputError
        For values that are not integers, or not positions in the table.
    """
    given = as_cpu_tensor(ids.cpu() if isinstance(ids, Tensor) else ids, f"{what}: ids")
    if not is_whole(given.dtype):
        raise InputError(f"{what}: expected integer ids, got {given.dtype}; pass mask.nonzero().squeeze(1) of a mask")
    flat = as_int64(given.flatten(), f"{what}: ids")
    if len(flat) and not (int(flat.min()) >= 0 and int(flat.max()) < len(table)):
        raise InputError(f"{what}: expected ids from 0 to {len(table) - 1}, got {int(flat.min())} to {int(flat.max())}")
    return gather_rows(table, flat).reshape(given.shape)
