"""Models on cooperative batches: rows of a layer reach every rank that needs them, and gradients are summed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from traceback import format_exception
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from headrace.ops.errors import InputError
from headrace.ops.text import utf8
from headrace.ops.warn_user import warn_user
from headrace.pipeline.data import MiniBatch, as_list, exact_digest
from headrace.pipeline.data.arrays import check_kind
from headrace.pipeline.data.checks import check_module
from headrace.pipeline.distributed.channel import Comm, check_channel
from headrace.pipeline.distributed.comm import sum_hook, world_comm
from headrace.pipeline.distributed.job import is_distributed
from headrace.pipeline.distributed.shared_block import SharedBlock
from headrace.pipeline.models.bound_block import bind
from headrace.pipeline.models.cooperative_layers import (
    check_layers,
    exchange_rows_of,
    num_rows_before,
)
from headrace.pipeline.models.cooperative_modules import CooperativeBatchNorm, CooperativeDropout, convert_modules
from headrace.pipeline.models.replace_modules import check_replaceable
from headrace.pipeline.models.rows_by_type import exchange_by_type, is_by_type, numbers_by_type
from headrace.pipeline.models.running_batch import RUNNING, RunningBatch
from headrace.pipeline.models.shared_layers import share_messages
from headrace.pipeline.models.watched_layers import watch_layers
from headrace.pipeline.models.watched_modules import Ranks, WatchedModules, check_row_local

#: Numbers of each parameter that ranks compare in later epochs.
MOST_COMPARED = 4096

#: What ranks compare, and what to do where it differs.
_COMPARED = (
    ("parameters", "call torch.manual_seed(...) with one seed on all ranks ahead of the model, or load one checkpoint"),
    ("buffers", "load one checkpoint on all ranks"),
    ("modes", "call model.train() or model.eval() on all ranks alike"),
    ("seed of dropout", "pass the same seed= to hr.cooperative"),
)


class Cooperative(nn.Module):
    """A model whose layers exchange rows between ranks; made by :func:`cooperative`."""

    def __init__(
        self, model: nn.Module, layers: Sequence[nn.Module], seed: int, row_local: Sequence[nn.Module]
    ) -> None:
        super().__init__()
        self.model = model
        self._seed, self._row_local = seed, row_local
        self._num_layers = len(layers)
        self._layers = list(layers)
        self._comm: Comm | None = None
        # The last epoch in which models were compared, by rank: threads of this process may share the module.
        self._compared: dict[int, int] = {}
        ours = [one for one in model.modules() if isinstance(one, CooperativeBatchNorm | CooperativeDropout)]
        within = [module for layer in layers for module in layer.modules()]
        self._between = WatchedModules(model, within, [*row_local, *ours], _ranks_of_running, "cooperative")
        for number, layer in enumerate(layers):
            exchange_rows_of(number, layer)

    def forward(self, batch: MiniBatch, *args: Any, **kwargs: Any) -> Any:
        """Call the model with the arguments behind the batch; return its output rows for this rank's unique seeds.

        Raises
        ------
        InputError
            If the first argument is not a batch, the batch has another number of layers than the model, or its layers
            were not called as expected.
        """
        advice = "call cooperative(model)(batch, batch.x, batch.blocks)"
        check_kind(batch, MiniBatch, "cooperative: expected the batch as first argument", advice, InputError)
        batch = _with_layers(batch, self._num_layers)
        if len(batch.blocks) != self._num_layers:
            raise InputError(
                f"cooperative: the batch has {len(batch.blocks)} blocks, the model {self._num_layers} layers; name the "
                "layers that take a block each, cooperative(model, layers=[...])"
            )
        running = RunningBatch.of(batch, self._seed)
        self._comm = comm = running.comm
        if comm is not None and comm.world_size > 1 and batch.epoch > self._compared.get(comm.rank, -1):
            self._compare(batch, comm)
        token = RUNNING.set(running)
        try:
            if comm is not None and comm.world_size > 1:
                self._between.install()
                if any(isinstance(block, SharedBlock) for block in batch.blocks):
                    share_messages(self.model, self._row_local)
                else:
                    watch_layers(self._layers)
            out = self.model(
                *(bind(argument, running) for argument in args),
                **{name: bind(argument, running) for name, argument in kwargs.items()},
            )
        finally:
            RUNNING.reset(token)
        if running.num_layers == self._num_layers and is_by_type(out) and batch.types is not None:
            return exchange_by_type(batch, self._num_layers, out) if batch.exchanges else out
        if running.num_layers != self._num_layers or not isinstance(out, Tensor):
            raise InputError(
                f"cooperative: expected the model to call each of its {self._num_layers} layers once and to return a "
                f"tensor; it called {running.num_layers} and returned {type(out).__name__}"
            )
        num_rows = num_rows_before(batch, self._num_layers)
        if out.shape[:1] != (num_rows,):
            raise InputError(
                f"cooperative: expected the model to return a row for each of the {num_rows} nodes that its last layer "
                f"has on this rank, got {list(out.shape)}; take rows from what cooperative(model)(batch, ...) returns, "
                "out[batch.seed_index]"
            )
        return batch.exchange(self._num_layers, out)

    def _compare(self, batch: MiniBatch, comm: Comm) -> None:
        """Compare the model with those of the other ranks before its first batch, and what it learned in each epoch."""
        if comm.rank in self._compared:
            _warn_of_drift(self.model, batch, comm)
        elif not _check_same_model(self.model, self._seed, batch, comm):
            return
        self._compared[comm.rank] = batch.epoch

    @property
    def comm(self) -> Comm | None:
        """The channel of the last batch; None before the first one, and after one of a single process."""
        return self._comm


def _ranks_of_running() -> Ranks | None:
    """Return what modules between layers must know of the other ranks; None where there are none."""
    running = RUNNING.get()
    comm = None if running is None else running.comm
    if running is None or running.layer is not None or comm is None or comm.world_size == 1:
        return None
    blocks = running.batch.blocks
    numbers = {len(running.nodes), *(size for block in blocks for size in (block.num_dst, block.num_edges))}
    numbers |= numbers_by_type(running.batch)
    return Ranks(frozenset(numbers), lambda error: comm.fail("".join(format_exception(error))))


def _check_same_model(model: nn.Module, seed: int, batch: MiniBatch, comm: Comm) -> bool:
    """Compare the model with those of the other ranks, in one collective.

    Parameters
    ----------
    model
        The model.
    seed
        Of its dropout.
    batch
        The batch that it is about to process.
    comm
        The channel of its layers.

    Returns
    -------
    bool
        Whether models were compared; False as long as the sizes of lazy layers are unknown.

    Raises
    ------
    InputError
        On all ranks, if a model differs.
    """
    tensors = [*model.parameters(), *model.buffers()]
    if any(map(is_lazy, tensors)):
        return False
    modes = str([module.training for module in model.modules()])
    parameters, buffers = _number(model.named_parameters()), _number(model.named_buffers())
    mine = [parameters, buffers, _hash(modes), _hash(str(seed))]
    for others, (what, advice) in zip(_differing(mine, batch, comm), _COMPARED, strict=True):
        if others:
            raise InputError(
                f"cooperative: expected the same model on all ranks, got other {what} on rank "
                f"{', '.join(map(str, others))} than on rank 0; {advice}"
            )
    return True


def _warn_of_drift(model: nn.Module, batch: MiniBatch, comm: Comm) -> None:
    """Warn where parameters differ between ranks after they were equal; of each the first numbers are compared."""
    parts = ((name, one.detach().reshape(-1)[:MOST_COMPARED]) for name, one in model.named_parameters())
    (others,) = _differing([_number(parts)], batch, comm)
    if others:
        warn_user(
            f"cooperative: expected the same parameters on all ranks in epoch {batch.epoch}, got others on rank "
            f"{', '.join(map(str, others))} than on rank 0; call hr.sum_gradients(model) on all ranks between "
            "loss.backward() and the step of the optimiser",
        )


def _differing(mine: list[int], batch: MiniBatch, comm: Comm) -> list[list[int]]:
    """Return for each of some numbers the ranks that have another one than rank 0, in one collective."""
    size, world_size = len(mine), comm.world_size
    comm.at((batch.epoch, batch.index))
    counts = [size] * world_size
    sent = torch.tensor(mine * world_size, dtype=torch.int64, device="cpu")
    of_ranks = comm.all_to_all(sent, counts, counts).view(world_size, size).tolist()
    return [
        [rank for rank in range(world_size) if of_ranks[rank][column] != of_ranks[0][column]] for column in range(size)
    ]


def _number(tensors: Iterable[tuple[str, Tensor]]) -> int:
    """Return a digest of tensors as a number."""
    return _hash(exact_digest((name, tensor.detach()) for name, tensor in tensors))


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(utf8(text), digest_size=7).digest(), "little")


def _with_layers(batch: MiniBatch, num_layers: int) -> MiniBatch:
    """Return a batch that is one square block, the subgraph of its nodes, with a layer for each of the model's."""
    if not batch.exchanges:
        is_square = len(batch.blocks) == 1 and batch.blocks[0].num_src == batch.blocks[0].num_dst
        return batch.replace(blocks=batch.blocks * num_layers) if is_square else batch
    if len(batch.exchanges) != 2 or len(batch.exchanges[0].owned) != len(batch.exchanges[1].owned):
        return batch
    layer, of_seeds = batch.exchanges
    return batch.replace(blocks=batch.blocks * num_layers, exchanges=(*[layer] * num_layers, of_seeds))


