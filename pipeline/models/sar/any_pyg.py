"""Any layer of PyG over a graph in shards: its own forward, with messages that are computed shard by shard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from headrace.ops.aggregate.precision import widened
from headrace.ops.errors import InputError
from headrace.ops.forks import cached_property
from headrace.pipeline.models.by_parts.seam import Count
from headrace.pipeline.models.by_parts.staged import Edges, Staged
from headrace.pipeline.models.sar.edge_index import EdgeIndex, known_functions
from headrace.pipeline.models.sar.replaced_layer import ReplacedLayer
from headrace.pipeline.models.sar.sharded_graph import ShardedGraph
from headrace.pipeline.models.sar.values_of_edges import OfMessages, ValuesOfEdges

#: What a message may not ask for: the numbers of nodes of other ranks.
_ENDS = ("edge_index", "edge_index_j", "adj_t")

_HOOKS = (
    "_propagate_forward_pre_hooks",
    "_propagate_forward_hooks",
    "_message_forward_pre_hooks",
    "_message_forward_hooks",
    "_aggregate_forward_pre_hooks",
    "_aggregate_forward_hooks",
    "_edge_update_forward_pre_hooks",
    "_edge_update_forward_hooks",
)


class AnyPygLayer(ReplacedLayer):
    """A layer of PyG, of a user's own too, with what its ``propagate`` and ``edge_updater`` do done over shards."""

    @cached_property
    def tried(self) -> set[bool]:
        """The modes, of training or not, in which messages were tried."""
        return set()

    @classmethod
    def refusal(cls, layer: Any) -> str:
        """Refuse options that its messages cannot be computed with."""
        if layer.flow != "source_to_target":
            return f"with flow={layer.flow!r}"
        if layer.decomposed_layers > 1:
            return f"with decomposed_layers={layer.decomposed_layers}"
        if layer.explain:
            return "with explain=True"
        hooks = [name for name in _HOOKS if getattr(layer, name, None)]
        if hooks:
            return f"with hooks of its messages ({hooks[0]})"
        asked = {*layer.inspector.get_flat_param_names(["message", "aggregate", "update", "edge_update"])}
        ends = [name for name in _ENDS if name in asked]
        return f"whose messages ask for {ends[0]}" if ends else ""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer's own forward; the graph stands where ``edge_index`` stood."""
        if kwargs.get("return_attention_weights") is not None:
            raise InputError(f"{self.replaced.__name__}: return_attention_weights= cannot be had over shards")
        graphs = [one for one in (*args, *kwargs.values()) if isinstance(one, ShardedGraph)]
        if len(graphs) != 1:
            raise InputError(
                f"{self.replaced.__name__}: expected an hr.sar.ShardedGraph, got {len(graphs)}; hr.sar.wrap has "
                "replaced this layer, which took an edge_index"
            )
        layer: Any = self.replaced.__new__(self.replaced)
        vars(layer).update(vars(self))  # the very same parameters and modules
        calls = _Calls(layer, self)
        vars(layer).update(propagate=calls.propagate, edge_updater=calls.edge_updater)
        # Buffers that the layer sets are those of the next call, not of the backward direction of this one.
        vars(layer)["_buffers"] = {**self._buffers}
        graph = EdgeIndex.of(graphs[0])
        try:
            with known_functions(self.replaced):
                out = layer.forward(
                    *(graph if isinstance(one, ShardedGraph) else one for one in args),
                    **{name: graph if isinstance(one, ShardedGraph) else one for name, one in kwargs.items()},
                )
            self.tried.add(self.training)
            return out
        finally:
            for name in ("propagate", "edge_updater"):
                del vars(layer)[name]  # which know the layer
            buffers = layer._buffers  # noqa: SLF001 - of modules
            vars(self).update({name: value for name, value in vars(layer).items() if name != "_buffers"})
            self._buffers.update(buffers)


