"""Models that were written for PyG or DGL, over a graph in shards."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from headrace.ops.errors import InputError
from headrace.pipeline.data import exact_digest, whole_number
from headrace.pipeline.data.checks import check_module
from headrace.pipeline.models.by_parts.seam import running_seam
from headrace.pipeline.models.nn.attention_keys import AttentionKeys
from headrace.pipeline.models.recomputation import DropoutKeys
from headrace.pipeline.models.replace_modules import (
    check_replaceable,
    drop_elements,
    norm_over_ranks,
    replace_modules,
    taken_over,
)
from headrace.pipeline.models.sar import dgl_layers, pyg_layers
from headrace.pipeline.models.sar.any_dgl import AnyDglLayer, is_layer_of_dgl
from headrace.pipeline.models.sar.any_pyg import AnyPygLayer
from headrace.pipeline.models.sar.rank_edges import check_same
from headrace.pipeline.models.sar.rank_graph import report
from headrace.pipeline.models.sar.replaced_layer import ReplacedLayer
from headrace.pipeline.models.sar.sharded_graph import ShardedGraph
from headrace.pipeline.models.watched_modules import Ranks, WatchedModules, check_row_local, remove_watch

#: By library and class what replaces a layer.
LAYERS: dict[tuple[str, str], type[ReplacedLayer]] = {
    ("torch_geometric", "SAGEConv"): pyg_layers.SAGEConv,
    ("torch_geometric", "GCNConv"): pyg_layers.GCNConv,
    ("torch_geometric", "GATConv"): pyg_layers.GATConv,
    ("torch_geometric", "RGCNConv"): pyg_layers.RGCNConv,
    ("dgl", "GATConv"): dgl_layers.GATConv,
    ("dgl", "RelGraphConv"): dgl_layers.RelGraphConv,
}


class ShardedBatchNorm(nn.BatchNorm1d):
    """`nn.BatchNorm1d` over the rows of all ranks; in evaluation, and for one rank, the very same."""

    graph: ShardedGraph

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the base class
        """Normalise rows of owned nodes, [num_dst, num_features]."""
        graph = self.graph
        if graph.world_size == 1 or not (self.training or not self.track_running_stats):
            return super().forward(input)
        if running_seam() is not None or not isinstance(input, Tensor):
            raise InputError(
                "BatchNorm1d: expected rows of nodes in training, got messages of edges, over all of which it would "
                "have to go; put it behind the layer"
            )
        if input.dim() != 2 or len(input) != graph.num_dst or graph.comm is None:
            raise InputError(f"BatchNorm1d: expected a row for each of {graph.num_dst} nodes, got {list(input.shape)}")
        return norm_over_ranks(self, input, graph.comm)


class ShardedDropout(nn.Dropout):
    """`nn.Dropout` for rows of owned nodes, whose masks belong to nodes: the same for any number of ranks."""

    graph: ShardedGraph
    keys: DropoutKeys

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the base class
        """Drop elements of rows, [num_dst, ...], and scale up the others."""
        # Messages have masks of edges, and expressions of edges those of the operation.
        if not self.training or self.p == 0 or running_seam() is not None or not isinstance(input, Tensor):
            return super().forward(input)
        if len(input) != self.graph.num_dst:
            raise InputError(f"Dropout: expected a row for each of {self.graph.num_dst} nodes, got {list(input.shape)}")
        return drop_elements(input, self.keys.next(), self.graph.owned, self.p)


def wrap(model: nn.Module, graph: ShardedGraph, *, seed: int = 0, row_local: Sequence[nn.Module] = ()) -> nn.Module:
    """Change a model of PyG's or DGL's layers to run on a graph in shards: ``model(x, graph)``.

    Layers are replaced in place by layers with the same parameters, under the same names, so optimisers and state dicts
    stay valid. They take rows of owned nodes, and the graph in the place of its edges or of a DGLGraph. Arrays of edges
    are those of this rank's edges, ``graph.edge_attrs`` or ``graph.edge_rows(values)``. Layers of `hr.nn` take such a
    graph directly, with the degrees and loops of the whole graph.

    PyG's `SAGEConv`, `GCNConv`, `GATConv` and `RGCNConv` have kernels here. Of any other `MessagePassing`, a user's own
    too, ``message``, ``aggregate``, ``update`` and ``edge_update`` are called shard by shard: once for each level of
    reductions that depend on others, forward and backward. DGL's layers, and your own that read ``ndata`` or ``edata``,
    call ``update_all`` and ``apply_edges`` on a graph that records operations on edges, and computes them likewise.
    Sums, means and extremes of sources, with weights of edges, have kernels, as `GATConv` and `RelGraphConv` have.

    Messages of one edge must not depend on others, but by sums, means, largest and smallest messages and softmaxes of a
    destination; masks of dropout belong to edges. This is seen by their operations, and tried with fewer edges at a
    layer's first call. Operations of ``forward`` and ``update`` on rows of nodes must work row by row, as elsewhere in
    the model; those of a user's own layer for PyG are watched, too.

    Operations row by row stay unchanged. Two more kinds of modules are replaced: `nn.BatchNorm1d` by one over the rows
    of all ranks, and `nn.Dropout` by one with masks that depend on `seed`, the call and the node (masks of attention on
    the edge). So a model computes the same with any number of ranks. Subclasses of these and other kinds of batch
    normalisation and dropout are refused. On several ranks, modules are watched at their first call in each mode, your
    own too: an operation that mixes rows, counts them or depends on their positions is refused with its line, such as
    ``nn.Softmax(dim=0)``. So are operations that cannot be seen, of `torch.jit` and C++; name such a module in
    `row_local`. Modules that take the graph are not watched, nor are functions that the model calls
    itself. `F.dropout` draws independently on each rank. `torch.utils.checkpoint` may wrap any part; it uses the same
    masks again.

    A model that was wrapped before gets the new graph and seed, and continues with new masks. A checkpoint with
    `dropout_state` continues with the next masks, too.

    >>> import headrace as hr, torch
    >>> from torch_geometric.nn import SAGEConv
    >>> graph = hr.sar.ShardedGraph(hr.Graph.from_coo([0, 1, 2], [1, 2, 0], num_nodes=3))
    >>> model = hr.sar.wrap(SAGEConv(4, 2), graph)
    >>> model(torch.randn(graph.num_src, 4), graph).shape
    torch.Size([3, 2])

    Parameters
    ----------
    model
        The model; it must have the same parameters on every rank, which is checked. It is changed, and returned.
    graph
        This rank's part.
    seed
        The seed of dropout masks; the same on all ranks.
    row_local
        Modules of the model that work row by row, as you vouch for, layers too: they are not watched.

    Raises
    ------
    InputError
        For a layer, or an option of one, that cannot be computed over shards; for parameters that are not initialised
        yet; if parameters differ between ranks; when the model runs, for a module that reads other rows, or a
        message that looks at other edges, with its line.
    PeerError
        If another rank has raised an error in this call.
    """
    if not isinstance(graph, ShardedGraph):
        raise InputError(f"hr.sar.wrap: expected graph to be an hr.sar.ShardedGraph, got {type(graph).__name__}")
    with graph:  # the others hear of errors
        check_module(model, "hr.sar.wrap")
        seed = whole_number(seed, "hr.sar.wrap: seed", 0, InputError, (1 << 64) - 1)
        row_local = check_row_local(row_local, model, "hr.sar.wrap")
        replaced = _replaced_kinds(model)
        _check_initialised(model)
        arrays = {name: value for name, value in model.state_dict().items() if isinstance(value, Tensor)}
        words = f"{exact_digest((name, value.detach()) for name, value in arrays.items())[:16]}, {seed}"
    if graph.comm is not None and graph.world_size > 1:
        check_same(graph.comm, words, "hr.sar.wrap: expected one model and seed on all ranks")
    with graph:
        remove_watch(model)
        model = _replace(model, graph, seed, replaced, {*row_local})
        if graph.world_size > 1:
            _watch_modules(model, graph, row_local)
        return model


def _replaced_kinds(model: nn.Module) -> dict[type[nn.Module], type[ReplacedLayer]]:
    """Return what replaces the layers of PyG and DGL, or refuse modules that would be wrong as they are."""
    kinds = list(dict.fromkeys(type(module) for module in model.modules()))
    replaced = {kind: layer for kind in kinds if (layer := _replacement(kind)) is not None}
    for module in model.modules():
        if type(module) not in replaced:
            _check_passes_no_messages(module)
    check_replaceable(model, "hr.sar.wrap", (ShardedBatchNorm, ShardedDropout))
    return replaced


def _replace(
    model: nn.Module,
    graph: ShardedGraph,
    seed: int,
    replaced: dict[type[nn.Module], type[ReplacedLayer]],
    row_local: set[nn.Module],
) -> nn.Module:
    # Those of an earlier call go on where they are, so that no mask comes again.
    known = [*keys_by_name(model).values()]
    number = itertools.count(1 + max((keys.number for keys in known), default=-1))
    for keys in known:
        keys.seed = seed
    names = {module: name or type(module).__name__ for name, module in model.named_modules()}

    def batch_norm(old: nn.BatchNorm1d) -> nn.Module:
        return taken_over(ShardedBatchNorm, old)

    def dropout(old: nn.Dropout) -> nn.Module:
        return taken_over(ShardedDropout, old, keys=DropoutKeys(seed, next(number)))

    def layer(old: nn.Module) -> nn.Module:
        kind = replaced[type(old)]
        if kind.refusal(old) and _is_pyg(type(old)):  # an option that the layer of this class does not know
            kind = AnyPygLayer
        new = kind.of(old, DropoutKeys(seed, next(number)), names[old])
        new.is_row_local = old in row_local
        return new

    for kind in replaced:
        model = replace_modules(model, kind, layer)
    model = replace_modules(replace_modules(model, nn.BatchNorm1d, batch_norm), nn.Dropout, dropout)
    for module in model.modules():
        if isinstance(module, ShardedBatchNorm | ShardedDropout):
            module.graph = graph
        of_attention = getattr(module, "attention_keys", None)
        if isinstance(of_attention, AttentionKeys) and of_attention.given is None:
            of_attention.given = DropoutKeys(seed, next(number))
    return model


def _watch_modules(model: nn.Module, graph: ShardedGraph, row_local: Sequence[nn.Module]) -> None:
    """Watch the modules of a model that work on this rank's rows, at their first calls."""
    ours = [one for one in model.modules() if isinstance(one, ShardedBatchNorm | ShardedDropout)]
    layers: list[nn.Module] = [one for one in model.modules() if isinstance(one, ReplacedLayer)]
    # What a library's layers are made of, such as linear maps by type, belongs to them; a user's own modules do not.
    libraries = "torch_geometric.", "dgl."
    layers += [part for one in layers for part in one.modules() if type(part).__module__.startswith(libraries)]
    ranks = Ranks(frozenset((graph.num_dst, graph.num_src, graph.num_edges)), lambda error: report(error, graph.comm))
    WatchedModules(model, layers, [*row_local, *ours], lambda: ranks, "hr.sar.wrap").install()


