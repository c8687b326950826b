"""PyG's functions of edges where these are not there by their ends, and the modules in which they stand for them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from headrace.ops.errors import InputError
from headrace.ops.forks import ProcessLock
from headrace.pipeline.distributed.edge_index import EdgeIndex
from headrace.pipeline.models.adapters.values_of_edges import Normalised
from headrace.pipeline.models.by_parts.layer_watch import LayerWatch
from headrace.pipeline.models.by_parts.row_watch import running_watch
from headrace.pipeline.models.by_parts.seam import running_seam
from headrace.pipeline.models.message_graph import GraphShare, factor_of_degrees, loop_values, with_loops
from headrace.pipeline.models.running_batch import RUNNING


def edges_of(graph: GraphShare, *, has_loops: bool = True) -> EdgeIndex:
    """Return what stands for the edges of a graph."""
    return EdgeIndex.of(graph, graph.num_edges, graph.parts.device, has_loops=has_loops)


def _remove_self_loops(edges: EdgeIndex, edge_attr: Tensor | None = None) -> tuple[EdgeIndex, Tensor | None]:
    return edges_of(edges.graph, has_loops=False), edge_attr


def _add_self_loops(
    edges: EdgeIndex,
    edge_attr: Tensor | None = None,
    fill_value: Any = None,
    num_nodes: Any = None,
) -> tuple[EdgeIndex, Tensor | None]:
    graph = _over(edges.graph, num_nodes)
    if edges.has_loops:
        raise InputError(
            "add_self_loops: expected remove_self_loops before it, as a node has one loop over shards; call "
            "add_remaining_self_loops, or remove loops first"
        )
    looped = edges_of(graph.with_self_loops())
    if edge_attr is None:
        return looped, None
    if isinstance(fill_value, str) and fill_value not in ("mean", "add", "sum"):
        raise InputError(f"add_self_loops: expected fill_value to be mean, add or numbers, got {fill_value!r}")
    fill = 1.0 if fill_value is None else fill_value
    return looped, torch.cat([edge_attr, loop_values(graph, edge_attr, fill)])


def _add_remaining_self_loops(
    edges: EdgeIndex,
    edge_attr: Tensor | None = None,
    fill_value: Any = None,
    num_nodes: Any = None,
) -> tuple[EdgeIndex, Tensor | None]:
    if edge_attr is not None and (edge_attr.dim() != 1 or isinstance(fill_value, str)):
        raise InputError("add_remaining_self_loops: expected a weight for each edge and a number to fill in")
    fill = 1.0 if fill_value is None else fill_value
    graph, weights = with_loops(_over(edges.graph, num_nodes), edge_attr, fill)
    return edges_of(graph), weights


def _gcn_norm(
    edges: EdgeIndex,
    edge_weight: Tensor | None = None,
    num_nodes: Any = None,
    improved: bool = False,
    add_self_loops: bool = True,
    flow: str = "source_to_target",
    dtype: torch.dtype | None = None,
) -> tuple[EdgeIndex, Normalised]:
    """Return the edges with a loop at each node, and their weights by the degrees of both ends (arXiv 1609.02907)."""
    if flow != "source_to_target":
        raise InputError(f"gcn_norm: expected flow='source_to_target' over shards, got {flow!r}")
    if add_self_loops:
        edges, edge_weight = _add_remaining_self_loops(edges, edge_weight, 2.0 if improved else 1.0, num_nodes)
    graph = _over(edges.graph, num_nodes)
    factor = factor_of_degrees(graph, edge_weight, dtype or torch.get_default_dtype())
    return edges, Normalised(edge_weight, factor)


def _over(graph: GraphShare, num_nodes: Any) -> GraphShare:
    """Return the graph over so many nodes, by default all that are sources."""
    return graph.over(graph.num_src if num_nodes is None else int(num_nodes))


def _softmax(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @wraps(original)
    def softmax(src: Tensor, index: Any = None, ptr: Any = None, num_nodes: Any = None, dim: int = 0) -> Tensor:
        seam = running_seam()
        if seam is not None and seam.is_destinations(index) and dim % src.dim() == 0:
            return seam.softmax(src)
        return original(src, index, ptr, num_nodes, dim)

    return softmax


def exact(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function that is exact on ranks: a layer that is watched gives it rows, and gets rows."""
    watch = running_watch()
    if watch is None:
        return function(*args, **kwargs)
    watch.check((args, kwargs), some=True)
    out = watch.trusted(partial(function, *args, **kwargs))
    watch.enter(out, [len(one) for one in tree_leaves(out) if isinstance(one, Tensor) and one.dim()])
    return out


