"""Any layer of DGL over a graph in shards: its own forward, with a graph that answers in the place of a DGLGraph."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from headrace.ops.errors import HeadraceError, InputError
from headrace.ops.forks import cached_property
from headrace.pipeline.models.adapters.pyg_functions import replaced_functions
from headrace.pipeline.models.by_parts.row_rules import users_line
from headrace.pipeline.models.sar.dgl_graph import DglGraph, GraphIndex
from headrace.pipeline.models.sar.edge_expressions import EdgeExpression
from headrace.pipeline.models.sar.edge_functions import Softmax
from headrace.pipeline.models.sar.edge_reductions import computed_values
from headrace.pipeline.models.sar.rank_size import RankSize
from headrace.pipeline.models.sar.replaced_layer import ReplacedLayer
from headrace.pipeline.models.sar.sharded_graph import ShardedGraph

#: Attributes of a DGLGraph that a `ShardedGraph` has not: a module that asks for one is a layer for DGL's graphs.
_ASKED = {"srcdata", "dstdata", "ndata", "edata", "local_scope", "local_var", "apply_edges", "apply_nodes", "edges",
          "in_edges", "out_edges"}  # fmt: skip

#: Libraries the modules of which do not ask for them.
_OTHERS = {"builtins", "torch", "torch_geometric", "headrace"}


def is_layer_of_dgl(kind: type[nn.Module]) -> bool:
    """Return whether modules of a class are layers for DGL's graphs: those of DGL, and a user's own."""
    bases = [base for base in kind.__mro__ if base.__module__.partition(".")[0] not in _OTHERS]
    return any(_takes_graph(base) or not _ASKED.isdisjoint(_names(base)) for base in bases)


def _takes_graph(kind: type) -> bool:
    """Return whether a class is a layer of DGL itself, some of which pass their graph on."""
    code = getattr(vars(kind).get("forward"), "__code__", None)
    is_conv = kind.__module__.startswith("dgl.nn.pytorch.conv.")
    return is_conv and isinstance(code, CodeType) and code.co_varnames[1:2] in (("graph",), ("g",))


def _names(kind: type) -> Iterator[str]:
    """Yield the names of attributes that methods of a class use, and functions of their modules that they call."""
    ahead = [*vars(kind).values()]
    seen: set[int] = set()
    while ahead:
        value = ahead.pop()
        value = getattr(value, "fget", getattr(value, "__func__", value))  # of properties and static methods
        function = inspect.unwrap(value) if callable(value) else value
        code = getattr(function, "__code__", None)
        if not isinstance(function, FunctionType) or not isinstance(code, CodeType) or id(code) in seen:
            continue
        codes = [code]
        while codes:
            code = codes.pop()
            seen.add(id(code))
            yield from code.co_names
            codes.extend(one for one in code.co_consts if isinstance(one, CodeType))
            called = [function.__globals__.get(name) for name in code.co_names]
            ahead.extend(one for one in called if isinstance(one, FunctionType) and not _is_of_others(one))


def _is_of_others(value: Any) -> bool:
    return str(value.__module__).partition(".")[0] in {*_OTHERS, "dgl"}


class AnyDglLayer(ReplacedLayer):
    """A layer of DGL, of a user's own too, with what it asks its graph for answered over shards."""

    @cached_property
    def tried(self) -> set[bool]:
        """The modes, of training or not, in which messages were tried."""
        return set()

    @classmethod
    def refusal(cls, layer: Any) -> str:
        """Refuse LSTMs, which want all messages of a node in an order."""
        return "with aggregator_type='lstm'" if getattr(layer, "_aggre_type", None) == "lstm" else ""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer's own forward; the graph stands where the DGLGraph stood."""
        graphs = [one for one in (*args, *kwargs.values()) if isinstance(one, ShardedGraph | DglGraph)]
        if not graphs and not self.replaced.__module__.startswith("dgl."):
            return self.replaced.forward(self, *args, **kwargs)  # it has names of a DGLGraph, but takes none
        if len(graphs) != 1:
            raise InputError(
                f"{self.replaced.__name__}: expected an hr.sar.ShardedGraph, got {len(graphs)}; hr.sar.wrap has "
                "replaced this layer, which took a DGLGraph"
            )
        # A layer inside of another one sees what that one wrote to the graph, as with DGL.
        graph = graphs[0] if isinstance(graphs[0], DglGraph) else DglGraph(graphs[0])
        self.check_in_degrees(graph.sharded)
        layer: Any = self.replaced.__new__(self.replaced)
        vars(layer).update(vars(self))  # the very same parameters and modules
        # Buffers that the layer sets are those of the next call, not of the backward direction of this one.
        vars(layer)["_buffers"] = {**self._buffers}
        tries = self.training not in self.tried

        def tensors(value: Any) -> Any:
            return computed_values(value, tries=tries) if isinstance(value, EdgeExpression) else value

        try:
            with graph.inside(self.replaced.__name__, self.keys, tries=tries), _known_functions():
                out = layer.forward(
                    *(graph if one is graphs[0] else one for one in args),
                    **{name: graph if one is graphs[0] else one for name, one in kwargs.items()},
                )
                out = tree_map(tensors, out)
        except (RuntimeError, TypeError) as error:
            if RankSize.__name__ in str(error):  # torch takes it for a size alone
                raise graph.context.refusal(
                    f"computes with a number of nodes or edges of one rank {users_line(error)}"
                ) from error
            if isinstance(error, TypeError):
                raise
            if (graph.sharded.num_dst and graph.sharded.num_edges) or isinstance(error, HeadraceError):
                raise
            raise InputError(
                f"{self.replaced.__name__}: the layer does not work on rank {graph.sharded.rank}, which has "
                f"{graph.sharded.num_dst} nodes and {graph.sharded.num_edges} edges ({error}); cut the graph so that "
                "each rank has some"
            ) from error
        else:
            self.tried.add(self.training)
            return out
        finally:
            buffers = layer._buffers  # noqa: SLF001 - of modules
            vars(self).update({name: value for name, value in vars(layer).items() if name != "_buffers"})
            self._buffers.update(buffers)

    def check_in_degrees(self, graph: ShardedGraph) -> None:
        """Refuse nodes without in-edges where DGL does; all ranks do, wherever these nodes are.

        Raises
        ------
        InputError
            If there are such nodes, and the layer does not allow them.
        """
        if not getattr(self, "_allow_zero_in_degree", True) and not graph.each_has_edges:
            raise InputError(
                f"{self.replaced.__name__}: there are nodes without in-edges, whose output would be meaningless; add "
                "loops to the graph, hr.Graph.with_self_loops(), or pass allow_zero_in_degree=True to the layer"
            )


