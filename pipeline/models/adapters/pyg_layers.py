"""Any layer of PyG where edges come by parts: its own forward, with messages that are computed part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from headrace.ops.aggregate.precision import widened
from headrace.ops.errors import InputError
from headrace.pipeline.distributed.edge_index import EdgeIndex
from headrace.pipeline.models.adapters.pyg_functions import exact, known_functions
from headrace.pipeline.models.adapters.values_of_edges import OfMessages, ValuesOfEdges
from headrace.pipeline.models.by_parts.row_watch import RowWatch, running_watch
from headrace.pipeline.models.by_parts.seam import Count, storage_of
from headrace.pipeline.models.by_parts.staged import Edges, Staged
from headrace.pipeline.models.by_parts.users_frames import run_watched
from headrace.pipeline.models.message_graph import GraphShare

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


def refusal_of(layer: Any) -> str:
    """Return what keeps messages of a layer from being computed by parts, as "with ..."; "" if nothing does."""
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


def call_layer(
    module: nn.Module,
    kind: type[nn.Module],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    next_key: Callable[[], int],
    tries: bool,
    watches: bool,
) -> Any:
    """Call a layer's own forward, with what its ``propagate`` and ``edge_updater`` do done by parts.

    Parameters
    ----------
    module
        What has the parameters, options and mode of the layer.
    kind
        The class of the layer.
    args, kwargs
        What it is called with: an `EdgeIndex` of a `GraphShare` among it.
    next_key
        Returns the key of the next masks of dropout.
    tries
        Whether messages are tried with fewer edges, as at the first call.
    watches
        Whether the rest of the forward of a user's own layer is watched then.
    """
    if kwargs.get("return_attention_weights") is not None:
        raise InputError(f"{kind.__name__}: return_attention_weights= cannot be had where ranks share edges")
    layer: Any = kind.__new__(kind)
    vars(layer).update(vars(module))  # the very same parameters and modules
    edges = next(one for one in (*args, *kwargs.values()) if isinstance(one, EdgeIndex))
    calls = _Calls(layer, edges.graph.origin, next_key, tries=tries)
    own = {"propagate": calls.exact_propagate, "edge_updater": calls.edge_updater}
    # Buffers that the layer sets are those of the next call, not of the backward direction of this one.
    vars(layer).update(own, _buffers={**module._buffers})  # noqa: SLF001 - of modules
    is_own = not kind.__module__.startswith("torch_geometric.")
    is_watched = tries and watches and is_own and edges.graph.parts.only is None and running_watch() is None
    try:
        with known_functions(kind):
            return (
                _watched(kind, layer, edges.graph, args, kwargs) if is_watched else kind.forward(layer, *args, **kwargs)
            )
    finally:
        for name in own:
            del vars(layer)[name]  # which know the layer
        buffers = layer._buffers  # noqa: SLF001
        vars(module).update({name: value for name, value in vars(layer).items() if name != "_buffers"})
        module._buffers.update(buffers)  # noqa: SLF001


#: Aggregations of PyG that have kernels; of equal extremes these would choose one, where PyG shares the gradient.
_KERNELS: dict[str, Literal["sum", "mean"]] = {"SumAggregation": "sum", "MeanAggregation": "mean"}


class _ForwardWatch(RowWatch):
    """Watches the forward of a user's own layer, which passes messages by ``propagate`` alone."""

    def refusal(self, problem: str) -> InputError:
        """Return the error for a forward that does not work row by row."""
        return InputError(
            "expected the forward of a layer to work row by row but for propagate(), as each rank has some rows, got "
            f"{problem}; a norm over all nodes is nn.BatchNorm1d, between layers"
        )


