"""What stands for a `ShardedGraph` in layers of DGL: it answers as a DGLGraph of the nodes that a rank owns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, Literal, NoReturn, TypeAlias

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.models.message_graph import Reduce
from headrace.pipeline.models.recomputation import DropoutKeys
from headrace.pipeline.models.sar.edge_expressions import EdgeExpression, End, operation
from headrace.pipeline.models.sar.edge_functions import Call
from headrace.pipeline.models.sar.edge_parts import EdgeContext
from headrace.pipeline.models.sar.edge_reductions import reduced_expression
from headrace.pipeline.models.sar.rank_size import RankSize
from headrace.pipeline.models.sar.sharded_graph import ShardedGraph

Target: TypeAlias = Literal["u", "v", "e"]

#: What DGL calls the ends of edges in its functions.
_TARGETS: dict[Any, Target] = {0: "u", 1: "v", 2: "e", "u": "u", "v": "v", "e": "e"}

_REDUCTIONS: dict[str, Reduce] = {"sum": "sum", "mean": "mean", "max": "max", "min": "min"}

_NODE_TYPE, _EDGE_TYPE = "_N", ("_N", "_E", "_N")


def _dot(left: Any, right: Any) -> Any:
    return (left * right).sum(-1, keepdim=True)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "dot": _dot,
}  # fmt: skip


class Frame(MutableMapping[str, Any]):
    """Rows of nodes or values of edges by name, as those of a DGLGraph.

    Parameters
    ----------
    context
        What expressions belong to.
    number
        Rows of each.
    what
        What they are rows of.
    """

    def __init__(self, context: EdgeContext, number: int, what: Literal["node", "edge"]) -> None:
        self._context, self._number, self._what = context, number, what
        self.values_by_name: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self.values_by_name:
            known = ", ".join(self.values_by_name) or "none"
            raise self._context.refusal(f"reads {name!r} of {self._what}s, of which the graph has {known}")
        return self.values_by_name[name]

    def __setitem__(self, name: str, value: Any) -> None:
        is_right = isinstance(value, Tensor) or (self._what == "edge" and isinstance(value, EdgeExpression))
        if not is_right or value.dim() == 0 or len(value) != self._number:
            got = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise InputError(
                f"{self._context.layer}: expected a row for each of {self._number} {self._what}s of this rank in "
                f"{name!r}, got {got}"
            )
        self.values_by_name[name] = value

    def __delitem__(self, name: str) -> None:
        del self.values_by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self.values_by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value, or a default."""
        return self.values_by_name.get(name, default)

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return a value, and set it before where there is none."""
        if name not in self.values_by_name:
            self[name] = default
        return self.values_by_name[name]

    def pop(self, name: str, *default: Any) -> Any:
        """Remove a value and return it."""
        value = self.values_by_name.get(name, *default) if default else self[name]
        self.values_by_name.pop(name, None)
        return value


class DglGraph:
    """A graph in shards with the methods of a DGLGraph.

    Its nodes are those that this rank owns, its edges their in-edges; degrees are those of the whole graph. Values of
    edges that layers compute are expressions, which are computed shard by shard when messages are reduced.

    Parameters
    ----------
    graph
        The graph.

    Attributes
    ----------
    sharded
        The same.
    srcdata, dstdata, ndata, edata
        Rows of nodes, of which there is one kind, and values of edges.
    """

    is_block, is_homogeneous, is_unibipartite = False, True, False
    idtype = torch.int64

    def __init__(self, graph: ShardedGraph) -> None:
        self.sharded, self.context = graph, EdgeContext(graph)
        self.device = graph.owned.device
        self.ndata: Frame = Frame(self.context, graph.num_dst, "node")
        self.edata: Frame = Frame(self.context, graph.num_edges, "edge")
        self.ntypes = self.srctypes = self.dsttypes = [_NODE_TYPE]
        self.etypes, self.canonical_etypes = [_EDGE_TYPE[1]], [_EDGE_TYPE]
        self.tries = False

    @property
    def _graph(self) -> GraphIndex:
        """What functions of DGL on graphs take; not kept, so that no cycle holds rows."""
        return GraphIndex(self)

    @property
    def srcdata(self) -> Frame:
        """The rows of nodes."""
        return self.ndata

    dstdata = srcdata

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") or name == "context":
            raise AttributeError(name)
        raise self.context.refusal(f"asks its graph for {name}")

    @contextmanager
    def inside(self, layer: str, keys: DropoutKeys, *, tries: bool) -> Iterator[None]:
        """Let operations be those of a layer; `tries` is whether its messages are tried with fewer edges."""
        before = vars(self.context).get("layer"), vars(self.context).get("keys"), self.tries
        self.context.layer, self.context.keys, self.tries = layer, keys, tries
        try:
            yield
        finally:
            if before[0] is not None and before[1] is not None:
                self.context.layer, self.context.keys, self.tries = before[0], before[1], before[2]

    @contextmanager
    def local_scope(self) -> Iterator[None]:
        """Forget, behind it, what was written to frames."""
        frames = self.ndata, self.edata
        before = [dict(frame.values_by_name) for frame in frames]
        try:
            yield
        finally:
            for frame, values in zip(frames, before, strict=True):
                frame.values_by_name = values

    def local_var(self) -> DglGraph:
        """Return a graph with frames of its own, in which the values are the same."""
        other = DglGraph.__new__(DglGraph)
        vars(other).update(vars(self))
        other.ndata = Frame(self.context, self.sharded.num_dst, "node")
        other.edata = Frame(self.context, self.sharded.num_edges, "edge")
        other.ndata.values_by_name = dict(self.ndata.values_by_name)
        other.edata.values_by_name = dict(self.edata.values_by_name)
        return other

    def num_nodes(self, ntype: str | None = None) -> int | RankSize:
        """Return the number of nodes of this rank; it may be a size alone, unless the rank has all of them."""
        self._check_type("num_nodes", ntype)
        return self._number(self.sharded.num_dst, "nodes")

    def num_edges(self, etype: Any = None) -> int | RankSize:
        """Return the number of their in-edges, likewise."""
        self._check_type("num_edges", etype)
        return self._number(self.sharded.num_edges, "edges")

    number_of_nodes = num_src_nodes = num_dst_nodes = num_nodes
    number_of_src_nodes = number_of_dst_nodes = num_nodes
    number_of_edges = num_edges

    def in_degrees(self, *nodes: Any, **options: Any) -> Tensor:
        """Return the number of in-edges of each node of this rank."""
        self._check_all("in_degrees", nodes, options)
        return self.sharded.in_degrees()

    def out_degrees(self, *nodes: Any, **options: Any) -> Tensor:
        """Return the number of out-edges of each node of this rank, to any rank."""
        self._check_all("out_degrees", nodes, options)
        return self.sharded.out_degrees()

    def apply_edges(self, func: Any, *edges: Any, **options: Any) -> None:
        """Compute values of edges."""
        self._check_all("apply_edges", edges, options)
        for name, value in self._messages(func).items():
            self.edata[name] = value

    def apply_nodes(self, func: Any, *nodes: Any, **options: Any) -> None:
        """Compute rows of nodes by a function, which has to work row by row as elsewhere in a model."""
        self._check_all("apply_nodes", nodes, options)
        self.ndata.update(func(NodeBatch(self.context, self.ndata.values_by_name)))

    def update_all(self, message_func: Any, reduce_func: Any, apply_node_func: Any = None, etype: Any = None) -> None:
        """Compute messages and reduce them to nodes."""
        self._check_type("update_all", etype)
        kind = getattr(reduce_func, "name", None)
        if not hasattr(reduce_func, "msg_field") or kind not in _REDUCTIONS:
            name = getattr(reduce_func, "__name__", kind or type(reduce_func).__name__)
            raise self.context.refusal(
                f"reduces messages by {name}, of its own, which sees all messages of a node at once; sum, mean, "
                "max and min of dgl.function are known"
            )
        messages = self._messages(message_func)
        if reduce_func.msg_field not in messages:
            raise self.context.refusal(f"reduces {reduce_func.msg_field!r}, but sends {', '.join(messages)}")
        rows = self.reduced(messages[reduce_func.msg_field], _REDUCTIONS[kind])
        values = {reduce_func.out_field: rows}
        if apply_node_func is not None:
            if kind in ("max", "min") and not self.sharded.each_has_edges:
                raise self.context.refusal(f"calls update_all with {kind} and apply_node_func for nodes without edges")
            values = apply_node_func(NodeBatch(self.context, {**self.ndata.values_by_name, **values}))
        self.ndata.update(values)

    def reduced(self, messages: Any, reduce: Reduce) -> Tensor:
        """Return the reduced messages of each node."""
        return reduced_expression(self.of_edges(messages), reduce, tries=self.tries)

    def of_edges(self, values: Any) -> EdgeExpression:
        """Return the expression for values of edges."""
        return values if isinstance(values, EdgeExpression) else End(self.context, "e", values)

    def ends(self, target: Any, rows: Any) -> EdgeExpression:
        """Return the expression for rows of one end of edges, or of these."""
        place = _TARGETS[target]
        return self.of_edges(rows) if place == "e" else End(self.context, place, rows)

    def binary(self, name: str, left: tuple[Any, Any], right: tuple[Any, Any]) -> EdgeExpression:
        """Return the expression for an operation of DGL's, on two targets and their rows."""
        if name in ("copy_lhs", "copy_rhs"):
            return self.ends(*(left if name == "copy_lhs" else right))
        if name not in _BINARY:
            raise self.context.refusal(f"computes {name} of the ends of edges")
        one, other = self.ends(*left), self.ends(*right)
        most = max(one.dim(), other.dim())
        computed: EdgeExpression = _BINARY[name](_padded(one, most), _padded(other, most))
        if name == "mul" and isinstance(one, End) and isinstance(other, End):
            computed.factors = one, other
        return computed

    def _messages(self, func: Any) -> Mapping[str, Any]:
        if hasattr(func, "binary_op"):
            sides = [
                (target, self._field(target, name))
                for target, name in ((func.lhs, func.lhs_field), (func.rhs, func.rhs_field))
            ]
            return {func.out_field: self.binary(func.binary_op, *sides)}
        if hasattr(func, "in_field"):
            return {func.out_field: self.ends(func.target, self._field(func.target, func.in_field))}
        if not callable(func):
            raise self.context.refusal(f"computes messages by {type(func).__name__}")
        return Call(self.context, func, self.ndata.values_by_name, self.edata.values_by_name).results()

    def _field(self, target: Any, name: str) -> Any:
        return (self.edata if _TARGETS[target] == "e" else self.ndata)[name]

    def _number(self, number: int, what: str) -> int | RankSize:
        is_whole = self.sharded.world_size == 1 and not self.sharded.has_replaced_loops
        return number if is_whole else RankSize(number, what, self.context.refusal)

    def _check_type(self, method: str, kind: Any) -> None:
        if kind is not None and kind not in (_NODE_TYPE, _EDGE_TYPE, _EDGE_TYPE[1]):
            raise self.context.refusal(f"calls {method} for the type {kind!r}")

    def _check_all(self, method: str, chosen: Any, options: Mapping[str, Any]) -> None:
        """Refuse methods for some nodes or edges."""
        known = (str, tuple, type(None))
        if any(
            not isinstance(one, known) or one not in ("__ALL__", None, _EDGE_TYPE, _EDGE_TYPE[1], _NODE_TYPE)
            for one in (*chosen, *options.values())
        ):
            raise self.context.refusal(f"calls {method} for some nodes or edges")


class GraphIndex:
    """What functions of DGL take of a graph.

    Parameters
    ----------
    graph
        The graph.
    """

    def __init__(self, graph: DglGraph) -> None:
        self.graph = graph

    def number_of_etypes(self) -> int:
        """Return the number of types of edges."""
        return 1

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") or name == "graph":
            raise AttributeError(name)
        raise self.graph.context.refusal(f"asks its graph for {name}, by a function of DGL,")


class NodeBatch:
    """The nodes of this rank as a function of nodes sees them.

    Attributes
    ----------
    data : Mapping
        Rows by name.
    """

    def __init__(self, context: EdgeContext, rows: Mapping[str, Any]) -> None:
        self._context, self.data = context, rows

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") or name == "_context":
            raise AttributeError(name)
        raise self._context.refusal(f"reads {name} of nodes in a function of nodes")


def _padded(values: EdgeExpression, dims: int) -> Any:
    """Return values with further dimensions behind that of edges, where DGL has them."""
    if values.dim() == dims:
        return values
    shape = -1, *(1 for _ in range(dims - values.dim())), *values.shape[1:]
    return operation(Tensor.view, (values, shape), {})