def keys_by_name(model: nn.Module) -> dict[str, DropoutKeys]:
    """Return the keys that modules of a model have of masks of dropout; none before it is wrapped."""
    check_module(model, "hr.sar.dropout_state")
    keys: dict[str, DropoutKeys] = {}
    for name, module in model.named_modules():
        if isinstance(module, ShardedDropout | ReplacedLayer):
            keys[name] = module.keys
        of_attention = getattr(module, "attention_keys", None)
        if isinstance(of_attention, AttentionKeys) and of_attention.given is not None:
            keys[name] = of_attention.given
    return keys


def _replacement(kind: type[nn.Module]) -> type[ReplacedLayer] | None:
    """Return what replaces modules of a class; None if nothing does."""
    known = LAYERS.get((kind.__module__.partition(".")[0], kind.__name__))
    if known is not None:
        return known
    return AnyPygLayer if _is_pyg(kind) else AnyDglLayer if is_layer_of_dgl(kind) else None


def _is_pyg(kind: type) -> bool:
    return any(
        base.__name__ == "MessagePassing" and base.__module__.startswith("torch_geometric.") for base in kind.__mro__
    )


def _check_passes_no_messages(module: nn.Module) -> None:
    """Refuse modules of DGL that take other graphs: of several types, or as matrices."""
    kind = type(module)
    if any(base.__module__.startswith(("dgl.nn.pytorch.hetero", "dgl.nn.pytorch.conv.dense")) for base in kind.__mro__):
        raise InputError(
            f"hr.sar.wrap: {kind.__module__}.{kind.__name__} cannot be computed over shards: their graph is no matrix, "
            "and its nodes and edges are of one type; of several types, RelGraphConv takes one that "
            "dgl.to_homogeneous returned"
        )


