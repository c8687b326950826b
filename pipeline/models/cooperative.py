"""Models on cooperative batches: rows of a layer reach every rank that needs them, and gradients are summed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from traceback import format_exception
from typing import Any

import torch
from torch import Tensor, nn

from headrace.ops.errors import InputError
from headrace.pipeline.data.batch import MiniBatch
from headrace.pipeline.data.checks import as_list, check_module
from headrace.pipeline.distributed.channel import Comm, check_channel
from headrace.pipeline.distributed.comm import sum_hook, world_comm
from headrace.pipeline.distributed.job import is_distributed
from headrace.pipeline.models.bound_block import bind
from headrace.pipeline.models.cooperative_agreement import check_same_model
from headrace.pipeline.models.cooperative_degrees import count_on_all_ranks
from headrace.pipeline.models.cooperative_dropout import CooperativeDropout, convert_dropout
from headrace.pipeline.models.cooperative_norm import CooperativeBatchNorm, convert_batch_norm
from headrace.pipeline.models.cooperative_trial import try_layer
from headrace.pipeline.models.local_modules import check_replaceable
from headrace.pipeline.models.recomputation import is_recomputing
from headrace.pipeline.models.running_batch import RUNNING, RunningBatch, cannot_be_recomputed

_MARK = "_exchanges_rows"  # of layers that have hooks
_EXCHANGED = "_has_exchanged_rows"  # of layers whose last call took part in an exchange
_TRIED = "_is_exact_on_ranks"  # of layers of which a batch has told: in which modes, training or not


class Cooperative(nn.Module):
    """A model whose layers exchange rows between ranks; made by :func:`cooperative`."""

    def __init__(self, model: nn.Module, layers: Sequence[nn.Module], seed: int = 0) -> None:
        super().__init__()
        self.model = model
        self._seed = seed
        self._num_layers = len(layers)
        self._comm: Comm | None = None
        self._compared: set[int] = set()  # ranks of this process: threads may share the module
        for number, layer in enumerate(layers):
            if hasattr(layer, _MARK):
                raise InputError(
                    f"cooperative: layer {number} exchanges rows already; wrap a model once, and give every layer a "
                    "module of its own"
                )
            object.__setattr__(layer, _MARK, True)
            layer.register_forward_pre_hook(_exchange_input(number), with_kwargs=True)
            layer.register_forward_hook(_leave(number))

    def forward(self, batch: MiniBatch, *args: Any, **kwargs: Any) -> Any:
        """Call the model with the arguments behind the batch; return its output rows for this rank's unique seeds.

        Raises
        ------
        InputError
            If the batch has another number of layers than the model, or its layers were not called as expected.
        """
        batch = _with_layers(batch, self._num_layers)
        if len(batch.blocks) != self._num_layers:
            raise InputError(
                f"cooperative: the batch has {len(batch.blocks)} blocks, the model {self._num_layers} layers; name the "
                "layers that take a block each, cooperative(model, layers=[...])"
            )
        running = RunningBatch.of(batch, self._seed)
        self._comm = comm = running.comm
        if (
            comm is not None
            and comm.world_size > 1
            and comm.rank not in self._compared
            and check_same_model(self.model, self._seed, batch, comm)
        ):
            self._compared.add(comm.rank)
        token = RUNNING.set(running)
        try:
            out = self.model(
                *(bind(argument, running) for argument in args),
                **{name: bind(argument, running) for name, argument in kwargs.items()},
            )
        finally:
            RUNNING.reset(token)
        if running.num_layers != self._num_layers or not isinstance(out, Tensor):
            raise InputError(
                f"cooperative: expected the model to call each of its {self._num_layers} layers once and to return a "
                f"tensor; it called {running.num_layers} and returned {type(out).__name__}"
            )
        num_rows = _num_rows(batch, self._num_layers)
        if out.shape[:1] != (num_rows,):
            raise InputError(
                f"cooperative: expected the model to return a row for each of the {num_rows} nodes that its last layer "
                f"has on this rank, got {list(out.shape)}; take rows from what cooperative(model)(batch, ...) returns, "
                "out[batch.seed_index]"
            )
        return batch.exchange(self._num_layers, out)

    @property
    def comm(self) -> Comm | None:
        """The channel of the last batch; None before the first one, and after one of a single process."""
        return self._comm


def _with_layers(batch: MiniBatch, num_layers: int) -> MiniBatch:
    """Return a batch that is one square block, the subgraph of its nodes, with a layer for each of the model's."""
    if not batch.exchanges:
        is_square = len(batch.blocks) == 1 and batch.blocks[0].num_src == batch.blocks[0].num_dst
        return batch.replace(blocks=batch.blocks * num_layers) if is_square else batch
    if len(batch.exchanges) != 2 or len(batch.exchanges[0].owned) != len(batch.exchanges[1].owned):
        return batch
    layer, of_seeds = batch.exchanges
    return batch.replace(blocks=batch.blocks * num_layers, exchanges=(*[layer] * num_layers, of_seeds))


