"""The minibatch: everything that one training step reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import torch
from torch import Tensor

from headrace.ops import InputError, unique_and_inverse
from headrace.pipeline.data.batch_parts import COLLECTIONS, freeze, integers_of, mapped, named_tensors, no_ids, text_of
from headrace.pipeline.data.block import Block
from headrace.pipeline.data.checks import as_present_device, check_tensor, moved, no_seeds, pinned, place_of_batch
from headrace.pipeline.data.digest import exact_digest
from headrace.pipeline.data.feature_names import FeatureName
from headrace.pipeline.data.registry import registered
from headrace.pipeline.data.typed_items import LinkTypes
from headrace.pipeline.data.types import TypedIds

#: `Exchange` and `Comm` of `pipeline/distributed/`, which knows of batches.
Exchange: TypeAlias = Any
Comm: TypeAlias = Any

_OPTIONAL = ("y", "slot", "seed_time", "seed_slot", "link_types")


def _make_batch(kind: type[MiniBatch], values: dict[str, Any]) -> MiniBatch:
    return kind(**values)


@dataclass(frozen=True, eq=False, repr=False)
class MiniBatch:
    """Seeds, their sampled neighbourhood and its features.

    A batch is frozen: stages return a changed copy, by `replace`. Fields that no stage has written yet are empty. The
    destinations of ``blocks[-1]``, and so the rows of a model's output, begin with the *unique* seeds in order of first
    occurrence. ``out[batch.seed_index]`` are the rows that match ``seeds`` and ``y``, also when seeds repeat.

    Parameters
    ----------
    seeds: int64[num_seeds], int64[num_pairs, 2] or int64[num_items, k]
        Node ids, or the node ids of pairs or larger groups.
    seed_index
        Shape of `seeds`; each seed's row among the destinations of ``blocks[-1]``. 0, 1, 2, … when seeds are unique.
    item_index: int64[num_seeds] or int64[num_pairs]
        Each item's position in the item set (``input_id`` in PyG); -1 for seeds that are not items (GraphSAINT).
    y: [num_seeds, ...] or [num_pairs, ...], or a dictionary, optional
        Labels, row i for ``seeds[i]``. If labels of several types were fetched, ``y["paper"]`` has a row for each seed
        that is a paper, in the order of `seeds`: for ``seeds[types.of(seeds).places("paper")]``.
    n_id: int64[num_src]
        Node ids of the inputs of ``blocks[0]``, unique seeds first, then in order of discovery.
    node
        Node features by name, each [num_src, ...], row i for ``n_id[i]``. GraphSAINT's samplers add "loss_weight".
    edge
        Edge features by name, each a tuple with one [num_edges, ...] tensor per block, aligned with `blocks`.
    blocks
        Input side first, in the order of a model's layers: ``blocks[0]`` takes `x`, ``blocks[-1]`` ends at the seeds.
        If ranks share edges (``partition=hr.EdgePartition``), each is a `SharedBlock`, for layers of `hr.nn`.
    slot: int64[num_src], optional
        The tree of each entry of `n_id`, if each seed has its own tree (``disjoint=True``, ``time=``; ``batch`` in
        PyG). Seed or pair i has tree i. A node in two trees has two entries. If ranks make the batch together, a rank
        has nodes of any tree, and slots count the trees of all ranks: those of its own seeds, in the shape of `seeds`,
        are ``exchanges[-1].wanted_slot[seed_index]``.
    seed_time: [num_seeds] or [num_pairs], optional
        The time of each seed, int64 or float64: its tree contains nothing later. ``seed_time[slot]`` is the time of
        each entry of `n_id`. If ranks make such trees together, it has the times of the seeds of all ranks, by slots:
        those of this rank's are ``seed_time[exchanges[-1].wanted_slot[seed_index]]``, of pairs in both columns.
    seed_slot: int64[num_seeds], optional
        The position of each seed among the seeds of all ranks, which keys the draws of its tree; None for 0, 1, 2, …,
        and for trees that ranks make together, as `slot` has these positions then.
    link_types: LinkTypes, optional
        The edge types of the pairs, if items were given by edge type.
    num_sampled_nodes: num_hops + 1 counts
        Unique seeds, then the nodes first found by each hop, from the seeds outward.
    num_sampled_edges: num_hops counts
        Edges that each hop sampled, from the seeds outward.
    exchanges: num_layers + 1 exchanges
        The exchanges of rows before each layer, if ranks make the batch together (``.loader(cooperative=True)``), input
        side first; the last one is to the seeds. See `exchange`. Empty otherwise.
    comm
        The channel on which a model exchanges these rows; None if ranks do not make the batch together.
    types
        `n_id` with the types of nodes and edges, if the graph has types. ``batch.types.places("paper")`` are the
        positions of papers in `n_id`, ``batch.types.within("paper")`` their ids within the type. A feature of a type is
        ``batch.node["paper", "x"]``.
    epoch, index
        The epoch, and the number of the batch in it.
    num_global_seeds
        The number of seeds (or pairs) of the batch over all ranks: divide a summed loss by it.
    num_positives
        If negatives were drawn, the number of positive pairs, which are the first of `seeds`; see
        `sample_uniform_negative`.
    """

    seeds: Tensor
    seed_index: Tensor = field(default_factory=no_ids)
    item_index: Tensor = field(default_factory=no_ids)
    y: Any = None  # Tensor | Mapping[TypeName, Tensor] | None, of which nearly all plans know the first alone
    n_id: Tensor = field(default_factory=no_ids)
    node: Mapping[FeatureName, Tensor] = field(default_factory=dict)
    edge: Mapping[FeatureName, tuple[Tensor, ...]] = field(default_factory=dict)
    blocks: tuple[Block, ...] = ()
    slot: Tensor | None = None
    seed_time: Tensor | None = None
    seed_slot: Tensor | None = None
    link_types: LinkTypes | None = None
    num_sampled_nodes: tuple[int, ...] = ()
    num_sampled_edges: tuple[int, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    comm: Comm | None = None
    types: TypedIds | None = None
    epoch: int = 0
    index: int = 0
    num_global_seeds: int = 0
    num_positives: int | None = None

    def __post_init__(self) -> None:
        check_tensor(self.seeds, "MiniBatch: seeds", InputError)
        freeze(self.__dict__, COLLECTIONS)

    @staticmethod
    def of_seeds(
        seeds: Tensor,
        *,
        epoch: int,
        index: int,
        y: Tensor | None = None,
        item_index: Tensor | None = None,
        num_global_seeds: int | None = None,
        seed_time: Tensor | None = None,
        seed_slot: Tensor | None = None,
    ) -> MiniBatch:
        """Return a batch that is not yet sampled, as a source draws it.

        Parameters
        ----------
        seeds: int64[num_seeds] or int64[num_pairs, 2]
            Seeds may repeat: `n_id` has the distinct ones, in order of first occurrence.
        epoch, index
            The epoch, and the number of the batch in it; the randomness of samplers depends on both.
        y: [num_seeds, ...] or [num_pairs, ...], optional
            Labels.
        item_index: int64[num_seeds] or int64[num_pairs], optional
            Each seed's position in the item set; -1 by default.
        num_global_seeds
            The number of seeds of all ranks; by default those of this one.
        seed_time, seed_slot
            As the fields of these names.
        """
        if not isinstance(seeds, Tensor) or not seeds.ndim or seeds.layout != torch.strided:  # without a call
            raise no_seeds(seeds, "MiniBatch.of_seeds")
        if type(epoch) is not int or type(index) is not int or epoch < 0 or index < 0:
            epoch, index = place_of_batch(epoch, index, "MiniBatch.of_seeds")
        unique, inverse = unique_and_inverse(seeds.flatten())
        num_seeds = seeds.shape[0]
        return _BLANK.replace(
            seeds=seeds,
            seed_index=inverse.view_as(seeds),
            item_index=torch.full((num_seeds,), -1, device="cpu") if item_index is None else item_index,
            y=y,
            n_id=unique,
            num_sampled_nodes=(unique.shape[0],),
            epoch=epoch,
            index=index,
            num_global_seeds=num_seeds if num_global_seeds is None else num_global_seeds,
            seed_time=seed_time,
            seed_slot=seed_slot,
        )

    def replace(self, **changes: Any) -> MiniBatch:
        """Return a copy with some fields changed; the others are shared, not copied.

        Raises
        ------
        InputError
            For a name that is no field.
        """
        # Every stage of a plan calls this for every batch: all that is not changed is taken over as it is.
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        copied.__dict__.update(changes)
        if len(copied.__dict__) > len(self.__dict__):
            from headrace.pipeline.data.batch_words import no_fields

            raise no_fields(self, sorted(changes.keys() - self.__dict__.keys()))
        freeze(copied.__dict__, changes)
        if copied.types is not None and copied.types.ids is not copied.n_id:
            copied.__dict__["types"] = copied.types.of(copied.n_id)
        return copied

    @property
    def num_seeds(self) -> int:
        """Return the number of seeds (or pairs) of this rank's share."""
        return int(self.seeds.shape[0])

    @property
    def seed_mask(self) -> Tensor:
        """Return which entries of `seeds` are real, bool[len(seeds)]: all, unless ``plan.pad()`` has added some."""
        return torch.ones(len(self.seeds), dtype=torch.bool, device=self.seeds.device)

    @property
    def num_bytes(self) -> int:
        """Return the bytes of all tensors of the batch."""
        return sum([tensor.numel() * tensor.element_size() for _, tensor in named_tensors(self)])  # a list: one call

    @property
    def x(self) -> Tensor:
        """Return ``node["x"]``.

        Raises
        ------
        InputError
            If no node feature named "x" was fetched; the message lists the fetched features.
        """
        if "x" not in self.node:
            by_type = [", ".join(map(repr, name)) for name in self.node if isinstance(name, tuple)]
            fetch = "fetch it with .fetch_feature(store, node=['x']), or read batch.node[name]"
            raise InputError(
                f"MiniBatch.x: expected a fetched node feature 'x', got {sorted(self.node, key=str) or 'none'}; "
                + (f"rows are by type, read batch.node[{by_type[0]}]" if by_type else fetch)
            )
        return self.node["x"]

    @property
    def e_id(self) -> Tensor:
        """Return the input edge ids of all sampled edges, hop next to the seeds first (`blocks` runs the other way).

        Raises
        ------
        InputError
            If the edges were sampled without their ids.
        """
        ids = [block.edge_ids for block in reversed(self.blocks) if block.edge_ids is not None]
        if len(ids) < len(self.blocks):
            raise InputError("MiniBatch.e_id: expected blocks with edge ids, got blocks sampled without them")
        return torch.cat(ids) if ids else no_ids()

    def exchange(self, layer: int, rows: Tensor) -> Tensor:
        """Send rows of a layer from the owners of its nodes to the ranks that need them; gradients flow back.

        In a model, the input of layer i is ``batch.exchange(i, h)``, except for the first layer: the loader has
        exchanged `x`. After the last layer, ``batch.exchange(num_layers, h)`` has a row for each unique seed of this
        rank. Every rank calls it for the same layers in the same order. It returns `rows` unchanged if ranks do not
        make batches together, and before a layer whose edges ranks share.

        Parameters
        ----------
        layer
            From 0, the input of ``blocks[0]``, to the number of layers, the seeds.
        rows: [num_owned, ...]
            A row for each node of the layer that this rank owns: the output of the layer before.

        Returns
        -------
        Tensor
            [num_wanted, ...], a row for each source of ``blocks[layer]``, or for each unique seed.

        Raises
        ------
        InputError
            For a layer that does not exist, or another number of rows.
        PeerError
            If another rank failed or was lost.
        """
        if not self.exchanges or self.comm is None:
            return rows
        if not 0 <= layer < len(self.exchanges):
            raise InputError(
                f"MiniBatch.exchange: the layers of this batch are 0 to {len(self.exchanges) - 1}, got {layer!r}"
            )
        delivered: Tensor = self.exchanges[layer].deliver(rows, self.comm)
        return delivered

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> MiniBatch:
        """Return the batch with every tensor on `device`; a `HeadraceError` refuses a GPU where torch finds none."""
        device = as_present_device(device, "MiniBatch.to")
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> MiniBatch:
        """Return the batch in page-locked memory, so that ``to(device, non_blocking=True)`` overlaps with other work.

        Raises
        ------
        HeadraceError
            If there is no accelerator.
        """
        return self._map(pinned)

    def to_pyg(self) -> Any:
        """Return one ``torch_geometric.data.Data`` with all hops in one ``edge_index``.

        Its attributes are those of PyG's loaders: ``x`` and the other node features (rows of ``n_id``), ``y`` (a row
        for each of ``n_id[:batch_size]``), ``edge_index`` in local ids, ``n_id``, ``e_id``, ``batch_size`` (distinct
        seeds, which are the first rows, in order of first occurrence), ``input_id`` (the items of all seeds),
        ``num_sampled_nodes``, ``num_sampled_edges``, ``batch`` (`slot`) and ``seed_time`` if seeds have their own
        trees, ``importance_weight`` if blocks have weights, and the fetched edge features. ``num_global_seeds`` is that
        of the batch. Each type has its own attributes; without seeds its ``batch_size`` is 0. Pairs become
        ``edge_label_index`` (and ``edge_label``), triplets ``src_index``, ``dst_pos_index`` and ``dst_neg_index``;
        ``input_id`` then has the positive pairs. With items by edge type each edge type has its own, ``data["user",
        "rates", "movie"].edge_label_index``, and with times ``edge_label_time``.

        When seeds repeat, ``seed_index`` maps each of them to its row: ``out[data.seed_index]`` and
        ``data.y[data.seed_index]`` have a row for each seed given, ``out[: data.batch_size]`` and ``data.y`` for each
        distinct seed.

        The stage ``plan.to_pyg()`` converts ahead of the training loop, in background threads.

        With ``expand="new"`` the edges are the sample, grouped hop by hop. With ``expand="all"`` hops overlap, because
        every hop samples again for the nodes found before. The result is then the *union* of the edges of all hops,
        from the seeds outward, without repeats of edges of earlier hops; ``num_sampled_edges`` counts the edges that
        each hop added. ``trim_to_layer`` is valid in both cases. On the union it changes results, unless all fanouts
        are -1: a node for which k hops sampled has up to k fanouts of edges. Trimmed layers use the edges of the hops
        up to their own (the last layer exactly its block); untrimmed layers use all. For exact fanouts, use ``blocks``
        or ``expand="new"``.

        Raises
        ------
        InputError
            If several blocks have no edge ids, which identify repeats; if ranks made the batch together; if a seed has
            two labels that differ; or if a feature has the name of another attribute.
        ModuleNotFoundError
            If torch_geometric is not installed.
        """
        return registered("batch_to_pyg")(self)

    def to_dgl(self, *, pairs: bool = False) -> Any:
        """Return the blocks as DGL message-flow graphs, input side first, as from DGL's own loader.

        ``dgl.NID`` is set on sources and destinations, ``dgl.EID`` on edges. Node features are in ``srcdata`` of the
        first block, labels in ``dstdata["y"]`` of the last one (a row for each distinct seed; not if ranks make batches
        together), edge features in ``edata`` of each block, importance weights in ``edata["importance_weight"]``, the
        trees of nodes in ``srcdata["slot"]`` and ``dstdata["slot"]``. A last block with destinations besides the seeds
        (ShaDow) has ``dstdata["is_seed"]``; their labels are nan or -100, which losses ignore.

        With `pairs` return ``(input_nodes, pair_graph, blocks)`` as DGL's loaders of edges do, or, if negatives were
        drawn, ``(input_nodes, pair_graph, neg_pair_graph, blocks)``. The nodes of the pair graphs are the destinations
        of the last block. Their edges are the pairs, in order, with ``edata["y"]``, ``["item_index"]`` and
        ``["seed_time"]``.

        The stage ``plan.to_dgl()`` converts ahead of the training loop, in background threads.

        Raises
        ------
        InputError
            If the batch was sampled with ``expand="new"`` over several hops; if a seed has two labels that differ; or,
            with `pairs`, for seeds that are not pairs or have no known edge type.
        ModuleNotFoundError
            If DGL is not installed.
        """
        return registered("batch_to_dgl")(self, pairs=pairs)

    def digest(self) -> str:
        """Return a fingerprint of every bit of every field: equal digests mean equal batches, on any device."""
        return exact_digest([*integers_of(self), *named_tensors(self)])

    def tensors(self) -> Iterator[Tensor]:
        """Yield every tensor of the batch."""
        return (tensor for _, tensor in named_tensors(self))

    def _map(self, of_tensor: Callable[[Tensor], Tensor]) -> MiniBatch:
        blocks = {block: moved(block, of_tensor) for block in self.blocks}  # layers may share one,
        once = cache(of_tensor)  # and features of its edges
        return self.replace(
            seeds=of_tensor(self.seeds),
            seed_index=of_tensor(self.seed_index),
            item_index=of_tensor(self.item_index),
            n_id=of_tensor(self.n_id),
            **{name: mapped(value, of_tensor) for name in _OPTIONAL if (value := getattr(self, name)) is not None},
            node={name: of_tensor(tensor) for name, tensor in self.node.items()},
            edge={name: tuple(map(once, tensors)) for name, tensors in self.edge.items()},
            blocks=tuple(blocks[block] for block in self.blocks),
            exchanges=tuple(exchange.map(of_tensor) for exchange in self.exchanges),
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            from headrace.pipeline.data.batch_words import missing

            raise missing(self, name)

    def __reduce__(self) -> tuple[Callable[..., MiniBatch], tuple[Any, ...]]:
        # Read-only views of mappings cannot be pickled; the constructor makes them again.
        views = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        values = {name: dict(value) if isinstance(value, MappingProxyType) else value for name, value in views.items()}
        return _make_batch, (type(self), values)

    def __repr__(self) -> str:
        return text_of(self)


#: What sources fill in: a copy of it costs half of what a new batch with all its defaults does.
_BLANK = MiniBatch(seeds=no_ids())
