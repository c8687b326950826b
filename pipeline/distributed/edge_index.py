"""What stands for the edges of a graph of which a rank knows a part, in the layers of PyG."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from headrace.ops.errors import InputError

#: What may be asked of edges, which says nothing of their ends.
_OF_EDGES = {
    "size", "dim", "numel", "__len__", "ndimension", "is_floating_point", "is_complex", "is_contiguous", "stride",
    "get_device", "__hash__", "shape", "dtype", "device", "layout", "ndim", "requires_grad", "is_sparse",
    "is_sparse_csr", "is_cuda", "is_cpu", "is_meta", "is_quantized", "is_nested", "is_leaf", "grad_fn", "names",
    "untyped_storage",
}  # fmt: skip

#: What leaves them as they are.
_AS_IT_IS = {"to", "long", "contiguous", "clone", "detach", "cpu", "cuda"}


class EdgeIndex(Tensor):
    """The edges of a graph, in the place of ``edge_index``: [2, num_edges] without numbers.

    Attributes
    ----------
    graph
        The graph.
    has_loops
        Whether its loops count; without them a layer can only go on by adding one at each node.
    advice
        What to do where a layer wants to know more; ends the error.
    """

    graph: Any
    has_loops: bool
    advice: str

    @staticmethod
    def of(graph: Any, num_edges: int, device: torch.device, *, has_loops: bool = True, advice: str = "") -> EdgeIndex:
        """Return what stands for the edges of a graph."""
        empty = torch.zeros((), dtype=torch.int64, device=device).expand(2, num_edges)
        edges: EdgeIndex = Tensor._make_subclass(EdgeIndex, empty)  # noqa: SLF001 - as torch documents it
        edges.graph, edges.has_loops, edges.advice = graph, has_loops, advice
        return edges

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer what edges are like, and refuse to say which they are.

        Raises
        ------
        InputError
            If a layer asks for the ends of edges.
        """
        name = getattr(func, "__name__", "")
        if name in _AS_IT_IS:
            return args[0]
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", "an attribute")
        mask = args[1][1] if name == "__getitem__" and isinstance(args[1], tuple) and len(args[1]) == 2 else None
        some = getattr(args[0].graph, "some", None) if isinstance(args[0], EdgeIndex) else None
        if some is not None and isinstance(mask, Tensor) and mask.dtype == torch.bool and args[1][0] == slice(None):
            edges = args[0]
            return EdgeIndex.of(some(mask), int(mask.sum()), mask.device, has_loops=edges.has_loops)
        if name not in _OF_EDGES:
            edges = next((one for one in args if isinstance(one, EdgeIndex)), None)
            raise InputError(
                f"expected a layer to look at edges by propagate() and PyG's own functions of loops alone, got {name} "
                "of edge_index: a rank does not know the nodes of others by the numbers that they have there"
                f"{'' if edges is None else edges.advice}"
            )
        with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001 - as torch documents it
            return func(*args, **(kwargs or {}))