def _gcn_norm_of_ranks(
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    num_nodes: int | None = None,
    improved: bool = False,
    add_self_loops: bool = True,
    flow: str = "source_to_target",
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the edges of a block with loops, and their weights by degrees that sources have from their owners."""
    from torch_geometric.utils import add_remaining_self_loops
    from torch_geometric.utils.num_nodes import maybe_num_nodes

    running = RUNNING.get()
    assert running is not None  # the layer that asks is in it
    number, fill = maybe_num_nodes(edge_index, num_nodes), 2.0 if improved else 1.0
    if add_self_loops:
        edge_index, edge_weight = add_remaining_self_loops(edge_index, edge_weight, fill, number)
    weight = (
        torch.ones(edge_index.shape[1], dtype=dtype, device=edge_index.device) if edge_weight is None else edge_weight
    )
    sources, destinations = edge_index.flip(0) if flow == "target_to_source" else edge_index
    degrees = weight.new_zeros(number).index_add(0, destinations, weight)
    own = degrees[: running.num_destinations]
    bring = partial(running.at_sources, own, fill if add_self_loops else 0.0, number)
    watch = running_watch()
    at_sources = watch.brought(bring) if isinstance(watch, LayerWatch) else bring()
    of_sources, of_destinations = (one.pow(-0.5).masked_fill(one == 0, 0.0) for one in (at_sources, degrees))
    return edge_index, of_sources[sources] * weight * of_destinations[destinations]


def _gcn_norm_of_both(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function for edges without ends, and for those of a block whose nodes ranks share."""
    over_parts = _of_edges(_gcn_norm)(original)

    @wraps(original)
    def gcn_norm(edge_index: Any, *args: Any, **kwargs: Any) -> Any:
        running = RUNNING.get()
        shares = running is not None and running.shares_nodes and not isinstance(edge_index, EdgeIndex)
        is_list = isinstance(edge_index, Tensor) and edge_index.layout == torch.strided
        return (_gcn_norm_of_ranks if shares and is_list else over_parts)(edge_index, *args, **kwargs)

    return gcn_norm


def _of_edges(ours: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def instead(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def call(edge_index: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(edge_index, EdgeIndex):
                return original(edge_index, *args, **kwargs)
            return exact(ours, edge_index, *args, **kwargs)

        return call

    return instead


#: What stands for functions of `torch_geometric.utils` in the modules of layers, while one of these runs.
_INSTEAD: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "remove_self_loops": _of_edges(_remove_self_loops),
    "add_self_loops": _of_edges(_add_self_loops),
    "add_remaining_self_loops": _of_edges(_add_remaining_self_loops),
    "softmax": _softmax,
    "gcn_norm": _gcn_norm_of_both,
}


def _is_of_pyg(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).startswith("torch_geometric.")


#: Modules of aggregations that layers are made of.
_AGGREGATIONS = "torch_geometric.nn.aggr.basic", "torch_geometric.nn.aggr.attention"

_LOCK = ProcessLock()
_RUNNING: dict[ModuleType, tuple[int, dict[str, Any]]] = {}


@contextmanager
def known_functions(layer: type) -> Iterator[None]:
    """Let PyG's functions in modules of a layer's classes and aggregations know such edges; others stay as they are."""
    names = {*_AGGREGATIONS, *(one.__module__ for one in layer.__mro__)}
    modules = [sys.modules[name] for name in names if name in sys.modules]
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(replaced_functions(module, _INSTEAD, _is_of_pyg))
        yield


@contextmanager
def replaced_functions(
    module: ModuleType,
    instead: Mapping[str, Callable[[Callable[..., Any]], Callable[..., Any]]],
    is_replaced: Callable[[Any], bool],
) -> Iterator[None]:
    """Let others stand in the place of functions of a module, for all threads, until no thread wants them any more.

    Parameters
    ----------
    module
        The module.
    instead
        By name, what takes the original function and returns the other one.
    is_replaced
        Whether a function of such a name is one of those meant.
    """
    with _LOCK.held():
        number, originals = _RUNNING.get(module, (0, {}))
        if not number:
            originals = {name: own for name, own in vars(module).items() if name in instead and is_replaced(own)}
            for name, own in originals.items():
                setattr(module, name, instead[name](own))
        _RUNNING[module] = number + 1, originals
    try:
        yield
    finally:
        with _LOCK.held():
            number, originals = _RUNNING[module]
            _RUNNING[module] = number - 1, originals
            if number == 1:
                del _RUNNING[module]
                for name, own in originals.items():
                    setattr(module, name, own)