def cooperative(
    model: nn.Module, layers: Sequence[nn.Module] | None = None, *, seed: int = 0, row_local: Sequence[nn.Module] = ()
) -> Cooperative:
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
    (``GraphNorm``, ``PairNorm``, ...) are refused. `F.dropout`, which PyG's layers use, draws on each rank by itself.

    `torch.utils.checkpoint` may wrap operations between layers; it then uses the same masks again. With several ranks
    it is refused around layers, because their input is received from other ranks.

    In a subgraph, the one square block of `induce_subgraph` and `sample_shadow`, all layers take the same block. Call
    them as ``conv((h, h[:num_dst]), edge_index)`` there, too: the rows of a rank's own nodes precede those of other
    ranks.

    If ranks share edges (``partition=hr.EdgePartition``), layers of `hr.nn`, those of PyG that take
    ``block.edge_index``, a user's own among them, and others that call ``block.aggregate`` and ``block.attend``
    exchange rows themselves; modules between them are replaced as above.

    A rank has all sampled in-edges of the nodes that it owns, but only some of the out-edges of a source. Results from
    in-edges are exact: sums, means, attention, in-degrees (``norm="right"`` of DGL's `GraphConv`). DGL blocks count the
    out-edges on all ranks (``norm="both"`` and ``"left"``), in two more collectives for each such layer. Layers of PyG
    that call its ``gcn_norm``, and `hr.nn.GCNConv`, have in-degrees of sources from their owners, in one more. Other
    results that depend on edges of other nodes or on all rows are not exact: degrees of sources that a layer counts,
    DGL's ``EdgeWeightNorm("both")``, messages that are passed twice, means over all rows. Each layer is
    watched in its first call of each mode, training or evaluation, which tells rows of sources, of destinations and of
    edges apart, also of edges that it has from an attribute: a layer that is not exact is refused with its line. Layers
    of DGL, and those on graphs with types, are tried instead: they are called two or three more times, without
    gradients, with other edges and rows for some nodes, and refused if the rows of the other nodes change. A
    `HeteroConv` of PyG takes rows by type and ``block.edge_index_dict``; its layers are tried one by one. Such a model
    may return rows by type: of this rank's unique seeds, by their types.

    Modules between layers are watched at their first call in each mode: an operation that mixes rows, counts them or
    depends on their positions is refused with its line, as ``nn.Softmax(dim=0)``, attention along rows, aggregations.
    Operations that cannot be seen, of `torch.jit` and C++, are refused as well; name such a module in `row_local`.
    Modules that draw by themselves, such as `nn.RReLU`, are refused at once. Functions that the model calls itself
    between layers are not watched: means over rows and degrees that they compute are those of one rank.

    All ranks need the same parameters, buffers, modes and seed of dropout: in the first batch they compare them, in one
    collective. In the first batch of each later epoch they compare parts of the parameters; a warning names
    ranks that drifted away, as without `sum_gradients`.

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
    row_local
        Modules of the model that work row by row, as you vouch for: they are not watched.

    Raises
    ------
    InputError
        If no layers are given and the model does not have exactly one `nn.ModuleList`; for layers that are not modules
        of the model; for a batch normalisation or dropout of another kind; and, when the model is called on several
        ranks, for layers that are not exact there, for other modules that mix rows, and for models that differ.
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
    row_local = check_row_local(row_local, model, "cooperative")
    check_replaceable(model, "cooperative", (CooperativeBatchNorm, CooperativeDropout))
    check_layers(model, layers)
    return Cooperative(convert_modules(model, seed), layers, seed, row_local)


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