def _edge_softmax(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def edge_softmax(gidx: Any, logits: Any, eids: Any = "__ALL__", norm_by: str = "dst") -> Any:
        if not isinstance(gidx, GraphIndex):
            return original(gidx, logits, eids, norm_by)
        graph = gidx.graph
        if not isinstance(eids, str) or norm_by != "dst":
            raise graph.context.refusal(f"calls edge_softmax for some edges or with norm_by={norm_by!r}")
        return Softmax(graph.of_edges(logits))

    return edge_softmax


def _gsddmm(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def gsddmm(gidx: Any, op: str, lhs: Any, rhs: Any, lhs_target: str = "u", rhs_target: str = "v") -> Any:
        if not isinstance(gidx, GraphIndex):
            return original(gidx, op, lhs, rhs, lhs_target, rhs_target)
        return gidx.graph.binary(op, (lhs_target, lhs), (rhs_target, rhs))

    return gsddmm


def _gspmm(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def gspmm(gidx: Any, op: str, reduce_op: Any, lhs: Any, rhs: Any) -> Any:
        if not isinstance(gidx, GraphIndex):
            return original(gidx, op, reduce_op, lhs, rhs)
        graph = gidx.graph
        rows = graph.reduced(graph.binary(op, ("u", lhs), ("e", rhs)), reduce_op)
        if reduce_op not in ("max", "min"):
            return rows
        # DGL's functions, unlike its methods, leave nodes without edges at infinity.
        has_no_edges = (graph.in_degrees() == 0).view(-1, *(1 for _ in rows.shape[1:]))
        return rows.masked_fill(has_no_edges, -torch.inf if reduce_op == "max" else torch.inf)

    return gspmm


#: Functions of DGL, by the module in which all its others look them up.
_FUNCTIONS = {
    "dgl.ops.edge_softmax": {"edge_softmax_internal": _edge_softmax},
    "dgl.ops.sddmm": {"gsddmm_internal": _gsddmm},
    "dgl.ops.spmm": {"gspmm_internal": _gspmm},
}


@contextmanager
def _known_functions() -> Iterator[None]:
    """Let DGL's functions on graphs know those in shards; of others they do what they did."""
    with ExitStack() as stack:
        for name, functions in _FUNCTIONS.items():
            if name in sys.modules:
                stack.enter_context(replaced_functions(sys.modules[name], functions, callable))
        yield