def _num_rows(batch: MiniBatch, layer: int) -> int:
    """Return how many rows this rank has before a layer, or behind the last one."""
    if batch.exchanges:
        return len(batch.exchanges[layer].owned)
    blocks = batch.blocks
    if not blocks:
        return len(batch.n_id)
    return blocks[layer].num_src if layer < len(blocks) else blocks[-1].num_dst


def _exchange_input(number: int) -> Any:
    """Return a hook that exchanges the input rows of a layer, wherever they are among its arguments."""

    def hook(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], Any] | None:
        running = RUNNING.get()
        if running is None:
            if getattr(layer, _EXCHANGED, False) and is_recomputing():
                raise cannot_be_recomputed()
            return None
        running.enter(number)
        comm = running.comm
        exchanged = comm is not None and not running.batch.exchanges[number].stays
        object.__setattr__(layer, _EXCHANGED, exchanged)
        with _told_to_all(comm):
            args, kwargs = _of_sources(running, number, args, kwargs)
        if comm is None:
            return args, kwargs
        tried: frozenset[bool] = getattr(layer, _TRIED, frozenset())
        if comm.world_size > 1 and layer.training not in tried:
            with _told_to_all(comm):
                if try_layer(number, layer, args, kwargs, running):
                    object.__setattr__(layer, _TRIED, tried | {layer.training})
        exchange = running.batch.exchanges[number]
        args = tuple(count_on_all_ranks(argument, exchange, comm) for argument in args)
        return args, {name: count_on_all_ranks(argument, exchange, comm) for name, argument in kwargs.items()}

    return hook


