"""One sampled hop: a bipartite graph from sources to destinations in local ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, cast

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.forks import cached_property
from headrace.ops.names import Named
from headrace.pipeline.data.arrays import describe
from headrace.pipeline.data.block_methods import Messages
from headrace.pipeline.data.block_tree import register
from headrace.pipeline.data.checks import Versions, as_present_device, check_block, is_as_made, moved, pinned, trusted
from headrace.pipeline.data.registry import registered
from headrace.pipeline.data.relation_block import edge_types_of, edges_of_relation, places_of_type
from headrace.pipeline.data.types import TypedIds, TypeName, type_number

# What messages and other libraries need is loaded by the methods that need it, so that a first block comes soon.
if TYPE_CHECKING:
    from headrace.ops.aggregate.transpose import Transposed


@dataclass(frozen=True, eq=False, repr=False)
class Block(Messages):
    """The edges of one layer: destination i has in-edges from the sources ``indices[indptr[i]:indptr[i + 1]]``.

    Destinations are the first sources: source i and destination i are the same node for i < num_dst, so ``x[:num_dst]``
    are the destinations' own features.

    Parameters
    ----------
    indptr: int64[num_dst + 1]
    indices: int32[num_edges] or int64[num_edges]
        Local source ids, in [0, num_src).
    num_src, num_dst
        Rows of the layer's input and output.
    edge_ids: int64[num_edges], optional
        Each edge's id in the graph's input edge order.
    weight: float[num_edges], optional
        Importance weights of the sampled edges; a mean weighted by them is the Hajek estimate of the full mean. None:
        all sampled edges of a destination have equal weight.
    types
        The sources with their types, and the edge types, if the graph has types; see `relation`.
    bipartite
        Whether sources have another type than destinations, so that no destination is a source.

    Raises
    ------
    InputError
        If dtypes or lengths do not fit together. Values are not read: blocks may be on any device.
    """

    indptr: Tensor
    indices: Tensor
    num_src: int
    num_dst: int
    edge_ids: Tensor | None = None
    weight: Tensor | None = None
    types: TypedIds | None = None
    bipartite: bool = False

    #: Rows of the sources without columns, of blocks that `hr.nn.mark_dynamic` has seen: a size that can be dynamic.
    _marked_rows: ClassVar[Tensor | None] = None

    #: The versions of `indptr` and `indices` that headrace made (`trusted`). Others, and changed ones, are looked at.
    _is_trusted: ClassVar[Versions | bool] = False

    if not TYPE_CHECKING:
        __post_init__ = check_block  # one call for each block

        def __getattr__(self, name: str) -> NoReturn:
            if hasattr(type(self), name):  # a property that failed within: once more, for its own error
                object.__getattribute__(self, name)
            # Layers of DGL ask a graph for much; what they do not find is the first that a user of them sees.
            raise AttributeError(
                f"expected an attribute of a headrace Block, got {name!r}; give a layer of DGL block.to_dgl(): "
                "layer(block.to_dgl(), h), and one of PyG block.to_pyg(h)",
                name=name,
                obj=self,
            )

    @property
    def _real_sources(self) -> Tensor | None:
        return None  # all; of a `PaddedBlock` its mask

    @property
    def _real_destinations(self) -> Tensor | None:
        return None  # likewise

    @property
    def num_edges(self) -> int:
        """Return the number of edges."""
        return self.indices.numel()

    @cached_property
    def edge_index(self) -> Tensor:
        """Return the edges as int64[2, num_edges]: local sources in row 0, local destinations in row 1.

        The first call computes it; all layers and calls of a step share it.
        """
        edges: Tensor = registered("edge_index_of")(self)
        return edges

    @cached_property
    def transposed(self) -> Transposed:
        """Return the edges by source, as gradients need them: row starts, destinations, positions.

        The first call computes it, as for `edge_index`.
        """
        from headrace.ops.aggregate.transpose import transpose_csc

        edges, threads = (self.indptr, self.indices), torch.get_num_threads()
        return transpose_csc(*edges, self.num_src, num_threads=threads, trusted=is_as_made(self))

    @cached_property
    def edge_types(self) -> Tensor:
        """Return the number of each edge's type in the graph, int64[num_edges]; all 0 without edge types.

        Layers such as PyG's ``RGCNConv`` take it as ``edge_type``. The first call computes it.

        Raises
        ------
        InputError
            If the block has no edge ids, which determine types.
        """
        if self.types is None:
            return torch.zeros_like(self.indices, dtype=torch.int64)
        return edge_types_of(self, self.types)

    @cached_property
    def edge_index_dict(self) -> dict[tuple[str, str, str], Tensor]:
        """Return the edges of each type as int64[2, n], with nodes numbered within their types as in `relation`.

        ``conv(h, block.edge_index_dict)`` calls layers of PyG that take rows by node type, such as ``HeteroConv``. `h`
        has the rows of the sources of each type, and so has the result; destinations are first. The first call computes
        it.

        Raises
        ------
        InputError
            If the graph has no edge types, or the name of one does not contain its node types.
        """
        if self.types is None:
            raise InputError("Block.edge_index_dict: expected a block of a graph with edge types, got one without")
        made = {name: self.relation(name).edge_index for name in self.types.edge_types.names}  # refuses plain names
        return Named("Block.edge_index_dict", cast("dict[tuple[str, str, str], Tensor]", made))

    def relation(self, edge_type: TypeName) -> Block:
        """Return the edges of one type as a bipartite block.

        Its sources are the block's sources of the edge type's source type, numbered in order; its destinations
        likewise. Row i of ``batch.node["paper", "x"]`` belongs to source i of type "paper" of ``batch.blocks[0]``.

        >>> import headrace as hr
        >>> types = {("author", "writes", "paper"): 2, ("paper", "cites", "paper"): 1}
        >>> graph = hr.Graph.from_coo(
        ...     [0, 1, 3], [2, 3, 2], node_types={"author": 2, "paper": 2}, edge_types=types
        ... )
        >>> loader = hr.ItemSampler({"paper": [0]}, seed=0).sample_neighbor(graph, [-1]).loader()
        >>> block = next(iter(loader)).blocks[0]
        >>> block.relation(("author", "writes", "paper"))
        Block(1 -> 1 nodes, 1 edges)

        Parameters
        ----------
        edge_type
            Its name: (source type, relation, destination type), or the relation alone if it is unique.

        Raises
        ------
        InputError
            If the graph has no such edge type; the message lists those that exist.
        """
        if self.types is None:
            raise InputError("Block.relation: expected a block of a graph with edge types, got one without")
        edges = edges_of_relation(self, edge_type, self.types)
        full = self.types.edge_types.names[type_number(self.types.edge_types, edge_type)]
        plain = edges.indptr, edges.indices, edges.num_src, edges.num_dst
        ids, weight = (None if one is None else one[edges.places] for one in (self.edge_ids, self.weight))
        return trusted(Block(*plain, ids, weight, bipartite=full[0] != full[2]), like=self)

    def relation_places(self, edge_type: TypeName) -> Tensor:
        """Return the positions of the edges of a type among those of the block, int64[n], ascending.

        Raises
        ------
        InputError
            As `relation`.
        """
        if self.types is None:
            raise InputError("Block.relation_places: expected a block of a graph with edge types, got one without")
        return places_of_type(self, type_number(self.types.edge_types, edge_type), self.types)

    def adj_t(self, values: Tensor | None = None) -> Tensor:
        """Return the block as a ``torch.sparse_csr`` matrix [num_dst, num_src], for layers that multiply by a matrix.

        Layers of PyG that take the sum, mean or maximum of plain messages (``SAGEConv``, ``GraphConv``, ``GINConv``,
        ``GCNConv(normalize=False)``, ...) take it in place of ``edge_index``. They then write no message per edge,
        which is faster on a CPU. The matrix shares the memory of `indices`. Its columns are in the order of the edges,
        not sorted; torch's products with dense matrices allow that.

        >>> import headrace as hr, torch
        >>> graph = hr.Graph.from_coo([1, 2, 2], [0, 0, 1], num_nodes=3)
        >>> block = next(iter(hr.ItemSampler([0, 1]).sample_neighbor(graph, fanouts=[-1]).loader())).blocks[0]
        >>> x = torch.tensor([[1.0], [2.0], [4.0]])
        >>> torch.sparse.mm(block.adj_t(), x).tolist()
        [[6.0], [4.0]]

        With PyG: ``conv((x, x[: block.num_dst]), block.adj_t())``.

        Parameters
        ----------
        values: [num_edges], optional
            Entries of the matrix, with the dtype of the layer's input: edge weights for a layer that sums
            (``block.adj_t(block.weight)``). Default: ones, float32. A mean divides by the number of edges for any
            values.

        Raises
        ------
        InputError
            If `values` has a wrong length, or the arrays of the block (in CPU memory) are out of range.
        """
        matrix: Tensor = registered("adj_t_of")(self, values)
        return matrix

    def named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the tensors under their names, in a fixed order."""
        for name in ("indptr", "indices", "edge_ids", "weight"):
            tensor = getattr(self, name)
            if tensor is not None:
                yield name, tensor

    def map(self, of_tensor: Callable[[Tensor], Tensor]) -> Block:
        """Return the block with a function applied to its tensors."""
        if not callable(of_tensor):
            raise InputError(f"Block.map: expected a function from tensor to tensor, got {type(of_tensor).__name__}")
        changed: dict[str, Any] = {name: of_tensor(tensor) for name, tensor in self.named_tensors()}
        types = None if self.types is None else self.types.map(of_tensor)
        return replace(self, types=types, **changed)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Block:
        """Return the block on another device; a `HeadraceError` refuses a GPU where torch finds none."""
        device = as_present_device(device, "Block.to")
        return moved(self, lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Block:
        """Return the block in page-locked memory, so that copies to a GPU can overlap with other work.

        Raises
        ------
        HeadraceError
            If there is no accelerator.
        """
        return moved(self, pinned)

    def to_pyg(self, x: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor, tuple[int, int]]:
        """Return ``((x, x[:num_dst]), edge_index, (num_src, num_dst))``, the arguments of a bipartite PyG layer.

        Pass them as ``conv(x_pair, edge_index, size=size)`` to any ``MessagePassing`` layer that takes a pair. In a
        model that `hr.cooperative` runs, this call exchanges the output of the previous layer between ranks; otherwise
        the call of the layer would.

        Parameters
        ----------
        x: [num_src, ...]
            The layer's input.

        Raises
        ------
        InputError
            If `x` does not have num_src rows, or destinations have another type, so that their rows are not in `x`.
        """
        if self.bipartite:
            raise InputError(
                "Block.to_pyg: expected a block whose destinations are sources too, got a relation between two types; "
                "pass rows of both: conv((x_src, x_dst), block.edge_index, size=(block.num_src, block.num_dst))"
            )
        if not isinstance(x, Tensor) or x.ndim == 0 or x.shape[0] != self.num_src:
            raise InputError(
                f"Block.to_pyg: expected x with a row for each of {self.num_src} sources, got {describe(x)}; "
                "blocks come input side first: blocks[0] takes batch.x. In batches that ranks make together each layer "
                "needs rows of other ranks: run the model by hr.cooperative, on batch.blocks themselves, or begin "
                "layer i with h = batch.exchange(i, h)"
            )
        return (x, x[: self.num_dst]), self.edge_index, (self.num_src, self.num_dst)

    def to_dgl(self) -> Any:
        """Return a ``dgl`` block with ``dgl.EID`` on its edges; `MiniBatch.to_dgl` sets node ids and features too.

        Raises
        ------
        ModuleNotFoundError
            If DGL is not installed.
        """
        return registered("block_to_dgl")(self)

    def __reduce__(self) -> tuple[type[Block], tuple[Any, ...]]:
        # Without `edge_index` and `transposed`, which are made anew from the others.
        plain = self.indptr, self.indices, self.num_src, self.num_dst, self.edge_ids, self.weight
        return type(self), (*plain, self.types, self.bipartite)

    def __repr__(self) -> str:
        device = "" if self.indptr.device.type == "cpu" else f", {self.indptr.device}"
        weight = "" if self.weight is None else ", weighted"
        return f"Block({self.num_src} -> {self.num_dst} nodes, {self.num_edges} edges{weight}{device})"


register(Block, TypedIds, "headrace.Block")