def _watched(
    kind: type[nn.Module], layer: nn.Module, graph: GraphShare, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Call the forward of a layer, and refuse what does not work row by row."""
    storages: set[int] = set()

    def apart(value: Any) -> Any:
        """Return rows in memory of their own, by which they are known: those of destinations are often in a table."""
        if not isinstance(value, Tensor) or isinstance(value, EdgeIndex) or value.layout != torch.strided:
            return value
        is_known = storage_of(value) in storages
        storages.add(storage_of(value))
        return value.clone() if is_known else value

    args, kwargs = tree_map(apart, (tuple(args), dict(kwargs)))
    watch = _ForwardWatch(layer, "", "")
    try:
        watch.enter((args, kwargs), {graph.num_src, graph.num_dst, graph.num_edges})
        with watch:
            out = run_watched(partial(kind.forward, layer, *args, **kwargs))
        watch.check(out)
    finally:
        watch.close()
    return out


class _Calls:
    """The two methods of a layer that pass messages."""

    def __init__(self, layer: Any, origin: object, next_key: Callable[[], int], *, tries: bool) -> None:
        self.layer, self._origin, self._next_key, self._tries = layer, origin, next_key, tries

    def edge_updater(self, edge_index: Any, size: Any = None, **given: Any) -> _Updated:
        """Compute nothing yet."""
        del size
        watch = running_watch()
        if watch is not None:
            watch.check(given, some=True)
        return _Updated(self, given, self._graph_of(edge_index).num_edges)

    def exact_propagate(self, edge_index: Any, size: Any = None, **given: Any) -> Tensor:
        """Pass messages, which are watched by themselves."""
        rows: Tensor = exact(self.propagate, edge_index, size, **given)
        return rows

    def propagate(self, edge_index: Any, size: Any = None, **given: Any) -> Tensor:
        """Compute messages, and reduce them, shard by shard."""
        layer = self.layer
        graph = self._graph_of(edge_index)
        collect = layer.inspector.collect_param_data
        names = layer.inspector.get_flat_param_names(["message", "aggregate", "update"], exclude=layer.special_args)
        graph = graph.over(self._num_destinations(graph, size, names, given))
        of_kernel = self._plain_messages(given)
        if of_kernel is not None:
            return graph.aggregate(of_kernel[0], reduce=of_kernel[1])
        sources, targets = ({id(one): one for one in self.ends(side, names, given)} for side in (0, 1))
        tables = {number: place for place, number in enumerate(sources)}

        def body(edges: Edges) -> Tensor:
            before = dict(vars(layer))
            with known_functions(type(layer)):  # in the backward direction, too
                values = self.values(edges, names, given, tables, graph.num_edges)
                message = layer.message(**collect("message", values))
                own = {**values, **{name: given[name] for name in names if name in given}}
                if graph.num_edges in (
                    graph.num_dst,
                    graph.num_src,
                ):  # what has as many rows is taken for rows of nodes
                    values = own
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
        return Staged(body, rows, graph.parts, self._tries, self._next_key(), name, tuple(targets.values()))()

    def _plain_messages(self, given: Mapping[str, Any]) -> tuple[Tensor, Literal["sum", "mean"]] | None:
        """Return the rows of sources, where messages of a layer of PyG's are these and no more, and their reduction."""
        layer, kind = self.layer, type(self.layer)
        base = next(one for one in kind.__mro__ if one.__name__ == "MessagePassing")
        reduce = _KERNELS.get(type(layer.aggr_module).__name__)
        names = layer.inspector.get_param_names("message")
        name = next((one for one in names if one.endswith("_j")), "")
        rows = _end(given.get(name[:-2]), 0)
        if reduce is None or any(getattr(kind, one) is not getattr(base, one) for one in ("aggregate", "update")):
            return None
        if not kind.message.__module__.startswith("torch_geometric."):  # one of a user's own may leave something behind
            return None
        if any(given.get(one, one) is not None for one in names if one != name):
            return None
        if not isinstance(rows, Tensor) or widened(rows).dtype not in (torch.float32, torch.float64):
            return None
        if layer.node_dim % rows.dim():
            return None
        probe = rows.new_zeros(1, *rows.shape[1:])
        with torch.no_grad():
            is_plain = layer.message(**{**dict.fromkeys(names), name: probe}) is probe
        return (widened(rows), reduce) if is_plain else None

    def _num_destinations(self, graph: GraphShare, size: Any, names: Sequence[str], given: Mapping[str, Any]) -> int:
        """Return how many rows messages are reduced to, as PyG finds it from a size and rows of nodes."""
        sizes: list[int | None] = [None, None] if size is None else [*size]
        for name in names:
            if not name.endswith(("_i", "_j")):
                continue
            value, side = given.get(name[:-2]), int(name.endswith("_i"))
            both = enumerate(value) if isinstance(value, tuple | list) else [(side, value)]
            for place, rows in both:
                if isinstance(rows, Tensor) and sizes[place] is None:
                    sizes[place] = rows.shape[self.layer.node_dim]
        if sizes[0] not in (None, graph.num_src):
            raise InputError(
                f"{type(self.layer).__name__}: expected rows of {graph.num_src} nodes as those of sources, got size "
                f"{sizes}"
            )
        number = next((one for one in reversed(sizes) if one is not None), None)
        return graph.num_dst if number is None else number

    def _graph_of(self, edge_index: Any) -> GraphShare:
        name = type(self.layer).__name__
        if not isinstance(edge_index, EdgeIndex):
            raise InputError(
                f"{name}: expected propagate() to be called with the edges of the graph, got "
                f"{type(edge_index).__name__}: no rank has all edges, so it cannot pass messages along others"
            )
        if not edge_index.has_loops:
            raise InputError(f"{name}: expected add_self_loops behind remove_self_loops, got none")
        graph: GraphShare = edge_index.graph
        if graph.origin is not self._origin:
            raise InputError(
                f"{name}: expected propagate() to be called with the edges of this call, got those of another one; "
                "leave out options that keep edges, such as cached=True"
            )
        return graph

    def ends(self, side: int, names: Sequence[str], given: Mapping[str, Any]) -> Iterator[Tensor]:
        """Yield the rows of nodes of which arguments of some names are those of sources, 0, or destinations, 1."""
        for value in given.values():
            if isinstance(value, ValuesOfEdges):
                yield from value.ends(side)
        for name in names:
            rows = _end(given.get(name[:-2]), side) if name.endswith(("_j", "_i")[side]) else None
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

    def ends(self, side: int) -> Iterator[Tensor]:
        """Yield the rows that ``edge_update`` asks for."""
        return self._calls.ends(side, self._names, self._given)

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