class _Calls:
    """The two methods of a layer that pass messages."""

    def __init__(self, layer: Any, replaced: AnyPygLayer) -> None:
        self.layer, self._replaced = layer, replaced

    def edge_updater(self, edge_index: Any, size: Any = None, **given: Any) -> _Updated:
        """Compute nothing yet."""
        del size
        return _Updated(self, given, _check_edges(edge_index, self.layer).num_edges)

    def propagate(self, edge_index: Any, size: Any = None, **given: Any) -> Tensor:
        """Compute messages, and reduce them, shard by shard."""
        layer = self.layer
        graph = _check_edges(edge_index, layer)
        if size is not None and {*size} - {None, graph.num_dst}:
            raise InputError(f"{type(layer).__name__}: expected size to be that of the graph, got {size}")
        collect = layer.inspector.collect_param_data
        names = layer.inspector.get_flat_param_names(["message", "aggregate", "update"], exclude=layer.special_args)
        sources = {id(one): one for one in self.sources(names, given)}
        tables = {number: place for place, number in enumerate(sources)}

        def body(edges: Edges) -> Tensor:
            before = dict(vars(layer))
            with known_functions(type(layer)):  # in the backward direction, too
                values = self.values(edges, names, given, tables, graph.num_edges)
                message = layer.message(**collect("message", values))
                own = {**values, **{name: given[name] for name in names if name in given}}
                if graph.num_edges == graph.num_dst:  # what has as many rows is taken for rows of nodes
                    values = own
                values |= {"size": [edges.num_dst] * 2, "size_i": edges.num_dst, "dim_size": edges.num_dst}
                rows = layer.aggregate(message, **collect("aggregate", values))
                out = layer.update(rows, **collect("update", own))
            for name, value in vars(layer).items():
                if isinstance(value, Tensor) and before.get(name) is not value:
                    vars(layer)[name] = OfMessages()  # of the edges of one part alone
            if not isinstance(out, Tensor):
                raise InputError(f"{type(layer).__name__}: expected propagate to return rows, got {type(out).__name__}")
            return out

        rows = tuple(map(widened, sources.values()))
        name = f"messages of {type(layer).__name__}"
        is_tried, key = layer.training in self._replaced.tried, self._replaced.keys.next()
        return Staged(body, rows, graph.parts, not is_tried, key, name)()

    def sources(self, names: Sequence[str], given: Mapping[str, Any]) -> Iterator[Tensor]:
        """Yield the rows of nodes of which arguments of some names are those of sources."""
        for value in given.values():
            if isinstance(value, ValuesOfEdges):
                yield from value.sources()
        for name in names:
            rows = _end(given.get(name[:-2]), 0) if name.endswith("_j") else None
            if isinstance(rows, Tensor):
                if self.layer.node_dim % rows.dim():
                    raise InputError(
                        f"{type(self.layer).__name__}: expected {name} of rows of nodes, [num_nodes, ...], got "
                        f"{list(rows.shape)} with node_dim={self.layer.node_dim}"
                    )
                yield rows

    def values(
        self,
        edges: Edges,
        names: Sequence[str],
        given: Mapping[str, Any],
        tables: Mapping[int, int],
        num_edges: int,
    ) -> dict[str, Any]:
        """Return the arguments of some names for the edges of one part."""
        number = Count(edges.num_dst)
        sizes = {"size": [number, number], "size_i": number, "size_j": number, "dim_size": number}
        values: dict[str, Any] = {"index": edges.index, "edge_index_i": edges.index, "ptr": None, **sizes}
        for name in names:
            if name.endswith(("_i", "_j")) and name[:-2] in given:
                rows = _end(given[name[:-2]], int(name.endswith("_i")))
                if isinstance(rows, Tensor) and name.endswith("_j"):
                    rows = edges.of_sources(tables[id(rows)])
                elif isinstance(rows, Tensor):
                    rows = edges.of_destinations(rows)
                values[name] = rows
            elif name in given:
                value = given[name]
                if isinstance(value, ValuesOfEdges):
                    value = value.of(edges, tables)
                elif isinstance(value, Tensor) and value.dim() and len(value) == num_edges:
                    value = edges.of_edges(value)
                values[name] = value
        return values


class _Updated(ValuesOfEdges):
    """What ``edge_updater`` returns."""

    maker = "edge_updater"

    def __init__(self, calls: _Calls, given: Mapping[str, Any], num_edges: int) -> None:
        self._calls, self._given, self._num_edges = calls, given, num_edges
        layer = calls.layer
        self._names = layer.inspector.get_param_names("edge_update", exclude=layer.special_args)

    def sources(self) -> Iterator[Tensor]:
        """Yield the rows that ``edge_update`` asks for."""
        return self._calls.sources(self._names, self._given)

    def of(self, edges: Edges, tables: Mapping[int, int]) -> Any:
        """Call ``edge_update`` for some edges."""
        layer = self._calls.layer
        values = self._calls.values(edges, self._names, self._given, tables, self._num_edges)
        updated = layer.edge_update(**layer.inspector.collect_param_data("edge_update", values))
        edges.seam.rows_of_edges([updated])
        return updated


def _end(value: Any, side: int) -> Any:
    """Return the rows of sources, 0, or of destinations, 1."""
    return value[side] if isinstance(value, tuple | list) else value


def _check_edges(edge_index: Any, layer: nn.Module) -> ShardedGraph:
    if not isinstance(edge_index, EdgeIndex):
        raise InputError(
            f"{type(layer).__name__}: expected propagate() to be called with the edges of the graph, got "
            f"{type(edge_index).__name__}: other edges than those cannot be had over shards"
        )
    if not edge_index.has_loops:
        raise InputError(f"{type(layer).__name__}: expected add_self_loops behind remove_self_loops over shards")
    return edge_index.graph