def _of_sources(
    running: RunningBatch, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a layer with the rows of all its sources.

    Raises
    ------
    InputError
        If there are none of this rank's nodes among them.
    """
    _check_no_dictionaries(number, (*args, *kwargs.values()))
    if not running.needs_exchange(number):
        return args, kwargs
    for place, argument in enumerate(args):
        rows = _exchanged(running, number, argument)
        if rows is not None:
            return (*args[:place], rows, *args[place + 1 :]), kwargs
    for name, argument in kwargs.items():
        rows = _exchanged(running, number, argument)
        if rows is not None:
            return args, {**kwargs, name: rows}
    raise InputError(
        f"cooperative: no argument of layer {number} has a row for each of this rank's "
        f"{_num_rows(running.batch, number)} nodes; expected h, or a pair (h, h[:num_dst])"
    )


def _check_no_dictionaries(number: int, arguments: Iterable[Any]) -> None:
    """Refuse rows and edges by type, which `HeteroConv` takes: rows are exchanged in the order of the batch's nodes."""
    for argument in arguments:
        if isinstance(argument, tuple | list):
            _check_no_dictionaries(number, argument)
        elif isinstance(argument, Mapping) and any(isinstance(one, Tensor) for one in argument.values()):
            raise InputError(
                f"cooperative: expected the rows of layer {number} in one tensor, in the order of batch.n_id, got a "
                f"dictionary of {', '.join(map(str, argument))}; fetch all types as one feature and take RGCNConv, "
                "conv((h, h[:block.num_dst]), block.edge_index, block.edge_types), or a module of your own as the "
                "layer, which takes h and the block, calls HeteroConv with {name: h[block.types.places(name)]} and "
                "block.edge_index_dict, and returns its rows in one tensor"
            )


@contextmanager
def _told_to_all(comm: Comm | None) -> Iterator[None]:
    """Let the other ranks know of an error here, who would wait for this one in their next exchange."""
    try:
        yield
    except InputError as error:
        if comm is not None:
            comm.fail("".join(format_exception(error)))
        raise


def _leave(number: int) -> Any:
    """Return a hook that notes the end of a layer."""

    def hook(layer: nn.Module, args: tuple[Any, ...], out: Any) -> None:
        del layer, args, out
        running = RUNNING.get()
        if running is not None:
            running.leave(number)

    return hook


def _exchanged(running: RunningBatch, number: int, argument: Any) -> Any:
    """Return the exchanged form of an argument that holds a layer's input rows, else None."""
    num_owned = _num_rows(running.batch, number)
    if isinstance(argument, Tensor):
        rows = argument.is_floating_point() and argument.dim() > 1 and len(argument) == num_owned
        return running.exchange(number, argument) if rows else None
    if isinstance(argument, tuple) and len(argument) == 2 and isinstance(argument[0], Tensor):
        # The destinations are the first nodes in both orders: their rows need no exchange.
        source = _exchanged(running, number, argument[0])
        return None if source is None else (source, argument[1])
    return None


def cooperative(model: nn.Module, layers: Sequence[nn.Module] | None = None, *, seed: int = 0) -> Cooperative:
    """Return a module that runs a model for the blocks of one process on cooperative batches.

    ``cooperative(model)(batch, ...)`` calls ``model(...)``. Before each layer except the first, whose input the loader
    has exchanged, it sends the rows of the input to the ranks that need them. It sends the output of the last layer to
    the ranks of the seeds (cooperative minibatching, arXiv 2310.12403). Gradients go the other way. On a batch of a
    single process it only calls the model; a number of layers, or a form of rows, that several ranks refuse is refused
    there, too.

    Between layers the model processes the rows of the nodes that this rank owns. Each node has one owner, so operations
    row by row are exact. Two kinds of modules are replaced, in place, by exact ones: every `nn.BatchNorm1d` by one over
    the rows of all ranks, every `nn.Dropout` by one with masks by node, or by edge if a layer calls it `attn_drop`, as
    DGL does. Subclasses of these, other kinds of batch normalisation and dropout, and PyG's norms over many rows
    (``GraphNorm``, ``PairNorm``, ...) are refused. `F.dropout`, which PyG's layers use, draws independently on each
    rank.

    `torch.utils.checkpoint` may wrap operations between layers; it then uses the same masks again. With several ranks
    it is refused around layers, because their input is received from other ranks.

    In a subgraph, the one square block of `induce_subgraph` and `sample_shadow`, all layers take the same block. Call
    them as ``conv((h, h[:num_dst]), edge_index)`` there, too: the rows of a rank's own nodes precede those of other
    ranks.

    If ranks share edges (``partition=hr.EdgePartition``), layers of `hr.nn`, and others that call ``block.aggregate``
    and ``block.attend``, exchange rows themselves; modules between them are replaced as above.

    A rank has all sampled in-edges of the nodes that it owns, but only some of the out-edges of a source. Results from
    in-edges are exact: sums, means, attention, in-degrees (``norm="right"`` of DGL's `GraphConv`). DGL blocks count the
    out-edges on all ranks (``norm="both"`` and ``"left"``), in two more collectives for each such layer. Results that
    depend on edges of other nodes or on all rows are not exact: degrees of sources (PyG's `GCNConv` with its defaults,
    DGL's ``EdgeWeightNorm("both")``), messages that are passed twice, means over all rows. Therefore each layer is
    tried in the first batch of its mode, training or evaluation: it is called two or three more times, without
    gradients, with other edges and rows for some nodes. It is refused if the rows of the other nodes change. Its
    buffers and random state are restored, and its hooks do not run. Layers that pass messages along edges which are not
    among their arguments, and rows by type, as in ``HeteroConv``, are refused, too. Nothing is tried between layers:
    means over rows and degrees that the model computes there are those of one rank.

    All ranks need the same parameters, buffers, modes and seed of dropout: in the first batch they compare them, in one
    collective.

    Parameters
    ----------
    model
        Any module. It is not copied; the layers get hooks.
    layers
        The modules that take one block each, in the order of ``batch.blocks``: PyG layers called as ``conv((h,
        h[:num_dst]), edge_index)`` or with the result of ``block.to_pyg(h)``, DGL layers called as ``conv(block, h)``
        or ``conv(block, (h, h[:num_dst]))``, or others with an argument `h`. By default the modules of the model's only
        `nn.ModuleList`.
    seed
        The seed of dropout masks. Masks are a function of this seed, the batch and the node, so all ranks agree; they
        do not depend on ``torch.manual_seed``. Runs that differ only in torch's seed have the same masks; for other
        masks pass ``seed=torch.initial_seed()`` of rank 0 on all ranks.

    Raises
    ------
    InputError
        If no layers are given and the model does not have exactly one `nn.ModuleList`; for layers that are not modules
        of the model; for a batch normalisation or dropout of another kind; and, when the model is called on several
        ranks, for layers that are not exact there, and for models that differ.
    """
    check_module(model, "cooperative")
    if layers is None:
        lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
        if len(lists) != 1:
            raise InputError(
                f"cooperative: expected one nn.ModuleList in the model, with its layers, got {len(lists)}; name the "
                "modules that take one block each, cooperative(model, layers=[...])"
            )
        layers = list(lists[0])
    layers = as_list(layers, "cooperative: layers", "modules")
    check_replaceable(model, "cooperative", (CooperativeBatchNorm, CooperativeDropout))
    _check_layers(model, layers)
    return Cooperative(convert_dropout(convert_batch_norm(model), seed), layers, seed)


def _check_layers(model: nn.Module, layers: Sequence[nn.Module]) -> None:
    """Refuse layers that the model cannot call."""
    within = set(model.modules())
    for module in within:
        if hasattr(module, "get_attention_loss"):
            raise InputError(
                f"cooperative: {type(module).__module__}.{type(module).__name__} has a loss of its own over the edges "
                "of a batch, of which each rank has some; use GATConv or GATv2Conv"
            )
    for number, layer in enumerate(layers):
        if not isinstance(layer, nn.Module):
            raise InputError(f"cooperative: expected modules as layers, got {type(layer).__name__} as layer {number}")
        if layer not in within:
            raise InputError(
                f"cooperative: expected layers of the model, got a {type(layer).__name__} as layer {number} that is "
                "none of its modules; pass those that it calls, cooperative(model, layers=[model.first, ...])"
            )


@torch.no_grad()
def sum_gradients(parameters: nn.Module | Iterable[nn.Parameter], comm: Comm | None = None) -> None:
    """Sum the gradients of all ranks; call it between ``backward()`` and the optimiser's step.

    If every rank divides its loss by ``batch.num_global_seeds``, the sum is the gradient of one process. A rank with an
    empty share contributes zeros. A parameter without a gradient on any rank still has none.

    Parameters
    ----------
    parameters
        A module or its parameters, in the same order on every rank.
    comm
        The channel. By default that of the last batch, for a module of `hr.cooperative`, otherwise that of
        torch.distributed. Without a channel, or with one rank, nothing is done.

    Raises
    ------
    InputError
        For sparse gradients, values that are not parameters, no parameters, a `comm` that is not a channel, and a
        module whose gradients `sum_hook` has already summed.
    PeerError
        If another rank failed or was lost.
    """
    check_channel(comm, "sum_gradients")
    trained = [one for one in _parameters(parameters) if one.requires_grad]
    if comm is None and isinstance(parameters, Cooperative):
        comm = parameters.comm
    if comm is None:
        comm = world_comm() if is_distributed() else None
    if any(one.grad is not None and one.grad.is_sparse for one in trained):
        raise InputError(
            "sum_gradients: expected dense gradients, got sparse ones, which ranks cannot add up by position; make the "
            "table by nn.Embedding(..., sparse=False)"
        )
    if comm is None or comm.world_size == 1:
        return
    for dtype in dict.fromkeys(one.dtype for one in trained):
        group = [one for one in trained if one.dtype == dtype]
        present = torch.tensor([float(one.grad is not None) for one in group], dtype=dtype, device=group[0].device)
        gradients = [torch.zeros_like(one) if one.grad is None else one.grad for one in group]
        summed = comm.all_reduce_sum(torch.cat([present, *(gradient.reshape(-1) for gradient in gradients)]))
        present, *parts = summed.split([len(group), *(one.numel() for one in group)])  # type: ignore[no-untyped-call]
        for one, part, ranks in zip(group, parts, present.tolist(), strict=True):
            one.grad = part.view_as(one) if ranks else None


def _parameters(parameters: nn.Module | Iterable[nn.Parameter]) -> list[nn.Parameter]:
    """Return the parameters that `sum_gradients` was given; refuse what would have no effect there."""
    if isinstance(parameters, nn.Module):
        if any(hook is sum_hook for hook, _ in getattr(parameters, "_comm_hooks", ())):
            raise InputError(
                "sum_gradients: expected gradients that are not added up yet, got those of a DistributedDataParallel "
                "with hr.sum_hook, which adds them up in backward(); leave sum_gradients out"
            )
        return list(parameters.parameters())
    if isinstance(parameters, Tensor) or not isinstance(parameters, Iterable):
        raise InputError(
            f"sum_gradients: expected a module or its parameters, got {type(parameters).__name__}; pass the module, or "
            "a list"
        )
    found = list(parameters)
    for one in found:
        if not isinstance(one, Tensor) or not one.is_leaf:
            kind = "a tensor that was computed from others" if isinstance(one, Tensor) else type(one).__name__
            raise InputError(f"sum_gradients: expected parameters, got {kind} among them; pass the module itself")
    if not found:
        raise InputError(
            "sum_gradients: expected parameters, got none; a generator, as model.parameters() is, gives its own once: "
            "pass the module itself"
        )
    return found