def _check_initialised(model: nn.Module) -> None:
    """Refuse parameters whose shape the first rows decide: each rank would draw its own."""
    for name, parameter in model.named_parameters():
        if nn.parameter.is_lazy(parameter):
            raise InputError(
                f"hr.sar.wrap: expected initialised parameters, got {name}, whose shape is not known yet; give the "
                "layer in_channels in the place of -1, or call the model once before it is wrapped"
            )


#: Keys of masks hold 64 bits of calls; half of them is more than any training draws, and leaves room to go on.
MOST_CALLS = 2**63 - 1


def dropout_state(model: nn.Module) -> dict[str, int]:
    """Return the state of the dropout masks of a wrapped model: the number of draws of each module, by name.

    Masks are a function of the seed of `wrap` and of these numbers, which are the same on all ranks. They are not in
    ``model.state_dict()``, which is that of the model before `wrap`. Save both in a checkpoint.

    >>> import headrace as hr, torch
    >>> graph = hr.sar.ShardedGraph(hr.Graph.from_coo([0, 1, 2], [1, 2, 0], num_nodes=3))
    >>> model = hr.sar.wrap(torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Dropout(0.5)), graph)
    >>> out = model(torch.randn(graph.num_src, 4))
    >>> state = {"model": model.state_dict(), "dropout": hr.sar.dropout_state(model)}
    >>> state["dropout"]
    {'1': 1}

    Parameters
    ----------
    model
        A model that `wrap` has returned.
    """
    return {name: keys.calls for name, keys in keys_by_name(model).items()}


def load_dropout_state(model: nn.Module, state: Mapping[str, Any]) -> None:
    """Continue the dropout masks at a state, with the same seed and any number of ranks.

    Parameters
    ----------
    model
        A model that `wrap` has returned, with the same modules.
    state
        A result of `dropout_state`.

    Raises
    ------
    InputError
        If it is the state of another model, or not a state, or has numbers below 0 or above 2**63 - 1. The model is
        then unchanged.
    """
    known = keys_by_name(model)
    if not isinstance(state, Mapping) or set(state) != set(known):
        came = sorted(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
        raise InputError(
            f"hr.sar.load_dropout_state: expected the dropout_state of a model with the modules {sorted(known)}, got "
            f"{came}; wrap the model first, as it was when the state was taken"
        )
    calls = {
        name: whole_number(value, f"hr.sar.load_dropout_state: {name}", 0, InputError, MOST_CALLS)
        for name, value in state.items()
    }
    for name, keys in known.items():
        keys.calls = calls[name]
